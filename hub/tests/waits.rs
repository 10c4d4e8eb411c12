//! Waits: woken by what they are for, by their own hub or by somebody else's writes, and by nothing else.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::time::Duration;

use futures::FutureExt;

use dauer_core::model::Status;
use dauer_hub::HostOptions;
use dauer_memory::Call;

use crate::support::{Chain, World};

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
    assert_eq!(world.plan.count(Call::Get), 1);

    let world = World::new();
    let id = world.start("chain", 1).await;
    let host =
        async { world.host(Chain::new(), HostOptions { activities_max: 0, ..HostOptions::default() }) };
    let day = Duration::from_secs(24 * 60 * 60);
    let (record, _host) = futures::future::join(world.client.wait_started(&id, day), host).await;
    assert_eq!(record.unwrap().status, Status::Running);
    assert_eq!(world.plan.count(Call::Get), 2);
}

#[tokio::test(start_paused = true)]
async fn what_somebody_else_wrote_wakes_a_wait() {
    let world = World::new();
    let elsewhere = world.client_elsewhere();
    let mut ids = Vec::new();
    for i in 0..20 {
        ids.push(world.start(&format!("chain-{i}"), 2).await);
    }
    let day = Duration::from_secs(24 * 60 * 60);
    let waits = futures::future::join_all(ids.iter().map(|id| elsewhere.wait_ended(id, day)));
    let host = async { world.host(Chain::new(), HostOptions::default()) };
    let (records, _host) = futures::future::join(waits, host).await;
    assert!(records.into_iter().all(|record| record.unwrap().status == Status::Completed));
    // Less than the poll that is behind every wait, and one look for all of them.
    assert!(world.elapsed() < Duration::from_millis(100), "it took {:?}", world.elapsed());
    let looks = world.plan.count(Call::Get);
    assert!((21..30).contains(&looks), "{looks} looks: twenty to begin with, and a few for all together");
}

#[tokio::test(start_paused = true)]
async fn a_condition_is_judged_by_what_was_found() {
    let world = World::new();
    let elsewhere = world.client_elsewhere();
    let id = world.start("chain", 2).await;
    let day = Duration::from_secs(24 * 60 * 60);
    let wait = elsewhere.wait(&id, day, |record| record.revision.0 >= 3);
    let host = async { world.host(Chain::new(), HostOptions::default()) };
    let (record, _host) = futures::future::join(wait, host).await;
    assert_eq!(record.unwrap().revision.0, 3);
    assert!(world.elapsed() < Duration::from_millis(100), "it took {:?}", world.elapsed());
}
