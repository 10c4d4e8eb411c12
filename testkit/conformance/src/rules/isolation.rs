//! Rule 17, isolation: hubs on one store know nothing of each other.

use dauer_store::{Delivered, DropReason, HubName, Query, Refused, Status};

use crate::Fixture;
use crate::run::open;
use crate::world::{PAST_LEASE, World};

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

/// The hubs that the store lists; and each of them exists, as the store says when it is asked for that one.
async fn hubs(w: &World<'_>) -> Vec<HubName> {
    let names = w.ok(w.store().hubs().await, "hubs");
    for name in &names {
        w.check(w.ok(w.store().has_hub(name).await, "has_hub"), "a hub that is listed exists");
    }
    names
}

/// Opening and reading create no hub, a session does. A hub is deleted with all that is in it when no session of it
/// lives, and others stay.
pub async fn r17b_a_hub_exists_from_its_first_write_until_it_is_deleted(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let (other, store) = (w.beside("Other").await, w.store());
    other.start("stays").await;
    w.inspect("order").await;
    w.ok(w.manage().sessions().await, "sessions");
    w.same(&hubs(&w).await, &vec![other.name().clone()], "reading creates no hub");
    w.check(!w.ok(store.has_hub(w.name()).await, "has_hub"), "reading creates no hub");
    let session = w.session().await;
    w.same(&hubs(&w).await, &vec![w.name().clone(), other.name().clone()], "a session creates its hub");

    w.running_with_task("order").await;
    let lease = session.task().await;
    let refused = store.delete_hub(w.name()).await;
    w.check(matches!(refused, Err(Refused::NotExecuted(_))), "a hub in which a session lives is not deleted");
    w.check(w.get("order").await.is_some(), "nothing of it was deleted");
    w.advance(PAST_LEASE).await;
    for _ in 0..2 {
        w.ok(store.delete_hub(w.name()).await, "delete_hub");
        w.same(&hubs(&w).await, &vec![other.name().clone()], "the hub was deleted, and the other stays");
    }
    w.check(w.get("order").await.is_none(), "its instances were deleted");
    w.same(&w.snapshot().await.tasks().count(), &0, "its tasks were deleted");
    w.check(other.get("stays").await.is_some(), "the instances of the other hub stay");
    let late = session.complete(w.answer(&lease)).await;
    w.same(&late, &Delivered::Dropped(DropReason::NotHeld), "its session is gone");
    w.same(&hubs(&w).await, &vec![other.name().clone()], "a late answer creates no hub");
    w.start("order").await;
    w.check(w.ok(store.has_hub(w.name()).await, "has_hub"), "its name is free again");
}
