//! `dauer restart`: the same once more; `dauer rewind`: the failed part once more.

use dauer::Status;

use crate::support::{dauer, stderr, stdout};
use crate::world::{Live, fails, filled, json, line, record, succeeds};

#[test]
fn an_ended_instance_starts_again_with_what_it_had() {
    let folder = filled("restart");
    let before = record(&folder, "done").unwrap();
    assert_eq!(succeeds(&["restart", "done"], &folder), "done\n");
    let again = record(&folder, "done").unwrap();
    assert_eq!((again.status, again.history_len, again.details.output()), (Status::Pending, 0, None));
    assert_eq!((again.queue, again.tags), (before.queue.clone(), before.tags.clone()));
    assert_ne!(again.execution, before.execution);
    let live = Live::on(&folder);
    let record = live.wait("done", |record| record.status.is_ended());
    assert_eq!(
        (record.status, record.details.output()),
        (Status::Completed, before.details.output()),
        "it had the same input"
    );

    // Also one that failed or was terminated; and one can wait for it.
    let output = dauer(&["restart", "broken", "--wait", "-o", "json"], &folder);
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
    assert_eq!(json(stdout(&output))["status"], "failed");
    succeeds(&["restart", "killed"], &folder);
    live.wait("killed", |record| record.status == Status::Running);
    live.stop();
}

#[test]
fn a_restart_under_another_id_leaves_the_first_alone() {
    let folder = filled("new-id");
    let before = record(&folder, "done");
    assert_eq!(succeeds(&["restart", "done", "--new-id", "again"], &folder), "again\n");
    let id = succeeds(&["restart", "done", "--new-id"], &folder);
    // A living one too: nothing of it is replaced.
    let living = json(&succeeds(&["restart", "event", "--new-id", "-o", "json"], &folder));
    assert_eq!(living["created"], "new");
    assert_eq!(record(&folder, "done"), before);
    for id in ["again", id.trim()] {
        let started = record(&folder, id).unwrap();
        assert_eq!(started.tags, before.as_ref().unwrap().tags);
    }
    let text = fails(&["restart", "done", "--new-id", "again"], &folder, 4);
    assert!(text.contains("the instance exists and is Pending"), "{text}");
    fails(&["restart", "done", "--new-id", "broken"], &folder, 4);
    fails(&["restart", "done", "--new-id", ""], &folder, 2);
    let live = Live::on(&folder);
    for id in ["again", id.trim()] {
        let record = live.wait(id, |record| record.status.is_ended());
        assert_eq!(record.details.output().unwrap().as_str(), "\"Hello, world!\"");
    }
    live.stop();
}

#[test]
fn what_has_not_ended_is_not_restarted() {
    let folder = filled("living");
    for id in ["event", "paused", "pending", "stalled"] {
        let before = record(&folder, id);
        let text = fails(&["restart", id], &folder, 5);
        assert!(text.contains("it has not ended; nothing was changed"), "{text}");
        assert_eq!(record(&folder, id), before);
    }
    // Under another id, what has not begun can be started too, with the same input.
    let copy = succeeds(&["restart", "pending", "--new-id"], &folder);
    let input = |id: &str| line(&succeeds(&["get", id], &folder), "input").map(str::to_owned);
    assert!(input("pending").is_some() && input(copy.trim()) == input("pending"), "{copy}");
}

#[test]
fn a_failed_instance_is_rewound_and_fails_again_by_the_same_code() {
    let folder = filled("rewind");
    let before = record(&folder, "broken").unwrap();
    assert_eq!(succeeds(&["rewind", "broken", "--reason", "try"], &folder), "broken is rewound\n");
    let rewound = record(&folder, "broken").unwrap();
    assert_eq!((rewound.status, rewound.details.failure()), (Status::Running, None));
    assert_ne!(rewound.execution, before.execution);
    let text = fails(&["rewind", "broken"], &folder, 5);
    assert!(text.contains("is Running, which does not allow a rewind"), "{text}");
    let live = Live::on(&folder);
    let again = live.wait("broken", |record| record.status.is_ended());
    assert_eq!((again.status, again.details.failure()), (Status::Failed, before.details.failure()));
    live.stop();
    let told = json(&succeeds(&["rewind", "broken", "-o", "json"], &folder));
    assert_eq!((told["dauer"].as_i64(), told["rewound"].as_str()), (Some(1), Some("broken")));
    for id in ["done", "event", "killed", "pending"] {
        fails(&["rewind", id], &folder, 5);
    }
}
