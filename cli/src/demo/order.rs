//! The demo's own program: an order checkout.

use std::sync::Arc;
use std::time::Duration;

use dauer::{Activity, ActivityContext, Event, Orchestration, OrchestrationContext, Result, WorkerBuilder};
use futures::{future::try_join_all, select_biased};
use serde::{Deserialize, Serialize};

use super::Progress;

#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) number: u32,
    pub(super) items: Vec<String>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Approval {
    pub(super) by: String,
}

pub(super) const CHECKOUT: Orchestration<Order, String> = Orchestration::new("checkout");
pub(super) const APPROVED: Event<Approval> = Event::new("approved");
const SHIP: Orchestration<u32, String> = Orchestration::new("ship");
const RESERVE: Activity<u32, u32> = Activity::new("reserve");
const CHARGE: Activity<u32, u32> = Activity::new("charge");
const PACK: Activity<String, u32> = Activity::new("pack");
const LABEL: Activity<u32, String> = Activity::new("label");

async fn checkout(ctx: OrchestrationContext, order: Order) -> Result<String> {
    // A chain: each step begins when the one before is durable.
    ctx.set_status("reserving and charging");
    let reservation = ctx.call(RESERVE, &order.number).await?;
    let payment = ctx.call(CHARGE, &reservation).await?;
    // A fan-out: all at once, gathered with the futures crate as it is.
    ctx.set_status("packing");
    let weights = try_join_all(order.items.iter().map(|item| ctx.call(PACK, item))).await?;
    let grams: u32 = weights.iter().sum();
    // A race: whoever comes first, an approval or the timer.
    ctx.set_status("waiting for approval");
    let mut approved = ctx.event(APPROVED);
    let mut late = ctx.sleep(Duration::from_secs(5));
    let by = select_biased! {
        approval = approved => approval?.by,
        () = late => "nobody, in time".to_owned(),
    };
    // A child: an orchestration of its own.
    ctx.set_status("shipping");
    let tracking = ctx.call_orchestration(SHIP, &grams).await?;
    ctx.set_status("done");
    Ok(format!("payment {payment}, {grams} g, approved by {by}, tracking {tracking}"))
}

async fn ship(ctx: OrchestrationContext, grams: u32) -> Result<String> {
    ctx.sleep(Duration::from_millis(300)).await;
    Ok(ctx.call(LABEL, &grams).await?)
}

/// Adds the program to a worker. The activities say what they do.
pub(super) fn register(worker: WorkerBuilder, progress: &Arc<Progress>) -> WorkerBuilder {
    let say = |what: &'static str| {
        let progress = Arc::clone(progress);
        move |ctx: &ActivityContext, detail: String| progress.say(ctx.name(), &format!("{what} {detail}"))
    };
    let (reserve, charge, pack, label) = (
        say("holds stock for order"),
        say("charges reservation"),
        say("packs the"),
        say("prints a label for"),
    );
    let (reserve, charge, pack, label) =
        (Arc::new(reserve), Arc::new(charge), Arc::new(pack), Arc::new(label));
    worker
        .orchestration(CHECKOUT, checkout)
        .orchestration(SHIP, ship)
        .activity(RESERVE, move |ctx: ActivityContext, order: u32| {
            reserve(&ctx, order.to_string());
            async move { Ok(1000 + order) }
        })
        .activity(CHARGE, move |ctx: ActivityContext, reservation: u32| {
            charge(&ctx, reservation.to_string());
            async move { Ok(reservation + 7000) }
        })
        .activity(PACK, move |ctx: ActivityContext, item: String| {
            pack(&ctx, item.clone());
            async move {
                // Different items take different times: the answers come back in another order.
                let grams = u32::try_from(item.len()).unwrap_or_default() * 90;
                tokio::time::sleep(Duration::from_millis(u64::from(grams % 250))).await;
                Ok(grams)
            }
        })
        .activity(LABEL, move |ctx: ActivityContext, grams: u32| {
            label(&ctx, format!("{grams} g"));
            async move { Ok(format!("D{grams:05}")) }
        })
}
