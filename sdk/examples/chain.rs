//! A chain: each step needs what the one before it gave.
//!
//! ```text
//! cargo run --example chain                      # in memory
//! cargo run --example chain -- sqlite:chain.db   # in a file: kill it, run it again, it goes on
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use dauer::{Activity, ActivityContext, Orchestration, OrchestrationContext, Result};

const RESERVE: Activity<u32, String> = Activity::new("reserve");
const CHARGE: Activity<String, u64> = Activity::new("charge");
const SHIP: Activity<(String, u64), String> = Activity::new("ship");
const ORDER: Orchestration<u32, String> = Orchestration::new("order");

/// After each `.await` the result is recorded: whatever dies in between, no step whose result is known is done again.
async fn order(ctx: OrchestrationContext, item: u32) -> Result<String> {
    let reservation = ctx.call(RESERVE, &item).await?;
    let payment = ctx.call(CHARGE, &reservation).await?;
    Ok(ctx.call(SHIP, &(reservation, payment)).await?)
}

async fn reserve(_: ActivityContext, item: u32) -> Result<String> {
    println!("reserve item {item}");
    Ok(format!("R-{item}"))
}

async fn charge(_: ActivityContext, reservation: String) -> Result<u64> {
    println!("charge {reservation}");
    Ok(1_000)
}

async fn ship(_: ActivityContext, (reservation, payment): (String, u64)) -> Result<String> {
    println!("ship {reservation}, paid by {payment}");
    Ok(format!("T-{payment}"))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let hub = dauer::open(&url)?;
    let worker = hub
        .worker()
        .orchestration(ORDER, order)
        .activity(RESERVE, reserve)
        .activity(CHARGE, charge)
        .activity(SHIP, ship)
        .build()?;
    tokio::spawn(worker.run(std::future::pending()));

    let order = hub.client().start(ORDER, &7).id("order-7").await?;
    println!("tracking number: {}", order.output().await?);
    Ok(())
}
