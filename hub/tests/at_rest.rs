//! A host at rest has a claim that waits in the store.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::time::Duration;

use futures::FutureExt;
use futures::channel::oneshot;

use dauer_core::model::Status;
use dauer_hub::HostOptions;

use crate::support::{Act, Chain, Fate, Op, World, pass};

#[tokio::test(start_paused = true)]
async fn a_host_that_stops_wins_nothing_that_becomes_ready() {
    let world = World::new();
    let (go, gone) = oneshot::channel::<()>();
    let gone = gone.shared();
    let chain = Chain::new().fusing().on_activity(move |_| {
        let gone = gone.clone();
        async move {
            let _ = gone.await;
            Ok(Some("1".into()))
        }
        .boxed()
    });
    let host = world.host(chain, HostOptions::default());
    let first = world.start("first", 1).await;
    world.until(&first, |record| record.status == Status::Running).await;
    pass(1).await;
    let later = async {
        // It drains: the activity holds it up.
        pass(1).await;
        let second = world.start("second", 1).await;
        pass(1).await;
        let record = world.instance(&second).await.record;
        assert_eq!(record.status, Status::Pending, "nobody has run it");
        go.send(()).unwrap();
    };
    futures::join!(host.stop(), later);
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_answer_had_won_is_asked_for() {
    let world = World::new();
    world.host(Chain::new().fusing(), HostOptions::default());
    for number in 0..8 {
        // At rest, so that the next claim is the one that waits.
        pass(60).await;
        world.plan.then(Op::Next, [Fate::of(Act::LoseAnswer)]);
        let before = world.elapsed();
        let id = world.start(&format!("chain-{number}"), 1).await;
        assert_eq!(world.ended(&id).await.status, Status::Completed);
        assert!(world.elapsed() - before < Duration::from_secs(5), "found by a poll only");
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_refuses_is_not_asked_without_rest() {
    let world = World::new();
    world.host(Chain::new().fusing(), HostOptions::default());
    pass(60).await;
    world.plan.always.lock().unwrap().insert(Op::Next, Fate::of(Act::Refuse));
    world.start("chain", 1).await;
    let before = world.plan.count(Op::Next);
    pass(60).await;
    let asked = world.plan.count(Op::Next) - before;
    assert!((5..=60).contains(&asked), "{asked} claims in a minute of refusals");
}
