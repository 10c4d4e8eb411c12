//! The seam to time, chance and concurrency. Hubs and stores use nothing else, so that a whole hub can run on one
//! thread, in virtual time, from one seed.

use std::time::Duration;

use futures::future::BoxFuture;

use dauer_core::Timestamp;

/// A reading of a host's monotonic clock, in milliseconds from an arbitrary epoch. A type of its own, so that the compiler
/// keeps it apart from [`Timestamp`], which is wall-clock time. Only readings of the same host can be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Steady(pub i64);

impl Steady {
    /// This reading plus `duration`, rounded up to whole milliseconds.
    #[must_use]
    pub fn after(self, duration: Duration) -> Self {
        Self(Timestamp(self.0).after(duration).0)
    }

    /// The time since `earlier`; zero when `earlier` is the later one.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Timestamp(self.0).since(Timestamp(earlier.0))
    }
}

/// Where time, chance and tasks come from. One per host: what it spawns belongs to that host and dies with it.
pub trait Env: Send + Sync + 'static {
    /// The wall-clock time of this host, for what people read. It may leap, in both directions. Measure durations by
    /// [`Env::steady`]. Stores judge what is durable by their own clock.
    fn now(&self) -> Timestamp;

    /// The monotonic clock of this host. Deadlines, delays and renewals go by it.
    fn steady(&self) -> Steady;

    /// Ready when [`Env::steady`] has reached `at`.
    fn sleep_until(&self, at: Steady) -> BoxFuture<'static, ()>;

    /// Ready after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.sleep_until(self.steady().after(duration))
    }

    /// Runs something beside the caller until it ends or the host does.
    fn spawn(&self, work: BoxFuture<'static, ()>);

    /// Whether all that is spawned shares one thread with the caller. Then what is over at once may as well run where it is
    /// begun: nothing else could have run meanwhile.
    fn is_single_threaded(&self) -> bool {
        false
    }

    /// 64 random bits.
    fn random(&self) -> u64;
}
