//! Time, chance and tasks of a host under test.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt};
use tokio::task::JoinSet;
use tokio::time::Instant;

use dauer_core::Timestamp;
use dauer_memory::Clock;
use dauer_store::{Env, Steady};

/// The time since the test began.
pub(crate) struct VirtualClock(pub(super) Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_000_000).after(self.0.elapsed())
    }
}

pub(crate) struct TestEnv {
    clock: Arc<VirtualClock>,
    /// The wall clock of this host minus the true time, in milliseconds.
    skew_ms: AtomicI64,
    random: AtomicU64,
    tasks: Mutex<JoinSet<()>>,
    single_threaded: bool,
    spawned: AtomicU64,
}

impl TestEnv {
    pub(super) fn new(clock: Arc<VirtualClock>, seed: u64) -> Self {
        let (random, spawned) = (AtomicU64::new(seed), AtomicU64::new(0));
        Self {
            clock,
            skew_ms: AtomicI64::new(0),
            random,
            tasks: Mutex::default(),
            single_threaded: false,
            spawned,
        }
    }

    pub(super) fn of_one_thread(self) -> Self {
        Self { single_threaded: true, ..self }
    }

    /// Sets the wall clock of this host, against the true time.
    pub(crate) fn set_skew_ms(&self, skew_ms: i64) {
        self.skew_ms.store(skew_ms, Ordering::Relaxed);
    }

    /// How much was spawned so far.
    pub(crate) fn spawned(&self) -> u64 {
        self.spawned.load(Ordering::Relaxed)
    }

    /// The host dies: everything it runs stops where it is.
    pub(crate) fn kill(&self) {
        self.tasks.lock().unwrap().abort_all();
    }
}

impl Env for TestEnv {
    fn now(&self) -> Timestamp {
        Timestamp(self.clock.now().0 + self.skew_ms.load(Ordering::Relaxed))
    }

    fn steady(&self) -> Steady {
        Steady(0).after(self.clock.0.elapsed())
    }

    /// In virtual time, which all of these tests run in.
    fn sleep_until(&self, at: Steady) -> BoxFuture<'static, ()> {
        tokio::time::sleep(at.since(self.steady())).boxed()
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        self.spawned.fetch_add(1, Ordering::Relaxed);
        self.tasks.lock().unwrap().spawn(work);
    }

    fn is_single_threaded(&self) -> bool {
        self.single_threaded
    }

    fn random(&self) -> u64 {
        // The golden ratio walks through all values without a visible pattern.
        self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed)
    }
}
