//! `dauer-sim planted`: every planted bug is found, by checkers that do not know which is on.

use dauer_core::planted::Bug;
use dauer_sim::hunt::{clean, hunt, planted};

use crate::{Misunderstood, say, tell};

/// The bug of that name.
pub(crate) fn by_name(name: &str) -> Result<Bug, Misunderstood> {
    let found = Bug::ALL.iter().copied().find(|bug| bug.name() == name);
    found.ok_or_else(|| Misunderstood::Bug(name.to_owned()))
}

/// Whether every bug was found within so many seeds, and none where none is.
pub(crate) fn run(seeds: u64, only: Option<&str>, threads: usize) -> Result<bool, Misunderstood> {
    let bugs = match only {
        Some(name) => vec![by_name(name)?],
        None => Bug::ALL.to_vec(),
    };
    let mut missed = 0;
    say(&format!("{:22} {:>10}  {}", "planted bug", "first seed", "what was reported"));
    for bug in bugs {
        tell(&format!("planting {}", bug.name()));
        let config = planted(bug);
        match hunt(&config, seeds, threads) {
            Some(outcome) => {
                let report = outcome.telling().unwrap_or_default();
                say(&format!("{:22} {:>10}  {report}", bug.name(), outcome.seed));
            }
            None => {
                missed += 1;
                say(&format!("{:22} {:>10}  not found in {seeds} seeds", bug.name(), "-"));
            }
        }
    }
    let failed = clean(seeds, threads);
    say(&format!("{:22} {:>10}  {failed} of the same {seeds} seeds report anything", "none", "-"));
    Ok(missed == 0 && failed == 0)
}
