//! Questions to ask of an event: what is it called, what does it schedule, what does it answer.

use crate::{EventType, HistoryEvent};

/// What an action set going that a later event answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ScheduledKind {
    /// An activity.
    Task,
    /// A child orchestration.
    Child,
    /// A timer.
    Timer,
}

/// An event that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled<'a> {
    /// The action's id, which the answer will name.
    pub id: i32,
    /// What was set going.
    pub kind: ScheduledKind,
    /// Name of the activity or child; a timer has none.
    pub name: Option<&'a str>,
}

/// An event that answers a [`Scheduled`] one.
///
/// The id alone says which action is answered, not which attempt: Python uses one id for all attempts of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Answer {
    /// The id of the action answered.
    pub id: i32,
    /// What is answered.
    pub kind: ScheduledKind,
}

/// The kind of an event in words, for logs and messages; `"None"` for an event without one.
pub fn kind_name(event: &HistoryEvent) -> &'static str {
    let Some(kind) = &event.event_type else { return "None" };
    match kind {
        EventType::ExecutionStarted(_) => "ExecutionStarted",
        EventType::ExecutionCompleted(_) => "ExecutionCompleted",
        EventType::ExecutionTerminated(_) => "ExecutionTerminated",
        EventType::TaskScheduled(_) => "TaskScheduled",
        EventType::TaskCompleted(_) => "TaskCompleted",
        EventType::TaskFailed(_) => "TaskFailed",
        EventType::SubOrchestrationInstanceCreated(_) => "SubOrchestrationInstanceCreated",
        EventType::SubOrchestrationInstanceCompleted(_) => "SubOrchestrationInstanceCompleted",
        EventType::SubOrchestrationInstanceFailed(_) => "SubOrchestrationInstanceFailed",
        EventType::TimerCreated(_) => "TimerCreated",
        EventType::TimerFired(_) => "TimerFired",
        EventType::OrchestratorStarted(_) => "OrchestratorStarted",
        EventType::OrchestratorCompleted(_) => "OrchestratorCompleted",
        EventType::EventSent(_) => "EventSent",
        EventType::EventRaised(_) => "EventRaised",
        EventType::GenericEvent(_) => "GenericEvent",
        EventType::HistoryState(_) => "HistoryState",
        EventType::ContinueAsNew(_) => "ContinueAsNew",
        EventType::ExecutionSuspended(_) => "ExecutionSuspended",
        EventType::ExecutionResumed(_) => "ExecutionResumed",
        EventType::EntityOperationSignaled(_) => "EntityOperationSignaled",
        EventType::EntityOperationCalled(_) => "EntityOperationCalled",
        EventType::EntityOperationCompleted(_) => "EntityOperationCompleted",
        EventType::EntityOperationFailed(_) => "EntityOperationFailed",
        EventType::EntityLockRequested(_) => "EntityLockRequested",
        EventType::EntityLockGranted(_) => "EntityLockGranted",
        EventType::EntityUnlockSent(_) => "EntityUnlockSent",
        EventType::ExecutionRewound(_) => "ExecutionRewound",
    }
}

/// What the event sets going, if a task, child or timer. Entity calls answer by request id and are not among them.
pub fn schedules(event: &HistoryEvent) -> Option<Scheduled<'_>> {
    let (kind, name) = match event.event_type.as_ref()? {
        EventType::TaskScheduled(task) => (ScheduledKind::Task, Some(task.name.as_str())),
        EventType::SubOrchestrationInstanceCreated(child) => {
            (ScheduledKind::Child, Some(child.name.as_str()))
        }
        EventType::TimerCreated(_) => (ScheduledKind::Timer, None),
        _ => return None,
    };
    Some(Scheduled { id: event.event_id, kind, name })
}

/// What the event answers, if a task, child or timer.
pub fn answer(event: &HistoryEvent) -> Option<Answer> {
    let (kind, id) = match event.event_type.as_ref()? {
        EventType::TaskCompleted(completed) => (ScheduledKind::Task, completed.task_scheduled_id),
        EventType::TaskFailed(failed) => (ScheduledKind::Task, failed.task_scheduled_id),
        EventType::SubOrchestrationInstanceCompleted(completed) => {
            (ScheduledKind::Child, completed.task_scheduled_id)
        }
        EventType::SubOrchestrationInstanceFailed(failed) => (ScheduledKind::Child, failed.task_scheduled_id),
        EventType::TimerFired(fired) => (ScheduledKind::Timer, fired.timer_id),
        _ => return None,
    };
    Some(Answer { id, kind })
}

/// The id of the action the event answers, if it answers one.
pub fn answers(event: &HistoryEvent) -> Option<i32> {
    answer(event).map(|answer| answer.id)
}
