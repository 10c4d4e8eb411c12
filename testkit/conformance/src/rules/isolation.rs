//! Rule 17, isolation: hubs on one store know nothing of each other.

use dauer_store::{Delivered, DropReason, Query, Status};

use crate::Fixture;
use crate::run::open;

/// What is in one hub cannot be got, found, claimed, reached or dumped from another, and ids are free in each.
pub async fn r17a_hubs_know_nothing_of_each_other(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let other = w.beside("Other").await;
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;

    w.check(other.get("order").await.is_none(), "another hub does not have it");
    w.same(&other.query(Query::default()).await.records.len(), &0, "another hub does not find it");
    w.same(&other.snapshot().await.instances().count(), &0, "another hub does not dump it");
    w.same(&other.snapshot().await.tasks().count(), &0, "another hub does not dump its tasks");
    let session = other.session().await;
    session.no_turn("another hub has no turn of it").await;
    session.no_task("another hub has no task of it").await;
    let sent = other.send(other.event_to("order")).await;
    w.same(&sent, &Delivered::Dropped(DropReason::Absent), "a message of another hub does not reach it");

    other.start("order").await;
    let ours = w.snapshot().await.instance("order").map(|order| order.record.status);
    w.same(&ours, &Some(Status::Running), "the same id in another hub is another instance");
}
