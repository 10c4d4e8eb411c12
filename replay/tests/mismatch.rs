//! Code, names and values that do not fit the history are reported with the line of the code.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use dauer_core::InstanceId;
use dauer_proto::{HistoryEvent, event};
use dauer_replay::{
    Activity, Decision, Event, Halt, Handler, Live, Orchestration, OrchestrationContext, Result, TurnError,
    UnknownOrchestration,
};

use crate::support::{Server, activities, assert_place, first, first_error, raised, registry, started};

const PRICE: Activity<u32, u32> = Activity::new("price");
const SHIP: Activity<u32, u32> = Activity::new("ship");
const CHILD: Orchestration<u32, u32> = Orchestration::new("child");
const GO: Event<u32> = Event::new("go");
const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");

async fn price(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(ctx.call(PRICE, &n).await?)
}

/// The history of a run of `made`, replayed by `changed`.
fn replayed_by<A: 'static, B: 'static>(
    made: impl Handler<u32, u32, A>,
    changed: impl Handler<u32, u32, B>,
) -> Result<(), TurnError> {
    let server = Server::start(SHOP, made, &1);
    Live::start(&registry(SHOP, changed), &server.history, &[]).map(|_| ())
}

#[test]
fn another_kind_is_reported_with_its_line() {
    async fn changed(ctx: OrchestrationContext, _: u32) -> Result<u32> {
        ctx.sleep(Duration::from_secs(1)).await;
        Ok(0)
    }
    let line = line!() - 3;
    let error = replayed_by(price, changed).unwrap_err();
    let start =
        format!("{}:{line}:13: task #0 is timer, but the history recorded activity 'price' (#0); ", file!());
    assert!(error.to_string().starts_with(&start), "{error}");
    let TurnError::Mismatch { location, id: 0, found, expected } = error else { panic!("{error}") };
    assert_place(location, line);
    assert_eq!((found, expected), (Decision::Timer, Decision::Activity("price".into())));
}

#[test]
fn another_name_or_target_is_reported() {
    async fn ship(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call(SHIP, &n).await?)
    }
    async fn child(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call_orchestration(CHILD, &n).await?)
    }
    async fn tell_a(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.send_event(&InstanceId::new("a")?, GO, &n);
        price(ctx, n).await
    }
    async fn tell_b(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.send_event(&InstanceId::new("b")?, GO, &n);
        price(ctx, n).await
    }
    let line = line!() - 3;
    let message = |result: Result<(), TurnError>| result.unwrap_err().to_string();
    let text = message(replayed_by(price, ship));
    assert!(text.contains("task #0 is activity 'ship', but the history recorded activity 'price' (#0)"));
    let text = message(replayed_by(child, price));
    assert!(
        text.contains("task #0 is activity 'price', but the history recorded orchestration 'child' (#0)")
    );
    let text = message(replayed_by(tell_a, tell_b));
    let found = format!("{}:{line}:13: task #0 is event 'go' to 'b', but", file!());
    assert!(text.starts_with(&found), "{text}");
    assert!(text.contains("recorded event 'go' to 'a' (#0)"), "{text}");
}

#[test]
fn every_kind_is_named_on_both_sides() {
    async fn waits(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.sleep(Duration::from_secs(1)).await;
        Ok(n)
    }
    async fn child(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call_orchestration(CHILD, &n).await?)
    }
    async fn tells(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.send_event(&InstanceId::new("a")?, GO, &n);
        price(ctx, n).await
    }
    let sides = |result: Result<(), TurnError>| match result.unwrap_err() {
        TurnError::Mismatch { found, expected, .. } => (found.to_string(), expected.to_string()),
        error => panic!("{error}"),
    };
    let (timer, orchestration) = ("timer".to_owned(), "orchestration 'child'".to_owned());
    let (activity, event) = ("activity 'price'".to_owned(), "event 'go' to 'a'".to_owned());
    // What the code asks for, then what the history recorded.
    assert_eq!(sides(replayed_by(waits, child)), (orchestration.clone(), timer.clone()));
    assert_eq!(sides(replayed_by(child, waits)), (timer, orchestration));
    assert_eq!(sides(replayed_by(price, tells)), (event.clone(), activity.clone()));
    assert_eq!(sides(replayed_by(tells, price)), (activity, event));
}

#[test]
fn inputs_and_times_may_change() {
    async fn one(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.sleep(Duration::from_secs(1)).await;
        Ok(n)
    }
    async fn nine(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.sleep(Duration::from_secs(9)).await;
        Ok(n)
    }
    replayed_by(one, nine).unwrap();
}

#[test]
fn what_the_code_no_longer_does_is_reported() {
    async fn both(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let _shipping = ctx.call(SHIP, &n).start();
        Ok(ctx.call(PRICE, &n).await?)
    }
    async fn ship(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call(SHIP, &n).await?)
    }
    async fn nothing(_: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(n)
    }
    let line = line!() - 5;
    let error = replayed_by(both, ship).unwrap_err();
    let TurnError::LeftOver { state: Halt::Blocked(place), id: 1, expected } = &error else {
        panic!("{error}")
    };
    assert_place(place, line);
    assert_eq!(*expected, Decision::Activity("price".into()));
    let error = replayed_by(both, nothing).unwrap_err();
    assert!(matches!(error, TurnError::LeftOver { state: Halt::Finished, id: 0, .. }), "{error}");
    let text = error.to_string();
    assert!(text.starts_with("the code finished, but the history recorded activity 'ship' (#0)"), "{text}");
}

/// The answer to a task must never be lost because the code asks for the task later than it did.
#[test]
fn a_task_asked_for_too_late_is_reported() {
    async fn before(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let price = ctx.call(PRICE, &n).await?;
        Ok(price + ctx.event(GO).await?)
    }
    async fn after(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let go = ctx.event(GO).await?;
        Ok(go + ctx.call(PRICE, &n).await?)
    }
    let line = line!() - 3;
    let mut server = Server::start(SHOP, before, &1);
    server.complete(0);
    let new = [event::orchestrator_started(9_000), raised("go", &1)];
    let error = Live::start(&registry(SHOP, after), &server.history, &new).unwrap_err();
    let TurnError::LeftOver { state: Halt::Blocked(place), id: 0, .. } = error else { panic!("{error}") };
    assert_place(place, line);
}

/// Where the history ends, the code may go another way: nothing that was recorded contradicts it.
#[test]
fn code_may_change_beyond_the_history() {
    async fn longer(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let shipping = ctx.call(PRICE, &n).await? + 1;
        Ok(ctx.call(SHIP, &shipping).await?)
    }
    let mut server = Server::start(SHOP, price, &1);
    let new = [event::orchestrator_started(2_000), server.answer_of(0)];
    let (_, answer) = Live::start(&registry(SHOP, longer), &server.history, &new).unwrap();
    assert_eq!(activities(&answer), [(1, "ship".into())]);
}

/// A rewind takes the failed calls out of the history, wherever they stand; they are asked for again.
#[test]
fn what_a_rewind_took_out_is_asked_for_again() {
    async fn three(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let (a, b, c) = futures::join!(ctx.call(PRICE, &n), ctx.call(SHIP, &n), ctx.call(PRICE, &n));
        Ok(a? + b? + c?)
    }
    let mut server = Server::start(SHOP, three, &1);
    server.complete(2);
    server.history.retain(|event| event.event_id != 1);
    let new = [event::orchestrator_started(9_000)];
    let (mut live, answer) = Live::start(&registry(SHOP, three), &server.history, &new).unwrap();
    assert_eq!(activities(&answer), [(1, "ship".into())]);
    let done = |id| event::task_completed(0, id, Some("1".into()));
    let answer = live.turn(&[done(1), done(0)]).unwrap();
    assert_eq!(crate::support::end_of(&answer.actions[0]).unwrap().result.as_deref(), Some("3"));
}

#[test]
fn unknown_names_and_versions_are_told_apart() {
    let shop = registry(SHOP.version("2"), price);
    let error = Live::start(&shop, &[], &first("store", &1)).unwrap_err();
    assert!(matches!(error, TurnError::Unknown(UnknownOrchestration::Name { .. })), "{error}");
    let error = Live::start(&shop, &[], &first("shop", &1)).unwrap_err();
    let text = "orchestration 'shop' is not registered without a version, only in version '2'; ";
    assert!(error.to_string().starts_with(text), "{error}");
    assert!(matches!(error, TurnError::Unknown(UnknownOrchestration::Version { .. })));
}

#[test]
fn an_input_that_cannot_be_read_is_reported() {
    let error = Live::start(&registry(SHOP, price), &[], &first("shop", &"no number")).unwrap_err();
    assert!(matches!(&error, TurnError::Undecodable { name, .. } if name == "shop"), "{error}");
    assert!(std::error::Error::source(&error).is_some());
}

#[test]
fn a_value_that_cannot_be_written_is_reported_with_its_line() {
    type Odd = std::collections::BTreeMap<Vec<u8>, u8>;
    const ODD: Activity<Odd, u32> = Activity::new("odd");
    fn odd() -> Odd {
        [(vec![1], 1)].into()
    }
    async fn calls(ctx: OrchestrationContext, _: u32) -> Result<u32> {
        Ok(ctx.call(ODD, &odd()).await?)
    }
    async fn status(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.set_status(&odd());
        price(ctx, n).await
    }
    async fn returns(_: OrchestrationContext, _: u32) -> Result<Odd> {
        Ok(odd())
    }
    let text = first_error(SHOP, calls, &1).to_string();
    let start = format!("{}:{}:16: the input of activity 'odd' cannot be written", file!(), line!() - 10);
    assert!(text.starts_with(&start), "{text}");
    let text = first_error(SHOP, status, &1).to_string();
    let start = format!("{}:{}:13: the status cannot be written", file!(), line!() - 10);
    assert!(text.starts_with(&start), "{text}");
    let text = first_error(Orchestration::<u32, Odd>::new("odd"), returns, &1).to_string();
    assert!(text.starts_with("the output of orchestration 'odd' cannot be written"), "{text}");
}

#[test]
fn a_name_the_store_would_refuse_is_reported_with_its_line() {
    async fn nameless(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(ctx.call(Activity::<u32, u32>::new(""), &n).await?)
    }
    match first_error(SHOP, nameless, &1) {
        TurnError::Name { location, .. } => assert_place(location, line!() - 3),
        error => panic!("{error}"),
    }
}

#[test]
fn a_history_without_a_start_is_reported() {
    let shop = registry(SHOP, price);
    let reason = |past: &[HistoryEvent]| Live::start(&shop, past, &[]).unwrap_err().to_string();
    assert!(reason(&[]).contains("there is no ExecutionStarted"));
    let nameless = event::execution_started(0, event::start("shop", "", crate::support::EXECUTION));
    assert!(reason(&[nameless]).contains("instance id is empty"));
    let odd = event::execution_started(0, event::start("shop", "order-1", "E"));
    assert!(reason(&[odd]).contains("32 lower-case hexadecimal digits"));
    let mut timeless = event::orchestrator_started(0);
    timeless.timestamp = None;
    assert!(reason(&[timeless, started("shop", &1)]).contains("no timestamp"));
}
