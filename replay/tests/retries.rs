//! Retries, time-outs and detached starts. The server checks every turn twice: live and replayed from scratch.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use dauer_core::InstanceId;
use dauer_proto::failure::failure;
use dauer_proto::{ActionType, OrchestratorAction, TaskFailureDetails, event, time};
use dauer_replay::{
    Activity, Answer, CallError, Event, Failure, Orchestration, OrchestrationContext, Result, RetryPolicy,
};
use futures::future::FusedFuture;

use crate::support::{Server, raised};

const PRICE: Activity<u32, u32> = Activity::new("price");
const CHILD: Orchestration<u32, u32> = Orchestration::new("child");
const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
const APPROVED: Event<u32> = Event::new("approved");
const SECOND: Duration = Duration::from_secs(1);

/// What an answer asks for, in short: `#1 price[4] {a=b}`, `#2 timer @9000`, `#3 child[4] id`.
fn asked(answer: &Answer) -> Vec<String> {
    answer.actions.iter().filter(|action| crate::support::end_of(action).is_none()).map(shown).collect()
}

fn shown(action: &OrchestratorAction) -> String {
    let id = action.id;
    match action.orchestrator_action_type.as_ref().unwrap() {
        ActionType::ScheduleTask(task) => {
            let tags: String = task.tags.iter().map(|(key, value)| format!(" {key}={value}")).collect();
            format!("#{id} {}[{}]{tags}", task.name, task.input.as_deref().unwrap())
        }
        ActionType::CreateTimer(timer) => {
            format!("#{id} timer @{}", time::to_millis_ceil(timer.fire_at.as_ref().unwrap()).unwrap())
        }
        ActionType::CreateSubOrchestration(child) => {
            let input = child.input.as_deref().unwrap();
            format!("#{id} {}[{input}] {}", child.name, child.instance_id)
        }
        other => panic!("{other:?}"),
    }
}

/// Lets an open task fail.
fn fail(server: &mut Server, id: i32, details: TaskFailureDetails) -> Answer {
    let action = server.open.iter().find(|action| action.id == id).unwrap().clone();
    server.open.retain(|action| action.id != id);
    let at = server.now_ms;
    let failed = match action.orchestrator_action_type.unwrap() {
        ActionType::CreateSubOrchestration(_) => event::sub_orchestration_failed(at, id, details),
        _ => event::task_failed(at, id, details),
    };
    server.deliver(vec![failed])
}

fn down() -> TaskFailureDetails {
    failure("Down", "no answer")
}

#[test]
fn a_failed_activity_is_tried_again_after_growing_pauses() {
    async fn tries(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let policy = RetryPolicy::exponential(4, 10 * SECOND);
        Ok(ctx.call(PRICE, &n).retry(policy).tag("region", "north").await?)
    }
    let mut server = Server::start(SHOP, tries, &4);
    assert_eq!(server.open.iter().map(shown).collect::<Vec<_>>(), ["#0 price[4] region=north"]);
    assert_eq!(asked(&fail(&mut server, 0, down())), ["#1 timer @12000"], "the turn is at 2,000");
    assert_eq!(asked(&server.complete(1)), ["#2 price[4] region=north"]);
    assert_eq!(asked(&fail(&mut server, 2, down())), ["#3 timer @24000"], "twice as long");
    assert_eq!(asked(&server.complete(3)), ["#4 price[4] region=north"]);
    server.complete(4);
    assert_eq!(server.output::<u32>(), 4);
}

#[test]
fn the_last_failure_is_what_the_caller_sees() {
    async fn tries(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call(PRICE, &n).retry(RetryPolicy::fixed(2, SECOND)).await?)
    }
    let mut server = Server::start(SHOP, tries, &4);
    fail(&mut server, 0, down());
    server.complete(1);
    fail(&mut server, 2, failure("Gone", "moved away").with_property("to", "north"));
    assert_eq!(server.failure(), failure("Gone", "moved away").with_property("to", "north"));
}

#[test]
fn what_cannot_be_cured_or_is_not_wanted_is_not_tried_again() {
    async fn tries(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let policy = RetryPolicy::fixed(9, SECOND).retry_if(|failure: &Failure| failure.kind != "OutOfStock");
        Ok(ctx.call(PRICE, &n).retry(policy).await?)
    }
    for details in [failure("OutOfStock", "none left"), down().non_retriable()] {
        let mut server = Server::start(SHOP, tries, &4);
        fail(&mut server, 0, details.clone());
        assert_eq!(server.failure(), details);
    }
}

#[test]
fn no_attempt_begins_after_the_total() {
    async fn tries(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.sleep(SECOND).await;
        let policy = RetryPolicy::fixed(9, 3 * SECOND).total(6 * SECOND);
        Ok(ctx.call(PRICE, &n).retry(policy).await?)
    }
    let mut server = Server::start(SHOP, tries, &4);
    assert_eq!(asked(&server.complete(0)), ["#1 price[4]"], "it begins at 2,000");
    assert_eq!(asked(&fail(&mut server, 1, down())), ["#2 timer @6000"]);
    server.now_ms = 6_000;
    server.complete(2);
    // At 7,000: 5 s are spent, and 3 more would be too many.
    assert!(asked(&fail(&mut server, 3, down())).is_empty());
    assert_eq!(server.failure(), down());
}

#[test]
fn a_child_is_tried_again_under_its_own_id() {
    async fn tries(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let id = InstanceId::new("ship-1")?;
        Ok(ctx.call_orchestration(CHILD, &n).instance(&id).retry(RetryPolicy::fixed(2, SECOND)).await?)
    }
    let mut server = Server::start(SHOP, tries, &4);
    assert_eq!(server.open.iter().map(shown).collect::<Vec<_>>(), ["#0 child[4] ship-1"]);
    fail(&mut server, 0, down());
    assert_eq!(asked(&server.complete(1)), ["#2 child[4] ship-1"]);
    server.complete(2);
    assert_eq!(server.output::<u32>(), 4);
}

#[test]
fn started_calls_are_tried_again_too() {
    async fn tries(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let started = ctx.call(PRICE, &n).retry(RetryPolicy::fixed(2, SECOND)).start();
        let other = ctx.call(PRICE, &(n + 1)).await?;
        assert!(!started.is_terminated());
        Ok(other + started.await?)
    }
    let mut server = Server::start(SHOP, tries, &4);
    fail(&mut server, 0, down());
    assert_eq!(asked(&server.complete(1)), ["#2 timer @4000"], "it is looked at once somebody waits for it");
    server.complete(2);
    server.complete(3);
    assert_eq!(server.output::<u32>(), 9);
}

async fn within(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    match ctx.call(PRICE, &n).timeout(5 * SECOND).await {
        Ok(price) => Ok(price),
        Err(CallError::TimedOut { after }) => Ok(after.as_secs() as u32 + 100),
        Err(other) => Err(other.into()),
    }
}

#[test]
fn whatever_is_first_in_the_history_wins_the_race_with_the_time() {
    for (first, output) in [(0, 4), (1, 105)] {
        let mut server = Server::start(SHOP, within, &4);
        let open: Vec<_> = server.open.iter().map(shown).collect();
        assert_eq!(open, ["#0 price[4]", "#1 timer @6000"]);
        server.complete(first);
        assert_eq!(server.output::<u32>(), output);
    }
    // Both in one turn, the time first.
    let mut server = Server::start(SHOP, within, &4);
    let (time, price) = (server.answer_of(1), server.answer_of(0));
    server.deliver(vec![time, price]);
    assert_eq!(server.output::<u32>(), 105);
}

/// `select!` in a loop leaves out what is done, and polls what is not.
#[test]
fn a_time_out_says_when_it_is_done() {
    async fn watches(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let mut limited = ctx.call(PRICE, &n).timeout(5 * SECOND);
        assert!(!limited.is_terminated(), "before the first poll");
        assert!(futures::poll!(&mut limited).is_pending());
        assert!(!limited.is_terminated(), "while it is waited for");
        let price = (&mut limited).await.unwrap_or(77);
        assert!(limited.is_terminated());
        Ok(price)
    }
    for (first, output) in [(0, 4), (1, 77)] {
        let mut server = Server::start(SHOP, watches, &4);
        server.complete(first);
        assert_eq!(server.output::<u32>(), output);
    }
}

#[test]
fn a_failure_is_no_time_out() {
    let mut server = Server::start(SHOP, within, &4);
    fail(&mut server, 0, down());
    assert_eq!(server.failure(), down());
}

#[test]
fn a_time_out_covers_all_attempts() {
    async fn tries(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let call = ctx.call(PRICE, &n).retry(RetryPolicy::fixed(9, SECOND));
        Ok(call.timeout(5 * SECOND).await.unwrap_or(77))
    }
    let mut server = Server::start(SHOP, tries, &4);
    assert_eq!(asked(&fail(&mut server, 0, down())), ["#2 timer @3000"]);
    server.complete(1);
    assert_eq!(server.output::<u32>(), 77);
}

#[test]
fn an_event_that_comes_too_late_is_there_for_the_next() {
    async fn waits(ctx: OrchestrationContext, _: u32) -> Result<u32> {
        let in_time = ctx.event(APPROVED).timeout(5 * SECOND).await;
        assert!(matches!(in_time, Err(CallError::TimedOut { .. })));
        Ok(ctx.event(APPROVED).await?)
    }
    let mut server = Server::start(SHOP, waits, &4);
    server.complete(0);
    server.deliver(vec![raised("approved", &8)]);
    assert_eq!(server.output::<u32>(), 8);

    async fn in_time(ctx: OrchestrationContext, _: u32) -> Result<u32> {
        Ok(ctx.event(APPROVED).timeout(5 * SECOND).await?)
    }
    let mut server = Server::start(SHOP, in_time, &4);
    server.deliver(vec![raised("approved", &9)]);
    assert_eq!(server.output::<u32>(), 9);
}

#[test]
fn a_detached_orchestration_is_started_and_not_waited_for() {
    async fn starts(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.start(CHILD, &InstanceId::new("ship-1")?, &n);
        Ok(ctx.call(PRICE, &n).await?)
    }
    let mut server = Server::start(SHOP, starts, &4);
    let open: Vec<_> = server.open.iter().map(shown).collect();
    assert_eq!(open, ["#0 child[4] ship-1", "#1 price[4]"]);
    assert_eq!(fail(&mut server, 0, down()).actions, [], "its end is not noticed");
    server.complete(1);
    assert_eq!(server.output::<u32>(), 4);
}
