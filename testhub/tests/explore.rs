//! Failures and crashes at every step: sound code passes, broken code is found.

#![allow(clippy::unwrap_used, reason = "clippy knows only #[test] functions as tests, not their helpers")]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use dauer_replay::{
    Activity, ActivityContext, Event, Orchestration, OrchestrationContext, Result, RetryPolicy,
};
use dauer_testhub::{Case, Injected, TestError, TestHub};
use futures::future::try_join_all;

const FLIGHT: Activity<u32, ()> = Activity::new("flight");
const HOTEL: Activity<u32, ()> = Activity::new("hotel");
const CAR: Activity<u32, ()> = Activity::new("car");
const CANCEL_FLIGHT: Activity<u32, ()> = Activity::new("cancel-flight");
const CANCEL_HOTEL: Activity<u32, ()> = Activity::new("cancel-hotel");
const TRIP: Orchestration<u32, ()> = Orchestration::new("trip");
const GO: Event<()> = Event::new("go");

async fn trip(ctx: OrchestrationContext, id: u32) -> Result<()> {
    ctx.call(FLIGHT, &id).await?;
    let rest = async {
        ctx.call(HOTEL, &id).await?;
        if let Err(error) = ctx.call(CAR, &id).retry(RetryPolicy::fixed(3, Duration::from_secs(1))).await {
            ctx.call(CANCEL_HOTEL, &id).await?;
            return Err(error);
        }
        Ok(())
    };
    if let Err(error) = rest.await {
        ctx.call(CANCEL_FLIGHT, &id).await?;
        return Err(error.into());
    }
    Ok(())
}

/// Forgets the hotel when there is no car.
async fn careless_trip(ctx: OrchestrationContext, id: u32) -> Result<()> {
    ctx.call(FLIGHT, &id).await?;
    let rest = async {
        ctx.call(HOTEL, &id).await?;
        ctx.call(CAR, &id).await
    };
    if let Err(error) = rest.await {
        ctx.call(CANCEL_FLIGHT, &id).await?;
        return Err(error.into());
    }
    Ok(())
}

fn agency() -> TestHub<'static> {
    [FLIGHT, HOTEL, CAR, CANCEL_FLIGHT, CANCEL_HOTEL]
        .into_iter()
        .fold(TestHub::new(), |hub, it| hub.activity(it, |_| Ok(())))
}

fn all_or_nothing(case: &Case<()>) {
    let booked = [
        case.succeeded(FLIGHT) - case.succeeded(CANCEL_FLIGHT),
        case.succeeded(HOTEL) - case.succeeded(CANCEL_HOTEL),
        case.succeeded(CAR),
    ];
    assert_eq!(booked, [usize::from(case.result.is_ok()); 3], "{}", case.injected);
}

#[test]
fn every_call_fails_once_and_a_sound_saga_takes_everything_back() {
    let mut cases = Vec::new();
    let runs = agency().fail_every_call(TRIP, trip, 7, |case| {
        all_or_nothing(case);
        cases.push((case.injected.to_string(), case.calls.len(), case.result.is_ok()));
    });
    assert_eq!(runs.unwrap(), 4);
    let case = |text: &str, calls, ok| (text.to_owned(), calls, ok);
    assert_eq!(
        cases,
        [
            case("when nothing goes wrong", 3, true),
            case("when call 1 ('flight') fails", 1, false),
            case("when call 2 ('hotel') fails", 3, false),
            case("when call 3 ('car') fails", 5, false),
        ]
    );
}

#[test]
fn a_saga_that_forgets_a_compensation_is_found() {
    let broken = catch_unwind(AssertUnwindSafe(|| {
        agency().fail_every_call(TRIP, careless_trip, 7, all_or_nothing).map(drop).map_err(drop)
    }));
    let text = *broken.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("when call 3 ('car') fails"), "{text}");
}

#[test]
fn the_failed_activity_is_not_carried_out_and_no_retry_cures_it() {
    let cars = Cell::new(0);
    let mut hub = agency().activity(CAR, |_| {
        cars.set(cars.get() + 1);
        Ok(())
    });
    let mut failures = Vec::new();
    let runs = hub.fail_every_call(TRIP, trip, 7, |case| {
        if let Err(TestError::Failed(failure)) = &case.result {
            failures.push((failure.kind.clone(), failure.retryable));
        }
    });
    assert_eq!(runs.unwrap(), 4);
    assert_eq!(cars.get(), 1, "only in the undisturbed run");
    assert_eq!(failures, vec![("Injected".to_owned(), false); 3]);
}

#[test]
fn a_run_that_gives_no_outcome_is_reported_with_its_case() {
    async fn waits_on_failure(ctx: OrchestrationContext, id: u32) -> Result<()> {
        if ctx.call(FLIGHT, &id).await.is_err() {
            ctx.event(GO).await?;
        }
        Ok(())
    }
    let error = agency().fail_every_call(TRIP, waits_on_failure, 7, |_| {}).unwrap_err();
    let TestError::Case { injected, source } = &error else { panic!("{error:?}") };
    assert_eq!(*injected, Injected::Failure { call: 1, name: "flight".into() });
    assert!(matches!(**source, TestError::Stuck { .. }), "{error:?}");
}

const CHARGE: Activity<(String, u32), u32> = Activity::new("charge");
const PAY: Orchestration<Vec<u32>, u32> = Orchestration::new("pay");

/// Charges beside each other, then once more for the sum.
async fn pay(ctx: OrchestrationContext, amounts: Vec<u32>) -> Result<u32> {
    let charge = |amount| ctx.call(CHARGE, &(ctx.uuid().to_string(), amount));
    let parts = try_join_all(amounts.iter().map(|amount| charge(*amount))).await?;
    Ok(charge(parts.iter().sum()).await?)
}

#[test]
fn activities_that_know_their_repetitions_survive_every_crash() {
    let bank: RefCell<BTreeMap<String, u32>> = RefCell::default();
    let mut hub = TestHub::new().activity(CHARGE, |(key, amount)| {
        bank.borrow_mut().insert(key, amount);
        Ok(amount)
    });
    let mut cases = Vec::new();
    let runs = hub.crash_after_every_checkpoint(PAY, pay, vec![1, 2], |case| {
        assert_eq!(bank.take().values().sum::<u32>(), 6, "{}", case.injected);
        assert_eq!(*case.result.as_ref().unwrap(), 3);
        cases.push((case.injected.to_string(), case.calls.len()));
    });
    assert_eq!(runs.unwrap(), 6);
    let case = |text: &str, calls| (text.to_owned(), calls);
    assert_eq!(
        cases,
        [
            case("when nothing goes wrong", 3),
            case("when the host dies after checkpoint 1", 5),
            case("when the host dies after checkpoint 2", 4),
            case("when the host dies after checkpoint 3", 4),
            case("when the host dies after checkpoint 4", 3),
            case("when the host dies after every checkpoint", 7),
        ]
    );
}

#[test]
fn an_outcome_that_depends_on_how_often_an_activity_ran_is_found() {
    let calls = Cell::new(0);
    let mut hub = TestHub::new().activity(CHARGE, |_| {
        calls.set(calls.get() + 1);
        Ok(calls.get())
    });
    let error = hub.crash_after_every_checkpoint(PAY, pay, vec![1], |_| calls.set(0)).unwrap_err();
    let TestError::CrashMattered { injected, expected, found, repeated } = &error else {
        panic!("{error:?}")
    };
    assert_eq!(*injected, Injected::Crash { checkpoint: 1 });
    assert_eq!((expected.as_str(), found.as_str()), ("the output 2", "the output 3"));
    assert_eq!(repeated, &["charge"]);
}

/// The outcome is the same, but the money is gone twice: only the test's own look at the world can tell.
#[test]
fn an_effect_that_happens_twice_is_found_by_the_check() {
    let charged = Cell::new(0);
    let broken = catch_unwind(AssertUnwindSafe(|| {
        let mut hub = TestHub::new().activity(CHARGE, |(_, amount)| {
            charged.set(charged.get() + amount);
            Ok(amount)
        });
        let check = |case: &Case<u32>| assert_eq!(charged.take(), 2, "{}", case.injected);
        hub.crash_after_every_checkpoint(PAY, pay, vec![1], check).map(drop).map_err(drop)
    }));
    let text = *broken.unwrap_err().downcast::<String>().unwrap();
    assert!(text.contains("when the host dies after checkpoint 1"), "{text}");
}

/// What was under way when the host died is begun again, and answered once.
#[test]
fn a_slow_activity_runs_again_after_a_crash_and_is_answered_once() {
    async fn slow(ctx: OrchestrationContext, id: u32) -> Result<()> {
        let flight = ctx.call(FLIGHT, &id).start();
        ctx.sleep(Duration::from_secs(1)).await;
        Ok(flight.await?)
    }
    let mut hub = agency().takes(FLIGHT, Duration::from_secs(5));
    let mut calls = Vec::new();
    let runs = hub.crash_after_every_checkpoint(TRIP, slow, 7, |case| calls.push(case.calls.len()));
    assert_eq!(runs.unwrap(), 5);
    assert_eq!(calls, [1, 2, 2, 1, 3], "the flight is under way after the first and second checkpoint");
}

#[test]
fn the_real_code_of_an_activity_learns_that_it_runs_again() {
    const ATTEMPT: Activity<u32, u32> = Activity::new("attempt");
    const ONCE: Orchestration<u32, u32> = Orchestration::new("once");
    async fn attempt(ctx: ActivityContext, _: u32) -> Result<u32> {
        Ok(ctx.attempt())
    }
    async fn once(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call(ATTEMPT, &n).await?)
    }
    let mut hub = TestHub::new().activity_code(ATTEMPT, attempt);
    let error = hub.crash_after_every_checkpoint(ONCE, once, 0, |_| {}).unwrap_err();
    let TestError::CrashMattered { expected, found, .. } = &error else { panic!("{error:?}") };
    assert_eq!((expected.as_str(), found.as_str()), ("the output 1", "the output 2"));
}

/// The first result of a slow activity died with the host: what counts is that of the second.
#[test]
fn after_a_crash_the_answer_is_that_of_the_last_run() {
    const COUNT: Activity<u32, i32> = Activity::new("count");
    const ONCE: Orchestration<u32, i32> = Orchestration::new("once");
    async fn once(ctx: OrchestrationContext, n: u32) -> Result<i32> {
        let count = ctx.call(COUNT, &n).start();
        ctx.sleep(Duration::from_secs(1)).await;
        Ok(count.await?)
    }
    let count = Cell::new(0);
    let mut hub = TestHub::new().takes(COUNT, Duration::from_secs(5)).activity(COUNT, |_| {
        count.set(count.get() + 1);
        Ok(count.get())
    });
    let mut outputs = Vec::new();
    let error = hub.crash_after_every_checkpoint(ONCE, once, 0, |case| {
        outputs.push((case.injected.to_string(), *case.result.as_ref().unwrap()));
        // In the second run the count begins one lower, for the activity runs twice before it gives its answer: that run
        // ends as the first. In the third it has run and is on its way when the host dies.
        count.set(if outputs.len() == 1 { -1 } else { 0 });
    });
    assert!(matches!(error, Err(TestError::CrashMattered { .. })), "{error:?}");
    let output = |text: &str, count| (text.to_owned(), count);
    assert_eq!(
        outputs,
        [
            output("when nothing goes wrong", 1),
            output("when the host dies after checkpoint 1", 1),
            output("when the host dies after checkpoint 2", 2),
        ]
    );
}

/// A type that cannot read what it writes.
#[derive(Debug)]
struct OneWay;

impl serde::Serialize for OneWay {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str("one way")
    }
}

impl<'de> serde::Deserialize<'de> for OneWay {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        u32::deserialize(deserializer).map(|_| Self)
    }
}

#[test]
fn an_output_that_cannot_be_read_is_no_outcome() {
    const WRITE: Orchestration<u32, OneWay> = Orchestration::new("write");
    async fn write(_: OrchestrationContext, _: u32) -> Result<OneWay> {
        Ok(OneWay)
    }
    assert!(matches!(TestHub::new().run(WRITE, write, 1), Err(TestError::Output(_))));
    let error = TestHub::new().fail_every_call(WRITE, write, 1, |_| {}).unwrap_err();
    assert!(
        matches!(&error, TestError::Case { source, .. } if matches!(**source, TestError::Output(_))),
        "{error:?}"
    );
}
