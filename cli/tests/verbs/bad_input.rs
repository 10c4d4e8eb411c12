//! What makes no sense is refused by every verb, with its exit code, and changes nothing.

use crate::support::{Folder, dauer, dauer_with, stderr};
use crate::world::{IDS, complaint, fails, filled, json, record};

/// The verbs that take the id of an instance.
const ON_INSTANCE: [&[&str]; 10] = [
    &["get"],
    &["history"],
    &["raise"],
    &["suspend"],
    &["resume"],
    &["terminate"],
    &["restart"],
    &["rewind"],
    &["retry"],
    &["purge"],
];

/// A verb on an instance of this id.
fn on<'a>(verb: &[&'a str], id: &'a str) -> Vec<&'a str> {
    let mut arguments = [verb, &[id]].concat();
    if verb == ["raise"] {
        arguments.push("go");
    }
    arguments
}

#[test]
fn every_verb_refuses_ids_that_are_unknown_or_impossible() {
    let folder = filled("ids");
    let long = "x".repeat(101);
    for verb in ON_INSTANCE {
        let text = fails(&on(verb, "nobody"), &folder, 3);
        assert!(text.starts_with("error: there is no instance 'nobody'; check the id"), "{verb:?}: {text}");
        assert!(text.contains("\nhint: `dauer list` shows what there is"), "{verb:?}: {text}");
        let text = fails(&on(verb, ""), &folder, 2);
        assert!(text.contains("is empty; give it at least one character"), "{verb:?}: {text}");
        let text = fails(&on(verb, &long), &folder, 2);
        assert!(text.contains("has 101 characters; at most 100 are allowed"), "{verb:?}: {text}");
        let text = fails(&on(verb, "a\u{1b}[2Jb"), &folder, 2);
        assert!(text.contains("\\u{1b}") && !text.contains('\u{1b}'), "{verb:?}: {text}");
        fails(verb, &folder, 2);
        let output = dauer(&[&on(verb, "nobody")[..], &["-o", "json"]].concat(), &folder);
        let error = &json(stderr(&output))["error"];
        assert_eq!(error["code"], "not_found", "{verb:?}");
        assert!(error["message"].as_str().unwrap().contains("'nobody'"), "{verb:?}: {error}");
        assert!(error["hint"].as_str().unwrap().contains("dauer list"), "{verb:?}: {error}");
    }
    for id in ["", long.as_str()] {
        fails(&["start", "hello", "--id", id], &folder, 2);
    }
}

/// Every verb, with arguments that would do.
fn all_verbs() -> Vec<Vec<&'static str>> {
    let mut verbs: Vec<Vec<&str>> = ON_INSTANCE.iter().map(|verb| on(verb, "done")).collect();
    verbs.extend([vec!["list"], vec!["list", "--stalled"], vec!["purge", "--older-than", "0s", "--yes"]]);
    verbs
}

#[test]
fn a_store_that_is_not_there_is_made_by_start_alone() {
    let folder = Folder::new("absent");
    for verb in all_verbs() {
        for store in ["sqlite:dauer.db", "dauer.db", "sqlite:no/such/folder.db", "memory:"] {
            let text = fails(&[&verb[..], &["--store", store]].concat(), &folder, 8);
            assert!(text.contains("there is no store '"), "{verb:?}: {text}");
            assert_eq!(folder.names(), Vec::<String>::new(), "{verb:?}");
        }
        let text = fails(&[&verb[..], &["--store", "redis:host"]].concat(), &folder, 2);
        assert!(text.contains("'redis:host' names no store"), "{verb:?}: {text}");
        let text = fails(&[&verb[..], &["--store", "dauer.db?durability=none"]].concat(), &folder, 2);
        assert!(text.contains("has the option 'durability=none', which its store does not have"), "{text}");
    }
    for (store, code) in [("memory:", 2), ("redis:host", 2), ("sqlite:no/such/folder.db", 8), ("", 2)] {
        fails(&["start", "hello", "--store", store], &folder, code);
        assert_eq!(folder.names(), Vec::<String>::new(), "{store}");
    }
    let output = dauer(&["start", "hello", "--id", "one"], &folder);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(record(&folder, "one").is_some());
}

#[test]
fn a_file_that_is_no_store_of_ours_stays_as_it_is() {
    let newer = filled("newer");
    let database = rusqlite::Connection::open(newer.file()).unwrap();
    database.pragma_update(None, "user_version", 9_999).unwrap();
    drop(database);
    let foreign = Folder::new("foreign");
    std::fs::write(foreign.file(), "Dear diary").unwrap();
    for verb in all_verbs().into_iter().chain([vec!["start", "hello"]]) {
        let text = fails(&verb, &newer, 8);
        assert!(text.contains("has format 9999; use a newer dauer"), "{verb:?}: {text}");
        let text = fails(&verb, &foreign, 8);
        assert!(text.contains("is not a dauer store"), "{verb:?}: {text}");
        assert_eq!(std::fs::read(foreign.file()).unwrap(), b"Dear diary", "{verb:?}");
    }
}

#[test]
fn a_payload_that_is_none_is_not_sent() {
    let folder = filled("payloads");
    std::fs::write(folder.0.join("latin"), b"\"\xe9\"").unwrap();
    let huge = std::fs::File::create(folder.0.join("huge")).unwrap();
    huge.set_len(16 * 1024 * 1024 + 1).unwrap();
    let cases = [
        ("{", "is not JSON; nothing was sent: EOF while parsing"),
        ("world", "is not JSON; nothing was sent: expected value at line 1 column 1"),
        ("1 2", "is not JSON; nothing was sent: trailing characters"),
        ("", "is not JSON"),
        ("@nothing", "could not be read from nothing; nothing was sent: No such file"),
        ("@", "could not be read from"),
        ("@latin", "could not be read from latin; nothing was sent: invalid utf-8"),
        ("@huge", "has more than 16777216 bytes; nothing was sent"),
    ];
    for (payload, says) in cases {
        for verb in [&["start", "hello", "--id", "new", "--input"][..], &["raise", "event", "go", "--input"]]
        {
            let text = fails(&[verb, &[payload]].concat(), &folder, 2);
            assert!(text.contains(says), "{payload}: {text}");
        }
    }
    let arguments = ["start", "hello", "--id", "new", "--input", "-"];
    let output = dauer_with(&arguments, &folder, "{\"n\":", &[]);
    let text = complaint(&output, 2, &arguments);
    assert!(text.contains("the input is not JSON"), "{text}");
    assert_eq!(record(&folder, "new"), None);
    let event = record(&folder, "event");
    assert!(event.is_some());
    let live = crate::world::Live::on(&folder);
    assert_eq!(live.wait("event", |_| true).status, event.unwrap().status, "it was told nothing");
    live.stop();
}

#[test]
fn options_that_make_no_sense_are_refused_with_what_does() {
    let folder = filled("options");
    let cases: [(&[&str], &str); 14] = [
        (&["list", "--status", "sleeping"], "[possible values: pending, running, suspended, completed"),
        (&["list", "--created-from", "tomorrow"], "use a time like 2026-12-24T18:00:00Z"),
        (&["list", "--tag", "zone"], "use KEY=VALUE"),
        (&["list", "-o", "xml"], "[possible values: table, wide, json, jsonl, id]"),
        (&["lst"], "a similar subcommand exists: 'list'"),
        (&["start"], "<NAME>"),
        (&["start", ""], "orchestration name is empty"),
        (&["start", "hello", "--at", "soon"], "use a time like"),
        (&["start", "hello", "--at", "+101d101x"], "is no duration"),
        (&["start", "hello", "--at", "2999-01-01"], "more than 100 years ahead"),
        (&["start", "hello", "--tag", "=x"], "use KEY=VALUE"),
        (&["start", "hello", "--timeout", "1s"], "--wait"),
        (&["start", "hello", "--wait", "--timeout", "1"], "is no duration"),
        (&["raise", "event", ""], "event name is empty"),
    ];
    for (arguments, says) in cases {
        let text = fails(arguments, &folder, 2);
        assert!(text.contains(says), "{arguments:?}: {text}");
    }
    fails(&["start", "hello", "--id", "@entity@key"], &folder, 2);
    let listed = crate::world::succeeds(&["list", "--all", "-o", "jsonl"], &folder);
    assert_eq!(listed.lines().count(), IDS.len(), "nothing was started");
}
