//! How sharp the checkers are: every bug that is planted in core, hub and store is found, and the same seeds are clean
//! without it.

use dauer_core::planted::Bug;
use dauer_sim::batch::cores;
use dauer_sim::hunt::{clean, hunt, planted};

/// How many seeds a bug may hide from.
const SEEDS: u64 = 200;

/// How many seeds of servers with remote workers, which take a tenth of the time.
const SERVER_SEEDS: u64 = 300;

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::ALL {
        let seeds = if bug.is_of_servers() { SERVER_SEEDS } else { SEEDS };
        match hunt(&planted(*bug), seeds, cores()) {
            Some(outcome) => eprintln!("{}: seed {}: {:?}", bug.name(), outcome.seed, outcome.telling()),
            None => missed.push(bug.name()),
        }
    }
    assert!(Bug::ALL.len() >= 12);
    assert!(missed.is_empty(), "no seed below {SEEDS} finds {missed:?}");
}

#[test]
fn the_same_seeds_are_clean_without_a_bug() {
    assert_eq!(clean(SEEDS, cores()), 0);
}
