//! The monotonic clock of the hosts of a rule. The rule moves it together with the store's clock.

use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use std::time::Duration;

use futures::future::BoxFuture;

use dauer_store::{Env, Steady, Timestamp};

/// A clock that stands still until the rule moves it. Clones are the same clock.
#[derive(Clone, Default)]
pub(crate) struct Hands(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    now: Steady,
    /// What to wake when the clock moves.
    sleepers: Vec<Waker>,
    drawn: u64,
}

impl Hands {
    /// A panic while the lock was held is a failed rule.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The time in `duration` from now.
    pub(crate) fn after(&self, duration: Duration) -> Steady {
        self.state().now.after(duration)
    }

    /// Moves the clock and wakes those that sleep.
    pub(crate) fn advance(&self, by: Duration) {
        let mut state = self.state();
        state.now = state.now.after(by);
        let sleepers = std::mem::take(&mut state.sleepers);
        drop(state);
        sleepers.into_iter().for_each(Waker::wake);
    }
}

impl Env for Hands {
    fn now(&self) -> Timestamp {
        Timestamp(self.steady().0)
    }

    fn steady(&self) -> Steady {
        self.state().now
    }

    fn sleep_until(&self, at: Steady) -> BoxFuture<'static, ()> {
        let hands = self.clone();
        Box::pin(poll_fn(move |context| {
            let mut state = hands.state();
            if state.now >= at {
                return Poll::Ready(());
            }
            state.sleepers.push(context.waker().clone());
            Poll::Pending
        }))
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        std::thread::spawn(|| futures::executor::block_on(work));
    }

    fn random(&self) -> u64 {
        let mut state = self.state();
        state.drawn += 1;
        state.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}
