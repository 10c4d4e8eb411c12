//! Mistakes in the orchestration or in the test, and how they are reported: at once, and with the line.

#![allow(clippy::unwrap_used, reason = "clippy knows only #[test] functions as tests, not their helpers")]

use std::ops::ControlFlow::{self, Continue};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dauer_core::InstanceId;
use dauer_core::limits::TIMER_MAX;
use dauer_replay::{Activity, Event, Orchestration, OrchestrationContext, Result, TurnError};
use dauer_testhub::{BlockedOn, TestError, TestHub};

const HOUR: Duration = Duration::from_secs(3_600);
const STEP: Activity<u32, u32> = Activity::new("step");
const OTHER: Activity<u32, u32> = Activity::new("other");
const APPROVED: Event<bool> = Event::new("Approved");
const MAIN: Orchestration<u32, u32> = Orchestration::new("main");
const CHILD: Orchestration<u32, u32> = Orchestration::new("child");

fn steps() -> TestHub<'static> {
    TestHub::new().activity(STEP, Ok).activity(OTHER, Ok)
}

async fn waits(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    ctx.event(APPROVED).await?; // WAITS
    Ok(n)
}

/// The line of this file that ends with the marker.
fn line_of(marker: &str) -> u32 {
    let line = include_str!("mistakes.rs").lines().position(|line| line.ends_with(marker));
    u32::try_from(line.unwrap() + 1).unwrap()
}

#[test]
fn an_event_that_is_never_raised_is_named_with_its_line() {
    let error = steps().run(MAIN, waits, 1).unwrap_err();
    let place = format!("{}:{}:", file!(), line_of("// WAITS"));
    let text = "instance 'test' waits for an event that the test never raises: 'approved' (";
    assert!(error.to_string().starts_with(&format!("{text}{place}")), "{error}");
    let TestError::Stuck { waits } = error else { panic!("{error:?}") };
    assert_eq!(waits.len(), 1);
}

#[test]
fn an_event_of_another_name_does_not_help() {
    const REJECTED: Event<bool> = Event::new("rejected");
    let mut hub = steps().raise_at(HOUR, REJECTED, &true);
    assert!(matches!(hub.run(MAIN, waits, 1), Err(TestError::Stuck { .. })));
    assert_eq!(hub.now(), HOUR);
}

#[test]
fn a_child_that_waits_for_ever_is_reported_before_its_parent() {
    async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        // An id that sorts behind the parent's.
        Ok(ctx.call_orchestration(CHILD, &n).instance(&InstanceId::new("z")?).await?)
    }
    let error = steps().orchestration(CHILD, waits).run(MAIN, parent, 1).unwrap_err();
    let TestError::Stuck { waits } = &error else { panic!("{error:?}") };
    let what: Vec<_> = waits.iter().map(|blocked| blocked.what.clone()).collect();
    assert_eq!(what, [BlockedOn::Event("approved".into()), BlockedOn::Child("child".into())]);
}

#[test]
fn a_suspended_orchestration_that_is_never_resumed_is_reported() {
    let error = steps().suspend_at(HOUR).raise_at(2 * HOUR, APPROVED, &true).run(MAIN, waits, 1).unwrap_err();
    assert!(
        error.to_string().starts_with("instance 'test' is suspended, and the test never resumes it"),
        "{error}"
    );
}

#[test]
fn an_endless_loop_is_ended() {
    async fn endless(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        loop {
            ctx.call(STEP, &n).await?;
        }
    }
    let error = steps().turns_max(50).run(MAIN, endless, 1).unwrap_err();
    assert!(matches!(&error, TestError::Endless { name, turns: 50, .. } if name == "main"), "{error:?}");
}

#[test]
fn an_orchestration_that_continues_as_new_for_ever_is_ended_with_the_time_it_took() {
    async fn monitor(ctx: OrchestrationContext, n: u32) -> Result<ControlFlow<u32, u32>> {
        ctx.sleep(HOUR).await;
        Ok(Continue(n + 1))
    }
    let error = steps().run(MAIN, monitor, 1).unwrap_err();
    let TestError::Endless { turns, time, .. } = error else { panic!("{error:?}") };
    assert_eq!((turns, time), (2_000, 1_000 * HOUR), "two turns an hour");
}

/// The code asks for one thing in one replay and for another in the next: seen in the very first turn.
#[test]
fn code_that_is_not_deterministic_is_found_by_replaying_every_turn() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    async fn chance(ctx: OrchestrationContext, _: u32) -> Result<u32> {
        let n = RUNS.fetch_add(1, Ordering::Relaxed);
        Ok(ctx.call(STEP, &n).await?)
    }
    let error = steps().run(MAIN, chance, 0).unwrap_err();
    let TestError::NotDeterministic { first, second, .. } = &error else { panic!("{error:?}") };
    assert_eq!((first.as_str(), second.as_str()), ("activity 'step' with 0", "activity 'step' with 1"));
}

#[test]
fn an_output_or_status_that_is_not_deterministic_is_found_too() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    async fn output(_: OrchestrationContext, _: u32) -> Result<u32> {
        Ok(RUNS.fetch_add(1, Ordering::Relaxed))
    }
    async fn status(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.set_status(&RUNS.fetch_add(1, Ordering::Relaxed));
        Ok(n)
    }
    for error in [steps().run(MAIN, output, 0).unwrap_err(), steps().run(MAIN, status, 0).unwrap_err()] {
        assert!(matches!(error, TestError::NotDeterministic { .. }), "{error:?}");
    }
}

/// The world changes between two turns: the code no longer does what its history says.
#[test]
fn a_mismatch_is_found_with_its_line() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    async fn changing(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        if RUNS.fetch_add(1, Ordering::Relaxed) < 2 {
            return Ok(ctx.call(STEP, &n).await?);
        }
        Ok(ctx.call(OTHER, &n).await?) // OTHER
    }
    let error = steps().run(MAIN, changing, 0).unwrap_err();
    let TestError::Turn { source, .. } = error else { panic!("{error:?}") };
    let TurnError::Mismatch { location, .. } = *source else { panic!("{source:?}") };
    assert_eq!((location.file(), location.line()), (file!(), line_of("// OTHER")));
}

#[test]
fn a_panic_and_an_await_that_is_not_durable_stop_the_test() {
    async fn panics(_: OrchestrationContext, _: u32) -> Result<u32> {
        panic!("boom")
    }
    async fn pends(_: OrchestrationContext, _: u32) -> Result<u32> {
        std::future::pending().await
    }
    let error = steps().run(MAIN, panics, 0).unwrap_err();
    assert!(format!("{error:?}").contains("boom"), "{error:?}");
    let error = steps().run(MAIN, pends, 0).unwrap_err();
    let TestError::Turn { source, .. } = error else { panic!("{error:?}") };
    assert!(matches!(*source, TurnError::NotDurable { .. }), "{source:?}");
}

#[test]
fn what_a_hub_refuses_the_test_hub_refuses() {
    async fn sleeps(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.sleep(TIMER_MAX + HOUR).await;
        Ok(n)
    }
    let error = steps().run(MAIN, sleeps, 0).unwrap_err();
    assert!(matches!(error, TestError::Refused { .. }), "{error:?}");
}

#[test]
fn without_a_run_there_is_nothing_to_export() {
    assert!(matches!(steps().export(), Err(TestError::NothingRun)));
    assert!(steps().history().is_empty() && steps().calls().is_empty());
}
