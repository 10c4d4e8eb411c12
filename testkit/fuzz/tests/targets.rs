//! Every target over its corpus and a fixed number of changed inputs. `DAUER_FUZZ_ITERATIONS` and `DAUER_FUZZ_SEED` make
//! a long run of it.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // Tests fail by panicking, and a run's figures are worth reading.

use dauer_fuzz::targets::{self, Target};
use dauer_fuzz::{corpus, drive};

/// Some seconds for all targets together, in the dev profile.
const ITERATIONS: u64 = 6_000;

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap())
}

fn run(name: &str) {
    let target: Target = targets::by_name(name).unwrap();
    let iterations = setting("DAUER_FUZZ_ITERATIONS", ITERATIONS);
    let tally = drive::run(&target, iterations, setting("DAUER_FUZZ_SEED", 1))
        .unwrap_or_else(|found| panic!("{found}"));
    println!("{name}: {} accepted, {} refused\n{}", tally.accepted(), tally.refused(), tally.lines());
    assert!(tally.accepted() > 0 && tally.refused() > 0, "{name} tests nothing:\n{}", tally.lines());
    for (accepted, what) in target.ends {
        let count = tally.count(*accepted, what);
        assert!(count > 0, "{name} never came to '{what}' (accepted: {accepted}):\n{}", tally.lines());
    }
}

#[test]
fn stored_histories_are_read_or_refused() {
    run("history");
}

#[test]
fn stored_histories_are_replayed_or_refused() {
    run("replay");
}

#[test]
fn events_are_read_or_refused() {
    run("event");
}

#[test]
fn answers_are_carried_out_or_refused() {
    run("answer");
}

#[test]
fn urls_are_accepted_or_refused() {
    run("url");
}

#[test]
fn ids_are_accepted_or_refused() {
    run("id");
}

#[test]
fn every_recorded_input_belongs_to_a_target() {
    for (name, _) in corpus::regressions() {
        assert!(targets::by_name(name).is_some(), "regressions.txt names {name}, which is no target");
    }
}
