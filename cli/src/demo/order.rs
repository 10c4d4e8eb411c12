//! The demo's own program: an order checkout.

use std::sync::Arc;
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, CallError, Error, Event, Orchestration, OrchestrationContext, Result,
    WorkerBuilder,
};
use futures::{future::try_join_all, select_biased};
use serde::{Deserialize, Serialize};

use super::progress::Progress;

#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) number: u32,
    pub(super) items: Vec<String>,
    /// After so many milliseconds the order approves itself.
    pub(super) patience_ms: u64,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Approval {
    pub(super) approved: bool,
    pub(super) by: String,
}

/// One try of a charge.
#[derive(Serialize, Deserialize)]
struct Charge {
    reservation: u32,
    attempt: u32,
}

pub(super) const CHECKOUT: Orchestration<Order, String> = Orchestration::new("checkout");
pub(super) const APPROVED: Event<Approval> = Event::new("approved");
/// The custom status of an order that waits for [`APPROVED`].
pub(super) const WAITING: &str = "waiting for approval";
const SHIP: Orchestration<u32, String> = Orchestration::new("ship");
const RESERVE: Activity<u32, u32> = Activity::new("reserve");
const CHARGE: Activity<Charge, u32> = Activity::new("charge");
const PACK: Activity<String, u32> = Activity::new("pack");
const REFUND: Activity<u32, ()> = Activity::new("refund");
const LABEL: Activity<u32, String> = Activity::new("label");

/// How often a payment is tried.
const CHARGE_ATTEMPTS: u32 = 3;

/// The wait before a payment is tried again; doubled each time.
const CHARGE_RETRY_DELAY: Duration = Duration::from_millis(300);

/// How long the work of an activity takes: long enough to be watched, and to be killed in the middle of.
const WORK: Duration = Duration::from_millis(250);

async fn checkout(ctx: OrchestrationContext, order: Order, progress: Arc<Progress>) -> Result<String> {
    // A chain: each step begins when the one before is durable.
    ctx.set_status("reserving and charging");
    let reservation = ctx.call(RESERVE, &order.number).await?;
    let payment = charge_with_retry(&ctx, reservation, &progress).await?;
    // A fan-out: all at once, gathered with the futures crate as it is.
    ctx.set_status("packing");
    let weights = try_join_all(order.items.iter().map(|item| ctx.call(PACK, item))).await?;
    let grams: u32 = weights.iter().sum();
    // A race: whoever comes first, an approval or the timer.
    ctx.set_status(WAITING);
    let patience = Duration::from_millis(order.patience_ms);
    progress
        .decides(&ctx, &format!("waits for approval, and approves itself after {} s", patience.as_secs()));
    let mut approval = ctx.event(APPROVED);
    let mut late = ctx.sleep(patience);
    let approval = select_biased! {
        approval = approval => approval?,
        () = late => Approval { approved: true, by: "itself".to_owned() },
    };
    if !approval.approved {
        ctx.set_status("rejected");
        ctx.call(REFUND, &payment).await?;
        return Ok(format!("payment {payment} refunded, rejected by {}", approval.by));
    }
    progress.decides(&ctx, &format!("is approved by {}", approval.by));
    // A child: an orchestration of its own.
    ctx.set_status("shipping");
    let tracking = ctx.call_orchestration(SHIP, &grams).await?;
    ctx.set_status("done");
    Ok(format!("payment {payment}, {grams} g, approved by {}, tracking {tracking}", approval.by))
}

/// A retry is a loop: every try and every wait between two is in the history, and is not repeated after a crash.
async fn charge_with_retry(ctx: &OrchestrationContext, reservation: u32, progress: &Progress) -> Result<u32> {
    let mut delay = CHARGE_RETRY_DELAY;
    for attempt in 1.. {
        match ctx.call(CHARGE, &Charge { reservation, attempt }).await {
            Ok(payment) => return Ok(payment),
            Err(CallError::Failed(failure)) if failure.retryable && attempt < CHARGE_ATTEMPTS => {
                progress.decides(ctx, &format!("tries again in {} ms: {failure}", delay.as_millis()));
                ctx.sleep(delay).await;
                delay *= 2;
            }
            Err(error) => return Err(error.into()),
        }
    }
    unreachable!("attempts are counted up to a limit")
}

async fn ship(ctx: OrchestrationContext, grams: u32) -> Result<String> {
    ctx.sleep(WORK).await;
    Ok(ctx.call(LABEL, &grams).await?)
}

/// Adds the program to a worker. The activities say what they do.
pub(super) fn register(worker: WorkerBuilder, progress: &Arc<Progress>) -> WorkerBuilder {
    let shared = || Arc::clone(progress);
    let (decides, reserve, charge, pack) = (shared(), shared(), shared(), shared());
    let (refund, label) = (shared(), shared());
    worker
        .orchestration(CHECKOUT, move |ctx: OrchestrationContext, order: Order| {
            checkout(ctx, order, Arc::clone(&decides))
        })
        .orchestration(SHIP, ship)
        .activity(RESERVE, move |ctx: ActivityContext, order: u32| {
            reserve.does(&ctx, &format!("holds stock for order {order}"));
            work_for(WORK, 1000 + order)
        })
        .activity(CHARGE, move |ctx: ActivityContext, Charge { reservation, attempt }: Charge| {
            charge.does(&ctx, &format!("charges reservation {reservation}, attempt {attempt}"));
            async move {
                let payment = work_for(WORK, reservation + 7000).await?;
                // The first try of each order fails, however often the process is killed.
                if attempt == 1 { Err(Error::msg("the card terminal does not answer")) } else { Ok(payment) }
            }
        })
        .activity(PACK, move |ctx: ActivityContext, item: String| {
            pack.does(&ctx, &format!("packs the {item}"));
            // Different items take different times: the answers come back in another order.
            let grams = u32::try_from(item.len()).unwrap_or_default() * 90;
            work_for(WORK + Duration::from_millis(u64::from(grams % 250)), grams)
        })
        .activity(REFUND, move |ctx: ActivityContext, payment: u32| {
            refund.does(&ctx, &format!("gives payment {payment} back"));
            work_for(WORK, ())
        })
        .activity(LABEL, move |ctx: ActivityContext, grams: u32| {
            label.does(&ctx, &format!("prints a label for {grams} g"));
            work_for(WORK, format!("D{grams:05}"))
        })
}

/// The work of an activity: time passes, and then there is a result.
async fn work_for<T>(duration: Duration, result: T) -> Result<T> {
    tokio::time::sleep(duration).await;
    Ok(result)
}
