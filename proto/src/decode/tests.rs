//! Every rule has a case that breaks it, and each case says which field the error must name.

use std::collections::BTreeMap;

use prost::Message;
use prost_types::{ListValue, Struct, Timestamp, Value, value::Kind};

use super::*;
use crate::failure::failure;
use crate::wire::{HistoryStateEvent, OrchestratorResponse, WorkItem};
use crate::{EventType, OrchestrationState, OrchestratorRequest, TaskFailureDetails, WorkItemRequest, event};

mod actions;
mod events;

const RUN: &str = "0123456789abcdef0123456789abcdef";
const NO_TIME: Timestamp = Timestamp { seconds: 0, nanos: -1 };

fn text(value: &str) -> Option<String> {
    Some(value.to_owned())
}

/// A chain of `depth` failures, the last of which has `value` as a property.
fn chain(depth: usize, value: Option<Value>) -> TaskFailureDetails {
    let mut innermost = failure("Broken", "it broke");
    innermost.properties = value.map(|value| BTreeMap::from([("key".into(), value)])).unwrap_or_default();
    (1..depth).fold(innermost, |inner, _| failure("Broken", "it broke").with_inner(inner))
}

/// A value of `levels` lists, or of `levels` structs.
fn nested(levels: usize, wrap: fn(Value) -> Kind) -> Value {
    (0..levels).fold(Value::from(true), |value, _| Value { kind: Some(wrap(value)) })
}

fn list(value: Value) -> Kind {
    Kind::ListValue(ListValue { values: vec![value] })
}

fn structure(value: Value) -> Kind {
    Kind::StructValue(Struct { fields: BTreeMap::from([("key".into(), value)]) })
}

#[test]
fn bytes_that_are_no_event_are_rejected() {
    for bytes in [&[0xff][..], &[0x12, 0x7f], &[0x08], &[0x0b]] {
        let invalid = decode_event(bytes).unwrap_err();
        assert_eq!(invalid.field, "historyEvent");
        assert!(matches!(invalid.problem, Problem::Undecodable(_)), "{invalid}");
    }
}

/// A kind from a newer protocol is an unknown field to protobuf, and must not become an event without content.
#[test]
fn an_unknown_kind_is_rejected() {
    let mut bytes = event::orchestrator_started(1).encode_to_vec();
    let known = bytes.iter().position(|&byte| byte == 14 << 3 | 2).unwrap();
    // Field 100 with an empty message: tag (100 << 3 | 2) as two bytes, length 0.
    bytes.splice(known.., [0xa2, 0x06, 0x00]);
    let invalid = decode_event(&bytes).unwrap_err();
    assert_eq!(invalid, Invalid::new("eventType", Problem::UnknownKind));
}

#[test]
fn errors_name_the_field_and_what_to_do() {
    let invalid = Invalid::new("fireAt", Problem::Missing).within("createTimer").within("actions[2]");
    assert_eq!(invalid.to_string(), "actions[2].createTimer.fireAt: is missing; set it");
}

#[test]
fn empty_payloads_stay_present() {
    let event = event::task_completed(1, 0, text(""));
    let decoded = decode_event(&encode_event(&event)).unwrap();
    assert_eq!(decoded, event);
    assert_ne!(decoded, event::task_completed(1, 0, None));
}

#[test]
fn failures_are_bounded() {
    assert_eq!(validate_failure(&chain(FAILURE_DEPTH_MAX, None)), Ok(()));
    let invalid = validate_failure(&chain(FAILURE_DEPTH_MAX + 1, None)).unwrap_err();
    assert_eq!(invalid, Invalid::new("innerFailure", Problem::TooDeep));

    // An empty list or struct is a level too, and levels run out in the middle of one without harm.
    let empty = Value { kind: Some(Kind::ListValue(ListValue { values: vec![] })) };
    let too_deep = || Err(Invalid::new("properties", Problem::TooDeep));
    let around = || Value { kind: Some(structure(empty.clone())) };
    for (lists, innermost, expected) in [
        (43, empty.clone(), Ok(())),
        (44, empty.clone(), too_deep()),
        (41, around(), Ok(())),
        (42, around(), too_deep()),
        (43, around(), too_deep()),
    ] {
        let value = (0..lists).fold(innermost, |value, _| Value { kind: Some(list(value)) });
        assert_eq!(validate_failure(&chain(1, Some(value))), expected, "{lists} lists");
    }

    let empty = Value { kind: Some(Kind::StructValue(Struct::default())) };
    let value = (0..29).fold(empty, |value, _| Value { kind: Some(structure(value)) });
    assert_eq!(validate_failure(&chain(1, Some(value))), too_deep());

    // 90 levels less one failure, one map entry and the outermost value leave 87: a list takes two, a struct three.
    for (levels, wrap) in [(43, list as fn(Value) -> Kind), (29, structure)] {
        assert_eq!(validate_failure(&chain(1, Some(nested(levels, wrap)))), Ok(()));
        let invalid = validate_failure(&chain(1, Some(nested(levels + 1, wrap)))).unwrap_err();
        assert_eq!(invalid, Invalid::new("properties", Problem::TooDeep));
    }
}

/// The deepest failures that validation accepts, in the deepest messages that can carry them, still decode. If the
/// bound were too high, an event could be stored that nobody can read again.
#[test]
fn the_deepest_legal_failure_decodes_everywhere() {
    let deepest = [
        chain(FAILURE_DEPTH_MAX, Some(nested(12, list))),
        chain(FAILURE_DEPTH_MAX, Some(nested(8, structure))),
        chain(1, Some(nested(43, list))),
        chain(1, Some(nested(29, structure))),
    ];
    for failure in deepest {
        let state = OrchestrationState {
            instance_id: "a".into(),
            failure_details: Some(failure),
            ..Default::default()
        };
        let kind = EventType::HistoryState(HistoryStateEvent { orchestration_state: Some(Box::new(state)) });
        let event = event::new(1, event::NO_ACTION, kind);
        assert_eq!(decode_event(&encode_event(&event)).as_ref(), Ok(&event));

        let request = OrchestratorRequest { past_events: vec![event.clone()], ..Default::default() };
        let item =
            WorkItem { request: Some(WorkItemRequest::OrchestratorRequest(request)), ..Default::default() };
        assert_eq!(WorkItem::decode(&*item.encode_to_vec()).as_ref(), Ok(&item));

        let action = actions::continue_as_new(vec![event]);
        assert_eq!(validate_action(&action), Ok(()));
        let response = OrchestratorResponse { actions: vec![action], ..Default::default() };
        assert_eq!(OrchestratorResponse::decode(&*response.encode_to_vec()).as_ref(), Ok(&response));
    }
}
