//! The kit beside the model of the contract: the same random calls, the same answers and the same content.

use std::sync::Arc;
use std::time::Duration;

use dauer_conformance::lockstep::{Met, Plan, Stores, lockstep, steps};
use dauer_memory::MemoryStore;
use dauer_model::Model;
use dauer_store::{ManualClock, StoreLimits, Timestamp};
use futures::executor::block_on;

/// The calls of each seed.
const STEPS: usize = 1_500;

fn stores() -> Stores {
    let clock = Arc::new(ManualClock::new(Timestamp(1_700_000_000_000)));
    // Small, so that limits are met.
    let limits = StoreLimits {
        message_bytes: 10_000,
        checkpoint_bytes: 100_000,
        checkpoint_items: 100,
        delay: Duration::from_secs(100 * 24 * 60 * 60),
        removed_starts: 4,
        mail_bytes: 300,
    };
    let memory = MemoryStore::new(clock.clone());
    memory.set_limits(limits.clone());
    let model = Model::new(clock.clone()).with_limits(limits);
    Stores { model: Arc::new(model), other: Arc::new(memory), clock }
}

/// `DAUER_LOCKSTEP_STEPS` makes it longer.
#[test]
fn kit_beside_the_model_shows_no_difference() {
    let seeds = steps(4 * STEPS).div_ceil(STEPS) as u64;
    let mut met = Met::default();
    for seed in 1..=seeds {
        met.add(block_on(lockstep(stores(), Plan { seed, steps: STEPS, compare_every: 8 })));
    }
    assert_eq!(met.missing(1), Vec::<String>::new(), "{met:?}");
}
