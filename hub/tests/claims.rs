//! The lease claims that a host keeps: when it asks, renews and releases, how much it takes; what it tells in the log
//! is in `claims_log.rs`.
//! The numbers in the names are those of `docs/CLAIMS.md`.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;

use dauer_core::model::{Status, TroubleKind};
use dauer_core::send::StartRequest;
use dauer_core::turn::Stalled;
use dauer_core::{InstanceId, Timestamp};
use dauer_hub::HostOptions;
use dauer_proto::failure;
use dauer_store::{DumpItem, Item, Release, Reuse};

use crate::support::{Chain, Op, Plan, World, pass, raw, win_turns};

#[tokio::test(start_paused = true)]
async fn lease_a04_a_host_that_lost_the_race_asks_again_and_not_too_often() {
    // Without hints, so that only its own polling can bring the host back.
    let world = World::with(Plan { no_hints: true, ..Plan::default() });
    let id = world.start("chain", 1).await;
    let winner = raw(&world, 7).await;
    let turn = win_turns(&*winner, 1).await.remove(0);
    world.host(Chain::new(), HostOptions::default());
    pass(60).await;
    let asked = world.plan.count(Op::Next);
    assert!((10..=40).contains(&asked), "{asked} looks in a minute of nothing");
    let release =
        Release { item: Item::Turn(turn.fence), delay: Duration::ZERO, trouble: None, failed: false };
    winner.release(vec![release]).await.pop().unwrap().unwrap();
    let before = world.elapsed();
    world.until(&id, |record| record.status != Status::Pending).await;
    // A poll of the host, and one of the client that waits.
    assert!(world.elapsed() - before <= Duration::from_secs(8), "after {:?}", world.elapsed() - before);
}

#[tokio::test(start_paused = true)]
async fn work_that_comes_between_two_polls_adds_no_poll() {
    let world = World::new();
    world.host(Chain::new(), HostOptions::default());
    for i in 0..50 {
        // A poll is some seconds away: this ends the wait for it.
        pass(20).await;
        let id = InstanceId::new(format!("chain-{i}")).unwrap();
        let scheduled = Some(Timestamp(1_000_000).after(world.elapsed() + Duration::from_millis(300)));
        let request =
            StartRequest { input: Some("0".into()), scheduled, ..StartRequest::new(id.clone(), "chain") };
        world.client.start(request, Reuse::default()).await.unwrap();
        world.ended(&id).await;
    }
    // Past the first polls after something has happened, which follow one another quickly.
    pass(30).await;
    let before = world.plan.count(Op::Next);
    pass(60).await;
    let asked = world.plan.count(Op::Next) - before;
    assert!((10..=40).contains(&asked), "{asked} looks in a minute of nothing");
}

#[tokio::test(start_paused = true)]
async fn lease_a19_an_instance_is_released_when_it_ends_and_when_its_turn_fails() {
    for fuses in [false, true] {
        let world = World::new();
        let fails = |_| async { Err(failure::failure("Broken", "the activity failed")) }.boxed();
        let chain = Chain::new().on_turn(|record| match record.tags.contains_key("bad") {
            true => Err(Stalled::new(TroubleKind::Panic, "it broke")),
            false => Ok(()),
        });
        let failing = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&failing);
        let chain = chain.on_activity(move |lease| match lease.task.instance.as_str() {
            "failed" => {
                count.fetch_add(1, Ordering::Relaxed);
                fails(())
            }
            _ => async { Ok(Some("1".into())) }.boxed(),
        });
        world.host(if fuses { chain.fusing() } else { chain }, HostOptions::default());
        let completed = world.start("completed", 3).await;
        assert_eq!(world.ended(&completed).await.status, Status::Completed);
        assert_eq!(world.instance(&completed).await.holder, None, "completed");
        let failed = world.start("failed", 3).await;
        assert_eq!(world.ended(&failed).await.status, Status::Failed);
        assert_eq!(failing.load(Ordering::Relaxed), 1);
        assert_eq!(world.instance(&failed).await.holder, None, "failed");
        let stalled = world.start_bad("stalled").await;
        world.until(&stalled, |record| record.attempts == 3).await;
        assert_eq!(world.instance(&stalled).await.holder, None, "its turn could not run");
    }
}

#[tokio::test(start_paused = true)]
async fn lease_a21_a34_a_host_renews_at_half_of_the_lease_it_was_given() {
    let world = World::new();
    let lease = Duration::from_secs(10);
    let host = world.host(Chain::new(), HostOptions { lease, ..HostOptions::default() });
    pass(101).await;
    assert_eq!(world.plan.count(Op::Renew), 20, "every five seconds");
    let dump = world.hub.dump(None).await.unwrap();
    let sessions = dump.items.into_iter().filter_map(|item| match item {
        DumpItem::Session(session) => Some((session.host, session.expires_at)),
        _ => None,
    });
    let sessions: Vec<_> = sessions.collect();
    let (owner, expires_at) = &sessions[0];
    assert_eq!((owner, sessions.len()), (&host.id, 1), "under the name it was given");
    let left = expires_at.since(dauer_store::Env::now(&*host.env));
    assert_eq!(left, Duration::from_secs(9), "the lease it was given, since the renewal a second ago");
}

#[test]
fn lease_a30_a31_a33_the_defaults_are_those_that_are_documented() {
    let HostOptions { lease, turns_max, activities_max, poll_max, .. } = HostOptions::default();
    assert_eq!(lease, Duration::from_secs(30));
    assert_eq!((turns_max, activities_max), (256, 256));
    assert_eq!(poll_max, Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn lease_a33_a_host_takes_no_more_at_once_than_it_was_told() {
    let world = World::new();
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let chain = Chain::new().slow_turns(Duration::from_secs(1)).on_activity({
        let most = Arc::clone(&most);
        move |_| {
            let running = Arc::clone(&running);
            most.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            async move {
                pass(1).await;
                running.fetch_sub(1, Ordering::Relaxed);
                Ok(Some("1".into()))
            }
            .boxed()
        }
    });
    let peak = Arc::clone(&chain.peak);
    world.host(chain, HostOptions { turns_max: 3, activities_max: 2, ..HostOptions::default() });
    let mut ids = Vec::new();
    for number in 0..10 {
        ids.push(world.start(&format!("chain{number}"), 2).await);
    }
    for id in &ids {
        assert_eq!(world.ended(id).await.status, Status::Completed);
    }
    assert_eq!(peak.most(), 3, "turns beside each other");
    assert_eq!(most.load(Ordering::Relaxed), 2, "activities beside each other");
}
