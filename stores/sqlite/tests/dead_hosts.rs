//! A dead host is recognised by its lock: nobody waits out its lease. A living one is left alone.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

mod support;

use std::time::Duration;

use dauer_sqlite::{Options, SqliteStore};
use dauer_store::{HubName, Manage};
use support::build::{host, start};
use support::claims::{Claims, want};
use support::{Folder, run};

/// Far longer than any test runs.
const LEASE: Duration = Duration::from_secs(3600);

fn open(folder: &Folder) -> SqliteStore {
    SqliteStore::open(folder.file(), Options::default()).expect("it opens")
}

fn sessions_files(folder: &Folder) -> usize {
    let files = std::fs::read_dir(folder.path()).unwrap();
    files.filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().contains(".session-")).count()
}

/// Of each session of the hub, whether it lives.
async fn lives(hub: &dyn Manage) -> Vec<bool> {
    hub.sessions().await.unwrap().iter().map(|session| session.lives).collect()
}

#[test]
fn what_a_dead_handle_held_is_taken_over_at_once() {
    let folder = Folder::new();
    let first = open(&folder);
    let hub = first.hub(HubName::default());
    run(async {
        hub.create(vec![start("order")]).await.remove(0).unwrap();
        let session = hub.attach(host(1, LEASE)).await.unwrap();
        assert_eq!(session.claim_turns(want(1)).await.unwrap().len(), 1);
    });
    let second = open(&folder);
    let other = second.hub(HubName::default());
    run(async {
        let session = other.attach(host(2, LEASE)).await.unwrap();
        assert!(session.claim_turns(want(1)).await.unwrap().is_empty(), "the first lives");
        assert_eq!(lives(&*other).await, [true, true]);
        session.detach().await.unwrap();
    });
    second.close();
    // Nothing is said to anyone: the files of the first are closed, as the system does it when a process dies.
    first.close();
    drop((hub, first, other, second));

    let third = open(&folder);
    let hub = third.hub(HubName::default());
    run(async {
        assert_eq!(lives(&*hub).await, [false], "its lock proves its death, and no write has noticed it");
        let session = hub.attach(host(3, LEASE)).await.unwrap();
        let turns = session.claim_turns(want(1)).await.unwrap();
        assert_eq!(turns.len(), 1, "the lease of the first runs for an hour, but it is dead");
        assert_eq!(turns[0].record.deaths.workers, 1, "it died with it");
        session.detach().await.unwrap();
    });
    assert_eq!(sessions_files(&folder), 0, "nothing is left behind");
}

#[test]
fn without_its_file_the_lease_decides() {
    let folder = Folder::new();
    let first = open(&folder);
    let hub = first.hub(HubName::default());
    run(async {
        hub.create(vec![start("order")]).await.remove(0).unwrap();
        let session = hub.attach(host(1, LEASE)).await.unwrap();
        assert_eq!(session.claim_turns(want(1)).await.unwrap().len(), 1);
    });
    first.close();
    drop((hub, first));
    for file in std::fs::read_dir(folder.path()).unwrap() {
        let path = file.unwrap().path();
        if path.to_string_lossy().contains(".session-") {
            std::fs::remove_file(path).unwrap();
        }
    }
    let second = open(&folder);
    let hub = second.hub(HubName::default());
    run(async {
        let session = hub.attach(host(2, LEASE)).await.unwrap();
        assert!(session.claim_turns(want(1)).await.unwrap().is_empty(), "a missing file proves nothing");
    });
}
