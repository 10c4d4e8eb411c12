//! Hubs as callers meet them: which calls make one, which leave it absent, and when a server lets one go.

#![allow(clippy::unwrap_used)] // What is not there fails the test.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use dauer::{HubName, Store};
use dauer_proto::PurgeRequest;
use dauer_proto::wire::{
    DeleteTaskHubRequest, GetWorkItemsRequest, InstanceBatch, ListInstanceIdsRequest, PurgeInstanceFilter,
    PurgeInstancesRequest, QueryInstancesRequest, RaiseEventRequest, RestartInstanceRequest, ResumeRequest,
    RewindInstanceRequest, SkipGracefulOrchestrationTerminationsRequest, StreamInstanceHistoryRequest,
    SuspendRequest, TerminateRequest,
};
use dauer_store::DumpItem;
use tonic::Code;
use tonic::metadata::MetadataValue;

use crate::support::worker::{Worker, complete};
use crate::support::{Client, Running, get, http, on, refused, start, until, within};

fn with_http(options: &mut dauer_server::ServerOptions) {
    options.http = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
}

fn name(hub: &str) -> HubName {
    HubName::new(hub).unwrap()
}

async fn worker(client: &Client, hub: &str) -> Worker {
    Worker::with(client, on(hub, GetWorkItemsRequest::default())).await
}

/// How many sessions a store has in a hub.
async fn sessions(store: &Store, hub: &str) -> usize {
    let dump = store.hub(name(hub)).manage().dump(None).await.unwrap();
    dump.items.iter().filter(|item| matches!(item, DumpItem::Session(_))).count()
}

/// Every call that makes no hub, on that hub.
async fn read_everything(client: &Client, hub: &str) {
    let mut client = client.clone();
    let id = || "i".to_owned();
    assert!(!client.get_instance(on(hub, get("i"))).await.unwrap().into_inner().exists);
    client.query_instances(on(hub, QueryInstancesRequest::default())).await.unwrap();
    client.list_instance_ids(on(hub, ListInstanceIdsRequest::default())).await.unwrap();
    let history = StreamInstanceHistoryRequest { instance_id: id(), ..Default::default() };
    assert_eq!(refused(client.stream_instance_history(on(hub, history)).await).0, Code::NotFound);
    let mut wait = on(hub, get("i"));
    wait.set_timeout(Duration::from_millis(50));
    assert!(client.wait_for_instance_completion(wait).await.is_err(), "it waits as for any absent instance");
    for request in [
        PurgeRequest::InstanceId(id()),
        PurgeRequest::InstanceBatch(InstanceBatch { instance_ids: vec![id()] }),
        PurgeRequest::PurgeInstanceFilter(PurgeInstanceFilter::default()),
    ] {
        let purge = PurgeInstancesRequest { recursive: true, request: Some(request), ..Default::default() };
        let purged = client.purge_instances(on(hub, purge)).await.unwrap().into_inner();
        assert_eq!(purged.deleted_instance_count, 0);
    }
    let raise = RaiseEventRequest { instance_id: id(), name: "go".into(), input: None };
    assert_eq!(refused(client.raise_event(on(hub, raise)).await).0, Code::NotFound);
    let suspend = SuspendRequest { instance_id: id(), reason: None };
    assert_eq!(refused(client.suspend_instance(on(hub, suspend)).await).0, Code::NotFound);
    let resume = ResumeRequest { instance_id: id(), reason: None };
    assert_eq!(refused(client.resume_instance(on(hub, resume)).await).0, Code::NotFound);
    let terminate = TerminateRequest { instance_id: id(), ..Default::default() };
    assert_eq!(refused(client.terminate_instance(on(hub, terminate)).await).0, Code::NotFound);
    let rewind = RewindInstanceRequest { instance_id: id(), reason: None };
    assert_eq!(refused(client.rewind_instance(on(hub, rewind)).await).0, Code::NotFound);
    let restart = RestartInstanceRequest { instance_id: id(), restart_with_new_instance_id: false };
    assert_eq!(refused(client.restart_instance(on(hub, restart)).await).0, Code::NotFound);
    let batch = Some(InstanceBatch { instance_ids: vec![id()] });
    let force = SkipGracefulOrchestrationTerminationsRequest { instance_batch: batch, reason: None };
    let left = client.skip_graceful_orchestration_terminations(on(hub, force)).await.unwrap().into_inner();
    assert_eq!(left.unterminated_instance_ids, ["i"]);
}

#[tokio::test]
async fn reading_makes_no_hub_and_starts_and_workers_do() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("hubs-{}.db", std::process::id()));
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    for url in ["memory:".to_owned(), format!("sqlite:{}", path.display())] {
        let store = Store::open(&url).unwrap();
        let server = Running::with(|options| {
            options.store = store.clone().into();
            with_http(options);
        })
        .await;
        let (client, address) = (server.client().await, server.http.unwrap());
        read_everything(&client, "ghost").await;
        let (code, said) = http(address, "/api/v1/scale?hub=ghost", "").await;
        assert_eq!((code, said.contains("no task hub 'ghost'")), (404, true), "{said}");
        assert_eq!(http(address, "/readyz", "").await.0, 200);
        assert_eq!(store.hubs().await.unwrap(), [], "{url}");
        client.clone().delete_task_hub(on("ghost", DeleteTaskHubRequest {})).await.unwrap();
        assert_eq!(store.hubs().await.unwrap(), [], "{url}");
        client.clone().start_instance(on("ghost", start("a", "one"))).await.unwrap();
        assert_eq!(http(address, "/api/v1/scale?hub=ghost", "").await.0, 200);
        let _worker = worker(&client, "north").await;
        until(|| async { (store.hubs().await.unwrap() == [name("ghost"), name("north")]).then_some(()) })
            .await;
        server.stop().await.unwrap();
        store.close().await;
    }
}

/// A hub that the server is set up with is known before it exists.
#[tokio::test]
async fn scale_of_a_listed_hub_is_told_without_making_it() {
    let store = Store::open("memory:").unwrap();
    let server = Running::with(|options| {
        options.store = store.clone().into();
        options.hubs = Some(vec![name("north")]);
        with_http(options);
    })
    .await;
    let address = server.http.unwrap();
    assert_eq!(http(address, "/api/v1/scale?hub=north", "").await.0, 200);
    assert_eq!(http(address, "/api/v1/scale?hub=south", "").await.0, 404);
    let start = server.client().await.start_instance(on("south", start("a", "one"))).await;
    assert_eq!(refused(start).0, Code::NotFound);
    assert_eq!(store.hubs().await.unwrap(), []);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn more_hubs_than_slots_had_a_worker_and_a_new_one_comes_in() {
    let server = Running::with(|options| {
        options.limits.hubs = 3;
        with_http(options);
    })
    .await;
    let client = server.client().await;
    for number in 0..10 {
        let hub = format!("hub{number}");
        // The stream of the hub before may still be open for a moment.
        let items = || on(&hub, GetWorkItemsRequest::default());
        drop(until(|| async { Worker::try_with(&client, items()).await.ok() }).await);
    }
    let another = || on("another", start("a", "one"));
    until(|| async { client.clone().start_instance(another()).await.ok() }).await;
    assert_eq!(http(server.http.unwrap(), "/readyz", "").await, (200, "ready\n".to_owned()));
    server.stop().await.unwrap();
}

/// Only the timer lets it go here: there are more slots than hubs.
#[tokio::test]
async fn idle_hub_is_let_go_by_a_timer_and_gets_a_new_host() {
    let store = Store::open("memory:").unwrap();
    let server = Running::with(|options| {
        options.store = store.clone().into();
        options.limits.hub_idle = Duration::from_millis(40);
        with_http(options);
    })
    .await;
    let (client, address) = (server.client().await, server.http.unwrap());
    let first = worker(&client, "north").await;
    let busy = worker(&client, "busy").await;
    until(|| async { (sessions(&store, "north").await == 1).then_some(()) }).await;
    drop(first);
    until(|| async { (sessions(&store, "north").await == 0).then_some(()) }).await;
    let figures = http(address, "/metrics", "").await.1;
    assert!(!figures.contains("hub=\"north\""), "{figures}");
    assert!(figures.contains("dauer_host_running{hub=\"busy\"} 1\n"), "{figures}");
    let mut second = worker(&client, "north").await;
    client.clone().start_instance(on("north", start("a", "one"))).await.unwrap();
    assert_eq!(second.turn().await.request.instance_id, "a");
    drop(busy);
    server.stop().await.unwrap();
}

/// A call or stream that comes while its hub is let go meets the old hub or a new one, never none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_that_come_while_their_hub_is_let_go_get_work() {
    let server = Running::with(|options| options.limits.hub_idle = Duration::from_millis(1)).await;
    let client = server.client().await;
    for round in 0..200 {
        let id = format!("i{round}");
        client.clone().start_instance(on("north", start(&id, "one"))).await.unwrap();
        let mut worker = worker(&client, "north").await;
        let turn = worker.turn().await;
        assert_eq!(turn.request.instance_id, id);
        let answer = on("north", turn.answer(vec![complete(1, "1")]));
        client.clone().complete_orchestrator_task(answer).await.unwrap();
        within(client.clone().wait_for_instance_completion(on("north", get(&id)))).await.unwrap();
    }
    server.stop().await.unwrap();
}

/// A host that still drains holds its session: the deletion waits for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hub_that_is_let_go_can_be_deleted_meanwhile() {
    let server = Running::with(|options| options.limits.hub_idle = Duration::from_millis(1)).await;
    let client = server.client().await;
    for _ in 0..50 {
        drop(worker(&client, "north").await);
        client.clone().delete_task_hub(on("north", DeleteTaskHubRequest {})).await.unwrap();
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn taskhub_header_that_names_no_hub_is_refused_by_name() {
    let store = Store::open("memory:").unwrap();
    let server = Running::with(|options| options.store = store.clone().into()).await;
    for value in ["n\u{f6}rdlich".as_bytes(), b"n\xf6rdlich", b"no/hub", b"-"] {
        let mut request = tonic::Request::new(start("a", "one"));
        request.metadata_mut().insert("taskhub", MetadataValue::try_from(value).unwrap());
        let (code, said) = refused(server.client().await.start_instance(request).await);
        assert_eq!((code, said.contains("taskhub")), (Code::InvalidArgument, true), "{value:?}: {said}");
    }
    assert_eq!(store.hubs().await.unwrap(), []);
    server.stop().await.unwrap();
}
