//! A monitor: looks again and again, for as long as it takes, with a history that never grows.
//!
//! ```text
//! cargo run --example monitor
//! ```

#![allow(clippy::print_stdout, reason = "an example prints")]

use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use dauer::{Activity, ActivityContext, Orchestration, OrchestrationContext, Result};
use serde::{Deserialize, Serialize};

/// All that one round tells the next: the input of an orchestration that continues as new is its memory.
#[derive(Serialize, Deserialize)]
struct Watch {
    job: String,
    rounds: u32,
    pause: Duration,
}

const PROGRESS: Activity<(String, u32), u32> = Activity::new("progress");
const MONITOR: Orchestration<Watch, String> = Orchestration::new("monitor");

/// `Continue` ends this round and begins the next with that input and an empty history. A monitor that never ends has
/// no `Break`.
async fn monitor(ctx: OrchestrationContext, watch: Watch) -> Result<ControlFlow<String, Watch>> {
    let percent = ctx.call(PROGRESS, &(watch.job.clone(), watch.rounds)).await?;
    let rounds = watch.rounds + 1;
    if percent >= 100 {
        return Ok(Break(format!("{} done after {rounds} rounds", watch.job)));
    }
    ctx.sleep(watch.pause).await;
    Ok(Continue(Watch { rounds, ..watch }))
}

/// In a real program: a request to wherever the job runs.
async fn progress(_: ActivityContext, (job, round): (String, u32)) -> Result<u32> {
    let percent = round * 25;
    println!("{job}: {percent} %");
    Ok(percent)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1).unwrap_or_else(|| "memory:".to_owned());
    let hub = dauer::open(&url)?;
    let worker = hub.worker().orchestration(MONITOR, monitor).activity(PROGRESS, progress).build()?;
    tokio::spawn(worker.run(std::future::pending()));

    let watch = Watch { job: "backup".to_owned(), rounds: 0, pause: Duration::from_millis(20) };
    let monitor = hub.client().start(MONITOR, &watch).await?;
    println!("{}", monitor.output().await?);
    let record = monitor.status().await?.ok_or("nobody has purged it")?;
    println!("executions: {}, events in the last history: {}", record.generation + 1, record.history_len);
    Ok(())
}
