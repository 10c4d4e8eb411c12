//! A person decides, or time runs out: an event raced with a timer.
//!
//! ```text
//! cargo run --example approval
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::time::Duration;

use dauer::{CallError, Event, Orchestration, OrchestrationContext, Result};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
struct Decision {
    by: String,
    approved: bool,
}

const DECISION: Event<Decision> = Event::new("decision");
const EXPENSE: Orchestration<(u32, Duration), String> = Orchestration::new("expense");

/// The wait costs nothing, however long it is: no thread, no memory, only a row in the store. An event that is raised
/// before anybody waits for it is kept.
async fn expense(ctx: OrchestrationContext, (amount, patience): (u32, Duration)) -> Result<String> {
    ctx.set_status("waiting for a decision");
    match ctx.event(DECISION).timeout(patience).await {
        Ok(Decision { by, approved: true }) => Ok(format!("{amount} approved by {by}")),
        Ok(Decision { by, approved: false }) => Ok(format!("{amount} rejected by {by}")),
        Err(CallError::TimedOut { after }) => Ok(format!("{amount} not decided within {after:?}")),
        Err(error) => Err(error.into()),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let hub = dauer::open(&url)?;
    let worker = hub.worker().orchestration(EXPENSE, expense).build()?;
    tokio::spawn(worker.run(std::future::pending()));

    let week = Duration::from_secs(7 * 24 * 60 * 60);
    for (amount, approved) in [(30, true), (3_000, false)] {
        let expense = hub.client().start(EXPENSE, &(amount, week)).await?;
        // In a real program: an HTTP handler, or `dauer raise ID decision --input '{"by":"Ada","approved":true}'`.
        expense.raise(DECISION, &Decision { by: "Ada".to_owned(), approved }).await?;
        println!("{}", expense.output().await?);
    }
    let forgotten = hub.client().start(EXPENSE, &(300, Duration::from_millis(50))).await?;
    println!("{}", forgotten.output().await?);
    Ok(())
}
