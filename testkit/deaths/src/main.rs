//! `dauer-deaths`: a worker process for tests that end processes. It opens a file or connects to a server, keeps a journal of
//! its activities, and stops when its standard input ends. The same worker for Python is `testkit/interop/python/deaths_worker.py`.

mod code;
mod journal;

use std::error::Error;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use dauer::HostOptions;
use tokio::sync::oneshot;

use code::Code;
use journal::Journal;

/// How often a host with short delays looks for work.
const POLL: Duration = Duration::from_millis(100);

/// One worker.
#[derive(Parser)]
#[command(name = "dauer-deaths", version)]
struct Settings {
    /// `sqlite:FILE` for a worker with the store in its process, `http://HOST:PORT?hub=NAME` for one behind a server.
    #[arg(long)]
    url: String,
    /// The journal: a line `TIME KIND KEY PID` for each begin and end of an activity.
    #[arg(long)]
    journal: PathBuf,
    /// Which code the deployment has.
    #[arg(long, value_enum, default_value = "mended")]
    code: Code,
    /// Turns that run at once, and activities. Default: those of the library.
    #[arg(long)]
    slots: Option<usize>,
    /// The lease of the session, for a store in this process.
    #[arg(long)]
    lease_ms: Option<u64>,
    /// The first delay after an attempt that failed, and the longest that is not one of a stalled turn.
    #[arg(long)]
    retry_ms: Option<u64>,
    /// The quiet time before and after a trial.
    #[arg(long)]
    trial_quiet_ms: Option<u64>,
}

impl Settings {
    fn options(&self) -> HostOptions {
        let mut options = HostOptions::default();
        if let Some(slots) = self.slots {
            (options.turns_max, options.activities_max) = (slots, slots);
        }
        if let Some(lease) = self.lease_ms {
            options.lease = Duration::from_millis(lease);
        }
        if let Some(retry) = self.retry_ms.map(Duration::from_millis) {
            (options.retry_delay_min, options.retry_delay_max) = (retry, retry);
            // A turn that no other host may take is looked for at polls.
            options.poll_max = POLL;
        }
        if let Some(quiet) = self.trial_quiet_ms.map(Duration::from_millis) {
            options.trial_quiet = quiet;
        }
        options
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let settings = Settings::parse();
    let journal = Journal::open(&settings.journal)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(run(&settings, journal))
}

async fn run(settings: &Settings, journal: &'static Journal) -> Result<(), Box<dyn Error>> {
    tracing::subscriber::set_global_default(journal::Connections(journal))?;
    let hub = if settings.url.starts_with("http") {
        dauer::connect(&settings.url)?
    } else {
        dauer::open(&settings.url)?
    };
    let worker = settings.code.register(hub.worker(), journal).options(settings.options()).build()?;
    let (stop, stopped) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        // Nothing is written to it; it ends with the parent, or when the parent closes it.
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        drop(stop);
    });
    journal.note("READY", "-");
    worker.run(async { _ = stopped.await }).await?;
    Ok(())
}
