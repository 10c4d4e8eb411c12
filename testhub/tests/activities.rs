//! What activities answer, and what the test learns of their calls.

#![allow(clippy::unwrap_used, reason = "clippy knows only #[test] functions as tests, not their helpers")]

use std::cell::Cell;
use std::time::Duration;

use dauer_replay::{
    Activity, ActivityContext, Error, Failure, Orchestration, OrchestrationContext, Result, RetryPolicy,
};
use dauer_testhub::{Script, TestError, TestHub};
use serde_json::json;

const SECOND: Duration = Duration::from_secs(1);
const PRICE: Activity<u32, u32> = Activity::new("price");
const TAX: Activity<u32, u32> = Activity::new("tax");
const SHOP: Orchestration<Vec<u32>, u32> = Orchestration::new("shop");

async fn shop(ctx: OrchestrationContext, items: Vec<u32>) -> Result<u32> {
    let mut sum = 0;
    for item in items {
        sum += ctx.call(PRICE, &item).await?;
    }
    Ok(sum + ctx.call(TAX, &sum).await?) // TAX
}

async fn patient(ctx: OrchestrationContext, items: Vec<u32>) -> Result<u32> {
    Ok(ctx.call(PRICE, &items[0]).retry(RetryPolicy::exponential(4, SECOND)).await?)
}

#[test]
fn closures_answer_and_may_borrow_from_the_test() {
    let taxed = Cell::new(0);
    let mut hub = TestHub::new().activity(PRICE, |item| Ok(item * 10)).activity(TAX, |sum| {
        taxed.set(sum);
        Ok(sum / 10)
    });
    assert_eq!(hub.run(SHOP, shop, vec![1, 2]).unwrap(), 33);
    assert_eq!(taxed.get(), 30);
}

#[test]
fn calls_are_known_by_name_input_and_order() {
    let mut hub = TestHub::new().activity(PRICE, |item| Ok(item * 10)).script(TAX, Script::new().ok(5));
    hub.run(SHOP, shop, vec![1, 2]).unwrap();
    let calls: Vec<_> = hub.calls().iter().map(|call| (call.name.as_str(), call.input.clone())).collect();
    assert_eq!(calls, [("price", json!(1)), ("price", json!(2)), ("tax", json!(30))]);
    assert_eq!(hub.inputs(PRICE).unwrap(), [1, 2]);
    assert_eq!(hub.inputs(TAX).unwrap(), [30]);
    assert!(hub.calls().iter().all(|call| call.attempt == 1 && !call.failed));
}

#[test]
fn a_second_run_begins_anew() {
    let script = Script::new().ok(1).ok(2);
    let mut hub = TestHub::new().script(PRICE, script).activity(TAX, |_| Ok(0));
    for _ in 0..2 {
        assert_eq!(hub.run(SHOP, shop, vec![7, 7]).unwrap(), 3);
        assert_eq!(hub.calls().len(), 3);
    }
}

#[test]
fn a_script_fails_twice_and_then_answers_and_the_pauses_are_kept() {
    let down = Failure::new("Down", "no answer");
    let mut hub = TestHub::new().script(PRICE, Script::new().fail(down).times(2).ok(10));
    assert_eq!(hub.run(SHOP, patient, vec![7]).unwrap(), 10);
    assert_eq!(hub.now(), 3 * SECOND);
    assert_eq!(
        hub.calls().iter().map(|call| (call.at, call.failed)).collect::<Vec<_>>(),
        [(Duration::ZERO, true), (SECOND, true), (3 * SECOND, false),]
    );
}

#[test]
fn a_failure_reaches_the_test_as_it_is() {
    let refused = |_| Err(Error::fatal("out of stock"));
    let mut hub = TestHub::new().activity(PRICE, refused);
    let error = hub.run(SHOP, patient, vec![7]).unwrap_err();
    let TestError::Failed(failure) = error else { panic!("{error:?}") };
    assert_eq!((failure.message.as_str(), failure.retryable), ("out of stock", false));
    assert_eq!(hub.calls().len(), 1, "a fatal failure is not retried");
}

#[test]
fn an_activity_without_an_answer_fails_the_test_and_is_named_with_its_line() {
    let mut hub = TestHub::new().activity(PRICE, Ok);
    let error = hub.run(SHOP, shop, vec![1]).unwrap_err();
    let TestError::NoActivity { name, location, .. } = &error else { panic!("{error:?}") };
    assert_eq!(name, "tax");
    let line = include_str!("activities.rs").lines().position(|line| line.ends_with("// TAX"));
    let location = location.unwrap();
    assert_eq!((location.file(), location.line() as usize), (file!(), line.unwrap() + 1));
    assert!(error.to_string().contains("activity 'tax' is called by instance 'test'"), "{error}");
}

#[test]
fn a_script_that_ends_too_early_fails_the_test() {
    let mut hub = TestHub::new().script(PRICE, Script::new().ok(1));
    let error = hub.run(SHOP, shop, vec![1, 2]).unwrap_err();
    assert!(
        matches!(&error, TestError::ScriptOver { name, answers: 1, call: 2 } if name == "price"),
        "{error:?}"
    );
}

#[test]
fn the_real_code_of_an_activity_runs_if_it_does_not_wait() {
    async fn price(ctx: ActivityContext, item: u32) -> Result<u32> {
        Ok(item * 10 + u32::try_from(ctx.task_id())?)
    }
    async fn download(_: ActivityContext, _: u32) -> Result<u32> {
        std::future::pending().await
    }
    let mut hub = TestHub::new().activity_code(PRICE, price).activity(TAX, |_| Ok(0));
    assert_eq!(hub.run(SHOP, shop, vec![1, 2]).unwrap(), 31);
    let mut hub = TestHub::new().activity_code(PRICE, download);
    let error = hub.run(SHOP, shop, vec![1]).unwrap_err();
    assert!(matches!(&error, TestError::ActivityWaits { name } if name == "price"), "{error:?}");
}

#[test]
fn an_input_that_the_activity_cannot_read_is_its_failure() {
    const WORDS: Activity<String, u32> = Activity::new("price");
    let mut hub = TestHub::new().activity(WORDS, |_| Ok(1));
    let error = hub.run(SHOP, shop, vec![1]).unwrap_err();
    assert!(matches!(&error, TestError::Failed(failure) if failure.kind == "Undecodable"), "{error:?}");
}

#[test]
fn a_later_answer_takes_the_place_of_an_earlier() {
    let mut hub =
        TestHub::new().activity(PRICE, |_| Ok(1)).activity(TAX, |_| Ok(0)).activity(PRICE, |_| Ok(2));
    assert_eq!(hub.run(SHOP, shop, vec![1]).unwrap(), 2);
}

#[test]
fn a_name_that_breaks_a_rule_or_is_registered_twice_is_an_error() {
    let mut hub = TestHub::new().orchestration(SHOP, shop);
    assert!(matches!(hub.run(SHOP, patient, vec![]), Err(TestError::Register(_))));
    let mut hub = TestHub::new().orchestration(SHOP, shop).orchestration(SHOP, patient);
    const OTHER: Orchestration<Vec<u32>, u32> = Orchestration::new("other");
    assert!(matches!(hub.run(OTHER, patient, vec![]), Err(TestError::Register(_))));
    const NAMELESS: Orchestration<Vec<u32>, u32> = Orchestration::new("");
    assert!(matches!(TestHub::new().run(NAMELESS, shop, vec![]), Err(TestError::Register(_))));
}
