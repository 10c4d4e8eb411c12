//! The lease claims about cost: what an operation on a lease writes, how long nobody else may write, who depends on whom,
//! and how many connections a handle has. The numbers in the names are those of `docs/CLAIMS.md`.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

mod support;

use std::time::Duration;

use futures::FutureExt;

use dauer_sqlite::SqliteStore;
use dauer_store::{Epoch, HubName, Item, Manage, Refused, Release, TaskFence, Then};
use support::build::{host, start, step, task};
use support::claims::{Claims, want};
use support::{Folder, database, everything, open, run};

const LEASE: Duration = Duration::from_secs(30);

async fn create(hub: &dyn Manage, count: usize) {
    let starts = (0..count).map(|number| start(&format!("order{number}"))).collect();
    assert!(hub.create(starts).await.iter().all(Result::is_ok));
}

/// Rows that were written and transactions that wrote, since the last time it was asked.
fn since(hub: &dyn Manage, before: &mut (u64, u64)) -> (u64, u64) {
    let effort = hub.effort();
    let now = (effort.rows, effort.commits);
    let since = (now.0 - before.0, now.1 - before.1);
    *before = now;
    since
}

#[test]
fn lease_a39_an_operation_on_a_lease_writes_one_row() {
    let folder = Folder::new();
    let store = open(&folder);
    let hub = store.hub(HubName::default());
    run(async {
        create(&*hub, 42).await;
        let session = hub.attach(host(1, LEASE)).await.unwrap();
        assert_eq!(session.claim_turns(want(40)).await.unwrap().len(), 40);
        let warm_up = session.claim_turns(want(1)).await.unwrap().remove(0);
        session.commit_turns(vec![step(&warm_up).into()]).await.remove(0).unwrap();
        // The clock stands still, so that no transaction has a new time to write down.
        let mut before = (0, 0);
        since(&*hub, &mut before);

        session.renew().await.unwrap();
        assert_eq!(since(&*hub, &mut before), (1, 1), "a renewal of forty items");
        let turn = session.claim_turns(want(1)).await.unwrap().remove(0);
        assert_eq!(since(&*hub, &mut before), (1, 1), "a claim");
        let item = Item::Turn(turn.fence);
        let release = Release { item, delay: Duration::ZERO, trouble: None, failed: false };
        session.release(vec![release]).await.remove(0).unwrap();
        assert_eq!(since(&*hub, &mut before), (1, 1), "a release");
        session.claim_turns(want(0)).await.unwrap();
        assert_eq!(since(&*hub, &mut before), (0, 0), "a claim that finds nothing writes nothing");
    });
}

#[test]
fn lease_a40_what_waits_is_written_in_more_than_one_transaction() {
    let folder = Folder::new();
    let store = open(&folder);
    let hub = store.hub(HubName::default());
    run(async {
        create(&*hub, 1).await;
        let mut before = (0, 0);
        since(&*hub, &mut before);
        // Somebody else writes, so that everything that is asked for meanwhile waits together.
        let elsewhere = database(&folder);
        elsewhere.execute_batch("BEGIN IMMEDIATE").unwrap();
        let mut calls: Vec<_> =
            (0..2_500).map(|number| hub.create(vec![start(&format!("many{number}"))]).boxed()).collect();
        for call in &mut calls {
            assert!(futures::poll!(call.as_mut()).is_pending());
        }
        elsewhere.execute_batch("COMMIT").unwrap();
        for call in calls {
            call.await.remove(0).unwrap();
        }
        let (_, commits) = since(&*hub, &mut before);
        // 256 writes share a transaction at most.
        assert!((10..=30).contains(&commits), "2,500 writes in {commits} transactions");
    });
}

#[test]
fn lease_a40_nothing_is_locked_while_a_turn_runs() {
    let folder = Folder::new();
    let store = open(&folder);
    let hub = store.hub(HubName::default());
    run(async {
        create(&*hub, 3).await;
        let session = hub.attach(host(1, LEASE)).await.unwrap();
        let turn = session.claim_turns(want(3)).await.unwrap().remove(0);
        session.load_history(&turn.fence, 0, usize::MAX).await.unwrap();
        hub.get(vec![turn.fence.instance.clone()]).await.unwrap();

        let elsewhere = database(&folder);
        elsewhere.busy_timeout(Duration::ZERO).unwrap();
        elsewhere.execute_batch("BEGIN IMMEDIATE; UPDATE meta SET latest = latest; COMMIT").unwrap();
        // Emptying the log is possible only when nobody reads an older state. An answer may come a moment before its
        // snapshot is let go.
        let emptied = (0..5_000).any(|_| {
            let busy = elsewhere
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0))
                .unwrap();
            if busy != 0 {
                std::thread::park_timeout(Duration::from_millis(1));
            }
            busy == 0
        });
        assert!(emptied, "somebody still reads");
        session.commit_turns(vec![step(&turn).into()]).await.remove(0).unwrap();
    });
}

#[test]
fn lease_a41_no_host_waits_for_another() {
    let folder = Folder::new();
    let stores = [open(&folder), open(&folder), open(&folder)];
    let hubs = stores.each_ref().map(|store| store.hub(HubName::default()));
    run(async {
        create(&*hubs[0], 9).await;
        // The first host, who made the file, takes something and is never heard of again.
        let silent = hubs[0].attach(host(1, LEASE)).await.unwrap();
        assert_eq!(silent.claim_turns(want(1)).await.unwrap().len(), 1);
        let second = hubs[1].attach(host(2, LEASE)).await.unwrap();
        let third = hubs[2].attach(host(3, LEASE)).await.unwrap();
        for _ in 0..3 {
            for session in [&second, &third] {
                let turn = session.claim_turns(want(1)).await.unwrap().remove(0);
                session.commit_turns(vec![step(&turn).into()]).await.remove(0).unwrap();
                session.renew().await.unwrap();
            }
        }
        // Nor does it matter that it goes.
        stores[0].close();
        let turns = second.claim_turns(want(10)).await.unwrap().len();
        assert_eq!(
            turns, 2,
            "what nobody has taken; what the first held belongs to a session that still runs"
        );
        third.renew().await.unwrap();
    });
    stores.iter().for_each(SqliteStore::close);
}

/// How often this process has a file of the database open.
#[cfg(target_os = "linux")]
fn opened(folder: &Folder, suffix: &str) -> usize {
    let mut name = folder.file().into_os_string();
    name.push(suffix);
    let files = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    files
        .filter(|file| std::fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == name))
        .count()
}

#[test]
#[cfg(target_os = "linux")]
fn lease_a43_a_handle_has_two_connections_whatever_it_does() {
    let folder = Folder::new();
    let store = open(&folder);
    let hub = store.hub(HubName::default());
    run(async {
        create(&*hub, 20).await;
        let sessions = [
            hub.attach(host(1, LEASE)).await.unwrap(),
            hub.attach(host(2, LEASE)).await.unwrap(),
            store.hub(HubName::new("other").unwrap()).attach(host(3, LEASE)).await.unwrap(),
        ];
        for session in &sessions {
            for turn in session.claim_turns(want(5)).await.unwrap() {
                session.load_history(&turn.fence, 0, usize::MAX).await.unwrap();
                session.commit_turns(vec![step(&turn).into()]).await.remove(0).unwrap();
            }
            session.renew().await.unwrap();
        }
        everything(&*hub).await;
        let _hints = (hub.changes(), sessions[0].changes());
        // One writes and one reads; each has the file and its log open.
        assert_eq!((opened(&folder, ""), opened(&folder, "-wal")), (2, 2));
        let second = open(&folder);
        run_one(&second).await;
        assert_eq!(opened(&folder, "-wal"), 4, "two for each handle");
        second.close();
    });
    store.close();
    assert_eq!((opened(&folder, ""), opened(&folder, "-wal")), (0, 0));
}

#[cfg(target_os = "linux")]
async fn run_one(store: &SqliteStore) {
    let hub = store.hub(HubName::default());
    hub.create(vec![start("last")]).await.remove(0).unwrap();
    hub.get(vec![support::build::instance("last")]).await.unwrap();
}

#[test]
fn refused_release_of_a_task_writes_nothing() {
    let folder = Folder::new();
    let store = open(&folder);
    let hub = store.hub(HubName::default());
    run(async {
        create(&*hub, 1).await;
        let session = hub.attach(host(1, LEASE)).await.unwrap();
        let turn = session.claim_turns(want(1)).await.unwrap().remove(0);
        let mut kept = step(&turn);
        // The taken task lies in the row of its instance; a release moves it to a row of its own.
        (kept.tasks, kept.take, kept.then) = (vec![task(&turn, "pay")], 1, Then::Keep);
        let committed = session.commit_turns(vec![kept.into()]).await.remove(0).unwrap();
        let fence = &committed.taken[0].fence;
        let stale = TaskFence { epoch: Epoch(fence.epoch.0 + 1), ..fence.clone() };
        let release = |fence: TaskFence| Release {
            item: Item::Task(fence),
            delay: Duration::ZERO,
            trouble: None,
            failed: false,
        };
        let mut before = (0, 0);
        since(&*hub, &mut before);
        let refused = session.release(vec![release(stale)]).await.remove(0);
        assert!(matches!(refused, Err(Refused::Fenced)), "{refused:?}");
        assert_eq!(since(&*hub, &mut before), (0, 0), "rows and transactions of a refused release");
        session.release(vec![release(fence.clone())]).await.remove(0).unwrap();
        assert!(since(&*hub, &mut before).0 > 0, "the release that is not refused writes");
    });
}
