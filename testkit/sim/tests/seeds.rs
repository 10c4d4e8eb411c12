//! Many seeds: no violation, everything finishes, and the faults that were meant to happen did happen.
//!
//! `DAUER_SIM_SEEDS` is how many in all, `DAUER_SIM_FIRST` where they begin. The seeds are dealt to a few tests, which
//! the test runner runs beside each other; each of them must see all faults.

mod support;

use dauer_sim::{Config, Statistics, run};
use support::setting;

/// How many tests share the seeds.
const HANDS: u64 = 2;

/// How many seeds are run by default.
const SEEDS: u64 = 1_000;

fn sim_seeds(hand: u64) {
    let first = setting("DAUER_SIM_FIRST").unwrap_or(0);
    let count = setting("DAUER_SIM_SEEDS").unwrap_or(SEEDS);
    let mut total = Statistics::default();
    let mut failed = Vec::new();
    for seed in (first..first + count).filter(|seed| seed % HANDS == hand) {
        let outcome = run(seed, &Config::default());
        total.add(&outcome.statistics);
        if !outcome.violations.is_empty() {
            failed.push(outcome);
        }
    }
    eprintln!("{total:#?}");
    let report: Vec<String> = failed.iter().take(10).map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{} of {} seeds failed\n{}", failed.len(), total.seeds, report.join("\n"));
    for (what, times) in [
        ("fenced", total.fenced),
        ("commits with results", total.fused),
        ("arrivals for kept instances", total.arrived),
        ("claims that met a turn", total.met),
        ("unknown", total.unknown),
        ("crashes", total.crashes),
        ("duplicates", total.duplicates),
        ("expired", total.expired),
        ("hints lost", total.hints_lost),
        ("activities executed again", total.effects_repeated),
    ] {
        // A handful of seeds, when somebody asks for so few, need not have everything.
        assert!(times > 0 || total.seeds < 20, "nothing was tested: no {what} in {total:?}");
    }
}

#[test]
fn sim_seeds_even() {
    sim_seeds(0);
}

#[test]
fn sim_seeds_odd() {
    sim_seeds(1);
}

/// Seeds that once found something, or nearly did. They must stay clean for ever.
#[test]
fn regressions() {
    let seeds: Vec<u64> = include_str!("../regressions.txt")
        .lines()
        .map(|line| line.split('#').next().unwrap_or_default().trim())
        .filter(|line| !line.is_empty())
        .map(|line| line.parse().unwrap())
        .collect();
    assert!(!seeds.is_empty());
    for seed in seeds {
        let outcome = run(seed, &Config::default());
        assert!(outcome.violations.is_empty(), "{outcome}");
    }
}

/// Without faults nothing is repeated, fenced or lost: what the simulator finds elsewhere comes from the faults.
#[test]
fn calm_seeds() {
    for seed in 0..20 {
        let outcome = run(seed, &Config { calm: true, ..Config::default() });
        assert!(outcome.violations.is_empty(), "{outcome}");
        let Statistics { fenced, unknown, crashes, effects_repeated, turns, commits, .. } =
            outcome.statistics;
        assert_eq!((fenced, unknown, crashes, effects_repeated), (0, 0, 0, 0), "seed {seed}");
        assert!(turns > 0 && commits >= turns, "seed {seed}: {turns} turns, {commits} commits");
    }
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
