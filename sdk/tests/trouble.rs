//! Turns that cannot run: visible with their reason, tried again, never lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, ClientError, Event, HostOptions, InstanceId, Orchestration,
    OrchestrationContext, RawClientError, Result, Status, TroubleKind, TroublePolicy,
};

use tokio::sync::Notify;

use crate::support::{Running, SOON};

const GO: Event<u32> = Event::new("go");
const STEP: Activity<u32, u32> = Activity::new("step");

/// Quick to try again, so that tests are.
fn impatient() -> HostOptions {
    let (retry_delay_min, retry_delay_max) = (Duration::from_millis(1), Duration::from_millis(5));
    HostOptions { retry_delay_min, retry_delay_max, poll_max: retry_delay_max, ..HostOptions::default() }
}

async fn step(_: ActivityContext, n: u32) -> Result<u32> {
    Ok(n + 1)
}

#[tokio::test]
async fn changed_code_is_stalled_with_its_line_and_goes_on_when_it_is_changed_back() {
    const CODE: Orchestration<u32, u32> = Orchestration::new("code");
    async fn before(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let n = ctx.call(STEP, &n).await?;
        Ok(n + ctx.event(GO).await?)
    }
    async fn after(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.sleep(Duration::from_millis(1)).await;
        Ok(n + ctx.event(GO).await?)
    }
    let line = line!() - 3;
    let hub = dauer::open("memory:").unwrap();
    let first = Running::on(&hub, |worker| worker.orchestration(CODE, before).activity(STEP, step));
    let handle = first.client.start(CODE, &1).await.unwrap();
    // Two turns are in the history: the call, and its answer.
    first.wait(handle.id(), |record| record.history_len >= 5).await;
    first.stop().await;

    let second = Running::on(&hub, |worker| {
        worker.orchestration(CODE, after).activity(STEP, step).options(impatient())
    });
    handle.raise(GO, &10).await.unwrap();
    let record = second.wait(handle.id(), |record| record.attempts >= 3).await;
    let trouble = record.trouble.unwrap();
    assert_eq!((record.status, trouble.kind), (Status::Running, TroubleKind::Mismatch));
    assert!(trouble.reason.contains(&format!("trouble.rs:{line}:")), "{}", trouble.reason);
    second.stop().await;

    let third = Running::on(&hub, |worker| worker.orchestration(CODE, before).activity(STEP, step));
    assert_eq!(handle.output_within(SOON).await.unwrap(), 12);
    let record = handle.status().await.unwrap().unwrap();
    assert_eq!((record.attempts, record.trouble), (0, None));
    third.stop().await;
}

#[tokio::test]
async fn a_panic_is_tried_again_and_becomes_failed_after_its_attempts() {
    const PANICS: Orchestration<u32, u32> = Orchestration::new("panics");
    async fn panics(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        assert!(ctx.now().0 < 0, "no luck with {n}");
        Ok(n)
    }
    let trouble = TroublePolicy { panic: Some(3), ..TroublePolicy::default() };
    let options = HostOptions { trouble, ..impatient() };
    let running = Running::start(|worker| worker.orchestration(PANICS, panics).options(options));
    let handle = running.client.start(PANICS, &5).await.unwrap();
    match handle.output_within(SOON).await {
        Err(ClientError::Failed { source, .. }) => {
            assert!(source.message.contains("gave up after 3 attempts"), "{}", source.message);
            assert!(source.message.contains("no luck with 5"), "{}", source.message);
        }
        other => panic!("expected a failure, got {other:?}"),
    }
    running.stop().await;
}

#[tokio::test]
async fn an_await_on_something_not_durable_is_reported_and_disturbs_nobody() {
    const SLEEPS: Orchestration<(), u32> = Orchestration::new("sleeps");
    const FINE: Orchestration<u32, u32> = Orchestration::new("fine");
    async fn sleeps(_: OrchestrationContext, (): ()) -> Result<u32> {
        std::future::pending().await
    }
    async fn fine(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call(STEP, &n).await?)
    }
    let running = Running::start(|worker| {
        worker
            .orchestration(SLEEPS, sleeps)
            .orchestration(FINE, fine)
            .activity(STEP, step)
            .options(impatient())
    });
    let bad = running.client.start(SLEEPS, &()).await.unwrap();
    let record = running.wait(bad.id(), |record| record.attempts >= 2).await;
    assert_eq!(record.trouble.unwrap().kind, TroubleKind::NotDurable);
    assert_eq!(record.status, Status::Pending);
    let good = running.client.start(FINE, &1).await.unwrap();
    assert_eq!(good.output_within(SOON).await.unwrap(), 2);
    running.stop().await;
}

#[tokio::test]
async fn an_unknown_version_waits_for_a_worker_that_has_it() {
    const CODE: Orchestration<u32, u32> = Orchestration::new("code");
    async fn code(_: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(n)
    }
    let hub = dauer::open("memory:").unwrap();
    let old = Running::on(&hub, |worker| worker.orchestration(CODE, code).options(impatient()));
    let handle = old.client.start(CODE.version("2"), &7).await.unwrap();
    let record = old.wait(handle.id(), |record| record.attempts >= 2).await;
    let trouble = record.trouble.unwrap();
    assert_eq!(trouble.kind, TroubleKind::UnknownName);
    assert!(trouble.reason.contains("version '2'"), "{}", trouble.reason);
    old.stop().await;
    let new = Running::on(&hub, |worker| worker.orchestration(CODE.version("2"), code));
    assert_eq!(handle.output_within(SOON).await.unwrap(), 7);
    new.stop().await;
}

#[tokio::test]
async fn input_that_cannot_be_read_is_visible_trouble() {
    const TEXT: Orchestration<String, u32> = Orchestration::new("code");
    const NUMBER: Orchestration<u32, u32> = Orchestration::new("code");
    async fn code(_: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(n)
    }
    let running = Running::start(|worker| worker.orchestration(NUMBER, code).options(impatient()));
    let handle = running.client.start(TEXT, &"seven".to_owned()).await.unwrap();
    let record = running.wait(handle.id(), |record| record.attempts >= 1).await;
    assert_eq!(record.trouble.unwrap().kind, TroubleKind::Undecodable);
    running.stop().await;
}

#[tokio::test]
async fn a_stopping_worker_finishes_what_it_has_in_flight() {
    const SLOW: Activity<u32, u32> = Activity::new("slow");
    const CODE: Orchestration<u32, u32> = Orchestration::new("code");
    async fn code(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call(SLOW, &n).await?)
    }
    let (began, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let finished = Arc::new(AtomicBool::new(false));
    let hub = dauer::open("memory:").unwrap();
    let first = {
        let (began, release) = (Arc::clone(&began), Arc::clone(&release));
        let finished = Arc::clone(&finished);
        Running::on(&hub, move |worker| {
            worker.orchestration(CODE, code).activity(SLOW, move |_: ActivityContext, n: u32| {
                let (began, release) = (Arc::clone(&began), Arc::clone(&release));
                let finished = Arc::clone(&finished);
                async move {
                    began.notify_one();
                    release.notified().await;
                    finished.store(true, Ordering::Relaxed);
                    Ok(n + 1)
                }
            })
        })
    };
    let handle = first.client.start(CODE, &1).await.unwrap();
    began.notified().await;
    // The activity ends only after the worker was told to stop.
    tokio::join!(first.stop(), async { release.notify_one() });
    assert!(finished.load(Ordering::Relaxed), "the activity was cut off");
    // Its answer was committed before the worker left: another one needs only to take the turn.
    let second = Running::on(&hub, |worker| worker.orchestration(CODE, code));
    assert_eq!(handle.output_within(SOON).await.unwrap(), 2);
    second.stop().await;
}

#[tokio::test]
async fn a_duplicate_registration_and_a_bad_url_are_errors() {
    const CODE: Orchestration<u32, u32> = Orchestration::new("code");
    async fn code(_: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(n)
    }
    let hub = dauer::open("memory:").unwrap();
    let twice = hub.worker().orchestration(CODE, code).orchestration(CODE, code).build().err().unwrap();
    assert!(twice.to_string().contains("'code' is registered twice"), "{twice}");
    let url = dauer::open("sqlight:x").err().unwrap();
    // What else there is depends on features.
    let text = url.to_string();
    assert!(
        text.starts_with("'sqlight:x' names no store; use sqlite:FILE") && text.contains("memory:"),
        "{text}"
    );
}

#[tokio::test]
async fn ids_and_payloads_beyond_a_limit_are_refused_by_name() {
    const TEXT: Orchestration<String, usize> = Orchestration::new("text");
    let client = dauer::open("memory:").unwrap().client();
    let long = "y".repeat(101);
    for (id, text) in [
        ("", "instance id is empty; give it at least one character"),
        (long.as_str(), "instance id has 101 characters; at most 100 are allowed"),
        ("a\tb", "instance id contains '\\t' at position 1; control characters are not allowed"),
    ] {
        let error = client.start(TEXT, &String::new()).id(id).await.err().unwrap();
        assert_eq!(error.to_string(), text);
    }
    let error = client.start(TEXT, &"x".repeat(16 * 1024 * 1024)).await.err().unwrap().to_string();
    assert!(error.starts_with("input has 16777218 bytes, at most 16777216 are allowed"), "{error}");
    let error = client.start(TEXT, &String::new()).id("@counter@1").await.err().unwrap().to_string();
    assert!(error.contains("belong to entities"), "{error}");
    let absent = client.handle(TEXT, "nobody").unwrap();
    let error = absent.suspend("why not").await.err().unwrap().to_string();
    assert_eq!(error, "there is no instance 'nobody'; check the id and the task hub");
}

/// Stalled turns rest for longer than any test.
fn patient() -> HostOptions {
    let hour = Duration::from_secs(3_600);
    HostOptions {
        retry_delay_min: hour,
        retry_delay_max: hour,
        stalled_delay_max: hour,
        ..HostOptions::default()
    }
}

const ORDER: Orchestration<u32, u32> = Orchestration::new("order");

async fn panics(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    assert!(ctx.now().0 < 0, "no luck with {n}");
    Ok(n)
}

async fn succeeds(_: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(n)
}

#[tokio::test]
async fn worker_of_another_build_retries_stalled_instances() {
    const FINE: Orchestration<u32, u32> = Orchestration::new("fine");
    let hub = dauer::open("memory:").unwrap();
    let old =
        |worker: dauer::WorkerBuilder| worker.orchestration(ORDER, panics).options(patient()).build_id("old");
    let first = Running::on(&hub, old);
    let handle = first.client.start(ORDER, &5).await.unwrap();
    let stalled = first.wait(handle.id(), |record| record.trouble.is_some()).await;
    assert_eq!(stalled.trouble.unwrap().build.as_deref(), Some("old"));
    first.stop().await;

    let again = Running::on(&hub, |worker| old(worker).orchestration(FINE, succeeds));
    // The worker has attached by the time of its output.
    let fine = again.client.start(FINE, &1).await.unwrap();
    assert_eq!(fine.output_within(SOON).await.unwrap(), 1);
    assert_eq!(handle.status().await.unwrap().unwrap().attempts, 1, "the same build would only fail again");
    again.stop().await;

    let new = Running::on(&hub, |worker| worker.orchestration(ORDER, succeeds).build_id("new"));
    assert_eq!(handle.output_within(SOON).await.unwrap(), 5);
    new.stop().await;
}

#[tokio::test]
async fn stalled_instance_is_retried_at_once() {
    let tries = Arc::new(AtomicBool::new(false));
    let code = {
        let mended = Arc::clone(&tries);
        move |_: OrchestrationContext, n: u32| {
            let mended = Arc::clone(&mended);
            async move {
                assert!(mended.load(Ordering::SeqCst), "no luck with {n}");
                Ok(n)
            }
        }
    };
    let running = Running::start(|worker| worker.orchestration(ORDER, code).options(patient()));
    let handle = running.client.start(ORDER, &5).await.unwrap();
    running.wait(handle.id(), |record| record.trouble.is_some()).await;
    running.client.retry(handle.id()).await.unwrap();
    running.wait(handle.id(), |record| record.attempts == 2).await;
    tries.store(true, Ordering::SeqCst);
    running.client.retry(handle.id()).await.unwrap();
    assert_eq!(handle.output_within(SOON).await.unwrap(), 5);
    let refused = running.client.retry(handle.id()).await.unwrap_err();
    assert!(matches!(refused, ClientError::Client(RawClientError::NotStalled { .. })), "{refused}");
    running.stop().await;
}

#[tokio::test]
async fn parent_that_is_terminated_ends_a_stalled_child() {
    const PARENT: Orchestration<u32, u32> = Orchestration::new("parent");
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call_orchestration(ORDER, &n).instance(&InstanceId::new("child")?).await?)
    }
    let running = Running::start(|worker| {
        worker.orchestration(PARENT, parent).orchestration(ORDER, panics).options(patient())
    });
    let handle = running.client.start(PARENT, &5).await.unwrap();
    let child = InstanceId::new("child").unwrap();
    running.wait(&child, |record| record.trouble.is_some()).await;
    handle.terminate("enough").await.unwrap();
    let ended = running.wait(&child, |record| record.status.is_ended()).await;
    assert_eq!(ended.status, Status::Terminated);
    running.stop().await;
}
