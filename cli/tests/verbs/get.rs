//! `dauer get` and `dauer history`, and that nobody has to read all of it.

use dauer_proto::HistoryEvent;
use dauer_proto::json::{HistoryDocument, event_from_value};

use crate::support::{Folder, SOON, dauer_unread, snapshot, stderr};
use crate::world::{IDS, Live, child, filled, json, line, steady, succeeds};

/// Without what passes while the test runs: times, and how far they are.
fn undated(line: &str) -> String {
    let line = steady(line);
    if let Some((before, rest)) = line.split_once("T (in ")
        && let Some((_, after)) = rest.split_once(')')
    {
        return format!("{before}T (in D){after}");
    }
    match line.split_once("T (").and_then(|(before, rest)| Some((before, rest.split_once(" ago)")?.1))) {
        Some((before, after)) => format!("{before}T (D ago){after}"),
        None => line,
    }
}

#[test]
fn one_line_says_what_it_is_waiting_for() {
    let folder = filled("waiting");
    let child = child(&folder);
    let event = "an event (which one, a history does not tell)";
    let (timer, nobody) = ("a timer, due T (in D)", "no worker is connected to this store");
    let cases = [
        ("event", event.to_owned()),
        ("sleep", format!("{timer}, or {event}")),
        ("task", format!("activity 'never' (attempt 1, on no worker); {nobody}")),
        ("parent", format!("child '{child}' (event, running)")),
        ("paused", format!("`dauer resume paused`: it is suspended; then for {timer}, or {event}")),
        ("later", "its scheduled start, T (in D)".to_owned()),
        (
            "pending",
            "a worker that has 'absent', since T (D ago); none is connected to this store".to_owned(),
        ),
        ("done", "nothing, it is completed".to_owned()),
        ("broken", "nothing, it is failed".to_owned()),
        ("killed", "nothing, it is terminated".to_owned()),
    ];
    for (id, expected) in cases {
        let text = succeeds(&["get", id], &folder);
        let found = line(&text, "waiting for").unwrap_or_else(|| panic!("{text}"));
        // The id of the child is no execution.
        let found = if id == "parent" { found.to_owned() } else { undated(found) };
        assert_eq!(found, expected, "{id}");
    }
    let stalled = succeeds(&["get", "stalled"], &folder);
    let stalled = line(&stalled, "waiting for").unwrap();
    assert!(stalled.starts_with("nothing, it is stalled (UnknownName, attempt "), "{stalled}");
    assert!(stalled.contains("orchestration 'event' is not registered in version '9'"), "{stalled}");
}

/// What `get` says it waits for, without what passes while the test runs.
fn awaited(id: &str, folder: &Folder) -> String {
    let text = succeeds(&["get", id], folder);
    undated(line(&text, "waiting for").unwrap_or_else(|| panic!("{text}")))
}

#[test]
fn a_turn_that_nobody_takes_is_not_mistaken_for_patience() {
    let folder = filled("untaken");
    // Its event is there: no other would help it, only a worker.
    succeeds(&["raise", "event", "go", "--input", "1"], &folder);
    let expected = "a worker that has 'event', since T (D ago); none is connected to this store";
    assert_eq!(awaited("event", &folder), expected);
    let told = json(&succeeds(&["get", "event", "-o", "json"], &folder))["waitingFor"].clone();
    assert_eq!(told["workers"], 0, "{told}");
}

#[test]
fn the_names_of_events_that_came_are_told() {
    let folder = filled("raised");
    let live = Live::on(&folder);
    let before = live.wait("event", |_| true).history_len;
    succeeds(&["raise", "event", "gone"], &folder);
    live.wait("event", |record| record.history_len > before);
    let expected = "an event (which one, a history does not tell; raised so far: 'gone')";
    assert_eq!(awaited("event", &folder), expected);
    live.stop();
}

#[test]
fn activities_are_told_with_their_attempt_and_worker() {
    let folder = filled("attempts");
    let live = Live::on(&folder);
    for name in ["retry", "long"] {
        succeeds(&["start", name, "--id", name, "--input", "1"], &folder);
    }
    // The orchestration's beginning, its first attempt, the failure, and the timer before the next.
    live.wait("retry", |record| record.history_len > 5);
    let pause = awaited("retry", &folder);
    let expected = "a timer, due T (in D) after activity 'fail' failed, or an event (which one, ";
    assert!(pause.starts_with(expected), "{pause}");
    live.wait("long", |record| record.history_len > 2);
    let deadline = std::time::Instant::now() + SOON;
    let told = loop {
        let told = awaited("long", &folder);
        if !told.contains("on no worker") || std::time::Instant::now() > deadline {
            break told;
        }
    };
    let host =
        told.strip_prefix("activity 'hang' (attempt 1, on worker '").and_then(|rest| rest.strip_suffix("')"));
    assert!(host.is_some_and(|host| !host.is_empty()), "{told}");
    let open = json(&succeeds(&["get", "long", "-o", "json"], &folder))["waitingFor"]["open"][0].clone();
    assert_eq!((&open["attempt"], open["worker"].as_str()), (&1.into(), host), "{open}");
    live.stop();
}

#[test]
fn a_worker_that_is_there_is_seen() {
    let folder = filled("worker");
    let live = Live::on(&folder);
    // Its session is there once it has done something.
    let started = succeeds(&["start", "event", "--input", "1", "--id", "new"], &folder);
    assert_eq!(started, "new\n");
    live.wait("new", |record| record.history_len > 1);
    let text = succeeds(&["get", "pending"], &folder);
    let expected = "a worker that has 'absent', since T (D ago); 1 is connected and has not taken it";
    assert_eq!(line(&text, "waiting for").map(undated).as_deref(), Some(expected));
    assert_eq!(awaited("task", &folder), "activity 'never' (attempt 1, on no worker)");
    live.stop();
    assert!(awaited("pending", &folder).ends_with("(D ago); none is connected to this store"));
}

#[test]
fn an_instance_is_shown_with_all_that_is_known_of_it() {
    let folder = filled("shown");
    let text = succeeds(&["get", "done"], &folder);
    let (history, rest): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.starts_with("history"));
    let expected = "\
id             done
name           hello
status         completed
waiting for    nothing, it is completed
created        T
updated        T
ended          T
tag            size=small
tag            zone=north
custom status  \"greets\"
input          \"world\"
output         \"Hello, world!\"";
    assert_eq!(steady(&rest.join("\n")), expected);
    assert!(history[0].ends_with(" bytes") && history[0].contains(" events, "), "{text}");
    let text = succeeds(&["get", "broken"], &folder);
    assert_eq!(line(&text, "status"), Some("failed"));
    assert!(line(&text, "failure").unwrap().contains("invalid digit found in string"), "{text}");
    assert_eq!(line(&succeeds(&["get", "killed"], &folder), "output"), Some("\"for the test\""));
    let child = child(&folder);
    assert_eq!(line(&succeeds(&["get", &child], &folder), "parent"), Some("parent"));
    let text = succeeds(&["get", "later"], &folder);
    assert!(line(&text, "scheduled").is_some(), "{text}");
    assert_eq!(line(&text, "input"), Some("1"), "it is known before it begins");
    assert_eq!(line(&succeeds(&["get", "stalled"], &folder), "name"), Some("event in version 9"));
    assert!(!text.contains('\x1b'), "colours are for terminals only: {text:?}");
}

/// What programs read: a change here is a change of the version.
#[test]
fn the_json_of_an_instance_is_version_1() {
    let folder = filled("json");
    let line = succeeds(&["get", "done", "-o", "jsonl"], &folder);
    let mut value = json(&line);
    let numbers = ["historyEvents", "historyBytes"].map(|field| value[field].take().as_u64().unwrap());
    assert!(numbers.into_iter().all(|number| number > 0), "{line}");
    let expected = r#"{"completed":"T","created":"T","customStatus":"greets","dauer":1,"execution":"X","failure":null,"generation":0,"heldBy":null,"historyBytes":null,"historyEvents":null,"id":"done","inbox":{"count":0,"messages":[]},"input":"world","name":"hello","nextTry":null,"openTasks":[],"output":"Hello, world!","parent":null,"scheduled":null,"serverDeaths":0,"stalledChild":null,"status":"completed","tags":{"size":"small","zone":"north"},"trouble":null,"updated":"T","version":null,"waitingFor":null,"workerDeaths":0}"#;
    assert_eq!(steady(&value.to_string()), expected);
    // The same fields over several lines, in the order in which people look for them.
    let pretty = succeeds(&["get", "done", "--output", "json"], &folder);
    assert!(
        pretty.starts_with("{\n  \"dauer\": 1,\n  \"id\": \"done\",\n  \"name\": \"hello\",\n"),
        "{pretty}"
    );
    assert_eq!(json(&pretty), json(&line));

    let broken = json(&succeeds(&["get", "broken", "-o", "json"], &folder));
    let failure = &broken["failure"];
    assert_eq!(failure["message"], "invalid digit found in string", "{broken}");
    assert!(failure["type"].as_str().unwrap().contains("ParseIntError"), "{broken}");
    assert_eq!((&failure["retryable"], &failure["cause"]), (&true.into(), &serde_json::Value::Null));

    let stalled = json(&succeeds(&["get", "stalled", "-o", "json"], &folder));
    assert_eq!(stalled["version"], "9");
    assert_eq!(stalled["trouble"]["kind"], "UnknownName");
    assert!(stalled["trouble"]["attempts"].as_u64().unwrap() > 1, "{stalled}");

    let waiting = |id: &str| json(&succeeds(&["get", id, "-o", "json"], &folder))["waitingFor"].clone();
    let task = r#"{"line":"activity 'never' (attempt 1, on no worker); no worker is connected to this store","open":[{"kind":"activity","name":"never","attempt":1,"worker":null}],"workers":0}"#;
    assert_eq!(waiting("task"), json(task));
    assert_eq!(waiting("event")["open"], json("[]"));
    assert_eq!(waiting("event")["workers"], serde_json::Value::Null, "nothing would be there to do for one");
    assert_eq!(steady(&waiting("sleep")["open"].to_string()), r#"[{"due":"T","kind":"timer"}]"#);
    let open = format!(
        r#"[{{"kind":"child","id":"{}","name":"event","status":"running","trouble":null}}]"#,
        child(&folder)
    );
    assert_eq!(waiting("parent")["open"], json(&open));
}

#[test]
fn a_history_is_a_table() {
    let folder = filled("history");
    let text = succeeds(&["history", "done"], &folder);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let kinds: Vec<&str> = rows.iter().map(|row| row[3]).collect();
    let (_, events) = stored(&folder, "done");
    assert_eq!(kinds, events.iter().map(dauer_proto::event::kind_name).collect::<Vec<_>>());
    assert!(kinds.contains(&"TaskCompleted"), "{text}");
    let numbers: Vec<String> = (0..rows.len()).map(|number| number.to_string()).collect();
    assert_eq!(rows.iter().map(|row| row[0]).collect::<Vec<_>>(), numbers, "{text}");
    assert_eq!(rows.last().unwrap().last(), Some(&"completed"), "{text}");
    assert_eq!(succeeds(&["history", "pending"], &folder), "", "it has none yet");
}

/// The events of an instance's current run, as they lie in the store.
fn stored(folder: &Folder, id: &str) -> (String, Vec<HistoryEvent>) {
    let snapshot = snapshot(folder);
    let (_, dump) = snapshot.instances.iter().find(|(found, _)| found.as_str() == id).unwrap();
    let events = dump.history.iter().flat_map(|stored| stored.batch.decode().unwrap());
    (dump.record.execution.to_string(), events.collect())
}

#[test]
fn a_history_in_json_is_the_whole_history() {
    let folder = filled("history-json");
    for id in ["done", "broken", "paused", "pending"] {
        let (execution, events) = stored(&folder, id);
        let text = succeeds(&["history", id, "-o", "json"], &folder);
        let document = HistoryDocument::parse(&text).unwrap();
        let expected = HistoryDocument { instance_id: id.into(), execution_id: execution.clone(), events };
        assert_eq!(document, expected);
        assert!(text.starts_with("{\n  \"dauer_history\": 1,\n  \"instanceId\": "), "{text}");

        let lines = succeeds(&["history", id, "-o", "jsonl"], &folder);
        let (head, lines) = lines.split_once('\n').unwrap();
        let expected_head =
            format!("{{\"dauer_history\":1,\"instanceId\":\"{id}\",\"executionId\":\"{execution}\"}}");
        assert_eq!(head, expected_head);
        let events: Vec<_> = lines.lines().map(|line| event_from_value(json(line)).unwrap()).collect();
        assert_eq!(events, expected.events);
    }
}

#[test]
fn nobody_has_to_read_to_the_end() {
    let folder = filled("unread");
    for verb in [
        &["list"][..],
        &["list", "-o", "json"],
        &["list", "-o", "jsonl"],
        &["get", "done"],
        &["get", "done", "-o", "json"],
        &["history", "done"],
        &["history", "done", "-o", "json"],
        &["history", "done", "-o", "jsonl"],
        &["list", "-o", "json"],
        &["list", "--watch"],
        &["raise", "event", "go", "--input", "1"],
        &["purge", "--older-than", "30d"],
        &["audit", "dauer.db"],
        &["completions", "bash"],
        &["man"],
    ] {
        let output = dauer_unread(verb, &folder);
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{verb:?}");
    }
}

#[test]
fn a_store_is_named_by_option_or_variable_or_as_the_default() {
    let folder = filled("named");
    std::fs::rename(folder.file(), folder.0.join("shop.db")).unwrap();
    let path = folder.0.join("shop.db");
    let url = format!("sqlite:{}", path.display());
    for store in ["sqlite:shop.db", "shop.db", &url, path.to_str().unwrap()] {
        assert!(succeeds(&["get", "done", "--store", store], &folder).contains("Hello, world!"), "{store}");
        let by_variable = crate::support::dauer_with(
            &["get", "done"],
            &folder,
            "",
            &[("DAUER_STORE", store), ("NO_COLOR", "1")],
        );
        assert_eq!(by_variable.status.code(), Some(0), "{store}: {}", stderr(&by_variable));
    }
    std::fs::rename(path, folder.file()).unwrap();
    assert_eq!(succeeds(&["list", "--all"], &folder).lines().count(), 1 + IDS.len());
}

/// While no worker has it: by how it began, and since when it waits.
#[test]
fn rewound_run_says_so_and_waits_since_its_rewind() {
    let folder = filled("get-rewound");
    succeeds(&["rewind", "broken"], &folder);
    let got = succeeds(&["get", "broken"], &folder);
    assert_eq!(line(&got, "run"), Some("2, by rewinding"));
    let waiting = line(&got, "waiting for").unwrap();
    let since = line(&got, "updated").unwrap();
    assert!(waiting.starts_with(&format!("a worker that has 'broken', since {since} (")), "{waiting}");
    let live = Live::on(&folder);
    live.wait("broken", |record| record.status == dauer::Status::Failed);
    live.stop();
    assert_eq!(line(&succeeds(&["get", "broken"], &folder), "run"), Some("2, by rewinding"));
}
