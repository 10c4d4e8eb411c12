//! What operators do, over a server.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use dauer::{ClientError, RawClientError, Status};

use crate::code::{self, ASKS, CHAIN, Counts, FAILS, GO, worker};
use crate::support::{SOON, Served, Working, eventually};

/// Behaviour 54: what failed is done again, what succeeded is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_instance_is_rewound() {
    let served = Served::new().await;
    let (hub, counts) = (served.hub(), Arc::new(Counts::default()));
    let working = Working::start(code::register(hub.worker(), &counts));
    let fails = hub.client().start(FAILS, &7).id("fails").await.unwrap();
    assert_eq!(fails.ended_within(SOON).await.unwrap().status(), Status::Failed);
    counts.mended.store(1, Ordering::SeqCst);
    fails.rewind("it is mended").await.unwrap();
    assert_eq!(fails.output_within(SOON).await.unwrap(), 7);
    assert_eq!(counts.added.load(Ordering::SeqCst), 1, "what succeeded is not done again");
    working.stop().await;
    served.stop().await;
}

/// Behaviour 53.
#[tokio::test(flavor = "multi_thread")]
async fn an_instance_is_restarted_in_its_place_and_under_another_id() {
    let served = Served::new().await;
    let hub = served.hub();
    let working = Working::start(worker(&hub));
    let chain = hub.client().start(CHAIN, &5).id("chain").tag("zone", "north").await.unwrap();
    let first = chain.ended_within(SOON).await.unwrap();
    chain.restart().await.unwrap();
    let second = eventually(async || {
        let found = hub.client().get(chain.id()).await.unwrap().unwrap();
        (found.execution() != first.execution() && found.status().is_ended()).then_some(found)
    });
    let second = second.await;
    assert_eq!(second.output::<u32>().unwrap(), Some(8));
    let other = chain.restart_as("chain-2").await.unwrap();
    assert_eq!(other.output_within(SOON).await.unwrap(), 8);
    let found = hub.client().get(other.id()).await.unwrap().unwrap();
    assert_eq!(found.tag("zone"), Some("north"));
    let taken = chain.restart_as("chain-2").await.map(drop).unwrap_err();
    assert!(matches!(taken, ClientError::Client(RawClientError::Refused(_))), "{taken}");
    working.stop().await;
    served.stop().await;
}

/// Behaviour 30.
#[tokio::test(flavor = "multi_thread")]
async fn a_suspended_instance_goes_on_when_it_is_resumed() {
    let served = Served::new().await;
    let hub = served.hub();
    let working = Working::start(worker(&hub));
    let asks = hub.client().start(ASKS, &0).id("asks").await.unwrap();
    asks.started_within(SOON).await.unwrap();
    asks.suspend("wait").await.unwrap();
    let suspended = |record: &dauer::Record| record.status == Status::Suspended;
    hub.client().raw().wait(asks.id(), SOON, suspended).await.unwrap();
    asks.raise(GO, &"now".to_owned()).await.unwrap();
    let late = asks.ended_within(Duration::from_millis(100)).await.map(drop).unwrap_err();
    assert!(matches!(late, ClientError::Client(RawClientError::TimedOut(_))), "{late}");
    asks.resume("go on").await.unwrap();
    assert_eq!(asks.output_within(SOON).await.unwrap(), "now");
    working.stop().await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn retention_removes_what_ended_long_ago() {
    let served = Served::new().await;
    let hub = served.hub();
    let working = Working::start(worker(&hub).retention(Duration::from_millis(1)));
    let chain = hub.client().start(CHAIN, &5).id("chain").await.unwrap();
    let living = hub.client().start(ASKS, &5).id("living").await.unwrap();
    eventually(async || chain.status().await.unwrap().is_none().then_some(())).await;
    assert!(living.status().await.unwrap().is_some());
    working.stop().await;
    served.stop().await;
}
