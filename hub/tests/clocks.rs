//! Wall clocks that are set while hosts and clients run: what they measure goes by the monotonic clock.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::time::Duration;

use futures::FutureExt;

use dauer_core::InstanceId;
use dauer_core::model::Status;
use dauer_hub::{ClientError, HostOptions};

use crate::support::{Chain, Op, Running, World, pass, raw, win_tasks};

/// The steps of a wall clock that these tests make, in milliseconds: back by a minute, ahead by an hour.
const STEPS_MS: [i64; 2] = [-60_000, 3_600_000];

/// Within this time a leap is noticed: a sixteenth of the default lease, rounded up.
const NOTICED: Duration = Duration::from_secs(2);

/// A host whose only activity never ends, and which claims nothing any more.
async fn busy_host(world: &World) -> (Running, InstanceId) {
    let id = world.start("held", 1).await;
    let endless = Chain::new().on_activity(|_| futures::future::pending().boxed());
    let options = HostOptions { activities_max: 1, turns_max: 1, ..HostOptions::default() };
    let host = world.host(endless, options);
    world.until(&id, |record| record.status == Status::Running).await;
    pass(1).await;
    (host, id)
}

#[tokio::test(start_paused = true)]
async fn wait_lasts_as_long_as_asked_when_the_wall_clock_is_set() {
    for step in STEPS_MS {
        let world = World::new();
        let id = world.start("waits", 1).await;
        let began = world.elapsed();
        let (client, waits) = (world.client.clone(), id.clone());
        let wait = tokio::spawn(async move { client.wait_ended(&waits, Duration::from_secs(5)).await });
        pass(1).await;
        world.client_env.set_skew_ms(step);
        let ended = wait.await.unwrap();
        assert!(matches!(ended, Err(ClientError::TimedOut(_))), "{ended:?}");
        assert_eq!(world.elapsed() - began, Duration::from_secs(5), "step {step}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_goes_on_at_once_when_the_wall_clock_is_set() {
    for step in STEPS_MS {
        let world = World::new();
        let host = world.host(Chain::new(), HostOptions::default());
        let first = world.start("first", 1).await;
        world.ended(&first).await;
        host.env.set_skew_ms(step);
        let began = world.elapsed();
        let second = world.start("second", 3).await;
        world.ended(&second).await;
        assert!(
            world.elapsed() - began < Duration::from_secs(1),
            "step {step}: {:?}",
            world.elapsed() - began
        );
    }
}

#[tokio::test(start_paused = true)]
async fn session_is_renewed_soon_after_the_wall_clock_was_set() {
    for step in STEPS_MS {
        let world = World::new();
        let (host, _) = busy_host(&world).await;
        let before = world.plan.count(Op::Renew);
        host.env.set_skew_ms(step);
        pass(NOTICED.as_secs()).await;
        assert_eq!(world.plan.count(Op::Renew), before + 1, "step {step}: once, and at once");
        pass(NOTICED.as_secs()).await;
        assert_eq!(world.plan.count(Op::Renew), before + 1, "step {step}: not again");
    }
}

#[tokio::test(start_paused = true)]
async fn leap_of_host_and_store_leaves_the_session_its_work() {
    let world = World::new();
    let (host, _) = busy_host(&world).await;
    let hour = Duration::from_secs(3_600);
    host.env.set_skew_ms(i64::try_from(hour.as_millis()).unwrap());
    world.store.skew(hour);
    pass(NOTICED.as_secs()).await;
    let other = raw(&world, 7).await;
    assert!(win_tasks(&*other, 1).await.is_empty(), "its lease was renewed");
}

#[tokio::test(start_paused = true)]
async fn small_step_of_the_wall_clock_costs_no_renewal() {
    let world = World::new();
    let (host, _) = busy_host(&world).await;
    let before = world.plan.count(Op::Renew);
    host.env.set_skew_ms(3_000);
    pass(10).await;
    assert_eq!(world.plan.count(Op::Renew), before, "an eighth of the lease is 3.75 seconds");
}
