//! What makes an event invalid.

use super::*;
use crate::wire::{
    EntityLockRequestedEvent, EntityOperationCalledEvent, EntityOperationSignaledEvent, EntityUnlockSentEvent,
};
use crate::{
    EntityMessageType, EventRaisedEvent, ExecutionRewoundEvent, ExecutionStartedEvent, OrchestrationInstance,
    OrchestrationStatus, ParentInstanceInfo, SubOrchestrationInstanceCreatedEvent,
    SubOrchestrationInstanceFailedEvent, TaskFailedEvent, TaskScheduledEvent, TimerCreatedEvent,
    TimerFiredEvent, time,
};

/// Asserts that each event is rejected with an error about the field, and that it survives no decoding either.
fn assert_rejected(cases: Vec<(HistoryEvent, &str, Problem)>) {
    for (event, field, problem) in cases {
        let expected = Err(Invalid::new(field, problem));
        assert_eq!(validate_event(&event), expected, "{event:?}");
        assert_eq!(decode_event(&event.encode_to_vec()).map(drop), expected, "{event:?}");
    }
}

fn of(kind: EventType) -> HistoryEvent {
    event::new(1, 0, kind)
}

fn task(name: &str) -> TaskScheduledEvent {
    TaskScheduledEvent { name: name.into(), ..Default::default() }
}

fn child(instance_id: &str, name: &str) -> SubOrchestrationInstanceCreatedEvent {
    SubOrchestrationInstanceCreatedEvent {
        instance_id: instance_id.into(),
        name: name.into(),
        ..Default::default()
    }
}

fn too_small(id: i32, min: i32) -> Problem {
    Problem::IdTooSmall { id, min }
}

fn out_of_range() -> Problem {
    Problem::TimeOutOfRange { seconds: NO_TIME.seconds, nanos: NO_TIME.nanos }
}

#[test]
fn envelope() {
    let started = event::orchestrator_started(1);
    assert_rejected(vec![
        (HistoryEvent { timestamp: None, ..started.clone() }, "timestamp", Problem::Missing),
        (HistoryEvent { timestamp: Some(NO_TIME), ..started.clone() }, "timestamp", out_of_range()),
        (HistoryEvent { event_type: None, ..started.clone() }, "eventType", Problem::UnknownKind),
        (HistoryEvent { event_id: -2, ..started }, "eventId", too_small(-2, -1)),
        (event::task_scheduled(1, -1, task("Charge")), "eventId", too_small(-1, 0)),
        (event::timer_created(1, -1, time::from_millis(1)), "eventId", too_small(-1, 0)),
        (event::sub_orchestration_created(1, -1, child("a", "Ship")), "eventId", too_small(-1, 0)),
        (event::event_sent(1, -1, "a", "Approved", None), "eventId", too_small(-1, 0)),
    ]);
    let completed = event::execution_completed(1, -1, OrchestrationStatus::Failed, None, None);
    assert_eq!(validate_event(&completed), Ok(()), "failure paths complete with -1");
}

#[test]
fn execution_started() {
    let start = || event::start("Order", "order-1", RUN);
    let on = |instance| ExecutionStartedEvent { orchestration_instance: instance, ..start() };
    let run = |execution_id: Option<String>| {
        on(Some(OrchestrationInstance { instance_id: "order-1".into(), execution_id }))
    };
    let execution_id = "executionStarted.orchestrationInstance.executionId";
    let no_id = Problem::NotAnExecutionId;
    let late = ExecutionStartedEvent { scheduled_start_timestamp: Some(NO_TIME), ..start() };
    let cases = vec![
        (ExecutionStartedEvent { name: String::new(), ..start() }, "executionStarted.name", Problem::Empty),
        (on(None), "executionStarted.orchestrationInstance", Problem::Missing),
        (event::start("Order", "", RUN), "executionStarted.orchestrationInstance.instanceId", Problem::Empty),
        (run(None), execution_id, Problem::Missing),
        (run(text("")), execution_id, no_id.clone()),
        (run(text(&RUN[1..])), execution_id, no_id.clone()),
        (run(text(&format!("{RUN}0"))), execution_id, no_id.clone()),
        (run(text(&RUN.replace('f', "g"))), execution_id, no_id.clone()),
        (run(text(&RUN.to_uppercase())), execution_id, no_id.clone()),
        (run(text("01234567-89ab-cdef-0123-456789abcdef")), execution_id, no_id),
        (late, "executionStarted.scheduledStartTimestamp", out_of_range()),
    ];
    let events =
        cases.into_iter().map(|(start, field, problem)| (event::execution_started(1, start), field, problem));
    assert_rejected(events.collect());
}

#[test]
fn parents() {
    let instance =
        |id: &str, run: &str| Some(OrchestrationInstance { instance_id: id.into(), execution_id: text(run) });
    let parent = |task_scheduled_id, orchestration_instance| {
        let parent = ParentInstanceInfo { task_scheduled_id, orchestration_instance, ..Default::default() };
        Some(Box::new(parent))
    };
    let child_of = |parent_instance| {
        let start = ExecutionStartedEvent { parent_instance, ..event::start("Order", "order-1", RUN) };
        event::execution_started(1, start)
    };
    assert_rejected(vec![
        (
            child_of(parent(-1, instance("a", RUN))),
            "executionStarted.parentInstance.taskScheduledId",
            too_small(-1, 0),
        ),
        (
            child_of(parent(0, None)),
            "executionStarted.parentInstance.orchestrationInstance",
            Problem::Missing,
        ),
        (
            child_of(parent(0, instance("", RUN))),
            "executionStarted.parentInstance.orchestrationInstance.instanceId",
            Problem::Empty,
        ),
        (
            child_of(parent(0, instance("a", "run"))),
            "executionStarted.parentInstance.orchestrationInstance.executionId",
            Problem::NotAnExecutionId,
        ),
    ]);
    assert_eq!(validate_event(&child_of(parent(0, instance("a", RUN)))), Ok(()));
}

#[test]
fn completions_and_rewinds() {
    let status = "executionCompleted.orchestrationStatus";
    let ended = |status| event::execution_completed(1, 0, status, None, None);
    let mut unknown = ended(OrchestrationStatus::Completed);
    if let Some(EventType::ExecutionCompleted(completed)) = &mut unknown.event_type {
        completed.orchestration_status = 8;
    }
    let deep = Some(chain(FAILURE_DEPTH_MAX + 1, None));
    let too_deep = event::execution_completed(1, 0, OrchestrationStatus::Failed, None, deep);
    let rewound = |rewound| event::execution_rewound(1, rewound);
    assert_rejected(vec![
        (unknown, status, Problem::UnknownEnumValue(8)),
        (ended(OrchestrationStatus::Running), status, Problem::NotAnEnd("ORCHESTRATION_STATUS_RUNNING")),
        (ended(OrchestrationStatus::Pending), status, Problem::NotAnEnd("ORCHESTRATION_STATUS_PENDING")),
        (ended(OrchestrationStatus::Suspended), status, Problem::NotAnEnd("ORCHESTRATION_STATUS_SUSPENDED")),
        (too_deep, "executionCompleted.failureDetails.innerFailure", Problem::TooDeep),
        (
            rewound(ExecutionRewoundEvent { instance_id: text(""), ..Default::default() }),
            "executionRewound.instanceId",
            Problem::Empty,
        ),
        (
            rewound(ExecutionRewoundEvent { name: text(""), ..Default::default() }),
            "executionRewound.name",
            Problem::Empty,
        ),
        (
            rewound(ExecutionRewoundEvent { parent_execution_id: text("run"), ..Default::default() }),
            "executionRewound.parentExecutionId",
            Problem::NotAnExecutionId,
        ),
        (
            rewound(ExecutionRewoundEvent {
                parent_instance: Some(Default::default()),
                ..Default::default()
            }),
            "executionRewound.parentInstance.orchestrationInstance",
            Problem::Missing,
        ),
    ]);
}

#[test]
fn tasks_children_timers_and_events() {
    let broken = || failure("Broken", "it broke");
    let no_details = TaskFailedEvent { task_scheduled_id: 0, failure_details: None };
    let child_no_details =
        SubOrchestrationInstanceFailedEvent { task_scheduled_id: 0, failure_details: None };
    let never = TimerFiredEvent { timer_id: 0, fire_at: None };
    let at = time::from_millis(1);
    assert_rejected(vec![
        (event::task_scheduled(1, 0, task("")), "taskScheduled.name", Problem::Empty),
        (event::task_completed(1, -1, None), "taskCompleted.taskScheduledId", too_small(-1, 0)),
        (event::task_failed(1, -1, broken()), "taskFailed.taskScheduledId", too_small(-1, 0)),
        (of(EventType::TaskFailed(no_details)), "taskFailed.failureDetails", Problem::Missing),
        (
            event::task_failed(1, 0, chain(FAILURE_DEPTH_MAX + 1, None)),
            "taskFailed.failureDetails.innerFailure",
            Problem::TooDeep,
        ),
        (
            event::sub_orchestration_created(1, 0, child("", "Ship")),
            "subOrchestrationInstanceCreated.instanceId",
            Problem::Empty,
        ),
        (
            event::sub_orchestration_created(1, 0, child("a", "")),
            "subOrchestrationInstanceCreated.name",
            Problem::Empty,
        ),
        (
            event::sub_orchestration_completed(1, -1, None),
            "subOrchestrationInstanceCompleted.taskScheduledId",
            too_small(-1, 0),
        ),
        (
            event::sub_orchestration_failed(1, -1, broken()),
            "subOrchestrationInstanceFailed.taskScheduledId",
            too_small(-1, 0),
        ),
        (
            of(EventType::SubOrchestrationInstanceFailed(child_no_details)),
            "subOrchestrationInstanceFailed.failureDetails",
            Problem::Missing,
        ),
        (
            of(EventType::TimerCreated(TimerCreatedEvent { fire_at: None })),
            "timerCreated.fireAt",
            Problem::Missing,
        ),
        (event::timer_created(1, 0, NO_TIME), "timerCreated.fireAt", out_of_range()),
        (event::timer_fired(1, -1, at), "timerFired.timerId", too_small(-1, 0)),
        (of(EventType::TimerFired(never)), "timerFired.fireAt", Problem::Missing),
        (event::timer_fired(1, 0, NO_TIME), "timerFired.fireAt", out_of_range()),
        (event::event_sent(1, 0, "", "Approved", None), "eventSent.instanceId", Problem::Empty),
        (event::event_sent(1, 0, "a", "", None), "eventSent.name", Problem::Empty),
        (of(EventType::EventRaised(EventRaisedEvent::default())), "eventRaised.name", Problem::Empty),
    ]);
}

#[test]
fn history_states() {
    let of_state = |state: Option<OrchestrationState>| {
        of(EventType::HistoryState(HistoryStateEvent { orchestration_state: state.map(Box::new) }))
    };
    let state = || OrchestrationState { instance_id: "a".into(), ..Default::default() };
    let with = |change: fn(&mut OrchestrationState)| {
        let mut state = state();
        change(&mut state);
        of_state(Some(state))
    };
    let path = |field: &str| format!("historyState.orchestrationState.{field}");
    let cases = [
        (with(|s| s.instance_id.clear()), path("instanceId"), Problem::Empty),
        (with(|s| s.orchestration_status = -1), path("orchestrationStatus"), Problem::UnknownEnumValue(-1)),
        (
            with(|s| s.scheduled_start_timestamp = Some(NO_TIME)),
            path("scheduledStartTimestamp"),
            out_of_range(),
        ),
        (with(|s| s.created_timestamp = Some(NO_TIME)), path("createdTimestamp"), out_of_range()),
        (with(|s| s.last_updated_timestamp = Some(NO_TIME)), path("lastUpdatedTimestamp"), out_of_range()),
        (with(|s| s.completed_timestamp = Some(NO_TIME)), path("completedTimestamp"), out_of_range()),
        (
            with(|s| s.failure_details = Some(chain(FAILURE_DEPTH_MAX + 1, None))),
            path("failureDetails.innerFailure"),
            Problem::TooDeep,
        ),
        (of_state(None), "historyState.orchestrationState".into(), Problem::Missing),
    ];
    assert_rejected(cases.iter().map(|(e, field, p)| (e.clone(), field.as_str(), p.clone())).collect());
}

#[test]
fn entity_messages() {
    let message = |message| event::entity_message(1, 0, message);
    let signal = |request: &str, operation: &str, scheduled_time, target: Option<String>| {
        message(EntityMessageType::EntityOperationSignaled(EntityOperationSignaledEvent {
            request_id: request.into(),
            operation: operation.into(),
            scheduled_time,
            input: None,
            target_instance_id: target,
        }))
    };
    let call = |request: &str, operation: &str, scheduled_time, target: Option<String>| {
        message(EntityMessageType::EntityOperationCalled(EntityOperationCalledEvent {
            request_id: request.into(),
            operation: operation.into(),
            scheduled_time,
            target_instance_id: target,
            ..Default::default()
        }))
    };
    let (sent, called) = ("entityOperationSignaled", "entityOperationCalled");
    let mut cases = Vec::new();
    for (name, make) in [(sent, &signal as &dyn Fn(&str, &str, _, _) -> _), (called, &call)] {
        cases.push((make("", "add", None, None), format!("{name}.requestId"), Problem::Empty));
        cases.push((make("r", "", None, None), format!("{name}.operation"), Problem::Empty));
        cases.push((make("r", "add", Some(NO_TIME), None), format!("{name}.scheduledTime"), out_of_range()));
        cases.push((make("r", "add", None, text("")), format!("{name}.targetInstanceId"), Problem::Empty));
    }
    assert_rejected(cases.iter().map(|(e, field, p)| (e.clone(), field.as_str(), p.clone())).collect());
}

#[test]
fn entity_answers_and_locks() {
    let message = |message| event::entity_message(1, 0, message);
    let lock = |section: &str, set: &[&str], position| {
        message(EntityMessageType::EntityLockRequested(EntityLockRequestedEvent {
            critical_section_id: section.into(),
            lock_set: set.iter().map(|&id| id.into()).collect(),
            position,
            parent_instance_id: None,
        }))
    };
    let unlock = |section: &str, target: Option<String>| {
        message(EntityMessageType::EntityUnlockSent(EntityUnlockSentEvent {
            critical_section_id: section.into(),
            parent_instance_id: None,
            target_instance_id: target,
        }))
    };
    let mut no_details = event::entity_operation_failed(1, "r", failure("Broken", ""));
    if let Some(EventType::EntityOperationFailed(failed)) = &mut no_details.event_type {
        failed.failure_details = None;
    }
    let broken = failure("Broken", "");
    let position = |position| Problem::PositionOutOfRange { position, len: 1 };
    assert_rejected(vec![
        (
            event::entity_operation_completed(1, "", None),
            "entityOperationCompleted.requestId",
            Problem::Empty,
        ),
        (event::entity_operation_failed(1, "", broken), "entityOperationFailed.requestId", Problem::Empty),
        (no_details, "entityOperationFailed.failureDetails", Problem::Missing),
        (event::entity_lock_granted(1, ""), "entityLockGranted.criticalSectionId", Problem::Empty),
        (lock("", &["@a@1"], 0), "entityLockRequested.criticalSectionId", Problem::Empty),
        (lock("s", &[], 0), "entityLockRequested.lockSet", Problem::Empty),
        (lock("s", &["@a@1", ""], 0), "entityLockRequested.lockSet[1]", Problem::Empty),
        (lock("s", &["@a@1"], -1), "entityLockRequested.position", position(-1)),
        (lock("s", &["@a@1"], 1), "entityLockRequested.position", position(1)),
        (unlock("", text("@a@1")), "entityUnlockSent.criticalSectionId", Problem::Empty),
        (unlock("s", None), "entityUnlockSent.targetInstanceId", Problem::Missing),
        (unlock("s", text("")), "entityUnlockSent.targetInstanceId", Problem::Empty),
    ]);
}
