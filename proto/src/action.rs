//! Constructors for what an orchestrator's turn asks for.
//!
//! The id of an action becomes the id of its history event, and answers name it; 0 is an id like any other.

use prost_types::Timestamp;

use crate::{
    ActionType, CompleteOrchestrationAction, CreateSubOrchestrationAction, CreateTimerAction,
    EntityMessageType, OrchestrationInstance, OrchestrationStatus, OrchestratorAction, ScheduleTaskAction,
    SendEntityMessageAction, SendEventAction, TaskFailureDetails,
};

/// An action of any kind.
pub fn new(id: i32, kind: ActionType) -> OrchestratorAction {
    OrchestratorAction { id, orchestrator_action_type: Some(kind) }
}

/// Runs an activity.
pub fn schedule_task(id: i32, name: impl Into<String>, input: Option<String>) -> OrchestratorAction {
    let task = ScheduleTaskAction { name: name.into(), input, ..ScheduleTaskAction::default() };
    new(id, ActionType::ScheduleTask(task))
}

/// Sets a timer.
pub fn create_timer(id: i32, fire_at: Timestamp) -> OrchestratorAction {
    new(id, ActionType::CreateTimer(CreateTimerAction { fire_at: Some(fire_at) }))
}

/// Starts a child. An empty instance id leaves its choice to the hub.
pub fn create_sub_orchestration(
    id: i32,
    instance_id: impl Into<String>,
    name: impl Into<String>,
    input: Option<String>,
) -> OrchestratorAction {
    let child = CreateSubOrchestrationAction {
        instance_id: instance_id.into(),
        name: name.into(),
        input,
        ..CreateSubOrchestrationAction::default()
    };
    new(id, ActionType::CreateSubOrchestration(child))
}

/// Sends an event to another instance, to whichever execution of it is running.
pub fn send_event(
    id: i32,
    instance_id: impl Into<String>,
    name: impl Into<String>,
    data: Option<String>,
) -> OrchestratorAction {
    let target = OrchestrationInstance { instance_id: instance_id.into(), execution_id: None };
    new(id, ActionType::SendEvent(SendEventAction { instance: Some(target), name: name.into(), data }))
}

/// Sends a message to an entity.
pub fn send_entity_message(id: i32, message: EntityMessageType) -> OrchestratorAction {
    let action = SendEntityMessageAction { entity_message_type: Some(message) };
    new(id, ActionType::SendEntityMessage(action))
}

/// Ends the execution. For continue-as-new `result` is the next input; further fields are set by struct update on
/// [`CompleteOrchestrationAction`] and [`new`].
pub fn complete(
    id: i32,
    status: OrchestrationStatus,
    result: Option<String>,
    failure: Option<TaskFailureDetails>,
) -> OrchestratorAction {
    let completion = CompleteOrchestrationAction {
        orchestration_status: status.into(),
        result,
        failure_details: failure,
        ..CompleteOrchestrationAction::default()
    };
    new(id, ActionType::CompleteOrchestration(completion))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EntityUnlockSentEvent, decode::validate_action, failure::failure, time};

    /// Each constructor keeps its arguments where the protocol has them, and makes something validation accepts.
    #[test]
    fn constructors_fill_their_fields() {
        let fire_at = time::from_millis(1_500);
        let unlock = EntityMessageType::EntityUnlockSent(EntityUnlockSentEvent {
            critical_section_id: "cs".into(),
            parent_instance_id: None,
            target_instance_id: Some("@counter@a".into()),
        });
        let broken = failure("Broken", "it broke");
        let cases = [
            (
                schedule_task(0, "Hello", Some(String::new())),
                ActionType::ScheduleTask(ScheduleTaskAction {
                    name: "Hello".into(),
                    input: Some(String::new()),
                    ..Default::default()
                }),
            ),
            (create_timer(1, fire_at), ActionType::CreateTimer(CreateTimerAction { fire_at: Some(fire_at) })),
            (
                create_sub_orchestration(2, "child", "Order", Some("7".into())),
                ActionType::CreateSubOrchestration(CreateSubOrchestrationAction {
                    instance_id: "child".into(),
                    name: "Order".into(),
                    input: Some("7".into()),
                    ..Default::default()
                }),
            ),
            (
                send_event(3, "other", "Approved", None),
                ActionType::SendEvent(SendEventAction {
                    instance: Some(OrchestrationInstance { instance_id: "other".into(), execution_id: None }),
                    name: "Approved".into(),
                    data: None,
                }),
            ),
            (
                send_entity_message(4, unlock.clone()),
                ActionType::SendEntityMessage(SendEntityMessageAction { entity_message_type: Some(unlock) }),
            ),
            (
                complete(5, OrchestrationStatus::Failed, Some("out".into()), Some(broken.clone())),
                ActionType::CompleteOrchestration(CompleteOrchestrationAction {
                    orchestration_status: OrchestrationStatus::Failed as i32,
                    result: Some("out".into()),
                    failure_details: Some(broken),
                    ..Default::default()
                }),
            ),
        ];
        for (id, (action, kind)) in (0..).zip(cases) {
            assert_eq!(validate_action(&action), Ok(()));
            assert_eq!(action, new(id, kind));
        }
    }
}
