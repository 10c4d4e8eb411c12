//! `--watch`: a line for every change, or a picture drawn anew.

use std::os::unix::process::ExitStatusExt as _;

use crate::support::{Folder, Running, stdout};
use crate::world::{Live, filled, json, succeeds};

/// Starts the command and reads its first line.
fn watching(arguments: &[&str], folder: &Folder, first: &str) -> Running {
    let mut running = Running::start(arguments, folder);
    running.until(first);
    running
}

#[test]
fn an_instance_is_watched_until_it_has_ended() {
    let folder = filled("watch");
    let mut table = watching(&["get", "event", "--watch"], &folder, "event");
    let mut lines = watching(&["get", "event", "--watch", "-o", "json"], &folder, "\"id\":\"event\"");
    succeeds(&["suspend", "event"], &folder);
    let live = Live::on(&folder);
    table.until("suspended");
    lines.until("suspended");
    succeeds(&["resume", "event"], &folder);
    table.until("running");
    succeeds(&["raise", "event", "go", "--input", "1"], &folder);
    let (status, said) = table.end();
    assert_eq!(status.code(), Some(0));
    assert!(said[0].contains("  event  running     an event (which one"), "{said:?}");
    assert!(said.last().unwrap().contains("  event  completed"), "{said:?}");
    assert!(said.windows(2).all(|pair| pair[0] != pair[1]), "only changes: {said:?}");
    let (status, said) = lines.end();
    assert_eq!(status.code(), Some(0));
    let statuses: Vec<String> = said.iter().map(|line| json(line)["status"].to_string()).collect();
    assert_eq!((statuses[0].as_str(), statuses.last().unwrap().as_str()), ("\"running\"", "\"completed\""));
    live.stop();
    // What has ended is shown once.
    let done = crate::support::dauer(&["get", "done", "--watch", "-o", "jsonl"], &folder);
    assert_eq!((done.status.code(), stdout(&done).lines().count()), (Some(0), 1));
}

#[test]
fn a_list_is_watched_until_somebody_ends_it() {
    let folder = filled("watch-list");
    let mut table = watching(&["list", "--watch", "--name", "event"], &folder, "ID ");
    let mut ids = watching(&["list", "-f", "--status", "suspended", "-o", "id"], &folder, "paused");
    succeeds(&["start", "event", "--id", "other", "--input", "1"], &folder);
    table.until("other ");
    let live = Live::on(&folder);
    // Not the suspended ones only: also what becomes one.
    live.wait("other", |record| record.history_len > crate::world::SETTLED);
    succeeds(&["suspend", "other"], &folder);
    ids.until("other");
    live.stop();
    let said = table.kill();
    assert_eq!(said.iter().filter(|line| line.starts_with("ID ")).count(), 1, "one head: {said:?}");
    assert!(
        said.iter().filter(|line| line.starts_with("event ")).count() == 1,
        "it did not change: {said:?}"
    );
    // Not INT, which whatever a shell has started in the background ignores, this test with it.
    ids.signal("TERM");
    let (status, said) = ids.end();
    assert_eq!((status.signal(), said), (Some(15), vec!["paused".to_owned(), "other".to_owned()]));
    crate::world::fails(&["list", "--watch", "--after", "x"], &folder, 2);
}
