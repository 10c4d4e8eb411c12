//! Rule 21, purge: ended instances go for good, living ones never.

use dauer_store::{Delivered, DropReason, Purge, Purged, Query, Status};

use crate::Fixture;
use crate::run::open;
use crate::world::{World, instance};

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
