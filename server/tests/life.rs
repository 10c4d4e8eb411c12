//! The beginning and the end of a server, and what it tells of itself over HTTP.

#![allow(clippy::unwrap_used)] // What is not there fails the test.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use crate::support::worker::{Worker, complete};
use crate::support::{Running, ended, get, http, on, start, state, until, within};
use dauer_proto::action;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;

/// A file that is not there yet.
fn fresh(name: &str) -> PathBuf {
    let path =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("life-{name}-{}.db", std::process::id()));
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{suffix}", path.display()));
    }
    path
}

fn url(path: &std::path::Path) -> String {
    format!("sqlite:{}", path.display())
}

fn with_http(options: &mut dauer_server::ServerOptions) {
    options.http = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
}

/// behaviour-5: Hello is answered while the store is still being opened; calls that need it wait.
#[tokio::test]
async fn hello_is_answered_before_the_store_is_open() {
    let path = fresh("opening");
    let lock = rusqlite::Connection::open(&path).unwrap();
    lock.execute_batch("PRAGMA journal_mode = WAL; BEGIN EXCLUSIVE; CREATE TABLE mine (x)").unwrap();
    let server = Running::with(|options| {
        options.store = url(&path).into();
        with_http(options);
    })
    .await;
    let client = server.client().await;
    within(client.clone().hello(())).await.unwrap();
    let (code, said) = http(server.http.unwrap(), "/readyz", "").await;
    assert_eq!((code, said.as_str()), (503, "the store is still being opened\n"));
    assert_eq!(http(server.http.unwrap(), "/healthz", "").await.0, 200);
    let starting = {
        let mut client = client.clone();
        tokio::spawn(async move { client.start_instance(start("a", "one")).await })
    };
    lock.execute_batch("ROLLBACK").unwrap();
    within(starting).await.unwrap().unwrap();
    assert_eq!(http(server.http.unwrap(), "/readyz", "").await, (200, "ready\n".to_owned()));
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_ends_the_server() {
    let server = Running::with(|options| options.store = "nonsense:".into()).await;
    let error = server.end().await.unwrap_err();
    assert!(matches!(error, dauer_server::ServerError::Store(_)), "{error}");
}

/// What is in flight when the server is told to stop is finished, nothing new is begun, then everyone is sent away with
/// UNAVAILABLE (behaviour-6), and all of it is durable.
#[tokio::test]
async fn a_server_that_is_told_to_stop_drains() {
    let path = fresh("drain");
    let mut server = Running::with(|options| {
        options.store = url(&path).into();
        options.host.drain_max = crate::support::PATIENCE;
    })
    .await;
    let client = server.client().await;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(&client).await;
    let turn = worker.turn().await;
    let wait = {
        let mut client = client.clone();
        tokio::spawn(async move { client.wait_for_instance_completion(get("later")).await })
    };
    server.tell_to_stop();
    // Nobody comes in any more to take work, while the others still finish theirs.
    until(|| async {
        let another = Worker::try_with(&client, dauer_proto::wire::GetWorkItemsRequest::default()).await;
        another.err().filter(|status| status.code() == Code::Unavailable)
    })
    .await;
    client.clone().start_instance(start("later", "one")).await.unwrap();
    worker.answer(turn.answer(vec![action::schedule_task(1, "t", None)])).await;
    assert_eq!(
        within(worker.next()).await.unwrap_err().code(),
        Code::Unavailable,
        "nothing new, then the end"
    );
    assert_eq!(within(wait).await.unwrap().unwrap_err().code(), Code::Unavailable);
    let address = server.grpc;
    server.end().await.unwrap();
    assert!(tokio::net::TcpStream::connect(address).await.is_err(), "the port is closed");
    // All of it is there for the next one.
    let server = Running::with(|options| options.store = url(&path).into()).await;
    let client = server.client().await;
    assert_eq!(crate::support::history(&client, "a").await.len(), 3);
    let mut worker = Worker::connect(&client).await;
    let mut tasks = 0;
    for _ in 0..2 {
        match within(worker.next()).await.unwrap().unwrap().request.unwrap() {
            dauer_proto::WorkItemRequest::ActivityRequest(_) => tasks += 1,
            other => assert!(matches!(other, dauer_proto::WorkItemRequest::OrchestratorRequest(_))),
        }
    }
    assert_eq!(tasks, 1);
    server.stop().await.unwrap();
}

/// A worker that never answers does not keep a server from ending, and loses nothing.
#[tokio::test]
async fn draining_ends() {
    let path = fresh("hang");
    let server = Running::with(|options| options.store = url(&path).into()).await;
    let client = server.client().await;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(&client).await;
    worker.turn().await;
    server.stop().await.unwrap();
    let server = Running::with(|options| options.store = url(&path).into()).await;
    let client = server.client().await;
    let mut worker = Worker::connect(&client).await;
    let turn = worker.turn().await;
    worker.answer(turn.answer(vec![complete(1, "1")])).await;
    ended(&client, "a").await;
    server.stop().await.unwrap();
}

/// A host that the store will never let work again says so: streams end, and the server is not ready.
#[tokio::test]
async fn a_store_that_can_no_longer_be_used_is_told() {
    let path = fresh("newer");
    let server = Running::with(|options| {
        options.store = url(&path).into();
        with_http(options);
    })
    .await;
    let client = server.client().await;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let newer = rusqlite::Connection::open(&path).unwrap();
    newer.busy_timeout(Duration::from_secs(5)).unwrap();
    newer.execute("UPDATE meta SET generation = 99", []).unwrap();
    let mut worker = Worker::connect(&client).await;
    assert_eq!(within(worker.next()).await.unwrap_err().code(), Code::Unavailable);
    let again =
        Worker::try_with(&client, dauer_proto::wire::GetWorkItemsRequest::default()).await.err().unwrap();
    assert_eq!(
        (again.code(), again.message().contains("use a newer dauer")),
        (Code::Unavailable, true),
        "{again}"
    );
    let mut health = tonic_health::pb::health_client::HealthClient::new(server.channel().await);
    let asked = tonic_health::pb::HealthCheckRequest { service: String::new() };
    let mut told = health.watch(asked).await.unwrap().into_inner();
    while within(told.message()).await.unwrap().unwrap().status() != ServingStatus::NotServing {}
    let (code, said) = http(server.http.unwrap(), "/readyz", "").await;
    assert_eq!((code, said.contains("use a newer dauer")), (503, true), "{said}");
    assert!(!said.contains("default"), "no hub is named to those who show no token: {said}");
    assert!(
        http(server.http.unwrap(), "/metrics", "").await.1.contains("dauer_host_failed{hub=\"default\"} 1\n")
    );
    let refused = client.clone().get_instance(get("a")).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    server.stop().await.unwrap();
}

#[tokio::test]
async fn http_tells_figures() {
    let tokens = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("life-tokens");
    std::fs::write(&tokens, "north 0123456789abcdef\n* fedcba9876543210\n").unwrap();
    let server = Running::with(|options| {
        options.tokens = Some(tokens);
        with_http(options);
    })
    .await;
    let address = server.http.unwrap();
    let let_in = |hub: &str, message| {
        let mut request = on(hub, message);
        request.metadata_mut().insert("authorization", "Bearer 0123456789abcdef".parse().unwrap());
        request
    };
    let mut client = server.client().await;
    for id in ["a", "b"] {
        client.start_instance(let_in("north", start(id, "one"))).await.unwrap();
    }
    let bearer = "Authorization: Bearer 0123456789abcdef\r\n";
    let (code, said) = http(address, "/api/v1/scale?hub=north", bearer).await;
    assert_eq!(code, 200, "{said}");
    assert_eq!(
        said,
        r#"{"hub":"north","ready":{"orchestrations":2,"entities":0,"activities":0},"held":{"orchestrations":0,"entities":0,"activities":0}}"#
    );
    assert_eq!(http(address, "/api/v1/scale?hub=north", "").await.0, 401);
    assert_eq!(http(address, "/api/v1/scale?hub=south", bearer).await.0, 403);
    assert_eq!(http(address, "/api/v1/scale?hub=n!1", bearer).await.0, 400);
    assert_eq!(http(address, "/nothing", "").await.0, 404);
    assert_eq!(http(address, "/readyz", "").await, (200, "ready\n".to_owned()));
    assert_eq!(http(address, "/metrics", "").await.0, 401, "it names hubs");
    assert_eq!(http(address, "/metrics", bearer).await.0, 403, "it is about all hubs");
    let (code, metrics) = http(address, "/metrics", "Authorization: Bearer fedcba9876543210\r\n").await;
    assert_eq!(code, 200);
    assert!(metrics.contains("dauer_worker_streams{hub=\"north\"} 0\n"), "{metrics}");
    server.stop().await.unwrap();
}

/// behaviour-1: hubs are worlds apart, and the default one needs no name.
#[tokio::test]
async fn hubs_know_nothing_of_each_other() {
    let server = Running::start().await;
    let client = server.client().await;
    client.clone().start_instance(on("north", start("a", "one"))).await.unwrap();
    assert!(!client.clone().get_instance(get("a")).await.unwrap().into_inner().exists);
    client.clone().start_instance(start("a", "two")).await.unwrap();
    assert_eq!(state(&client, "a").await.name, "two");
    let named = client.clone().get_instance(on("default", get("a"))).await.unwrap().into_inner();
    assert_eq!(named.orchestration_state.unwrap().name, "two");
    let mut worker = Worker::connect(&client).await;
    assert_eq!(worker.turn().await.request.instance_id, "a");
    assert!(worker.is_idle().await, "what is in the other hub is not for it");
    server.stop().await.unwrap();
}

/// Tools find out by themselves what the server speaks.
#[tokio::test]
async fn the_protocol_is_described() {
    use tonic_reflection::pb::v1::ServerReflectionRequest;
    use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
    use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
    use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
    let server = Running::start().await;
    let ask = |message| {
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(message) };
        futures::stream::once(std::future::ready(request))
    };
    let mut client = ServerReflectionClient::new(server.channel().await);
    let answer =
        client.server_reflection_info(ask(MessageRequest::ListServices(String::new()))).await.unwrap();
    let answer = within(answer.into_inner().message()).await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(listed) = answer else { panic!("{answer:?}") };
    for name in [dauer_rpc::SERVICE_NAME, "dauer.management.v1.Management"] {
        assert!(listed.service.iter().any(|service| service.name == name), "{listed:?}");
    }
    server.stop().await.unwrap();
}

/// behaviour-48: a wait ends with its caller.
#[tokio::test]
async fn a_wait_whose_caller_is_gone_is_gone() {
    let server = Running::with(with_http).await;
    let address = server.http.unwrap();
    let client = server.client().await;
    let there_are = async |count: usize| {
        let line = format!("dauer_waits{{hub=\"default\"}} {count}\n");
        until(|| async { http(address, "/metrics", "").await.1.contains(&line).then_some(()) }).await;
    };
    let waits: Vec<_> = (0..10)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.wait_for_instance_completion(get("absent")).await })
        })
        .collect();
    there_are(10).await;
    waits.iter().for_each(tokio::task::JoinHandle::abort);
    there_are(0).await;
    server.stop().await.unwrap();
}

/// Callers that go away at any point leave nothing behind that others notice.
#[tokio::test]
async fn callers_that_go_away_are_forgotten() {
    let server = Running::start().await;
    let client = server.client().await;
    for round in 0..40_u64 {
        let other = server.client().await;
        let calls = async {
            let mut worker = Worker::connect(&other).await;
            other.clone().start_instance(start(&format!("i{round}"), "one")).await.unwrap();
            loop {
                answer(&mut worker).await;
            }
        };
        // A little later each time: in the middle of each call at least once.
        let _: Result<(), _> = tokio::time::timeout(Duration::from_micros(round * round * 10), calls).await;
        drop(other);
    }
    let mut worker = Worker::connect(&client).await;
    client.clone().start_instance(start("last", "last")).await.unwrap();
    // Whatever the others have left behind is work like any other.
    while answer(&mut worker).await != "last" {}
    ended(&client, "last").await;
    server.stop().await.unwrap();
}

/// Answers whatever comes next, and tells whose it was: an instance has an activity, and ends.
async fn answer(worker: &mut Worker) -> String {
    let item = within(worker.next()).await.unwrap().unwrap();
    match item.request.unwrap() {
        dauer_proto::WorkItemRequest::OrchestratorRequest(request) => {
            let first = request.past_events.is_empty();
            let done = if first { action::schedule_task(1, "t", None) } else { complete(2, "1") };
            let answer = dauer_proto::OrchestratorResponse {
                instance_id: request.instance_id.clone(),
                completion_token: item.completion_token,
                actions: vec![done],
                ..Default::default()
            };
            worker.answer(answer).await;
            if first { String::new() } else { request.instance_id }
        }
        dauer_proto::WorkItemRequest::ActivityRequest(request) => {
            let answer = dauer_proto::ActivityResponse {
                instance_id: request.orchestration_instance.unwrap().instance_id,
                task_id: request.task_id,
                completion_token: item.completion_token,
                ..Default::default()
            };
            worker.answer_task(answer).await;
            String::new()
        }
        other => panic!("{other:?}"),
    }
}
