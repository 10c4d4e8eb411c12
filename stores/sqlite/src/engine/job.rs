//! One write that waits for its transaction.

use futures::channel::oneshot;

use dauer_store::{Cause, HubName, Refused};

use crate::fail::{Fail, Outcome};
use crate::state::Scope;

use super::transaction::Transaction;

/// An operation and the caller who waits for it. It may be run more than once: when another operation of its group
/// breaks, the group is rolled back.
pub(crate) trait Job: Send {
    /// Runs it. `Err` means that the transaction must be rolled back.
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<(), Refused>;

    /// The transaction is in the file: the answer goes to the caller.
    fn happened(self: Box<Self>);

    /// Nothing was done, or nobody knows: that goes to the caller.
    fn failed(self: Box<Self>, refused: Refused);
}

/// The operation of a job on its hub.
pub(crate) type Write<T> = Box<dyn FnMut(&mut Scope<'_>) -> Outcome<T> + Send>;

/// What a caller waits for.
pub(crate) type Answer<T> = oneshot::Receiver<Result<T, Refused>>;

struct Call<T> {
    hub: HubName,
    operation: Write<T>,
    /// What is done with the answer once the transaction is, or may be, in the file.
    send_off: fn(&mut T),
    answer: Option<Result<T, Refused>>,
    caller: oneshot::Sender<Result<T, Refused>>,
}

/// A job, and where its answer comes.
pub(crate) fn write_job<T: Send + 'static>(
    hub: HubName,
    operation: Write<T>,
    send_off: fn(&mut T),
) -> (Box<dyn Job>, Answer<T>) {
    let (caller, answer) = oneshot::channel();
    (Box::new(Call { hub, operation, send_off, answer: None, caller }), answer)
}

/// Waits for an answer. A writer that is gone without one may have been in the middle of the commit.
pub(crate) async fn answer_of<T>(answer: Answer<T>) -> Result<T, Refused> {
    match answer.await {
        Ok(answer) => answer,
        Err(oneshot::Canceled) => {
            Err(Refused::Unknown(Cause::new("the writer of the store ended before it could answer")))
        }
    }
}

impl<T: Send> Job for Call<T> {
    fn run(&mut self, transaction: &mut Transaction<'_>) -> Result<(), Refused> {
        let outcome = transaction.scope(&self.hub).and_then(|mut scope| (self.operation)(&mut scope));
        self.answer = Some(match outcome {
            Ok(answer) => Ok(answer),
            Err(Fail::Refused(refused)) => Err(refused),
            Err(Fail::Broken(refused)) => return Err(refused),
        });
        Ok(())
    }

    fn happened(self: Box<Self>) {
        let Self { mut answer, caller, send_off, .. } = *self;
        if let Some(Ok(answer)) = &mut answer {
            send_off(answer);
        }
        if let Some(answer) = answer {
            // A caller who is gone does not need it; what was won comes back by itself.
            let _ = caller.send(answer);
        }
    }

    fn failed(self: Box<Self>, refused: Refused) {
        let Self { mut answer, caller, send_off, .. } = *self;
        if let (Refused::Unknown(_), Some(Ok(answer))) = (&refused, &mut answer) {
            send_off(answer);
        }
        // Dropped here, after it was sent off: what may have been won waits for the next claim, which looks again.
        drop(answer);
        let _ = caller.send(Err(refused));
    }
}
