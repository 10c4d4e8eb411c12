//! Where everything shares one thread, a task that is over at once runs where it is begun.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::join_all;

use dauer_core::model::Status;
use dauer_hub::HostOptions;

use crate::support::{Chain, Running, World, pass};

const CHAINS: u32 = 8;
const STEPS: u32 = 5;

/// Runs some chains beside each other; gives how much the host has spawned for it.
async fn spawned_for_chains(world: &World, host: &Running) -> u64 {
    // The session's own tasks.
    pass(1).await;
    let before = host.env.spawned();
    let ids = join_all((0..CHAINS).map(|number| async move {
        let id = world.start(&format!("chain-{number}"), STEPS).await;
        assert_eq!(world.ended(&id).await.status, Status::Completed);
    }));
    ids.await;
    host.env.spawned() - before
}

#[tokio::test(start_paused = true)]
async fn what_is_over_at_once_runs_where_it_is_begun() {
    // What an executor that does not fuse runs is elsewhere.
    for (chain, spawned) in [(Chain::new().fusing(), 0), (Chain::new(), CHAINS * STEPS)] {
        let world = World::new();
        let host = world.host_of_one_thread(chain);
        assert_eq!(spawned_for_chains(&world, &host).await, u64::from(spawned));
    }
}

#[tokio::test(start_paused = true)]
async fn other_threads_get_all_tasks() {
    let world = World::new();
    let host = world.host(Chain::new().fusing(), HostOptions::default());
    assert_eq!(spawned_for_chains(&world, &host).await, u64::from(CHAINS * STEPS));
}

#[tokio::test(start_paused = true)]
async fn what_has_to_wait_runs_beside_the_loop() {
    let world = World::new();
    let (go, gone) = oneshot::channel::<()>();
    let gone = gone.shared();
    let waits = Chain::new().fusing().on_activity(move |lease| {
        let gone = gone.clone();
        async move {
            if lease.task.instance.as_str() == "waits" {
                let _ = gone.await;
            }
            Ok(Some("1".into()))
        }
        .boxed()
    });
    let host = world.host_of_one_thread(waits);
    let waiting = world.start("waits", 1).await;
    world.until(&waiting, |record| record.status == Status::Running).await;
    assert_eq!(spawned_for_chains(&world, &host).await, 0, "the others go on");
    go.send(()).unwrap();
    assert_eq!(world.ended(&waiting).await.status, Status::Completed);
}

/// A task that keeps its thread busy would keep the loop from its other work: the next ones are given to the runtime, which
/// has others to run between them.
#[tokio::test(start_paused = true)]
async fn they_run_there_for_a_moment_only() {
    let world = World::new();
    let busy = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&busy);
    let chain = Chain::new().fusing().on_activity(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
        // Longer than all that may run at once, together.
        tokio::time::advance(Duration::from_millis(11)).now_or_never();
        async { Ok(Some("1".into())) }.boxed()
    });
    for number in 0..CHAINS {
        world.start(&format!("waiting-{number}"), 1).await;
    }
    let host = world.host_of_one_thread(chain);
    for number in 0..CHAINS {
        let id = dauer_core::InstanceId::new(format!("waiting-{number}")).unwrap();
        assert_eq!(world.ended(&id).await.status, Status::Completed);
    }
    assert_eq!(busy.load(Ordering::Relaxed), CHAINS as usize);
    let spawned = host.env.spawned();
    assert!(spawned >= u64::from(CHAINS) / 2, "{spawned} of {CHAINS} were left to the runtime");
}

/// Beside the loop a task that dies takes nothing with it; no more than that may happen where it runs as a part of the loop.
#[tokio::test(start_paused = true)]
async fn a_task_that_dies_leaves_the_loop_alone() {
    let world = World::new();
    let chain = Chain::new().fusing().on_activity(|lease| {
        assert!(lease.attempts > 1, "it dies twice");
        async { Ok(Some("1".into())) }.boxed()
    });
    let host = world.host_of_one_thread(chain);
    assert_eq!(spawned_for_chains(&world, &host).await, 0);
}
