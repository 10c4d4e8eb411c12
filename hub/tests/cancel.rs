//! Running tasks are told that nobody wants their answers any more: by whom, why, and in how much virtual time.

#![allow(clippy::expect_used, clippy::unwrap_used)] // Also in what the tests share.

use std::time::Duration;

use futures::FutureExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::stream::StreamExt;

use dauer_core::InstanceId;
use dauer_core::cancel::CancelReason;
use dauer_core::model::Status;
use dauer_core::send::StartRequest;
use dauer_hub::{ActivityDone, HostOptions};
use dauer_store::{DropReason, Reuse};

use crate::support::{Chain, HOUR, Plan, SOON, World, raw, win_tasks};

/// What an activity says: that it has begun (in which attempt), or why it was cancelled.
#[derive(Debug, PartialEq)]
enum Said {
    Began(u32),
    Cancelled(CancelReason),
}

type Ear = UnboundedReceiver<(InstanceId, Said)>;
type Mouth = UnboundedSender<(InstanceId, Said)>;

/// Its activities say when they begin, wait until they are cancelled, say why, and end so.
fn waiting(mouth: &Mouth, end: ActivityDone) -> Chain {
    let mouth = mouth.clone();
    Chain::new().on_work(move |work| {
        let (mouth, end, id) = (mouth.clone(), end.clone(), work.lease.fence.instance.clone());
        async move {
            mouth.unbounded_send((id.clone(), Said::Began(work.lease.attempts))).unwrap();
            let reason = work.cancellation.cancelled().await;
            mouth.unbounded_send((id, Said::Cancelled(reason))).unwrap();
            end
        }
        .boxed()
    })
}

/// A result that nobody must ever see.
fn too_late() -> ActivityDone {
    ActivityDone::Completed(Some("too late".into()))
}

async fn heard(ear: &mut Ear) -> (InstanceId, Said) {
    tokio::time::timeout(SOON, ear.next()).await.expect("nothing was said").unwrap()
}

/// Half of the default lease, when a host renews, and what a hint does not need.
const HALF: Duration = Duration::from_secs(15);

fn turns_only() -> HostOptions {
    HostOptions { activities_max: 0, ..HostOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn only_the_task_that_another_session_took_is_told_at_the_next_renewal() {
    for fuses in [false, true] {
        let world = World::new();
        let (mouth, mut ear) = unbounded();
        let chain = waiting(&mouth, too_late());
        let chain = if fuses { chain.fusing() } else { chain };
        let host = world.host(chain, HostOptions::default());
        world.start("one", 1).await;
        world.start("two", 1).await;
        for _ in 0..2 {
            assert_eq!(heard(&mut ear).await.1, Said::Began(0));
        }
        // Its lease is over; somebody else takes one of the tasks before it notices.
        world.store.expire_sessions(&host.id);
        let other = raw(&world, 7).await;
        let taken = win_tasks(&*other, 1).await.remove(0);
        let before = world.elapsed();
        let told = heard(&mut ear).await;
        assert_eq!(told, (taken.fence.instance, Said::Cancelled(CancelReason::LeaseLost)));
        assert!(world.elapsed() - before <= HALF, "told after {:?}", world.elapsed() - before);
        // The other one is its own again, and goes on.
        crate::support::pass(3600).await;
        assert!(ear.next().now_or_never().is_none(), "the wrong one was told");
        while world.dropped(DropReason::NotHeld).await == 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_tasks_are_told_when_their_session_was_ended() {
    for no_hints in [false, true] {
        let world = World::with(Plan { no_hints, ..Plan::default() });
        let (mouth, mut ear) = unbounded();
        let _host = world.host(waiting(&mouth, too_late()), HostOptions::default());
        let ids = [world.start("one", 1).await, world.start("two", 1).await];
        for _ in &ids {
            assert_eq!(heard(&mut ear).await.1, Said::Began(0));
        }
        let before = world.elapsed();
        world.hub.end_session(world.sessions().await[0]).await.unwrap();
        let mut told = Vec::new();
        while told.len() < 2 {
            match heard(&mut ear).await {
                (id, Said::Cancelled(CancelReason::LeaseLost)) => told.push(id),
                // The next session of the same host has begun it already.
                (_, Said::Began(1)) => {}
                other => panic!("{other:?}"),
            }
        }
        told.sort_unstable();
        assert_eq!(told, ids);
        let most = if no_hints { HALF } else { Duration::from_secs(1) };
        assert!(world.elapsed() - before <= most, "told after {:?}", world.elapsed() - before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stopping_host_tells_its_tasks_and_gives_back_what_gives_up() {
    for fuses in [false, true] {
        let world = World::new();
        let (mouth, mut ear) = unbounded();
        let chain = waiting(&mouth, ActivityDone::GivenUp);
        let chain = if fuses { chain.fusing() } else { chain };
        let host = world.host(chain, HostOptions { drain_max: HOUR, ..HostOptions::default() });
        let id = world.start("one", 1).await;
        assert_eq!(heard(&mut ear).await.1, Said::Began(0));
        let before = world.elapsed();
        host.stop().await;
        assert!(world.elapsed() - before < Duration::from_secs(1), "it waited {:?}", world.elapsed());
        assert_eq!(heard(&mut ear).await.1, Said::Cancelled(CancelReason::Draining));
        // Another one runs it at once, from its beginning; nothing has failed.
        let before = world.elapsed();
        let attempts = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
        let seen = attempts.clone();
        world.host(
            Chain::new().on_activity(move |lease| {
                seen.lock().unwrap().push(lease.attempts);
                async { Ok(Some("1".into())) }.boxed()
            }),
            HostOptions::default(),
        );
        assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "1");
        assert_eq!(*attempts.lock().unwrap(), [0]);
        assert!(world.elapsed() - before < Duration::from_secs(1), "after {:?}", world.elapsed() - before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_comes_while_the_host_drains_counts() {
    let world = World::new();
    let (mouth, mut ear) = unbounded();
    let end = ActivityDone::Completed(Some("in time".into()));
    let host = world.host(waiting(&mouth, end).fusing(), HostOptions::default());
    let id = world.start("one", 1).await;
    assert_eq!(heard(&mut ear).await.1, Said::Began(0));
    host.stop().await;
    assert_eq!(heard(&mut ear).await.1, Said::Cancelled(CancelReason::Draining));
    // The host that takes the next turn runs no activities: it has the result of the first one.
    world.host(Chain::new(), turns_only());
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "1", "one activity was answered");
}

#[tokio::test(start_paused = true)]
async fn terminate_tells_the_tasks_of_an_instance_that_the_host_keeps() {
    let world = World::new();
    let (mouth, mut ear) = unbounded();
    let _host = world.host(waiting(&mouth, too_late()).fusing(), HostOptions::default());
    let (one, two) = (world.start("one", 1).await, world.start("two", 1).await);
    for _ in 0..2 {
        assert_eq!(heard(&mut ear).await.1, Said::Began(0));
    }
    let before = world.elapsed();
    world.client.terminate(&one, None, true).await.unwrap();
    assert_eq!(heard(&mut ear).await, (one.clone(), Said::Cancelled(CancelReason::Terminated)));
    assert!(world.elapsed() - before < Duration::from_secs(1), "told after {:?}", world.elapsed() - before);
    while world.dropped(DropReason::Withdrawn).await == 0 {
        tokio::task::yield_now().await;
    }
    let record = world.ended(&one).await;
    assert_eq!((record.status, record.details.output()), (Status::Terminated, None));
    assert!(ear.next().now_or_never().is_none());
    assert_eq!(world.client.get(&two).await.unwrap().unwrap().status, Status::Running);
}

#[tokio::test(start_paused = true)]
async fn terminate_reaches_tasks_on_another_host_by_a_hint_or_after_a_renewal() {
    for no_hints in [false, true] {
        let world = World::with(Plan { no_hints, ..Plan::default() });
        let (mouth, mut ear) = unbounded();
        let _turns = world.host(Chain::new(), turns_only());
        let options = HostOptions { turns_max: 0, ..HostOptions::default() };
        let _tasks = world.host(waiting(&mouth, too_late()), options);
        let (one, two) = (world.start("one", 1).await, world.start("two", 1).await);
        for _ in 0..2 {
            assert_eq!(heard(&mut ear).await.1, Said::Began(0));
        }
        world.client.terminate(&one, None, true).await.unwrap();
        assert_eq!(world.ended(&one).await.status, Status::Terminated);
        let before = world.elapsed();
        assert_eq!(heard(&mut ear).await, (one, Said::Cancelled(CancelReason::Terminated)));
        let most = if no_hints { HALF } else { Duration::from_secs(1) };
        assert!(world.elapsed() - before <= most, "told after {:?}", world.elapsed() - before);
        assert_eq!(world.client.get(&two).await.unwrap().unwrap().status, Status::Running);
        crate::support::pass(3600).await;
        assert!(ear.next().now_or_never().is_none(), "the other one was told, too");
    }
}

#[tokio::test(start_paused = true)]
async fn the_tasks_of_a_replaced_run_are_told_and_those_of_the_next_are_not() {
    for fuses in [false, true] {
        let world = World::new();
        let (mouth, mut ear) = unbounded();
        let chain = waiting(&mouth, too_late());
        let chain = if fuses { chain.fusing() } else { chain };
        let _host = world.host(chain, HostOptions::default());
        let id = world.start("one", 1).await;
        assert_eq!(heard(&mut ear).await.1, Said::Began(0));
        let request = StartRequest { input: Some("1".into()), ..StartRequest::new(id.clone(), "chain") };
        world.client.start(request, Reuse { replaceable: vec![Status::Running] }).await.unwrap();
        let mut said = [heard(&mut ear).await.1, heard(&mut ear).await.1];
        said.sort_by_key(|said| *said != Said::Began(0));
        assert_eq!(said, [Said::Began(0), Said::Cancelled(CancelReason::Ended)]);
        crate::support::pass(3600).await;
        assert!(ear.next().now_or_never().is_none(), "the next run was told, too");
        assert_eq!(world.client.get(&id).await.unwrap().unwrap().status, Status::Running);
    }
}
