//! Time, chance and tasks of a host under test.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, FutureExt};
use tokio::task::JoinSet;
use tokio::time::Instant;

use dauer_core::Timestamp;
use dauer_memory::Clock;
use dauer_store::Env;

/// The time since the test began.
pub(crate) struct VirtualClock(pub(super) Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        Timestamp(1_000_000).after(self.0.elapsed())
    }
}

pub(crate) struct TestEnv {
    clock: Arc<VirtualClock>,
    random: AtomicU64,
    tasks: Mutex<JoinSet<()>>,
    single_threaded: bool,
    spawned: AtomicU64,
}

impl TestEnv {
    pub(super) fn new(clock: Arc<VirtualClock>, seed: u64) -> Self {
        let (random, spawned) = (AtomicU64::new(seed), AtomicU64::new(0));
        Self { clock, random, tasks: Mutex::default(), single_threaded: false, spawned }
    }

    pub(super) fn of_one_thread(self) -> Self {
        Self { single_threaded: true, ..self }
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
        self.clock.now()
    }

    /// In virtual time, which all of these tests run in: nobody waits for it.
    fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        tokio::time::sleep(at.since(self.now())).boxed()
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
