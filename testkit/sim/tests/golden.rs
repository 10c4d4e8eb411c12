//! The same seed gives the same run: twice in this process, and the same as when the list was written, in debug and
//! release builds and on any machine.
//!
//! The hashes change with every change of behaviour of hub, core, replay or store, and say that it changed. Write the
//! list anew with `DAUER_SIM_BLESS=1 cargo test -p dauer-sim --test golden`, and look at the seeds first.

mod support;

use std::fmt::Write as _;
use std::path::Path;

use dauer_sim::{Config, run};

const SEEDS: u64 = 24;

#[test]
fn same_seed_same_trace() {
    for seed in [0, 1, 2, 3, 5, 8, 13, 21] {
        let (first, second) = (run(seed, &Config::default()), run(seed, &Config::default()));
        assert_eq!(first, second, "seed {seed} has two runs");
        let traced = || run(seed, &Config { trace: true, ..Config::default() });
        let watched = traced();
        assert_eq!(watched.trace_hash, first.trace_hash, "seed {seed} runs differently when it is watched");
        assert!(watched.trace == traced().trace && !watched.trace.is_empty(), "seed {seed} has two traces");
    }
}

#[test]
fn the_runs_are_those_of_the_list() {
    let mut list = String::new();
    for seed in 0..SEEDS {
        writeln!(list, "{seed} {:016x}", run(seed, &Config::default()).trace_hash).unwrap();
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden.txt");
    if support::setting("DAUER_SIM_BLESS").is_some() {
        std::fs::write(&path, &list).unwrap();
    }
    let golden = std::fs::read_to_string(&path).unwrap();
    assert_eq!(list, golden, "behaviour has changed; see the head of this file");
}
