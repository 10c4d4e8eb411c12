//! What other frameworks cannot do, or only by combinators of their own, end to end: the vocabulary of the `futures` crate as
//! it stands, early events, typed continue-as-new, requests to cancel that the code sees, and histories of a real hub that
//! are replayed in a unit test. On both stores, with live futures and with every turn replayed from its history.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::Arc;
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, CallError, Event, Hub, InstanceId, Orchestration, OrchestrationContext,
    Result, Status, TestError, TestHub, WorkerBuilder,
};
use dauer_proto::json::HistoryDocument;
use dauer_proto::{EventType, HistoryEvent};
use futures::future::join_all;
use futures::select_biased;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Semaphore;

use crate::support::{Folder, Running, SOON};

const DOUBLE: Activity<u32, u32> = Activity::new("double");
const NUMBER: Event<u32> = Event::new("number");
const CANCEL: Event<String> = Event::new("cancel");
const NUMBERS: Orchestration<u32, Vec<u32>> = Orchestration::new("numbers");
const TEXT: Orchestration<u32, String> = Orchestration::new("text");

/// Beyond 30 futures `join_all` polls only those that were woken: futures that keep no waker wait for ever from here on.
const POLLED_WHEN_WOKEN: u32 = 40;

async fn double(_: ActivityContext, n: u32) -> Result<u32> {
    Ok(2 * n)
}

/// Hubs in memory and in a file, each with a worker that keeps live futures and with one that replays every turn.
fn everywhere(folder: &Folder, code: impl Fn(WorkerBuilder) -> WorkerBuilder) -> Vec<Running> {
    let mut all = Vec::new();
    for (number, live) in [true, false].into_iter().enumerate() {
        let file = format!("sqlite:{}", folder.0.join(format!("hub-{number}.db")).display());
        for url in ["memory:", &file] {
            let hub = dauer::open(url).unwrap();
            all.push(Running::on(
                &hub,
                |worker| {
                    if live { code(worker) } else { code(worker).replay_always() }
                },
            ));
        }
    }
    all
}

/// The history as `dauer history -o json` writes it.
async fn exported(hub: &Hub, id: &InstanceId) -> HistoryDocument {
    let record = hub.client().raw().get(id).await.unwrap().unwrap();
    let slice = hub.manage().read_history(id, None, 0, usize::MAX).await.unwrap();
    assert_eq!(slice.next, None, "the whole history in one piece");
    let events = slice.batches.iter().flat_map(|stored| stored.batch.decode().unwrap()).collect();
    let execution_id = record.execution.to_string();
    HistoryDocument { instance_id: id.as_str().to_owned(), execution_id, events }
}

/// The results in a history, in its order.
fn results(events: &[HistoryEvent]) -> Vec<u32> {
    let result = |event: &HistoryEvent| match &event.event_type {
        Some(EventType::TaskCompleted(done)) => Some(done.result.as_ref().unwrap().parse().unwrap()),
        _ => None,
    };
    events.iter().filter_map(result).collect()
}

#[tokio::test]
async fn forty_calls_joined_by_the_futures_crate_all_arrive() {
    async fn joined(ctx: OrchestrationContext, n: u32) -> Result<Vec<u32>> {
        let doubled = join_all((0..n).map(|i| ctx.call(DOUBLE, &i))).await;
        Ok(doubled.into_iter().collect::<Result<_, CallError>>()?)
    }
    let folder = Folder::new("forty");
    for running in
        everywhere(&folder, |worker| worker.orchestration(NUMBERS, joined).activity(DOUBLE, double))
    {
        let handle = running.client.start(NUMBERS, &POLLED_WHEN_WOKEN).await.unwrap();
        let expected: Vec<_> = (0..POLLED_WHEN_WOKEN).map(|i| 2 * i).collect();
        assert_eq!(handle.output_within(SOON).await.unwrap(), expected);
        running.stop().await;
    }
}

#[tokio::test]
async fn what_is_unordered_is_seen_in_the_order_of_the_history() {
    async fn unordered(ctx: OrchestrationContext, n: u32) -> Result<Vec<u32>> {
        let mut calls: FuturesUnordered<_> = (0..n).map(|i| ctx.call(DOUBLE, &i)).collect();
        let mut seen = Vec::new();
        while let Some(doubled) = calls.next().await {
            seen.push(doubled?);
        }
        Ok(seen)
    }
    let folder = Folder::new("unordered");
    for running in
        everywhere(&folder, |worker| worker.orchestration(NUMBERS, unordered).activity(DOUBLE, double))
    {
        for n in [3, POLLED_WHEN_WOKEN, 500] {
            let handle = running.client.start(NUMBERS, &n).await.unwrap();
            let seen = handle.output_within(SOON).await.unwrap();
            let history = exported(&running.hub, handle.id()).await;
            assert_eq!(seen, results(&history.events), "{n} calls");
            assert_eq!(seen.len(), n as usize);
        }
        running.stop().await;
    }
}

#[tokio::test]
async fn events_raised_before_anyone_waits_are_given_in_order() {
    async fn late(ctx: OrchestrationContext, n: u32) -> Result<Vec<u32>> {
        ctx.call(DOUBLE, &n).await?;
        let mut seen = Vec::new();
        for _ in 0..n {
            seen.push(ctx.event(NUMBER).await?);
        }
        Ok(seen)
    }
    let folder = Folder::new("early");
    for url in ["memory:", &folder.url()] {
        let hub = dauer::open(url).unwrap();
        // There is no worker yet: the orchestration has not even begun.
        let handle = hub.client().start(NUMBERS, &5).await.unwrap();
        for number in 0..5 {
            handle.raise(NUMBER, &number).await.unwrap();
        }
        let running =
            Running::on(&hub, |worker| worker.orchestration(NUMBERS, late).activity(DOUBLE, double));
        assert_eq!(handle.output_within(SOON).await.unwrap(), [0, 1, 2, 3, 4]);
        running.stop().await;
    }
}

#[tokio::test]
async fn continue_as_new_is_a_typed_value() {
    // The input is a pair, the output a text: `Continue` takes only the first, `Break` only the second.
    const SUM: Orchestration<(u32, u64), String> = Orchestration::new("sum");
    async fn sum(
        ctx: OrchestrationContext,
        (left, total): (u32, u64),
    ) -> Result<ControlFlow<String, (u32, u64)>> {
        let doubled = ctx.call(DOUBLE, &left).await?;
        let total = total + u64::from(doubled);
        Ok(if left == 0 { Break(format!("total {total}")) } else { Continue((left - 1, total)) })
    }
    let folder = Folder::new("typed");
    for running in everywhere(&folder, |worker| worker.orchestration(SUM, sum).activity(DOUBLE, double)) {
        let handle = running.client.start(SUM, &(9, 0)).await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), "total 90");
        assert_eq!(handle.status().await.unwrap().unwrap().generation, 9);
        running.stop().await;
    }
}

/// An activity that ends when the test says so, and says when it has begun and ended.
struct Slow {
    begun: Semaphore,
    allowed: Semaphore,
    ended: Semaphore,
}

impl Slow {
    const NAME: Activity<u32, u32> = Activity::new("slow");

    fn new() -> Arc<Self> {
        Arc::new(Self { begun: Semaphore::new(0), allowed: Semaphore::new(0), ended: Semaphore::new(0) })
    }

    fn register(self: &Arc<Self>, worker: WorkerBuilder) -> WorkerBuilder {
        let slow = Arc::clone(self);
        worker.activity(Self::NAME, move |_: ActivityContext, n: u32| {
            let slow = Arc::clone(&slow);
            async move {
                slow.begun.add_permits(1);
                slow.allowed.acquire().await?.forget();
                slow.ended.add_permits(1);
                Ok(n)
            }
        })
    }

    async fn seen(what: &Semaphore) {
        tokio::time::timeout(SOON, what.acquire()).await.unwrap().unwrap().forget();
    }
}

#[tokio::test]
async fn a_request_to_cancel_is_seen_by_the_code_which_cleans_up() {
    async fn cancellable(ctx: OrchestrationContext, n: u32) -> Result<String> {
        let mut work = ctx.call(Slow::NAME, &n);
        let mut cancel = ctx.event(CANCEL);
        let why = select_biased! {
            done = work => return Ok(format!("done {}", done?)),
            why = cancel => why?,
        };
        // The work goes on, and its late result disturbs nobody; the code goes on, too, and may call what it likes.
        let cleaned = ctx.call(DOUBLE, &n).await?;
        ctx.event(NUMBER).await?;
        Ok(format!("cancelled because {why}, cleaned up {cleaned}"))
    }
    let folder = Folder::new("cancel");
    for url in ["memory:", &folder.url()] {
        let slow = Slow::new();
        let running = Running::on(&dauer::open(url).unwrap(), |worker| {
            slow.register(worker.orchestration(TEXT, cancellable).activity(DOUBLE, double))
        });
        let handle = running.client.start(TEXT, &4).await.unwrap();
        Slow::seen(&slow.begun).await;
        handle.raise(CANCEL, &"of rain".to_owned()).await.unwrap();
        // The call that lost is answered while the orchestration waits for something else.
        running.wait(handle.id(), |record| record.history_len >= 6).await;
        slow.allowed.add_permits(1);
        Slow::seen(&slow.ended).await;
        handle.raise(NUMBER, &1).await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), "cancelled because of rain, cleaned up 8");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_before_it_is_polled_is_never_scheduled() {
    async fn lazy(ctx: OrchestrationContext, n: u32) -> Result<Vec<u32>> {
        drop(ctx.call(DOUBLE, &100));
        let kept = ctx.call(DOUBLE, &200).start();
        drop(ctx.call(DOUBLE, &300).start());
        Ok(vec![ctx.call(DOUBLE, &n).await?, kept.await?])
    }
    let folder = Folder::new("lazy");
    for running in everywhere(&folder, |worker| worker.orchestration(NUMBERS, lazy).activity(DOUBLE, double))
    {
        let handle = running.client.start(NUMBERS, &1).await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), [2, 400]);
        let history = exported(&running.hub, handle.id()).await;
        let input = |event: &HistoryEvent| match &event.event_type {
            Some(EventType::TaskScheduled(task)) => task.input.clone(),
            _ => None,
        };
        let scheduled: Vec<_> = history.events.iter().filter_map(input).collect();
        assert_eq!(scheduled, ["200", "300", "1"], "in the order in which they were started or polled");
        running.stop().await;
    }
}

#[tokio::test]
async fn a_parent_sees_that_its_child_was_terminated() {
    const CHILD: Orchestration<u32, u32> = Orchestration::new("child");
    async fn child(ctx: OrchestrationContext, _: u32) -> Result<u32> {
        Ok(ctx.event(NUMBER).await?)
    }
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<String> {
        let id = InstanceId::new("the-child")?;
        Ok(match ctx.call_orchestration(CHILD, &n).instance(&id).await {
            Ok(n) => format!("done {n}"),
            Err(CallError::Failed(failure)) => format!("gone: {}", failure.message),
            Err(other) => return Err(other.into()),
        })
    }
    let folder = Folder::new("terminated");
    for running in
        everywhere(&folder, |worker| worker.orchestration(TEXT, parent).orchestration(CHILD, child))
    {
        let handle = running.client.start(TEXT, &1).await.unwrap();
        let child = running.client.handle(CHILD, "the-child").unwrap();
        running.wait(child.id(), |record| record.status == Status::Running).await;
        child.terminate("enough").await.unwrap();
        let output = handle.output_within(SOON).await.unwrap();
        assert_eq!(output, "gone: The sub-orchestration 'the-child' was terminated.");
        running.stop().await;
    }
}

#[tokio::test]
async fn time_and_ids_are_there_at_once_and_cost_no_history() {
    async fn knows(ctx: OrchestrationContext, n: u32) -> Result<String> {
        let ids: Vec<_> = (0..n).map(|_| (ctx.now(), ctx.uuid())).collect();
        ctx.call(DOUBLE, &n).await?;
        Ok(format!("{ids:?}"))
    }
    let folder = Folder::new("knows");
    for running in everywhere(&folder, |worker| worker.orchestration(TEXT, knows).activity(DOUBLE, double)) {
        let few = running.client.start(TEXT, &1).await.unwrap();
        let many = running.client.start(TEXT, &1_000).await.unwrap();
        few.output_within(SOON).await.unwrap();
        let told = many.output_within(SOON).await.unwrap();
        let kinds = |history: HistoryDocument| -> Vec<_> {
            let events = history.events.iter().map(dauer_proto::event::kind_name);
            events.filter(|kind| *kind != "OrchestratorStarted").map(str::to_owned).collect()
        };
        let history = exported(&running.hub, many.id()).await;
        assert!(told.len() > 1_000 * 36, "a thousand ids");
        assert_eq!(kinds(history), kinds(exported(&running.hub, few.id()).await));
        running.stop().await;
    }
}

#[tokio::test]
async fn a_history_of_a_real_hub_is_replayed_with_todays_code() {
    async fn recorded(ctx: OrchestrationContext, n: u32) -> Result<String> {
        let doubled = join_all((0..n).map(|i| ctx.call(DOUBLE, &i))).await;
        let number = ctx.event(NUMBER).timeout(Duration::from_secs(3_600)).await?;
        Ok(format!("{} calls, then {number}", doubled.len()))
    }
    async fn changed(ctx: OrchestrationContext, n: u32) -> Result<String> {
        let number = ctx.event(NUMBER).timeout(Duration::from_secs(3_600)).await?; // the changed line
        let doubled = join_all((0..n).map(|i| ctx.call(DOUBLE, &i))).await;
        Ok(format!("{} calls, then {number}", doubled.len()))
    }
    let line = include_str!("combinators.rs").lines().position(|line| line.ends_with("// the changed line"));
    let folder = Folder::new("replayed");
    for running in everywhere(&folder, |worker| worker.orchestration(TEXT, recorded).activity(DOUBLE, double))
    {
        let handle = running.client.start(TEXT, &POLLED_WHEN_WOKEN).await.unwrap();
        // While it still runs: the test of a change before it is deployed.
        let waits = |record: &dauer::Record| record.history_len >= 2 * POLLED_WHEN_WOKEN + 3;
        running.wait(handle.id(), waits).await;
        let running_history = exported(&running.hub, handle.id()).await.to_text().unwrap();
        handle.raise(NUMBER, &7).await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), "40 calls, then 7");
        let ended_history = exported(&running.hub, handle.id()).await.to_text().unwrap();
        for history in [running_history, ended_history] {
            TestHub::replay(TEXT, recorded, &history).unwrap();
            let error = TestHub::replay(TEXT, changed, &history).unwrap_err();
            assert!(matches!(error, TestError::Turn { .. }), "{error}");
            let place = format!("combinators.rs:{}:", line.unwrap() + 1);
            let said = format!("{error} {:?}", std::error::Error::source(&error).map(ToString::to_string));
            assert!(said.contains(&place), "{place} is not in: {said}");
        }
        running.stop().await;
    }
}
