//! Faults of single calls: what a caller sees when the way to a store is cut.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use futures::future::BoxFuture;

/// The calls that may fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "each is the method of `Manage` or `Work` with that name")]
pub enum Call {
    Create,
    Send,
    Amend,
    Next,
    CommitTurns,
    CompleteActivities,
}

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is not executed and says so.
    NotExecuted,
    /// It is not executed. The answer is `Unknown`.
    UnknownNotDone,
    /// It is executed. The answer is `Unknown`.
    UnknownDone,
    /// It is executed. There is no answer: the call stays pending.
    AnswerWithheld,
}

/// Ready once a planned fault has happened.
pub type Struck = BoxFuture<'static, ()>;

/// The faults that are planned and have not happened.
#[derive(Default)]
pub(crate) struct Plans(Mutex<VecDeque<Plan>>);

type Plan = (Call, Fault, Arc<Mutex<Signal>>);

#[derive(Default)]
struct Signal {
    has_struck: bool,
    waker: Option<Waker>,
}

/// A panic while a lock was held leaves whole values behind it.
pub(crate) fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Plans {
    /// The next call of that kind meets the fault.
    pub(crate) fn add(&self, call: Call, fault: Fault) -> Struck {
        let signal = Arc::<Mutex<Signal>>::default();
        unpoisoned(&self.0).push_back((call, fault, Arc::clone(&signal)));
        Box::pin(poll_fn(move |context| {
            let mut signal = unpoisoned(&signal);
            if signal.has_struck {
                return Poll::Ready(());
            }
            signal.waker = Some(context.waker().clone());
            Poll::Pending
        }))
    }

    /// The fault of a call that is made now. The fault happens as soon as [`Planned`] is dropped.
    pub(crate) fn take(&self, call: Call) -> Option<Planned> {
        let mut plans = unpoisoned(&self.0);
        let at = plans.iter().position(|(planned, ..)| *planned == call)?;
        plans.remove(at).map(|(_, fault, signal)| Planned { fault, signal })
    }
}

/// A fault that happens to the current call.
pub(crate) struct Planned {
    pub(crate) fault: Fault,
    signal: Arc<Mutex<Signal>>,
}

impl Drop for Planned {
    fn drop(&mut self) {
        let mut signal = unpoisoned(&self.signal);
        signal.has_struck = true;
        let waker = signal.waker.take();
        drop(signal);
        waker.into_iter().for_each(Waker::wake);
    }
}
