//! How a client's call and a worker's result become messages.

use dauer_core::limits::{PAYLOAD_BYTES_MAX, TIMER_MAX};
use dauer_core::model::{Class, Control, Kind, Message, Origin, Over, QueueKey, Status};
use dauer_core::send::{self, Caller, InvalidRequest, StartRequest};
use dauer_core::{ExecutionId, Timestamp};
use dauer_proto::{EventType, failure, time};

use crate::support::make::*;
use crate::support::{Run, event_line, id, message_line, start_of};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

fn caller(request: u128) -> Caller {
    Caller { request, repeatable: true, now: NOW }
}

fn start(request: StartRequest) -> Result<Message, InvalidRequest> {
    send::start(request, ExecutionId(7), caller(1), Over::Refuse)
}

fn order() -> StartRequest {
    StartRequest::new(id("i"), "order")
}

fn large() -> Option<String> {
    Some("x".repeat(PAYLOAD_BYTES_MAX + 1))
}

#[test]
fn a_start_carries_everything_in_event_and_record() {
    let tags = [("team".to_owned(), "blue".to_owned())];
    let request = StartRequest {
        version: Some("2".into()),
        input: Some("7".into()),
        tags: tags.clone().into(),
        scheduled: Some(Timestamp(NOW.0 + 5)),
        trace: Some(trace("00-client")),
        ..order()
    };
    let message = start(request).unwrap();
    assert_eq!(
        message_line(&message),
        "→ i start ExecutionStarted#0 order(7) version=2 team=blue trace=00-client"
    );
    let opening = start_of(&message);
    assert_eq!(opening.tags, tags.into());
    assert_eq!(opening.queue, QueueKey::new(Kind::Orchestration, "order", Some("2")));
    let at = Timestamp(NOW.0 + 5);
    assert_eq!((message.visible_at, opening.scheduled), (at, Some(at)));
    let record = opening.record(message.id);
    assert_eq!(
        (record.start, record.status, record.times.scheduled),
        (message.id, Status::Pending, Some(at))
    );
    let Some(EventType::ExecutionStarted(started)) = message.event.event().unwrap().event_type else {
        panic!()
    };
    assert_eq!(started.orchestration_instance.unwrap().execution_id, Some(record.execution.to_string()));
    assert_eq!(started.scheduled_start_timestamp, Some(time::from_millis(NOW.0 + 5)));
}

#[test]
fn the_same_request_gives_the_same_message() {
    let (first, again) = (start(order()).unwrap(), start(order()).unwrap());
    assert_eq!(first, again);
    let other = send::start(order(), ExecutionId(8), caller(2), Over::Refuse).unwrap();
    assert_ne!(other.id, first.id);
    assert_eq!(start_of(&other).execution, ExecutionId(8), "the run is the caller's choice, not the key's");
    let elsewhere = start(StartRequest::new(id("j"), "order")).unwrap();
    assert_ne!(elsewhere.id, first.id, "an id is bound to the instance");
    // A client that did not choose the request id cannot repeat it, and the message does not pretend.
    let once = send::raise(id("i"), "go", None, Caller { repeatable: false, ..caller(3) }).unwrap();
    assert_eq!(once.origin, Origin::Client { request: None });
    let twice = send::raise(id("i"), "go", None, caller(3)).unwrap();
    assert_eq!((twice.origin, twice.id), (Origin::Client { request: Some(3) }, once.id));
}

/// JavaScript always sends 1970-01-01 (behaviour 36).
#[test]
fn behaviour_36_a_scheduled_start_in_the_past_is_now() {
    let message = start(StartRequest { scheduled: Some(Timestamp(0)), ..order() }).unwrap();
    assert_eq!(message.visible_at, Timestamp(0));
    assert_eq!(start_of(&message).scheduled, None);
    let Some(EventType::ExecutionStarted(started)) = message.event.event().unwrap().event_type else {
        panic!()
    };
    assert_eq!(started.scheduled_start_timestamp, None);
    let now = start(StartRequest { scheduled: Some(NOW), ..order() }).unwrap();
    assert_eq!(start_of(&now).scheduled, None, "and now is now");
}

/// The client's clock decides nothing: a time it takes for past is still ahead for a store that is behind.
#[test]
fn behaviour_36_when_a_start_is_due_is_decided_by_the_store() {
    let message = start(StartRequest { scheduled: Some(Timestamp(NOW.0 - 1)), ..order() }).unwrap();
    assert_eq!(message.visible_at, Timestamp(NOW.0 - 1));
}

#[test]
fn an_empty_version_is_none() {
    let message = start(StartRequest { version: Some(String::new()), ..order() }).unwrap();
    assert_eq!(start_of(&message).queue.version, None);
    assert_eq!(message_line(&message), "→ i start ExecutionStarted#0 order");
}

#[test]
fn limits_name_the_field() {
    let text = |result: Result<Message, InvalidRequest>| result.unwrap_err().to_string();
    let long = "x".repeat(256);
    let bytes =
        "has 16777217 bytes, at most 16777216 are allowed; put large data elsewhere and send its address";
    assert_eq!(
        text(start(StartRequest::new(id("i"), ""))),
        "orchestration name is empty; give it at least one character"
    );
    let name = text(start(StartRequest::new(id("i"), long.as_str())));
    assert_eq!(name, "orchestration name has 256 bytes; at most 255 are allowed");
    assert_eq!(text(start(StartRequest { input: large(), ..order() })), format!("input {bytes}"));
    let version = text(start(StartRequest { version: Some(long.clone()), ..order() }));
    assert_eq!(version, "version has 256 bytes; at most 255 are allowed");
    let key = text(start(StartRequest { tags: [(long.clone(), String::new())].into(), ..order() }));
    assert_eq!(key, "tag key has 256 bytes; at most 255 are allowed");
    let value = text(start(StartRequest { tags: [("k".to_owned(), large().unwrap())].into(), ..order() }));
    assert_eq!(value, format!("tag value {bytes}"));
    let far = NOW.after(TIMER_MAX);
    let late = text(start(StartRequest { scheduled: Some(Timestamp(far.0 + 1)), ..order() }));
    assert_eq!(late, "scheduled start is more than 100 years ahead; choose an earlier time");
    assert!(start(StartRequest { scheduled: Some(far), ..order() }).is_ok());

    let entity = text(start(StartRequest::new(id("@counter@a"), "order")));
    let allowed = "ids of the form @name@key belong to entities";
    assert_eq!(entity, format!("instance id contains '@' at position 0; {allowed}"));

    let raise = |name: &str, data| text(send::raise(id("i"), name, data, caller(1)));
    assert_eq!(raise(&long, None), "event name has 256 bytes; at most 255 are allowed");
    assert_eq!(
        raise("a\nb", None),
        r"event name contains '\n' at position 1; control characters are not allowed"
    );
    assert_eq!(raise("go", large()), format!("event data {bytes}"));
    assert_eq!(text(send::suspend(id("i"), large(), caller(1))), format!("reason {bytes}"));
    assert_eq!(text(send::resume(id("i"), large(), caller(1))), format!("reason {bytes}"));
    assert_eq!(text(send::terminate(id("i"), large(), true, caller(1))), format!("output {bytes}"));
    let exactly = Some("x".repeat(PAYLOAD_BYTES_MAX));
    assert!(start(StartRequest { input: exactly, ..order() }).is_ok());
}

#[test]
fn control_messages_say_the_same_to_stores_and_workers() {
    let reason = || Some("why".to_owned());
    for (message, control, line) in [
        (send::suspend(id("i"), reason(), caller(1)), Control::Suspend, "ExecutionSuspended"),
        (send::resume(id("i"), reason(), caller(1)), Control::Resume, "ExecutionResumed"),
        (
            send::terminate(id("i"), reason(), true, caller(1)),
            Control::Terminate,
            "ExecutionTerminated (why) recurse",
        ),
    ] {
        let message = message.unwrap();
        assert_eq!(message.class, Class::Control(control));
        assert_eq!(event_line(&message.event.event().unwrap()), line);
        assert_eq!(message.is_suspend(), control == Control::Suspend);
    }
}

#[test]
fn running_a_task_twice_gives_the_same_answer_id() {
    let run = Run::running([task(1, "pay")]);
    let (first, second) = (run.completion(1, Ok("a")), run.completion(1, Err(failure::failure("B", "b"))));
    assert_eq!(first.answer.id, second.answer.id);
    assert_eq!(first.answer.answers, Some(run.tasks[&1].id));
    assert_eq!(first.answer.execution, Some(run.record.execution));
    assert_eq!(first.fence.task, run.tasks[&1].id);
}

/// dapr#9644: a result that is too large used to hang the run. Trying again would give as much.
#[test]
fn a_result_that_is_too_large_fails_the_task() {
    let mut run = Run::running([task(1, "pay")]);
    run.complete(1, &large().unwrap());
    run.turn([]).is("OrchestratorStarted @1000
         TaskFailed 1 !PayloadTooLarge: result has 16777217 bytes, at most 16777216 are allowed; put large data elsewhere and send its address
         = Running");
}
