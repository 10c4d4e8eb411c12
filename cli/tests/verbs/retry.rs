//! `dauer retry`: stalled instances, run at once.

use dauer_core::model::TroubleKind;

use crate::support::{Folder, block_on, dauer, stderr, stdout};
use crate::world::{child, fails, filled, json, line, stall, succeeds};

/// A store with stalled instances of these ids and kinds, which rest for an hour.
fn resting(name: &str, stalled: &[(&str, TroubleKind)]) -> Folder {
    let folder = Folder::new(name);
    // The store is new, which a note says.
    let first = dauer(&["start", "absent", "--id", "waits", "--tag", "zone=north"], &folder);
    assert_eq!(first.status.code(), Some(0));
    for (id, kind) in stalled {
        succeeds(&["start", id, "--id", id], &folder);
        block_on(stall(&folder, id, *kind));
    }
    folder
}

/// Turns that a session could win now.
async fn ready(folder: &Folder) -> usize {
    let hub = dauer::open_existing(&folder.url()).unwrap();
    let ready = hub.manage().scale().await.unwrap().ready.values().sum();
    hub.close().await;
    ready
}

#[test]
fn stalled_instances_are_retried_by_their_ids() {
    let (panic, mismatch) = (TroubleKind::Panic, TroubleKind::Mismatch);
    let folder = resting("retry", &[("one", panic), ("two", mismatch), ("three", panic)]);
    assert_eq!(block_on(ready(&folder)), 1);
    assert_eq!(succeeds(&["retry", "one", "two", "one"], &folder), "retried 2 instances\n");
    assert_eq!(block_on(ready(&folder)), 3);
    let again = dauer(&["retry", "one"], &folder);
    let note = "note: the others are not delayed any more; a worker tries them, or has them already\n";
    assert_eq!((stdout(&again), stderr(&again)), ("retried 0 of 1 instance\n", note));
    let told = json(&succeeds(&["retry", "three", "-o", "json"], &folder));
    assert_eq!(told, json(r#"{"dauer":1,"stalled":1,"retried":1}"#));
}

#[test]
fn nothing_is_retried_when_one_of_them_cannot_be() {
    let folder = resting("retry-all-or-none", &[("one", TroubleKind::Panic)]);
    let text = fails(&["retry", "one", "waits"], &folder, 5);
    assert!(text.contains("the instance 'waits' is Pending and not stalled; nothing was changed"), "{text}");
    fails(&["retry", "one", "nobody"], &folder, 3);
    fails(&["retry"], &folder, 2);
    fails(&["retry", "one", "--all"], &folder, 2);
    fails(&["retry", "one", "--kind", "panic"], &folder, 2);
    fails(&["retry", "--name", "one"], &folder, 2);
    assert_eq!(block_on(ready(&folder)), 1);
}

#[test]
fn all_stalled_instances_that_match_are_retried() {
    let (panic, mismatch) = (TroubleKind::Panic, TroubleKind::Mismatch);
    let folder = resting("retry-query", &[("one", panic), ("two", mismatch), ("three", panic)]);
    for (options, ids) in [
        (&["--name", "absent"][..], ""),
        (&["--tag", "zone=north"], ""),
        (&["--kind", "host-died"], ""),
        (&["--kind", "mismatch,host-died"], "two\n"),
        (&["--prefix", "t", "--kind", "panic"], "three\n"),
        (&["--status", "pending", "--name", "one"], "one\n"),
    ] {
        let text = succeeds(&[&["retry", "--all", "-o", "id"], options].concat(), &folder);
        assert_eq!(text, ids, "{options:?}");
    }
    assert_eq!(block_on(ready(&folder)), 4);
}

#[test]
fn stalled_instance_shows_attempts_next_try_and_its_parent() {
    let folder = filled("stalled-child");
    let child = child(&folder);
    succeeds(&["raise", &child, "go", "--input", "1"], &folder);
    block_on(stall(&folder, &child, TroubleKind::Panic));
    let text = succeeds(&["get", &child], &folder);
    assert_eq!(line(&text, "attempts"), Some("1 (Panic)"), "{text}");
    assert!(line(&text, "next try").unwrap().contains("(in 59 min "), "{text}");
    let told = json(&succeeds(&["get", &child, "-o", "json"], &folder));
    assert_eq!((&told["workerDeaths"], &told["serverDeaths"]), (&json("0"), &json("0")));
    assert!(told["nextTry"].is_string() && told["trouble"]["build"].is_null(), "{told}");

    let parent = succeeds(&["get", "parent"], &folder);
    let waits = format!("child '{child}' (event, stalled); stalled by Panic: it failed");
    assert_eq!(line(&parent, "waiting for"), Some(&*waits));
    let parent = json(&succeeds(&["get", "parent", "-o", "json"], &folder));
    assert_eq!(parent["stalledChild"], *child);

    let list = succeeds(&["list", "--stalled"], &folder);
    let row = list.lines().find(|line| line.starts_with("parent ")).unwrap_or_else(|| panic!("{list}"));
    assert!(row.ends_with(&format!("waits for its child '{child}', which is stalled")), "{row}");
    assert_eq!(succeeds(&["list", "--stalled", "-o", "id"], &folder), format!("stalled\n{child}\nparent\n"));
    let told = json(&succeeds(&["list", "--stalled", "-o", "json"], &folder));
    assert_eq!(told["instances"][2]["stalledChild"], *child);
}
