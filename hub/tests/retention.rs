//! Retention in virtual time: what goes, what stays, in steps of which size, and what a store that is away costs.

#![allow(clippy::expect_used, clippy::unwrap_used)] // Also in what the tests share.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::channel::oneshot;
use tokio::task::JoinHandle;

use dauer_core::model::{Over, Record, Status};
use dauer_core::send::{self, Caller, StartRequest};
use dauer_core::{ExecutionId, InstanceId};
use dauer_hub::{HostOptions, retention};
use dauer_store::{Delivered, Env};

use crate::support::{Act, Chain, Fate, Op, Running, SOON, World};

const KEEP: Duration = Duration::from_secs(60 * 60);

/// The longest that an instance stays after its time: one sweep every minute at least, with room for its steps.
const LATE: Duration = Duration::from_secs(90);

/// A hub whose host never finishes the activities of instances whose id begins with "stuck".
fn world() -> (World, Running) {
    let world = World::new();
    let executor = Chain::new().on_activity(|lease| {
        let stuck = lease.task.instance.as_str().starts_with("stuck");
        async move {
            if stuck {
                futures::future::pending::<()>().await;
            }
            Ok(Some("1".into()))
        }
        .boxed()
    });
    let host = world.host(executor, HostOptions::default());
    (world, host)
}

/// Retention beside the test, until the sender is dropped.
fn retain(world: &World, host: &Running) -> (oneshot::Sender<()>, JoinHandle<()>) {
    let (stop, stopped) = oneshot::channel::<()>();
    let stopped = stopped.map(|_| ());
    let (hub, env) = (Arc::clone(&world.hub), host.env.clone());
    (stop, tokio::spawn(retention::run(hub, env, KEEP, stopped)))
}

/// Lets virtual time pass, with everything that happens in it.
async fn pass(duration: Duration) {
    tokio::time::timeout(duration, futures::future::pending::<()>()).await.unwrap_err();
}

async fn all(world: &World, ids: &[InstanceId]) -> Vec<Option<Record>> {
    let found = world.hub.get(ids.to_vec()).await.unwrap();
    found.into_iter().map(|found| found.map(|(_, record)| record)).collect()
}

async fn there(world: &World, ids: &[InstanceId]) -> usize {
    all(world, ids).await.iter().flatten().count()
}

async fn gone(world: &World, ids: &[InstanceId]) {
    let wait = async {
        while there(world, ids).await > 0 {
            pass(Duration::from_secs(1)).await;
        }
    };
    tokio::time::timeout(2 * LATE, wait).await.expect("they are never removed");
}

#[tokio::test(start_paused = true)]
async fn what_ended_long_enough_ago_goes_and_nothing_else() {
    let (world, host) = world();
    let stuck = world.start("stuck", 1).await;
    let old = world.start("old", 1).await;
    world.ended(&old).await;
    let (_stop, _running) = retain(&world, &host);

    pass(KEEP / 2).await;
    let young = world.start("young", 1).await;
    world.ended(&young).await;
    pass(KEEP / 2 - Duration::from_secs(1)).await;
    assert_eq!(
        there(&world, &[old.clone(), young.clone(), stuck.clone()]).await,
        3,
        "nothing goes before its time"
    );

    pass(LATE).await;
    let found = all(&world, &[old, young.clone(), stuck.clone()]).await;
    let statuses: Vec<_> = found.iter().map(|record| record.as_ref().map(|record| record.status)).collect();
    assert_eq!(statuses, [None, Some(Status::Completed), Some(Status::Running)]);

    pass(KEEP / 2).await;
    assert_eq!(there(&world, &[young]).await, 0, "its turn comes");
    pass(SOON).await;
    assert_eq!(there(&world, &[stuck]).await, 1, "what runs is never removed, however old");
}

#[tokio::test(start_paused = true)]
async fn a_backlog_is_worked_off_in_steps() {
    let (world, host) = world();
    let mut ids = Vec::new();
    for number in 0..350 {
        ids.push(world.start(&format!("done-{number}"), 0).await);
    }
    for id in &ids {
        world.ended(id).await;
    }
    pass(KEEP).await;
    let (_stop, _running) = retain(&world, &host);
    gone(&world, &ids).await;
    assert_eq!(world.plan.count(Op::Purge), 4, "a hundred at a time");
}

#[tokio::test(start_paused = true)]
async fn one_that_must_stay_does_not_hold_up_the_others() {
    let (world, host) = world();
    let mut ids = Vec::new();
    for number in 0..120 {
        // Those that ended at once are listed by their id.
        ids.push(world.start(&format!("done-{number:03}"), 0).await);
    }
    for id in &ids {
        world.ended(id).await;
    }
    host.kill();
    // A start waits at the first hundred, and nobody is there to take it.
    for (request, id) in (1..).zip(&ids[..100]) {
        let caller = Caller { request, repeatable: true, now: host.env.now() };
        let start =
            send::start(StartRequest::new(id.clone(), "chain"), ExecutionId(request), caller, Over::Refuse)
                .unwrap();
        let sent = world.hub.send(vec![start]).await.pop().unwrap().unwrap();
        assert_eq!(sent, Delivered::Applied, "{id}");
    }
    pass(KEEP).await;
    let (_stop, _running) = retain(&world, &host);
    gone(&world, &ids[100..]).await;
    assert_eq!(there(&world, &ids[..100]).await, 100);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_is_asked_again_later() {
    let (world, host) = world();
    let id = world.start("done", 0).await;
    world.ended(&id).await;
    pass(KEEP).await;
    world.plan.then(Op::List, [Fate::of(Act::Refuse)]);
    world.plan.then(Op::Purge, [Fate::of(Act::Refuse)]);
    let (_stop, _running) = retain(&world, &host);
    gone(&world, std::slice::from_ref(&id)).await;
    assert_eq!(world.plan.count(Op::Purge), 2, "the first was refused");
}

#[tokio::test(start_paused = true)]
async fn an_instance_that_was_started_again_since_the_list_stays() {
    let (world, host) = world();
    let id = world.start("again", 0).await;
    world.ended(&id).await;
    pass(KEEP).await;
    // The answer of the list is held back while the instance is started anew and ends again.
    world.plan.then(Op::List, [Fate::PASS.answered_late(Duration::from_secs(5))]);
    let (_stop, _running) = retain(&world, &host);
    while world.plan.count(Op::List) == 0 {
        pass(Duration::from_secs(1)).await;
    }
    world.start("again", 0).await;
    world.ended(&id).await;
    pass(LATE).await;
    assert_eq!(there(&world, &[id]).await, 1, "it ended a moment ago");
}

#[tokio::test(start_paused = true)]
async fn it_ends_when_told_to() {
    let (world, host) = world();
    let (stop, running) = retain(&world, &host);
    pass(LATE).await;
    let began = world.elapsed();
    drop(stop);
    tokio::time::timeout(SOON, running).await.expect("it goes on").unwrap();
    assert_eq!(world.elapsed(), began, "without waiting for the next sweep");
}
