//! `dauer start`, with a worker and without.

use std::time::Duration;

use dauer::{Record, Status};

use crate::support::{Folder, Running, SOON, dauer, dauer_with, stderr, stdout};
use crate::world::{Live, fails, filled, json, record, steady, succeeds};

/// Runs a command that waits for an instance: the exit code, the output, and what was said beside it.
fn waits(arguments: &[&str], folder: &Folder) -> (Option<i32>, String, String) {
    let output = dauer(arguments, folder);
    (output.status.code(), stdout(&output).to_owned(), stderr(&output).to_owned())
}

#[test]
fn an_orchestration_is_started_and_waited_for() {
    let folder = Folder::new("wait");
    let live = Live::on(&folder);
    let hello = ["start", "hello", "--id", "h", "--input", "\"you\"", "--wait", "--timeout", "60s"];
    assert_eq!(waits(&hello, &folder), (Some(0), "\"Hello, you!\"\n".into(), "started h\n".into()));
    // Ended ones are replaced, so that the same can be started again; and its JSON is that of an instance.
    let (code, text, _) = waits(&[&hello[..], &["-o", "json"]].concat(), &folder);
    let value = json(&text);
    assert_eq!((code, &value["dauer"], &value["output"]), (Some(0), &1.into(), &"Hello, you!".into()));

    let (code, text, said) = waits(&["start", "broken", "--id", "b", "--input", "1", "--wait"], &folder);
    assert_eq!((code, text.as_str()), (Some(6), ""));
    assert!(said.contains("error: the instance 'b' failed: ") && said.contains("invalid digit"), "{said}");
    let (code, text, said) =
        waits(&["start", "broken", "--id", "b", "--input", "1", "--wait", "-o", "jsonl"], &folder);
    assert_eq!((code, &json(&text)["status"]), (Some(6), &"failed".into()));
    assert_eq!(json(said.lines().last().unwrap())["error"]["code"], "instance_failed", "{said}");

    let short = ["start", "event", "--id", "e", "--input", "1", "--wait", "--timeout", "10ms"];
    let (code, text, said) = waits(&short, &folder);
    assert_eq!((code, text.as_str()), (Some(7), ""));
    assert!(said.contains("error: the instance 'e' has not come so far yet"), "{said}");
    let living = live.wait("e", |record| record.history_len > 1);
    assert_eq!(living.status, Status::Running, "it goes on");
    live.stop();
    let (code, _, said) =
        waits(&[&short[..3], &["f", "--input", "1", "--wait", "--timeout", "1ms"]].concat(), &folder);
    assert_eq!(code, Some(7));
    assert!(said.contains("note: no worker is connected to this store; it waits until one is\n"), "{said}");
}

#[test]
fn an_instance_is_followed_through_its_runs_but_not_into_the_next_start() {
    let folder = Folder::new("runs");
    let live = Live::on(&folder);
    let count = ["start", "count", "--id", "c", "--input", "3", "--wait"];
    assert_eq!(waits(&count, &folder), (Some(0), "7\n".into(), "started c\n".into()));
    let shown = json(&succeeds(&["get", "c", "-o", "json"], &folder));
    assert_eq!((&shown["generation"], &shown["input"]), (&3.into(), &0.into()));
    let shown = succeeds(&["get", "c"], &folder);
    assert!(shown.contains("run            4, by continuing as new\n"), "{shown}");
    // The last run's input is all that is left of them.
    assert_eq!(waits(&["restart", "c", "--wait"], &folder).1, "7\n");

    let running = Running::start(&["start", "event", "--id", "e", "--input", "1", "--wait"], &folder);
    live.wait("e", |record| record.history_len > 1);
    succeeds(&["terminate", "e"], &folder);
    live.wait("e", |record| record.status == Status::Terminated);
    let (status, said) = running.end();
    assert_eq!((status.code(), said), (Some(6), Vec::new()));
    live.stop();

    // Nobody is at work: the second start replaces the first, which somebody waits for.
    let running = Running::start(&["start", "event", "--id", "f", "--input", "1", "--wait"], &folder);
    let deadline = std::time::Instant::now() + SOON;
    while record(&folder, "f").is_none() {
        assert!(std::time::Instant::now() < deadline, "it is not started");
    }
    succeeds(&["start", "hello", "--id", "f", "--input", "\"you\"", "--reuse-policy", "any"], &folder);
    let live = Live::on(&folder);
    live.wait("f", |record| &*record.queue.name == "hello");
    let (status, said) = running.end();
    assert_eq!((status.code(), said), (Some(4), Vec::new()));
    live.stop();
}

#[test]
fn what_is_given_is_what_is_started() {
    let folder = Folder::new("given");
    std::fs::write(folder.0.join("input.json"), "{\n \"n\": 1.50 }\n").unwrap();
    let start = |more: &[&str]| succeeds(&[&["start", "absent", "--id"], more].concat(), &folder);
    // The first makes the store, and says so.
    let first = dauer(&["start", "absent"], &folder);
    assert_eq!(first.status.code(), Some(0));
    assert_eq!(stderr(&first), "note: there was no store sqlite:dauer.db; it is new\n");
    assert!(record(&folder, stdout(&first).trim()).is_some(), "{}", stdout(&first));

    start(&[
        "a",
        "--version",
        "2",
        "--tag",
        "k=v",
        "--tag",
        "l=w=x",
        "--input",
        "@input.json",
        "--at",
        "+2h",
    ]);
    let found = record(&folder, "a").unwrap();
    assert_eq!((found.queue.version.as_deref(), found.tags.len()), (Some("2"), 2));
    assert_eq!(found.tags.get("l").map(String::as_str), Some("w=x"));
    let ahead = found.times.scheduled.unwrap().since(found.times.created);
    assert!(ahead > Duration::from_secs(7_000) && ahead < Duration::from_secs(7_300), "{ahead:?}");
    start(&["past", "--at", "2020-01-01T00:00:00Z"]);
    assert_eq!(record(&folder, "past").unwrap().times.scheduled, None, "a time that has passed is now");

    let output = dauer_with(&["start", "absent", "--id", "stdin", "--input", "-"], &folder, "[1]", &[]);
    assert_eq!((output.status.code(), stdout(&output)), (Some(0), "stdin\n"), "{}", stderr(&output));
    start(&["negative", "--input", "-5"]);
    let inputs = crate::support::snapshot(&folder).instances;
    let input = |id: &str| {
        let dump = inputs.iter().find(|(found, _)| found.as_str() == id).unwrap().1;
        match dump.inbox[0].event.event().unwrap().event_type.unwrap() {
            dauer_proto::EventType::ExecutionStarted(start) => start.input,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(input("a").as_deref(), Some("{\n \"n\": 1.50 }"), "as it is, but for the space around it");
    assert_eq!((input("stdin").as_deref(), input("negative").as_deref()), (Some("[1]"), Some("-5")));
    assert_eq!(input("past"), None);
}

#[test]
fn a_request_that_is_repeated_starts_nothing_more() {
    let folder = Folder::new("repeat");
    dauer(&["start", "absent"], &folder);
    let start = |more: &[&str]| {
        let arguments = [&["start", "absent", "-o", "jsonl", "--request-id"], more].concat();
        json(&succeeds(&arguments, &folder))
    };
    let (first, second, other) = (start(&["one"]), start(&["one"]), start(&["two"]));
    assert_eq!(steady(&first.to_string()), r#"{"created":"new","dauer":1,"execution":"X","id":"X"}"#);
    assert_eq!((&first["created"], &second["created"]), (&"new".into(), &"repeat".into()));
    assert_eq!((&first["id"], &first["execution"]), (&second["id"], &second["execution"]));
    assert_ne!(first["id"], other["id"]);
    let uuid = "0123abcd-0123-4567-89ab-0123456789ab";
    assert_eq!(start(&[uuid])["id"], uuid.replace('-', ""), "a UUID is its own identity");
    let (named, again) = (start(&["three", "--id", "x"]), start(&["three", "--id", "x"]));
    assert_eq!((&named["created"], &again["created"]), (&"new".into(), &"repeat".into()));
    fails(&["start", "absent", "--request-id", ""], &folder, 2);
}

#[test]
fn a_program_and_the_command_mean_the_same_request() {
    let folder = Folder::new("both");
    let absent: dauer::Orchestration<u32, u32> = dauer::Orchestration::new("absent");
    let started = |request: &str| {
        crate::support::block_on(async {
            let hub = dauer::open(&folder.url()).unwrap();
            let handle = hub.client().start(absent, &1).request_id(request).await.unwrap();
            hub.close().await;
            handle.id().to_string()
        })
    };
    for request in ["nightly", "0123ABCD-0123-4567-89ab-0123456789ab"] {
        let id = started(request);
        let arguments = ["start", "absent", "--request-id", request, "-o", "json"];
        let again = json(&succeeds(&arguments, &folder));
        assert_eq!((&again["id"], &again["created"]), (&id.into(), &"repeat".into()));
    }
    let first = json(&succeeds(&["start", "absent", "--request-id", "weekly", "-o", "json"], &folder));
    assert_eq!((&first["created"], &first["id"]), (&"new".into(), &started("weekly").into()));
}

#[test]
fn the_policy_says_what_a_start_may_replace() {
    let folder = filled("reuse");
    let start = |id: &str, policy: &str| {
        dauer(&["start", "absent", "--id", id, "--reuse-policy", policy], &folder).status.code()
    };
    let text = fails(&["start", "absent", "--id", "event"], &folder, 4);
    assert!(text.contains("the instance exists and is Running"), "{text}");
    for (id, policy, code) in [
        ("done", "never", 4),
        ("pending", "never", 4),
        ("done", "failed", 4),
        ("event", "ended", 4),
        ("broken", "failed,terminated", 0),
        ("killed", "failed,terminated", 0),
        ("done", "ended", 0),
        ("new", "never", 0),
        ("event", "running", 0),
        ("paused", "any", 0),
        ("sleep", "never,any", 2),
        ("sleep", "nonsense", 2),
    ] {
        assert_eq!(start(id, policy), Some(code), "{id} {policy}");
    }
    for id in ["done", "broken", "killed"] {
        let record = record(&folder, id).unwrap();
        assert_eq!((&*record.queue.name, record.status), ("absent", Status::Pending), "{id}");
    }
    // A living one is ended by its next turn, or by the client when no worker takes one.
    let live = Live::on(&folder);
    let replaced = |record: &Record| &*record.queue.name == "absent";
    for id in ["event", "paused"] {
        live.wait(id, replaced);
    }
    live.stop();
    assert_eq!(&*record(&folder, "sleep").unwrap().queue.name, "sleep");
}

/// Another start has replaced the run of the request, or a purge has removed it.
#[test]
fn remembered_request_without_a_run_is_not_waited_for() {
    let folder = Folder::new("remembered");
    dauer(&["start", "absent", "--id", "x"], &folder);
    let start = |request: &str, more: &[&str]| {
        let arguments = ["start", "absent", "--id", "a1", "--request-id", request];
        dauer(&[&arguments[..], more].concat(), &folder)
    };
    let told = |how: &str| {
        // Without the mend it waits for ever: the timeout ends it as exit 7.
        let waited = start("r1", &["--wait", "--timeout", "10s"]);
        assert_eq!((waited.status.code(), stdout(&waited)), (Some(4), ""), "{how}: {}", stderr(&waited));
        let says =
            "error: the request was carried out before, and its run of 'a1' is gone; nothing was started\n";
        assert!(stderr(&waited).starts_with(says), "{how}: {}", stderr(&waited));
        let as_json = start("r1", &["--wait", "-o", "json"]);
        assert_eq!(json(stderr(&as_json))["error"]["code"], "repeat", "{how}");
        let again = start("r1", &[]);
        assert_eq!((again.status.code(), stdout(&again)), (Some(0), "a1\n"), "{how}");
        let note = "note: the request was carried out before, and its run is gone; nothing was started\n";
        assert_eq!(stderr(&again), note, "{how}");
        let shown = json(stdout(&start("r1", &["-o", "json", "--quiet"])));
        assert_eq!((&shown["created"], &shown["execution"]), (&"repeat".into(), &serde_json::Value::Null));
    };
    start("r1", &[]);
    succeeds(&["terminate", "a1"], &folder);
    assert_eq!(start("r1", &["--wait"]).status.code(), Some(6), "its own run is there, and has ended");
    start("r2", &[]);
    succeeds(&["terminate", "a1"], &folder);
    told("replaced");
    succeeds(&["purge", "a1"], &folder);
    told("purged");
    assert_eq!(record(&folder, "a1"), None);
}
