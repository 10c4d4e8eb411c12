//! What must be true when everything has finished: the outcomes of the model, the auditor's invariants, and replay.

use std::collections::BTreeMap;
use std::time::Duration;

use dauer_audit::{Evidence, Settings, Snapshot, audit};
use dauer_proto::{
    ActionType, EventType, HistoryEvent, OrchestrationStatus, OrchestratorAction, event, time,
};
use dauer_replay::{Live, Registry};
use dauer_store::{Batch, InstanceDump, InstanceId, Record, Timestamp};

use crate::cases::Case;
use crate::foreign::{self, REUSING};
use crate::interpret::Effects;
use crate::liveness;
use crate::model;
use crate::outcome::Statistics;
use crate::program::POISON;
use crate::unpoisoned;

/// For how long a host carries on the time that the store has told it (`TIME_CARRIED_MAX` of the hub).
const TIME_CARRIED_MAX: Duration = Duration::from_secs(1);

/// Collects what is wrong.
pub(crate) struct Check<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) registry: &'a Registry,
    pub(crate) effects: &'a Effects,
    pub(crate) statistics: &'a mut Statistics,
    pub(crate) violations: &'a mut Vec<String>,
}

impl Check<'_> {
    /// Every instance ended as the model allows, and no other exists. What was purged is judged by what its client saw.
    pub(crate) fn outcomes(&mut self, cases: &[Case], seen: &BTreeMap<InstanceId, Record>) {
        let mut known = usize::from(self.snapshot.instances.keys().any(|id| id.as_str() == POISON));
        for case in cases {
            for (id, member) in case.program.family(&case.id) {
                let ending = model::ending(member, case.ends_modern(), case.terminated);
                let there = self.snapshot.instances.get(&id).map(|dump| &dump.record);
                known += usize::from(there.is_some());
                let purged = case.purged && id == case.id;
                let wrong = match there {
                    Some(_) if purged => Some("I18: it was purged, and is there".into()),
                    Some(record) => ending.check(record).err(),
                    // A terminated parent may never have come to that child.
                    None if case.terminated && id != case.id => None,
                    None if purged => match seen.get(&id) {
                        Some(record) => ending.check(record).err(),
                        None => Some("its client never saw its end".into()),
                    },
                    None => Some("it does not exist".into()),
                };
                self.violations.extend(wrong.map(|wrong| format!("outcome of {id}: {wrong}")));
            }
        }
        let found = self.snapshot.instances.len();
        if found != known {
            self.violations.push(format!("I10: {found} instances where {known} were started"));
        }
        self.statistics.instances = found as u64;
    }

    /// The auditor finds nothing.
    pub(crate) fn audit(&mut self, evidence: &Evidence<'_>) {
        let report = audit(self.snapshot, evidence, &Settings::default());
        self.statistics.audited = report.checked();
        for (invariant, violation) in report.violations() {
            self.violations.push(format!("{invariant}: {violation}"));
        }
        if report.checked() == 0 && !self.snapshot.instances.is_empty() {
            self.violations.push("the auditor had nothing to check".into());
        }
    }

    /// I9: the code on its history, from the beginning, decides what was recorded; and every answer has an effect. The
    /// same events show that no turn was ahead of the store's time, and whether timers fired in time.
    pub(crate) fn replay(&mut self, healed: Timestamp) {
        let snapshot = self.snapshot;
        for dump in snapshot.instances.values() {
            self.statistics.replayed += 1;
            let mut events = Vec::new();
            for stored in &dump.history {
                match stored.batch.decode() {
                    Ok(decoded) => events.extend(decoded.into_iter().map(|event| (stored.at, event))),
                    Err(error) => self.violations.push(format!("I9 {}: {error}", dump.id)),
                }
            }
            self.violations.extend(ahead_of_time(dump, &events));
            let (timers, late) = liveness::late_timers(dump, &events, healed);
            self.statistics.timers += timers;
            self.violations.extend(late);
            let events: Vec<HistoryEvent> = events.into_iter().map(|(_, event)| event).collect();
            self.count(&events);
            if let Err(wrong) = self.replay_one(dump, &events) {
                self.violations.push(format!("I9 {}: {wrong}", dump.id));
            }
        }
    }

    fn count(&mut self, events: &[HistoryEvent]) {
        for event in events {
            *self.statistics.coverage.events.entry(event::kind_name(event)).or_default() += 1;
        }
    }

    /// The same for runs that continued as new, whose last turn was never stored, and for those that were rewound: what was
    /// stored must replay.
    pub(crate) fn replay_replaced(&mut self, histories: &[(InstanceId, Vec<Batch>)]) {
        // One that only put messages off before its start, and continued as new with its first turn, has stored no event.
        let stored = |(_, batches): &&(InstanceId, Vec<Batch>)| batches.iter().any(|batch| batch.count > 0);
        for (id, batches) in histories.iter().filter(stored) {
            self.statistics.replayed += 1;
            let events: Result<Vec<_>, _> = batches.iter().map(Batch::decode).collect();
            let wrong = match events {
                Err(error) => Some(error.to_string()),
                Ok(events) => {
                    let events = events.concat();
                    self.count(&events);
                    // Ended from outside, perhaps before it began: no code had a part in that.
                    let outside = |end: End| end.id == event::NO_ACTION;
                    match events.iter().find_map(started_as) {
                        _ if events.iter().rev().find_map(completed).is_some_and(outside) => None,
                        Some(REUSING) => foreign::check_replay(&events).err(),
                        _ => Live::start(self.registry, &events, &[]).err().map(|error| error.to_string()),
                    }
                }
            };
            self.violations.extend(wrong.map(|wrong| format!("I9 {id}, an earlier run: {wrong}")));
        }
    }

    fn replay_one(&self, dump: &InstanceDump, events: &[HistoryEvent]) -> Result<(), String> {
        self.effects_of(dump, events)?;
        if &*dump.record.queue.name == REUSING {
            return foreign::check_replay(events);
        }
        let Some(recorded) = events.iter().rev().find_map(completed) else {
            return Err("it has no end in its history".into());
        };
        // Ended from outside, before it began or by force: no code had a part in that.
        if recorded.id == event::NO_ACTION {
            let terminated = recorded.status == OrchestrationStatus::Terminated as i32;
            return if terminated { Ok(()) } else { Err("nobody ended it".into()) };
        }
        let replayed = Live::start(self.registry, events, &[]).map_err(|error| error.to_string())?;
        match replayed.1.actions.as_slice() {
            [action] => same_end(&recorded, action),
            others => Err(format!("{} actions are left where the history has only its end", others.len())),
        }
    }

    fn effects_of(&self, dump: &InstanceDump, events: &[HistoryEvent]) -> Result<(), String> {
        let effects = unpoisoned(self.effects);
        // What a rewind has kept was executed in a run before.
        let rewound =
            events.iter().any(|event| matches!(event.event_type, Some(EventType::ExecutionRewound(_))));
        let before = |task: i32| effects.keys().any(|(id, _, done, _)| (id, *done) == (&dump.id, task));
        for event in events {
            let task = match &event.event_type {
                Some(EventType::TaskCompleted(done)) => done.task_scheduled_id,
                Some(EventType::TaskFailed(failed)) => failed.task_scheduled_id,
                _ => continue,
            };
            let key = (dump.id.clone(), dump.record.execution, task, 0);
            let executed = effects.contains_key(&key) || rewound && before(task);
            if !executed {
                let execution = dump.record.execution;
                return Err(format!(
                    "task {task} of execution {execution} is answered and was never executed"
                ));
            }
        }
        Ok(())
    }
}

struct End {
    id: i32,
    status: i32,
    result: Option<String>,
    failure: Option<String>,
}

fn completed(event: &HistoryEvent) -> Option<End> {
    match &event.event_type {
        Some(EventType::ExecutionCompleted(end)) => Some(End {
            id: event.event_id,
            status: end.orchestration_status,
            result: end.result.clone(),
            failure: end.failure_details.as_ref().map(|details| details.error_message.clone()),
        }),
        _ => None,
    }
}

fn same_end(recorded: &End, action: &OrchestratorAction) -> Result<(), String> {
    let Some(ActionType::CompleteOrchestration(end)) = &action.orchestrator_action_type else {
        return Err("the code goes on where the history ends".into());
    };
    let failure = end.failure_details.as_ref().map(|details| details.error_message.clone());
    let same = end.orchestration_status == recorded.status
        && end.result == recorded.result
        && failure == recorded.failure
        && action.id == recorded.id;
    if same {
        return Ok(());
    }
    let (id, status) = (action.id, end.orchestration_status);
    Err(format!(
        "the code ends with action {id} as {status}, the history with {} as {}",
        recorded.id, recorded.status
    ))
}

/// A turn's time is the store's: none can be later than the commit of that turn, but for the moment that a host may carry
/// it on while the store's clock stands still.
fn ahead_of_time(dump: &InstanceDump, events: &[(Timestamp, HistoryEvent)]) -> Option<String> {
    let turn = |event: &HistoryEvent| match event.event_type {
        Some(EventType::OrchestratorStarted(_)) => {
            event.timestamp.as_ref().and_then(|at| time::to_millis_ceil(at).ok())
        }
        _ => None,
    };
    let latest = |committed: Timestamp| committed.after(TIME_CARRIED_MAX).0;
    let ahead =
        |(committed, event): &(Timestamp, HistoryEvent)| turn(event).filter(|at| *at > latest(*committed));
    let (at, found) = events.iter().find_map(|found| Some((ahead(found)?, found)))?;
    Some(format!("I8 {}: a turn took place {} ms after its own commit", dump.id, at - found.0.0))
}

/// The name of the code that a run began with.
fn started_as(event: &HistoryEvent) -> Option<&str> {
    match &event.event_type {
        Some(EventType::ExecutionStarted(started)) => Some(&started.name),
        _ => None,
    }
}
