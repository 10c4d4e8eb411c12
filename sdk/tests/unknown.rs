//! Orchestrations that no worker knows: they can be terminated, suspended, replaced and purged. On both stores, through the
//! public API.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use dauer::{
    ClientError, Event, Hub, InstanceId, Orchestration, OrchestrationContext, RawClientError, Result, Reuse,
    Status,
};
use futures::TryStreamExt;

use crate::support::{Folder, Running, SOON};

/// Every worker of these tests knows this one.
const KNOWN: Orchestration<u32, u32> = Orchestration::new("known");
/// No worker knows it, at first.
const UNKNOWN: Orchestration<u32, u32> = Orchestration::new("unknown");
const PARENT: Orchestration<u32, u32> = Orchestration::new("parent");
const GO: Event<u32> = Event::new("go");

async fn known(_: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(n + 1)
}

async fn waits(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(n + ctx.event(GO).await?)
}

/// Its child is one that no worker knows.
async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    let child = InstanceId::new("child")?;
    Ok(ctx.call_orchestration(UNKNOWN, &n).instance(&child).await.unwrap_or(99))
}

fn hubs(folder: &Folder) -> [Hub; 2] {
    ["memory:", &folder.url()].map(|url| dauer::open(url).unwrap())
}

fn any() -> Reuse {
    let living = [Status::Pending, Status::Running, Status::Suspended];
    Reuse { replaceable: living.into_iter().chain(Reuse::default().replaceable).collect() }
}

#[tokio::test]
async fn unknown_orchestration_is_terminated_read_and_purged() {
    let folder = Folder::new("unknown-terminate");
    for hub in hubs(&folder) {
        let client = hub.client();
        let handle = client.start(UNKNOWN, &4).id("order").tag("team", "north").await.unwrap();
        handle.terminate("not today").await.unwrap();
        let ended = handle.ended_within(SOON).await.unwrap();
        assert_eq!(ended.status(), Status::Terminated);
        let record = handle.status().await.unwrap().unwrap();
        assert_eq!(client.raw().input(handle.id(), &record).await.unwrap().as_deref(), Some("4"));
        assert_eq!(ended.output::<String>().unwrap().as_deref(), Some("not today"));
        let events: Vec<_> = handle.history().await.unwrap().try_collect().await.unwrap();
        assert_eq!(events.len(), 4, "{events:?}");
        // What was ended before it began begins when it is started again.
        let running = Running::on(&hub, |worker| worker.orchestration(UNKNOWN, known));
        handle.restart().await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), 5);
        running.stop().await;
        handle.purge().await.unwrap();
        assert!(handle.status().await.unwrap().is_none());
    }
}

#[tokio::test]
async fn terminated_unknown_child_answers_its_parent() {
    let folder = Folder::new("unknown-child");
    for hub in hubs(&folder) {
        let running = Running::on(&hub, |worker| worker.orchestration(PARENT, parent));
        let handle = running.client.start(PARENT, &1).await.unwrap();
        let child = running.client.handle(UNKNOWN, "child").unwrap();
        running.wait(child.id(), |record| record.status == Status::Pending).await;
        child.terminate("no worker").await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), 99);
        running.stop().await;
    }
}

#[tokio::test]
async fn suspended_unknown_orchestration_waits_for_its_resume() {
    let folder = Folder::new("unknown-suspend");
    for hub in hubs(&folder) {
        let handle = hub.client().start(UNKNOWN, &4).id("order").await.unwrap();
        handle.suspend("not yet").await.unwrap();
        let running = Running::on(&hub, |worker| worker.orchestration(UNKNOWN, known));
        // The worker runs: it has finished another one of the same name that was started later.
        let other = running.client.start(UNKNOWN, &1).await.unwrap();
        assert_eq!(other.output_within(SOON).await.unwrap(), 2);
        let record = handle.status().await.unwrap().unwrap();
        assert_eq!((record.status, record.history_len), (Status::Suspended, 0), "it has not begun");
        handle.resume("now").await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), 5);
        running.stop().await;
    }
}

#[tokio::test]
async fn unknown_orchestration_is_replaced_by_a_known_one() {
    let folder = Folder::new("unknown-replace");
    for hub in hubs(&folder) {
        let running = Running::on(&hub, |worker| worker.orchestration(KNOWN, known));
        let client = &running.client;
        client.start(UNKNOWN, &4).id("order").await.unwrap();
        let refused = client.start(KNOWN, &1).id("order").await.map(drop).unwrap_err();
        assert!(matches!(refused, ClientError::Client(RawClientError::Refused(_))), "{refused}");
        let start = || client.start(KNOWN, &7).id("order").request_id("cart-1").reuse(any());
        let handle = start().await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), 8);
        let first = handle.status().await.unwrap().unwrap();
        let again = start().await.unwrap();
        assert_eq!(again.status().await.unwrap().unwrap().execution, first.execution, "the same start");
        running.stop().await;
    }
}

/// It has begun, and its code is gone with the worker.
#[tokio::test]
async fn begun_orchestration_without_a_worker_ends() {
    let folder = Folder::new("unknown-begun");
    for hub in hubs(&folder) {
        let running = Running::on(&hub, |worker| worker.orchestration(UNKNOWN, waits));
        let handle = running.client.start(UNKNOWN, &4).id("order").await.unwrap();
        handle.started_within(SOON).await.unwrap();
        running.stop().await;
        handle.terminate("gone").await.unwrap();
        assert_eq!(handle.ended_within(SOON).await.unwrap().status(), Status::Terminated);
        handle.purge().await.unwrap();
    }
}
