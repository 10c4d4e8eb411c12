//! What happened how often: faults by the store call they hit, actions, events and statuses. Over many seeds no cell
//! that can have something may be empty, or nothing was tested there.

use std::collections::BTreeMap;
use std::time::Duration;

use dauer_faults::Op;

use crate::faults::{fate, is_fate};
use crate::kinds::{Kind, Target};

/// How many seeds must have been run before an empty cell means anything.
pub const SEEDS_MIN: u64 = 1_000;

/// Why an operation is never called; `None` when it is.
#[must_use]
pub fn uncalled(op: Op) -> Option<&'static str> {
    match op {
        Op::Load => Some("it fills an empty hub from a backup, before there are hosts"),
        Op::Close => Some("the store ends with its run"),
        Op::Key | Op::Adopt | Op::Died => Some("servers of workers elsewhere call it"),
        Op::Trial => Some("hosts that run suspects alone call it"),
        Op::Retry => Some("operators and hosts of another build call it"),
        _ => None,
    }
}

/// Every operation that is called.
pub fn ops() -> impl Iterator<Item = Op> {
    Op::ALL.iter().copied().filter(|op| uncalled(*op).is_none())
}

/// The hints that one handle on a store sends. `Elsewhere` is of stores with several handles or processes.
pub const HINTS: [&str; 3] = ["status", "ended", "session ended"];

/// What orchestrations ask for. `SendEntityMessage` and `RewindOrchestration` are missing: there are no entities' turns
/// yet, and no worker rewinds.
pub const ACTIONS: [&str; 9] = [
    "ScheduleTask",
    "CreateTimer",
    "CreateSubOrchestration",
    "SendEvent",
    "TerminateOrchestration",
    "complete: Completed",
    "complete: Failed",
    "complete: ContinuedAsNew",
    "complete: Terminated",
];

/// What stands in histories. Entity events are missing, as above; `OrchestratorCompleted`, `GenericEvent`,
/// `HistoryState` and `ContinueAsNew` are of other servers, this one never writes them.
pub const EVENTS: [&str; 17] = [
    "OrchestratorStarted",
    "ExecutionStarted",
    "ExecutionCompleted",
    "ExecutionTerminated",
    "ExecutionSuspended",
    "ExecutionResumed",
    "TaskScheduled",
    "TaskCompleted",
    "TaskFailed",
    "SubOrchestrationInstanceCreated",
    "SubOrchestrationInstanceCompleted",
    "SubOrchestrationInstanceFailed",
    "TimerCreated",
    "TimerFired",
    "EventSent",
    "EventRaised",
    "ExecutionRewound",
];

/// Where an instance can be. `Canceled` is missing: no SDK sends it.
pub const STATUSES: [&str; 6] = ["Pending", "Running", "Suspended", "Completed", "Failed", "Terminated"];

/// Why a fault cannot happen to calls of an operation; `None` when it can.
#[must_use]
pub fn impossible(kind: Kind, op: Op) -> Option<&'static str> {
    match kind {
        Kind::CrashBefore | Kind::CrashAfter if is_of_hosts(op) => None,
        Kind::CrashBefore | Kind::CrashAfter => {
            Some("clients do not crash: they remember what was promised to them")
        }
        Kind::Echo => no_echo(op),
        kind if is_fate(kind) => fate(kind, Duration::from_secs(1)).impossible(op),
        _ => Some("it does not happen to calls"),
    }
}

/// Why a request does not arrive once more after a while.
fn no_echo(op: Op) -> Option<&'static str> {
    match op {
        Op::Send
        | Op::Amend
        | Op::Purge
        | Op::Retry
        | Op::EndSession
        | Op::Recall
        | Op::CommitTurns
        | Op::CompleteActivities
        | Op::Renew
        | Op::Release
        | Op::Key
        | Op::Died
        | Op::Detach => None,
        Op::Create => Some("a start that arrives after a purge is a new start"),
        Op::Attach => Some("a session that attaches after its host has gone lives without a host"),
        Op::DeleteHub => Some("it would delete the next hub of that name"),
        Op::Adopt => Some("it would take the task from the session that has adopted it since"),
        Op::Trial => Some("an old trial would open again"),
        Op::Credit => Some("old credit would replace newer credit"),
        Op::Next => Some("what it won would be lost without a sign"),
        Op::Load | Op::Close => uncalled(op),
        Op::Hubs
        | Op::HasHub
        | Op::Get
        | Op::Inspect
        | Op::Sessions
        | Op::Query
        | Op::List
        | Op::ReadHistory
        | Op::ReadStart
        | Op::Scale
        | Op::Dump
        | Op::Mail
        | Op::LoadHistory => Some("reading once more has no effect"),
    }
}

/// Whether hosts make that call.
#[must_use]
pub fn is_of_hosts(op: Op) -> bool {
    matches!(
        op,
        Op::Attach
            | Op::Credit
            | Op::Next
            | Op::Recall
            | Op::Mail
            | Op::LoadHistory
            | Op::CommitTurns
            | Op::CompleteActivities
            | Op::Renew
            | Op::Release
            | Op::Key
            | Op::Adopt
            | Op::Died
            | Op::Trial
            | Op::Detach
    )
}

/// How often everything happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Calls that were made.
    pub made: BTreeMap<Op, u64>,
    /// Faults between a call and its answer, and crashes and echoes of a call.
    pub calls: BTreeMap<(Kind, Op), u64>,
    /// Faults that hit a hint.
    pub hints: BTreeMap<(Kind, &'static str), u64>,
    /// All other faults.
    pub others: BTreeMap<Kind, u64>,
    /// Actions by kind.
    pub actions: BTreeMap<&'static str, u64>,
    /// Events by kind.
    pub events: BTreeMap<&'static str, u64>,
    /// Commits by the status they lead to, and starts.
    pub statuses: BTreeMap<&'static str, u64>,
}

fn add<K: Ord + Copy>(into: &mut BTreeMap<K, u64>, from: &BTreeMap<K, u64>) {
    for (key, count) in from {
        *into.entry(*key).or_default() += count;
    }
}

impl Coverage {
    /// Adds another run's.
    pub fn add(&mut self, other: &Self) {
        add(&mut self.made, &other.made);
        add(&mut self.calls, &other.calls);
        add(&mut self.hints, &other.hints);
        add(&mut self.others, &other.others);
        add(&mut self.actions, &other.actions);
        add(&mut self.events, &other.events);
        add(&mut self.statuses, &other.statuses);
    }

    /// How many faults there were.
    #[must_use]
    pub fn faults(&self) -> u64 {
        let calls: u64 = self.calls.values().sum();
        let hints: u64 = self.hints.values().sum();
        calls + hints + self.others.values().sum::<u64>()
    }

    /// How often a fault happened, wherever.
    #[must_use]
    pub fn of(&self, kind: Kind) -> u64 {
        let calls: u64 = self.calls.iter().filter(|((k, _), _)| *k == kind).map(|(_, count)| count).sum();
        let hints: u64 = self.hints.iter().filter(|((k, _), _)| *k == kind).map(|(_, count)| count).sum();
        calls + hints + self.others.get(&kind).copied().unwrap_or_default()
    }

    /// The cells that have nothing and should.
    #[must_use]
    pub fn empty(&self) -> Vec<String> {
        let mut empty = Vec::new();
        for kind in Kind::of(Target::Call) {
            for op in ops().filter(|op| impossible(kind, *op).is_none()) {
                if !self.calls.contains_key(&(kind, op)) {
                    empty.push(format!("{kind} x {op}"));
                }
            }
        }
        for kind in Kind::of(Target::Hint) {
            let missing = HINTS.into_iter().filter(|hint| !self.hints.contains_key(&(kind, *hint)));
            empty.extend(missing.map(|hint| format!("{kind} x {hint}")));
        }
        let others = Kind::ALL.iter().filter(|kind| !matches!(kind.target(), Target::Call | Target::Hint));
        empty.extend(others.filter(|kind| !self.others.contains_key(kind)).map(ToString::to_string));
        let words =
            [(&self.actions, &ACTIONS[..]), (&self.events, &EVENTS[..]), (&self.statuses, &STATUSES[..])];
        for (counts, names) in words {
            empty.extend(names.iter().filter(|name| !counts.contains_key(*name)).map(ToString::to_string));
        }
        empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_cell_is_named_and_an_impossible_one_is_not() {
        let mut full = Coverage::default();
        for kind in Kind::ALL {
            for op in ops().filter(|op| impossible(*kind, *op).is_none()) {
                full.calls.insert((*kind, op), 1);
            }
            full.hints.extend(HINTS.map(|hint| ((*kind, hint), 1)));
            full.others.insert(*kind, 1);
        }
        full.actions.extend(ACTIONS.map(|name| (name, 1)));
        full.events.extend(EVENTS.map(|name| (name, 1)));
        full.statuses.extend(STATUSES.map(|name| (name, 1)));
        assert_eq!(full.empty(), Vec::<String>::new());
        full.calls.remove(&(Kind::LoseAnswer, Op::CommitTurns));
        full.hints.remove(&(Kind::HintLost, "status"));
        full.events.remove("TimerFired");
        assert_eq!(full.empty(), ["lose-answer x CommitTurns", "hint-lost x status", "TimerFired"]);
        assert!(impossible(Kind::CrashAfter, Op::Create).is_some());
        assert_eq!(impossible(Kind::CrashAfter, Op::Renew), None);
    }
}
