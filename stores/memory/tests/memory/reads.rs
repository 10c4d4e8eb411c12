//! Histories, queries, lists and purges.

use dauer_store::*;
use futures::executor::block_on;

use crate::support::*;

#[test]
fn a_slice_has_whole_batches_and_says_where_the_next_begins() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    let turn = turn_of(&session, "order");
    let mut fence = turn.fence.clone();
    for count in [2, 3, 1] {
        let history = History::Append(batch(count));
        commit(&session, Checkpoint { fence: fence.clone(), history, then: Then::Keep, ..step(&turn) })
            .unwrap();
        fence.revision = fence.revision.next();
    }
    let read = |from, max_bytes| {
        let slice = block_on(session.load_history(&fence, from, max_bytes)).unwrap();
        (slice.batches.iter().map(|stored| stored.first).collect::<Vec<_>>(), slice.next)
    };
    assert_eq!(read(0, 1_000), (vec![0, 2, 5], None));
    assert_eq!(read(0, 1), (vec![0], Some(2)), "at least one");
    assert_eq!(read(0, 50), (vec![0, 2], Some(5)));
    assert_eq!(read(3, 1_000), (vec![2, 5], None), "from the batch that holds it");
    assert_eq!(read(6, 1_000), (vec![], None));
    fenced(block_on(session.load_history(&turn.fence, 0, 1_000)));
    let other = block_on(w.hub.read_history(&id("order"), Some(ExecutionId(1)), 0, 1_000)).unwrap();
    assert_eq!(other, Slice::default(), "another run");
}

/// A suspend before a scheduled start is put off by a commit without an event. Found by a seed of the simulator whose
/// pages were small: the page had nothing but that commit, and said that the next one begins where it began itself.
#[test]
fn a_page_never_ends_where_it_began() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    let turn = turn_of(&session, "order");
    let mut fence = turn.fence.clone();
    for count in [0, 0, 2, 0, 1] {
        let history = History::Append(batch(count));
        commit(&session, Checkpoint { fence: fence.clone(), history, then: Then::Keep, ..step(&turn) })
            .unwrap();
        fence.revision = fence.revision.next();
    }
    let (mut from, mut pages) = (Some(0), Vec::new());
    while let Some(next) = from {
        let slice = block_on(session.load_history(&fence, next, 1)).unwrap();
        pages.push(slice.batches.iter().map(|stored| stored.batch.count).collect::<Vec<_>>());
        assert!(slice.next.is_none_or(|then| then > next), "the page from {next} leads to itself");
        from = slice.next;
    }
    assert_eq!(pages, [vec![0, 0, 2], vec![0, 1]]);
}

#[test]
fn pages_are_stable_while_instances_come() {
    let w = World::new();
    for name in ["d", "b"] {
        w.create(&w.start(name, "Orders"));
    }
    w.send(&w.event("@counter@a"));
    let query = Query { page: 1, ..Query::default() };
    let first = block_on(w.hub.query(query.clone())).unwrap();
    assert_eq!(first.records[0].0, id("b"), "created together, so by id");
    w.create(&w.start("a", "Orders"));
    w.create(&w.start("c", "Orders"));
    let after = first.next;
    let rest = block_on(w.hub.query(Query { page: 10, after, ..query })).unwrap();
    let names: Vec<&str> = rest.records.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!((names, rest.next), (vec!["c", "d"], None));
    let wrong = block_on(w.hub.query(Query { after: Some("x".into()), ..Query::default() }));
    assert!(matches!(wrong, Err(Refused::Cursor(_))), "{wrong:?}");
}

#[test]
fn a_purge_takes_the_tasks_too() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    let turn = turn_of(&session, "order");
    let last = Checkpoint { tasks: vec![w.task(&turn, "pay")], take: 1, ..ended(&turn, Status::Completed) };
    let lease = commit(&session, last).unwrap().taken.remove(0);
    let purged = block_on(w.hub.purge(Purge::Ids(vec![id("order")]))).unwrap();
    assert_eq!(purged, Purged { count: 1, more: false });
    assert_eq!(complete(&session, w.answer(&lease)), Delivered::Dropped(DropReason::NotHeld));
    assert_eq!(block_on(session.renew()).unwrap(), [Lost { item: Item::Task(lease.fence) }]);
    let query = block_on(w.hub.query(Query::default())).unwrap();
    let list = block_on(w.hub.list(List::default())).unwrap();
    assert_eq!((query.records.len(), list.ids.len()), (0, 0));
    assert!(!w.dump().iter().any(|item| matches!(item, DumpItem::Task(_))), "no task without an instance");
}

#[test]
fn a_replaced_instance_is_found_once_under_its_new_time() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    commit(&session, ended(&turn_of(&session, "order"), Status::Completed)).unwrap();
    assert_eq!(block_on(w.hub.list(List::default())).unwrap().ids, [id("order")]);
    w.clock.advance(HOUR);
    w.create(&w.start("order", "Orders"));
    let found = block_on(w.hub.query(Query::default())).unwrap().records;
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].1.times.created, found[0].1.revision), (BEGIN.after(HOUR), Revision(2)));
    assert!(block_on(w.hub.list(List::default())).unwrap().ids.is_empty());
    assert!(w.get("order").0.epoch > Epoch(1));
}
