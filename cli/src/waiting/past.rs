//! What the history of a run tells: how it began, what it leaves open, what failed and which events came.

use std::collections::BTreeMap;

use dauer::{Hub, InstanceId, Record, Timestamp};
use dauer_core::MessageId;
use dauer_core::ledger::{Ledger, LedgerError};
use dauer_proto::{EventType, ExecutionStartedEvent, HistoryEvent, time::to_millis_ceil};

use super::Open;
use crate::error::Failure;

/// What the history of a run tells.
#[derive(Default, Clone)]
pub(crate) struct Past {
    /// How it was started; absent before it has begun.
    pub(crate) started: Option<ExecutionStartedEvent>,
    /// What it leaves open, in the order in which it was asked for.
    pub(super) open: Vec<(MessageId, Open)>,
    /// The activity whose failure is the last thing that was answered, with how often one of that name failed.
    pub(super) failed: Option<(String, u32)>,
    /// The names of the events that were raised to it.
    pub(super) raised: Vec<String>,
    /// The current run began with a rewind. Its history keeps the event; continuing as new begins another history.
    pub(crate) rewound: bool,
}

/// Follows the history of an instance's current run.
pub(crate) async fn past(hub: &Hub, id: &InstanceId, record: &Record) -> Result<Past, Failure> {
    let unreadable = |source: LedgerError| Failure::History { id: id.clone(), source };
    let mut ledger = Ledger::new(id.clone(), record.execution);
    let mut reading = Reading::default();
    let mut events = hub.client().raw().history_of(id, record);
    while let Some(event) = events.next().await {
        let event = event?;
        let identity = ledger.record(&event, None).map_err(unreadable)?;
        reading.event(identity, event);
    }
    let mut past = reading.past;
    past.open.retain(|(identity, _)| ledger.open(*identity).is_some());
    Ok(past)
}

/// What is kept while a history is read.
#[derive(Default)]
struct Reading {
    past: Past,
    /// The activities by the event ids of their schedules, which their answers name.
    names: BTreeMap<i32, String>,
    failures: BTreeMap<String, u32>,
}

impl Reading {
    fn event(&mut self, identity: Option<MessageId>, event: HistoryEvent) {
        let open = self.open(&event);
        self.past.open.extend(identity.zip(open));
        match event.event_type {
            Some(EventType::ExecutionStarted(start)) => self.past.started = Some(start),
            Some(EventType::TaskScheduled(task)) => _ = self.names.insert(event.event_id, task.name),
            Some(EventType::TaskFailed(failed)) => {
                if let Some(name) = self.names.get(&failed.task_scheduled_id) {
                    let count = self.failures.entry(name.clone()).or_default();
                    *count += 1;
                    self.past.failed = Some((name.clone(), *count));
                }
            }
            Some(EventType::EventRaised(raised)) => self.past.raised.push(raised.name),
            Some(EventType::ExecutionRewound(_)) => self.past.rewound = true,
            Some(
                EventType::TaskCompleted(_)
                | EventType::TimerFired(_)
                | EventType::SubOrchestrationInstanceCompleted(_)
                | EventType::SubOrchestrationInstanceFailed(_),
            ) => self.past.failed = None,
            _ => {}
        }
    }

    /// What an event asks for, if it asks for something that is answered.
    fn open(&self, event: &HistoryEvent) -> Option<Open> {
        Some(match event.event_type.as_ref()? {
            EventType::TaskScheduled(task) => {
                let failures = self.failures.get(&task.name).copied().unwrap_or_default();
                Open::Activity { name: task.name.clone(), attempt: failures + 1, worker: None, found: false }
            }
            EventType::TimerCreated(timer) => {
                let due = timer.fire_at.as_ref().and_then(|at| to_millis_ceil(at).ok());
                Open::Timer { due: Timestamp(due.unwrap_or_default()) }
            }
            EventType::SubOrchestrationInstanceCreated(child) => Open::Child {
                id: child.instance_id.clone(),
                name: child.name.clone(),
                status: None,
                trouble: None,
            },
            EventType::EntityOperationCalled(call) => {
                Open::Entity { id: call.target_instance_id.clone().unwrap_or_default() }
            }
            EventType::EntityLockRequested(request) => Open::Entity { id: request.lock_set.join(", ") },
            _ => return None,
        })
    }
}
