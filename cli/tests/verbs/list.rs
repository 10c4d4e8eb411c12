//! `dauer list`: every filter, pages, and what programs read.

use crate::support::{Folder, dauer, stderr, stdout};
use crate::world::{IDS, Live, child, fails, filled, json, record, steady, succeeds};

/// The ids that a list shows, the child under the name that it has in [`IDS`].
fn ids(options: &[&str], folder: &Folder) -> Vec<String> {
    let mut arguments = vec!["list", "-o", "jsonl"];
    arguments.extend(options);
    let output = dauer(&arguments, folder);
    assert_eq!(output.status.code(), Some(0), "{options:?}: {}", stderr(&output));
    let lines = stdout(&output).lines().map(json);
    let name = |line: serde_json::Value| match &line["parent"] {
        serde_json::Value::Null => line["id"].as_str().unwrap().to_owned(),
        _ => "child".to_owned(),
    };
    lines.map(name).collect()
}

#[test]
fn every_filter_selects_its_own() {
    let folder = filled("filters");
    assert_eq!(ids(&["--oldest-first"], &folder), IDS);
    let newest: Vec<&str> = IDS.into_iter().rev().collect();
    assert_eq!(ids(&[], &folder), newest, "newest first");
    let cases: [(&[&str], &[&str]); 19] = [
        (&["--status", "failed"], &["broken"]),
        (&["--status", "Completed,TERMINATED"], &["done", "killed"]),
        (&["--status", "completed", "--status", "suspended"], &["done", "paused"]),
        (&["--status", "pending"], &["stalled", "later", "pending"]),
        (&["--status", "canceled"], &[]),
        (&["--name", "sleep"], &["sleep", "paused", "killed", "later"]),
        (&["--name", "nobody"], &[]),
        (&["--prefix", "p"], &["parent", "paused", "pending"]),
        (&["--tag", "zone=north"], &["done"]),
        (&["--tag", "zone=north", "--tag", "size=small"], &["done"]),
        (&["--tag", "zone=north", "--tag", "size=large"], &[]),
        (&["--parent", "parent"], &["child"]),
        (&["--parent", "nobody"], &[]),
        (&["--stalled"], &["stalled"]),
        (&["--stalled", "--status", "running"], &[]),
        (&["--entities"], &[]),
        (&["--created-from", "+1h"], &[]),
        (&["--created-to", "-1h"], &[]),
        (&["--name", "sleep", "--status", "suspended", "--prefix", "pa"], &["paused"]),
    ];
    for (options, expected) in cases {
        let expected: Vec<&str> = expected.iter().rev().copied().collect();
        assert_eq!(ids(options, &folder), expected, "{options:?}");
    }
    // Around the time of one instance: from is inclusive, to is not.
    let times = |id: &str| {
        let record = json(&succeeds(&["get", id, "-o", "json"], &folder));
        (record["created"].as_str().unwrap().to_owned(), record["updated"].as_str().unwrap().to_owned())
    };
    let (created, updated) = times("later");
    assert_eq!(ids(&["--created-from", &created], &folder), ["pending", "later"]);
    let before = ids(&["--created-to", &created], &folder);
    assert!(!before.contains(&"later".to_owned()) && before.contains(&"stalled".to_owned()), "{before:?}");
    assert!(ids(&["--updated-from", &updated], &folder).contains(&"later".to_owned()));
    assert!(!ids(&["--updated-to", &updated], &folder).contains(&"later".to_owned()));
    assert!(ids(&["--updated-to", &updated], &folder).contains(&"done".to_owned()));
}

#[test]
fn pages_join_to_the_whole_also_where_the_store_does_not_filter() {
    let folder = filled("pages");
    // The store knows nothing of updates: all instances match, and yet each page must end in the right place.
    for filter in
        [&[][..], &["--updated-from", "2020-01-01"], &["--name", "sleep", "--updated-from", "2020-01-01"]]
    {
        let whole = ids(filter, &folder);
        for limit in ["1", "2", "3", "4", "12", "100"] {
            let (mut joined, mut token, mut pages) = (Vec::new(), None::<String>, 0);
            loop {
                let mut arguments = vec!["list", "-o", "json", "--limit", limit];
                arguments.extend(filter);
                arguments.extend(token.as_deref().map(|token| ["--after", token]).into_iter().flatten());
                let page = json(&succeeds(&arguments, &folder));
                let instances = page["instances"].as_array().unwrap();
                assert!(instances.len() <= limit.parse().unwrap(), "{page}");
                joined.extend(instances.iter().map(|each| match each["parent"].as_str() {
                    None => each["id"].as_str().unwrap().to_owned(),
                    Some(_) => "child".to_owned(),
                }));
                pages += 1;
                match page["next"].as_str() {
                    None => break,
                    Some(next) => token = Some(next.to_owned()),
                }
                assert!(pages <= IDS.len() + 1, "the pages do not end: {joined:?}");
            }
            assert_eq!(joined, whole, "{filter:?} by {limit}");
        }
    }
}

#[test]
fn people_are_told_that_there_is_more() {
    let folder = filled("more");
    let output = dauer(&["list", "--limit", "2"], &folder);
    assert_eq!(stdout(&output).lines().count(), 3, "{}", stdout(&output));
    let token =
        stderr(&output).strip_prefix("more: --after '").unwrap().strip_suffix("', or --all\n").unwrap();
    let rest = dauer(&["list", "--after", token], &folder);
    assert_eq!((stderr(&rest), stdout(&rest).lines().count()), ("", 1 + IDS.len() - 2));
    let none = dauer(&["list", "--name", "nobody"], &folder);
    assert_eq!((none.status.code(), stdout(&none), stderr(&none)), (Some(0), "", "no instance matches\n"));
    let empty = json(&succeeds(&["list", "--name", "nobody", "-o", "json"], &folder));
    assert_eq!(empty, json(r#"{"dauer":1,"instances":[],"next":null}"#));
    assert_eq!(succeeds(&["list", "--name", "nobody", "-o", "jsonl"], &folder), "");
    let text = fails(&["list", "--after", "nonsense"], &folder, 2);
    assert!(text.contains("'nonsense' is no cursor of this store"), "{text}");
    fails(&["list", "--all", "--limit", "1"], &folder, 2);
    fails(&["list", "--limit", "0"], &folder, 2);
}

#[test]
fn a_table_has_a_row_each_and_the_reason_of_trouble() {
    let folder = filled("table");
    let text = succeeds(&["list", "--stalled"], &folder);
    let (head, row) = text.split_once('\n').unwrap();
    let columns: Vec<&str> = head.split_whitespace().collect();
    assert_eq!(columns, ["ID", "NAME", "STATUS", "CREATED", "UPDATED", "TROUBLE"]);
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[..3], ["stalled", "event", "pending"]);
    assert_eq!((steady(words[3]), steady(words[4]), words[5]), ("T".into(), "T".into(), "UnknownName:"));
    assert!(row.ends_with("run a worker that has it\n"), "{row}");
    for line in succeeds(&["list"], &folder).lines().skip(1) {
        let id = line.split_whitespace().next().unwrap();
        assert!(record(&folder, id).is_some(), "{line}");
    }
}

#[test]
fn a_name_that_no_worker_has_is_seen_in_the_list() {
    let folder = filled("nobody");
    let told = |id: &str| {
        let text = succeeds(&["list", "--prefix", id], &folder);
        text.lines().nth(1).unwrap_or_else(|| panic!("{text}")).to_owned()
    };
    let row = told("pending");
    assert!(
        row.contains("waits for a worker that has 'absent' since ") && row.ends_with("; none is connected"),
        "{row}"
    );
    // Neither one whose time has not come, nor one that has begun.
    for id in ["later", "event", "done"] {
        assert!(!told(id).contains("waits for"), "{}", told(id));
    }
    let live = Live::on(&folder);
    live.start_hello("new");
    live.wait("new", |record| record.status.is_ended());
    let row = told("pending");
    assert!(row.contains("waits for a worker that has 'absent' since ") && !row.contains("none is"), "{row}");
    live.stop();
}

/// What programs read: a change here is a change of the version.
#[test]
fn the_json_of_a_list_is_version_1() {
    let folder = filled("list-json");
    let page = succeeds(&["list", "--name", "parent", "-o", "json"], &folder);
    assert!(page.starts_with("{\"dauer\":1,\"instances\":[\n{\"id\":\"parent\","), "{page}");
    assert!(page.ends_with("}\n],\"next\":null}\n"), "{page}");
    let mut value = json(&page)["instances"][0].take();
    value["historyBytes"].take();
    let expected = r#"{"completed":null,"created":"T","customStatus":null,"execution":"X","failure":null,"generation":0,"historyBytes":null,"historyEvents":3,"id":"parent","name":"parent","output":null,"parent":null,"scheduled":"T","serverDeaths":0,"stalledChild":null,"status":"running","tags":{},"trouble":null,"updated":"T","version":null,"workerDeaths":0}"#;
    assert_eq!(steady(&value.to_string()), expected);
    let child = child(&folder);
    let line = json(&succeeds(&["list", "--prefix", &child, "-o", "jsonl"], &folder));
    assert_eq!((&line["dauer"], &line["parent"], &line["id"]), (&1.into(), &"parent".into(), &child.into()));
}
