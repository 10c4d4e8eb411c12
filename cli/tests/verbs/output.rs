//! How results are printed: formats, times, colours, silence.

use crate::support::{Folder, dauer, dauer_with, stderr, stdout};
use crate::world::{IDS, fails, filled, record, steady, succeeds};

#[test]
fn ids_are_for_pipes() {
    let folder = filled("out-ids");
    let newest: Vec<&str> = IDS.into_iter().rev().filter(|id| *id != "child").collect();
    let listed = succeeds(&["list", "-o", "id"], &folder);
    let listed: Vec<&str> =
        listed.lines().filter(|id| record(&folder, id).unwrap().parent.is_none()).collect();
    assert_eq!(listed, newest);
    assert_eq!(succeeds(&["get", "done", "-o", "id"], &folder), "done\n");
    assert_eq!(succeeds(&["start", "absent", "--id", "new", "-o", "id"], &folder), "new\n");
    assert_eq!(succeeds(&["raise", "event", "go", "--input", "1", "-o", "id"], &folder), "event\n");
    assert_eq!(succeeds(&["restart", "killed", "--new-id", "again", "-o", "id"], &folder), "again\n");
    assert_eq!(succeeds(&["rewind", "broken", "-o", "id"], &folder), "broken\n");
    // What would be removed, and then what was.
    assert_eq!(succeeds(&["purge", "--older-than", "0s", "-o", "id"], &folder), "done\nkilled\n");
    assert!(record(&folder, "done").is_some());
    assert_eq!(succeeds(&["purge", "--older-than", "0s", "--yes", "-o", "id"], &folder), "done\nkilled\n");
    assert_eq!(record(&folder, "done"), None);
    let text = fails(&["history", "event", "-o", "id"], &folder, 2);
    assert!(text.contains("events have no ids of their own"), "{text}");
}

#[test]
fn a_wide_table_has_more_columns() {
    let folder = filled("out-wide");
    let text = succeeds(&["list", "-o", "wide", "--oldest-first"], &folder);
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    let columns =
        ["ID", "NAME", "STATUS", "CREATED", "UPDATED", "EVENTS", "VERSION", "PARENT", "TAGS", "TROUBLE"];
    assert_eq!(head, columns);
    let done: Vec<&str> = lines.next().unwrap().split_whitespace().collect();
    assert_eq!((done[0], done.last()), ("done", Some(&"size=small,zone=north")), "{text}");
    let stalled = text.lines().find(|line| line.starts_with("stalled ")).unwrap();
    assert!(stalled.contains("  9 ") && stalled.contains("UnknownName: "), "{stalled}");
    assert!(text.lines().any(|line| line.contains("  event ") && line.ends_with("  parent")), "{text}");

    let (table, wide) =
        (succeeds(&["get", "done"], &folder), succeeds(&["get", "done", "-o", "wide"], &folder));
    let more: Vec<&str> = wide.lines().filter(|line| !table.contains(line)).collect();
    let execution = format!("execution      {}", record(&folder, "done").unwrap().execution);
    assert_eq!(more[0], execution);
    assert!(more[1].starts_with("commits        ") && more.len() == 2, "{more:?}");

    let row = succeeds(&["history", "done", "-o", "wide"], &folder);
    let row = steady(row.lines().next().unwrap());
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["0", "0.000", "s", "T", "OrchestratorStarted"]);
}

#[test]
fn times_are_printed_as_they_are_wanted() {
    let folder = filled("out-times");
    let created = |options: &[&str], zone: &str| {
        let arguments = [&["get", "done"], options].concat();
        let output = dauer_with(&arguments, &folder, "", &[("TZ", zone)]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let line = stdout(&output).lines().find_map(|line| line.strip_prefix("created")).unwrap();
        line.trim().to_owned()
    };
    let iso = created(&[], "CET-1");
    assert_eq!(steady(&iso), "T");
    assert_eq!(created(&["--time", "iso"], "CET-1"), iso);
    let relative = created(&["--time", "relative"], "CET-1");
    assert!(relative.ends_with(" ago") && steady(&relative) == relative, "{relative}");
    // An hour further east it is an hour later.
    let local = created(&["--time", "local"], "XXX-1");
    let utc = created(&["--time", "local"], "UTC0");
    assert!(local.ends_with("+01:00") && utc.ends_with("+00:00"), "{local} {utc}");
    assert_eq!(utc.replace(' ', "T")[..19], iso[..19]);
    assert_eq!((&local[13..19], local[..19] == utc[..19]), (&utc[13..19], false));
    let list = succeeds(&["list", "--time", "relative"], &folder);
    assert!(list.lines().skip(1).all(|line| line.contains(" ago  ")), "{list}");
    // What programs read does not depend on who looks.
    let json = |style| steady(&succeeds(&["get", "done", "-o", "json", "--time", style], &folder));
    assert_eq!(json("local"), json("iso"));
    fails(&["get", "done", "--time", "soon"], &folder, 2);
}

#[test]
fn a_quiet_command_prints_data_and_errors_alone() {
    let folder = filled("out-quiet");
    for (arguments, data) in [
        (&["raise", "event", "go", "--input", "1"][..], ""),
        (&["suspend", "sleep"], ""),
        (&["rewind", "broken"], ""),
        (&["retry", "--all", "--kind", "panic"], ""),
        (&["purge", "done", "killed"], ""),
        (&["purge", "--older-than", "0s"], "would purge 0 instances\n"),
        (&["list", "--name", "nobody"], ""),
        (&["start", "absent", "--id", "new"], "new\n"),
        (&["list", "--limit", "1", "-o", "id"], "new\n"),
    ] {
        let quiet = dauer(&[arguments, &["-q"]].concat(), &folder);
        let (code, said) = (quiet.status.code(), (stdout(&quiet), stderr(&quiet)));
        assert_eq!((code, said), (Some(0), (data, "")), "{arguments:?}");
    }
    let audit = dauer(&["audit", "dauer.db", "--quiet"], &folder);
    assert_eq!((audit.status.code(), stderr(&audit)), (Some(0), ""), "{}", stdout(&audit));
    assert!(fails(&["get", "nobody", "-q"], &folder, 3).contains("'nobody'"), "errors are told");
    let empty = Folder::new("out-quiet-new");
    let start = dauer(&["start", "absent", "--id", "one", "--quiet"], &empty);
    assert_eq!((stdout(&start), stderr(&start)), ("one\n", ""));
    let start = dauer(&["start", "absent", "-q", "--id", "two", "--wait", "--timeout", "1ms"], &empty);
    assert!(start.status.code() == Some(7) && stderr(&start).starts_with("error: "), "{}", stderr(&start));
}

#[test]
fn colours_are_asked_for_or_forbidden() {
    let folder = filled("out-colours");
    let coloured = |arguments: &[&str], variables: &[(&str, &str)]| {
        let output = dauer_with(arguments, &folder, "", variables);
        stdout(&output).contains('\x1b') || stderr(&output).contains('\x1b')
    };
    for arguments in [&["list"][..], &["get", "done"], &["get", "nobody"]] {
        let with = |color| [arguments, &["--color", color]].concat();
        assert!(
            coloured(&with("always"), &[("NO_COLOR", "1")]),
            "{arguments:?}: the option goes before the variable"
        );
        assert!(!coloured(&with("never"), &[("CLICOLOR_FORCE", "1")]), "{arguments:?}");
        assert!(coloured(&with("auto"), &[("CLICOLOR_FORCE", "1")]), "{arguments:?}");
        assert!(!coloured(&with("auto"), &[]), "{arguments:?}");
    }
}
