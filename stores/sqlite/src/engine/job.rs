//! Writes that wait for their transaction.

use futures::channel::oneshot;

use dauer_store::{Cause, HubName, Refused, Timestamp};
use rusqlite::Connection;

use crate::fail::{Fail, Outcome};
use crate::life::Lives;
use crate::state::Scope;

use super::transaction::Transaction;

/// A batch of operations and the caller who waits for it. Each part is judged on its own, and may be run more than once:
/// when another part of its group breaks, the group is rolled back.
pub(crate) trait Job: Send {
    /// How many parts it has.
    fn parts(&self) -> usize;

    /// Runs one. `Err` means that the transaction must be rolled back.
    fn run(&mut self, part: usize, transaction: &mut Transaction<'_>) -> Result<(), Refused>;

    /// The transaction that a part was in did not happen, or its outcome is unknown.
    fn fail(&mut self, part: usize, refused: Refused);

    /// All parts are settled, and what happened is in the file: the answers go to the caller.
    fn answer(self: Box<Self>);

    /// Whether it is a look. Looks are answered after the desks know what was won.
    fn is_look(&self) -> bool {
        false
    }

    /// Answers without a transaction that writes, if it can. Returns whether it has.
    fn peek(&mut self, _snapshot: Snapshot<'_>) -> bool {
        false
    }
}

/// What a job peeks at: the file and its time, and which sessions live.
pub(crate) type Snapshot<'s> = (&'s Connection, Timestamp, &'s Lives);

/// What a caller waits for: an answer for each part, in order.
pub(crate) type Answers<T> = oneshot::Receiver<Vec<Result<T, Refused>>>;

struct Batch<A, T, F> {
    hub: HubName,
    elements: Vec<A>,
    each: F,
    answers: Vec<Option<Result<T, Refused>>>,
    caller: oneshot::Sender<Vec<Result<T, Refused>>>,
}

/// A job, and where its answers come.
pub(crate) fn batch_job<A, T, F>(hub: HubName, elements: Vec<A>, each: F) -> (Box<dyn Job>, Answers<T>)
where
    A: Send + 'static,
    T: Send + 'static,
    F: FnMut(&mut Scope<'_, '_>, &A) -> Outcome<T> + Send + 'static,
{
    let (caller, answers) = oneshot::channel();
    let empty = elements.iter().map(|_| None).collect();
    (Box::new(Batch { hub, elements, each, answers: empty, caller }), answers)
}

/// Waits for the answers. A writer that is gone without them may have been in the middle of the commit.
pub(crate) async fn answers_of<T>(answers: Answers<T>, count: usize) -> Vec<Result<T, Refused>> {
    match answers.await {
        Ok(answers) => answers,
        Err(oneshot::Canceled) => (0..count).map(|_| Err(unanswered())).collect(),
    }
}

pub(super) fn unanswered() -> Refused {
    Refused::Unknown(Cause::new("the writer of the store ended before it could answer"))
}

impl<A, T, F> Job for Batch<A, T, F>
where
    A: Send,
    T: Send,
    F: FnMut(&mut Scope<'_, '_>, &A) -> Outcome<T> + Send,
{
    fn parts(&self) -> usize {
        self.elements.len()
    }

    fn run(&mut self, part: usize, transaction: &mut Transaction<'_>) -> Result<(), Refused> {
        let outcome =
            transaction.scope(&self.hub).and_then(|mut scope| (self.each)(&mut scope, &self.elements[part]));
        self.answers[part] = Some(match outcome {
            Ok(answer) => Ok(answer),
            Err(Fail::Refused(refused)) => Err(refused),
            Err(Fail::Broken(refused)) => return Err(refused),
        });
        Ok(())
    }

    fn fail(&mut self, part: usize, refused: Refused) {
        self.answers[part] = Some(Err(refused));
    }

    fn answer(self: Box<Self>) {
        let Self { answers, caller, elements, .. } = *self;
        // The caller is the only owner of shared elements before the answer arrives.
        drop(elements);
        let answers = answers.into_iter().map(|answer| answer.unwrap_or_else(|| Err(unanswered())));
        // A caller who is gone does not need them.
        let _ = caller.send(answers.collect());
    }
}
