//! Rule 13, reads: `get` and histories see every acknowledged write; queries and lists are complete and page well.

use std::time::Duration;

use dauer_store::{
    ExecutionId, Kind, List, Order, Payload, Purge, Purged, Query, Refused, Revision, Slice, Status,
    StoredBatch, Tags, Timestamp,
};

use crate::run::open;
use crate::world::{HOUR, World, instance};
use crate::{Fixture, Step};

/// `get` sees each write as soon as it is acknowledged, and answers in the order asked, with gaps for the absent.
pub async fn r13a_get_sees_every_acknowledged_write(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    w.same(&w.found("order").await.1.status, &Status::Pending, "a start is seen at once");
    for revision in 1..4 {
        let status: Payload = format!("step {revision}").into();
        w.run(|turn| Step::of(turn).record(|record| record.details.set_custom_status(Some(status.clone()))))
            .await;
        let (fence, record) = w.found("order").await;
        w.same(&fence.revision, &Revision(revision), "a commit is seen at once");
        w.same(&record.revision, &Revision(revision), "a commit is seen at once, in the record too");
        w.same(
            &record.details.custom_status(),
            &Some(&status),
            "a commit is seen at once, with all it changed",
        );
        w.deliver(w.event_to("order")).await;
    }

    let asked = ["nobody", "order", "nobody", "order"].map(instance).to_vec();
    let found = w.ok(w.manage().get(asked).await, "get");
    let found: Vec<bool> = found.iter().map(Option::is_some).collect();
    w.same(&found, &vec![false, true, false, true], "answers come in the order asked");
}

/// A history is read in whole batches, from the one that holds the event asked for, with nothing left out and
/// nothing twice, however small the slices; another run's history is empty.
pub async fn r13b_a_history_is_read_in_whole_batches(fixture: &dyn Fixture) {
    let w = open!(fixture);
    a_slice_leads_on(&w).await;
    let execution = w.running("order").await.fence.execution;
    for _ in 0..3 {
        w.deliver(w.event_to("order")).await;
        w.run(Step::of).await;
    }
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    let fence = session.turn().await.fence;
    let (id, some) = (instance("order"), Some(execution));

    let whole = w.ok(session.work().load_history(&fence, 0, usize::MAX).await, "load_history");
    w.same(&firsts(&whole), &vec![0, 2, 4, 6], "four turns of two events each");
    w.same(&whole.next, &None, "that was all");
    let revisions: Vec<u64> = whole.batches.iter().map(|batch| batch.revision.0).collect();
    w.same(&revisions, &vec![1, 2, 3, 4], "each batch names the commit it belongs to");
    let read = w.ok(w.manage().read_history(&id, some, 0, usize::MAX).await, "read_history");
    w.same(&read, &whole, "clients read the same");

    let (mut pieces, mut next): (Vec<StoredBatch>, _) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let slice = w.ok(session.work().load_history(&fence, from, 1).await, "load_history");
        w.check(!slice.batches.is_empty(), "a slice holds at least one batch");
        next = slice.next;
        pieces.extend(slice.batches);
    }
    w.same(&pieces, &whole.batches, "the slices together are the whole");

    let inside = w.ok(session.work().load_history(&fence, 5, usize::MAX).await, "load_history");
    w.same(&firsts(&inside), &vec![4, 6], "a slice begins with the batch that holds the event");
    let inside = w.ok(session.work().load_history(&fence, 1, usize::MAX).await, "load_history");
    w.same(&firsts(&inside), &vec![0, 2, 4, 6], "the first batch holds the second event");
    let other = Some(ExecutionId(execution.0 ^ 1));
    let other = w.ok(w.manage().read_history(&id, other, 0, usize::MAX).await, "read_history");
    w.same(&other, &Slice::default(), "another run has no history here");
}

/// A batch without events begins where the next one does: a slice of nothing else would be asked for for ever.
async fn a_slice_leads_on(w: &World<'_>) {
    w.start("quiet").await;
    w.run(|turn| Step::of(turn).without_events()).await;
    w.deliver(w.event_to("quiet")).await;
    w.run(Step::of).await;
    let (id, mut read, mut next) = (instance("quiet"), 0, Some(0));
    while let Some(from) = next {
        let slice = w.ok(w.manage().read_history(&id, None, from, 1).await, "read_history");
        w.check(slice.next.is_none_or(|next| next > from), "a slice ends behind where it began");
        read += slice.batches.len();
        next = slice.next.filter(|next| *next > from);
    }
    w.same(&read, &2, "both commits were read");
}

fn firsts(slice: &Slice) -> Vec<u32> {
    slice.batches.iter().map(|batch| batch.first).collect()
}

/// A query is read page by page, by creation time, every instance once.
pub async fn r13c_a_query_pages_over_every_instance_once(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let expected = ["e", "d", "c", "b", "a"];
    for id in expected {
        w.start(id).await;
        w.advance(Duration::from_secs(1)).await;
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = w.query(Query { page: 2, after, ..Query::default() }).await;
        w.check(page.records.len() <= 2, "a page is no longer than asked");
        found.extend(page.records.into_iter().map(|(id, _)| id.as_str().to_owned()));
        after = page.next;
        if after.is_none() {
            break;
        }
        w.check(found.len() <= expected.len(), "the pages come to an end");
    }
    w.same(&found, &expected.map(String::from).to_vec(), "every instance once, the oldest first");
    let after = Some("nonsense".to_owned());
    let nowhere = w.manage().query(Query { after: after.clone(), ..Query::default() }).await;
    w.check(matches!(nowhere, Err(Refused::Cursor(_))), "a query goes on only behind a page");
    let nowhere = w.manage().list(List { after, ..List::default() }).await;
    w.check(matches!(nowhere, Err(Refused::Cursor(_))), "a list goes on only behind a page");
}

async fn matching(w: &World<'_>, query: Query) -> Vec<String> {
    let mut found: Vec<_> =
        w.query(query).await.records.into_iter().map(|(id, _)| id.as_str().to_owned()).collect();
    found.sort();
    found
}

/// A query returns the instances for which all its conditions hold.
pub async fn r13d_a_query_filters(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.ended("done").await;
    w.advance(Duration::from_secs(60)).await;
    let tags: Tags = [("zone".to_owned(), "north".to_owned())].into();
    w.start_with(w.start_in("tagged", "Refunds", |opening| opening.tags = tags.clone())).await;
    let entity = w.start_in("@counter@one", "counter", |opening| opening.queue.kind = Kind::Entity);
    w.start_with(entity).await;
    let all = Query::default;
    let middle = Timestamp(w.began.0 + 30_000);

    let cases: [(&str, Query, &[&str]); 9] = [
        ("no condition", all(), &["done", "tagged"]),
        ("a status", Query { statuses: vec![Status::Completed], ..all() }, &["done"]),
        ("a name", Query { name: Some("Refunds".into()), ..all() }, &["tagged"]),
        ("a prefix", Query { prefix: Some("ta".into()), ..all() }, &["tagged"]),
        ("a tag", Query { tags, ..all() }, &["tagged"]),
        ("created before", Query { created_to: Some(middle), ..all() }, &["done"]),
        ("created after", Query { created_from: Some(middle), ..all() }, &["tagged"]),
        ("entities", Query { entities: true, ..all() }, &["@counter@one"]),
        ("stalled", Query { stalled: true, ..all() }, &[]),
    ];
    for (what, query, expected) in cases {
        let found = matching(&w, query).await;
        w.same(&found, &expected.iter().map(|id| (*id).to_owned()).collect(), what);
    }
    let created = w.snapshot().await.instance("tagged").map(|tagged| tagged.record.times.created);
    let from = matching(&w, Query { created_from: created, ..all() }).await;
    w.same(&from, &vec!["tagged".to_owned()], "the first moment is included");
    let before = matching(&w, Query { created_to: created, ..all() }).await;
    w.same(&before, &vec!["done".to_owned()], "the last moment is not");
    let both = Query { statuses: vec![Status::Completed], name: Some("Refunds".into()), ..all() };
    w.same(&matching(&w, both).await, &vec![], "conditions hold together");
    let failed = Query { statuses: vec![Status::Failed], ..all() };
    let purged = w.ok(w.manage().purge(Purge::Matching { query: failed, budget: 9 }).await, "purge");
    w.same(&purged, &Purged::default(), "a purge removes what matches, and none has failed");
}

/// A list names ended instances only, by the time they ended, page by page, and not those that live again.
pub async fn r13e_a_list_names_the_ended(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("living").await;
    let ended = w.ended("again").await;
    let opened = Step::of(&Step::after(&ended));
    w.ok(w.manage().amend(opened.into()).await, "amend");
    for id in ["z", "y", "x"] {
        w.ended(id).await;
        w.advance(HOUR).await;
    }
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = w.ok(w.manage().list(List { page: 2, after, ..List::default() }).await, "list");
        found.extend(page.ids.iter().map(|id| id.as_str().to_owned()));
        after = page.next;
        if after.is_none() {
            break;
        }
        w.check(found.len() <= 4, "the pages come to an end");
    }
    w.same(&found, &["z", "y", "x"].map(String::from).to_vec(), "the ended, in the order they ended");
    let (first, second) = (w.at(HOUR), w.at(HOUR * 2));
    let middle = List { completed_from: Some(first), completed_to: Some(second), ..List::default() };
    let middle = w.ok(w.manage().list(middle).await, "list");
    w.same(&middle.ids, &vec![instance("y")], "the one that ended in that hour");
    let failed = List { statuses: vec![Status::Failed], ..List::default() };
    let failed = w.ok(w.manage().list(failed).await, "list");
    w.same(&failed.ids, &vec![], "none of them failed");
}

/// How a run is to begin can be read until it has begun, before it is due too; after a continue-as-new it is the start of
/// the next run, and never that of a start that waits for the end of this one. Once the run has ended, it is that one's.
pub async fn r13g_a_start_is_told_until_its_run_begins(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let read = async |id: &str| w.ok(w.manage().read_start(&instance(id)).await, "read_start");
    w.ended("twice").await;
    w.running("loop").await;
    w.deliver(w.event_to("loop")).await;
    let session = w.session().await;
    let turn = session.turn().await;
    let step = Step::of(&turn).continue_as_new(Vec::new());
    let next = w.start_in("loop", "Orders", |opening| opening.execution = step.execution());
    session.commit(Step::of(&turn).continue_as_new(vec![next.clone()])).await;
    w.same(&read("loop").await, &Some(next), "the next run has not begun");
    session.commit(Step::of(&session.turn().await)).await;

    w.same(&read("order").await, &None, "nobody is there");
    let later = w.scheduled_start("order", HOUR);
    w.start_with(later.clone()).await;
    w.deliver(w.event_to("order")).await;
    w.same(&read("order").await, &Some(later), "it waits for its time");
    w.advance(HOUR).await;
    let session = w.session().await;
    let turn = session.turn().await;
    w.check(read("order").await.is_some(), "a claim begins nothing yet");
    session.commit(Step::of(&turn)).await;
    w.same(&read("order").await, &None, "the run has begun");
    w.deliver(w.event_to("order")).await;
    let last = session.turn().await;
    let other = w.start_in("order", "Bills", |_| {});
    w.send(other.clone()).await;
    w.same(&read("order").await, &None, "another start is none of this run's business");
    session.commit(Step::of(&last).ended(Status::Completed)).await;
    let next = read("order").await.map(|start| start.id);
    w.same(&next, &Some(other.id), "the run has ended, and the other one is next");
    let delayed = w.scheduled_start("twice", 2 * HOUR);
    w.send(delayed.clone()).await;
    w.advance(2 * HOUR).await;
    w.send(w.start_in("twice", "Bills", |_| {})).await;
    let next = read("twice").await.map(|start| start.id);
    w.same(&next, &Some(delayed.id), "the one that was due first is next");
}

/// A query that asks for the newest first is answered from that end, page by page, every instance once, with and without a
/// tag; instances of one moment by their id. What is started meanwhile changes nothing of what is left, and a cursor goes
/// on in its own order only.
pub async fn r13f_a_query_begins_with_the_newest_when_asked(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let tags: Tags = [("zone".to_owned(), "north".to_owned())].into();
    let start = |id: &str| w.start_in(id, "Orders", |opening| opening.tags = tags.clone());
    for ids in [["c", "d"], ["f", "e"], ["a", "b"]] {
        for id in ids {
            w.start_with(start(id)).await;
        }
        w.advance(Duration::from_secs(1)).await;
    }
    let mut there = ["b", "a", "f", "e", "d", "c"].map(String::from).to_vec();
    for (page, tags) in [(1, Tags::new()), (4, Tags::new()), (3, tags.clone()), (100, tags.clone())] {
        let newest = Query { page, tags, order: Order::NewestFirst, ..Query::default() };
        let (expected, mut found, mut after) = (there.clone(), Vec::new(), None);
        loop {
            let page = w.query(Query { after, ..newest.clone() }).await;
            found.extend(page.records.into_iter().map(|(id, _)| id.as_str().to_owned()));
            after = page.next;
            let Some(cursor) = &after else { break };
            w.check(found.len() <= expected.len(), "the pages come to an end");
            let turned = Query { order: Order::OldestFirst, after: Some(cursor.clone()), ..newest.clone() };
            let turned = w.manage().query(turned).await;
            w.check(matches!(turned, Err(Refused::Cursor(_))), "a cursor does not turn round");
            let later = format!("g{:02}", there.len());
            w.start_with(start(&later)).await;
            there.insert(0, later);
            w.advance(Duration::from_secs(1)).await;
        }
        w.same(&found, &expected, "every instance once, the newest first");
    }
}
