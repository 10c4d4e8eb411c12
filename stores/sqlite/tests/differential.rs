//! This store and the model of the contract in lockstep: the same random calls, the same answers and the same content.

use std::sync::Arc;

use crate::support::{Folder, clock, options, run};
use dauer_conformance::lockstep::{Met, Plan, Stores, lockstep, steps};
use dauer_model::Model;
use dauer_sqlite::{Memory, Options, SqliteStore};
use dauer_store::StoreLimits;

/// The calls of each seed. Each begins with an empty file.
const STEPS: usize = 600;

/// All, little or nothing is held in memory: what is read and what is known must be the same.
fn memory_held(seed: u64) -> Memory {
    match seed % 3 {
        0 => Memory::default(),
        1 => Memory { instances: 2, messages: 1 },
        _ => Memory { instances: 0, messages: 0 },
    }
}

fn random_calls(seed: u64) -> Met {
    let (folder, clock) = (Folder::new(), clock());
    let Options { limits, .. } = options(&clock);
    // So small that they are met.
    let limits = StoreLimits { removed_starts: 4, mail_bytes: 300, ..limits };
    let options = Options { memory: memory_held(seed), limits: limits.clone(), ..options(&clock) };
    let sqlite = SqliteStore::open(folder.file(), options).unwrap();
    let model = Model::new(clock.clone()).with_limits(limits);
    let stores = Stores { model: Arc::new(model), other: Arc::new(sqlite.clone()), clock };
    let met = run(lockstep(stores, Plan { seed, steps: STEPS, compare_every: 4 }));
    sqlite.close();
    met
}

/// `DAUER_LOCKSTEP_STEPS` makes it longer.
#[test]
fn sqlite_beside_the_model_shows_no_difference() {
    let mut met = Met::default();
    for seed in 1..=steps(14 * STEPS).div_ceil(STEPS) as u64 {
        // The name of the thread tells the seed when it fails.
        let named = std::thread::Builder::new().name(format!("seed {seed}"));
        let done = named.spawn(move || random_calls(seed)).unwrap().join();
        met.add(done.expect("the thread has told what differs"));
    }
    assert_eq!(met.missing(10), Vec::<String>::new(), "{met:?}");
}
