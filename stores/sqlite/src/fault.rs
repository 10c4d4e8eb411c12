//! Planned faults, for the conformance suite: one fault for one call.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;

use dauer_store::{Cause, Refused};

/// The calls that faults are planned for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the method of `Manage` or `Work` with that name")]
#[non_exhaustive]
pub enum Call {
    Create,
    Send,
    Amend,
    ClaimTurns,
    CommitTurns,
    ClaimActivities,
    CompleteActivities,
}

/// What goes wrong with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The writer refuses it before its transaction begins.
    NotExecuted,
    /// The writer gives up before its transaction begins and does not know it.
    UnknownNotDone,
    /// The transaction is committed and the answer is lost.
    UnknownDone,
    /// The transaction is committed and the answer never comes.
    AnswerWithheld,
}

/// A fault that strikes, and who waits for that.
pub(crate) struct Strike {
    pub(crate) fault: Fault,
    struck: oneshot::Sender<()>,
}

impl Strike {
    /// What the writer is to answer before it begins.
    pub(crate) fn instead(&self) -> Option<Refused> {
        match self.fault {
            Fault::NotExecuted => Some(Refused::NotExecuted(Cause::new("planned fault: not executed"))),
            Fault::UnknownNotDone => Some(unknown()),
            Fault::UnknownDone | Fault::AnswerWithheld => None,
        }
    }

    /// The transaction is over: what becomes of its answer.
    pub(crate) async fn after(self) -> Option<Refused> {
        let fault = self.fault;
        let _ = self.struck.send(());
        match fault {
            Fault::NotExecuted | Fault::UnknownNotDone => None,
            Fault::UnknownDone => Some(unknown()),
            Fault::AnswerWithheld => futures::future::pending().await,
        }
    }
}

fn unknown() -> Refused {
    Refused::Unknown(Cause::new("planned fault: the outcome is unknown"))
}

/// The faults that are planned and have not struck. Several handles may share them.
#[derive(Default)]
pub struct Faults(Mutex<VecDeque<(Call, Strike)>>);

impl Faults {
    fn planned(&self) -> MutexGuard<'_, VecDeque<(Call, Strike)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next call of that kind meets that fault. The answer is ready once it has struck.
    pub fn plan(&self, call: Call, fault: Fault) -> BoxFuture<'static, ()> {
        let (struck, has_struck) = oneshot::channel();
        self.planned().push_back((call, Strike { fault, struck }));
        has_struck.map(|_| ()).boxed()
    }

    pub(crate) fn next(&self, call: Call) -> Option<Strike> {
        let mut planned = self.planned();
        let found = planned.iter().position(|(of, _)| *of == call)?;
        planned.remove(found).map(|(_, strike)| strike)
    }
}
