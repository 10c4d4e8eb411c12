//! Whole programs on the memory store, through the public API: worker, client, real time and real concurrency.
//! Every wait is for a condition, with a deadline.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, ClientError, Error, Event, Orchestration, OrchestrationContext, Result, Status,
};
use futures::future::{join_all, try_join_all};
use futures::select_biased;

use crate::support::{Running, SOON};

const DOUBLE: Activity<u32, u32> = Activity::new("double");
const BROKEN: Activity<u32, u32> = Activity::new("broken");
const GO: Event<u32> = Event::new("Go");

async fn double(_: ActivityContext, n: u32) -> Result<u32> {
    Ok(2 * n)
}

async fn broken(_: ActivityContext, n: u32) -> Result<u32> {
    Err(Error::fatal(format!("no {n}")))
}

#[tokio::test]
async fn a_chain_and_a_fan_out_give_their_output() {
    const SUM: Orchestration<u32, u32> = Orchestration::new("sum");
    async fn sum(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let first = ctx.call(DOUBLE, &n).await?;
        let numbers: Vec<u32> = (0..first).collect();
        let doubled = try_join_all(numbers.iter().map(|n| ctx.call(DOUBLE, n))).await?;
        Ok(doubled.iter().sum())
    }
    let running = Running::start(|worker| worker.orchestration(SUM, sum).activity(DOUBLE, double));
    let handle = running.client.start(SUM, &50).id("sum-1").await.unwrap();
    assert_eq!(handle.output_within(SOON).await.unwrap(), 9900);
    let record = handle.status().await.unwrap().unwrap();
    assert_eq!((record.status, record.attempts, record.trouble), (Status::Completed, 0, None));
    running.stop().await;
}

#[tokio::test]
async fn a_timer_loses_or_wins_its_race() {
    const RACE: Orchestration<u64, String> = Orchestration::new("race");
    async fn race(ctx: OrchestrationContext, millis: u64) -> Result<String> {
        let mut go = ctx.event(GO);
        let mut late = ctx.sleep(Duration::from_millis(millis));
        Ok(select_biased! {
            n = go => format!("go {}", n?),
            () = late => "late".to_owned(),
        })
    }
    let running = Running::start(|worker| worker.orchestration(RACE, race));
    let timed = running.client.start(RACE, &20).await.unwrap();
    assert_eq!(timed.output_within(SOON).await.unwrap(), "late");
    let raised = running.client.start(RACE, &3_600_000).await.unwrap();
    raised.raise(GO, &7).await.unwrap();
    assert_eq!(raised.output_within(SOON).await.unwrap(), "go 7");
    running.stop().await;
}

#[tokio::test]
async fn a_childs_failure_reaches_the_parent_and_the_client_unchanged() {
    const PARENT: Orchestration<u32, u32> = Orchestration::new("parent");
    const CHILD: Orchestration<u32, u32> = Orchestration::new("child");
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call_orchestration(CHILD, &n).await?)
    }
    async fn child(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call(BROKEN, &n).await?)
    }
    let running = Running::start(|worker| {
        worker.orchestration(PARENT, parent).orchestration(CHILD, child).activity(BROKEN, broken)
    });
    let handle = running.client.start(PARENT, &9).await.unwrap();
    match handle.output_within(SOON).await {
        Err(ClientError::Failed { source, .. }) => {
            assert_eq!((source.message.as_str(), source.retryable), ("no 9", false));
        }
        other => panic!("expected a failure, got {other:?}"),
    }
    running.stop().await;
}

#[tokio::test]
async fn continue_as_new_keeps_events_that_arrive_meanwhile() {
    const COLLECT: Orchestration<Vec<u32>, Vec<u32>> = Orchestration::new("collect");
    async fn collect(
        ctx: OrchestrationContext,
        mut got: Vec<u32>,
    ) -> Result<ControlFlow<Vec<u32>, Vec<u32>>> {
        got.push(ctx.event(GO).await?);
        Ok(if got.len() == 40 { ControlFlow::Break(got) } else { ControlFlow::Continue(got) })
    }
    let running = Running::start(|worker| worker.orchestration(COLLECT, collect));
    let handle = running.client.start(COLLECT, &Vec::new()).await.unwrap();
    for n in 0..40 {
        handle.raise(GO, &n).await.unwrap();
    }
    // One client raised them one after another: they arrive in that order, each once, whatever run they meet.
    assert_eq!(handle.output_within(SOON).await.unwrap(), (0..40).collect::<Vec<_>>());
    let record = handle.status().await.unwrap().unwrap();
    assert_eq!(record.generation, 39);
    running.stop().await;
}

#[tokio::test]
async fn a_suspended_instance_waits_and_goes_on_when_resumed() {
    const WAIT: Orchestration<(), u32> = Orchestration::new("wait");
    async fn wait(ctx: OrchestrationContext, (): ()) -> Result<u32> {
        Ok(ctx.event(GO).await?)
    }
    let running = Running::start(|worker| worker.orchestration(WAIT, wait));
    let handle = running.client.start(WAIT, &()).await.unwrap();
    handle.suspend("hold on").await.unwrap();
    running.wait(handle.id(), |record| record.status == Status::Suspended).await;
    handle.raise(GO, &1).await.unwrap();
    // Another instance gets through after it, so the suspended one had its chance and did not take it.
    let other = running.client.start(WAIT, &()).await.unwrap();
    other.raise(GO, &2).await.unwrap();
    assert_eq!(other.output_within(SOON).await.unwrap(), 2);
    assert_eq!(handle.status().await.unwrap().unwrap().status, Status::Suspended);
    handle.resume("go on").await.unwrap();
    assert_eq!(handle.output_within(SOON).await.unwrap(), 1);
    running.stop().await;
}

#[tokio::test]
async fn terminate_reaches_open_children() {
    const PARENT: Orchestration<(), u32> = Orchestration::new("parent");
    const CHILD: Orchestration<(), u32> = Orchestration::new("child");
    async fn parent(ctx: OrchestrationContext, (): ()) -> Result<u32> {
        ctx.set_status("waiting for the child");
        let id = dauer::InstanceId::new("the-child")?;
        Ok(ctx.call_orchestration(CHILD, &()).instance(&id).await?)
    }
    async fn child(ctx: OrchestrationContext, (): ()) -> Result<u32> {
        Ok(ctx.event(GO).await?)
    }
    let running = Running::start(|worker| worker.orchestration(PARENT, parent).orchestration(CHILD, child));
    let handle = running.client.start(PARENT, &()).await.unwrap();
    let child = running.client.handle(CHILD, "the-child").unwrap();
    running.wait(child.id(), |record| record.status == Status::Running).await;
    handle.terminate("enough").await.unwrap();
    for id in [handle.id(), child.id()] {
        running.wait(id, |record| record.status == Status::Terminated).await;
    }
    let record = handle.status().await.unwrap().unwrap();
    assert_eq!(record.details.custom_status().unwrap().as_str(), "\"waiting for the child\"");
    match handle.output_within(SOON).await {
        Err(ClientError::Ended { status, .. }) => assert_eq!(status, Status::Terminated),
        other => panic!("expected an end, got {other:?}"),
    }
    running.stop().await;
}

#[tokio::test]
async fn an_activity_that_panics_is_a_failure_the_orchestration_can_handle() {
    const PANICS: Activity<u32, u32> = Activity::new("panics");
    const CAREFUL: Orchestration<u32, String> = Orchestration::new("careful");
    async fn panics(_: ActivityContext, n: u32) -> Result<u32> {
        assert!(n > 1_000, "number {n} is too small");
        Ok(n)
    }
    async fn careful(ctx: OrchestrationContext, n: u32) -> Result<String> {
        Ok(match ctx.call(PANICS, &n).await {
            Ok(n) => n.to_string(),
            Err(error) => format!("caught: {error}"),
        })
    }
    let running = Running::start(|worker| worker.orchestration(CAREFUL, careful).activity(PANICS, panics));
    let handle = running.client.start(CAREFUL, &3).await.unwrap();
    let output = handle.output_within(SOON).await.unwrap();
    assert!(output.contains("number 3 is too small"), "{output}");
    running.stop().await;
}

#[tokio::test]
async fn two_workers_share_a_hub_and_every_call_is_applied_once() {
    const COUNT: Orchestration<u32, u32> = Orchestration::new("count");
    async fn count(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let calls = join_all((0..n).map(|i| ctx.call(DOUBLE, &i).start())).await;
        let mut total = 0;
        for call in calls {
            total += call?;
        }
        Ok(total)
    }
    let executed = Arc::new(AtomicU32::new(0));
    let hub = dauer::open("memory:").unwrap();
    let start = |executed: &Arc<AtomicU32>| {
        let executed = Arc::clone(executed);
        Running::on(&hub, move |worker| {
            worker.orchestration(COUNT, count).activity(DOUBLE, move |_: ActivityContext, n: u32| {
                executed.fetch_add(1, Ordering::Relaxed);
                async move { Ok(2 * n) }
            })
        })
    };
    let (one, two) = (start(&executed), start(&executed));
    let mut handles = Vec::new();
    for i in 0..20 {
        handles.push(one.client.start(COUNT, &10).id(format!("count-{i}")).await.unwrap());
    }
    for handle in handles {
        assert_eq!(handle.output_within(SOON).await.unwrap(), 90);
    }
    // Nobody died, so at least once is exactly once here.
    assert_eq!(executed.load(Ordering::Relaxed), 200);
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn the_same_id_twice_is_refused_while_it_lives_and_replaced_when_it_has_ended() {
    const WAIT: Orchestration<(), u32> = Orchestration::new("wait");
    async fn wait(ctx: OrchestrationContext, (): ()) -> Result<u32> {
        Ok(ctx.event(GO).await?)
    }
    let running = Running::start(|worker| worker.orchestration(WAIT, wait));
    let first = running.client.start(WAIT, &()).id("one").await.unwrap();
    let refused = running.client.start(WAIT, &()).id("one").await.err().unwrap();
    let text = format!("{refused:?}");
    assert!(text.contains("Exists"), "{text}");
    first.raise(GO, &1).await.unwrap();
    assert_eq!(first.output_within(SOON).await.unwrap(), 1);
    let second = running.client.start(WAIT, &()).id("one").await.unwrap();
    second.raise(GO, &2).await.unwrap();
    assert_eq!(second.output_within(SOON).await.unwrap(), 2);
    running.stop().await;
}
