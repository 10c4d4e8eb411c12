//! Each constructor gives its event the right id, time and fields, and something that validation accepts.

use super::*;
use crate::decode::{decode_event, encode_event};
use crate::failure::failure;
use crate::wire::{OrchestratorCompletedEvent, OrchestratorStartedEvent};
use crate::{
    EntityLockRequestedEvent, EntityOperationCalledEvent, EntityOperationSignaledEvent, EntityUnlockSentEvent,
};

const AT_MS: i64 = 1_700_000_000_123;
const RUN: &str = "0123456789abcdef0123456789abcdef";

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

fn fire_at() -> Timestamp {
    // Finer than a millisecond: what a worker asked for must come back to the nanosecond.
    Timestamp { seconds: 1_700_000_060, nanos: 123_456_789 }
}

/// The event made, the event id it should have, its content, and its name.
type Case = (HistoryEvent, i32, EventType, &'static str);

fn execution_cases() -> Vec<Case> {
    let started = ExecutionStartedEvent { input: text("7"), ..start("Order", "order-1", RUN) };
    let expected_start = ExecutionStartedEvent {
        name: "Order".into(),
        input: text("7"),
        orchestration_instance: Some(OrchestrationInstance {
            instance_id: "order-1".into(),
            execution_id: text(RUN),
        }),
        ..Default::default()
    };
    let completed = ExecutionCompletedEvent {
        orchestration_status: OrchestrationStatus::Failed as i32,
        result: text(""),
        failure_details: Some(failure("Broken", "it broke")),
    };
    let rewound = ExecutionRewoundEvent { reason: text("fixed"), ..Default::default() };
    vec![
        (
            orchestrator_started(AT_MS),
            -1,
            EventType::OrchestratorStarted(OrchestratorStartedEvent {}),
            "OrchestratorStarted",
        ),
        (
            execution_started(AT_MS, started),
            0,
            EventType::ExecutionStarted(expected_start),
            "ExecutionStarted",
        ),
        (
            execution_completed(
                AT_MS,
                9,
                OrchestrationStatus::Failed,
                text(""),
                Some(failure("Broken", "it broke")),
            ),
            9,
            EventType::ExecutionCompleted(completed),
            "ExecutionCompleted",
        ),
        (
            execution_terminated(AT_MS, text("stop"), true),
            -1,
            EventType::ExecutionTerminated(ExecutionTerminatedEvent { input: text("stop"), recurse: true }),
            "ExecutionTerminated",
        ),
        (
            execution_suspended(AT_MS, text("wait")),
            -1,
            EventType::ExecutionSuspended(ExecutionSuspendedEvent { input: text("wait") }),
            "ExecutionSuspended",
        ),
        (
            execution_resumed(AT_MS, None),
            -1,
            EventType::ExecutionResumed(ExecutionResumedEvent { input: None }),
            "ExecutionResumed",
        ),
        (
            execution_rewound(AT_MS, rewound.clone()),
            -1,
            EventType::ExecutionRewound(rewound),
            "ExecutionRewound",
        ),
    ]
}

fn task_and_child_cases() -> Vec<Case> {
    let task = TaskScheduledEvent { name: "Charge".into(), ..Default::default() };
    let child = SubOrchestrationInstanceCreatedEvent {
        instance_id: "child".into(),
        name: "Ship".into(),
        ..Default::default()
    };
    let broken = || failure("Broken", "it broke");
    vec![
        (task_scheduled(AT_MS, 3, task.clone()), 3, EventType::TaskScheduled(task), "TaskScheduled"),
        (
            task_completed(AT_MS, 0, text("")),
            -1,
            EventType::TaskCompleted(TaskCompletedEvent { task_scheduled_id: 0, result: text("") }),
            "TaskCompleted",
        ),
        (
            task_failed(AT_MS, 3, broken()),
            -1,
            EventType::TaskFailed(TaskFailedEvent { task_scheduled_id: 3, failure_details: Some(broken()) }),
            "TaskFailed",
        ),
        (
            sub_orchestration_created(AT_MS, 4, child.clone()),
            4,
            EventType::SubOrchestrationInstanceCreated(child),
            "SubOrchestrationInstanceCreated",
        ),
        (
            sub_orchestration_completed(AT_MS, 4, text("done")),
            -1,
            EventType::SubOrchestrationInstanceCompleted(SubOrchestrationInstanceCompletedEvent {
                task_scheduled_id: 4,
                result: text("done"),
            }),
            "SubOrchestrationInstanceCompleted",
        ),
        (
            sub_orchestration_failed(AT_MS, 4, broken()),
            -1,
            EventType::SubOrchestrationInstanceFailed(SubOrchestrationInstanceFailedEvent {
                task_scheduled_id: 4,
                failure_details: Some(broken()),
            }),
            "SubOrchestrationInstanceFailed",
        ),
    ]
}

fn timer_and_message_cases() -> Vec<Case> {
    vec![
        (
            timer_created(AT_MS, 5, fire_at()),
            5,
            EventType::TimerCreated(TimerCreatedEvent { fire_at: Some(fire_at()) }),
            "TimerCreated",
        ),
        (
            timer_fired(AT_MS, 5, fire_at()),
            -1,
            EventType::TimerFired(TimerFiredEvent { fire_at: Some(fire_at()), timer_id: 5 }),
            "TimerFired",
        ),
        (
            event_sent(AT_MS, 6, "other", "Approved", text("yes")),
            6,
            EventType::EventSent(EventSentEvent {
                instance_id: "other".into(),
                name: "Approved".into(),
                input: text("yes"),
            }),
            "EventSent",
        ),
        (
            event_raised(AT_MS, "Approved", None),
            -1,
            EventType::EventRaised(EventRaisedEvent { name: "Approved".into(), input: None }),
            "EventRaised",
        ),
        (
            entity_operation_completed(AT_MS, "request", text("1")),
            -1,
            EventType::EntityOperationCompleted(EntityOperationCompletedEvent {
                request_id: "request".into(),
                output: text("1"),
            }),
            "EntityOperationCompleted",
        ),
        (
            entity_operation_failed(AT_MS, "request", failure("Broken", "")),
            -1,
            EventType::EntityOperationFailed(EntityOperationFailedEvent {
                request_id: "request".into(),
                failure_details: Some(failure("Broken", "")),
            }),
            "EntityOperationFailed",
        ),
        (
            entity_lock_granted(AT_MS, "section"),
            -1,
            EventType::EntityLockGranted(EntityLockGrantedEvent { critical_section_id: "section".into() }),
            "EntityLockGranted",
        ),
    ]
}

fn entity_message_cases() -> Vec<Case> {
    let signal = EntityOperationSignaledEvent {
        request_id: "request".into(),
        operation: "add".into(),
        ..Default::default()
    };
    let call = EntityOperationCalledEvent {
        request_id: "request".into(),
        operation: "add".into(),
        ..Default::default()
    };
    let lock = EntityLockRequestedEvent {
        critical_section_id: "section".into(),
        lock_set: vec!["@counter@a".into()],
        ..Default::default()
    };
    let unlock = EntityUnlockSentEvent {
        critical_section_id: "section".into(),
        target_instance_id: text("@counter@a"),
        ..Default::default()
    };
    vec![
        (
            entity_message(AT_MS, 1, EntityMessageType::EntityOperationSignaled(signal.clone())),
            1,
            EventType::EntityOperationSignaled(signal),
            "EntityOperationSignaled",
        ),
        (
            entity_message(AT_MS, 2, EntityMessageType::EntityOperationCalled(call.clone())),
            2,
            EventType::EntityOperationCalled(call),
            "EntityOperationCalled",
        ),
        (
            entity_message(AT_MS, -1, EntityMessageType::EntityLockRequested(lock.clone())),
            -1,
            EventType::EntityLockRequested(lock),
            "EntityLockRequested",
        ),
        (
            entity_message(AT_MS, 4, EntityMessageType::EntityUnlockSent(unlock.clone())),
            4,
            EventType::EntityUnlockSent(unlock),
            "EntityUnlockSent",
        ),
    ]
}

#[test]
fn constructors_fill_their_fields() {
    let cases =
        [execution_cases(), task_and_child_cases(), timer_and_message_cases(), entity_message_cases()]
            .concat();
    for (event, event_id, kind, name) in cases {
        let expected = HistoryEvent {
            event_id,
            timestamp: Some(Timestamp { seconds: 1_700_000_000, nanos: 123_000_000 }),
            event_type: Some(kind),
        };
        assert_eq!(event, expected);
        assert_eq!(kind_name(&event), name);
        assert_eq!(decode_event(&encode_event(&event)), Ok(expected));
    }
}

#[test]
fn schedules_and_answers_agree_on_ids() {
    use ScheduledKind::{Child, Task, Timer};
    let all = [execution_cases(), task_and_child_cases(), timer_and_message_cases(), entity_message_cases()];
    let events: Vec<HistoryEvent> = all.concat().into_iter().map(|case| case.0).collect();

    let scheduled: Vec<Scheduled<'_>> = events.iter().filter_map(schedules).collect();
    let expected = [
        Scheduled { id: 3, kind: Task, name: Some("Charge") },
        Scheduled { id: 4, kind: Child, name: Some("Ship") },
        Scheduled { id: 5, kind: Timer, name: None },
    ];
    assert_eq!(scheduled, expected);

    let answered: Vec<Answer> = events.iter().filter_map(answer).collect();
    let expected =
        [(0, Task), (3, Task), (4, Child), (4, Child), (5, Timer)].map(|(id, kind)| Answer { id, kind });
    assert_eq!(answered, expected);
    assert_eq!(events.iter().filter_map(answers).collect::<Vec<_>>(), [0, 3, 4, 4, 5]);
}

#[test]
fn an_event_without_a_kind_is_nothing() {
    let event = HistoryEvent::default();
    assert_eq!(kind_name(&event), "None");
    assert_eq!((schedules(&event), answers(&event)), (None, None));
    let completed = new(AT_MS, NO_ACTION, EventType::OrchestratorCompleted(OrchestratorCompletedEvent {}));
    assert_eq!(kind_name(&completed), "OrchestratorCompleted");
}

#[test]
fn actions_become_events_with_nothing_lost() {
    let trace = Some(crate::TraceContext { trace_parent: "00-1-2-01".into(), ..Default::default() });
    let tags = [("region".to_owned(), "eu".to_owned())].into();
    let task = ScheduleTaskAction {
        name: "Charge".into(),
        version: text("2"),
        input: text(""),
        tags,
        parent_trace_context: trace,
    };
    let event: TaskScheduledEvent = task.clone().into();
    assert_eq!((&event.name, &event.version, &event.input), (&task.name, &task.version, &task.input));
    assert_eq!((&event.tags, &event.parent_trace_context), (&task.tags, &task.parent_trace_context));

    let child = CreateSubOrchestrationAction {
        instance_id: "child".into(),
        name: "Ship".into(),
        version: text("3"),
        input: text("7"),
        parent_trace_context: task.parent_trace_context,
        tags: task.tags,
    };
    let event: SubOrchestrationInstanceCreatedEvent = child.clone().into();
    assert_eq!((&event.instance_id, &event.name), (&child.instance_id, &child.name));
    assert_eq!((&event.version, &event.input), (&child.version, &child.input));
    assert_eq!((&event.tags, &event.parent_trace_context), (&child.tags, &child.parent_trace_context));
}
