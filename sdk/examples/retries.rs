//! Retries: which failures are worth another attempt, and how long to wait before it.
//!
//! ```text
//! cargo run --example retries
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, CallError, ClientError, Error, Failure, Orchestration, OrchestrationContext,
    Result, RetryPolicy,
};

const WEATHER: Activity<String, String> = Activity::new("weather");
const REPORT: Orchestration<String, String> = Orchestration::new("report");

/// Every attempt and every pause is in the history: after a crash the count goes on where it was.
async fn report(ctx: OrchestrationContext, city: String) -> Result<String> {
    let policy = RetryPolicy::exponential(4, Duration::from_millis(10))
        .interval_max(Duration::from_secs(60))
        .total(Duration::from_secs(3_600))
        .retry_if(|failure| failure.kind != "Closed");
    match ctx.call(WEATHER, &city).retry(policy).await {
        // What is left when the policy gives up is the last failure, and an orchestration may go on from it.
        Err(CallError::Failed(failure)) if failure.kind == "Closed" => Ok(format!("{city}: closed today")),
        other => Ok(other?),
    }
}

async fn weather(_: ActivityContext, city: String) -> Result<String> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
    println!("call {call}: {city}");
    match (city.as_str(), call) {
        // Any error is worth another attempt ...
        ("Oslo", 1 | 2) => Err(std::io::Error::other("connection reset").into()),
        // ... unless it says of itself that it is not ...
        ("Atlantis", _) => Err(Error::fatal("no such city")),
        // ... or the policy says so of its kind.
        ("Bath", _) => Err(Failure::new("Closed", "opens on Monday").into()),
        _ => Ok(format!("{city}: sunny")),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let hub = dauer::open(&url)?;
    let worker = hub.worker().orchestration(REPORT, report).activity(WEATHER, weather).build()?;
    tokio::spawn(worker.run(std::future::pending()));

    for city in ["Oslo", "Atlantis", "Bath"] {
        let report = hub.client().start(REPORT, &city.to_owned()).await?;
        match report.output().await {
            Ok(report) => println!("{report}"),
            Err(ClientError::Failed { source, .. }) => println!("{city}: {}", source.message),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
