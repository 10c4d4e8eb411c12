//! `dauer demo`: one order, from start to end, with something to see at once. Killed and run again, it goes on.

mod ask;
mod find;
mod order;
mod progress;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dauer::{Handle, HostOptions, Hub, Reuse};
use futures::channel::oneshot;
use futures::future::{Either, FutureExt, select};

use find::id_of;
use order::{APPROVED, Approval, CHECKOUT, Order, WAITING};
use progress::Progress;

/// After how long an order approves itself when nobody is asked.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same when somebody is asked: long enough to read the question and think.
const PATIENCE_ASKED: Duration = Duration::from_secs(60);

/// Longer than an order can take unless something is broken.
const DEADLINE: Duration = Duration::from_secs(180);

/// How the watch over an order ended.
enum Seen {
    /// The order has ended, with this output.
    Output(String),
    /// The demo was told to stop.
    Stop,
}

/// Runs the demo on a store.
pub(crate) async fn run(url: String, interactive: bool) -> Result<ExitCode, Box<dyn Error>> {
    let hub = dauer::open(&url)?;
    let result = demonstrate(&hub, &url, interactive).await;
    hub.close().await;
    result.map(|()| ExitCode::SUCCESS)
}

async fn demonstrate(hub: &Hub, url: &str, interactive: bool) -> Result<(), Box<dyn Error>> {
    writeln!(io::stdout(), "An order goes through dauer, on {url}\n")?;
    let progress = Arc::new(Progress::new());
    let mut signal = dauer::shutdown_signal()?.fuse();
    let order = take_up(hub, interactive, &progress).await?;
    let drain = HostOptions::default().drain_max;
    let worker = order::register(hub.worker(), &progress).build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let mut running = tokio::spawn(worker.run(stopped.map(|_| ()))).fuse();
    let seen = futures::select_biased! {
        seen = watch(hub, &order, interactive, &progress).fuse() => seen,
        () = signal => Ok(Seen::Stop),
        // A worker that ends by itself has found the store unusable.
        ended = running => return Err(ended?.err().map_or("the worker has ended".into(), Into::into)),
    };
    let told = Instant::now();
    if matches!(seen, Ok(Seen::Stop)) {
        let seconds = drain.as_secs();
        progress.say("demo", &format!("stops: finishes what is running, for at most {seconds} s"));
    }
    drop(stop);
    running.await??;
    match seen? {
        Seen::Output(output) => conclude(hub, &order, &output).await,
        Seen::Stop => {
            if told.elapsed() < drain {
                progress.say("demo", "drained: what was running is finished and recorded");
            }
            let rest = match url {
                "memory:" => "is gone with this process",
                _ => "is not finished; run the same again and it goes on",
            };
            Ok(writeln!(io::stdout(), "\n{} {rest}", order.id())?)
        }
    }
}

/// The order that an earlier demo left unfinished, or a new one.
async fn take_up(
    hub: &Hub,
    interactive: bool,
    progress: &Progress,
) -> Result<Handle<String>, Box<dyn Error>> {
    let orders = find::orders(hub).await?;
    if let Some(unfinished) = orders.unfinished {
        let steps = match unfinished.done.as_slice() {
            [] => "no step done".to_owned(),
            [one] => format!("1 step done ({one})"),
            many => format!("{} steps done ({})", many.len(), many.join(", ")),
        };
        progress.say("client", &format!("continuing {} where it stopped: {steps}", unfinished.id));
        return Ok(hub.client().handle(CHECKOUT, unfinished.id.as_str())?);
    }
    let items = ["kettle", "teapot", "cups", "tea", "tray"].map(str::to_owned).to_vec();
    let patience = if interactive { PATIENCE_ASKED } else { PATIENCE };
    let patience_ms = u64::try_from(patience.as_millis())?;
    let number = orders.next;
    // Nothing is replaced: a demo that is quicker keeps its order, and this one says so.
    let keep = Reuse { replaceable: Vec::new() };
    let order = Order { number, items, patience_ms };
    let handle = hub.client().start(CHECKOUT, &order).id(id_of(number)).reuse(keep).await?;
    progress.say("client", &format!("started {}", handle.id()));
    Ok(handle)
}

/// Waits for the order's end, and for the answer to the question beside it.
async fn watch(
    hub: &Hub,
    order: &Handle<String>,
    interactive: bool,
    progress: &Progress,
) -> Result<Seen, Box<dyn Error>> {
    let asking = async {
        if interactive {
            approve(hub, order, progress).await?;
        }
        // The end is for the other side to tell.
        futures::future::pending::<Result<Seen, Box<dyn Error>>>().await
    };
    let ending = order.output_within(DEADLINE);
    match select(std::pin::pin!(ending), std::pin::pin!(asking)).await {
        Either::Left((output, _)) => Ok(Seen::Output(output?)),
        Either::Right((seen, _)) => seen,
    }
}

/// Asks once the order waits for approval, and tells it the answer.
async fn approve(hub: &Hub, order: &Handle<String>, progress: &Progress) -> Result<(), Box<dyn Error>> {
    let waits = |record: &dauer::Record| {
        let status = record.custom_status.as_ref().map(|status| status.as_str().trim_matches('"'));
        record.status.is_ended() || status == Some(WAITING)
    };
    let record = hub.client().raw().wait(order.id(), DEADLINE, waits).await?;
    if record.status.is_ended() {
        return Ok(());
    }
    let Some(approved) = ask::yes_or_no(format!("Is {} approved?", order.id())).await else {
        progress.say("client", "gets no answer; the timer decides");
        return Ok(());
    };
    progress.say("client", if approved { "approves" } else { "rejects" });
    order.raise(APPROVED, &Approval { approved, by: "you".to_owned() }).await?;
    Ok(())
}

/// The output, and the history that led to it.
async fn conclude(hub: &Hub, order: &Handle<String>, output: &str) -> Result<(), Box<dyn Error>> {
    let events = crate::history::read(hub, order.id()).await?;
    let out = &mut io::stdout().lock();
    writeln!(out, "\nOutput: {output}\n\nHistory of {}, which is all that a restart needs:", order.id())?;
    crate::history::print(out, &events)?;
    Ok(())
}
