//! The store of a run, and the ways to it.

use std::sync::Arc;

use dauer_faults::{Faulty, Interceptor, wrap_store};
use dauer_memory::{ManualClock, MemoryStore};
use dauer_store::{Env, Store};

use crate::config::Config;
use crate::faults::Plan;
use crate::random::Random;

/// Of ten thousand seeds, those in which each host has a handle of its own on the store, as in a process of its own. In the
/// others, what one host makes ready is won by another in the same write.
const OWN_HANDLES: u32 = 5_000;

/// Of ten thousand of those seeds, the ones in which writes of other hosts wake no host: only a poll finds what they made ready.
const DEAF: u32 = 4_000;

/// The stream of randomness that this is drawn from.
const STREAM: u64 = 40;

/// The store of a run.
#[derive(Clone)]
pub(crate) struct Stores {
    /// The store itself: what the simulator looks at disturbs nothing, and is not disturbed.
    pub(crate) raw: MemoryStore,
    /// The store behind the faults.
    pub(crate) disturbed: Arc<dyn Store>,
    faulty: Arc<dyn Interceptor>,
    config: Arc<Config>,
    handles: Handles,
}

/// How hosts share the store.
#[derive(Debug, Clone, Copy)]
enum Handles {
    /// All have one handle.
    One,
    /// Each has its own.
    Own,
    /// Each has its own, which hears nothing of the others.
    Deaf,
}

impl Stores {
    /// An empty store with these faults. Their delays sleep in `env`.
    pub(crate) fn new(
        (seed, config): (u64, &Config),
        clock: Arc<ManualClock>,
        plan: &Arc<Plan>,
        env: Arc<dyn Env>,
    ) -> Self {
        let raw = config.store(clock);
        let plan = Arc::clone(plan) as Arc<dyn dauer_faults::Plan>;
        let faulty: Arc<dyn Interceptor> = Arc::new(Faulty::new(plan).with_env(env));
        let config = Arc::new(config.clone());
        let disturbed = config.wrong(wrap_store(Arc::new(raw.clone()), Arc::clone(&faulty)));
        let mut random = Random::stream(seed, STREAM);
        let handles = match random.chance(OWN_HANDLES) {
            false => Handles::One,
            true if random.chance(DEAF) => Handles::Deaf,
            true => Handles::Own,
        };
        Self { raw, disturbed, faulty, config, handles }
    }

    /// The store behind the faults, for a host.
    pub(crate) fn of_host(&self) -> Arc<dyn Store> {
        let handle = match self.handles {
            Handles::One => return Arc::clone(&self.disturbed),
            Handles::Own => self.raw.handle(),
            Handles::Deaf => self.raw.deaf_handle(),
        };
        self.config.wrong(wrap_store(Arc::new(handle), Arc::clone(&self.faulty)))
    }
}
