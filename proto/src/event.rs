//! Constructors for the history events that dauer writes, and questions to ask of any event.
//!
//! Every event has a timestamp, because .NET workers fail on one without. The event id follows one convention: events
//! born of an action carry the action's id, a completion included; ExecutionStarted carries 0; all others carry -1.
//! Payloads are `Option<String>`: an empty string is a payload, `None` is none, and the difference is kept.
//!
//! `at_ms` is always the event's own time in milliseconds since the epoch, and always the first argument.

mod kind;

use prost_types::Timestamp;

use crate::{
    CreateSubOrchestrationAction, EntityLockGrantedEvent, EntityMessageType, EntityOperationCompletedEvent,
    EntityOperationFailedEvent, EventRaisedEvent, EventSentEvent, EventType, ExecutionCompletedEvent,
    ExecutionResumedEvent, ExecutionRewoundEvent, ExecutionStartedEvent, ExecutionSuspendedEvent,
    ExecutionTerminatedEvent, HistoryEvent, OrchestrationInstance, OrchestrationStatus, ScheduleTaskAction,
    SubOrchestrationInstanceCompletedEvent, SubOrchestrationInstanceCreatedEvent,
    SubOrchestrationInstanceFailedEvent, TaskCompletedEvent, TaskFailedEvent, TaskFailureDetails,
    TaskScheduledEvent, TimerCreatedEvent, TimerFiredEvent, time, wire,
};

pub use kind::{Answer, Scheduled, ScheduledKind, answer, answers, kind_name, schedules};

/// The event id of events that no action gave birth to.
pub const NO_ACTION: i32 = -1;
/// The event id of ExecutionStarted, which is what the managed Durable Task service writes.
pub const STARTED: i32 = 0;

/// An event of any kind. The other constructors know the right id; use this one for kinds that have none.
pub fn new(at_ms: i64, event_id: i32, kind: EventType) -> HistoryEvent {
    HistoryEvent { event_id, timestamp: Some(time::from_millis(at_ms)), event_type: Some(kind) }
}

/// A turn begins; its time is what the orchestrator sees as now.
pub fn orchestrator_started(at_ms: i64) -> HistoryEvent {
    new(at_ms, NO_ACTION, EventType::OrchestratorStarted(wire::OrchestratorStartedEvent {}))
}

/// The start of an execution with no more than it needs, to be completed by struct update:
/// `ExecutionStartedEvent { input, ..event::start("Order", instance_id, execution_id) }`.
pub fn start(
    name: impl Into<String>,
    instance_id: impl Into<String>,
    execution_id: impl Into<String>,
) -> ExecutionStartedEvent {
    let instance =
        OrchestrationInstance { instance_id: instance_id.into(), execution_id: Some(execution_id.into()) };
    ExecutionStartedEvent {
        name: name.into(),
        orchestration_instance: Some(instance),
        ..ExecutionStartedEvent::default()
    }
}

/// An execution begins.
pub fn execution_started(at_ms: i64, start: ExecutionStartedEvent) -> HistoryEvent {
    new(at_ms, STARTED, EventType::ExecutionStarted(start))
}

/// An execution ends by the completion action `event_id`.
pub fn execution_completed(
    at_ms: i64,
    event_id: i32,
    status: OrchestrationStatus,
    result: Option<String>,
    failure: Option<TaskFailureDetails>,
) -> HistoryEvent {
    let completed =
        ExecutionCompletedEvent { orchestration_status: status.into(), result, failure_details: failure };
    new(at_ms, event_id, EventType::ExecutionCompleted(completed))
}

/// Someone asks the execution to end with `input` as its output, its children too if `recurse`.
pub fn execution_terminated(at_ms: i64, input: Option<String>, recurse: bool) -> HistoryEvent {
    new(at_ms, NO_ACTION, EventType::ExecutionTerminated(ExecutionTerminatedEvent { input, recurse }))
}

/// Someone asks the execution to pause.
pub fn execution_suspended(at_ms: i64, reason: Option<String>) -> HistoryEvent {
    new(at_ms, NO_ACTION, EventType::ExecutionSuspended(ExecutionSuspendedEvent { input: reason }))
}

/// Someone asks the execution to go on.
pub fn execution_resumed(at_ms: i64, reason: Option<String>) -> HistoryEvent {
    new(at_ms, NO_ACTION, EventType::ExecutionResumed(ExecutionResumedEvent { input: reason }))
}

/// A failed execution is taken back to before its failures.
pub fn execution_rewound(at_ms: i64, rewound: ExecutionRewoundEvent) -> HistoryEvent {
    new(at_ms, NO_ACTION, EventType::ExecutionRewound(rewound))
}

/// An activity is scheduled by action `event_id`. A [`ScheduleTaskAction`] converts into the task with `.into()`.
pub fn task_scheduled(at_ms: i64, event_id: i32, task: impl Into<TaskScheduledEvent>) -> HistoryEvent {
    new(at_ms, event_id, EventType::TaskScheduled(task.into()))
}

/// The activity scheduled by `task_scheduled_id` returned.
pub fn task_completed(at_ms: i64, task_scheduled_id: i32, result: Option<String>) -> HistoryEvent {
    new(at_ms, NO_ACTION, EventType::TaskCompleted(TaskCompletedEvent { task_scheduled_id, result }))
}

/// The activity scheduled by `task_scheduled_id` failed.
pub fn task_failed(at_ms: i64, task_scheduled_id: i32, failure: TaskFailureDetails) -> HistoryEvent {
    let failed = TaskFailedEvent { task_scheduled_id, failure_details: Some(failure) };
    new(at_ms, NO_ACTION, EventType::TaskFailed(failed))
}

/// A child is started by action `event_id`. A [`CreateSubOrchestrationAction`] converts into the child with `.into()`.
pub fn sub_orchestration_created(
    at_ms: i64,
    event_id: i32,
    child: impl Into<SubOrchestrationInstanceCreatedEvent>,
) -> HistoryEvent {
    new(at_ms, event_id, EventType::SubOrchestrationInstanceCreated(child.into()))
}

/// The child started by `task_scheduled_id` completed.
pub fn sub_orchestration_completed(
    at_ms: i64,
    task_scheduled_id: i32,
    result: Option<String>,
) -> HistoryEvent {
    let completed = SubOrchestrationInstanceCompletedEvent { task_scheduled_id, result };
    new(at_ms, NO_ACTION, EventType::SubOrchestrationInstanceCompleted(completed))
}

/// The child started by `task_scheduled_id` failed, was terminated, or could not be started.
pub fn sub_orchestration_failed(
    at_ms: i64,
    task_scheduled_id: i32,
    failure: TaskFailureDetails,
) -> HistoryEvent {
    let failed = SubOrchestrationInstanceFailedEvent { task_scheduled_id, failure_details: Some(failure) };
    new(at_ms, NO_ACTION, EventType::SubOrchestrationInstanceFailed(failed))
}

/// A timer is set by action `event_id`.
///
/// The time is a [`Timestamp`] and not milliseconds, because workers compare what fires with what they asked for, to
/// the nanosecond.
pub fn timer_created(at_ms: i64, event_id: i32, fire_at: Timestamp) -> HistoryEvent {
    new(at_ms, event_id, EventType::TimerCreated(TimerCreatedEvent { fire_at: Some(fire_at) }))
}

/// The timer set by `timer_id` went off. `fire_at` is the time of the created timer, unchanged.
pub fn timer_fired(at_ms: i64, timer_id: i32, fire_at: Timestamp) -> HistoryEvent {
    new(at_ms, NO_ACTION, EventType::TimerFired(TimerFiredEvent { fire_at: Some(fire_at), timer_id }))
}

/// An event for another instance is sent by action `event_id`.
pub fn event_sent(
    at_ms: i64,
    event_id: i32,
    instance_id: impl Into<String>,
    name: impl Into<String>,
    input: Option<String>,
) -> HistoryEvent {
    let sent = EventSentEvent { instance_id: instance_id.into(), name: name.into(), input };
    new(at_ms, event_id, EventType::EventSent(sent))
}

/// An event from outside, or from another instance, arrives. The name keeps its case; the SDKs fold it themselves.
pub fn event_raised(at_ms: i64, name: impl Into<String>, input: Option<String>) -> HistoryEvent {
    new(at_ms, NO_ACTION, EventType::EventRaised(EventRaisedEvent { name: name.into(), input }))
}

/// A message to an entity: in the sender's history under its action's id, on its way to the entity under
/// [`NO_ACTION`].
pub fn entity_message(at_ms: i64, event_id: i32, message: EntityMessageType) -> HistoryEvent {
    let kind = match message {
        EntityMessageType::EntityOperationSignaled(signal) => EventType::EntityOperationSignaled(signal),
        EntityMessageType::EntityOperationCalled(call) => EventType::EntityOperationCalled(call),
        EntityMessageType::EntityLockRequested(request) => EventType::EntityLockRequested(request),
        EntityMessageType::EntityUnlockSent(unlock) => EventType::EntityUnlockSent(unlock),
    };
    new(at_ms, event_id, kind)
}

/// The entity operation called as `request_id` returned.
pub fn entity_operation_completed(
    at_ms: i64,
    request_id: impl Into<String>,
    output: Option<String>,
) -> HistoryEvent {
    let completed = EntityOperationCompletedEvent { request_id: request_id.into(), output };
    new(at_ms, NO_ACTION, EventType::EntityOperationCompleted(completed))
}

/// The entity operation called as `request_id` failed.
pub fn entity_operation_failed(
    at_ms: i64,
    request_id: impl Into<String>,
    failure: TaskFailureDetails,
) -> HistoryEvent {
    let failed = EntityOperationFailedEvent { request_id: request_id.into(), failure_details: Some(failure) };
    new(at_ms, NO_ACTION, EventType::EntityOperationFailed(failed))
}

/// All locks asked for as `critical_section_id` are held.
pub fn entity_lock_granted(at_ms: i64, critical_section_id: impl Into<String>) -> HistoryEvent {
    let granted = EntityLockGrantedEvent { critical_section_id: critical_section_id.into() };
    new(at_ms, NO_ACTION, EventType::EntityLockGranted(granted))
}

impl From<ScheduleTaskAction> for TaskScheduledEvent {
    fn from(action: ScheduleTaskAction) -> Self {
        let ScheduleTaskAction { name, version, input, tags, parent_trace_context } = action;
        Self { name, version, input, parent_trace_context, tags }
    }
}

impl From<CreateSubOrchestrationAction> for SubOrchestrationInstanceCreatedEvent {
    fn from(action: CreateSubOrchestrationAction) -> Self {
        let CreateSubOrchestrationAction { instance_id, name, version, input, parent_trace_context, tags } =
            action;
        Self { instance_id, name, version, input, parent_trace_context, tags }
    }
}

#[cfg(test)]
mod tests;
