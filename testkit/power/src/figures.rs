//! What a run has shown, in numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::Serialize;

use crate::judge::Findings;

/// How many findings are shown; the rest is counted.
const SHOWN_MAX: usize = 10;

/// After so many wrong things a run ends: it is red anyway, and what is stuck takes its time.
const WRONG_MAX: u64 = 5;

/// The figures of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Figures {
    /// What was run.
    pub title: String,
    /// Durable system calls of the whole work, undisturbed.
    pub calls: u64,
    /// Children that were killed, or met a fault.
    pub children: u64,
    /// Children that had done all their work before it came to that.
    pub untouched: u64,
    /// Power losses that were judged.
    pub losses: u64,
    /// Those of them that had anything to lose.
    pub dirty: u64,
    /// Acknowledgements that were looked for after a loss.
    pub acknowledged: u64,
    /// Things that the auditor compared.
    pub audited: u64,
    /// Acknowledged, and not there.
    pub lost: u64,
    /// Losses after which anything acknowledged was not there.
    pub losing: u64,
    /// Wrong in any other way.
    pub wrong: u64,
    /// Calls that were made to fail.
    pub failed: u64,
    /// How the store answered meanwhile, by call and answer.
    pub refused: BTreeMap<String, u64>,
    /// The first findings.
    pub shown: Vec<String>,
    /// How long it took.
    pub seconds: u64,
}

impl Figures {
    /// Takes in what was found after one loss.
    pub(crate) fn add(&mut self, label: &str, findings: Findings) {
        self.losses += 1;
        self.acknowledged += findings.acknowledged;
        self.audited += findings.audited;
        self.lost += findings.lost.len() as u64;
        self.losing += u64::from(!findings.lost.is_empty());
        for line in findings.lost.iter().take(1) {
            self.show(format!("{label}: LOST {line}"));
        }
        findings.wrong.into_iter().for_each(|line| self.add_wrong(format!("{label}: WRONG {line}")));
    }

    /// Something is wrong.
    pub(crate) fn add_wrong(&mut self, line: String) {
        self.wrong += 1;
        self.show(line);
    }

    fn show(&mut self, line: String) {
        if self.shown.len() < SHOWN_MAX {
            self.shown.push(line);
        }
    }

    pub(crate) fn took(mut self, time: Duration) -> Self {
        self.seconds = time.as_secs();
        self
    }

    /// Whether going on would show nothing new.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.wrong >= WRONG_MAX
    }

    /// Whether the run has shown anything at all.
    fn is_telling(&self) -> bool {
        self.losses > 0 && self.dirty > 0 && self.acknowledged > 0 && self.audited > 0
    }

    /// Nothing acknowledged was lost and nothing is wrong, and the run could have shown it.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.is_telling() && self.lost == 0 && self.wrong == 0
    }

    /// Something acknowledged was lost, and nothing else is wrong: the file is whole, and goes on.
    #[must_use]
    pub fn loses_and_stays_whole(&self) -> bool {
        self.is_telling() && self.lost > 0 && self.wrong == 0
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.shown {
            writeln!(f, "{line}")?;
        }
        let Self { calls, children, untouched, losses, dirty, acknowledged, audited, .. } = self;
        writeln!(f, "durable calls of the undisturbed work  {calls}")?;
        writeln!(f, "children disturbed                     {children}, {untouched} too late")?;
        writeln!(f, "power losses judged                    {losses}, {dirty} with something to lose")?;
        writeln!(f, "acknowledgements looked for            {acknowledged}")?;
        writeln!(f, "comparisons of the auditor             {audited}")?;
        if self.failed > 0 {
            writeln!(f, "calls made to fail                     {}", self.failed)?;
        }
        for (how, count) in &self.refused {
            writeln!(f, "  answered: {how:<28} {count}")?;
        }
        let Self { title, lost, losing, wrong, seconds, .. } = self;
        write!(f, "{title}: {lost} lost at {losing} losses, {wrong} wrong, {seconds} s")
    }
}
