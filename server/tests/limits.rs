//! What one caller can use of the server, and that the others notice nothing.

#![allow(clippy::unwrap_used)] // What is not there fails the test.

use std::time::Duration;

use crate::support::worker::Worker;
use crate::support::{Running, get, refused, start, until, with_header, within};
use dauer_proto::CreateInstanceRequest;
use dauer_proto::wire::GetWorkItemsRequest;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::{Code, Request};

/// As many calls as are allowed wait for nothing: the next is refused, and there is room again when their caller has gone
/// (behaviour-48).
#[tokio::test]
async fn waits_are_bounded_and_end_with_their_caller() {
    const WAITS: usize = 1_000;
    let server = Running::with(|options| options.limits.calls = WAITS).await;
    let waiting = server.client().await;
    let waits: Vec<_> = (0..WAITS)
        .map(|number| {
            let mut client = waiting.clone();
            tokio::spawn(async move { client.wait_for_instance_completion(get(&format!("w{number}"))).await })
        })
        .collect();
    let client = server.client().await;
    let full = || async {
        client.clone().hello(()).await.err().filter(|status| status.code() == Code::ResourceExhausted)
    };
    until(full).await;
    assert!(waits.iter().all(|wait| !wait.is_finished()));
    waits.iter().for_each(tokio::task::JoinHandle::abort);
    drop(waiting);
    until(|| async { client.clone().hello(()).await.ok() }).await;
    server.stop().await.unwrap();
}

/// A thousand waits are all woken, and others are served meanwhile.
#[tokio::test]
async fn many_waits_are_woken() {
    let server = Running::start().await;
    let client = server.client().await;
    let waits: Vec<_> = (0..1_000)
        .map(|_| {
            let mut client = client.clone();
            tokio::spawn(async move { client.wait_for_instance_completion(get("a")).await })
        })
        .collect();
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(&client).await;
    worker.finish("1").await;
    for wait in waits {
        let response = within(wait).await.unwrap().unwrap().into_inner();
        assert_eq!(response.orchestration_state.unwrap().output.as_deref(), Some("1"));
    }
    server.stop().await.unwrap();
}

/// Connections beyond the limit are closed; when one goes there is room again.
#[tokio::test]
async fn connections_are_bounded() {
    let server = Running::with(|options| options.limits.connections = 1).await;
    let mut first = server.client().await;
    first.hello(()).await.unwrap();
    let refusal = match server.endpoint().connect().await {
        Ok(channel) => within(dauer_rpc::ServiceClient::new(channel).hello(())).await.is_err(),
        Err(_) => true,
    };
    assert!(refusal, "there is one already");
    first.hello(()).await.unwrap();
    drop(first);
    until(|| async {
        let channel = server.endpoint().connect().await.ok()?;
        dauer_rpc::ServiceClient::new(channel).hello(()).await.ok()
    })
    .await;
    server.stop().await.unwrap();
}

/// A client that connects and says nothing, or never goes on, is sent away, and uses up nobody's connection.
#[tokio::test]
async fn a_client_that_never_speaks_is_sent_away() {
    let server = Running::with(|options| {
        options.limits.connections = 2;
        options.limits.handshake = Duration::from_millis(100);
    })
    .await;
    let mut silent = tokio::net::TcpStream::connect(server.grpc).await.unwrap();
    let mut halting = tokio::net::TcpStream::connect(server.grpc).await.unwrap();
    halting.write_all(b"PRI * HTTP/2.0").await.unwrap();
    for stream in [&mut silent, &mut halting] {
        let mut heard = Vec::new();
        // Any answer will do, or none: the connection has to end.
        let _ = within(stream.read_to_end(&mut heard)).await;
    }
    until(|| async {
        let channel = server.endpoint().connect().await.ok()?;
        dauer_rpc::ServiceClient::new(channel).hello(()).await.ok()
    })
    .await;
    server.stop().await.unwrap();
}

/// A request over HTTP that is begun and never ends is given up, and gives its connection to others.
#[tokio::test]
async fn half_http_requests_are_given_up() {
    let server = Running::with(|options| {
        options.http = Some(std::net::SocketAddr::from(([127, 0, 0, 1], 0)));
        options.limits.connections = 20;
        options.limits.handshake = Duration::from_millis(200);
    })
    .await;
    let address = server.http.unwrap();
    let mut halting = Vec::new();
    for begun in ["", "GET /heal", "GET /healthz HTTP/1.1\r\nHost: dauer\r\n"].repeat(6) {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        halting.push(stream);
    }
    for stream in &mut halting {
        let mut heard = Vec::new();
        // What it is told, if anything, does not matter; that it ends does.
        let _ = within(stream.read_to_end(&mut heard)).await;
    }
    assert_eq!(crate::support::http(address, "/healthz", "").await, (200, "alive\n".to_owned()));
    server.stop().await.unwrap();
}

/// Names of hubs that somebody only tried make room for others; one that workers wait in stays.
#[tokio::test]
async fn hubs_in_use_are_bounded() {
    let server = Running::with(|options| options.limits.hubs = 3).await;
    let mut client = server.client().await;
    let _worker = Worker::with(&client, with_header("taskhub", "kept", GetWorkItemsRequest::default())).await;
    for number in 0..10 {
        let tried = with_header("taskhub", &format!("tried{number}"), get("nobody"));
        assert!(!client.get_instance(tried).await.unwrap().into_inner().exists);
    }
    // A wait uses its hub, and a third one is in nobody's hands.
    let waits: Vec<_> = ["one", "two"]
        .map(|hub| {
            let (mut client, wait) = (client.clone(), with_header("taskhub", hub, get("nobody")));
            tokio::spawn(async move { client.wait_for_instance_start(wait).await })
        })
        .into();
    let another = || with_header("taskhub", "another", get("nobody"));
    until(|| async {
        let refusal = client.clone().get_instance(another()).await.err()?;
        (refusal.code() == Code::ResourceExhausted)
            .then(|| assert!(refusal.message().contains("3 task hubs")))
    })
    .await;
    waits.iter().for_each(tokio::task::JoinHandle::abort);
    until(|| async { client.clone().get_instance(another()).await.ok() }).await;
    server.stop().await.unwrap();
}

/// A connection has so many calls open; the next waits for its turn, and other connections do not.
#[tokio::test]
async fn calls_of_one_connection_are_bounded() {
    let server = Running::with(|options| options.limits.streams_per_connection = 2).await;
    let client = server.client().await;
    let mut workers = Vec::new();
    for _ in 0..2 {
        workers.push(Worker::connect(&client).await);
    }
    let mut third = client.clone();
    let third = tokio::spawn(async move { third.hello(()).await });
    server.client().await.hello(()).await.unwrap();
    assert!(!third.is_finished());
    workers.pop();
    within(third).await.unwrap().unwrap();
    server.stop().await.unwrap();
}

/// Headers that are too large are refused, and the connection lives on.
#[tokio::test]
async fn headers_are_bounded() {
    let server = Running::with(|options| options.limits.header_bytes = 4_096).await;
    let mut client = server.client().await;
    client.hello(()).await.unwrap();
    let fat = with_header("x-fat", &"x".repeat(10_000), ());
    assert!(within(client.hello(fat)).await.is_err());
    within(client.hello(())).await.unwrap();
    server.stop().await.unwrap();
}

/// behaviour-10: a message as large as a payload may be comes in; one that is larger is exhaustion, and its field is named
/// when only the payload is.
#[tokio::test]
async fn messages_and_payloads_are_bounded() {
    let server = Running::start().await;
    let mut client = server.client().await;
    let request =
        |id: &str, bytes: usize| CreateInstanceRequest { input: Some("x".repeat(bytes)), ..start(id, "one") };
    client.start_instance(request("fits", 16 * 1024 * 1024)).await.unwrap();
    let (code, text) = refused(client.start_instance(request("fat", 16 * 1024 * 1024 + 1)).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(text.contains("input has 16777217 bytes, at most 16777216 are allowed"), "{text}");
    let (code, text) = refused(client.start_instance(request("fatter", 32 * 1024 * 1024)).await);
    assert_eq!(code, Code::ResourceExhausted);
    assert!(text.contains("33554432"), "{text}");
    client.hello(()).await.unwrap();
    server.stop().await.unwrap();
}

/// behaviour-8: an answer that is larger than anything else may be comes in, and what it is for fails with the reason: an error
/// would leave Java's worker with a stream that it no longer reads.
#[tokio::test]
async fn an_answer_that_is_too_large_is_taken_and_fails_what_it_is_for() {
    let server = Running::start().await;
    let mut client = server.client().await;
    client.start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(&client).await;
    let turn = worker.turn().await;
    worker.answer(turn.answer(vec![dauer_proto::action::schedule_task(1, "big", None)])).await;
    let task = worker.task().await;
    worker.answer_task(task.answer(&"x".repeat(33 * 1024 * 1024))).await;
    let turn = worker.turn().await;
    assert_eq!(turn.news(), ["OrchestratorStarted", "TaskFailed"]);
    server.stop().await.unwrap();
}

/// A stream that has become old is closed so that workers open another (behaviour-6).
#[tokio::test]
async fn an_old_stream_is_closed_with_unavailable() {
    let server = Running::with(|options| options.limits.connection_age = Duration::from_millis(200)).await;
    let mut worker = Worker::with(&server.client().await, Request::new(GetWorkItemsRequest::default())).await;
    let end = within(worker.next()).await.unwrap_err();
    assert_eq!(end.code(), Code::Unavailable);
    server.client().await.hello(()).await.unwrap();
    server.stop().await.unwrap();
}
