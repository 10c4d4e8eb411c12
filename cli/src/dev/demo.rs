//! The worker of `dauer dev --demo`: one instance of each kind that there is to see.

use std::error::Error;
use std::future::Future;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, ClientError, Event, Hub, InstanceId, Orchestration, OrchestrationContext,
    RawClientError, Refused, Result, Reuse,
};
use futures::future::try_join_all;

const PACK: Orchestration<Vec<String>, u32> = Orchestration::new("pack-everything");
const APPROVAL: Orchestration<String, String> = Orchestration::new("wait-for-approval");
const REMINDER: Orchestration<u64, String> = Orchestration::new("remind-later");
const PAYMENT: Orchestration<u32, u32> = Orchestration::new("take-payment");

const WEIGH: Activity<String, u32> = Activity::new("weigh");
const CHARGE: Activity<u32, u32> = Activity::new("charge");

const APPROVED: Event<bool> = Event::new("approved");

/// How long the work of an activity takes: long enough to be watched.
const WORK: Duration = Duration::from_millis(400);

/// How long the timer sleeps.
const NAP_SECONDS: u64 = 20;

async fn pack(ctx: OrchestrationContext, items: Vec<String>) -> Result<u32> {
    // A fan-out: all at once.
    let weights = try_join_all(items.iter().map(|item| ctx.call(WEIGH, item))).await?;
    Ok(weights.iter().sum())
}

async fn approval(ctx: OrchestrationContext, what: String) -> Result<String> {
    ctx.set_status("waiting for approval");
    let approved = ctx.event(APPROVED).await?;
    Ok(format!("{what} is {}", if approved { "approved" } else { "rejected" }))
}

async fn reminder(ctx: OrchestrationContext, seconds: u64) -> Result<String> {
    ctx.sleep(Duration::from_secs(seconds)).await;
    Ok(format!("{seconds} seconds later"))
}

async fn payment(ctx: OrchestrationContext, amount: u32) -> Result<u32> {
    Ok(ctx.call(CHARGE, &amount).await?)
}

async fn weigh(_: ActivityContext, item: String) -> Result<u32> {
    tokio::time::sleep(WORK).await;
    Ok(u32::try_from(item.len()).unwrap_or_default() * 90)
}

/// Runs the worker until `stop`, with its instances.
pub(super) async fn run(
    hub: &Hub,
    address: SocketAddr,
    stop: impl Future<Output = ()> + Send + 'static,
) -> std::result::Result<(), Box<dyn Error>> {
    // The first charge fails, on purpose; a rewind then goes through.
    let declined = AtomicBool::new(false);
    let charge = move |_: ActivityContext, amount: u32| {
        let first = !declined.swap(true, Ordering::Relaxed);
        async move {
            tokio::time::sleep(WORK).await;
            if first { Err(dauer::Error::msg("the bank declined the card")) } else { Ok(amount) }
        }
    };
    let worker = hub
        .worker()
        .orchestration(PACK, pack)
        .orchestration(APPROVAL, approval)
        .orchestration(REMINDER, reminder)
        .orchestration(PAYMENT, payment)
        .activity(WEIGH, weigh)
        .activity(CHARGE, charge)
        .build()?;
    start_all(hub, address).await?;
    worker.run(stop).await?;
    Ok(())
}

async fn start_all(hub: &Hub, address: SocketAddr) -> std::result::Result<(), Box<dyn Error>> {
    let client = hub.client();
    let keep = || Reuse { replaceable: Vec::new() };
    let items = ["kettle", "teapot", "cups", "tea", "tray"].map(str::to_owned).to_vec();
    let started = [
        client.start(PACK, &items).id("packing").reuse(keep()).await.map(|handle| handle.id().clone()),
        client
            .start(APPROVAL, &"order 7".to_owned())
            .id("approval")
            .reuse(keep())
            .await
            .map(|handle| handle.id().clone()),
        client
            .start(REMINDER, &NAP_SECONDS)
            .id("reminder")
            .reuse(keep())
            .await
            .map(|handle| handle.id().clone()),
        client.start(PAYMENT, &40).id("payment").reuse(keep()).await.map(|handle| handle.id().clone()),
    ];
    let out = &mut io::stdout().lock();
    writeln!(out, "\nThe demo is in the hub 'demo':")?;
    for (start, says) in started.into_iter().zip([
        "packing    weighs five things at once",
        "approval   waits for the event 'approved'",
        "reminder   sleeps for 20 seconds",
        "payment    fails, on purpose: rewind it",
    ]) {
        writeln!(out, "  {says}{}", if was_there(start)? { "  (there already)" } else { "" })?;
    }
    let store = format!("--store 'http://{address}?hub=demo'");
    writeln!(out, "\n  dauer list {store}\n  dauer raise approval approved --input true {store}")?;
    writeln!(out, "  dauer rewind payment {store}")?;
    Ok(out.flush()?)
}

/// Whether the instance is of an earlier demo.
fn was_there(start: std::result::Result<InstanceId, ClientError>) -> std::result::Result<bool, ClientError> {
    match start {
        Ok(_) => Ok(false),
        Err(ClientError::Client(RawClientError::Refused(Refused::Exists(_)))) => Ok(true),
        Err(error) => Err(error),
    }
}
