//! What a run came to.

use std::fmt;
use std::time::Duration;

use crate::coverage::Coverage;

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The seed.
    pub seed: u64,
    /// The same for the same seed, to the last poll.
    pub trace_hash: u64,
    /// What happened, when that was asked for.
    pub trace: Vec<String>,
    /// How much happened.
    pub statistics: Statistics,
    /// What must not have happened; empty is good.
    pub violations: Vec<String>,
}

/// How much happened, in one run or in many.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Runs.
    pub seeds: u64,
    /// Instances that clients started, and their children.
    pub instances: u64,
    /// Turns that hosts executed, committed or not.
    pub turns: u64,
    /// Commits that happened.
    pub commits: u64,
    /// Commits that used results of their host's tasks.
    pub fused: u64,
    /// Commits that kept an instance for which something had arrived.
    pub arrived: u64,
    /// Messages that were read for kept instances.
    pub read: u64,
    /// Mail that was read for an instance while results began its next turn.
    pub met: u64,
    /// Turns and tasks that sessions won and were told of.
    pub won: u64,
    /// Kept instances that sessions were told of because messages wait for them.
    pub named: u64,
    /// Recalls that were answered.
    pub recalls: u64,
    /// Turns and tasks that they returned.
    pub recalled: u64,
    /// Commits and completions that were refused because somebody else had the item.
    pub fenced: u64,
    /// Answers of which the caller learned nothing.
    pub unknown: u64,
    /// Commits of which the caller learned nothing.
    pub unknown_commits: u64,
    /// Those of them that had happened.
    pub unknown_committed: u64,
    /// Commits that were refused because somebody else had the instance.
    pub fenced_commits: u64,
    /// Hosts that died.
    pub crashes: u64,
    /// Instances that were begun again after an end.
    pub begun_again: u64,
    /// Turns of the poisoned instance that were tried in vain.
    pub poisoned: u64,
    /// Executions of activities, repeated ones included.
    pub effects: u64,
    /// Executions of activities beyond the first of each call.
    pub effects_repeated: u64,
    /// Calls to the store.
    pub calls: u64,
    /// Polls of tasks.
    pub polls: u64,
    /// Histories that were replayed and compared.
    pub replayed: u64,
    /// Things that the auditor compared.
    pub audited: u64,
    /// Calls of clients that were put in order.
    pub client_calls: u64,
    /// Timers of which it was checked when they fired.
    pub timers: u64,
    /// Instances that may have come to one end only.
    pub certain: u64,
    /// Virtual time.
    pub duration: Duration,
    /// What happened to instances that come and go.
    pub churned: Churned,
    /// What killed processes.
    pub killed: Killed,
    /// What happened how often.
    pub coverage: Coverage,
}

/// How often clients did what to instances that come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Churned {
    /// Starts that no client had asked for before.
    pub starts: u64,
    /// Starts that some client had asked for before.
    pub equal_starts: u64,
    /// Starts that were answered as repeats.
    pub repeats: u64,
    /// Starts that replaced a living run.
    pub replacements: u64,
    /// Failed runs that were rewound.
    pub rewinds: u64,
    /// Ended runs that were restarted.
    pub restarts: u64,
    /// Runs that were suspended, and resumed.
    pub suspends: u64,
    /// Instances that a purge or retention has removed.
    pub removed: u64,
    /// Hubs that were deleted.
    pub hubs_deleted: u64,
}

/// How often code killed its process, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Killed {
    /// Turns and activities that killed.
    pub poison: u64,
    /// Processes that died while these ran there.
    pub deaths: u64,
    /// Instances beside them.
    pub healthy: u64,
    /// Trials that began.
    pub trials: u64,
    /// Deaths by a suspect as it began.
    pub at_once: u64,
    /// Suspects that died with these before they began.
    pub unbegun: u64,
    /// Power losses of all hosts at once.
    pub losses: u64,
}

impl Killed {
    /// Each figure that many seeds must have, with its name.
    #[must_use]
    pub fn figures(&self) -> [(&'static str, u64); 6] {
        [
            ("poison", self.poison),
            ("deaths with it", self.deaths),
            ("healthy beside it", self.healthy),
            ("trials", self.trials),
            ("deaths at once", self.at_once),
            ("power losses", self.losses),
        ]
    }

    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.poison += other.poison;
        self.deaths += other.deaths;
        self.healthy += other.healthy;
        self.trials += other.trials;
        self.at_once += other.at_once;
        self.unbegun += other.unbegun;
        self.losses += other.losses;
    }
}

impl Churned {
    /// Each figure with its name.
    #[must_use]
    pub fn figures(&self) -> [(&'static str, u64); 9] {
        [
            ("starts", self.starts),
            ("equal starts", self.equal_starts),
            ("repeats", self.repeats),
            ("replacements of living runs", self.replacements),
            ("rewinds", self.rewinds),
            ("restarts", self.restarts),
            ("suspends", self.suspends),
            ("instances removed", self.removed),
            ("hubs deleted", self.hubs_deleted),
        ]
    }

    fn add(&mut self, other: &Self) {
        self.starts += other.starts;
        self.equal_starts += other.equal_starts;
        self.repeats += other.repeats;
        self.replacements += other.replacements;
        self.rewinds += other.rewinds;
        self.restarts += other.restarts;
        self.suspends += other.suspends;
        self.removed += other.removed;
        self.hubs_deleted += other.hubs_deleted;
    }
}

impl Statistics {
    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        self.seeds += other.seeds;
        self.instances += other.instances;
        self.turns += other.turns;
        self.commits += other.commits;
        self.fused += other.fused;
        self.arrived += other.arrived;
        self.read += other.read;
        self.met += other.met;
        self.won += other.won;
        self.named += other.named;
        self.recalls += other.recalls;
        self.recalled += other.recalled;
        self.fenced += other.fenced;
        self.unknown += other.unknown;
        self.unknown_commits += other.unknown_commits;
        self.unknown_committed += other.unknown_committed;
        self.fenced_commits += other.fenced_commits;
        self.crashes += other.crashes;
        self.begun_again += other.begun_again;
        self.poisoned += other.poisoned;
        self.effects += other.effects;
        self.effects_repeated += other.effects_repeated;
        self.calls += other.calls;
        self.polls += other.polls;
        self.replayed += other.replayed;
        self.audited += other.audited;
        self.client_calls += other.client_calls;
        self.timers += other.timers;
        self.certain += other.certain;
        self.duration += other.duration;
        self.churned.add(&other.churned);
        self.killed.add(&other.killed);
        self.coverage.add(&other.coverage);
    }
}

impl Outcome {
    /// The outcome of a seed with that of its killers.
    pub(crate) fn with(mut self, killers: Self) -> Self {
        self.trace_hash = self.trace_hash.rotate_left(5) ^ killers.trace_hash;
        self.trace.extend(killers.trace);
        self.statistics.killed = killers.statistics.killed;
        self.violations.extend(killers.violations);
        self
    }

    /// The violation that says most: that not everything has finished is true of nearly every failure.
    #[must_use]
    pub fn telling(&self) -> Option<&str> {
        let says_more =
            |violation: &&String| !violation.starts_with("L1") && !violation.starts_with("waiting");
        self.violations.iter().find(says_more).or(self.violations.first()).map(String::as_str)
    }
}

impl fmt::Display for Outcome {
    /// The violations, and how to see them again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "seed {}: {} violations, trace {:016x}",
            self.seed,
            self.violations.len(),
            self.trace_hash
        )?;
        for violation in &self.violations {
            writeln!(f, "  {violation}")?;
        }
        write!(f, "  again, with a trace: cargo run --release -p dauer-sim -- replay {} --trace", self.seed)
    }
}
