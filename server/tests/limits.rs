//! What one caller can use of the server, and that the others notice nothing.

#![allow(clippy::unwrap_used)] // What is not there fails the test.

mod support;

use std::time::Duration;

use dauer_proto::CreateInstanceRequest;
use dauer_proto::wire::GetWorkItemsRequest;
use support::worker::Worker;
use support::{Running, get, refused, start, until, with_header, within};
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
