//! Inputs to begin with: valid ones, made by dauer's own constructors, and every input that once broke a claim.

use dauer_proto::{
    ActionType, CompleteOrchestrationAction, EntityLockRequestedEvent, EntityMessageType,
    EntityOperationCalledEvent, EntityOperationSignaledEvent, EntityUnlockSentEvent, EventType,
    ExecutionRewoundEvent, ExecutionStartedEvent, HistoryEvent, OrchestrationStatus, OrchestratorAction,
    OrchestratorResponse, ScheduleTaskAction, SubOrchestrationInstanceCreatedEvent, TaskFailureDetails,
    TaskScheduledEvent, TerminateOrchestrationAction, TraceContext, Value, action, event, failure, time,
};
use prost::Message as _;

use crate::from_hex;
use crate::targets::{KINDS, Target};

/// The inputs that once broke a claim: the name of the target, the bytes, and what was wrong with dauer.
const REGRESSIONS: &str = include_str!("../regressions.txt");

/// A time in the life of every test.
const AT: i64 = 1_700_000_000_456;

/// Everything that a target begins with.
#[must_use]
pub fn of(target: &Target) -> Vec<Vec<u8>> {
    let mut inputs = (target.corpus)();
    inputs.extend(regressions().filter(|(name, _)| *name == target.name).map(|(_, input)| input));
    inputs
}

/// The recorded inputs, with the name of their target.
pub fn regressions() -> impl Iterator<Item = (&'static str, Vec<u8>)> {
    let lines = REGRESSIONS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let read = line.split_once(' ').and_then(|(name, hex)| Some((name, from_hex(hex)?)));
        read.unwrap_or_else(|| panic!("regressions.txt has a line that is none: {line}"))
    })
}

/// A failure as deep as is allowed, with properties of every kind.
fn deep_failure() -> TaskFailureDetails {
    let mut details = failure::failure("Root", "the first cause");
    details.properties.insert("number".into(), Value::from(7.5));
    details.properties.insert("list".into(), Value::from(vec![Value::from("text"), Value::from(true)]));
    for level in 1..dauer_proto::decode::FAILURE_DEPTH_MAX {
        details = failure::failure("Wrapped", format!("level {level}")).with_inner(details);
    }
    details
}

fn trace() -> Option<TraceContext> {
    Some(TraceContext { trace_parent: "00-ab-cd-01".into(), ..TraceContext::default() })
}

pub(crate) fn call(request: &str) -> EntityMessageType {
    EntityMessageType::EntityOperationCalled(EntityOperationCalledEvent {
        request_id: request.into(),
        operation: "add".into(),
        input: Some("1".into()),
        target_instance_id: Some("@counter@7".into()),
        ..EntityOperationCalledEvent::default()
    })
}

pub(crate) fn lock(section: &str) -> EntityMessageType {
    EntityMessageType::EntityLockRequested(EntityLockRequestedEvent {
        critical_section_id: section.into(),
        lock_set: vec!["@counter@7".into(), "@counter@8".into()],
        position: 0,
        parent_instance_id: Some("order-7".into()),
    })
}

fn unlock(section: &str) -> EntityMessageType {
    EntityMessageType::EntityUnlockSent(EntityUnlockSentEvent {
        critical_section_id: section.into(),
        parent_instance_id: Some("order-7".into()),
        target_instance_id: Some("@counter@7".into()),
    })
}

fn signal(request: &str) -> EntityMessageType {
    EntityMessageType::EntityOperationSignaled(EntityOperationSignaledEvent {
        request_id: request.into(),
        operation: "add".into(),
        scheduled_time: Some(time::from_millis(AT + 1)),
        target_instance_id: Some("@counter@9".into()),
        ..EntityOperationSignaledEvent::default()
    })
}

fn started() -> HistoryEvent {
    let start = ExecutionStartedEvent {
        version: Some("1.0".into()),
        input: Some("3".into()),
        scheduled_start_timestamp: Some(time::from_millis(AT)),
        parent_trace_context: trace().map(Box::new),
        tags: [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())].into(),
        ..event::start("order", "order-7", "000102030405060708090a0b0c0d0e0f")
    };
    event::execution_started(AT, start)
}

fn scheduling() -> Vec<HistoryEvent> {
    let task = TaskScheduledEvent { name: "step".into(), input: Some("1".into()), ..Default::default() };
    let child = SubOrchestrationInstanceCreatedEvent {
        instance_id: "child-7".into(),
        name: "child".into(),
        parent_trace_context: trace(),
        ..Default::default()
    };
    vec![
        event::task_scheduled(AT, 10, task),
        event::timer_created(AT, 11, time::from_millis(AT + 60_000)),
        event::sub_orchestration_created(AT, 12, child),
        event::event_sent(AT, 13, "other", "Go", Some("1".into())),
        event::entity_message(AT, 14, call("request-14")),
        event::entity_message(AT, 15, lock("section-15")),
        event::entity_message(AT, 16, unlock("section-4")),
        event::entity_message(AT, 17, signal("request-17")),
    ]
}

fn answering() -> Vec<HistoryEvent> {
    vec![
        event::task_completed(AT, 0, Some("5".into())),
        event::task_failed(AT, 0, deep_failure()),
        event::timer_fired(AT, 1, time::from_millis(AT)),
        event::sub_orchestration_completed(AT, 2, None),
        event::sub_orchestration_failed(AT, 2, failure::failure("Boom", "bad").non_retriable()),
        event::entity_operation_completed(AT, "request-3", Some("1".into())),
        event::entity_operation_failed(AT, "request-3", failure::failure("Boom", "")),
        event::entity_lock_granted(AT, "section-4"),
    ]
}

/// Events of every kind, as they lie on the wire.
pub(crate) fn events() -> Vec<Vec<u8>> {
    let rewound = ExecutionRewoundEvent { reason: Some("again".into()), ..Default::default() };
    let mut events = vec![
        event::orchestrator_started(AT),
        started(),
        event::event_raised(AT, "Paid", Some(String::new())),
        event::execution_completed(AT, 2, OrchestrationStatus::Completed, Some("1".into()), None),
        event::execution_completed(AT, 2, OrchestrationStatus::Failed, None, Some(deep_failure())),
        event::execution_terminated(AT, Some("\"stop\"".into()), true),
        event::execution_suspended(AT, None),
        event::execution_resumed(AT, Some("go on".into())),
        event::execution_rewound(AT, rewound),
        event::new(AT, event::NO_ACTION, EventType::OrchestratorCompleted(Default::default())),
        event::new(AT, event::NO_ACTION, EventType::GenericEvent(Default::default())),
        event::new(AT, event::NO_ACTION, EventType::HistoryState(Default::default())),
        event::new(AT, event::NO_ACTION, EventType::ContinueAsNew(Default::default())),
    ];
    events.extend(scheduling());
    events.extend(answering());
    events.iter().map(dauer_proto::decode::encode_event).collect()
}

fn next_run() -> OrchestratorAction {
    let carryover_events = vec![
        event::event_raised(AT, "Go", Some("2".into())),
        event::event_raised(AT, "Go", Some("1".into())),
    ];
    let completion = CompleteOrchestrationAction {
        orchestration_status: OrchestrationStatus::ContinuedAsNew.into(),
        result: Some("4".into()),
        new_version: Some("2.0".into()),
        carryover_events,
        ..CompleteOrchestrationAction::default()
    };
    action::new(40, ActionType::CompleteOrchestration(completion))
}

/// Answers of workers: one for each kind of action, one with all, and the three ways to end.
pub(crate) fn answers() -> Vec<Vec<u8>> {
    let task = ScheduleTaskAction {
        name: "step".into(),
        version: Some("1".into()),
        input: Some("7".into()),
        tags: [("key".to_owned(), "value".to_owned())].into(),
        ..ScheduleTaskAction::default()
    };
    let terminate = TerminateOrchestrationAction {
        instance_id: "other".into(),
        reason: Some("enough".into()),
        recurse: true,
    };
    let actions = vec![
        action::new(20, ActionType::ScheduleTask(task)),
        action::create_timer(21, time::from_millis(AT + 120_000)),
        action::create_sub_orchestration(22, "", "child", Some("1".into())),
        action::create_sub_orchestration(23, "child-23", "child", None),
        action::send_event(24, "other", "Go", Some("1".into())),
        action::send_entity_message(25, call("request-25")),
        action::send_entity_message(26, lock("section-26")),
        action::send_entity_message(27, unlock("section-4")),
        action::send_entity_message(28, signal("request-28")),
        action::new(29, ActionType::TerminateOrchestration(terminate)),
    ];
    let ends = [
        action::complete(40, OrchestrationStatus::Completed, Some("1".into()), None),
        action::complete(40, OrchestrationStatus::Failed, None, Some(deep_failure())),
        action::complete(40, OrchestrationStatus::Terminated, None, None),
        next_run(),
    ];
    let mut lists: Vec<Vec<OrchestratorAction>> = actions.iter().map(|action| vec![action.clone()]).collect();
    lists.extend(ends.iter().map(|end| vec![end.clone()]));
    lists.extend(ends.iter().map(|end| actions.iter().chain([end]).cloned().collect()));
    let response = |actions| OrchestratorResponse {
        instance_id: "order-7".into(),
        actions,
        custom_status: Some("half".into()),
        completion_token: "token".into(),
        ..OrchestratorResponse::default()
    };
    lists.into_iter().map(|actions| response(actions).encode_to_vec()).collect()
}

/// URLs of stores, and some that nearly are.
pub(crate) fn urls() -> Vec<Vec<u8>> {
    let urls = [
        "memory:",
        "memory:x",
        "sqlite:",
        "sqlite:orders.db",
        "sqlite:./no such folder/orders.db",
        "sqlite:/",
        "SQLITE:orders.db",
        "sqlite://host/file",
        "sqlite:file.db?mode=ro&cache=shared",
        "postgres://user:secret@host/db",
        "",
        ":",
        "sqlite:\0",
    ];
    urls.iter().map(|url| url.as_bytes().to_vec()).collect()
}

/// Ids at their limits, each behind the byte that says of which kind it is.
pub(crate) fn ids() -> Vec<Vec<u8>> {
    let hundred = "é".repeat(100);
    let long = "x".repeat(255);
    let hub = "h".repeat(45);
    let texts = [
        "order-7",
        "@counter@7",
        "@@key",
        "abc",
        "Orders2",
        "a",
        "",
        "000102030405060708090a0b0c0d0e0f",
        &hundred,
        &long,
        &hub,
    ];
    let of_kind = |kind: usize| {
        texts.map(|text| [&[u8::try_from(kind).unwrap_or_default()], text.as_bytes()].concat()).into_iter()
    };
    (0..KINDS.len()).flat_map(of_kind).collect()
}
