//! Servers whose workers have lives of their own: many seeds without a violation, and each the same every time.
//!
//! `DAUER_SIM_APART_SEEDS` is how many.

mod support;

use dauer_sim::batch::{cores, run_all};
use dauer_sim::{Config, run};
use support::setting;

fn apart() -> Config {
    Config { apart: true, ..Config::default() }
}

#[test]
fn servers_with_remote_workers_keep_their_promises() {
    let count = setting("DAUER_SIM_APART_SEEDS").unwrap_or(300);
    let batch = run_all(0..count, &apart(), cores(), |_, _| {});
    let report: Vec<String> = batch.failed.iter().map(ToString::to_string).collect();
    assert!(batch.failures == 0, "{} of {count} seeds failed\n{}", batch.failures, report.join("\n"));
    if count >= 100 {
        let statistics = batch.statistics;
        let counted = [statistics.crashes, statistics.effects_repeated, statistics.poisoned];
        assert!(counted.iter().all(|count| *count > 0), "{counted:?}");
    }
}

/// Seeds that found something that is mended since.
#[test]
fn mended_seeds_of_servers_stay_clean() {
    let seeds = [41, 86, 90, 179, 369, 395, 1751, 2741, 2914, 3131, 6687, 10952];
    let batch = run_all(seeds, &apart(), cores(), |_, _| {});
    let report: Vec<String> = batch.failed.iter().map(ToString::to_string).collect();
    assert!(batch.failures == 0, "{}", report.join("\n"));
}

#[test]
fn seed_of_servers_gives_the_same_run_again() {
    for seed in 0..5 {
        let (first, second) = (run(seed, &apart()), run(seed, &apart()));
        assert_eq!(first.trace_hash, second.trace_hash, "seed {seed}");
    }
}

#[test]
fn calm_servers_begin_every_activity_once() {
    for seed in 0..20 {
        let outcome = run(seed, &Config { calm: true, ..apart() });
        assert!(outcome.violations.is_empty(), "{outcome}");
        assert_eq!(outcome.statistics.crashes, 0);
    }
}
