//! The negative control: without the fence two hosts commit the same turn, and the simulator sees it.

use dauer_memory::Defect;
use dauer_sim::{Config, run};

const SEEDS: u64 = 50;

/// The first seed that finds a violation with these words.
fn found(config: &Config, words: &str) -> Option<u64> {
    (0..SEEDS).find(|seed| run(*seed, config).violations.iter().any(|violation| violation.contains(words)))
}

#[test]
fn fence_removed_is_found() {
    // Neither epoch nor revision is compared: whoever comes last writes behind whoever came first.
    let broken = Config { defect: Some(Defect::NoEpochCheck), without_revision: true, ..Config::default() };
    let seed = found(&broken, "the history is forked").expect("no fork was found without a fence");
    let violations = run(seed, &broken).violations;
    // The auditor sees it from its own side, from the store's dump and the journal.
    assert!(
        violations.iter().any(|violation| violation.starts_with("I2 single committer")),
        "{violations:#?}"
    );
}

#[test]
fn superseded_epoch_is_found() {
    // The revision alone lets a host through that has lost its instance, as long as the new one has not committed.
    let broken = Config { defect: Some(Defect::NoEpochCheck), ..Config::default() };
    assert!(found(&broken, "a superseded host came through").is_some(), "no zombie was found");
}

#[test]
fn the_same_seeds_are_clean_with_the_fence() {
    for seed in 0..SEEDS {
        let outcome = run(seed, &Config::default());
        assert!(outcome.violations.is_empty(), "{outcome}");
    }
}
