//! Children, detached starts, events between instances, continue-as-new, versions: all as in a hub.

#![allow(clippy::unwrap_used, reason = "clippy knows only #[test] functions as tests, not their helpers")]

use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use dauer_core::InstanceId;
use dauer_core::model::Status;
use dauer_proto::event::kind_name;
use dauer_replay::{Activity, Event, Failure, Orchestration, OrchestrationContext, Result, RetryPolicy};
use dauer_testhub::{Script, TestError, TestHub};

const HOUR: Duration = Duration::from_secs(3_600);
const STEP: Activity<u32, u32> = Activity::new("step");
const PARENT: Orchestration<u32, u32> = Orchestration::new("parent");
const CHILD: Orchestration<u32, u32> = Orchestration::new("child");
const NUMBER: Event<u32> = Event::new("number");

async fn child(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(ctx.call(STEP, &n).await? + 1)
}

fn id(text: &str) -> InstanceId {
    InstanceId::new(text).unwrap()
}

#[test]
fn a_child_runs_its_real_code() {
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call_orchestration(CHILD, &n).instance(&id("c")).await? * 2)
    }
    let mut hub = TestHub::new().orchestration(CHILD, child).activity(STEP, |n| Ok(n + 10));
    assert_eq!(hub.run(PARENT, parent, 1).unwrap(), 24);
    assert_eq!(hub.calls()[0].instance, id("c"));
    let kinds: Vec<_> = hub.history_of(&id("c")).unwrap().iter().map(kind_name).collect();
    assert_eq!(
        kinds,
        [
            "OrchestratorStarted",
            "ExecutionStarted",
            "TaskScheduled",
            "OrchestratorStarted",
            "TaskCompleted",
            "ExecutionCompleted",
        ]
    );
}

#[test]
fn a_child_that_the_test_does_not_know_is_named() {
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call_orchestration(CHILD, &n).await?)
    }
    let error = TestHub::new().run(PARENT, parent, 1).unwrap_err();
    assert!(matches!(error, TestError::NoOrchestration { .. }), "{error:?}");
    assert!(format!("{error:?}").contains("no orchestration is registered as 'child'"), "{error:?}");
}

/// A child under a chosen id is run again under that id: the hub replaces the ended one.
#[test]
fn a_failed_child_is_retried_under_its_id() {
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let call = ctx.call_orchestration(CHILD, &n).instance(&id("c"));
        Ok(call.retry(RetryPolicy::fixed(3, HOUR)).await?)
    }
    let script = Script::new().fail(Failure::new("Down", "no answer")).times(2).ok(5);
    let mut hub = TestHub::new().orchestration(CHILD, child).script(STEP, script);
    assert_eq!(hub.run(PARENT, parent, 1).unwrap(), 6);
    assert_eq!(hub.now(), 2 * HOUR);
    assert_eq!(hub.instances().count(), 2);
}

#[test]
fn a_detached_start_goes_its_own_way_and_an_event_reaches_it() {
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.start(CHILD, &id("alone"), &n);
        ctx.send_event(&id("alone"), NUMBER, &40);
        Ok(n)
    }
    async fn alone(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let more = ctx.event(NUMBER).await?;
        Ok(ctx.call(STEP, &(n + more)).await?)
    }
    let mut hub = TestHub::new().orchestration(CHILD, alone).activity(STEP, Ok);
    assert_eq!(hub.run(PARENT, parent, 2).unwrap(), 2);
    assert_eq!(hub.inputs(STEP).unwrap(), [42]);
    let ended: Vec<_> = hub.instances().collect();
    assert_eq!(ended, [(&id("alone"), Status::Completed), (&id("test"), Status::Completed)]);
}

#[test]
fn the_test_raises_an_event_for_a_child() {
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call_orchestration(CHILD, &n).instance(&id("c")).await?)
    }
    async fn waiting(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(n + ctx.event(NUMBER).await?)
    }
    let mut hub = TestHub::new().orchestration(CHILD, waiting).raise_to_at(&id("c"), HOUR, NUMBER, &5);
    assert_eq!(hub.run(PARENT, parent, 1).unwrap(), 6);
    assert_eq!(hub.now(), HOUR);
}

#[test]
fn terminating_the_parent_terminates_its_children() {
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call_orchestration(CHILD, &n).instance(&id("c")).await?)
    }
    async fn waiting(ctx: OrchestrationContext, _: u32) -> Result<u32> {
        Ok(ctx.event(NUMBER).await?)
    }
    let mut hub = TestHub::new().orchestration(CHILD, waiting).terminate_at(HOUR, &());
    assert!(matches!(hub.run(PARENT, parent, 1), Err(TestError::Terminated { .. })));
    assert!(hub.instances().all(|(_, status)| status == Status::Terminated));
}

/// Two events are there before the first run looks for one: the second is carried over to the next run.
#[test]
fn continue_as_new_carries_unread_events_over_and_begins_with_an_empty_history() {
    async fn sum(ctx: OrchestrationContext, sum: u32) -> Result<ControlFlow<u32, u32>> {
        ctx.sleep(HOUR).await;
        let sum = sum + ctx.event(NUMBER).await?;
        Ok(if sum < 30 { Continue(sum) } else { Break(sum) })
    }
    let mut hub = TestHub::new().raise_at(Duration::ZERO, NUMBER, &10).raise_at(Duration::ZERO, NUMBER, &20);
    assert_eq!(hub.run(PARENT, sum, 0).unwrap(), 30);
    assert_eq!(hub.now(), 2 * HOUR);
    let started = hub.history().iter().filter(|event| kind_name(event) == "ExecutionStarted").count();
    assert_eq!((started, kind_name(&hub.history()[1])), (1, "ExecutionStarted"));
}

#[test]
fn versions_are_matched_exactly_and_children_inherit_them() {
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        assert_eq!(ctx.version(), Some("2"));
        Ok(ctx.call_orchestration(CHILD, &n).await?)
    }
    async fn old(_: OrchestrationContext, _: u32) -> Result<u32> {
        Ok(1)
    }
    async fn new(_: OrchestrationContext, _: u32) -> Result<u32> {
        Ok(2)
    }
    let mut hub = TestHub::new().orchestration(CHILD, old).orchestration(CHILD.version("2"), new);
    assert_eq!(hub.run(PARENT.version("2"), parent, 0).unwrap(), 2);
}

#[test]
fn an_orchestration_may_call_itself() {
    async fn factorial(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(if n == 0 { 1 } else { n * ctx.call_orchestration(PARENT, &(n - 1)).await? })
    }
    assert_eq!(TestHub::new().run(PARENT, factorial, 5).unwrap(), 120);
}

/// The timer of the child's lost race is gone with the child: the clock does not go there before the test gives up.
#[test]
fn the_timers_of_an_ended_run_do_not_move_the_clock() {
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.call_orchestration(CHILD, &n).await?;
        Ok(ctx.event(NUMBER).await?)
    }
    async fn quick(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call(STEP, &n).timeout(HOUR).await?)
    }
    let mut hub = TestHub::new().orchestration(CHILD, quick).activity(STEP, Ok);
    assert!(matches!(hub.run(PARENT, parent, 3), Err(TestError::Stuck { .. })));
    assert_eq!(hub.now(), Duration::ZERO);
}
