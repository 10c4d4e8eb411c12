//! Exported histories against the code of today.

#![allow(clippy::unwrap_used, reason = "clippy knows only #[test] functions as tests, not their helpers")]

use std::time::Duration;

use dauer_proto::json::HistoryDocument;
use dauer_proto::{HistoryEvent, OrchestrationStatus, event};
use dauer_replay::{
    Activity, Decision, Error, Event, Orchestration, OrchestrationContext, Result, TurnError,
};
use dauer_testhub::{TestError, TestHub};

const PRICE: Activity<u32, u32> = Activity::new("price");
const TAX: Activity<u32, u32> = Activity::new("tax");
const PAID: Event<u32> = Event::new("paid");
const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");

async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    let price = ctx.call(PRICE, &item).await?;
    let paid = ctx.event(PAID).await?;
    Ok(price + paid)
}

async fn taxed(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    let price = ctx.call(TAX, &item).await?; // TAX
    Ok(price + ctx.event(PAID).await?)
}

/// Does one thing more at the end.
async fn longer(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    let sum = shop(ctx.clone(), item).await?;
    Ok(ctx.call(TAX, &sum).await?) // LONGER
}

async fn cheaper(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    Ok(shop(ctx, item).await? - 1)
}

async fn failing(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    shop(ctx, item).await?;
    Err(Error::msg("no"))
}

async fn impatient(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    Ok(ctx.call(PRICE, &item).await?)
}

async fn waiting(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    let sum = shop(ctx.clone(), item).await?;
    Ok(sum + ctx.event(PAID).await?) // WAITING
}

fn line_of(marker: &str) -> u32 {
    let line = include_str!("replay.rs").lines().position(|line| line.ends_with(marker));
    u32::try_from(line.unwrap() + 1).unwrap()
}

fn shop_hub() -> TestHub<'static> {
    TestHub::new().activity(PRICE, |item| Ok(item * 10))
}

/// The history of an order that was paid.
fn exported() -> String {
    let mut hub = shop_hub().raise_at(Duration::from_secs(60), PAID, &5);
    assert_eq!(hub.run(SHOP, shop, 7).unwrap(), 75);
    hub.export().unwrap()
}

/// The same history, changed.
fn changed(change: impl FnOnce(&mut Vec<HistoryEvent>)) -> String {
    let mut document = HistoryDocument::parse(&exported()).unwrap();
    change(&mut document.events);
    document.to_text().unwrap()
}

#[test]
fn the_code_that_made_a_history_fits_it_at_every_turn() {
    TestHub::replay(SHOP, shop, &exported()).unwrap();
    // After the first and the second turn of three, as exported from an instance that still runs.
    for length in [3, 5] {
        TestHub::replay(SHOP, shop, &changed(|events| events.truncate(length))).unwrap();
    }
}

#[test]
fn changed_code_is_reported_with_its_line() {
    let error = TestHub::replay(SHOP, taxed, &exported()).unwrap_err();
    let TestError::Turn { source, .. } = error else { panic!("{error:?}") };
    let TurnError::Mismatch { location, .. } = *source else { panic!("{source:?}") };
    assert_eq!((location.file(), location.line()), (file!(), line_of("// TAX")));
}

#[test]
fn code_that_goes_on_where_the_history_ends_is_reported_with_its_line() {
    let error = TestHub::replay(SHOP, longer, &exported()).unwrap_err();
    let TestError::Beyond { found, id: 1, location } = &error else { panic!("{error:?}") };
    assert_eq!(*found, Decision::Activity("tax".into()));
    assert_eq!(location.unwrap().line(), line_of("// LONGER"));
}

#[test]
fn another_end_is_reported() {
    let end = |error: TestError| match error {
        TestError::OtherEnd { found, expected } => (found, expected),
        other => panic!("{other:?}"),
    };
    let both = |found: &str, expected: &str| (found.to_owned(), expected.to_owned());
    let (completed, failed) =
        ("ended as ORCHESTRATION_STATUS_COMPLETED", "ended as ORCHESTRATION_STATUS_FAILED");
    let exported = exported();
    let error = TestHub::replay(SHOP, failing, &exported).unwrap_err();
    assert_eq!(end(error), both(failed, completed));
    let error = TestHub::replay(SHOP, cheaper, &exported).unwrap_err();
    assert_eq!(end(error), both("ended with one output", "ended with another"));
    let (found, expected) = end(TestHub::replay(SHOP, waiting, &exported).unwrap_err());
    let place = format!("waits ({}:{}:", file!(), line_of("// WAITING"));
    assert!(found.starts_with(&place) && expected == completed, "{found}, {expected}");
    let running = changed(|events| events.truncate(5));
    let error = TestHub::replay(SHOP, impatient, &running).unwrap_err();
    assert_eq!(end(error), both(completed, "waited"));
}

/// The same output, written otherwise, is the same.
#[test]
fn outputs_are_compared_as_values() {
    const ECHO: Orchestration<serde_json::Value, serde_json::Value> = Orchestration::new("echo");
    async fn echo(_: OrchestrationContext, value: serde_json::Value) -> Result<serde_json::Value> {
        Ok(value)
    }
    let mut hub = TestHub::new();
    hub.run(ECHO, echo, serde_json::json!({"a": 1, "b": [2]})).unwrap();
    let text = hub.export().unwrap();
    let spaced =
        text.replace(r#""result": "{\"a\":1,\"b\":[2]}""#, r#""result": "{ \"b\": [2], \"a\": 1 }""#);
    assert_ne!(text, spaced);
    TestHub::replay(ECHO, echo, &spaced).unwrap();
}

/// The turn in which someone else ended it ran no code; all turns before it are compared.
#[test]
fn a_terminated_run_is_compared_up_to_its_termination() {
    let mut hub = shop_hub().terminate_at(Duration::from_secs(60), &());
    hub.run(SHOP, shop, 7).unwrap_err();
    let history = hub.export().unwrap();
    TestHub::replay(SHOP, shop, &history).unwrap();
    assert!(matches!(TestHub::replay(SHOP, taxed, &history), Err(TestError::Turn { .. })));
    let mut hub = shop_hub().shuffle(1).terminate_at(Duration::ZERO, &());
    hub.run(SHOP, shop, 7).unwrap_err();
    TestHub::replay(SHOP, shop, &hub.export().unwrap()).unwrap();
    // Ended before its code ever ran.
    let unborn = changed(|events| {
        events.truncate(2);
        events.push(event::execution_terminated(0, None, false));
        events.push(event::execution_completed(0, -1, OrchestrationStatus::Terminated, None, None));
    });
    TestHub::replay(SHOP, shop, &unborn).unwrap();
}

#[test]
fn what_is_no_history_of_this_orchestration_is_refused() {
    const OTHER: Orchestration<u32, u32> = Orchestration::new("other");
    let error = TestHub::replay(OTHER, shop, &exported()).unwrap_err();
    assert!(matches!(&error, TestError::OtherOrchestration { found, .. } if found == "shop"), "{error:?}");
    let newer = exported().replace("\"dauer_history\": 1", "\"dauer_history\": 2");
    assert!(matches!(TestHub::replay(SHOP, shop, &newer), Err(TestError::History(_))));
    let headless = changed(|events| drop(events.remove(1)));
    assert!(matches!(TestHub::replay(SHOP, shop, &headless), Err(TestError::Turn { .. })));
}
