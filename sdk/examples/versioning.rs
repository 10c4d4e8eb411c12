//! Two versions of one orchestration side by side: what runs keeps the code it was started with.
//!
//! ```text
//! cargo run --example versioning
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use dauer::{Activity, ActivityContext, Event, Orchestration, OrchestrationContext, Result};

const PRICE: Activity<u32, u64> = Activity::new("price");
const DISCOUNT: Activity<u64, u64> = Activity::new("discount");
const CONFIRMED: Event<()> = Event::new("confirmed");

/// The name that is stored. Each version of its code is registered, and started, by a constant of its own.
const OFFER: Orchestration<u32, String> = Orchestration::new("offer");
const OFFER_1: Orchestration<u32, String> = OFFER.version("1");
const OFFER_2: Orchestration<u32, String> = OFFER.version("2");

/// As it was first written. It stays as long as something runs by it: `dauer list` tells.
async fn offer_1(ctx: OrchestrationContext, item: u32) -> Result<String> {
    let price = ctx.call(PRICE, &item).await?;
    ctx.event(CONFIRMED).await?;
    Ok(format!("item {item} for {price}, by version {}", ctx.version().unwrap_or("none")))
}

/// One call more. With this code the history of an offer of version 1 could not be replayed: the hub would say so, with
/// the line, and leave the instance as it is.
async fn offer_2(ctx: OrchestrationContext, item: u32) -> Result<String> {
    let price = ctx.call(PRICE, &item).await?;
    let price = ctx.call(DISCOUNT, &price).await?;
    ctx.event(CONFIRMED).await?;
    Ok(format!("item {item} for {price}, by version {}", ctx.version().unwrap_or("none")))
}

async fn price(_: ActivityContext, item: u32) -> Result<u64> {
    Ok(u64::from(item) * 100)
}

async fn discount(_: ActivityContext, price: u64) -> Result<u64> {
    Ok(price - price / 10)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let hub = dauer::open(&url)?;

    // Last year's worker knows only version 1. It is stopped while an offer waits for its confirmation.
    let worker = hub.worker().orchestration(OFFER_1, offer_1).activity(PRICE, price).build()?;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let old = tokio::spawn(worker.run(async { stopped.await.unwrap_or_default() }));
    let first = hub.client().start(OFFER_1, &3).await?;
    println!("an offer of version 1 waits");
    drop(stop);
    old.await??;

    // Today's worker knows both: what is new is started as version 2, what waits ends as it began.
    let worker = hub.worker().orchestration(OFFER_1, offer_1).orchestration(OFFER_2, offer_2);
    let worker = worker.activity(PRICE, price).activity(DISCOUNT, discount).build()?;
    tokio::spawn(worker.run(std::future::pending()));
    let second = hub.client().start(OFFER_2, &3).await?;
    for offer in [first, second] {
        offer.raise(CONFIRMED, &()).await?;
        println!("{}", offer.output().await?);
    }
    Ok(())
}
