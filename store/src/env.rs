//! Time, randomness and concurrency of a host. A hub uses no other, so that it can run on one thread, in virtual time, from one
//! seed. A store uses it only to wait in [`Work::next`](crate::Work::next).

use std::time::Duration;

use futures::future::BoxFuture;

use dauer_core::Timestamp;

/// A reading of a host's monotonic clock, in milliseconds from an arbitrary epoch. Only readings of the same host can be
/// compared. It is a separate type, so that the compiler distinguishes it from [`Timestamp`], which is wall-clock time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Steady(pub i64);

impl Steady {
    /// This reading plus `duration`, rounded up to whole milliseconds.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(Timestamp(self.0).after(duration).0)
    }

    /// The time since `earlier`; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Timestamp(self.0).since(Timestamp(earlier.0))
    }
}

/// Clocks, randomness and tasks of one host. Spawned tasks belong to the host and end with it.
pub trait Env: Send + Sync + 'static {
    /// The wall-clock time of this host, for display. It may jump in both directions. Use [`Env::steady`] to measure durations.
    /// A store stamps and judges by its own clock.
    fn now(&self) -> Timestamp;

    /// The monotonic clock of this host, for deadlines, delays and renewals.
    fn steady(&self) -> Steady;

    /// Is ready when [`Env::steady`] has reached `at`.
    fn sleep_until(&self, at: Steady) -> BoxFuture<'static, ()>;

    /// Is ready after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.sleep_until(self.steady().after(duration))
    }

    /// Runs `work` concurrently with the caller, until it completes or the host ends.
    fn spawn(&self, work: BoxFuture<'static, ()>);

    /// Whether spawned tasks share one thread with the caller. Then the caller may poll a short task itself: no other task could
    /// run in the meantime.
    fn is_single_threaded(&self) -> bool {
        false
    }

    /// 64 random bits.
    fn random(&self) -> u64;
}
