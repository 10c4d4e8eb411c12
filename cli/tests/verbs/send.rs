//! `dauer raise`, `suspend`, `resume` and `terminate`.

use dauer::{Record, Status};
use dauer_proto::EventType;

use crate::support::{Folder, dauer_with, snapshot, stderr};
use crate::world::{Live, child, fails, filled, json, succeeds};

fn is(status: Status) -> impl Fn(&Record) -> bool {
    move |record| record.status == status
}

#[test]
fn an_event_is_raised_with_its_data() {
    let folder = filled("raise");
    std::fs::write(folder.0.join("data.json"), "41").unwrap();
    assert_eq!(
        succeeds(&["raise", "event", "go", "--input", "@data.json"], &folder),
        "raise sent to event\n"
    );
    let child = child(&folder);
    let line = succeeds(&["raise", &child, "go", "--input", "1", "-o", "jsonl"], &folder);
    assert_eq!(line, format!("{{\"dauer\":1,\"id\":\"{child}\",\"sent\":\"raise\"}}\n"));
    let live = Live::on(&folder);
    let record = live.wait("event", |record| record.status.is_ended());
    assert_eq!((record.status, record.details.output().unwrap().as_str()), (Status::Completed, "42"));
    live.wait("parent", is(Status::Completed));
    live.stop();
    let output = dauer_with(&["raise", "sleep", "go", "--input", "-"], &folder, "7", &[]);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""));
    succeeds(&["raise", "sleep", "bare"], &folder);
    let snapshot = snapshot(&folder);
    let (_, sleep) = snapshot.instances.iter().find(|(id, _)| id.as_str() == "sleep").unwrap();
    let events = sleep.inbox.iter().map(|message| message.event.event().unwrap().event_type);
    let raised: Vec<_> = events
        .filter_map(|event| match event {
            Some(EventType::EventRaised(raised)) => Some((raised.name, raised.input)),
            _ => None,
        })
        .collect();
    assert_eq!(raised, [("go".to_owned(), Some("7".to_owned())), ("bare".to_owned(), None)]);
}

/// The reasons in a history: of suspends, resumes and terminates.
fn reasons(folder: &Folder, id: &str) -> Vec<Option<String>> {
    let snapshot = snapshot(folder);
    let (_, dump) = snapshot.instances.iter().find(|(found, _)| found.as_str() == id).unwrap();
    let events = dump.history.iter().flat_map(|stored| stored.batch.decode().unwrap());
    events
        .filter_map(|event| match event.event_type {
            Some(EventType::ExecutionSuspended(event)) => Some(event.input),
            Some(EventType::ExecutionResumed(event)) => Some(event.input),
            Some(EventType::ExecutionTerminated(event)) => Some(event.input),
            _ => None,
        })
        .collect()
}

#[test]
fn an_instance_is_suspended_resumed_and_terminated() {
    let folder = filled("control");
    let live = Live::on(&folder);
    assert_eq!(succeeds(&["suspend", "event", "--reason", "a pause"], &folder), "suspend sent to event\n");
    live.wait("event", is(Status::Suspended));
    assert_eq!(succeeds(&["resume", "event", "--reason", "enough"], &folder), "resume sent to event\n");
    live.wait("event", is(Status::Running));
    let sent = json(&succeeds(&["terminate", "event", "--reason", "the \"end\"", "-o", "json"], &folder));
    assert_eq!(sent, json(r#"{"dauer":1,"id":"event","sent":"terminate"}"#));
    let record = live.wait("event", |record| record.status.is_ended());
    assert_eq!(
        (record.status, record.details.output().unwrap().as_str()),
        (Status::Terminated, r#""the \"end\"""#)
    );
    live.stop();
    let texts = ["a pause", "enough", r#""the \"end\"""#].map(|text| Some(text.to_owned()));
    assert_eq!(reasons(&folder, "event"), texts);
}

#[test]
fn children_end_with_their_parent_unless_they_are_left_alone() {
    for (option, status) in [(&[][..], Status::Terminated), (&["--no-children"], Status::Running)] {
        let folder = filled("children");
        let child = child(&folder);
        let live = Live::on(&folder);
        succeeds(&[&["terminate", "parent"], option].concat(), &folder);
        live.wait("parent", is(Status::Terminated));
        if status.is_ended() {
            live.wait(&child, is(status));
        } else {
            // It still answers: nobody has ended it.
            succeeds(&["raise", &child, "go", "--input", "1"], &folder);
            live.wait(&child, is(Status::Completed));
        }
        live.stop();
    }
}

#[test]
fn what_has_ended_is_told_nothing() {
    let folder = filled("ended");
    for verb in
        [&["raise", "done", "go"][..], &["suspend", "done"], &["resume", "done"], &["terminate", "done"]]
    {
        let text = fails(verb, &folder, 5);
        assert!(
            text.starts_with("error: the instance 'done' is completed; nothing was sent\nhint: "),
            "{text}"
        );
        let text = crate::support::dauer(&[verb, &["-o", "json"]].concat(), &folder);
        assert_eq!(json(stderr(&text))["error"]["code"], "already_ended");
    }
}
