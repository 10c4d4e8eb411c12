//! What happened how often: faults by the store call they hit, actions, events and statuses. Over many seeds no cell
//! that can have something may be empty, or nothing was tested there.

use std::collections::BTreeMap;

use dauer_memory::Call;

use crate::kinds::{Kind, Target};

/// How many seeds must have been run before an empty cell means anything.
pub const SEEDS_MIN: u64 = 1_000;

/// Every call that somebody makes. `Load` is missing: it fills an empty hub from a backup, before there are hosts.
pub const CALLS: [Call; 23] = [
    Call::Create,
    Call::Send,
    Call::Amend,
    Call::Get,
    Call::Query,
    Call::List,
    Call::ReadHistory,
    Call::Purge,
    Call::Scale,
    Call::Dump,
    Call::EndSession,
    Call::Attach,
    Call::ClaimTurns,
    Call::LoadHistory,
    Call::CommitTurns,
    Call::ClaimActivities,
    Call::CompleteActivities,
    Call::Renew,
    Call::Release,
    Call::NextDue,
    Call::WaitingMail,
    Call::Mail,
    Call::Detach,
];

/// The kinds of hints that the memory store sends. `Elsewhere` is of stores with several processes.
pub const HINTS: [&str; 6] = ["ready turn", "ready task", "due", "mail", "status", "session ended"];

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

/// Whether a fault can hit a call at all.
#[must_use]
pub fn is_possible(kind: Kind, call: Call) -> bool {
    match kind {
        // Clients never crash: they are the ones who remember what was promised.
        Kind::CrashBefore | Kind::CrashAfter => is_of_hosts(call),
        // A start that is delivered again after a purge is a new start. Whoever claims or attaches without listening to
        // the answer has what nobody works on. Reading again has no effect.
        Kind::Echo => matches!(
            call,
            Call::Send
                | Call::Amend
                | Call::Purge
                | Call::EndSession
                | Call::CommitTurns
                | Call::CompleteActivities
                | Call::Renew
                | Call::Release
                | Call::Detach
        ),
        _ => kind.target() == Target::Call,
    }
}

/// Whether hosts make that call.
#[must_use]
pub fn is_of_hosts(call: Call) -> bool {
    matches!(
        call,
        Call::Attach
            | Call::ClaimTurns
            | Call::LoadHistory
            | Call::CommitTurns
            | Call::ClaimActivities
            | Call::CompleteActivities
            | Call::Renew
            | Call::Release
            | Call::NextDue
            | Call::WaitingMail
            | Call::Mail
            | Call::Detach
    )
}

/// How often everything happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Calls that were made.
    pub made: BTreeMap<Call, u64>,
    /// Faults that hit a call.
    pub calls: BTreeMap<(Kind, Call), u64>,
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
            for call in CALLS.into_iter().filter(|call| is_possible(kind, *call)) {
                if !self.calls.contains_key(&(kind, call)) {
                    empty.push(format!("{kind} x {call:?}"));
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
            for call in CALLS.into_iter().filter(|call| is_possible(*kind, *call)) {
                full.calls.insert((*kind, call), 1);
            }
            full.hints.extend(HINTS.map(|hint| ((*kind, hint), 1)));
            full.others.insert(*kind, 1);
        }
        full.actions.extend(ACTIONS.map(|name| (name, 1)));
        full.events.extend(EVENTS.map(|name| (name, 1)));
        full.statuses.extend(STATUSES.map(|name| (name, 1)));
        assert_eq!(full.empty(), Vec::<String>::new());
        full.calls.remove(&(Kind::LoseAnswer, Call::CommitTurns));
        full.hints.remove(&(Kind::HintLost, "status"));
        full.events.remove("TimerFired");
        assert_eq!(full.empty(), ["lose-answer x CommitTurns", "hint-lost x status", "TimerFired"]);
        assert!(!is_possible(Kind::CrashAfter, Call::Create) && is_possible(Kind::CrashAfter, Call::Renew));
    }
}
