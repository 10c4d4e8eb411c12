//! Several versions of one orchestration side by side, and the rules for which code an instance gets.

#![allow(clippy::expect_used, clippy::unwrap_used)] // Also in what the tests share.

use std::ops::ControlFlow;
use std::time::Duration;

use dauer::{
    Event, Handle, HostOptions, Orchestration, OrchestrationContext, Result, Status, TroubleKind,
    WorkerBuilder,
};

use crate::support::{Folder, Running, SOON};

const CODE: Orchestration<u32, String> = Orchestration::new("code");
const PARENT: Orchestration<u32, String> = Orchestration::new("parent");
const LOOP: Orchestration<u32, String> = Orchestration::new("loop");
const GO: Event<String> = Event::new("go");

/// Longer than any test: whatever happens within one did not wait for a poll, or for another attempt.
const LONG: Duration = Duration::from_secs(60 * 60);

/// Asks only when it is told to, and tries nothing twice within a test.
fn by_hints() -> HostOptions {
    let (retry_delay_min, retry_delay_max) = (LONG, LONG);
    HostOptions { poll_max: LONG, retry_delay_min, retry_delay_max, ..HostOptions::default() }
}

/// Looks often for what nobody can run. The delay between two attempts is long: whoever can run it need not wait for it.
fn curious() -> HostOptions {
    HostOptions { poll_max: Duration::from_millis(20), ..by_hints() }
}

fn say(ctx: &OrchestrationContext, code: &str) -> String {
    format!("{code} as {}", ctx.version().unwrap_or("none"))
}

async fn plain(ctx: OrchestrationContext, _: u32) -> Result<String> {
    Ok(say(&ctx, "plain"))
}

async fn one(ctx: OrchestrationContext, _: u32) -> Result<String> {
    Ok(say(&ctx, "one"))
}

async fn two(ctx: OrchestrationContext, _: u32) -> Result<String> {
    Ok(say(&ctx, "two"))
}

/// Waits before it says who it is, so that it is between two turns when its worker goes.
async fn slow_one(ctx: OrchestrationContext, _: u32) -> Result<String> {
    let word = ctx.event(GO).await?;
    Ok(format!("{} {word}", say(&ctx, "one")))
}

fn urls(name: &str) -> (Folder, [String; 2]) {
    let folder = Folder::new(&format!("versions-{name}"));
    let url = folder.url();
    (folder, ["memory:".to_owned(), url])
}

async fn output(handle: &Handle<String>) -> String {
    handle.output_within(SOON).await.unwrap()
}

/// The trouble of an instance, once it was tried so often; its reason.
async fn trouble(running: &Running, handle: &Handle<String>, attempts: u32) -> String {
    let record = running.wait(handle.id(), |record| record.attempts >= attempts).await;
    let trouble = record.trouble.expect("it shows no trouble");
    assert_eq!(trouble.kind, TroubleKind::UnknownName);
    assert!(!record.status.is_ended(), "an unknown version never fails by itself");
    trouble.reason
}

#[tokio::test]
async fn one_worker_runs_all_its_versions_and_each_instance_gets_its_own() {
    let running = Running::start(|worker| {
        let worker = worker.orchestration(CODE, plain).orchestration(CODE.version("1"), one);
        worker.orchestration(CODE.version("2"), two).options(by_hints())
    });
    for (code, said) in
        [(CODE, "plain as none"), (CODE.version("1"), "one as 1"), (CODE.version("2"), "two as 2")]
    {
        let handle = running.client.start(code, &1).await.unwrap();
        assert_eq!(output(&handle).await, said);
        let record = handle.status().await.unwrap().unwrap();
        assert_eq!(record.queue.version.as_deref(), code.version_name());
        // It stays so when it is run again.
        handle.restart().await.unwrap();
        assert_eq!(output(&handle).await, said);
    }
    running.stop().await;
}

#[tokio::test]
async fn two_workers_take_only_the_versions_they_have() {
    let (_folder, urls) = urls("two");
    for url in urls {
        let hub = dauer::open(&url).unwrap();
        // Neither would get a second chance within this test: whoever takes what it cannot run fails it.
        let old = Running::on(&hub, |worker| {
            worker.orchestration(CODE, plain).orchestration(CODE.version("1"), one).options(by_hints())
        });
        let other = dauer::open(&url).unwrap();
        let other = if url == "memory:" { &hub } else { &other };
        let new =
            Running::on(other, |worker| worker.orchestration(CODE.version("2"), two).options(by_hints()));
        let mut handles = Vec::new();
        for round in 0..20 {
            for (code, said) in
                [(CODE, "plain as none"), (CODE.version("1"), "one as 1"), (CODE.version("2"), "two as 2")]
            {
                handles.push((old.client.start(code, &round).await.unwrap(), said));
            }
        }
        for (handle, said) in &handles {
            assert_eq!(output(handle).await, *said);
        }
        new.stop().await;
        old.stop().await;
    }
}

#[tokio::test]
async fn a_start_without_a_version_is_never_upgraded() {
    let (_folder, urls) = urls("plain");
    for url in urls {
        let hub = dauer::open(&url).unwrap();
        let new = Running::on(&hub, |worker| worker.orchestration(CODE.version("2"), two).options(curious()));
        let handle = new.client.start(CODE, &1).await.unwrap();
        let reason = trouble(&new, &handle, 2).await;
        assert!(
            reason.contains("'code' is not registered without a version, only in version '2'"),
            "{reason}"
        );
        // The other one comes while this one is there, and goes on at once.
        let old = Running::on(&hub, |worker| worker.orchestration(CODE, plain).options(by_hints()));
        assert_eq!(output(&handle).await, "plain as none");
        let record = handle.status().await.unwrap().unwrap();
        assert_eq!((record.attempts, record.trouble), (0, None));
        old.stop().await;
        new.stop().await;
    }
}

#[tokio::test]
async fn an_unknown_version_is_shown_and_goes_on_once_a_worker_has_it() {
    let (_folder, urls) = urls("unknown");
    for url in urls {
        let hub = dauer::open(&url).unwrap();
        let old = Running::on(&hub, |worker| worker.orchestration(CODE.version("1"), one).options(curious()));
        let unknown = old.client.start(CODE.version("2"), &1).await.unwrap();
        let reason = trouble(&old, &unknown, 2).await;
        assert!(reason.contains("'code' is not registered in version '2', only in version '1'"), "{reason}");
        // What it can run is not disturbed by what it cannot.
        let fine = old.client.start(CODE.version("1"), &1).await.unwrap();
        assert_eq!(output(&fine).await, "one as 1");
        let new =
            Running::on(&hub, |worker| worker.orchestration(CODE.version("2"), two).options(by_hints()));
        assert_eq!(output(&unknown).await, "two as 2");
        new.stop().await;
        old.stop().await;
    }
}

#[tokio::test]
async fn an_instance_keeps_its_version_when_a_worker_with_the_next_takes_over() {
    let (_folder, urls) = urls("keeps");
    for url in urls {
        let hub = dauer::open(&url).unwrap();
        let old = Running::on(&hub, |worker| worker.orchestration(CODE.version("1"), slow_one));
        let handle = old.client.start(CODE.version("1"), &1).await.unwrap();
        old.wait(handle.id(), |record| record.status == Status::Running).await;
        old.stop().await;
        let both = Running::on(&hub, |worker| {
            worker.orchestration(CODE.version("1"), slow_one).orchestration(CODE.version("2"), two)
        });
        handle.raise(GO, &"to the end".to_owned()).await.unwrap();
        assert_eq!(output(&handle).await, "one as 1 to the end");
        both.stop().await;
    }
}

#[tokio::test]
async fn a_child_has_its_parents_version_unless_another_is_given() {
    /// What its children say: the one that inherits, and the one it asks for by version.
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<String> {
        let inherited = ctx.call_orchestration(CODE, &n).await?;
        let given = ctx.call_orchestration(CODE.version("1"), &n).await?;
        Ok(format!("{}: {inherited}, {given}", say(&ctx, "parent")))
    }
    let children = |worker: WorkerBuilder| {
        let worker = worker.orchestration(CODE, plain).orchestration(CODE.version("1"), one);
        worker.orchestration(CODE.version("2"), two).options(by_hints())
    };
    let hub = dauer::open("memory:").unwrap();
    // Parents and children in two workers: what decides is the version, not who has the parent.
    let below = Running::on(&hub, children);
    let above = Running::on(&hub, |worker| {
        worker.orchestration(PARENT, parent).orchestration(PARENT.version("2"), parent).options(by_hints())
    });
    for (code, said) in [
        (PARENT, "parent as none: plain as none, one as 1"),
        (PARENT.version("2"), "parent as 2: two as 2, one as 1"),
    ] {
        let handle = above.client.start(code, &1).await.unwrap();
        assert_eq!(output(&handle).await, said);
    }
    above.stop().await;
    below.stop().await;
}

#[tokio::test]
async fn a_child_whose_inherited_version_is_unknown_is_shown_and_its_parent_waits() {
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<String> {
        Ok(ctx.call_orchestration(CODE, &n).instance(&dauer::InstanceId::new("child")?).await?)
    }
    let hub = dauer::open("memory:").unwrap();
    let old = Running::on(&hub, |worker| {
        worker.orchestration(PARENT.version("3"), parent).orchestration(CODE, plain).options(curious())
    });
    let handle = old.client.start(PARENT.version("3"), &1).await.unwrap();
    let child = old.client.handle(CODE, "child").unwrap();
    let reason = trouble(&old, &child, 2).await;
    assert!(reason.contains("in version '3'"), "{reason}");
    assert_eq!(handle.status().await.unwrap().unwrap().status, Status::Running);
    let new = Running::on(&hub, |worker| worker.orchestration(CODE.version("3"), two).options(by_hints()));
    assert_eq!(output(&handle).await, "two as 3");
    new.stop().await;
    old.stop().await;
}

#[tokio::test]
async fn continue_as_new_keeps_the_version_unless_the_code_says_otherwise() {
    /// Two rounds in its own version, then on in the next.
    async fn first(ctx: OrchestrationContext, round: u32) -> Result<ControlFlow<String, u32>> {
        assert_eq!(ctx.version(), Some("1"));
        if round == 2 {
            ctx.continue_in_version("2");
        }
        Ok(ControlFlow::Continue(round + 1))
    }
    async fn second(ctx: OrchestrationContext, round: u32) -> Result<ControlFlow<String, u32>> {
        assert_eq!(ctx.version(), Some("2"));
        Ok(match round {
            ..5 => ControlFlow::Continue(round + 1),
            _ => ControlFlow::Break(format!("{} in round {round}", say(&ctx, "second"))),
        })
    }
    let (_folder, urls) = urls("continue");
    for url in urls {
        let hub = dauer::open(&url).unwrap();
        // One worker for each: the run is handed over to the one that has its next version, without trouble.
        let old =
            Running::on(&hub, |worker| worker.orchestration(LOOP.version("1"), first).options(by_hints()));
        let new =
            Running::on(&hub, |worker| worker.orchestration(LOOP.version("2"), second).options(by_hints()));
        let handle = old.client.start(LOOP.version("1"), &0).await.unwrap();
        assert_eq!(output(&handle).await, "second as 2 in round 5");
        let record = handle.status().await.unwrap().unwrap();
        assert_eq!((record.queue.version.as_deref(), record.generation), (Some("2"), 5));
        new.stop().await;
        old.stop().await;
    }
}
