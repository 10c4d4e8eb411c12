//! Calls, children, timers, failures, and what the context knows.

#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauer_core::{InstanceId, Timestamp};
use dauer_proto::failure::failure;
use dauer_proto::{ActionType, ExecutionStartedEvent, TaskFailureDetails, event, time};
use dauer_replay::{Activity, CallError, Error, Live, Orchestration, OrchestrationContext, Program, Result};
use futures::future::FusedFuture;

use crate::support::{EXECUTION, INSTANCE, Server, activities, first, registry};

const PRICE: Activity<u32, u32> = Activity::new("price");
const SHIP: Activity<u32, u32> = Activity::new("ship");
const CHILD: Orchestration<u32, u32> = Orchestration::new("child");
const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
const TEXTS: Orchestration<u32, Vec<String>> = Orchestration::new("texts");

#[test]
fn a_call_is_scheduled_by_its_first_poll_or_start() {
    async fn lazy(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let never = ctx.call(SHIP, &n);
        let later = ctx.call(PRICE, &n);
        let started = ctx.call(SHIP, &n).start();
        assert!(!started.is_terminated());
        let price = later.await?;
        drop(never);
        Ok(price + started.await?)
    }
    let mut server = Server::start(SHOP, lazy, &4);
    let open: Vec<_> = server.open.iter().map(|action| action.id).collect();
    assert_eq!(open, [0, 1]);
    let Some(ActionType::ScheduleTask(ship)) = &server.open[0].orchestrator_action_type else { panic!() };
    assert_eq!((ship.name.as_str(), ship.input.as_deref()), ("ship", Some("4")));
    server.complete(0);
    server.complete(1);
    assert_eq!(server.output::<u32>(), 8);
}

#[test]
fn the_answer_to_a_dropped_call_is_ignored() {
    async fn drops(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let mut dropped = ctx.call(SHIP, &n);
        assert!(futures::poll!(&mut dropped).is_pending());
        drop(dropped);
        Ok(ctx.call(PRICE, &n).await?)
    }
    let mut server = Server::start(SHOP, drops, &4);
    assert_eq!(server.complete(0).actions, []);
    server.complete(1);
    assert_eq!(server.output::<u32>(), 4);
}

#[test]
fn only_the_first_answer_of_the_right_kind_counts() {
    let mut server = Server::start(
        SHOP,
        |ctx: OrchestrationContext, n: u32| async move {
            Ok(ctx.call(PRICE, &n).await? + ctx.call(SHIP, &n).await?)
        },
        &4,
    );
    let answer = server.deliver(vec![
        event::timer_fired(0, 0, time::from_millis(0)),
        event::sub_orchestration_completed(0, 0, Some("50".into())),
        event::task_completed(0, 1, Some("60".into())),
        event::task_completed(0, 0, Some("1".into())),
        event::task_completed(0, 0, Some("70".into())),
    ]);
    assert_eq!(activities(&answer), [(1, "ship".into())]);
    server.complete(1);
    assert_eq!(server.output::<u32>(), 5);
}

/// Nobody has looked at the first answer when the second arrives.
#[test]
fn an_answer_is_never_replaced() {
    async fn looks_late(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let started = ctx.call(PRICE, &n).start();
        ctx.call(SHIP, &n).await?;
        Ok(started.await?)
    }
    let mut server = Server::start(SHOP, looks_late, &4);
    server.deliver(vec![
        event::task_completed(0, 0, Some("1".into())),
        event::task_failed(0, 0, failure("Late", "second")),
    ]);
    server.complete(1);
    assert_eq!(server.output::<u32>(), 1);
}

#[test]
fn a_child_gets_its_id_version_and_tags() {
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let named = InstanceId::new("child-7")?;
        let first = ctx.call_orchestration(CHILD, &n).start();
        let second = ctx.call_orchestration(CHILD.version("2"), &n).instance(&named).tag("k", "v");
        Ok(second.await? + first.await?)
    }
    let mut server = Server::start(SHOP, parent, &3);
    let children: Vec<_> = server
        .open
        .iter()
        .map(|action| match &action.orchestrator_action_type {
            Some(ActionType::CreateSubOrchestration(child)) => {
                (child.instance_id.clone(), child.version.clone(), child.tags.len())
            }
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(children, [(String::new(), None, 0), ("child-7".into(), Some("2".into()), 1)]);
    server.complete(0);
    server.complete(1);
    assert_eq!(server.output::<u32>(), 6);
}

fn details() -> TaskFailureDetails {
    failure("ValueError", "bad price")
        .with_stack("File \"price.py\", line 3")
        .with_property("code", 7.0)
        .non_retriable()
        .with_inner(failure("KeyError", "'x'").with_stack("File \"price.py\", line 9"))
}

/// From an activity through a child to its parent, with nothing but `?` in between.
#[test]
fn a_failure_reaches_the_parent_unchanged() {
    async fn child(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call(PRICE, &n).await?)
    }
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call_orchestration(CHILD, &n).await?)
    }
    let mut server = Server::start(CHILD, child, &1);
    server.deliver(vec![event::task_failed(0, 0, details())]);
    let of_child = server.failure();
    assert_eq!(of_child, details());
    let mut server = Server::start(SHOP, parent, &1);
    server.deliver(vec![event::sub_orchestration_failed(0, 0, of_child)]);
    assert_eq!(server.failure(), details());
}

#[test]
fn a_failure_can_be_looked_at_and_handled() {
    async fn looks(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        match ctx.call(PRICE, &n).await {
            Err(CallError::Failed(failure)) => {
                assert_eq!(failure.to_string(), "ValueError: bad price");
                assert!(!failure.retryable);
                let cause = std::error::Error::source(&failure).unwrap().to_string();
                assert_eq!(cause, "KeyError: 'x'");
                Err(Error::fatal(format!("no price for {n}")))
            }
            other => Ok(other?),
        }
    }
    let mut server = Server::start(SHOP, looks, &1);
    server.deliver(vec![event::task_failed(0, 0, details())]);
    assert_eq!(server.failure(), failure("Error", "no price for 1").non_retriable());
}

#[test]
fn a_result_of_another_type_fails_the_call() {
    async fn reads(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call(PRICE, &n).await?)
    }
    let mut server = Server::start(SHOP, reads, &1);
    server.deliver(vec![event::task_completed(0, 0, Some("\"text\"".into()))]);
    let failure = server.failure();
    assert!(failure.error_type.ends_with("CallError"), "{failure:?}");
    assert!(failure.error_message.starts_with("the result of task #0 ("), "{failure:?}");
    assert!(failure.error_message.contains("cannot be read as u32"), "{failure:?}");
    assert!(failure.inner_failure.unwrap().error_message.contains("invalid type: string"));
}

/// With many calls of one line, the number says which of them it was.
#[test]
fn a_result_of_another_type_names_its_task() {
    async fn reads(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let (first, second) = (ctx.call(PRICE, &n).await?, ctx.call(PRICE, &n).await?);
        Ok(first + second + ctx.call(PRICE, &n).await?)
    }
    let mut server = Server::start(SHOP, reads, &1);
    server.complete(0);
    server.complete(1);
    server.deliver(vec![event::task_completed(0, 2, Some("[]".into()))]);
    let failure = server.failure();
    assert!(failure.error_message.starts_with("the result of task #2 ("), "{failure:?}");
}

/// `select!` in a loop leaves out what is done, and polls what is not.
#[test]
fn every_durable_future_says_when_it_is_done() {
    const GO: dauer_replay::Event<u32> = dauer_replay::Event::new("go");
    async fn all_kinds(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let (mut call, mut started) = (ctx.call(PRICE, &n), ctx.call(SHIP, &n).start());
        let mut child = ctx.call_orchestration(CHILD, &n);
        let (mut timer, mut event) = (ctx.sleep(Duration::from_secs(1)), ctx.event(GO));
        // A macro, because each is borrowed only for a moment.
        macro_rules! done {
            () => {
                [
                    call.is_terminated(),
                    started.is_terminated(),
                    child.is_terminated(),
                    timer.is_terminated(),
                    event.is_terminated(),
                ]
            };
        }
        assert_eq!(done!(), [false; 5], "before the first poll");
        assert!(futures::poll!(&mut call).is_pending() && futures::poll!(&mut started).is_pending());
        assert!(futures::poll!(&mut child).is_pending() && futures::poll!(&mut timer).is_pending());
        assert!(futures::poll!(&mut event).is_pending());
        assert_eq!(done!(), [false; 5], "while it is waited for");
        (&mut call).await?;
        assert_eq!(done!(), [true, false, false, false, false]);
        (&mut started).await?;
        assert_eq!(done!(), [true, true, false, false, false]);
        (&mut child).await?;
        assert_eq!(done!(), [true, true, true, false, false]);
        (&mut timer).await;
        assert_eq!(done!(), [true, true, true, true, false]);
        let go = (&mut event).await?;
        assert_eq!(done!(), [true; 5]);
        Ok(go)
    }
    let mut server = Server::start(SHOP, all_kinds, &1);
    // The started call took the first number; the others took theirs when they were polled.
    for id in [1, 0, 2, 3] {
        server.complete(id);
    }
    server.deliver(vec![crate::support::raised("go", &9)]);
    assert_eq!(server.output::<u32>(), 9);
}

#[test]
fn an_empty_result_is_null() {
    const NOTHING: Activity<(), Option<u32>> = Activity::new("nothing");
    async fn reads(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let results = [ctx.call(NOTHING, &()).await?, ctx.call(NOTHING, &()).await?];
        assert_eq!(results, [None, None]);
        Ok(n)
    }
    let mut server = Server::start(SHOP, reads, &1);
    server.deliver(vec![event::task_completed(0, 0, None)]);
    server.deliver(vec![event::task_completed(0, 1, Some(String::new()))]);
    assert_eq!(server.output::<u32>(), 1);
}

#[test]
fn timers_fire_at_their_time_and_now_follows_the_turns() {
    async fn times(ctx: OrchestrationContext, _: u32) -> Result<Vec<String>> {
        let mut seen = vec![ctx.now().0.to_string()];
        let early = ctx.sleep(Duration::from_millis(2_500));
        ctx.sleep_until(Timestamp(5_000)).await;
        seen.push(ctx.now().0.to_string());
        early.await;
        seen.push(ctx.now().0.to_string());
        drop(ctx.sleep(Duration::MAX));
        Ok(seen)
    }
    let mut server = Server::start(TEXTS, times, &0);
    let fire_at = |server: &Server| match &server.open[0].orchestrator_action_type {
        Some(ActionType::CreateTimer(timer)) => time::to_millis_ceil(&timer.fire_at.unwrap()).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(fire_at(&server), 5_000);
    server.now_ms = 5_000;
    server.complete(0);
    assert_eq!(fire_at(&server), 3_500, "counted from where it was made, not from its first poll");
    server.complete(1);
    assert_eq!(server.output::<Vec<String>>(), ["1000", "5000", "6000"]);
}

#[test]
fn a_timer_beyond_all_times_is_still_a_valid_action() {
    async fn for_ever(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.sleep(Duration::MAX).await;
        Ok(n)
    }
    // The server validates every action.
    assert_eq!(Server::start(SHOP, for_ever, &0).open.len(), 1);
}

#[test]
fn ids_are_the_same_in_every_replay_and_differ_otherwise() {
    async fn ids(ctx: OrchestrationContext, _: u32) -> Result<Vec<String>> {
        let first = [ctx.uuid(), ctx.uuid()];
        ctx.call(PRICE, &0).await?;
        Ok([first[0], first[1], ctx.uuid()].iter().map(ToString::to_string).collect())
    }
    let mut server = Server::start(TEXTS, ids, &0);
    server.complete(0);
    let mut ids: Vec<String> = server.output();
    // Histories rely on the algorithm, so its results must never change.
    assert_eq!(ids[0], "c7e3397b-22be-55b1-ba6c-573380976f77");
    let start = event::start("texts", INSTANCE, "f".repeat(32));
    let start = ExecutionStartedEvent { input: Some("0".into()), ..start };
    let mut server = Server::new(registry(TEXTS, |ctx: OrchestrationContext, _: u32| async move {
        Ok(vec![ctx.uuid().to_string()])
    }));
    server.deliver(vec![event::execution_started(0, start)]);
    ids.extend(server.output::<Vec<String>>());
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 4);
}

#[test]
fn the_context_knows_who_it_is() {
    async fn who(ctx: OrchestrationContext, _: u32) -> Result<Vec<String>> {
        let version = ctx.version().unwrap_or("none").to_owned();
        Ok(vec![ctx.instance().to_string(), ctx.execution().to_string(), ctx.name().to_owned(), version])
    }
    let server = Server::start(TEXTS, who, &0);
    assert_eq!(server.output::<Vec<String>>(), [INSTANCE, EXECUTION, "texts", "none"]);
    let start = event::start("texts", INSTANCE, EXECUTION);
    let start = ExecutionStartedEvent { version: Some("2".into()), input: Some("0".into()), ..start };
    let mut server = Server::new(registry(TEXTS.version("2"), who));
    server.deliver(vec![event::execution_started(0, start)]);
    assert_eq!(server.output::<Vec<String>>()[3], "2");
}

/// Replaying is over with the first new event, even when that event changes nothing.
#[test]
fn replaying_ends_with_the_first_new_event() {
    let seen: Arc<Mutex<Vec<bool>>> = Arc::default();
    let log = Arc::clone(&seen);
    let program = Program::new(SHOP, move |ctx: OrchestrationContext, n: u32| {
        let log = Arc::clone(&log);
        async move {
            log.lock().unwrap().push(ctx.is_replaying());
            ctx.call(PRICE, &n).await?;
            log.lock().unwrap().push(ctx.is_replaying());
            ctx.call(SHIP, &n).await?;
            log.lock().unwrap().push(ctx.is_replaying());
            Ok(n)
        }
    });
    let take = || std::mem::take(&mut *seen.lock().unwrap());
    let (mut live, answer) = Live::start_program(&program, &[], &first("shop", &1)).unwrap();
    let mut past = first("shop", &1);
    past.push(crate::support::recorded(0, &answer.actions[0]));
    let done = [event::orchestrator_started(2), event::task_completed(0, 0, Some("1".into()))];
    let answer = live.turn(&done).unwrap();
    assert_eq!(take(), [false, false]);
    Live::start_program(&program, &past, &done).unwrap();
    assert_eq!(take(), [true, false]);
    past.extend(done);
    past.push(crate::support::recorded(0, &answer.actions[0]));
    Live::start_program(&program, &past, &[]).unwrap();
    assert_eq!(take(), [true, true]);
}
