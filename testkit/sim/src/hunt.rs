//! Hunting what is planted: seeds from 0 on, until one of them finds the bug or the defect that is on. The checkers do not
//! know that anything is planted at all.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use dauer_core::planted::Bug;

use crate::batch::{run_all, run_caught};
use crate::config::Config;
use crate::outcome::Outcome;
use crate::unpoisoned;

/// The first of so many seeds that reports something with that configuration.
#[must_use]
pub fn hunt(config: &Config, seeds: u64, threads: usize) -> Option<Outcome> {
    let next = AtomicU64::new(0);
    let found: Mutex<Option<Outcome>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // A later seed may be found while an earlier one still runs, never the other way round.
                    if seed >= seeds || unpoisoned(&found).is_some() {
                        return;
                    }
                    let outcome = run_caught(seed, config);
                    let mut found = unpoisoned(&found);
                    if !outcome.violations.is_empty() && found.as_ref().is_none_or(|first| seed < first.seed)
                    {
                        *found = Some(outcome);
                    }
                }
            });
        }
    });
    found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// What a bug is hunted with: the scenario that can have it.
#[must_use]
pub fn planted(bug: Bug) -> Config {
    Config { planted: Some(bug), apart: bug.is_of_servers(), ..Config::default() }
}

/// How many of the same seeds report something without any bug: none may.
#[must_use]
pub fn clean(seeds: u64, threads: usize) -> u64 {
    let failures =
        |apart| run_all(0..seeds, &Config { apart, ..Config::default() }, threads, |_, _| {}).failures;
    failures(false) + failures(true)
}
