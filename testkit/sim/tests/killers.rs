//! Many seeds of the world whose code kills its process, without the rest of the simulator.
//!
//! `DAUER_SIM_KILLERS` is how many.

mod support;

use dauer_core::planted::Bug;
use dauer_sim::{Config, Killed, killers};
use support::setting;

/// How many seeds a test run takes.
const SEEDS: u64 = 300;

#[test]
fn killers_are_found_and_the_healthy_complete() {
    let mut sums = Killed::default();
    for seed in 0..setting("DAUER_SIM_KILLERS").unwrap_or(SEEDS) {
        let outcome = killers::run(seed, &Config::default());
        assert!(outcome.violations.is_empty(), "{outcome}");
        sums.add(&outcome.statistics.killed);
    }
    eprintln!("{:?}", sums.figures());
    assert!(sums.figures().iter().all(|(_, count)| *count > 0), "{sums:?}");
}

#[test]
fn killers_of_a_seed_run_the_same_twice() {
    for seed in 0..5 {
        let (first, second) =
            (killers::run(seed, &Config::default()), killers::run(seed, &Config::default()));
        assert_eq!(first, second, "seed {seed} has two runs");
    }
}

/// The bugs that are planted in the rules of suspects and trials.
#[test]
fn bugs_in_the_rules_of_suspects_are_found_by_their_effect() {
    for (bug, told) in [
        (Bug::SurplusStays, "died before they began"),
        (Bug::TrialBesideOthers, "begins beside the trial"),
        (Bug::PlainDeathsCount, "was taken for poison"),
    ] {
        let config = Config { planted: Some(bug), ..Config::default() };
        let outcomes = (0..SEEDS).map(|seed| killers::run(seed, &config));
        let found = outcomes.into_iter().find(|outcome| !outcome.violations.is_empty());
        let found = found.unwrap_or_else(|| panic!("no seed finds {}", bug.name()));
        eprintln!("{}: seed {}: {:?}", bug.name(), found.seed, found.violations);
        assert!(found.violations.iter().any(|violation| violation.contains(told)), "{found}");
    }
}
