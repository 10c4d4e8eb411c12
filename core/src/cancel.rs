//! The signal from a host to running work that nobody wants its result any more. Cooperative: it stops nothing, and
//! whoever does not listen goes on.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Why the result of an activity is no longer wanted.
///
/// It is an error, so that an activity can end with it: `return Err(reason.into())`. One that does so because of
/// [`Draining`](Self::Draining) or [`LeaseLost`](Self::LeaseLost) has not failed: it is given back, and another host
/// runs it from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CancelReason {
    /// The host is stopping. A result still counts if it comes before the host gives up waiting for it.
    #[error("the host is stopping")]
    Draining,
    /// The store no longer takes an answer from this host: its lease ran out, and another host has the activity, or may
    /// have it any moment.
    #[error("the host has lost the activity to another one")]
    LeaseLost,
    /// The orchestration that called was terminated.
    #[error("the orchestration that called the activity was terminated")]
    Terminated,
    /// The run that called is over otherwise: completed, failed, continued as new, replaced or purged.
    #[error("the run that called the activity has ended")]
    Ended,
}

/// One activity's signal: the host's half and the activity's, as clones of each other.
#[derive(Debug, Clone, Default)]
pub struct Cancellation {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    reason: Option<CancelReason>,
    /// Who waits, each under a number of its own.
    waiting: BTreeMap<u64, Waker>,
    numbers: u64,
}

impl Cancellation {
    /// A signal that was not given yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the signal. The first reason stays; only [`CancelReason::Draining`], after which a result still counts,
    /// gives way to one after which it does not.
    pub fn cancel(&self, reason: CancelReason) {
        let mut state = self.lock();
        if matches!(state.reason, None | Some(CancelReason::Draining)) {
            state.reason = Some(reason);
        }
        let waiting = std::mem::take(&mut state.waiting);
        // Woken outside the lock: whoever is woken may look at once.
        drop(state);
        waiting.into_values().for_each(Waker::wake);
    }

    /// Why, if the signal was given.
    #[must_use]
    pub fn reason(&self) -> Option<CancelReason> {
        self.lock().reason
    }

    /// Ready once the signal is given.
    pub fn cancelled(&self) -> Cancelled {
        Cancelled { signal: self.clone(), number: None }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics while it is locked.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait for the signal. See [`Cancellation::cancelled`].
#[derive(Debug)]
#[must_use = "a wait does nothing until it is awaited"]
pub struct Cancelled {
    signal: Cancellation,
    /// Under which number it waits, once it does.
    number: Option<u64>,
}

impl Future for Cancelled {
    type Output = CancelReason;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CancelReason> {
        let signal = self.signal.clone();
        let mut state = signal.lock();
        if let Some(reason) = state.reason {
            return Poll::Ready(reason);
        }
        let number = *self.number.get_or_insert_with(|| {
            state.numbers += 1;
            state.numbers
        });
        state.waiting.insert(number, context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.signal.lock().waiting.remove(&number);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll(wait: &mut Cancelled, count: &Arc<Count>) -> Poll<CancelReason> {
        Pin::new(wait).poll(&mut Context::from_waker(&Waker::from(Arc::clone(count))))
    }

    #[test]
    fn everyone_who_waits_is_woken_once_and_told_why() {
        let (signal, count) = (Cancellation::new(), Arc::<Count>::default());
        let (mut one, mut two, mut gone) = (signal.cancelled(), signal.cancelled(), signal.cancelled());
        for wait in [&mut one, &mut two, &mut gone] {
            assert!(poll(wait, &count).is_pending() && poll(wait, &count).is_pending());
        }
        drop(gone);
        assert_eq!(signal.lock().waiting.len(), 2, "a wait that was dropped is forgotten");
        signal.cancel(CancelReason::Ended);
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
        for wait in [&mut one, &mut two, &mut signal.cancelled()] {
            assert_eq!(poll(wait, &count), Poll::Ready(CancelReason::Ended));
        }
    }

    #[test]
    fn only_a_drain_gives_way_to_another_reason() {
        let signal = Cancellation::new();
        assert_eq!(signal.reason(), None);
        for (given, told) in [
            (CancelReason::Draining, CancelReason::Draining),
            (CancelReason::Terminated, CancelReason::Terminated),
            (CancelReason::LeaseLost, CancelReason::Terminated),
            (CancelReason::Draining, CancelReason::Terminated),
        ] {
            signal.cancel(given);
            assert_eq!(signal.reason(), Some(told));
        }
    }
}
