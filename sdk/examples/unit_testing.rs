//! Unit tests of an orchestration: no runtime, no store, no waiting. In a crate of yours each function below `main` is a
//! `#[test]`; here they run one after the other:
//!
//! ```text
//! cargo run --example unit_testing
//! ```

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "an example prints, and a test fails by panicking"
)]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use dauer::{
    Activity, CallError, Event, Failure, Orchestration, OrchestrationContext, Result, RetryPolicy, Script,
    TestError, TestHub,
};

const HOUR: Duration = Duration::from_secs(3_600);

const CHARGE: Activity<(String, u32), ()> = Activity::new("charge");
const SHIP: Activity<u32, String> = Activity::new("ship");
const REFUND: Activity<String, ()> = Activity::new("refund");
const APPROVED: Event<bool> = Event::new("approved");
const ORDER: Orchestration<u32, String> = Orchestration::new("order");

/// Waits a day for the approval, charges, ships, and gives the money back when it cannot ship.
async fn order(ctx: OrchestrationContext, amount: u32) -> Result<String> {
    match ctx.event(APPROVED).timeout(24 * HOUR).await {
        Ok(true) => {}
        Ok(false) | Err(CallError::TimedOut { .. }) => return Ok("not approved".to_owned()),
        Err(error) => return Err(error.into()),
    }
    // The same in every replay and in every attempt: by it the bank knows a payment that it has seen before.
    let payment = ctx.uuid().to_string();
    ctx.call(CHARGE, &(payment.clone(), amount)).await?;
    let retry = RetryPolicy::exponential(3, Duration::from_secs(10));
    match ctx.call(SHIP, &amount).retry(retry).await {
        Ok(tracking) => Ok(tracking),
        Err(error) => {
            ctx.call(REFUND, &payment).await?;
            Err(error.into())
        }
    }
}

fn main() {
    an_order_without_approval_expires_after_a_day();
    shipping_is_tried_again();
    the_money_is_back_whatever_fails();
    nobody_pays_twice_whenever_the_host_dies();
    any_order_of_things_will_do();
    a_forgotten_event_is_named_with_its_line();
    todays_code_fits_yesterdays_history();
    println!("all as it should be");
}

/// A bank that knows its payments.
type Bank = RefCell<BTreeMap<String, u32>>;

fn shop(bank: &Bank) -> TestHub<'_> {
    TestHub::new()
        .raise_at(2 * HOUR, APPROVED, &true)
        .activity(SHIP, |_| Ok("T-1".to_owned()))
        .activity(CHARGE, |(payment, amount)| {
            bank.borrow_mut().insert(payment, amount);
            Ok(())
        })
        .activity(REFUND, |payment| {
            bank.borrow_mut().remove(&payment);
            Ok(())
        })
}

fn an_order_without_approval_expires_after_a_day() {
    let mut hub = TestHub::new();
    assert_eq!(hub.run(ORDER, order, 30).unwrap(), "not approved");
    assert_eq!(hub.now(), 24 * HOUR);
}

fn shipping_is_tried_again() {
    let bank = Bank::default();
    let down = Failure::new("Down", "no answer");
    let mut hub = shop(&bank).script(SHIP, Script::new().fail(down).times(2).ok("T-2".to_owned()));
    assert_eq!(hub.run(ORDER, order, 30).unwrap(), "T-2");
    assert_eq!(hub.now(), 2 * HOUR + Duration::from_secs(10 + 20));
    assert_eq!(hub.inputs(SHIP).unwrap(), [30, 30, 30]);
}

fn the_money_is_back_whatever_fails() {
    let bank = Bank::default();
    let runs = shop(&bank).fail_every_call(ORDER, order, 30, |case| {
        let shipped = case.result.is_ok();
        assert_eq!(bank.take().len(), usize::from(shipped), "{}", case.injected);
    });
    assert_eq!(runs.unwrap(), 3, "undisturbed, without the charge, without the shipping");
}

fn nobody_pays_twice_whenever_the_host_dies() {
    let bank = Bank::default();
    let check = |case: &dauer::Case<String>| {
        assert_eq!(bank.take().into_values().collect::<Vec<_>>(), [30], "{}", case.injected);
    };
    shop(&bank).crash_after_every_checkpoint(ORDER, order, 30, check).unwrap();
}

fn any_order_of_things_will_do() {
    let bank = Bank::default();
    assert_eq!(shop(&bank).complete_in_reverse().run(ORDER, order, 30).unwrap(), "T-1");
    for seed in 0..20 {
        assert_eq!(shop(&bank).shuffle(seed).run(ORDER, order, 30).unwrap(), "T-1", "seed {seed}");
    }
}

fn a_forgotten_event_is_named_with_its_line() {
    const WAITS: Orchestration<(), bool> = Orchestration::new("waits");
    async fn waits(ctx: OrchestrationContext, _: ()) -> Result<bool> {
        Ok(ctx.event(APPROVED).await?)
    }
    let error = TestHub::new().run(WAITS, waits, ()).unwrap_err();
    assert!(matches!(error, TestError::Stuck { .. }));
    println!("{error}");
}

fn todays_code_fits_yesterdays_history() {
    let bank = Bank::default();
    let mut hub = shop(&bank);
    hub.run(ORDER, order, 30).unwrap();
    // In a test of yours: include_str!("history.json"), written by `dauer history order-1 -o json`.
    let history = hub.export().unwrap();
    TestHub::replay(ORDER, order, &history).unwrap();
}
