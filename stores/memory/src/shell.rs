//! The asynchronous shell around the state: where faults happen.

use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

use dauer_core::planted::{self, Bug};
use dauer_store::{Cause, HubName, Refused};

use crate::defect::Defect;
use crate::fault::{Call, Fault};
use crate::state::State;
use crate::store::MemoryStore;

/// One hub of a store, as seen by a caller.
#[derive(Clone)]
pub(crate) struct Shell {
    pub(crate) store: MemoryStore,
    pub(crate) hub: HubName,
}

impl Shell {
    /// Executes an operation as the plan of faults allows. `Err` is the fault, never an outcome of the operation.
    pub(crate) async fn call<T: Send>(
        &self,
        call: Call,
        mut operation: impl FnMut(&mut State) -> T + Send,
    ) -> Result<T, Refused> {
        match self.store.faults().next(call) {
            Fault::None => Ok(self.now(operation)),
            Fault::FailBefore => self.fail_before(call, operation),
            Fault::DelayAndFailBefore(delay) => {
                self.pause(delay).await;
                self.fail_before(call, operation)
            }
            Fault::LoseRequest => {
                let torn =
                    self.store.defects().broken(Defect::TornCheckpoint) || planted::is_on(Bug::SplitOutbox);
                if call == Call::CommitTurns && torn {
                    self.now(|state| state.torn = true);
                    self.now(operation);
                    self.now(|state| state.torn = false);
                }
                Err(unknown(call))
            }
            Fault::ExecuteAndFail => {
                self.now(operation);
                Err(unknown(call))
            }
            Fault::ExecuteDelayAndFail(delay) => {
                self.now(operation);
                self.pause(delay).await;
                Err(unknown(call))
            }
            Fault::DelayBefore(delay) => {
                self.pause(delay).await;
                Ok(self.now(operation))
            }
            Fault::DelayAfter(delay) => {
                let answer = self.now(operation);
                self.pause(delay).await;
                Ok(answer)
            }
            Fault::Duplicate => {
                self.now(&mut operation);
                Ok(self.now(operation))
            }
        }
    }

    /// The same for a batch: each element is executed on its own, and a fault is the answer for each.
    pub(crate) async fn batch<A: Clone + Send + Sync, T: Send>(
        &self,
        call: Call,
        batch: Vec<A>,
        each: impl Fn(&mut State, A) -> Result<T, Refused> + Send + Sync,
    ) -> Vec<Result<T, Refused>> {
        let stops = self.store.defects().broken(Defect::BatchStopsAtFirstRefusal);
        let count = batch.len();
        let answers = self.call(call, |state| {
            let mut refused = false;
            let mut answers = Vec::with_capacity(count);
            for element in &batch {
                let answer = if stops && refused {
                    Err(Refused::NotExecuted(Cause::new("an earlier element of the batch was refused")))
                } else {
                    each(state, element.clone())
                };
                refused |= answer.is_err();
                answers.push(answer);
            }
            answers
        });
        match answers.await {
            Ok(answers) => answers,
            Err(fault) => (0..count).map(|_| Err(fault.clone())).collect(),
        }
    }

    /// Executes at once, without faults.
    pub(crate) fn now<T>(&self, operation: impl FnOnce(&mut State) -> T) -> T {
        self.store.with_state(&self.hub, operation)
    }

    fn fail_before<T>(&self, call: Call, operation: impl FnOnce(&mut State) -> T) -> Result<T, Refused> {
        if self.store.defects().broken(Defect::NotExecutedExecutes) {
            self.now(operation);
        }
        Err(Refused::NotExecuted(Cause::new(format!("injected fault: {call:?} was not executed"))))
    }

    async fn pause(&self, delay: Duration) {
        match self.store.env() {
            Some(env) => env.sleep(delay).await,
            None => give_way().await,
        }
    }
}

fn unknown(call: Call) -> Refused {
    Refused::Unknown(Cause::new(format!("injected fault: the answer of {call:?} was lost")))
}

/// Pending once, ready the next time.
async fn give_way() {
    let mut waited = false;
    poll_fn(|context| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
