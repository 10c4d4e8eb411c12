//! Power loss at the k-th durable system call, for one k after the other.

use std::path::Path;
use std::time::Instant;

use dauer_sim::random::Random;

use crate::error::Error;
use crate::figures::Figures;
use crate::file::Loss;
use crate::judge::judge;
use crate::trial::{Plant, Setup, Trial};

/// Bytes at the beginning of the file that damage leaves alone: with the header gone it would be another finding.
const HEADER_BYTES: usize = 4_096;

/// Power losses at many points of the same work.
#[derive(Debug, Clone)]
pub struct Campaign {
    /// How children are run.
    pub setup: Setup,
    /// The first so many durable calls are points.
    pub points: u64,
    /// So many more, spread evenly over the rest of the work.
    pub spread: u64,
    /// What the losses are drawn from.
    pub seed: u64,
}

impl Campaign {
    /// Runs all points, each twice: killed before the call and after it.
    ///
    /// # Errors
    /// When there is no verdict; what is found is in the figures.
    pub async fn run(&self) -> Result<Figures, Error> {
        let began = Instant::now();
        let whole = self.setup.child("watch", false)?;
        if !whole.done {
            return Err(Error::Child(format!("undisturbed, the child told at last {:?}", whole.told.last())));
        }
        let title = format!("power loss, {:?}, {} points", self.setup.durability, self.points);
        let mut figures = Figures { title, calls: whole.disk.calls, ..Figures::default() };
        for point in self.points_of(whole.disk.calls) {
            if figures.is_hopeless() {
                break;
            }
            for (moment, losses) in
                [("before", &[Loss::All, Loss::Some][..]), ("after", &[Loss::Some, Loss::Nothing])]
            {
                let trial = self.setup.child(&format!("kill-{moment}={point}"), false)?;
                figures.children += 1;
                figures.untouched += u64::from(trial.done);
                if !trial.killed && !trial.done {
                    figures.add_wrong(format!("{moment} call {point}: the child ended by itself"));
                }
                for loss in losses {
                    let label = format!("{moment} call {point}, loss of {loss:?}");
                    let mut random = Random::stream(self.seed, point);
                    self.setup.judge_loss(&label, &trial, (*loss, &mut random), &mut figures).await?;
                }
            }
        }
        Ok(figures.took(began.elapsed()))
    }

    /// The numbers of the calls at which power is lost.
    fn points_of(&self, calls: u64) -> Vec<u64> {
        let first = self.points.min(calls);
        let rest = calls - first;
        let spread = self.spread.min(rest);
        (1..=first).chain((1..=spread).map(|number| first + number * rest / spread)).collect()
    }
}

impl Setup {
    /// Has the power lost after a trial, and judges what is left.
    pub(crate) async fn judge_loss(
        &self,
        label: &str,
        trial: &Trial,
        (loss, random): (Loss, &mut Random),
        figures: &mut Figures,
    ) -> Result<(), Error> {
        figures.dirty += u64::from(trial.disk.is_dirty());
        trial.disk.lose_power(&self.folder(), loss, random)?;
        if self.plant == Some(Plant::Damage) {
            damage(&self.file())?;
        }
        let mut findings = judge(&self.file(), self.durability, &trial.told).await?;
        if loss == Loss::Nothing {
            // The death of the process alone takes nothing, whatever was promised.
            let lost = findings.lost.drain(..).map(|line| format!("lost without a loss of power: {line}"));
            findings.wrong.extend(lost);
        }
        figures.add(label, findings);
        Ok(())
    }
}

/// Writes over everything in the file but its header.
fn damage(file: &Path) -> std::io::Result<()> {
    let Ok(mut content) = std::fs::read(file) else { return Ok(()) };
    content.iter_mut().skip(HEADER_BYTES).for_each(|byte| *byte = 0x5a);
    std::fs::write(file, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_the_first_calls_and_then_some_of_the_rest() {
        let setup = Setup {
            program: "p".into(),
            place: "x".into(),
            durability: dauer_sqlite::Durability::Full,
            plant: None,
        };
        let campaign = Campaign { setup, points: 3, spread: 2, seed: 1 };
        assert_eq!(campaign.points_of(13), [1, 2, 3, 8, 13]);
        assert_eq!(campaign.points_of(4), [1, 2, 3, 4]);
        assert_eq!(campaign.points_of(2), [1, 2]);
    }
}
