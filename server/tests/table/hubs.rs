//! Hubs.

use dauer_proto::wire::{CreateTaskHubRequest, DeleteTaskHubRequest, GetWorkItemsRequest};

use super::Fixture;
use crate::support::worker::{Worker, complete};
use crate::support::{get, on, start, until};

async fn exists(fixture: &Fixture, hub: &str) -> bool {
    fixture.client.clone().get_instance(on(hub, get("a"))).await.unwrap().into_inner().exists
}

/// behaviour-59: there from its first use on; empty again when that is asked for.
pub(crate) async fn create_task_hub(fixture: &Fixture) {
    let create = |recreate_if_exists| on("north", CreateTaskHubRequest { recreate_if_exists });
    fixture.client.clone().create_task_hub(create(false)).await.unwrap();
    fixture.client.clone().start_instance(on("north", start("a", "one"))).await.unwrap();
    fixture.client.clone().create_task_hub(create(false)).await.unwrap();
    assert!(exists(fixture, "north").await);
    fixture.client.clone().create_task_hub(create(true)).await.unwrap();
    assert!(!exists(fixture, "north").await);
}

/// behaviour-59: all that is in it goes, workers are sent away and may come back; other hubs notice nothing.
pub(crate) async fn delete_task_hub(fixture: &Fixture) {
    let client = &fixture.client;
    for hub in ["north", "south"] {
        client.clone().start_instance(on(hub, start("a", "one"))).await.unwrap();
    }
    let items = || on("north", GetWorkItemsRequest::default());
    let mut worker = Worker::with(client, items()).await;
    let turn = worker.turn().await;
    let answer = on("north", turn.answer(vec![complete(1, "1")]));
    client.clone().complete_orchestrator_task(answer).await.unwrap();
    client.clone().delete_task_hub(on("north", DeleteTaskHubRequest {})).await.unwrap();
    assert_eq!(worker.next().await.unwrap_err().code(), tonic::Code::Unavailable);
    assert!(!exists(fixture, "north").await && exists(fixture, "south").await);
    client.clone().delete_task_hub(on("absent", DeleteTaskHubRequest {})).await.unwrap();
    // Everything begins anew.
    let mut worker = until(|| async { Worker::try_with(client, items()).await.ok() }).await;
    client.clone().start_instance(on("north", start("a", "one"))).await.unwrap();
    assert_eq!(worker.turn().await.request.instance_id, "a");
}
