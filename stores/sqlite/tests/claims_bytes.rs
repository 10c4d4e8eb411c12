//! lease-A29: what a claim reads does not depend on the length of histories. Measured in bytes, which the system counts for
//! every thread; alone in this file, so that the threads of no other test are taken for those of this one.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

mod support;

use std::time::Duration;

use dauer_sqlite::{Durability, Options, SqliteStore};
use dauer_store::{History, HubName};
use support::build::{event, host, message, start, step};
use support::claims::{Claims, want};
use support::{Folder, clock, options, run};

const LEASE: Duration = Duration::from_secs(30);

/// Bytes of events of one turn.
const TURN_BYTES: usize = 4_000;

/// What a few more pages are: a tree with more rows may be a level deeper, and its rows lie on other pages.
const SLACK: u64 = 8 * 4_096;

/// The bytes that the threads of that name have read so far, from files and from the system's memory of them.
fn bytes_read(thread: &str) -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = tasks.filter(|task| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == thread)
    });
    let read = named.map(|task| {
        let counts = std::fs::read_to_string(task.path().join("io")).expect("the system counts");
        let line = counts.lines().find_map(|line| line.strip_prefix("rchar: ")).expect("characters read");
        line.parse::<u64>().unwrap()
    });
    let (count, sum) = read.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
    assert_eq!(count, 1, "threads named {thread}");
    sum
}

/// Nothing here is about what survives.
fn quick() -> Options {
    Options { durability: Durability::Normal, ..options(&clock()) }
}

/// What a claim reads of a file with one ready instance of that many turns, and what loading its history reads.
fn claim_and_load(turns: usize) -> (u64, u64) {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file(), quick()).unwrap();
    let hub = store.hub(HubName::default());
    run(async {
        let session = hub.attach(host(1, LEASE)).await.unwrap();
        hub.create(vec![start("order")]).await.remove(0).unwrap();
        for number in 0..turns {
            let turn = session.claim_turns(want(1)).await.unwrap().remove(0);
            let mut next = step(&turn);
            if let History::Append(batch) = &mut next.history {
                batch.events = event(&"e".repeat(TURN_BYTES));
            }
            session.commit_turns(vec![next.into()]).await.remove(0).unwrap();
            hub.send(vec![message("order", &format!("event {number}"))]).await.remove(0).unwrap();
        }
        session.detach().await.unwrap();
    });
    store.close();

    // Opened anew, so that nothing is in memory.
    let store = SqliteStore::open(folder.file(), quick()).unwrap();
    let hub = store.hub(HubName::default());
    let read = run(async {
        let session = hub.attach(host(2, LEASE)).await.unwrap();
        let before = bytes_read("dauer-sqlite-w");
        let turn = session.claim_turns(want(1)).await.unwrap().remove(0);
        let claim = bytes_read("dauer-sqlite-w") - before;
        assert_eq!(turn.record.history_len as usize, turns);
        // The reader's thread has its name once it has answered.
        hub.get(vec![]).await.unwrap();
        let before = bytes_read("dauer-sqlite-r");
        session.load_history(&turn.fence, 0, usize::MAX).await.unwrap();
        (claim, bytes_read("dauer-sqlite-r") - before)
    });
    store.close();
    read
}

#[test]
fn lease_a29_a_claim_reads_as_much_with_a_long_history_as_with_a_short_one() {
    let (short, _) = claim_and_load(2);
    let (long, history) = claim_and_load(400);
    assert!(short > 0, "the measure sees nothing");
    assert!(history > 400 * TURN_BYTES as u64, "the measure sees the history where it is read: {history}");
    assert!(long <= short + SLACK, "{short} bytes with two turns, {long} with four hundred");
}
