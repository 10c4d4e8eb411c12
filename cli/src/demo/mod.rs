//! `dauer demo`: one order, from start to end, with something to see at once.

mod order;

use std::error::Error;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dauer::{Hub, Status};
use futures::channel::oneshot;

use order::{APPROVED, Approval, CHECKOUT, Order};

/// Prints what happens, with the time since the demo began. Shared by the activities.
pub(crate) struct Progress {
    began: Instant,
}

impl Progress {
    fn say(&self, who: &str, what: &str) {
        let seconds = self.began.elapsed().as_secs_f64();
        // A closed pipe must not end an activity; the demo notices it at its own next line.
        let _ = writeln!(io::stdout(), "{seconds:>7.3} s  {who:<12} {what}");
    }
}

/// How long the demo lets the order wait for its approval: shorter than the order's patience.
const THINKING: Duration = Duration::from_millis(800);

/// Longer than the demo can take unless something is broken.
const PATIENCE: Duration = Duration::from_secs(30);

/// Runs the demo on a store.
pub(crate) async fn run(url: &str) -> Result<(), Box<dyn Error>> {
    let hub = dauer::open(url)?;
    writeln!(io::stdout(), "An order goes through dauer, on {url}\n")?;
    let progress = Arc::new(Progress { began: Instant::now() });
    let worker = order::register(hub.worker(), &progress).build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(worker.run(async {
        let _ = stopped.await;
    }));
    let result = serve(&hub, &progress).await;
    drop(stop);
    running.await??;
    result
}

async fn serve(hub: &Hub, progress: &Progress) -> Result<(), Box<dyn Error>> {
    let order =
        Order { number: 1, items: ["kettle", "teapot", "cups", "tea", "tray"].map(str::to_owned).to_vec() };
    let handle = hub.client().start(CHECKOUT, &order).id("order-1").await?;
    progress.say("client", "started instance order-1");
    let waiting = |record: &dauer::Record| {
        record.status.is_ended()
            || record.custom_status.as_ref().is_some_and(|s| s.as_str().contains("approval"))
    };
    let record = hub.client().raw().wait(handle.id(), PATIENCE, waiting).await?;
    if record.status == Status::Running {
        progress.say("client", "thinks about it, while the order waits with a timer beside");
        tokio::time::sleep(THINKING).await;
        progress.say("client", "approves");
        handle.raise(APPROVED, &Approval { by: "the demo".to_owned() }).await?;
    }
    let receipt = handle.output_within(PATIENCE).await?;
    let out = &mut io::stdout().lock();
    writeln!(out, "\nOutput: {receipt}\n\nHistory of order-1, which is all that a restart would need:")?;
    let events = crate::history::read(&**hub.manage(), handle.id()).await?;
    crate::history::print(out, &events)?;
    Ok(())
}
