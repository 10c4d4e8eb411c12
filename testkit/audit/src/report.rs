//! What an audit found: for each invariant how much was checked and what was wrong.

use std::fmt;

use dauer_core::InstanceId;

/// How many violations [`Report`] prints; the rest is only counted, a reader needs the first ones.
pub const VIOLATIONS_SHOWN_MAX: usize = 20;

/// The invariants, under the names of the architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "code() and title() say it, and two spellings of one sentence drift apart")]
pub enum Invariant {
    LinearHistory,
    SingleCommitter,
    AtomicTurn,
    Durability,
    AppliedOnce,
    Causality,
    TerminalIsFinal,
    Timers,
    Replay,
    Identity,
    Isolation,
    ClientView,
    Bounded,
    Entities,
    Families,
    Readiness,
    SenderOrder,
    NoResurrection,
    Conservation,
    Progress,
    DueTimers,
    NoOrphans,
    Poison,
}

impl Invariant {
    /// All of them, in the order of the report.
    pub const ALL: [Self; 23] = [
        Self::LinearHistory,
        Self::SingleCommitter,
        Self::AtomicTurn,
        Self::Durability,
        Self::AppliedOnce,
        Self::Causality,
        Self::TerminalIsFinal,
        Self::Timers,
        Self::Replay,
        Self::Identity,
        Self::Isolation,
        Self::ClientView,
        Self::Bounded,
        Self::Entities,
        Self::Families,
        Self::Readiness,
        Self::SenderOrder,
        Self::NoResurrection,
        Self::Conservation,
        Self::Progress,
        Self::DueTimers,
        Self::NoOrphans,
        Self::Poison,
    ];

    /// Its number, e.g. `I1`.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.words().0
    }

    /// Its name, e.g. `linear history`.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.words().1
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::LinearHistory => ("I1", "linear history"),
            Self::SingleCommitter => ("I2", "single committer"),
            Self::AtomicTurn => ("I3", "atomic turn"),
            Self::Durability => ("I4", "durability"),
            Self::AppliedOnce => ("I5", "applied once"),
            Self::Causality => ("I6", "causality"),
            Self::TerminalIsFinal => ("I7", "terminal is final"),
            Self::Timers => ("I8", "timers never early"),
            Self::Replay => ("I9", "replay"),
            Self::Identity => ("I10", "identity"),
            Self::Isolation => ("I11", "isolation"),
            Self::ClientView => ("I12", "client view"),
            Self::Bounded => ("I13", "bounded"),
            Self::Entities => ("I14", "entities"),
            Self::Families => ("I15", "families"),
            Self::Readiness => ("I16", "readiness"),
            Self::SenderOrder => ("I17", "sender order"),
            Self::NoResurrection => ("I18", "no resurrection"),
            Self::Conservation => ("I19", "conservation"),
            Self::Progress => ("L1", "progress"),
            Self::DueTimers => ("L2", "due timers fire"),
            Self::NoOrphans => ("L3", "no orphans"),
            Self::Poison => ("L4", "poison is contained"),
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.code(), self.title())
    }
}

/// One thing that is not as it must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The instance it is about; `None` when it is about the hub.
    pub instance: Option<InstanceId>,
    /// Where in it, e.g. `event 7` or `task 00ff…`; empty when it is about the whole.
    pub place: String,
    /// What is wrong, as a sentence.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.instance {
            Some(instance) => write!(f, "{instance}")?,
            None => f.write_str("hub")?,
        }
        if !self.place.is_empty() {
            write!(f, ", {}", self.place)?;
        }
        write!(f, ": {}", self.what)
    }
}

/// What became of one invariant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// It was looked at. `checked` may be 0, which says nothing about the hub and is printed so.
    Checked {
        /// How many things were compared.
        checked: u64,
        /// Those that were wrong.
        violations: Vec<Violation>,
    },
    /// It cannot be looked at with the material given, for this reason.
    NotChecked(&'static str),
}

impl Finding {
    /// What was wrong.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        match self {
            Self::Checked { violations, .. } => violations,
            Self::NotChecked(_) => &[],
        }
    }

    /// How many things were compared.
    #[must_use]
    pub fn checked(&self) -> u64 {
        match self {
            Self::Checked { checked, .. } => *checked,
            Self::NotChecked(_) => 0,
        }
    }

    /// Something was compared and nothing was wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.checked() > 0 && self.violations().is_empty()
    }
}

/// The outcome of an audit. Its `Display` is a table; the last line is the verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    instances: usize,
    findings: Vec<(Invariant, Finding)>,
}

impl Report {
    pub(crate) fn new(instances: usize, findings: Vec<(Invariant, Finding)>) -> Self {
        Self { instances, findings }
    }

    /// How many instances the dump held.
    #[must_use]
    pub fn instances(&self) -> usize {
        self.instances
    }

    /// The outcome in one line: `clean: …`, `NOT CLEAN: …` or `not checked: …`.
    #[must_use]
    pub fn verdict(&self) -> String {
        let instances = plural(self.instances, "instance");
        match (self.violations().count(), self.checked()) {
            (0, 0) => format!("not checked: {instances}, and nothing to compare"),
            (0, 1) => format!("clean: {instances}, 1 check"),
            (0, checked) => format!("clean: {instances}, {checked} checks"),
            (total, _) => format!("NOT CLEAN: {}", plural(total, "violation")),
        }
    }

    /// The invariants and what became of them, in the order of [`Invariant::ALL`].
    pub fn findings(&self) -> impl Iterator<Item = (Invariant, &Finding)> {
        self.findings.iter().map(|(invariant, finding)| (*invariant, finding))
    }

    /// What became of one invariant.
    #[must_use]
    pub fn finding(&self, invariant: Invariant) -> &Finding {
        let found = self.findings.iter().find(|(each, _)| *each == invariant);
        found.map_or(&Finding::NotChecked("this audit does not know it"), |(_, finding)| finding)
    }

    /// All violations, by invariant.
    pub fn violations(&self) -> impl Iterator<Item = (Invariant, &Violation)> {
        self.findings()
            .flat_map(|(invariant, finding)| finding.violations().iter().map(move |v| (invariant, v)))
    }

    /// How many things were compared in all.
    #[must_use]
    pub fn checked(&self) -> u64 {
        self.findings.iter().map(|(_, finding)| finding.checked()).sum()
    }

    /// Something was compared and nothing was wrong. An audit of nothing is not clean.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.checked() > 0 && self.violations().next().is_none()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (invariant, finding) in self.findings() {
            let (code, title) = invariant.words();
            let checked = finding.checked();
            let outcome = match finding {
                Finding::NotChecked(reason) => format!("not checked: {reason}"),
                Finding::Checked { violations, .. } if !violations.is_empty() => {
                    plural(violations.len(), "violation")
                }
                Finding::Checked { checked: 0, .. } => {
                    "not checked: the dump holds nothing of the kind".into()
                }
                Finding::Checked { .. } => "clean".into(),
            };
            writeln!(f, "{code:<4} {title:<20} {checked:>9}  {outcome}")?;
        }
        let total = self.violations().count();
        for (invariant, violation) in self.violations().take(VIOLATIONS_SHOWN_MAX) {
            writeln!(f, "{}: {violation}", invariant.code())?;
        }
        if total > VIOLATIONS_SHOWN_MAX {
            writeln!(f, "and {} more", total - VIOLATIONS_SHOWN_MAX)?;
        }
        f.write_str(&self.verdict())
    }
}

/// Whether several audits, one for each hub of a store, found something to compare and nothing wrong. A hub with nothing in it says
/// nothing about the others; an audit of nothing but such is not clean.
#[must_use]
pub fn all_clean(reports: &[Report]) -> bool {
    let whole = reports.iter().all(|report| report.violations().next().is_none());
    whole && reports.iter().any(Report::is_clean)
}

/// The outcome of such audits in one line, like [`Report::verdict`].
#[must_use]
pub fn verdict_of_all(reports: &[Report]) -> String {
    let hubs = plural(reports.len(), "hub");
    let instances: usize = reports.iter().map(Report::instances).sum();
    let (violated, checked): (usize, u64) = (
        reports.iter().map(|report| report.violations().count()).sum(),
        reports.iter().map(Report::checked).sum(),
    );
    let unclean = reports.iter().filter(|report| report.violations().next().is_some()).count();
    match (violated, checked) {
        (0, 0) => format!("not checked: {hubs}, and nothing to compare"),
        (0, checked) => format!("clean: {hubs}, {}, {checked} checks", plural(instances, "instance")),
        (total, _) => format!("NOT CLEAN: {} in {unclean} of {hubs}", plural(total, "violation")),
    }
}

fn plural(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Counts what one check compares and keeps what is wrong.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    checked: u64,
    violations: Vec<Violation>,
}

impl Tally {
    /// Counts one comparison; `what` is asked only when it does not hold.
    pub(crate) fn check<'p>(
        &mut self,
        holds: bool,
        at: impl FnOnce() -> Place<'p>,
        what: impl FnOnce() -> String,
    ) {
        self.checked += 1;
        if !holds {
            let Place { instance, place } = at();
            self.violations.push(Violation { instance: instance.cloned(), place, what: what() });
        }
    }

    pub(crate) fn finding(self) -> Finding {
        Finding::Checked { checked: self.checked, violations: self.violations }
    }
}

/// Where a comparison was made.
pub(crate) struct Place<'a> {
    instance: Option<&'a InstanceId>,
    place: String,
}

impl<'a> Place<'a> {
    pub(crate) fn hub() -> Self {
        Self { instance: None, place: String::new() }
    }

    pub(crate) fn of(instance: &'a InstanceId) -> Self {
        Self { instance: Some(instance), place: String::new() }
    }

    pub(crate) fn at(instance: &'a InstanceId, place: impl Into<String>) -> Self {
        Self { instance: Some(instance), place: place.into() }
    }
}
