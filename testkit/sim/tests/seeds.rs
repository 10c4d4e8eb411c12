//! Many seeds: no violation, everything finishes, and the faults that were meant to happen did happen.

use dauer_sim::{Config, Statistics, run};

/// A number from the environment, for those who want more, or one in particular.
#[expect(clippy::disallowed_methods, reason = "a test's size is a setting; a run is a function of its seed")]
fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn sim_seeds() {
    let first = setting("DAUER_SIM_FIRST").unwrap_or(0);
    let count = setting("DAUER_SIM_SEEDS").unwrap_or(1_000);
    let mut total = Statistics::default();
    let mut failed = Vec::new();
    for seed in first..first + count {
        let outcome = run(seed, &Config::default());
        total.add(&outcome.statistics);
        if !outcome.violations.is_empty() {
            failed.push(outcome);
        }
    }
    let report: Vec<String> = failed.iter().take(10).map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{} of {count} seeds failed\n{}", failed.len(), report.join("\n"));
    for (what, times) in [
        ("fenced", total.fenced),
        ("unknown", total.unknown),
        ("crashes", total.crashes),
        ("duplicates", total.duplicates),
        ("expired", total.expired),
    ] {
        assert!(times > 0, "nothing was tested: no {what} in {total:?}");
    }
    eprintln!("{total:#?}");
}

/// One seed with its trace: `DAUER_SIM_SEED=7 cargo test -p dauer-sim --test seeds one_seed -- --nocapture`.
#[test]
fn one_seed() {
    let seed = setting("DAUER_SIM_SEED");
    let outcome = run(seed.unwrap_or(0), &Config { trace: true, ..Config::default() });
    assert!(!outcome.trace.is_empty());
    if seed.is_some() {
        eprintln!("{}\n{:#?}", outcome.trace.join("\n"), outcome.statistics);
    }
    assert!(outcome.violations.is_empty(), "{outcome}");
}
