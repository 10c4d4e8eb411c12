//! Short names for what workers answer.

use dauer_proto::{
    ActionType, CompleteOrchestrationAction, CreateSubOrchestrationAction, EntityLockRequestedEvent,
    EntityMessageType, EntityOperationCalledEvent, EntityOperationSignaledEvent, EntityUnlockSentEvent,
    HistoryEvent, OrchestrationStatus, OrchestratorAction, ScheduleTaskAction, TaskFailureDetails,
    TraceContext, action, time,
};

pub(crate) fn task(id: i32, name: &str) -> OrchestratorAction {
    action::schedule_task(id, name, None)
}

pub(crate) fn task_with(id: i32, task: ScheduleTaskAction) -> OrchestratorAction {
    action::new(id, ActionType::ScheduleTask(task))
}

pub(crate) fn timer(id: i32, at: i64) -> OrchestratorAction {
    action::create_timer(id, time::from_millis(at))
}

pub(crate) fn child(id: i32, instance: &str, name: &str) -> OrchestratorAction {
    action::create_sub_orchestration(id, instance, name, None)
}

pub(crate) fn child_with(id: i32, child: CreateSubOrchestrationAction) -> OrchestratorAction {
    action::new(id, ActionType::CreateSubOrchestration(child))
}

pub(crate) fn send_event(id: i32, to: &str, name: &str) -> OrchestratorAction {
    action::send_event(id, to, name, None)
}

pub(crate) fn completed(id: i32, result: &str) -> OrchestratorAction {
    action::complete(id, OrchestrationStatus::Completed, Some(result.into()), None)
}

pub(crate) fn failed(id: i32, details: TaskFailureDetails) -> OrchestratorAction {
    action::complete(id, OrchestrationStatus::Failed, None, Some(details))
}

pub(crate) fn terminated(id: i32, result: &str) -> OrchestratorAction {
    action::complete(id, OrchestrationStatus::Terminated, Some(result.into()), None)
}

pub(crate) fn continued(id: i32, input: &str, carried: Vec<HistoryEvent>) -> OrchestratorAction {
    continued_with(
        id,
        CompleteOrchestrationAction {
            result: Some(input.into()),
            carryover_events: carried,
            ..CompleteOrchestrationAction::default()
        },
    )
}

pub(crate) fn continued_with(id: i32, completion: CompleteOrchestrationAction) -> OrchestratorAction {
    let orchestration_status = OrchestrationStatus::ContinuedAsNew.into();
    let completion = CompleteOrchestrationAction { orchestration_status, ..completion };
    action::new(id, ActionType::CompleteOrchestration(completion))
}

pub(crate) fn call(id: i32, entity: &str, operation: &str, request: &str) -> OrchestratorAction {
    let call = EntityOperationCalledEvent {
        request_id: request.into(),
        operation: operation.into(),
        target_instance_id: Some(entity.into()),
        ..EntityOperationCalledEvent::default()
    };
    action::send_entity_message(id, EntityMessageType::EntityOperationCalled(call))
}

pub(crate) fn signal(id: i32, entity: &str, operation: &str, at: Option<i64>) -> OrchestratorAction {
    let signal = EntityOperationSignaledEvent {
        request_id: format!("signal-{id}"),
        operation: operation.into(),
        scheduled_time: at.map(time::from_millis),
        target_instance_id: Some(entity.into()),
        ..EntityOperationSignaledEvent::default()
    };
    action::send_entity_message(id, EntityMessageType::EntityOperationSignaled(signal))
}

pub(crate) fn lock(id: i32, section: &str, entities: &[&str]) -> OrchestratorAction {
    let request = EntityLockRequestedEvent {
        critical_section_id: section.into(),
        lock_set: entities.iter().map(|&entity| entity.into()).collect(),
        position: 0,
        parent_instance_id: None,
    };
    action::send_entity_message(id, EntityMessageType::EntityLockRequested(request))
}

pub(crate) fn unlock(id: i32, section: &str, entity: &str) -> OrchestratorAction {
    let unlock = EntityUnlockSentEvent {
        critical_section_id: section.into(),
        parent_instance_id: None,
        target_instance_id: Some(entity.into()),
    };
    action::send_entity_message(id, EntityMessageType::EntityUnlockSent(unlock))
}

pub(crate) fn trace(parent: &str) -> TraceContext {
    TraceContext { trace_parent: parent.into(), ..TraceContext::default() }
}
