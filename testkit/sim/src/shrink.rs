//! Making a failing seed smaller: faults, cases, steps, hosts and the operator are left out one after the other, as long
//! as what is left still fails.

use crate::batch::run_caught;
use crate::cases::Case;
use crate::config::Config;
use crate::faults::{STREAMS, Swarm};
use crate::hosts::HOSTS;
use crate::kinds::Kind;
use crate::outcome::Outcome;
use crate::random::Random;

/// The smallest configuration that was found.
#[derive(Debug)]
pub struct Shrunk {
    /// What is left out.
    pub config: Config,
    /// What it comes to.
    pub outcome: Outcome,
    /// How many runs that took.
    pub runs: u64,
}

/// Leaves one thing out.
type Part = Box<dyn Fn(&mut Config)>;

/// Everything of a seed that can be left out, the largest parts first.
fn parts(seed: u64) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    parts.push(Box::new(|config| config.without_operator = true));
    parts.push(Box::new(|config| config.without_churn = true));
    parts.push(Box::new(|config| config.without_killers = true));
    let swarm = Swarm::draw(&mut Random::stream(seed, 1)).with_streams(&mut Random::stream(seed, STREAMS));
    let kinds: Vec<Kind> = swarm.rates.keys().copied().collect();
    let steps: Vec<usize> = Case::draw(seed).iter().map(|case| case.program.steps.len()).collect();
    for case in 0..steps.len() {
        parts.push(Box::new(move |config| {
            config.without_cases.insert(case);
        }));
    }
    for _ in 1..HOSTS {
        parts.push(Box::new(|config| config.without_hosts += 1));
    }
    for kind in kinds {
        parts.push(Box::new(move |config| {
            config.without.insert(kind);
        }));
    }
    for (case, steps) in steps.into_iter().enumerate() {
        for step in 0..steps {
            parts.push(Box::new(move |config| {
                config.without_steps.insert((case, step));
            }));
        }
    }
    parts
}

/// Leaves out what a failing seed does not need to fail; `None` when it does not fail. Whether it fails in the same way
/// does not matter: whatever is wrong is worth knowing, and the smaller the better.
#[must_use]
pub fn shrink(seed: u64, config: &Config) -> Option<Shrunk> {
    let mut config = config.clone();
    let mut outcome = run_caught(seed, &config);
    if outcome.violations.is_empty() {
        return None;
    }
    let mut runs = 1;
    // Its faults and cases have no names.
    if config.apart {
        return Some(Shrunk { config, outcome, runs });
    }
    loop {
        let before = config.clone();
        for part in parts(seed) {
            let mut smaller = config.clone();
            part(&mut smaller);
            if smaller == config || smaller.without_hosts >= HOSTS {
                continue;
            }
            runs += 1;
            let tried = run_caught(seed, &smaller);
            if !tried.violations.is_empty() {
                (config, outcome) = (smaller, tried);
            }
        }
        // Once something is gone, something else may not be needed any more.
        if config == before {
            return Some(Shrunk { config, outcome, runs });
        }
    }
}
