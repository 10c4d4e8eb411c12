//! The text of an exported history, and what is refused when one is read.
//!
//! `golden/history.json` must never change: what the first dauer exported must be readable by every later one, and people
//! compare exported histories as text.

#![cfg(feature = "json")]
#![allow(clippy::unwrap_used, reason = "clippy knows only #[test] functions as tests, not their helpers")]

use std::error::Error;

use dauer_proto::json::{HISTORY_VERSION, HistoryDocument, JsonError, event_from_value, event_to_value};
use dauer_proto::{
    ExecutionStartedEvent, HistoryEvent, OrchestrationStatus, Problem, TraceContext, event, failure, time,
};
use serde_json::{Value, json};

const GOLDEN: &str = include_str!("golden/history.json");
const EXECUTION: &str = "000102030405060708090a0b0c0d0e0f";

/// One event for every rule of the mapping: times with and without a fraction, texts that are absent and empty, maps,
/// an enum, a large number, nested messages, and properties of every JSON type.
fn events() -> Vec<HistoryEvent> {
    let at = 1_700_000_000_456;
    let start = ExecutionStartedEvent {
        input: Some("{\"amount\":7}".into()),
        scheduled_start_timestamp: Some(time::from_millis(1_700_000_000_000)),
        parent_trace_context: Some(Box::new(TraceContext {
            trace_parent: "00-ab-cd-01".into(),
            ..TraceContext::default()
        })),
        tags: [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())].into(),
        ..event::start("Order", "order-7", EXECUTION)
    };
    let broken = failure::failure("Boom", "bad \"thing\"")
        .with_property("list", vec![1.0.into(), true.into()])
        .with_property("text", "\u{e9}".to_owned())
        .with_inner(failure::failure("Root", ""))
        .non_retriable();
    vec![
        event::orchestrator_started(at),
        event::execution_started(at, start),
        event::timer_created(at, 1, dauer_proto::Timestamp { seconds: 1_700_000_060, nanos: 1 }),
        event::task_failed(at, 0, broken),
        event::event_raised(at, "Paid", Some(String::new())),
        event::execution_completed(at, 2, OrchestrationStatus::Completed, None, None),
    ]
}

fn document() -> HistoryDocument {
    HistoryDocument { instance_id: "order-7".into(), execution_id: EXECUTION.into(), events: events() }
}

#[test]
fn the_text_is_golden() {
    assert_eq!(document().to_text().unwrap(), GOLDEN);
}

#[test]
fn the_golden_text_is_read_back() {
    assert_eq!(HistoryDocument::parse(GOLDEN).unwrap(), document());
    assert_eq!(HistoryDocument::from_value(document().to_value().unwrap()).unwrap(), document());
}

/// The golden document with one thing changed.
fn changed(change: impl FnOnce(&mut Value)) -> JsonError {
    let mut value: Value = serde_json::from_str(GOLDEN).unwrap();
    change(&mut value);
    HistoryDocument::parse(&value.to_string()).unwrap_err()
}

#[test]
fn a_newer_version_is_refused_before_anything_else() {
    let error = changed(|document| {
        document["dauer_history"] = json!(HISTORY_VERSION + 1);
        document["compressed"] = json!(true);
    });
    assert!(matches!(error, JsonError::Newer { found: 2 }), "{error:?}");
    assert_eq!(
        error.to_string(),
        "dauer_history: the document has version 2, this dauer reads 1; use a newer dauer"
    );
}

#[test]
fn what_is_no_document_is_refused_with_its_place() {
    type Change = Box<dyn FnOnce(&mut Value)>;
    let cases: Vec<(&str, Change)> = vec![
        ("document: is no JSON object", Box::new(|d| *d = json!([]))),
        ("dauer_history: is missing", Box::new(|d| drop(d.as_object_mut().unwrap().remove("dauer_history")))),
        ("dauer_history: is no version", Box::new(|d| d["dauer_history"] = json!(0))),
        ("dauer_history: is no version", Box::new(|d| d["dauer_history"] = json!("1"))),
        ("extra: is no part", Box::new(|d| d["extra"] = json!(1))),
        ("instanceId: is missing", Box::new(|d| drop(d.as_object_mut().unwrap().remove("instanceId")))),
        ("executionId: is no text", Box::new(|d| d["executionId"] = json!(7))),
        ("instanceId: is no text", Box::new(|d| d["instanceId"] = json!(""))),
        ("events: is no list", Box::new(|d| d["events"] = json!({}))),
    ];
    for (expected, change) in cases {
        let error = changed(change);
        assert!(matches!(error, JsonError::Shape { .. }), "{error:?}");
        assert!(error.to_string().starts_with(expected), "{error} should start with {expected}");
    }
    let error = HistoryDocument::parse("{\"dauer_history\":1,").unwrap_err();
    assert!(matches!(error, JsonError::Syntax(_)), "{error:?}");
}

#[test]
fn an_event_that_is_none_is_refused_with_its_place() {
    type Change = fn(&mut Value);
    let cases: [(&str, Change); 5] = [
        ("unrecognized field name", |events| events[2]["timer"] = json!({})),
        ("invalid", |events| events[2]["timestamp"] = json!("yesterday")),
        ("invalid", |events| events[2]["eventId"] = json!({})),
        ("invalid", |events| events[2]["timerCreated"] = json!(7)),
        ("multiple fields provided for oneof", |events| events[2]["eventRaised"] = json!({"name": "x"})),
    ];
    for (expected, change) in cases {
        let error = changed(|document| change(&mut document["events"]));
        assert!(matches!(&error, JsonError::Event { place, .. } if place == "events[2]"), "{error:?}");
        let source = error.source().unwrap().to_string();
        assert!(source.contains(expected), "{source} should say {expected}");
    }
}

#[test]
fn an_event_that_makes_no_sense_is_refused_with_its_field() {
    let error = changed(|document| document["events"][4]["eventRaised"]["name"] = json!(""));
    let JsonError::Invalid(invalid) = error else { panic!("{error:?}") };
    assert_eq!((invalid.field.as_str(), invalid.problem), ("events[4].eventRaised.name", Problem::Empty));
}

#[test]
fn what_json_cannot_say_is_an_error_with_its_place() {
    let infinite = failure::failure("Boom", "bad").with_property("ratio", f64::INFINITY);
    let infinite = event::task_failed(0, 0, infinite);
    assert!(matches!(event_to_value(&infinite), Err(JsonError::Unwritable { .. })));
    let mut document = document();
    document.events.push(infinite);
    let error = document.to_text().unwrap_err();
    assert!(matches!(&error, JsonError::Unwritable { place, .. } if place == "events[6]"), "{error:?}");
}

/// Other writers of proto3 JSON give enums as numbers, 64-bit numbers and wrappers as they like, and names as in the
/// `.proto`: the mapping asks readers to take them all.
#[test]
fn other_writers_forms_are_read() {
    let given = json!({
        "eventId": "2",
        "timestamp": "2023-11-14T23:13:20.456+01:00",
        "executionCompleted": {"orchestrationStatus": 1, "result": null},
    });
    let ended = event::execution_completed(1_700_000_000_456, 2, OrchestrationStatus::Completed, None, None);
    assert_eq!(event_from_value(given).unwrap(), ended);
}
