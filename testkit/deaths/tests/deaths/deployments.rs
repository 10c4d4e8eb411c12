//! Deployments that cannot run the code of a running instance, and the mended one after them.

#![allow(clippy::unwrap_used)] // A call that fails has failed the test.

use std::time::{Duration, Instant};

use dauer::{Event, Orchestration};

use crate::support::{SOON, World, is_full};

const DEPLOYED: Orchestration<u32, u32> = Orchestration::new("deployed");
const GO: Event<u32> = Event::new("go");

/// More attempts than the ten after which a run was failed. Each further deployment is tried once more.
const ATTEMPTS: u32 = 11;

/// With the default delays that took under 90 s.
const TROUBLE: Duration = Duration::from_secs(100);

/// Delays grow: the next attempt may be as far away as the trouble is old.
const MENDED: Duration = Duration::from_secs(240);

/// A run that waits for an event meets one deployment after the other, and ends with the mended one.
async fn survives(name: &str, deployments: &[&str]) {
    let world = World::new(name);
    let short = ["--lease-ms", "1000", "--retry-ms", "2"];
    let settings: &[&str] = if is_full() { &[] } else { &short };
    let worker = |code| world.worker(&[&["--code", code], settings].concat());
    let mended = worker("mended");
    let handle = world.client.start(DEPLOYED.version("2"), &1).id("deployed").await.unwrap();
    let id = handle.id();
    // Two turns are in the history: the call, and its answer.
    world.until(id, SOON, |record| record.history_len >= 5).await;
    mended.stop();

    handle.raise(GO, &10).await.unwrap();
    let mut attempts = ATTEMPTS - 1;
    for code in deployments {
        let bad = worker(code);
        attempts += 1;
        let deadline = Instant::now() + TROUBLE;
        loop {
            let enough = |record: &dauer::Record| !is_full() && record.attempts >= attempts;
            let record = world.look(id, |record| record.status.is_ended() || enough(record)).await;
            if let Some(record) = record {
                if record.status.is_ended() {
                    panic!("'{code}' ended it: {:?}", handle.output_within(SOON).await);
                }
                break;
            }
            if Instant::now() > deadline {
                assert!(is_full(), "'{code}' was not tried {attempts} times within {TROUBLE:?}");
                break;
            }
        }
        bad.stop();
    }
    let _mended = worker("mended");
    let output = handle.output_within(MENDED).await.unwrap();
    assert_eq!(output, 13);
}

#[tokio::test]
async fn panic_of_a_deployment_fails_no_run() {
    survives("panics", &["panics"]).await;
}

#[tokio::test]
async fn await_of_nothing_durable_fails_no_run() {
    survives("waits", &["waits"]).await;
}

#[tokio::test]
async fn unknown_name_and_then_a_panic_fail_no_run() {
    survives("unknown", &["unknown", "panics"]).await;
}
