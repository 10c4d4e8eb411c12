//! What must be true when everything has finished: the outcomes of the model, the auditor's invariants, and replay.

use dauer_audit::{Evidence, Settings, Snapshot, audit};
use dauer_proto::{ActionType, EventType, HistoryEvent, OrchestratorAction};
use dauer_replay::{Live, Registry};
use dauer_store::{Batch, InstanceDump, InstanceId, Status};

use crate::clients::Case;
use crate::interpret::Effects;
use crate::model;
use crate::outcome::Statistics;
use crate::unpoisoned;

/// Collects what is wrong.
pub(crate) struct Check<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) registry: &'a Registry,
    pub(crate) effects: &'a Effects,
    pub(crate) statistics: &'a mut Statistics,
    pub(crate) violations: &'a mut Vec<String>,
}

impl Check<'_> {
    /// Every instance ended as the model allows, and no other exists.
    pub(crate) fn outcomes(&mut self, cases: &[Case]) {
        let mut known = 0;
        for case in cases {
            for (id, program) in case.program.family(&case.id) {
                let dump = self.snapshot.instances.get(&id);
                let wrong = match dump {
                    Some(dump) => model::check(program, &dump.record, case.terminated).err(),
                    // A terminated parent may never have come to that child.
                    None if case.terminated && id != case.id => None,
                    None => Some("it does not exist".into()),
                };
                known += usize::from(dump.is_some());
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
        if report.checked() == 0 {
            self.violations.push("the auditor had nothing to check".into());
        }
    }

    /// I9: the code on its history, from the beginning, decides what was recorded; and every answer has an effect.
    pub(crate) fn replay(&mut self) {
        for dump in self.snapshot.instances.values() {
            self.statistics.replayed += 1;
            if let Err(wrong) = self.replay_one(dump) {
                self.violations.push(format!("I9 {}: {wrong}", dump.id));
            }
        }
    }

    /// The same for runs that continued as new: their last turn was never stored, all before it must replay.
    pub(crate) fn replay_replaced(&mut self, histories: &[(InstanceId, Vec<Batch>)]) {
        for (id, batches) in histories.iter().filter(|(_, batches)| !batches.is_empty()) {
            self.statistics.replayed += 1;
            let events: Result<Vec<_>, _> = batches.iter().map(Batch::decode).collect();
            let wrong = match events {
                Err(error) => Some(error.to_string()),
                Ok(events) => {
                    Live::start(self.registry, &events.concat(), &[]).err().map(|error| error.to_string())
                }
            };
            self.violations.extend(wrong.map(|wrong| format!("I9 {id}, an earlier run: {wrong}")));
        }
    }

    fn replay_one(&self, dump: &InstanceDump) -> Result<(), String> {
        let mut events = Vec::new();
        for stored in &dump.history {
            events.extend(stored.batch.decode().map_err(|error| error.to_string())?);
        }
        self.effects_of(dump, &events)?;
        let replayed = Live::start(self.registry, &events, &[]).map_err(|error| error.to_string())?;
        let actions = replayed.1.actions;
        let Some(recorded) = events.iter().rev().find_map(completed) else {
            return Err("it has no end in its history".into());
        };
        match (&recorded, actions.as_slice()) {
            (end, [action]) => same_end(end, action),
            (_, others) => {
                Err(format!("{} actions are left where the history has only its end", others.len()))
            }
        }
    }

    fn effects_of(&self, dump: &InstanceDump, events: &[HistoryEvent]) -> Result<(), String> {
        let effects = unpoisoned(self.effects);
        for event in events {
            let task = match &event.event_type {
                Some(EventType::TaskCompleted(done)) => done.task_scheduled_id,
                Some(EventType::TaskFailed(failed)) => failed.task_scheduled_id,
                _ => continue,
            };
            let key = (dump.id.clone(), dump.record.execution, task);
            if !effects.contains_key(&key) {
                return Err(format!("task {task} is answered and was never executed"));
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

/// What an unfinished hub waits for.
pub(crate) fn waits(snapshot: &Snapshot) -> Vec<String> {
    let mut lines = Vec::new();
    for (id, dump) in &snapshot.instances {
        if dump.record.status.is_ended() && dump.holder.is_none() {
            continue;
        }
        let tasks = snapshot.tasks.values().filter(|task| task.task.instance == *id).count();
        let (status, revision) = (dump.record.status, dump.record.revision.0);
        let trouble =
            dump.record.trouble.as_ref().map(|trouble| format!(", {:?}: {}", trouble.kind, trouble.reason));
        let holder = dump.holder.map_or(String::new(), |holder| {
            let left = snapshot.sessions.get(&holder).map(|session| session.expires_at.0 - snapshot.now.0);
            format!(", held by a session that expires in {left:?} ms")
        });
        let ready = dump.ready_at.map(|at| at.0 - snapshot.now.0);
        lines.push(format!(
            "{id} is {status:?} at revision {revision}, {} messages wait, ready in {ready:?} ms, {tasks} tasks{holder}{}",
            dump.prologue.len() + dump.inbox.len(),
            trouble.unwrap_or_default()
        ));
    }
    for dump in snapshot.tasks.values() {
        let (task, withdrawn) = (&dump.task, if dump.withdrawn { ", withdrawn" } else { "" });
        let left = dump.holder.and_then(|holder| snapshot.sessions.get(&holder));
        let left = left.map(|session| session.expires_at.0 - snapshot.now.0);
        let (id, held) = (&task.instance, dump.holder.is_some());
        lines.push(format!(
            "task {} of {id}, held: {held}, by a session that expires in {left:?} ms, attempts {}{withdrawn}",
            task.event_id, dump.attempts
        ));
    }
    lines
}

/// Whether a run has nothing left to do: every instance has ended, nothing is to be executed.
pub(crate) fn is_drained(snapshot: &Snapshot) -> bool {
    let ended = |dump: &InstanceDump| {
        let status: Status = dump.record.status;
        status.is_ended() && dump.ready_at.is_none() && dump.holder.is_none()
    };
    snapshot.tasks.is_empty() && snapshot.instances.values().all(ended)
}
