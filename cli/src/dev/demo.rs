//! The worker of `dauer dev --demo`: one instance of each kind that there is to see.

use std::error::Error;
use std::future::Future;
use std::io::{self, Write as _};
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, Client, ClientError, Event, Hub, Orchestration, OrchestrationContext,
    RawClientError, Refused, Result, StartCall, Status,
};
use futures::FutureExt as _;
use futures::future::try_join_all;

use crate::program;

const PACK: Orchestration<Vec<String>, u32> = Orchestration::new("pack-everything");
const APPROVAL: Orchestration<String, String> = Orchestration::new("wait-for-approval");
const REMINDER: Orchestration<u64, String> = Orchestration::new("remind-later");
const PAYMENT: Orchestration<u32, u32> = Orchestration::new("take-payment");

const WEIGH: Activity<String, u32> = Activity::new("weigh");
const CHARGE: Activity<u32, u32> = Activity::new("charge");

const APPROVED: Event<bool> = Event::new("approved");

/// How long the work of an activity takes: long enough to be watched.
const WORK: Duration = Duration::from_millis(400);

/// The longest wait for the failure of the payment before the commands are printed: a hundred times what it takes. After
/// it they are printed nevertheless, and only the rewind among them comes too early.
const FAILURE_MAX: Duration = Duration::from_secs(60);

/// The amount of the payment.
const AMOUNT: u32 = 40;

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

/// Declines the card until the payment is rewound. The payment's own record decides, so that it holds after a restart of the demo.
async fn charge(client: Client, ctx: ActivityContext, amount: u32) -> Result<u32> {
    tokio::time::sleep(WORK).await;
    let record = client.raw().get(ctx.instance()).await?;
    // It never continues as new: every further run began with a rewind.
    match record.is_some_and(|record| record.generation > 0) {
        true => Ok(amount),
        false => Err(dauer::Error::msg("the bank declined the card")),
    }
}

/// Where the demo is.
pub(super) struct Place {
    /// The file, as it was named.
    pub(super) file: String,
    /// The URL of the task hub at the server.
    pub(super) url: String,
}

/// Runs the worker until `stop`, with its instances.
pub(super) async fn run(
    hub: &Hub,
    place: &Place,
    stop: impl Future<Output = ()> + Clone + Send + 'static,
) -> std::result::Result<(), Box<dyn Error>> {
    let client = hub.client();
    let charge = move |ctx: ActivityContext, amount: u32| charge(client.clone(), ctx, amount);
    let worker = hub
        .worker()
        .orchestration(PACK, pack)
        .orchestration(APPROVAL, approval)
        .orchestration(REMINDER, reminder)
        .orchestration(PAYMENT, payment)
        .activity(WEIGH, weigh)
        .activity(CHARGE, charge)
        .build()?;
    let was_there = start_all(hub).await?;
    let guide = async {
        // After a stop there is nothing to print the commands for.
        futures::select_biased! {
            () = stop.clone().fuse() => return Ok(()),
            failed = tokio::time::timeout(FAILURE_MAX, failure(hub)).fuse() => failed.unwrap_or(Ok(()))?,
        }
        tell(place, &was_there).map_err(Box::<dyn Error>::from)
    };
    let working = async { worker.run(stop.clone()).await.map_err(Box::<dyn Error>::from) };
    let (told, worked) = futures::join!(guide, working);
    worked.and(told)
}

/// Waits for the failure of the payment, so that the printed rewind works. A payment that was rewound before completes: then another one
/// is started.
async fn failure(hub: &Hub) -> std::result::Result<(), ClientError> {
    let client = hub.client();
    loop {
        match client.handle(PAYMENT, "payment")?.ended_within(FAILURE_MAX).await {
            Ok(ended) if ended.status() == Status::Failed => return Ok(()),
            Ok(_) | Err(ClientError::Client(RawClientError::Absent(_))) => {
                is_living(client.start(PAYMENT, &AMOUNT).id("payment")).await?;
            }
            Err(ClientError::Client(RawClientError::TimedOut(_))) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// Starts the instances; those that have ended, again. Returns for each whether it lives since an earlier demo.
async fn start_all(hub: &Hub) -> std::result::Result<Vec<bool>, ClientError> {
    let client = hub.client();
    let items = ["kettle", "teapot", "cups", "tea", "tray"].map(str::to_owned).to_vec();
    Ok(vec![
        is_living(client.start(PACK, &items).id("packing")).await?,
        is_living(client.start(APPROVAL, &"order 7".to_owned()).id("approval")).await?,
        is_living(client.start(REMINDER, &NAP_SECONDS).id("reminder")).await?,
        is_living(client.start(PAYMENT, &AMOUNT).id("payment")).await?,
    ])
}

/// Prints what there is to see, and the commands that show it.
fn tell(place: &Place, was_there: &[bool]) -> io::Result<()> {
    let out = &mut io::stdout().lock();
    let Place { file, url } = place;
    writeln!(out, "\nThe demo is in the task hub 'demo' of {file}:")?;
    for (there, says) in was_there.iter().zip([
        "packing    weighs five things at once",
        "approval   waits for the event 'approved'",
        "reminder   sleeps for 20 seconds",
        "payment    fails, on purpose: rewind it",
    ]) {
        writeln!(out, "  {says}{}", if *there { "  (there already)" } else { "" })?;
    }
    writeln!(out, "\nLook at it from another terminal, in any folder:")?;
    let (dauer, store) = (program::word(), program::quoted(url));
    for words in ["list", "get approval", "raise approval approved --input true", "rewind payment"] {
        writeln!(out, "  {dauer} {words} --store {store}")?;
    }
    out.flush()
}

/// Makes a start. Returns whether the instance lives since an earlier demo; then nothing is started.
async fn is_living<O: 'static>(start: StartCall<O>) -> std::result::Result<bool, ClientError> {
    match start.await {
        Ok(_) => Ok(false),
        Err(ClientError::Client(RawClientError::Refused(Refused::Exists(_)))) => Ok(true),
        Err(error) => Err(error),
    }
}
