//! Waits: woken by what they are for, by their own hub or by somebody else's writes, and by nothing else.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::time::Duration;

use futures::FutureExt;

use dauer_core::InstanceId;
use dauer_core::model::Status;
use dauer_core::send::StartRequest;
use dauer_hub::{Client, ClientError, HostOptions};
use dauer_store::{Created, Reuse};

use crate::support::{Chain, Op, World};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Keeps a client listening: it waits for what never comes.
async fn listens(client: &Client) {
    let client = client.clone();
    let nobody = InstanceId::new("nobody").unwrap();
    tokio::spawn(async move { client.wait_ended(&nobody, DAY).await });
    tokio::task::yield_now().await;
}

async fn start_as(client: &Client, id: &InstanceId, key: u128) -> Result<Created, ClientError> {
    let request = StartRequest { input: Some("1".into()), ..StartRequest::new(id.clone(), "chain") };
    client.start_requested(request, Reuse::default(), key).await
}

#[tokio::test(start_paused = true)]
async fn a_wait_looks_only_for_what_it_is_for() {
    let world = World::new();
    let id = world.start("chain", 5).await;
    let wait = world.ended(&id);
    // The activities take their time, so that the instance is seen to run before it ends.
    let slow = Chain::new().on_activity(|_| {
        async {
            let time = Duration::from_millis(100);
            tokio::time::timeout(time, futures::future::pending::<()>()).await.unwrap_err();
            Ok(Some("1".into()))
        }
        .boxed()
    });
    let host = async { world.host(slow, HostOptions::default()) };
    let (record, _host) = futures::future::join(wait, host).await;
    assert_eq!(record.status, Status::Completed);
    // At the beginning; not when the instance began to run, and its end came with the record.
    assert_eq!(world.plan.count(Op::Get), 1);

    let world = World::new();
    let id = world.start("chain", 1).await;
    let host =
        async { world.host(Chain::new(), HostOptions { activities_max: 0, ..HostOptions::default() }) };
    let (record, _host) = futures::future::join(world.client.wait_started(&id, DAY), host).await;
    assert_eq!(record.unwrap().status, Status::Running);
    assert_eq!(world.plan.count(Op::Get), 2);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_wrote_wakes_a_wait() {
    let world = World::new();
    let elsewhere = world.client_elsewhere();
    let mut ids = Vec::new();
    for i in 0..20 {
        ids.push(world.start(&format!("chain-{i}"), 2).await);
    }
    let waits = futures::future::join_all(ids.iter().map(|id| elsewhere.wait_ended(id, DAY)));
    let host = async { world.host(Chain::new(), HostOptions::default()) };
    let (records, _host) = futures::future::join(waits, host).await;
    assert!(records.into_iter().all(|record| record.unwrap().status == Status::Completed));
    // Less than the poll that is behind every wait, and one look for all of them.
    assert!(world.elapsed() < Duration::from_millis(100), "it took {:?}", world.elapsed());
    let looks = world.plan.count(Op::Get);
    assert!((21..30).contains(&looks), "{looks} looks: twenty to begin with, and a few for all together");
}

#[tokio::test(start_paused = true)]
async fn a_condition_is_judged_by_what_was_found() {
    let world = World::new();
    let elsewhere = world.client_elsewhere();
    let id = world.start("chain", 2).await;
    let wait = elsewhere.wait(&id, DAY, |record| record.revision.0 >= 3);
    let host = async { world.host(Chain::new(), HostOptions::default()) };
    let (record, _host) = futures::future::join(wait, host).await;
    assert_eq!(record.unwrap().revision.0, 3);
    assert!(world.elapsed() < Duration::from_millis(100), "it took {:?}", world.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_what_a_listening_client_began_is_not_looked_for() {
    let world = World::new();
    let _host = world.host(Chain::new(), HostOptions::default());
    listens(&world.client).await;
    let before = world.plan.count(Op::Get);
    for i in 0..20 {
        let id = world.start(&format!("chain-{i}"), 2).await;
        assert_eq!(world.ended(&id).await.status, Status::Completed);
    }
    assert_eq!(world.plan.count(Op::Get), before);
    assert!(world.elapsed() < Duration::from_millis(100), "it took {:?}", world.elapsed());
}

#[tokio::test(start_paused = true)]
async fn what_ended_before_anyone_waited_is_looked_for() {
    let world = World::new();
    let _host = world.host(Chain::new(), HostOptions::default());
    listens(&world.client).await;
    let id = InstanceId::new("early").unwrap();
    start_as(&world.client, &id, 7).await.unwrap();
    // By another client, so that the first one only hears of it.
    world.client_elsewhere().wait_ended(&id, DAY).await.unwrap();
    tokio::task::yield_now().await;
    let at = (world.elapsed(), world.plan.count(Op::Get));
    assert_eq!(world.ended(&id).await.status, Status::Completed);
    assert_eq!(world.plan.count(Op::Get), at.1 + 1);

    // The same start again began nothing: its run has ended, and nobody will tell.
    assert!(matches!(start_as(&world.client, &id, 7).await, Ok(Created::Repeat(_))));
    assert_eq!(world.ended(&id).await.status, Status::Completed);
    assert_eq!(world.elapsed(), at.0, "no poll was needed");
}

#[tokio::test(start_paused = true)]
async fn after_hints_were_missed_a_wait_looks_first() {
    let world = World::new();
    let elsewhere = world.client_elsewhere();
    let _host = world.host(Chain::new(), HostOptions::default());
    listens(&elsewhere).await;
    let id = InstanceId::new("unheard").unwrap();
    start_as(&elsewhere, &id, 7).await.unwrap();
    world.ended(&id).await;
    // All that this client has heard of it is that somebody has written.
    tokio::task::yield_now().await;
    let at = world.elapsed();
    assert_eq!(elsewhere.wait_ended(&id, DAY).await.unwrap().status, Status::Completed);
    assert_eq!(world.elapsed(), at, "no poll was needed");
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_takes_no_time_is_a_look() {
    let world = World::new();
    listens(&world.client).await;
    let id = world.start("chain", 1).await;
    let before = world.plan.count(Op::Get);
    let none = world.client.wait_ended(&id, Duration::ZERO).await;
    assert!(matches!(none, Err(ClientError::TimedOut(_))), "{none:?}");
    assert_eq!(world.plan.count(Op::Get), before + 1);
}
