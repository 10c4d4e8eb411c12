//! Instances that no worker knows, or whose worker is gone: every verb works on them, and the audit stays clean.

use dauer::{Record, Status};

use crate::support::Folder;
use crate::world::{Live, fails, filled, json, line, record, succeeds};

fn status(folder: &Folder, id: &str) -> Status {
    record(folder, id).unwrap().status
}

fn audited(folder: &Folder) {
    let report = succeeds(&["audit", "dauer.db"], folder);
    assert!(report.contains("clean"), "{report}");
}

#[test]
fn unknown_instance_is_suspended_resumed_and_terminated() {
    let folder = filled("unknown");
    succeeds(&["suspend", "pending", "--reason", "wait"], &folder);
    assert_eq!(status(&folder, "pending"), Status::Suspended);
    succeeds(&["suspend", "later"], &folder);
    audited(&folder);
    // A worker that comes begins neither.
    let live = Live::on(&folder);
    live.start_hello("hello");
    live.wait("hello", |record| record.status.is_ended());
    live.stop();
    assert_eq!(
        (status(&folder, "pending"), status(&folder, "later")),
        (Status::Suspended, Status::Suspended)
    );
    succeeds(&["resume", "pending"], &folder);
    succeeds(&["resume", "later"], &folder);
    assert_eq!((status(&folder, "pending"), status(&folder, "later")), (Status::Pending, Status::Pending));
    succeeds(&["terminate", "later"], &folder);
    succeeds(&["terminate", "pending", "--reason", "no worker knows it"], &folder);
    assert_eq!(
        (status(&folder, "pending"), status(&folder, "later")),
        (Status::Terminated, Status::Terminated)
    );
    fails(&["terminate", "pending"], &folder, 5);
    audited(&folder);
}

#[test]
fn terminated_unborn_instance_is_read_restarted_and_purged() {
    let folder = filled("unborn");
    succeeds(&["terminate", "pending", "--reason", "no"], &folder);
    let shown = succeeds(&["get", "pending"], &folder);
    assert_eq!(line(&shown, "status"), Some("terminated"), "{shown}");
    let events = succeeds(&["history", "pending"], &folder);
    for kind in ["ExecutionStarted", "ExecutionTerminated", "ExecutionCompleted"] {
        assert!(events.contains(kind), "{kind} is missing:\n{events}");
    }
    succeeds(&["restart", "pending"], &folder);
    assert_eq!(status(&folder, "pending"), Status::Pending);
    succeeds(&["terminate", "pending"], &folder);
    assert_eq!(succeeds(&["purge", "pending"], &folder), "purged 1 instance\n");
    assert_eq!(record(&folder, "pending"), None);
    audited(&folder);
}

/// One has trouble, because no worker knows its version; the other has begun, and no worker is there.
#[test]
fn begun_instance_without_a_worker_is_terminated() {
    let folder = filled("gone");
    for id in ["stalled", "event"] {
        succeeds(&["terminate", id], &folder);
        assert_eq!(status(&folder, id), Status::Terminated);
        assert_eq!(succeeds(&["purge", id], &folder), "purged 1 instance\n");
    }
    audited(&folder);
}

#[test]
fn unknown_instance_is_replaced_by_a_known_one() {
    let folder = filled("replaced");
    for id in ["pending", "stalled", "later"] {
        let start = ["start", "hello", "--id", id, "--input", "\"you\"", "--reuse-policy", "any"];
        let arguments = [&start[..], &["--request-id", id, "-o", "json"]].concat();
        assert_eq!(json(&succeeds(&arguments, &folder))["created"], "new", "{id}");
        assert_eq!(json(&succeeds(&arguments, &folder))["created"], "repeat", "{id}");
        let record = record(&folder, id).unwrap();
        assert_eq!((&*record.queue.name, record.status), ("hello", Status::Pending), "{id}");
    }
    audited(&folder);
    let live = Live::on(&folder);
    for id in ["pending", "stalled", "later"] {
        let ended = live.wait(id, |record: &Record| record.status.is_ended());
        assert_eq!(ended.details.output().unwrap().as_str(), "\"Hello, you!\"", "{id}");
    }
    live.stop();
    audited(&folder);
}

/// The start of a child waits for an instance that has ended, and no worker knows the child. The hint of the refused purge works.
#[test]
fn start_that_waits_for_an_ended_instance_is_terminated() {
    let folder = filled("engaged");
    let live = Live::on(&folder);
    succeeds(&["start", "claim", "--id", "claims", "--input", "1"], &folder);
    live.wait("claims", |record| record.history_len > 1);
    live.stop();
    fails(&["raise", "done", "go"], &folder, 5);
    let said = fails(&["purge", "done"], &folder, 5);
    assert!(
        said.contains("\nhint: terminate it first with `dauer terminate done`, which drops a start"),
        "{said}"
    );
    assert_eq!(succeeds(&["terminate", "done"], &folder), "terminate sent to done\n");
    let ended = record(&folder, "done").unwrap();
    assert_eq!((&*ended.queue.name, ended.status), ("absent", Status::Terminated));
    audited(&folder);
    fails(&["terminate", "done"], &folder, 5);
    // The parent gets the answer of its child first.
    let live = Live::on(&folder);
    live.wait("claims", |record| record.status == Status::Failed);
    live.stop();
    assert_eq!(succeeds(&["purge", "done"], &folder), "purged 1 instance\n");
}
