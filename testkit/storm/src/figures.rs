//! The figures of a storm: counted, judged, printed.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use dauer_audit::Finding;
use serde::Serialize;

use crate::board::Sums;
use crate::held::Held;
use crate::options::Common;
use crate::verify::Findings;

/// How many things that are wrong are printed; the rest is only counted.
const WRONG_SHOWN_MAX: usize = 20;

/// What the storm itself counts.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) kills: u64,
    pub(crate) hits: u64,
    pub(crate) hits_in_store: u64,
    pub(crate) turns_held: u64,
    pub(crate) tasks_held: u64,
    pub(crate) frozen: u64,
    pub(crate) vouched: u64,
    pub(crate) restarts: u64,
    pub(crate) stops: u64,
    pub(crate) stops_blocking: u64,
    pub(crate) heal: Duration,
    pub(crate) duration: Duration,
    /// What else was told, and how often.
    pub(crate) told: BTreeMap<String, u64>,
    pub(crate) wrong: Vec<String>,
}

impl Tally {
    /// A kill, and what the killed process held according to the store.
    pub(crate) fn hit(&mut self, held: &Held) {
        self.kills += 1;
        self.hits += u64::from(held.is_something());
        self.hits_in_store += u64::from(held.is_in_store());
        self.turns_held += held.turns as u64;
        self.tasks_held += held.tasks as u64;
    }
}

/// What one kind of storm counts and demands beyond what all do.
#[derive(Debug)]
pub(crate) struct Own {
    kind: &'static str,
    counts: BTreeMap<&'static str, u64>,
    faults: Vec<String>,
}

impl Own {
    /// Nothing yet.
    pub(crate) fn new(kind: &'static str) -> Self {
        Self { kind, counts: BTreeMap::new(), faults: Vec::new() }
    }

    /// A figure.
    pub(crate) fn count(&mut self, name: &'static str, value: u64) {
        self.counts.insert(name, value);
    }

    /// The verdict is red unless this holds.
    pub(crate) fn demand(&mut self, holds: bool, fault: &str) {
        if !holds {
            self.faults.push(fault.to_owned());
        }
    }
}

/// What became of one invariant.
#[derive(Debug, Serialize)]
pub(crate) struct Audited {
    checked: u64,
    violations: u64,
}

/// All figures. The names are those of the JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Figures {
    /// What was done to the workers.
    kind: &'static str,
    processes: u64,
    seed: u64,
    lease_ms: u128,
    duration_ms: u128,
    /// Processes killed by SIGKILL.
    kills: u64,
    /// Those of them that held a turn or a task.
    hits: u64,
    /// Those of these of which the store says so; of the rest their own words do.
    hits_in_store: u64,
    turns_held_by_killed: u64,
    tasks_held_by_killed: u64,
    /// Kills of a process that was stopped first, to read what it holds.
    kills_of_stopped: u64,
    /// Dead sessions that were ended by the supervisor instead of by time.
    sessions_ended: u64,
    restarts: u64,
    /// Processes stopped for longer than their lease, and continued.
    stops: u64,
    /// Processes that stood inside a write when they were stopped: nobody else could write, so they were continued or
    /// killed as soon as that was clear.
    stops_inside_a_write: u64,
    instances_compared: u64,
    turns: u64,
    /// Points of orchestrations that were passed again although no history knew of it.
    turns_redone: u64,
    activities: u64,
    /// Calls of activities that were begun again.
    activities_redone: u64,
    /// Commits of turns that the store refused because the instance had changed hands.
    commits_fenced: u64,
    /// Results of activities that nobody wanted any more.
    answers_dropped: u64,
    /// Workers that did something while they lived.
    workers_progressed: u64,
    workers_started: u64,
    longest_silence_ms: u128,
    /// From the start of a worker to the first thing it did: a part of the above.
    longest_start_ms: u128,
    silence_ms_max: u64,
    /// From the last blow to the end of the last instance.
    heal_ms: u128,
    logged: BTreeMap<String, u64>,
    audit: BTreeMap<&'static str, Audited>,
    audit_checked: u64,
    audit_violations: u64,
    /// What only this kind of storm counts.
    #[serde(flatten)]
    own: BTreeMap<&'static str, u64>,
    wrong: Vec<String>,
    verdict: String,
}

impl Figures {
    /// Puts the figures together and judges them.
    pub(crate) fn new(options: &Common, (tally, sums): (Tally, Sums), findings: Findings, own: Own) -> Self {
        let Findings { mut wrong, compared, report } = findings;
        wrong.extend(tally.wrong);
        let violations = report.violations();
        wrong.extend(violations.map(|(invariant, violation)| format!("{}: {violation}", invariant.code())));
        let audited = |finding: &Finding| Audited {
            checked: finding.checked(),
            violations: finding.violations().len() as u64,
        };
        let mut figures = Self {
            kind: own.kind,
            own: own.counts,
            processes: options.processes,
            seed: options.seed,
            lease_ms: options.lease().as_millis(),
            duration_ms: tally.duration.as_millis(),
            kills: tally.kills,
            hits: tally.hits,
            hits_in_store: tally.hits_in_store,
            turns_held_by_killed: tally.turns_held,
            tasks_held_by_killed: tally.tasks_held,
            kills_of_stopped: tally.frozen,
            sessions_ended: tally.vouched,
            restarts: tally.restarts,
            stops: tally.stops,
            stops_inside_a_write: tally.stops_blocking,
            instances_compared: compared,
            turns: sums.turns,
            turns_redone: sums.turns_redone,
            activities: sums.activities,
            activities_redone: sums.activities_redone,
            commits_fenced: sums.fenced,
            answers_dropped: sums.dropped,
            workers_progressed: sums.progressed,
            workers_started: options.processes + tally.restarts,
            longest_silence_ms: sums.longest_silence.as_millis(),
            longest_start_ms: sums.longest_start.as_millis(),
            silence_ms_max: options.silence_ms_max,
            heal_ms: tally.heal.as_millis(),
            logged: sums.logged.into_iter().chain(tally.told).collect(),
            audit: report.findings().map(|(invariant, found)| (invariant.code(), audited(found))).collect(),
            audit_checked: report.checked(),
            audit_violations: report.violations().count() as u64,
            wrong,
            verdict: String::new(),
        };
        figures.verdict = figures.judge(own.faults);
        figures
    }

    fn judge(&self, mut faults: Vec<String>) -> String {
        let mut demand = |holds: bool, fault: &str| {
            if !holds {
                faults.push(fault.to_owned());
            }
        };
        demand(self.wrong.is_empty(), &format!("{} things are wrong", self.wrong.len()));
        demand(self.audit_checked > 0, "nothing was audited");
        let silence = u128::from(self.silence_ms_max);
        demand(self.longest_silence_ms <= silence, "a worker did nothing for too long");
        if faults.is_empty() { "clean".to_owned() } else { format!("RED: {}", faults.join("; ")) }
    }

    /// Whether nothing was found.
    pub(crate) fn is_clean(&self) -> bool {
        self.verdict == "clean"
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, value: String| writeln!(f, "{name:<46} {value}");
        row("processes, seed, lease", format!("{}, {}, {} ms", self.processes, self.seed, self.lease_ms))?;
        if self.kills > 0 {
            row(
                "kills, of them hit a lease, seen in the store",
                format!("{}, {}, {}", self.kills, self.hits, self.hits_in_store),
            )?;
            row(
                "held by the killed: turns, tasks",
                format!("{}, {}", self.turns_held_by_killed, self.tasks_held_by_killed),
            )?;
            row(
                "killed while stopped; sessions ended",
                format!("{}; {}", self.kills_of_stopped, self.sessions_ended),
            )?;
        }
        row("restarts", self.restarts.to_string())?;
        row("stops; inside a write", format!("{}; {}", self.stops, self.stops_inside_a_write))?;
        for (name, value) in &self.own {
            row(&name.replace('_', " "), value.to_string())?;
        }
        row("instances compared", self.instances_compared.to_string())?;
        row("turns, of them redone", format!("{}, {}", self.turns, self.turns_redone))?;
        row("activities, of them redone", format!("{}, {}", self.activities, self.activities_redone))?;
        row("commits fenced; answers dropped", format!("{}; {}", self.commits_fenced, self.answers_dropped))?;
        row("workers started, progressed", format!("{}, {}", self.workers_started, self.workers_progressed))?;
        row(
            "longest silence of a living worker",
            format!("{} ms (allowed {} ms)", self.longest_silence_ms, self.silence_ms_max),
        )?;
        row("longest from a start to the first work", format!("{} ms", self.longest_start_ms))?;
        row("healed after", format!("{} ms", self.heal_ms))?;
        row("duration", format!("{} ms", self.duration_ms))?;
        for (message, count) in &self.logged {
            writeln!(f, "logged {count:>6} x {message}")?;
        }
        for (code, audited) in self.audit.iter().filter(|(_, audited)| audited.checked > 0) {
            writeln!(f, "audit {code:<4} {:>9} checked, {} violations", audited.checked, audited.violations)?;
        }
        for wrong in self.wrong.iter().take(WRONG_SHOWN_MAX) {
            writeln!(f, "wrong: {wrong}")?;
        }
        write!(f, "storm of {}: {}", self.kind, self.verdict)
    }
}
