//! One hub of a store, as seen by a caller: makes jobs and reads of calls, and waits for their answers.

use std::sync::Arc;

use futures::channel::oneshot;

use dauer_store::{Cause, ClaimedTurn, Effort, HubName, Refused, SessionId, StoreLimits, Want};

use crate::engine::{Delivery, Ear, Order, Waiting, answer_of, answers_of, batch_job};
use crate::fail::Outcome;
use crate::fault::{Call, Strike};
use crate::state::{Scope, View, Won};
use crate::store::Shared;

/// One hub of a store.
#[derive(Clone)]
pub(crate) struct Shell {
    pub(crate) shared: Arc<Shared>,
    pub(crate) hub: HubName,
}

impl Shell {
    pub(crate) fn limits(&self) -> StoreLimits {
        self.shared.limits.clone()
    }

    pub(crate) fn effort(&self) -> Effort {
        self.shared.tally.read()
    }

    pub(crate) fn changes(&self, ear: Ear) -> dauer_store::Changes {
        let changes = self.shared.listeners.subscribe(&self.hub, ear);
        // A writer that is gone has nothing to tell either.
        let _ = self.shared.writer.send(Order::Wake);
        changes
    }

    /// A write. A call with a name may meet a planned fault.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        call: Option<Call>,
        mut operation: impl FnMut(&mut Scope<'_, '_>) -> Outcome<T> + Send + 'static,
    ) -> Result<T, Refused> {
        one(self.send_off(call, vec![()], move |scope, ()| operation(scope), |_| {}).await)
    }

    /// A claim: what it wins finds its way back when the caller is gone.
    pub(crate) async fn claim<T: Send + 'static>(
        &self,
        call: Call,
        mut operation: impl FnMut(&mut Scope<'_, '_>) -> Outcome<Won<T>> + Send + 'static,
    ) -> Result<Vec<T>, Refused> {
        let undelivered = Arc::clone(&self.shared.undelivered);
        let claim = move |scope: &mut Scope<'_, '_>, (): &()| {
            operation(scope).map(|won| Delivery::new(won, Arc::clone(&undelivered)))
        };
        Ok(one(self.send_off(Some(call), vec![()], claim, Delivery::send_off).await)?.receive())
    }

    /// A claim that waits for what becomes ready.
    pub(crate) async fn wait(&self, session: SessionId, want: Want) -> Result<Vec<ClaimedTurn>, Refused> {
        let undelivered = Arc::clone(&self.shared.undelivered);
        let (claim, answer) = Waiting::new(self.hub.clone(), session, want, undelivered);
        self.shared.writer.send(Order::Await(claim)).map_err(|_| closed())?;
        answer_of(answer).await
    }

    /// A batch: every element is judged on its own, so that one that breaks does not take the others with it.
    pub(crate) async fn batch<A, T>(
        &self,
        call: Option<Call>,
        batch: Vec<A>,
        each: impl FnMut(&mut Scope<'_, '_>, &A) -> Outcome<T> + Send + 'static,
    ) -> Vec<Result<T, Refused>>
    where
        A: Send + 'static,
        T: Send + 'static,
    {
        self.send_off(call, batch, each, |_| {}).await
    }

    async fn send_off<A: Send + 'static, T: Send + 'static>(
        &self,
        call: Option<Call>,
        batch: Vec<A>,
        each: impl FnMut(&mut Scope<'_, '_>, &A) -> Outcome<T> + Send + 'static,
        send_off: fn(&mut T),
    ) -> Vec<Result<T, Refused>> {
        let count = batch.len();
        let all = |refused: &Refused| (0..count).map(|_| Err(refused.clone())).collect();
        let strike = call.and_then(|call| self.shared.faults.next(call));
        let (job, answers) = batch_job(self.hub.clone(), batch, each, send_off);
        let order = Order::Job(job, strike.as_ref().and_then(Strike::instead));
        if self.shared.writer.send(order).is_err() {
            return all(&closed());
        }
        let answers = answers_of(answers, count).await;
        match after(strike).await {
            Some(refused) => all(&refused),
            None => answers,
        }
    }

    /// A read.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&View<'_>) -> Outcome<T> + Send + 'static,
    ) -> Result<T, Refused> {
        let (caller, answer) = oneshot::channel();
        let hub = self.hub.clone();
        let read: crate::engine::Read = Box::new(move |file| {
            let answer = file.and_then(|(db, now)| {
                let view = View::of(db, &hub, now);
                view.and_then(|view| operation(&view)).map_err(crate::fail::Fail::into_refused)
            });
            // A caller who is gone does not need it.
            let _ = caller.send(answer);
        });
        self.shared.reader.send(Some(read)).map_err(|_| closed())?;
        answer.await.unwrap_or_else(|_| Err(closed()))
    }
}

/// The answer to a batch of one.
fn one<T>(answers: Vec<Result<T, Refused>>) -> Result<T, Refused> {
    answers.into_iter().next().unwrap_or_else(|| Err(closed()))
}

async fn after(strike: Option<Strike>) -> Option<Refused> {
    match strike {
        Some(strike) => strike.after().await,
        None => None,
    }
}

fn closed() -> Refused {
    Refused::NotExecuted(Cause::new("the store is closed; open it again"))
}
