//! `dauer retry`: stalled instances, run at once.

use std::time::Duration;

use dauer_core::model::{Trouble, TroubleKind};
use dauer_core::{HostId, SessionId};
use dauer_store::{Amount, Credit, Host, Item, Release, Timestamp, Until};

use crate::support::{Folder, block_on, dauer, stderr, stdout};
use crate::world::{fails, json, succeeds};

const HOUR: Duration = Duration::from_secs(3_600);

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

async fn stall(folder: &Folder, id: &str, kind: TroubleKind) {
    let hub = dauer::open_existing(&folder.url()).unwrap();
    let (host, session) = (HostId::new("tester").unwrap(), SessionId(7));
    let host = Host { id: host, session, lease: HOUR, runs_code: true };
    let session = hub.manage().attach(host).await.unwrap();
    session.credit(Credit { number: 1, turns: Amount::items(100), ..Credit::default() });
    for turn in session.next(Until::Once).await.unwrap().turns {
        let stalls = turn.fence.instance.as_str() == id;
        let trouble = stalls.then(|| Trouble::new(kind, "it failed", Timestamp(1_700_000_000_000)));
        let delay = if stalls { HOUR } else { Duration::ZERO };
        let release = Release { item: Item::Turn(turn.fence), delay, trouble, failed: stalls };
        session.release(vec![release]).await.remove(0).unwrap();
    }
    session.detach().await.unwrap();
    hub.close().await;
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
