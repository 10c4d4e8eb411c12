//! What each kind of action must have.

use super::check::{
    at_least, each, end, filled, present, present_and_filled, timestamp, timestamp_if_present,
};
use super::event::{called, failure_if_present, lock_requested, signaled, unlock_sent, validate_untimed};
use super::validate_event;
use crate::event::NO_ACTION;
use crate::{
    ActionType, CompleteOrchestrationAction, EntityMessageType, HistoryEvent, Invalid, OrchestratorAction,
    Problem, RewindOrchestrationAction, SendEntityMessageAction, SendEventAction,
};

type Checked = Result<(), Invalid>;

pub(super) fn validate(action: &OrchestratorAction) -> Checked {
    let kind = action
        .orchestrator_action_type
        .as_ref()
        .ok_or_else(|| Invalid::new("orchestratorActionType", Problem::UnknownKind))?;
    // Below that no event can have it: the history that the action becomes part of could not be read again.
    at_least("id", action.id, if may_lack_id(kind) { NO_ACTION } else { 0 })?;
    let (name, checked) = body(kind);
    checked.map_err(|invalid| invalid.within(name))
}

/// Nobody answers these, so SDKs are careless with their ids: failure paths complete with -1, and .NET gives unlocks
/// the id of the completion.
fn may_lack_id(kind: &ActionType) -> bool {
    match kind {
        ActionType::CompleteOrchestration(_) | ActionType::RewindOrchestration(_) => true,
        ActionType::SendEntityMessage(message) => {
            matches!(message.entity_message_type, Some(EntityMessageType::EntityUnlockSent(_)))
        }
        _ => false,
    }
}

/// The name of the field in the `.proto`, and what its content comes to.
fn body(kind: &ActionType) -> (&'static str, Checked) {
    match kind {
        ActionType::ScheduleTask(task) => ("scheduleTask", filled("name", &task.name)),
        // An empty instance id is legal: an SDK may leave the choice to the server, as Go does.
        ActionType::CreateSubOrchestration(child) => ("createSubOrchestration", filled("name", &child.name)),
        ActionType::CreateTimer(timer) => ("createTimer", timestamp("fireAt", timer.fire_at.as_ref())),
        ActionType::SendEvent(send) => ("sendEvent", send_event(send)),
        ActionType::CompleteOrchestration(completion) => ("completeOrchestration", complete(completion)),
        ActionType::TerminateOrchestration(terminate) => {
            ("terminateOrchestration", filled("instanceId", &terminate.instance_id))
        }
        ActionType::SendEntityMessage(message) => ("sendEntityMessage", entity_message(message)),
        ActionType::RewindOrchestration(rewind) => ("rewindOrchestration", rewound(rewind)),
    }
}

fn send_event(send: &SendEventAction) -> Checked {
    let target = present("instance", send.instance.as_ref())?;
    filled("instance.instanceId", &target.instance_id)?;
    filled("name", &send.name)
}

fn complete(completion: &CompleteOrchestrationAction) -> Checked {
    end("orchestrationStatus", completion.orchestration_status)?;
    failure_if_present(completion.failure_details.as_ref())?;
    each("carryoverEvents", &completion.carryover_events, carried_over)
}

/// The time of a carried-over event is its new arrival, so a worker need not send one.
fn carried_over(event: &HistoryEvent) -> Checked {
    timestamp_if_present("timestamp", event.timestamp.as_ref())?;
    validate_untimed(event)
}

/// A history without its start could never run again.
fn rewound(rewind: &RewindOrchestrationAction) -> Checked {
    if rewind.new_history.is_empty() {
        return Err(Invalid::new("newHistory", Problem::Empty));
    }
    each("newHistory", &rewind.new_history, validate_event)
}

fn entity_message(message: &SendEntityMessageAction) -> Checked {
    let message = message
        .entity_message_type
        .as_ref()
        .ok_or_else(|| Invalid::new("entityMessageType", Problem::UnknownKind))?;
    let (name, checked) = match message {
        EntityMessageType::EntityOperationSignaled(signal) => (
            "entityOperationSignaled",
            present_and_filled("targetInstanceId", signal.target_instance_id.as_ref()).and(signaled(signal)),
        ),
        EntityMessageType::EntityOperationCalled(call) => (
            "entityOperationCalled",
            present_and_filled("targetInstanceId", call.target_instance_id.as_ref()).and(called(call)),
        ),
        EntityMessageType::EntityLockRequested(request) => ("entityLockRequested", lock_requested(request)),
        EntityMessageType::EntityUnlockSent(unlock) => ("entityUnlockSent", unlock_sent(unlock)),
    };
    checked.map_err(|invalid| invalid.within(name))
}
