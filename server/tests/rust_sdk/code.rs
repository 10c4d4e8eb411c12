//! The orchestrations and activities of these tests.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, Event, Hub, Orchestration, OrchestrationContext, Result, RetryPolicy,
    WorkerBuilder,
};
use futures::future::try_join_all;

pub(crate) const ADD: Activity<u32, u32> = Activity::new("add");
pub(crate) const FLAKY: Activity<u32, u32> = Activity::new("flaky");
pub(crate) const ECHO: Activity<String, usize> = Activity::new("echo");
pub(crate) const CHAIN: Orchestration<u32, u32> = Orchestration::new("chain");
pub(crate) const FAMILY: Orchestration<u32, u32> = Orchestration::new("family");
pub(crate) const ASKS: Orchestration<u32, String> = Orchestration::new("asks");
pub(crate) const COUNTDOWN: Orchestration<u32, u32> = Orchestration::new("countdown");
pub(crate) const FAILS: Orchestration<u32, u32> = Orchestration::new("fails");
pub(crate) const WIDE: Orchestration<u32, usize> = Orchestration::new("wide");
pub(crate) const GO: Event<String> = Event::new("go");

/// What the code of these tests counts.
#[derive(Default)]
pub(crate) struct Counts {
    /// How often the code of a chain was begun.
    pub(crate) begun: AtomicU32,
    /// How often an activity ran.
    pub(crate) added: AtomicU32,
    /// Whether the flaky activity works by now.
    pub(crate) mended: AtomicU32,
}

/// A value that large makes an answer of several parts.
const LARGE: usize = 1_000_000;

pub(crate) fn register(worker: WorkerBuilder, counts: &Arc<Counts>) -> WorkerBuilder {
    let (begun, added, mended) = (Arc::clone(counts), Arc::clone(counts), Arc::clone(counts));
    let chain = move |ctx: OrchestrationContext, n: u32| {
        begun.begun.fetch_add(1, Ordering::SeqCst);
        async move {
            ctx.set_status(&"first");
            let one = ctx.call(ADD, &n).await?;
            let two = ctx.call(ADD, &one).await?;
            ctx.set_status(&"last");
            ctx.sleep(Duration::from_millis(10)).await;
            Ok(ctx.call(ADD, &two).await?)
        }
    };
    let add = move |_: ActivityContext, n: u32| {
        added.added.fetch_add(1, Ordering::SeqCst);
        async move { Ok(n + 1) }
    };
    let flaky = move |_: ActivityContext, n: u32| {
        let mended = mended.mended.load(Ordering::SeqCst) > 0;
        async move { if mended { Ok(n) } else { Err(std::io::Error::other("out of order").into()) } }
    };
    worker
        .orchestration(CHAIN, chain)
        .orchestration(FAMILY, family)
        .orchestration(ASKS, asks)
        .orchestration(COUNTDOWN, countdown)
        .orchestration(FAILS, fails)
        .orchestration(WIDE, wide)
        .activity(ADD, add)
        .activity(FLAKY, flaky)
        .activity(ECHO, |_: ActivityContext, text: String| async move { Ok(text.len()) })
}

/// A worker of a hub with all of the code.
pub(crate) fn worker(hub: &Hub) -> WorkerBuilder {
    register(hub.worker(), &Arc::default())
}

async fn family(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    let children = (0..n).map(|each| ctx.call_orchestration(CHAIN, &each));
    Ok(try_join_all(children.collect::<Vec<_>>()).await?.into_iter().sum())
}

async fn asks(ctx: OrchestrationContext, _: u32) -> Result<String> {
    ctx.set_status(&"asking");
    Ok(ctx.event(GO).await?)
}

async fn countdown(ctx: OrchestrationContext, n: u32) -> Result<ControlFlow<u32, u32>> {
    let next = ctx.call(ADD, &n).await?;
    Ok(if next < 4 { ControlFlow::Continue(next) } else { ControlFlow::Break(next) })
}

async fn fails(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    ctx.call(ADD, &n).await?;
    let twice = RetryPolicy::exponential(2, Duration::from_millis(1));
    Ok(ctx.call(FLAKY, &n).retry(twice).await?)
}

async fn wide(ctx: OrchestrationContext, n: u32) -> Result<usize> {
    let large = "x".repeat(LARGE);
    let lengths = try_join_all((0..n).map(|_| ctx.call(ECHO, &large))).await?;
    Ok(lengths.into_iter().sum())
}
