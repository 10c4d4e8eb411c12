//! Rule 21, purge: ended instances go for good, living ones never.

use std::time::Duration;

use dauer_core::limits::START_RETRY_MAX;
use dauer_store::{Created, Delivered, DropReason, Message, Purge, Purged, Query, Refused, Reuse, Status};

use crate::run::open;
use crate::world::{World, instance};
use crate::{Fixture, Step};

async fn purge(w: &World<'_>, ids: &[&str]) -> Purged {
    let ids = ids.iter().map(|id| instance(id)).collect();
    w.ok(w.manage().purge(Purge::Ids(ids)).await, "purge")
}

/// A purge removes ended instances and leaves living ones; late messages do not bring one back.
pub async fn r21a_a_purge_removes_the_ended_for_good(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("living").await;
    w.ended("ended").await;
    let purged = purge(&w, &["living", "ended", "nobody"]).await;
    w.same(&purged, &Purged { count: 1, more: false }, "the ended instance is purged, the living is not");
    w.check(w.get("living").await.is_some(), "a living instance stays");
    w.check(w.get("ended").await.is_none(), "a purged instance is gone");

    let late = w.send(w.event_to("ended")).await;
    w.same(&late, &Delivered::Dropped(DropReason::Absent), "a late message does not bring it back");
    w.check(w.get("ended").await.is_none(), "it stays gone");
}

/// An ended instance for which a start or rewind waits is not purged: it is about to live again.
pub async fn r21b_a_waiting_start_prevents_the_purge(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.ended("order").await;
    w.ended("refund").await;
    let waiting = [w.start_message("order"), w.rewind_message("refund")];
    for message in &waiting {
        w.deliver(message.clone()).await;
    }

    let purged = purge(&w, &["order", "refund"]).await;
    w.same(&purged.count, &0, "an instance that is about to live again is not purged");
    let stored = w.snapshot().await;
    for message in &waiting {
        w.same(&stored.waiting(message.to.as_str()), &vec![message.id], "what would open it still waits");
    }
}

/// A purge by query removes what matches, no more than its budget in one call, and says when to call again.
pub async fn r21c_a_purge_keeps_to_its_budget(fixture: &dyn Fixture) {
    let w = open!(fixture);
    for id in ["a", "b", "c"] {
        w.ended(id).await;
    }
    let query = Query { statuses: vec![Status::Completed], ..Query::default() };
    let purge = || w.manage().purge(Purge::Matching { query: query.clone(), budget: 2 });
    let first = w.ok(purge().await, "purge");
    w.same(&first, &Purged { count: 2, more: true }, "two now, more later");
    let second = w.ok(purge().await, "purge");
    w.same(&second.count, &1, "the third");
    w.same(&w.snapshot().await.instances().count(), &0, "all are gone");
}

/// A new instance begins above every instance that was removed before, in epoch and in revision, under the same id and under
/// any other: no fence of a removed one passes for it.
pub async fn r21d_a_new_instance_begins_above_the_removed(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    w.deliver(w.event_to("order")).await;
    w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
    let old = w.found("order").await.0;
    purge(&w, &["order"]).await;
    for id in ["order", "another"] {
        w.start(id).await;
        let stored = w.snapshot().await;
        let new = stored.instance(id).expect("it was just created");
        w.check(new.epoch > old.epoch, &format!("{id} begins at a later epoch: {:?}", new.epoch));
        let revision = new.record.revision;
        w.check(revision > old.revision, &format!("{id} begins at a later revision: {revision:?}"));
    }
    let session = w.session().await;
    let turns = session.turns().await;
    let held = turns.iter().all(|turn| turn.fence.epoch > old.epoch && turn.fence.revision > old.revision);
    w.check(turns.len() == 2 && held, "so do their claims");
}

/// The start of a removed instance is a repeat for as long as a client may retry it, also when another instance of that id
/// has been started meanwhile. The store remembers as many as it says; beyond, the oldest are forgotten and counted.
pub async fn r21e_the_start_of_a_removed_instance_is_known(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let start = w.start("order").await;
    w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
    purge(&w, &["order"]).await;
    let repeat = |start: &Message| w.create(start.clone(), Reuse::default());
    let is_repeat = |created: Result<Created, Refused>, what: &str| {
        w.check(matches!(created, Ok(Created::Repeat(_))), &format!("{what}: {created:?}"));
    };
    is_repeat(repeat(&start).await, "a retried start begins nothing");
    w.same(
        &w.send(start.clone()).await,
        &Delivered::Dropped(DropReason::Repeat),
        "nor does one that is sent",
    );
    w.check(w.get("order").await.is_none(), "the instance stays gone");
    w.ended("order").await;
    is_repeat(repeat(&start).await, "nor does it replace a later one");
    w.same(&w.send(start.clone()).await, &Delivered::Dropped(DropReason::Repeat), "sent or created");

    let most = w.manage().limits().removed_starts;
    w.check(most <= 100, "a fixture limits what is remembered, so that this rule is quick");
    // So that the first start is the oldest.
    w.advance(Duration::from_secs(1)).await;
    for _ in 0..most {
        w.ended("next").await;
        purge(&w, &["next"]).await;
    }
    let stored = w.snapshot().await;
    w.same(&(stored.removed_starts() as u64), &most, "no more are remembered than the store says");
    w.same(&stored.hub().forgotten_starts, &1, "the one that was forgotten early is counted");
    let last = w.start("last").await;
    w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
    purge(&w, &["last"]).await;
    w.advance(START_RETRY_MAX + Duration::from_secs(1)).await;
    let late = w.ok(repeat(&last).await, "create");
    w.check(matches!(late, Created::New(_)), "a start that nobody retries any more is forgotten");
}
