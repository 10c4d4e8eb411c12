//! The same orchestration in a real hub and in a test hub: the histories are the same, event by event, and what the real
//! hub recorded is a history that can be replayed here.

#![allow(clippy::unwrap_used, reason = "clippy knows only #[test] functions as tests, not their helpers")]
#![allow(clippy::disallowed_methods, reason = "a real hub needs a runtime; the crate itself has none")]

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, Event, Failure, InstanceId, Orchestration, OrchestrationContext, Result,
    RetryPolicy, Script, TestError, TestHub,
};
use dauer_proto::HistoryEvent;
use dauer_proto::event::kind_name;
use dauer_proto::json::{HistoryDocument, event_to_value};

const STEP: Activity<u32, u32> = Activity::new("step");
const MAIN: Orchestration<u32, u32> = Orchestration::new("main");
const CHILD: Orchestration<u32, u32> = Orchestration::new("child");
const NUMBER: Event<u32> = Event::new("number");
const MILLISECOND: Duration = Duration::from_millis(1);

/// A deadline that only a broken test reaches.
const SOON: Duration = Duration::from_secs(20);

fn id(text: &str) -> InstanceId {
    InstanceId::new(text).unwrap()
}

/// Two runs, each with retries, a child under the same id, a timer, an event to nobody and an event from the child. The
/// second event of the first run is carried over to the second.
async fn main_code(ctx: OrchestrationContext, n: u32) -> Result<ControlFlow<u32, u32>> {
    ctx.set_status(&n);
    let step = ctx.call(STEP, &n).retry(RetryPolicy::fixed(3, MILLISECOND)).tag("n", "1").await?;
    let child = ctx.call_orchestration(CHILD, &step).instance(&id("child")).await?;
    ctx.sleep(MILLISECOND).await;
    ctx.send_event(&id("nobody"), NUMBER, &n);
    let number = ctx.event(NUMBER).await?;
    Ok(if n < 10 { Continue(10 + child + number) } else { Break(child + number) })
}

/// The same with the timer before the child.
async fn other_code(ctx: OrchestrationContext, n: u32) -> Result<ControlFlow<u32, u32>> {
    ctx.call(STEP, &n).retry(RetryPolicy::fixed(3, MILLISECOND)).await?;
    ctx.sleep(MILLISECOND).await;
    Ok(Break(n))
}

async fn child(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    ctx.send_event(&id("test"), NUMBER, &(n * 2));
    ctx.send_event(&id("test"), NUMBER, &(n * 3));
    Ok(n + 1)
}

fn down() -> Failure {
    Failure::new("Down", "no answer")
}

/// Fails in its second and third call.
async fn step(_: ActivityContext, n: u32) -> Result<u32> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    match CALLS.fetch_add(1, Ordering::Relaxed) {
        1 | 2 => Err(down().into()),
        _ => Ok(n),
    }
}

/// The output, and the history as the store has it.
async fn in_a_real_hub() -> (u32, HistoryDocument) {
    let hub = dauer::open("memory:").unwrap();
    let worker = hub.worker().orchestration(MAIN, main_code).orchestration(CHILD, child).activity(STEP, step);
    let worker = tokio::spawn(worker.build().unwrap().run(std::future::pending()));
    let handle = hub.client().start(MAIN, &1).id("test").await.unwrap();
    let output = handle.output_within(SOON).await.unwrap();
    let record = handle.status().await.unwrap().unwrap();
    let slice = hub.manage().read_history(&id("test"), None, 0, usize::MAX).await.unwrap();
    assert_eq!(slice.next, None);
    let events = slice.batches.iter().flat_map(|stored| stored.batch.decode().unwrap()).collect();
    worker.abort();
    (
        output,
        HistoryDocument { instance_id: "test".into(), execution_id: record.execution.to_string(), events },
    )
}

/// What does not depend on the clock, on the host's batches and on the ids of runs.
fn comparable(events: &[HistoryEvent]) -> Vec<String> {
    let turns = |event: &&HistoryEvent| kind_name(event) != "OrchestratorStarted";
    let text = |event: &HistoryEvent| {
        let mut value = event_to_value(event).unwrap();
        let event = value.as_object_mut().unwrap();
        event.remove("timestamp");
        for timer in ["timerCreated", "timerFired"] {
            if let Some(timer) = event.get_mut(timer) {
                timer.as_object_mut().unwrap().remove("fireAt");
            }
        }
        if let Some(started) = event.get_mut("executionStarted") {
            started["orchestrationInstance"].as_object_mut().unwrap().remove("executionId");
        }
        value.to_string()
    };
    events.iter().filter(turns).map(text).collect()
}

#[tokio::test]
async fn a_real_hub_and_a_test_hub_write_the_same_history() {
    let (output, recorded) = in_a_real_hub().await;
    let script = Script::new().ok(1).fail(down()).times(2).ok(14);
    let mut hub = TestHub::new().orchestration(CHILD, child).script(STEP, script);
    assert_eq!(hub.run(MAIN, main_code, 1).unwrap(), output);
    let (tested, recorded_events) = (comparable(hub.history()), comparable(&recorded.events));
    assert_eq!(tested, recorded_events);
    assert!(
        tested.len() > 15,
        "the second run has a start, two events, three attempts and more: {}",
        tested.len()
    );
    assert_eq!(hub.custom_status(), Some("14"));

    let exported = recorded.to_text().unwrap();
    TestHub::replay(MAIN, main_code, &exported).unwrap();
    assert!(matches!(TestHub::replay(MAIN, other_code, &exported), Err(TestError::Turn { .. })));
}
