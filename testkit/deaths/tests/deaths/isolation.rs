//! An activity that ends its process, beside healthy ones.

#![allow(clippy::unwrap_used)] // A call that fails has failed the test.

use std::time::{Duration, Instant};

use dauer::InstanceId;

use crate::support::{CALLS, SOON, World, is_full};

/// Deaths until poison is recognised, for up to 512 slots.
const DEATHS_MAX: u32 = 18;

/// Healthy activities beside the poison.
const NEIGHBOURS: usize = 6;

/// Seven trials of the poison and perhaps one for each neighbour, each followed by three times as long without one.
fn patience() -> Duration {
    if is_full() { Duration::from_secs(60 * 60) } else { Duration::from_secs(240) }
}

async fn start(world: &World, id: &str, name: &str, seconds: Option<f64>) -> InstanceId {
    let call = world.client.start(CALLS, &(name.to_owned(), seconds)).id(id);
    call.await.unwrap().id().clone()
}

/// The host of the poison dies with it, and with the neighbours aboard; a supervisor restarts it.
#[tokio::test]
async fn poison_in_a_host_crashes_alone() {
    let world = World::new("isolation");
    let short = ["--slots", "8", "--lease-ms", "1000", "--retry-ms", "200", "--trial-quiet-ms", "300"];
    let arguments: &[&str] = if is_full() { &[] } else { &short };
    let seconds = if is_full() { 8.0 } else { 3.0 };
    let mut worker = world.worker(arguments);
    let mut neighbours = Vec::new();
    for number in 0..NEIGHBOURS {
        neighbours.push(start(&world, &format!("neighbour-{number}"), "timed", Some(seconds)).await);
    }
    let deadline = Instant::now() + SOON;
    for id in &neighbours {
        while world.count("BEGIN", &id.to_string()) == 0 {
            assert!(Instant::now() < deadline, "{id} does not begin");
            tokio::task::yield_now().await;
        }
    }
    let poison = start(&world, "poison", "poison", None).await;
    let (mut deaths, deadline) = (0, Instant::now() + patience());
    for id in neighbours.iter().chain([&poison]) {
        while world.look(id, |record| record.status.is_ended()).await.is_none() {
            let begun = world.count("BEGIN", "neighbour-0");
            let figures = format!("{id} has not ended; {deaths} hosts died; neighbour-0 began {begun} times");
            assert!(Instant::now() < deadline, "not within {:?}: {figures}", patience());
            if worker.has_ended() {
                deaths += 1;
                assert!(deaths <= DEATHS_MAX, "the poison is not recognised: {figures}");
                worker = world.worker(arguments);
            }
        }
    }
    let mut wrong = Vec::new();
    for id in &neighbours {
        if let Err(message) = world.outcome(id).await {
            wrong.push(format!("{id}: {message}"));
        }
    }
    assert!(wrong.is_empty(), "after {deaths} deaths: {}", wrong.join("\n"));
    let outcome = world.outcome(&poison).await;
    let crashed = outcome.as_ref().is_err_and(|message| message.contains("ActivityCrashed"));
    assert!(crashed, "after {deaths} deaths the poison is {outcome:?}");
}
