//! What makes an action invalid, and what is legal although it looks odd.

use super::*;
use crate::{
    ActionType, CompleteOrchestrationAction, CreateTimerAction, EntityLockRequestedEvent, EntityMessageType,
    EntityOperationCalledEvent, EntityOperationSignaledEvent, EntityUnlockSentEvent, OrchestrationStatus,
    RewindOrchestrationAction, SendEntityMessageAction, SendEventAction, TerminateOrchestrationAction,
    action, time,
};

pub(super) fn continue_as_new(carryover_events: Vec<HistoryEvent>) -> OrchestratorAction {
    let completion = CompleteOrchestrationAction {
        orchestration_status: OrchestrationStatus::ContinuedAsNew as i32,
        carryover_events,
        ..Default::default()
    };
    action::new(0, ActionType::CompleteOrchestration(completion))
}

fn rewind(new_history: Vec<HistoryEvent>) -> OrchestratorAction {
    action::new(-1, ActionType::RewindOrchestration(RewindOrchestrationAction { new_history }))
}

fn unlock(id: i32, target: Option<String>) -> OrchestratorAction {
    let unlock = EntityUnlockSentEvent {
        critical_section_id: "s".into(),
        parent_instance_id: None,
        target_instance_id: target,
    };
    action::send_entity_message(id, EntityMessageType::EntityUnlockSent(unlock))
}

fn signal(id: i32, target: Option<String>) -> OrchestratorAction {
    let signal = EntityOperationSignaledEvent {
        request_id: "r".into(),
        operation: "add".into(),
        target_instance_id: target,
        ..Default::default()
    };
    action::send_entity_message(id, EntityMessageType::EntityOperationSignaled(signal))
}

fn call(id: i32, target: Option<String>) -> OrchestratorAction {
    let call = EntityOperationCalledEvent {
        request_id: "r".into(),
        operation: "add".into(),
        target_instance_id: target,
        ..Default::default()
    };
    action::send_entity_message(id, EntityMessageType::EntityOperationCalled(call))
}

fn edit(action: &mut OrchestratorAction, change: impl Fn(&mut EntityMessageType)) {
    match &mut action.orchestrator_action_type {
        Some(ActionType::SendEntityMessage(SendEntityMessageAction {
            entity_message_type: Some(message),
        })) => {
            change(message);
        }
        other => panic!("no entity message: {other:?}"),
    }
}

fn complete(status: OrchestrationStatus) -> OrchestratorAction {
    action::complete(-1, status, None, None)
}

/// Asserts that each action is rejected with an error about the field, alone and as the second of two.
fn assert_rejected(cases: Vec<(OrchestratorAction, &str, Problem)>) {
    for (action, field, problem) in cases {
        let invalid = validate_action(&action).unwrap_err();
        assert_eq!(invalid, Invalid::new(field, problem), "{action:?}");
        let both = [action::schedule_task(0, "Charge", None), action];
        assert_eq!(validate_actions(&both), Err(invalid.within("actions[1]")));
    }
}

#[test]
fn ids() {
    let too_small = || Problem::IdTooSmall { id: -1, min: 0 };
    let terminate = TerminateOrchestrationAction { instance_id: "a".into(), ..Default::default() };
    let answered = [
        action::schedule_task(-1, "Charge", None),
        action::create_sub_orchestration(-1, "a", "Ship", None),
        action::create_timer(-1, time::from_millis(1)),
        action::send_event(-1, "a", "Approved", None),
        action::new(-1, ActionType::TerminateOrchestration(terminate)),
        signal(-1, text("@a@1")),
        call(-1, text("@a@1")),
    ];
    assert_rejected(answered.map(|action| (action, "id", too_small())).into());
}

/// An id that no event may have would be written into a history that nobody can read again.
#[test]
fn ids_of_what_nobody_answers() {
    let unlock = |id| unlock(id, text("@a@1"));
    let end = |id| action::complete(id, OrchestrationStatus::Completed, None, None);
    let too_small = |id| Problem::IdTooSmall { id, min: -1 };
    assert_rejected(vec![
        (unlock(-2), "id", too_small(-2)),
        (unlock(i32::MIN), "id", too_small(i32::MIN)),
        (end(-2), "id", too_small(-2)),
    ]);
    assert_eq!(validate_actions(&[unlock(-1), end(-1)]), Ok(()));
}

#[test]
fn contents() {
    let never = ActionType::CreateTimer(CreateTimerAction { fire_at: None });
    let nowhere = SendEventAction { name: "Approved".into(), ..Default::default() };
    let out_of_range = Problem::TimeOutOfRange { seconds: NO_TIME.seconds, nanos: NO_TIME.nanos };
    assert_rejected(vec![
        (OrchestratorAction::default(), "orchestratorActionType", Problem::UnknownKind),
        (action::schedule_task(0, "", None), "scheduleTask.name", Problem::Empty),
        (action::create_sub_orchestration(0, "a", "", None), "createSubOrchestration.name", Problem::Empty),
        (action::new(0, never), "createTimer.fireAt", Problem::Missing),
        (action::create_timer(0, NO_TIME), "createTimer.fireAt", out_of_range),
        (action::new(0, ActionType::SendEvent(nowhere)), "sendEvent.instance", Problem::Missing),
        (action::send_event(0, "", "Approved", None), "sendEvent.instance.instanceId", Problem::Empty),
        (action::send_event(0, "a", "", None), "sendEvent.name", Problem::Empty),
        (
            action::new(0, ActionType::TerminateOrchestration(Default::default())),
            "terminateOrchestration.instanceId",
            Problem::Empty,
        ),
        (rewind(vec![]), "rewindOrchestration.newHistory", Problem::Empty),
        (
            rewind(vec![event::orchestrator_started(1), HistoryEvent::default()]),
            "rewindOrchestration.newHistory[1].timestamp",
            Problem::Missing,
        ),
    ]);
}

#[test]
fn completions() {
    let status = "completeOrchestration.orchestrationStatus";
    let not_an_end = |status: OrchestrationStatus| Problem::NotAnEnd(status.as_str_name());
    let unknown = CompleteOrchestrationAction { orchestration_status: 99, ..Default::default() };
    let deep = Some(chain(FAILURE_DEPTH_MAX + 1, None));
    let mut cases = vec![
        (action::new(0, ActionType::CompleteOrchestration(unknown)), status, Problem::UnknownEnumValue(99)),
        (
            action::complete(0, OrchestrationStatus::Failed, None, deep),
            "completeOrchestration.failureDetails.innerFailure",
            Problem::TooDeep,
        ),
        (
            continue_as_new(vec![HistoryEvent {
                timestamp: Some(NO_TIME),
                ..event::event_raised(1, "a", None)
            }]),
            "completeOrchestration.carryoverEvents[0].timestamp",
            Problem::TimeOutOfRange { seconds: NO_TIME.seconds, nanos: NO_TIME.nanos },
        ),
        (
            continue_as_new(vec![event::event_raised(1, "a", None), event::event_raised(1, "", None)]),
            "completeOrchestration.carryoverEvents[1].eventRaised.name",
            Problem::Empty,
        ),
    ];
    use OrchestrationStatus::{Pending, Running, Suspended};
    cases.extend([Running, Pending, Suspended].map(|end| (complete(end), status, not_an_end(end))));
    assert_rejected(cases);
}

#[test]
fn entity_messages() {
    let nothing = ActionType::SendEntityMessage(SendEntityMessageAction::default());
    let lock = EntityMessageType::EntityLockRequested(EntityLockRequestedEvent {
        critical_section_id: "s".into(),
        ..Default::default()
    });
    let mut no_operation = signal(0, text("@a@1"));
    let mut no_request = call(0, text("@a@1"));
    edit(&mut no_operation, |message| match message {
        EntityMessageType::EntityOperationSignaled(signal) => signal.operation.clear(),
        other => panic!("{other:?}"),
    });
    edit(&mut no_request, |message| match message {
        EntityMessageType::EntityOperationCalled(call) => call.request_id.clear(),
        other => panic!("{other:?}"),
    });
    let target = |kind: &str| format!("sendEntityMessage.{kind}.targetInstanceId");
    let (signaled, called, unlocked) =
        (target("entityOperationSignaled"), target("entityOperationCalled"), target("entityUnlockSent"));
    assert_rejected(vec![
        (action::new(0, nothing), "sendEntityMessage.entityMessageType", Problem::UnknownKind),
        (no_operation, "sendEntityMessage.entityOperationSignaled.operation", Problem::Empty),
        (no_request, "sendEntityMessage.entityOperationCalled.requestId", Problem::Empty),
        (signal(0, None), &signaled, Problem::Missing),
        (signal(0, text("")), &signaled, Problem::Empty),
        (call(0, None), &called, Problem::Missing),
        (call(0, text("")), &called, Problem::Empty),
        (unlock(0, None), &unlocked, Problem::Missing),
        (unlock(0, text("")), &unlocked, Problem::Empty),
        (
            action::send_entity_message(0, lock),
            "sendEntityMessage.entityLockRequested.lockSet",
            Problem::Empty,
        ),
    ]);
}

/// Each of these is sent by an SDK in the field.
#[test]
fn odd_but_legal() {
    let untimed = HistoryEvent { timestamp: None, ..event::event_raised(1, "Approved", None) };
    let actions = [
        action::schedule_task(0, "Charge", text("")),
        action::create_sub_orchestration(1, "", "Ship", None),
        action::create_timer(2, time::from_millis(-1)),
        // Python's retry uses the id of the first attempt.
        action::schedule_task(0, "Charge", None),
        // .NET's unlock has the id of the completion, whatever that is.
        unlock(-1, text("@a@1")),
        // Go completes twice, failure paths with -1 and without details.
        complete(OrchestrationStatus::Completed),
        complete(OrchestrationStatus::Failed),
        complete(OrchestrationStatus::Terminated),
        complete(OrchestrationStatus::Canceled),
        continue_as_new(vec![untimed]),
        rewind(vec![event::orchestrator_started(1)]),
    ];
    assert_eq!(validate_actions(&actions), Ok(()));
    assert_eq!(validate_actions(&[]), Ok(()));
}
