//! Writes of other processes: they wake the hubs that they touch, and no others.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use futures::{FutureExt, StreamExt};

use dauer_store::{Changes, Hint, HubName, Store as _};

use crate::support::build::{instance, start};
use crate::support::{Folder, open, run};

fn name(number: usize) -> HubName {
    HubName::new(format!("hub{number:02}")).unwrap()
}

/// Waits until a stream brings the hint that another process has written. [`run`] bounds the time.
async fn elsewhere(changes: &mut Changes) {
    while !matches!(changes.next().await, Some(Hint::Elsewhere)) {}
}

/// How many hints wait in a stream.
fn waiting(changes: &mut Changes) -> usize {
    std::iter::from_fn(|| changes.next().now_or_never().flatten()).count()
}

/// Counted, because a wake-up of a hub is some claims and looks, each of which waits for all others.
#[test]
fn foreign_write_wakes_only_the_hub_it_touches() {
    const HUBS: usize = 20;
    const WRITES: usize = 10;
    let folder = Folder::new();
    let (ours, theirs) = (open(&folder), open(&folder));
    run(async {
        let mut changes = Vec::new();
        for number in 0..HUBS {
            let hub = ours.hub(name(number));
            hub.create(vec![start("mine")]).await.remove(0).unwrap();
            changes.push(hub.changes());
        }
        // The first change from outside may be about anything.
        let first = theirs.hub(name(0));
        first.create(vec![start("first")]).await.remove(0).unwrap();
        elsewhere(&mut changes[0]).await;
        first.create(vec![start("second")]).await.remove(0).unwrap();
        elsewhere(&mut changes[0]).await;
        changes.iter_mut().for_each(|changes| _ = waiting(changes));
        for write in 0..WRITES {
            theirs.hub(name(7)).create(vec![start(&format!("i{write}"))]).await.remove(0).unwrap();
            elsewhere(&mut changes[7]).await;
        }
        // Hubs are woken in the order of their names: after the last one, none is still to come.
        theirs.hub(name(HUBS - 1)).create(vec![start("last")]).await.remove(0).unwrap();
        elsewhere(&mut changes[HUBS - 1]).await;
        for (number, changes) in changes.iter_mut().enumerate() {
            // The write before the first of them may have been seen before its commit: its hub is woken once more.
            if ![0, 7, HUBS - 1].contains(&number) {
                assert_eq!(waiting(changes), 0, "hub {number} was woken by {WRITES} writes to another");
            }
        }
        assert!(waiting(&mut changes[0]) <= 4, "once more at most");
    });
}

/// Another program tells nobody what it writes: everyone looks.
#[test]
fn write_of_another_program_wakes_every_hub() {
    let folder = Folder::new();
    let store = open(&folder);
    run(async {
        let hubs = [store.hub(name(1)), store.hub(name(2))];
        let mut changes = hubs.each_ref().map(|hub| hub.changes());
        for hub in &hubs {
            hub.create(vec![start("mine")]).await.remove(0).unwrap();
        }
        let other = crate::support::database(&folder);
        for round in 0..3 {
            other.execute_batch("UPDATE meta SET latest = latest + 1").unwrap();
            for changes in &mut changes {
                elsewhere(changes).await;
            }
            // A write of our own in between changes nothing about that.
            hubs[0].create(vec![start(&format!("own{round}"))]).await.remove(0).unwrap();
        }
        assert!(hubs[0].get(vec![instance("mine")]).await.unwrap()[0].is_some());
    });
}

/// A hub that another process deletes has no name any more, and those who wait in it are woken.
#[test]
fn hub_deleted_elsewhere_wakes_its_listeners() {
    let folder = Folder::new();
    let (ours, theirs) = (open(&folder), open(&folder));
    run(async {
        let hub = ours.hub(name(1));
        hub.create(vec![start("mine")]).await.remove(0).unwrap();
        let mut changes = hub.changes();
        for id in ["first", "second"] {
            theirs.hub(name(1)).create(vec![start(id)]).await.remove(0).unwrap();
            elsewhere(&mut changes).await;
        }
        waiting(&mut changes);
        theirs.delete_hub(&name(1)).await.unwrap();
        elsewhere(&mut changes).await;
        assert!(!ours.has_hub(&name(1)).await.unwrap());
    });
}
