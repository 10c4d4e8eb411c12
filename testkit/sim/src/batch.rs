//! Many seeds at once: each is independent, so that every core takes the next one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::Config;
use crate::outcome::{Outcome, Statistics};
use crate::run::run;
use crate::unpoisoned;

/// How many failing seeds are kept: whoever has fixed ten runs all of them again.
const FAILED_MAX: usize = 10;

/// What many seeds came to.
#[derive(Debug, Default)]
pub struct Batch {
    /// All of them together.
    pub statistics: Statistics,
    /// How many failed.
    pub failures: u64,
    /// The first of those, by seed.
    pub failed: Vec<Outcome>,
}

impl Batch {
    fn add(&mut self, outcome: Outcome) {
        self.statistics.add(&outcome.statistics);
        if !outcome.violations.is_empty() {
            self.failures += 1;
            self.failed.push(outcome);
            self.failed.sort_by_key(|outcome| outcome.seed);
            self.failed.truncate(FAILED_MAX);
        }
    }
}

/// How many threads make sense here.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Runs a seed; one that panics has failed.
#[must_use]
pub fn run_caught(seed: u64, config: &Config) -> Outcome {
    catch_unwind(AssertUnwindSafe(|| run(seed, config))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let violation = format!("a panic: {}", text.unwrap_or("it carries no message"));
        let (trace, statistics) = (Vec::new(), Statistics { seeds: 1, ..Statistics::default() });
        Outcome { seed, trace_hash: 0, trace, statistics, violations: vec![violation] }
    })
}

/// Runs these seeds on so many threads. `tell` is asked after each how many there were, on whatever thread.
pub fn run_all(
    seeds: impl IntoIterator<Item = u64, IntoIter: Send>,
    config: &Config,
    threads: usize,
    tell: impl Fn(u64, u64) + Sync,
) -> Batch {
    let next = Mutex::new(seeds.into_iter());
    let (done, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let total = Mutex::new(Batch::default());
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let Some(seed) = unpoisoned(&next).next() else { return };
                    let outcome = run_caught(seed, config);
                    failed.fetch_add(u64::from(!outcome.violations.is_empty()), Ordering::Relaxed);
                    unpoisoned(&total).add(outcome);
                    tell(done.fetch_add(1, Ordering::Relaxed) + 1, failed.load(Ordering::Relaxed));
                }
            });
        }
    });
    total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}
