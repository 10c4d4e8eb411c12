//! The index of tags runs behind, and nobody sees it.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

use std::sync::Arc;

use crate::support::build::{host, message_id, start, step};
use crate::support::claims::{Claims, want};
use crate::support::{Folder, clock, database, options, run};
use dauer_sqlite::{Options, SqliteStore};
use dauer_store::{
    Class, Create, ExecutionId, HubName, Manage, Order, Purge, Purged, Query, Reuse, Status, Store as _,
};

const BEHIND: usize = 8;

fn zone(name: &str) -> Query {
    Query { tags: [("zone".to_owned(), name.to_owned())].into(), ..Query::default() }
}

/// A start in a zone, under an id that sorts by its number.
fn start_in(zone: &str, number: usize) -> Create {
    let mut create = start(&format!("order{number:05}"));
    if let Class::Start(start) = &mut create.start.class {
        start.tags = [("zone".to_owned(), zone.to_owned()), ("all".to_owned(), "1".to_owned())].into();
    }
    create
}

fn open(folder: &Folder) -> SqliteStore {
    SqliteStore::open(folder.file(), Options { tags_behind: BEHIND, ..options(&clock()) }).unwrap()
}

/// All ids that a query finds, page by page; from the other end they are the same.
async fn found(hub: &dyn Manage, query: Query) -> Vec<String> {
    let oldest = pages(hub, query.clone()).await;
    let mut newest = pages(hub, Query { order: Order::NewestFirst, ..query }).await;
    newest.reverse();
    assert_eq!(newest, oldest);
    oldest
}

async fn pages(hub: &dyn Manage, query: Query) -> Vec<String> {
    let (mut ids, mut query) = (Vec::new(), Query { page: 3, ..query });
    loop {
        let page = hub.query(query.clone()).await.unwrap();
        ids.extend(page.records.into_iter().map(|(id, _)| id.to_string()));
        query.after = page.next;
        if query.after.is_none() {
            return ids;
        }
    }
}

/// How far the index goes, after a check that it has exactly what it says.
#[track_caller]
fn tagged(folder: &Folder) -> i64 {
    let db = database(folder);
    let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let tagged = number("SELECT tagged FROM meta");
    let newest = number("SELECT ifnull(max(key), 0) FROM instances");
    assert!(newest - tagged < BEHIND as i64, "the index goes to {tagged} of {newest}");
    // Every instance of these tests has two tags.
    assert_eq!(
        number("SELECT count(*) FROM tags"),
        2 * number("SELECT count(*) FROM instances WHERE key <= (SELECT tagged FROM meta)")
    );
    let foreign = "SELECT count(*) FROM tags AS t LEFT JOIN instances AS i ON i.key = t.instance
        WHERE i.key IS NULL OR i.hub <> t.hub OR i.created <> t.created";
    assert_eq!(number(foreign), 0);
    tagged
}

async fn end_all(hub: &Arc<dyn Manage>, session: u128) {
    let session = hub.attach(host(session, std::time::Duration::from_secs(600))).await.unwrap();
    for turn in session.claim_turns(want(1_000)).await.unwrap() {
        let mut step = step(&turn);
        step.record.status = Status::Completed;
        session.commit_turns(vec![step.into()]).await.remove(0).unwrap();
    }
    session.detach().await.unwrap();
}

#[test]
fn a_query_by_tag_finds_all_in_order_however_far_the_index_is() {
    let folder = Folder::new();
    let store = open(&folder);
    let hub = store.hub(HubName::default());
    run(async {
        let mut marks = std::collections::BTreeSet::new();
        for number in 0..40 {
            let zone_of = ["north", "south"][number % 2];
            hub.create(vec![start_in(zone_of, number)]).await.remove(0).unwrap();
            marks.insert(tagged(&folder));
            for (name, first) in [("north", 0), ("south", 1)] {
                let expected: Vec<String> =
                    (first..=number).step_by(2).map(|number| format!("order{number:05}")).collect();
                assert_eq!(found(&*hub, zone(name)).await, expected);
            }
        }
        assert_eq!(Vec::from_iter(marks), [0, 8, 16, 24, 32, 40]);
    });
}

#[test]
fn what_is_behind_and_what_is_in_the_index_are_given_in_one_order() {
    let folder = Folder::new();
    let store = open(&folder);
    let hub = store.hub(HubName::default());
    run(async {
        // The same time for all, and ids that do not grow: what the index lacks lies between what it has.
        for number in (0..20).map(|number| number * 7 % 20) {
            hub.create(vec![start_in("north", number)]).await.remove(0).unwrap();
        }
        assert_eq!(tagged(&folder), 16);
        let expected: Vec<String> = (0..20).map(|number| format!("order{number:05}")).collect();
        assert_eq!(found(&*hub, zone("north")).await, expected);
    });
}

#[test]
fn a_run_that_replaces_another_has_its_own_tags_in_the_index_or_behind_it() {
    let folder = Folder::new();
    let store = open(&folder);
    let hub = store.hub(HubName::default());
    run(async {
        let starts = (0..12).map(|number| start_in("north", number)).collect();
        assert!(hub.create(starts).await.iter().all(Result::is_ok));
        assert_eq!(tagged(&folder), 12, "one transaction, one part of the index");
        let more = (12..16).map(|number| start_in("north", number)).collect();
        assert!(hub.create(more).await.iter().all(Result::is_ok));
        end_all(&hub, 1).await;
        // One that the index has, and one that it lacks.
        for number in [3, 13] {
            let mut again = start_in("south", number);
            again.start.id = message_id(&format!("again {number}"));
            if let Class::Start(start) = &mut again.start.class {
                start.execution = ExecutionId(number as u128);
            }
            again.reuse = Reuse { replaceable: vec![Status::Completed] };
            hub.create(vec![again]).await.remove(0).unwrap();
            tagged(&folder);
        }
        assert_eq!(found(&*hub, zone("south")).await, ["order00003", "order00013"]);
        assert_eq!(found(&*hub, zone("north")).await.len(), 14);
        end_all(&hub, 2).await;
        let purged = hub.purge(Purge::Matching { query: zone("south"), budget: 10 }).await.unwrap();
        assert_eq!(purged, Purged { count: 2, more: false });
        assert_eq!(found(&*hub, zone("south")).await, Vec::<String>::new());
        tagged(&folder);
    });
}

#[test]
fn a_key_that_is_used_again_is_in_the_index() {
    let folder = Folder::new();
    let store = open(&folder);
    let hub = store.hub(HubName::default());
    run(async {
        let starts = (0..8).map(|number| start_in("north", number)).collect();
        assert!(hub.create(starts).await.iter().all(Result::is_ok));
        assert_eq!(tagged(&folder), 8);
        end_all(&hub, 1).await;
        // The newest goes, and the next instance gets its key, which the index must have.
        let gone = Purge::Ids(vec![crate::support::build::instance("order00007")]);
        assert_eq!(hub.purge(gone).await.unwrap().count, 1);
        hub.create(vec![start_in("south", 99)]).await.remove(0).unwrap();
        assert_eq!(tagged(&folder), 8);
        assert_eq!(found(&*hub, zone("south")).await, ["order00099"]);
    });
}

#[test]
fn two_handles_and_two_hubs_share_one_index() {
    let folder = Folder::new();
    let (first, second) = (open(&folder), open(&folder));
    let other = HubName::new("other").unwrap();
    run(async {
        for number in 0..30 {
            let handle = if number % 3 == 0 { &first } else { &second };
            let hub = if number % 5 == 0 { other.clone() } else { HubName::default() };
            handle.hub(hub).create(vec![start_in("north", number)]).await.remove(0).unwrap();
            tagged(&folder);
        }
        for handle in [&first, &second] {
            assert_eq!(found(&*handle.hub(HubName::default()), zone("north")).await.len(), 24);
            assert_eq!(found(&*handle.hub(other.clone()), zone("north")).await.len(), 6);
        }
        first.delete_hub(&other).await.unwrap();
        tagged(&folder);
        assert_eq!(found(&*second.hub(HubName::default()), zone("north")).await.len(), 24);
    });
}

#[test]
fn an_instance_that_cannot_be_read_does_not_stop_the_index() {
    let folder = Folder::new();
    let store = open(&folder);
    let hub = store.hub(HubName::default());
    run(async {
        let starts = (0..4).map(|number| start_in("north", number)).collect();
        assert!(hub.create(starts).await.iter().all(Result::is_ok));
        database(&folder).execute("UPDATE instances SET base = x'01ff' WHERE id = 'order00001'", []).unwrap();
        let starts = (4..12).map(|number| start_in("south", number)).collect();
        assert!(hub.create(starts).await.iter().all(Result::is_ok));
        assert_eq!(found(&*hub, zone("south")).await.len(), 8);
    });
}
