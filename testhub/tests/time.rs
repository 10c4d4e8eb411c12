//! Virtual time, and what a test does at which time.

#![allow(clippy::unwrap_used, reason = "clippy knows only #[test] functions as tests, not their helpers")]

use std::time::Duration;

use dauer_core::Timestamp;
use dauer_core::model::Status;
use dauer_proto::event::kind_name;
use dauer_replay::{Activity, CallError, Event, Orchestration, OrchestrationContext, Result};
use dauer_testhub::{TestError, TestHub};
use futures::future::{Either, join_all, select};

const HOUR: Duration = Duration::from_secs(3_600);
const PRICE: Activity<u32, u32> = Activity::new("price");
const APPROVED: Event<String> = Event::new("approved");
const APPROVAL: Orchestration<(), String> = Orchestration::new("approval");

async fn approval(ctx: OrchestrationContext, _: ()) -> Result<String> {
    match ctx.event(APPROVED).timeout(24 * HOUR).await {
        Ok(who) => Ok(who),
        Err(CallError::TimedOut { .. }) => Ok("nobody".to_owned()),
        Err(error) => Err(error.into()),
    }
}

#[test]
fn an_event_comes_when_the_test_says_and_the_clock_jumps_there() {
    let mut hub = TestHub::new().raise_at(2 * HOUR, APPROVED, &"ada".to_owned());
    assert_eq!(hub.run(APPROVAL, approval, ()).unwrap(), "ada");
    assert_eq!(hub.now(), 2 * HOUR);
}

#[test]
fn without_the_event_the_clock_jumps_to_the_time_out() {
    let mut hub = TestHub::new();
    assert_eq!(hub.run(APPROVAL, approval, ()).unwrap(), "nobody");
    assert_eq!(hub.now(), 24 * HOUR);
}

#[test]
fn what_the_test_plans_comes_before_the_timers_of_the_moment_and_in_reverse_after_them() {
    let hub = || TestHub::new().raise_at(24 * HOUR, APPROVED, &"ada".to_owned());
    assert_eq!(hub().run(APPROVAL, approval, ()).unwrap(), "ada");
    assert_eq!(hub().complete_in_reverse().run(APPROVAL, approval, ()).unwrap(), "nobody");
}

#[test]
fn plans_for_one_time_keep_their_order_whatever_the_order_of_the_rest() {
    const EVENTS: Orchestration<(), Vec<String>> = Orchestration::new("events");
    async fn events(ctx: OrchestrationContext, _: ()) -> Result<Vec<String>> {
        let mut all = Vec::new();
        while all.len() < 3 {
            all.push(ctx.event(APPROVED).await?);
        }
        Ok(all)
    }
    let hub = || {
        let raise = |hub: TestHub<'static>, at, who: &str| hub.raise_at(at, APPROVED, &who.to_owned());
        let hub = raise(TestHub::new(), 2 * HOUR, "b");
        raise(raise(hub, 2 * HOUR, "c"), HOUR, "a")
    };
    let hubs =
        [hub(), hub().complete_in_reverse()].into_iter().chain((0..10).map(|seed| hub().shuffle(seed)));
    for mut hub in hubs {
        assert_eq!(hub.run(EVENTS, events, ()).unwrap(), ["a", "b", "c"]);
    }
}

#[test]
fn timers_fire_in_the_order_of_their_times() {
    const SLEEPS: Orchestration<Vec<u32>, Vec<u32>> = Orchestration::new("sleeps");
    async fn sleeps(ctx: OrchestrationContext, hours: Vec<u32>) -> Result<Vec<u32>> {
        let woken = std::sync::Mutex::new(Vec::new());
        let began = ctx.now();
        join_all(hours.iter().map(|n| {
            let (ctx, woken) = (&ctx, &woken);
            async move {
                ctx.sleep(*n * HOUR).await;
                assert_eq!(ctx.now(), began.after(*n * HOUR), "the orchestration sees the time too");
                woken.lock().unwrap().push(*n);
            }
        }))
        .await;
        Ok(woken.into_inner().unwrap())
    }
    let mut hub = TestHub::new();
    assert_eq!(hub.run(SLEEPS, sleeps, vec![5, 1, 0, 3]).unwrap(), [0, 1, 3, 5]);
    assert_eq!(hub.now(), 5 * HOUR);
}

#[test]
fn a_slow_activity_loses_against_its_time_out_and_wins_before_it() {
    const SHOP: Orchestration<u32, bool> = Orchestration::new("shop");
    async fn shop(ctx: OrchestrationContext, item: u32) -> Result<bool> {
        Ok(ctx.call(PRICE, &item).timeout(HOUR).await.is_ok())
    }
    let hub = |takes| TestHub::new().activity(PRICE, Ok).takes(PRICE, takes);
    let mut slow = hub(2 * HOUR);
    assert!(!slow.run(SHOP, shop, 1).unwrap());
    assert_eq!(slow.now(), HOUR);
    assert_eq!(slow.calls().len(), 1, "it was called all the same");
    let mut fast = hub(HOUR / 2);
    assert!(fast.run(SHOP, shop, 1).unwrap());
    assert_eq!(fast.now(), HOUR / 2);
}

#[test]
fn the_clock_begins_where_the_test_says() {
    const WHEN: Orchestration<(), i64> = Orchestration::new("when");
    async fn when(ctx: OrchestrationContext, _: ()) -> Result<i64> {
        ctx.sleep(Duration::from_millis(5)).await;
        Ok(ctx.now().0)
    }
    assert_eq!(TestHub::new().run(WHEN, when, ()).unwrap(), 946_684_800_005);
    assert_eq!(TestHub::new().starting_at(Timestamp(1_000)).run(WHEN, when, ()).unwrap(), 1_005);
}

#[test]
fn while_suspended_nothing_is_delivered_and_afterwards_everything() {
    const RACE: Orchestration<(), String> = Orchestration::new("race");
    async fn race(ctx: OrchestrationContext, _: ()) -> Result<String> {
        match select(ctx.event(APPROVED), ctx.sleep(5 * HOUR)).await {
            Either::Left((who, _)) => Ok(format!("{} at {}", who?, ctx.now().0 / 3_600_000)),
            Either::Right(_) => Ok("late".to_owned()),
        }
    }
    let hub = || TestHub::new().starting_at(Timestamp(0)).raise_at(2 * HOUR, APPROVED, &"ada".to_owned());
    assert_eq!(hub().run(RACE, race, ()).unwrap(), "ada at 2");
    let mut hub = hub().suspend_at(HOUR).resume_at(3 * HOUR);
    assert_eq!(hub.run(RACE, race, ()).unwrap(), "ada at 3");
    assert_eq!(hub.now(), 3 * HOUR);
}

#[test]
fn a_termination_ends_it_with_its_output_and_keeps_the_status() {
    const WAITS: Orchestration<(), ()> = Orchestration::new("waits");
    async fn waits(ctx: OrchestrationContext, _: ()) -> Result<()> {
        ctx.set_status("waiting");
        ctx.event(APPROVED).await?;
        Ok(())
    }
    let mut hub = TestHub::new().terminate_at(HOUR, &"enough");
    let error = hub.run(WAITS, waits, ()).unwrap_err();
    assert!(
        matches!(&error, TestError::Terminated { output } if output.as_deref() == Some("\"enough\"")),
        "{error:?}"
    );
    assert_eq!(hub.now(), HOUR);
    assert_eq!(hub.custom_status(), Some("\"waiting\""));
    assert_eq!(hub.instances().map(|(_, status)| status).collect::<Vec<_>>(), [Status::Terminated]);
}

/// Whether the activity has begun when the termination comes is a matter of order; if it has not, it never does.
#[test]
fn a_termination_withdraws_what_nobody_has_begun() {
    const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
    async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
        ctx.sleep(HOUR).await;
        let price = ctx.call(PRICE, &item).await?;
        ctx.event(APPROVED).await?;
        Ok(price)
    }
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..50 {
        let mut hub = TestHub::new().shuffle(seed).activity(PRICE, Ok).terminate_at(HOUR, &());
        assert!(matches!(hub.run(SHOP, shop, 1), Err(TestError::Terminated { .. })));
        let scheduled = hub.history().iter().filter(|event| kind_name(event) == "TaskScheduled").count();
        seen.insert((scheduled, hub.calls().len()));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(0, 0), (1, 0), (1, 1)]);
}
