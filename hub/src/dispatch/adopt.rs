//! Tasks that a worker of this server executes or has answered, although this session does not hold them: a server before
//! this one had handed them out, or the session before this one.
//!
//! Invariant: the executor learns the outcome of each adoption that it asks for. It gets an adoption back when the session ends.

use std::sync::Arc;

use futures::channel::oneshot;
use futures::future::FutureExt;

use dauer_store::{Cause, Refused, TaskLease, TaskName};

use super::tasks::Answer;
use super::{Dispatch, Step};
use crate::executor::{Adopted, Adoption};
use crate::session::Session;

/// What the store says to an adoption.
type Said = Result<Option<TaskLease>, Refused>;

/// An adoption on its way.
pub(super) struct Asking {
    task: TaskName,
    purpose: Purpose,
    /// Refused calls so far.
    attempts: u32,
}

/// Why the session is to hold a task.
enum Purpose {
    /// A worker executes or has answered it. The executor learns the outcome.
    Executor(oneshot::Sender<Adopted>),
    /// Its answer came when the session had lost the task.
    Answer(Box<Answer>),
}

/// Adoptions that the executor has asked for.
#[derive(Default)]
pub(super) struct Adoptions {
    /// Those for the next call.
    next: Vec<Asking>,
    /// How many are not settled.
    open: usize,
}

impl Adoptions {
    /// The executor asks for one.
    pub(super) fn ask(&mut self, adoption: Adoption) {
        let Adoption { task, outcome } = adoption;
        self.open += 1;
        self.next.push(Asking { task, purpose: Purpose::Executor(outcome), attempts: 0 });
    }

    /// The answer is to a task that this session has lost. It counts while the task is open, whichever session holds it.
    pub(super) fn ask_for(&mut self, answer: Answer) {
        self.open += 1;
        let task = answer.task();
        self.next.push(Asking { task, purpose: Purpose::Answer(Box::new(answer)), attempts: 0 });
    }

    /// One goes into the next call again.
    pub(super) fn again(&mut self, asking: Asking) {
        self.next.push(asking);
    }

    /// Whether some are not settled.
    pub(super) fn are_open(&self) -> bool {
        self.open > 0
    }
}

impl Dispatch {
    /// Has the store make this session the holder of the tasks, all in one call.
    pub(super) fn send_adoptions(&mut self) {
        if !self.adoptions.next.is_empty() {
            let batch = std::mem::take(&mut self.adoptions.next);
            self.steps.push(adopt(Arc::clone(&self.session), batch).boxed());
        }
    }

    pub(super) fn adopted(&mut self, said: Vec<(Asking, Said)>) {
        for (asking, said) in said {
            match said {
                Ok(lease) => {
                    self.adoptions.open -= 1;
                    self.wins.forget_task(&asking.task);
                    self.settle_adoption(asking.purpose, lease);
                }
                Err(refused) if !matches!(refused, Refused::Fenced) && !self.session.is_over() => {
                    tracing::warn!(error = %refused, "a task could not be adopted; it is tried again");
                    let again = Asking { attempts: asking.attempts + 1, ..asking };
                    let delay = self.session.retry_delay(again.attempts).min(self.session.options.poll_max);
                    let rested = self.session.sleep(delay).map(|()| Step::AdoptAgain(Box::new(again)));
                    self.steps.push(rested.boxed());
                }
                // The session is over: the executor asks the next one.
                Err(refused) => {
                    tracing::warn!(error = %refused, "a task that a worker executes could not be adopted");
                    self.adoptions.open -= 1;
                    if let Purpose::Answer(answer) = asking.purpose {
                        self.tasks.was_not_stored(*answer);
                    }
                }
            }
        }
    }

    fn settle_adoption(&mut self, purpose: Purpose, lease: Option<TaskLease>) {
        match (purpose, lease) {
            (Purpose::Executor(outcome), Some(lease)) => {
                // The executor may have closed.
                let _ = outcome.send(Adopted::Held);
                self.tasks.take(1);
                self.begin_task(lease);
            }
            (Purpose::Executor(outcome), None) => _ = outcome.send(Adopted::Over),
            (Purpose::Answer(answer), Some(lease)) => self.tasks.answer(answer.under(lease.fence)),
            // It was answered by another worker, or its run is over.
            (Purpose::Answer(_), None) => self.tasks.settle(1),
        }
    }
}

async fn adopt(session: Arc<Session>, batch: Vec<Asking>) -> Step {
    let tasks = batch.iter().map(|asking| asking.task.clone()).collect();
    let said = session.work.adopt(tasks).await;
    // What a store does not answer it leaves unknown; none should.
    let missing = || Err(Refused::Unknown(Cause::new("the store gave no answer")));
    let said = said.into_iter().chain(std::iter::repeat_with(missing));
    Step::Adopted(batch.into_iter().zip(said).collect())
}
