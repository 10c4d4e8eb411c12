//! What can be known of an execution before its code runs.

use dauer_core::{ExecutionId, InstanceId};
use dauer_proto::{
    EventType, ExecutionStartedEvent, ExecutionTerminatedEvent, HistoryEvent, OrchestrationStatus,
    OrchestratorAction, action,
};

use crate::guard::TurnError;
use crate::state::Identity;

/// The event that began the execution. It stands near the front, but events that came with it may stand before it.
pub(crate) fn find<'a>(
    past: &'a [HistoryEvent],
    new: &'a [HistoryEvent],
) -> Result<&'a ExecutionStartedEvent, TurnError> {
    let started = past.iter().chain(new).find_map(|event| match &event.event_type {
        Some(EventType::ExecutionStarted(started)) => Some(started),
        _ => None,
    });
    started.ok_or_else(|| invalid("there is no ExecutionStarted; load the history from its beginning"))
}

/// Who is running.
pub(crate) fn identity(started: &ExecutionStartedEvent) -> Result<Identity, TurnError> {
    let Some(who) = &started.orchestration_instance else {
        return Err(invalid("ExecutionStarted names no orchestrationInstance"));
    };
    let instance = InstanceId::new(who.instance_id.as_str())
        .map_err(|error| invalid(format!("ExecutionStarted names no valid instance: {error}")))?;
    let execution = who.execution_id.as_deref().and_then(ExecutionId::parse).ok_or_else(|| {
        invalid("the executionId of ExecutionStarted is not 32 lower-case hexadecimal digits")
    })?;
    let version = started.version.clone().filter(|version| !version.is_empty());
    Ok(Identity { name: started.name.clone(), version, instance, execution })
}

/// The request to end, if there is one. It goes before everything else, whatever the code would do.
pub(crate) fn termination(events: &[HistoryEvent]) -> Option<&ExecutionTerminatedEvent> {
    events.iter().find_map(|event| match &event.event_type {
        Some(EventType::ExecutionTerminated(terminated)) => Some(terminated),
        _ => None,
    })
}

/// The answer to a request to end.
pub(crate) fn terminated(id: i32, request: &ExecutionTerminatedEvent) -> OrchestratorAction {
    action::complete(id, OrchestrationStatus::Terminated, request.input.clone(), None)
}

/// The id after all that the history has recorded: the same that the code would take next.
pub(crate) fn next_id(past: &[HistoryEvent]) -> i32 {
    let recorded = past.iter().filter(|event| event.event_type.as_ref().is_some_and(is_record));
    recorded.map(|event| event.event_id.saturating_add(1)).max().unwrap_or(0).max(0)
}

/// Whether the event records something the code asked for.
pub(crate) fn is_record(kind: &EventType) -> bool {
    matches!(
        kind,
        EventType::TaskScheduled(_)
            | EventType::TimerCreated(_)
            | EventType::SubOrchestrationInstanceCreated(_)
            | EventType::EventSent(_)
    )
}

fn invalid(reason: impl Into<String>) -> TurnError {
    TurnError::History { reason: reason.into() }
}
