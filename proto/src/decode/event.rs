//! What each kind of history event must have.

use super::check::{
    at_least, each, end, execution_id, filled, filled_if_present, present, present_and_filled, status,
    timestamp, timestamp_if_present,
};
use super::failure::validate_failure;
use crate::event::NO_ACTION;
use crate::{
    EntityLockRequestedEvent, EntityOperationCalledEvent, EntityOperationSignaledEvent,
    EntityUnlockSentEvent, EventType, ExecutionRewoundEvent, ExecutionStartedEvent, HistoryEvent, Invalid,
    OrchestrationInstance, OrchestrationState, ParentInstanceInfo, Problem, TaskFailureDetails,
};

type Checked = Result<(), Invalid>;

/// Everything but the timestamp: events carried over by a worker may have none, dauer gives them one.
pub(super) fn validate_untimed(event: &HistoryEvent) -> Checked {
    let kind = event.event_type.as_ref().ok_or_else(|| Invalid::new("eventType", Problem::UnknownKind))?;
    event_id(event.event_id, kind)?;
    let (name, checked) = body(kind);
    checked.map_err(|invalid| invalid.within(name))
}

/// Events that an answer will name need an id of their own; others may do without.
fn event_id(id: i32, kind: &EventType) -> Checked {
    let min = match kind {
        EventType::TaskScheduled(_)
        | EventType::TimerCreated(_)
        | EventType::SubOrchestrationInstanceCreated(_)
        | EventType::EventSent(_) => 0,
        _ => NO_ACTION,
    };
    at_least("eventId", id, min)
}

/// The name of the field in the `.proto`, and what its content comes to.
fn body(kind: &EventType) -> (&'static str, Checked) {
    match kind {
        EventType::ExecutionStarted(e) => ("executionStarted", execution_started(e)),
        EventType::ExecutionCompleted(e) => {
            let failure = failure_if_present(e.failure_details.as_ref());
            ("executionCompleted", end("orchestrationStatus", e.orchestration_status).and(failure))
        }
        EventType::TaskScheduled(e) => ("taskScheduled", filled("name", &e.name)),
        EventType::TaskCompleted(e) => ("taskCompleted", at_least("taskScheduledId", e.task_scheduled_id, 0)),
        EventType::TaskFailed(e) => ("taskFailed", failed(e.task_scheduled_id, e.failure_details.as_ref())),
        EventType::SubOrchestrationInstanceCreated(e) => (
            "subOrchestrationInstanceCreated",
            filled("instanceId", &e.instance_id).and(filled("name", &e.name)),
        ),
        EventType::SubOrchestrationInstanceCompleted(e) => {
            ("subOrchestrationInstanceCompleted", at_least("taskScheduledId", e.task_scheduled_id, 0))
        }
        EventType::SubOrchestrationInstanceFailed(e) => {
            ("subOrchestrationInstanceFailed", failed(e.task_scheduled_id, e.failure_details.as_ref()))
        }
        EventType::TimerCreated(e) => ("timerCreated", timestamp("fireAt", e.fire_at.as_ref())),
        EventType::TimerFired(e) => {
            ("timerFired", at_least("timerId", e.timer_id, 0).and(timestamp("fireAt", e.fire_at.as_ref())))
        }
        EventType::EventSent(e) => {
            ("eventSent", filled("instanceId", &e.instance_id).and(filled("name", &e.name)))
        }
        EventType::EventRaised(e) => ("eventRaised", filled("name", &e.name)),
        EventType::HistoryState(e) => ("historyState", history_state(e.orchestration_state.as_deref())),
        EventType::ExecutionRewound(e) => ("executionRewound", execution_rewound(e)),
        EventType::ExecutionTerminated(_) => ("executionTerminated", Ok(())),
        EventType::ExecutionSuspended(_) => ("executionSuspended", Ok(())),
        EventType::ExecutionResumed(_) => ("executionResumed", Ok(())),
        EventType::OrchestratorStarted(_) => ("orchestratorStarted", Ok(())),
        EventType::OrchestratorCompleted(_) => ("orchestratorCompleted", Ok(())),
        EventType::GenericEvent(_) => ("genericEvent", Ok(())),
        EventType::ContinueAsNew(_) => ("continueAsNew", Ok(())),
        entity => entity_body(entity),
    }
}

fn entity_body(kind: &EventType) -> (&'static str, Checked) {
    match kind {
        EventType::EntityOperationSignaled(e) => ("entityOperationSignaled", signaled(e)),
        EventType::EntityOperationCalled(e) => ("entityOperationCalled", called(e)),
        EventType::EntityOperationCompleted(e) => {
            ("entityOperationCompleted", filled("requestId", &e.request_id))
        }
        EventType::EntityOperationFailed(e) => (
            "entityOperationFailed",
            filled("requestId", &e.request_id).and(failure_present(e.failure_details.as_ref())),
        ),
        EventType::EntityLockRequested(e) => ("entityLockRequested", lock_requested(e)),
        EventType::EntityLockGranted(e) => {
            ("entityLockGranted", filled("criticalSectionId", &e.critical_section_id))
        }
        EventType::EntityUnlockSent(e) => ("entityUnlockSent", unlock_sent(e)),
        // Reached only when the protocol has gained a kind that `body` does not know yet.
        _ => ("eventType", Err(Invalid::new("", Problem::UnknownKind))),
    }
}

fn execution_started(started: &ExecutionStartedEvent) -> Checked {
    filled("name", &started.name)?;
    let instance = present("orchestrationInstance", started.orchestration_instance.as_ref())?;
    orchestration_instance(instance)
        .and_then(|()| present("executionId", instance.execution_id.as_ref()).map(drop))
        .map_err(|invalid| invalid.within("orchestrationInstance"))?;
    timestamp_if_present("scheduledStartTimestamp", started.scheduled_start_timestamp.as_ref())?;
    started.parent_instance.as_deref().map_or(Ok(()), parent_instance)
}

fn execution_rewound(rewound: &ExecutionRewoundEvent) -> Checked {
    filled_if_present("instanceId", rewound.instance_id.as_ref())?;
    filled_if_present("name", rewound.name.as_ref())?;
    if let Some(id) = &rewound.parent_execution_id {
        execution_id("parentExecutionId", id)?;
    }
    rewound.parent_instance.as_deref().map_or(Ok(()), parent_instance)
}

/// A child answers its parent by this, so it must be whole.
fn parent_instance(parent: &ParentInstanceInfo) -> Checked {
    let checked = || {
        at_least("taskScheduledId", parent.task_scheduled_id, 0)?;
        let instance = present("orchestrationInstance", parent.orchestration_instance.as_ref())?;
        orchestration_instance(instance).map_err(|invalid| invalid.within("orchestrationInstance"))
    };
    checked().map_err(|invalid| invalid.within("parentInstance"))
}

fn orchestration_instance(instance: &OrchestrationInstance) -> Checked {
    filled("instanceId", &instance.instance_id)?;
    instance.execution_id.as_ref().map_or(Ok(()), |id| execution_id("executionId", id))
}

fn history_state(state: Option<&OrchestrationState>) -> Checked {
    let checked = |state: &OrchestrationState| {
        filled("instanceId", &state.instance_id)?;
        status("orchestrationStatus", state.orchestration_status)?;
        timestamp_if_present("scheduledStartTimestamp", state.scheduled_start_timestamp.as_ref())?;
        timestamp_if_present("createdTimestamp", state.created_timestamp.as_ref())?;
        timestamp_if_present("lastUpdatedTimestamp", state.last_updated_timestamp.as_ref())?;
        timestamp_if_present("completedTimestamp", state.completed_timestamp.as_ref())?;
        failure_if_present(state.failure_details.as_ref())
    };
    let state = present("orchestrationState", state)?;
    checked(state).map_err(|invalid| invalid.within("orchestrationState"))
}

fn failed(task_scheduled_id: i32, failure: Option<&TaskFailureDetails>) -> Checked {
    at_least("taskScheduledId", task_scheduled_id, 0)?;
    failure_present(failure)
}

/// .NET and JavaScript workers read the details of every failure without asking whether they are there.
fn failure_present(failure: Option<&TaskFailureDetails>) -> Checked {
    failure_if_present(Some(present("failureDetails", failure)?))
}

pub(super) fn failure_if_present(failure: Option<&TaskFailureDetails>) -> Checked {
    let Some(failure) = failure else { return Ok(()) };
    validate_failure(failure).map_err(|invalid| invalid.within("failureDetails"))
}

pub(super) fn signaled(signal: &EntityOperationSignaledEvent) -> Checked {
    filled("requestId", &signal.request_id)?;
    filled("operation", &signal.operation)?;
    timestamp_if_present("scheduledTime", signal.scheduled_time.as_ref())?;
    filled_if_present("targetInstanceId", signal.target_instance_id.as_ref())
}

pub(super) fn called(call: &EntityOperationCalledEvent) -> Checked {
    filled("requestId", &call.request_id)?;
    filled("operation", &call.operation)?;
    timestamp_if_present("scheduledTime", call.scheduled_time.as_ref())?;
    filled_if_present("targetInstanceId", call.target_instance_id.as_ref())
}

pub(super) fn lock_requested(request: &EntityLockRequestedEvent) -> Checked {
    filled("criticalSectionId", &request.critical_section_id)?;
    if request.lock_set.is_empty() {
        return Err(Invalid::new("lockSet", Problem::Empty));
    }
    each("lockSet", &request.lock_set, |target| filled("", target))?;
    let (position, len) = (request.position, request.lock_set.len());
    let exists = usize::try_from(position).is_ok_and(|position| position < len);
    if exists { Ok(()) } else { Err(Invalid::new("position", Problem::PositionOutOfRange { position, len })) }
}

pub(super) fn unlock_sent(unlock: &EntityUnlockSentEvent) -> Checked {
    filled("criticalSectionId", &unlock.critical_section_id)?;
    present_and_filled("targetInstanceId", unlock.target_instance_id.as_ref())
}
