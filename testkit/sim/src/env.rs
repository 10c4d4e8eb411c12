//! One host's view of the world: its own clock, its own chance, its own tasks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};

use dauer_store::{Env, Steady, Timestamp};
use futures::future::BoxFuture;

use crate::executor::{Executor, Owner};
use crate::random::Random;
use crate::unpoisoned;

/// The environment of one host, or of the clients.
pub struct SimEnv {
    executor: Executor,
    owner: Owner,
    skew_ms: AtomicI64,
    random: Mutex<Random>,
    /// Half of the hosts run what is over at once where it is begun.
    single_threaded: bool,
}

impl SimEnv {
    /// The environment of an owner. All its randomness comes from that stream.
    #[must_use]
    pub fn new(executor: Executor, owner: Owner, mut random: Random) -> Self {
        let single_threaded = random.bits().is_multiple_of(2);
        Self { executor, owner, skew_ms: AtomicI64::new(0), random: Mutex::new(random), single_threaded }
    }

    /// Sets the wall clock `skew_ms` ahead of the true time, or behind it when that is negative. The monotonic clock goes
    /// on as it did, as on a real machine.
    pub fn set_skew_ms(&self, skew_ms: i64) {
        self.skew_ms.store(skew_ms, Ordering::Relaxed);
    }

    fn skew_ms(&self) -> i64 {
        self.skew_ms.load(Ordering::Relaxed)
    }
}

impl Env for SimEnv {
    fn now(&self) -> Timestamp {
        Timestamp(self.executor.now().0.saturating_add(self.skew_ms()))
    }

    fn steady(&self) -> Steady {
        Steady(self.executor.now().0)
    }

    fn sleep_until(&self, at: Steady) -> BoxFuture<'static, ()> {
        self.executor.sleep_until(Timestamp(at.0))
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        self.executor.spawn(self.owner, work);
    }

    fn is_single_threaded(&self) -> bool {
        self.single_threaded
    }

    fn random(&self) -> u64 {
        unpoisoned(&self.random).bits()
    }
}
