//! The code of the worker: activities that take their time or end the process, and deployments that are bad.

use std::time::Duration;

use dauer::{
    Activity, ActivityContext, Event, Failure, Orchestration, OrchestrationContext, Result, WorkerBuilder,
};

use crate::journal::Journal;

/// The name of an activity and its seconds, as the Python client writes them.
type Call = (String, Option<f64>);

const CALLS: Orchestration<Call, String> = Orchestration::new("calls");
const DEPLOYED: Orchestration<u32, u32> = Orchestration::new("deployed");
/// The version that running instances have.
const VERSION: &str = "2";
const TIMED: Activity<f64, String> = Activity::new("timed");
const POISON: Activity<(), ()> = Activity::new("poison");
const STEP: Activity<u32, u32> = Activity::new("step");
const GO: Event<u32> = Event::new("go");

/// What a deployment does with `deployed` after its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Code {
    /// Calls an activity.
    Mended,
    /// Panics.
    Panics,
    /// Awaits a timer of tokio.
    Waits,
    /// Does not have the version.
    Unknown,
}

impl Code {
    /// Registers everything that the deployment has.
    pub(crate) fn register(self, worker: WorkerBuilder, journal: &'static Journal) -> WorkerBuilder {
        let timed = async move |ctx: ActivityContext, seconds: f64| {
            let key = ctx.instance().to_string();
            journal.note("BEGIN", &key);
            tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
            journal.note("END", &key);
            Ok(key)
        };
        let poison = async move |ctx: ActivityContext, (): ()| {
            journal.note("BEGIN", &ctx.instance().to_string());
            std::process::abort()
        };
        let worker = worker
            .orchestration(CALLS, calls)
            .activity(TIMED, timed)
            .activity(POISON, poison)
            .activity(STEP, async |_: ActivityContext, number: u32| Ok(number + 1));
        match self {
            Self::Mended => worker.orchestration(DEPLOYED.version(VERSION), deployed),
            Self::Panics => worker.orchestration(DEPLOYED.version(VERSION), panics),
            Self::Waits => worker.orchestration(DEPLOYED.version(VERSION), waits),
            // Turns of all versions are offered to a worker that has the name without a version.
            Self::Unknown => worker.orchestration(DEPLOYED, deployed),
        }
    }
}

/// Calls an activity by its name.
async fn calls(ctx: OrchestrationContext, (name, seconds): Call) -> Result<String> {
    match name.as_str() {
        "timed" => Ok(ctx.call(TIMED, &seconds.unwrap_or_default()).await?),
        "poison" => {
            ctx.call(POISON, &()).await?;
            Ok(name)
        }
        _ => Err(Failure::new("Unknown", format!("no activity '{name}' is here")).into()),
    }
}

/// A call, an event, and what all deployments have in common until then.
async fn until_the_event(ctx: &OrchestrationContext, number: u32) -> Result<u32> {
    let number = ctx.call(STEP, &number).await?;
    Ok(number + ctx.event(GO).await?)
}

async fn deployed(ctx: OrchestrationContext, number: u32) -> Result<u32> {
    let number = until_the_event(&ctx, number).await?;
    Ok(ctx.call(STEP, &number).await?)
}

async fn panics(ctx: OrchestrationContext, number: u32) -> Result<u32> {
    let number = until_the_event(&ctx, number).await?;
    assert!(number == 0, "a bad deployment");
    Ok(number)
}

async fn waits(ctx: OrchestrationContext, number: u32) -> Result<u32> {
    let number = until_the_event(&ctx, number).await?;
    tokio::time::sleep(Duration::from_millis(1)).await;
    Ok(number)
}
