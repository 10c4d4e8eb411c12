//! Disks that fail and disks that are full: typed answers, no half state, nothing acknowledged lost, and the store goes
//! on when the fault is over. At the end the power is lost as well, with all that failed syncs have forsaken.

use std::time::Instant;

use dauer_sim::random::Random;

use crate::error::Error;
use crate::figures::Figures;
use crate::file::Loss;
use crate::told::Told;
use crate::trial::{Setup, Trial};

/// How many calls fail in a row: one, and so many that a second attempt meets the fault too.
const FAILURES: [u64; 2] = [1, 4];

/// How many durable calls are left to an heir that dies: in the opening of the file, or behind it. A step that has no
/// divisor with their number in common meets them all.
const HEIR_CALLS: std::ops::Range<u64> = 10..150;
const HEIR_STEP: u64 = 23;

/// How many calls find the disk full before there is room again.
const FULL_FAILURES: u64 = 12;

/// Faults at many points of the same work.
#[derive(Debug, Clone)]
pub struct FaultCampaign {
    /// How children are run.
    pub setup: Setup,
    /// So many points for each kind of fault, spread evenly over the work.
    pub points: u64,
    /// What the losses are drawn from.
    pub seed: u64,
    /// Only this: whether the heir of a process that died with a failed sync dies too, perhaps while it moves the log into
    /// the file. SQLite alone does not survive that: it takes the log that it finds for durable, and the failed sync has
    /// made it not so. The store does, because it writes the log again before SQLite may believe it.
    pub heirs_die: bool,
}

impl FaultCampaign {
    /// Runs all points of all kinds.
    ///
    /// # Errors
    /// When there is no verdict; what is found is in the figures.
    pub async fn run(&self) -> Result<Figures, Error> {
        let began = Instant::now();
        let whole = self.setup.child("watch", true)?;
        if !whole.done {
            return Err(Error::Child(format!("undisturbed, the child told at last {:?}", whole.told.last())));
        }
        let title = format!("failing disk, {:?}, {} points of each kind", self.setup.durability, self.points);
        let mut figures = Figures { title, calls: whole.disk.calls, ..Figures::default() };
        for plan in self.plans(&whole) {
            if figures.is_hopeless() {
                break;
            }
            let trial = self.trial(&plan, figures.children)?;
            figures.children += 1;
            let failed: u64 = trial.disk.failed.values().sum();
            figures.failed += failed;
            figures.untouched += u64::from(failed == 0);
            if !(trial.done || trial.killed && self.heirs_die) {
                figures.add_wrong(format!("{plan}: the child has not done its work"));
            }
            for told in &trial.told {
                let answer = match told {
                    Told::Refused { call, how } => format!("{call} {how}"),
                    Told::NotOpened(_) => "open refused".to_owned(),
                    _ => continue,
                };
                *figures.refused.entry(answer).or_default() += 1;
            }
            for loss in [Loss::All, Loss::Some] {
                let mut random = Random::stream(self.seed, figures.children);
                let label = format!("{plan}, loss of {loss:?}");
                self.setup.judge_loss(&label, &trial, (loss, &mut random), &mut figures).await?;
            }
        }
        Ok(figures.took(began.elapsed()))
    }

    /// One child; after one that died with a failed sync, its heir, which goes on with what that has left in the log.
    fn trial(&self, plan: &str, number: u64) -> Result<Trial, Error> {
        let trial = self.setup.child(plan, true)?;
        match (trial.killed, self.heirs_die) {
            (false, _) => Ok(trial),
            (true, false) => self.setup.heir(trial.told, "watch"),
            (true, true) => {
                let calls =
                    HEIR_CALLS.start + HEIR_STEP * (number + self.seed) % (HEIR_CALLS.end - HEIR_CALLS.start);
                self.setup.heir(trial.told, &format!("kill-before={calls}"))
            }
        }
    }

    /// What the shim is told, for every child.
    fn plans(&self, whole: &Trial) -> Vec<String> {
        let spread = |all: u64| {
            let points = self.points.min(all);
            (1..=points).map(move |number| 1 + (number - 1) * all / points)
        };
        if self.heirs_die {
            let at = |number| 1 + number % whole.disk.syncs;
            return (0..self.points).map(|number| format!("sync-fails-dies={}", at(number))).collect();
        }
        let mut plans = Vec::new();
        for (number, from) in spread(whole.disk.syncs).enumerate() {
            plans.push(format!("sync-fails={from}x{}", FAILURES[number % FAILURES.len()]));
        }
        plans.extend(spread(whole.disk.syncs).map(|at| format!("sync-fails-dies={at}")));
        for (number, from) in spread(whole.disk.writes).enumerate() {
            plans.push(format!("write-fails={from}x{}", FAILURES[number % FAILURES.len()]));
        }
        plans.extend(spread(whole.disk.grown).map(|bytes| format!("full={bytes}x{FULL_FAILURES}")));
        plans
    }
}
