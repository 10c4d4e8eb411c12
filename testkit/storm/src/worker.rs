//! The role of a worker: one host on the file, until its parent closes its standard input, or kills it.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::Duration;

use dauer::HostOptions;
use tokio::sync::oneshot;
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

use crate::error::Error;
use crate::programs::Code;
use crate::voice::{Fact, say};

/// Turns and activities that one worker holds at once: few enough that work is left for the others, and for the ones
/// that are started while what the dead held waits for its lease to run out.
const HELD_MAX: usize = 8;

/// The deaths of this world are nobody's fault: no task is given up for the hosts it has outlived.
const ATTEMPTS_MAX: u32 = 1_000_000;

/// The quiet before and after a trial. Workers are killed every few hundred milliseconds: the default would leave no time.
const TRIAL_QUIET: Duration = Duration::from_millis(50);

/// What a worker is started with.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Worker {
    /// The file.
    #[arg(long)]
    pub(crate) store: PathBuf,
    /// How long the session lives without a renewal.
    #[arg(long)]
    pub(crate) lease_ms: u64,
    /// Which part of the code it has.
    #[arg(long, value_enum, default_value = "all")]
    pub(crate) code: Code,
    /// A planted fault: activities give another value when they are tried again.
    #[arg(long)]
    pub(crate) attempts_show: bool,
    /// What is in its environment beyond that of its parent.
    #[arg(skip)]
    pub(crate) environment: Vec<(&'static str, OsString)>,
}

impl Worker {
    /// Runs until standard input ends.
    pub(crate) async fn run(self) -> Result<(), Error> {
        // The only subscriber of the process: nobody has set another one.
        tracing::subscriber::set_global_default(Ear).map_err(|_| Error::Subscriber)?;
        let hub = dauer::open(&format!("sqlite:{}", self.store.display()))?;
        let options = HostOptions {
            lease: Duration::from_millis(self.lease_ms),
            turns_max: HELD_MAX,
            activities_max: HELD_MAX,
            task_attempts_max: ATTEMPTS_MAX,
            trial_quiet: TRIAL_QUIET,
            trial_deaths_max: u32::MAX,
            ..HostOptions::default()
        };
        let worker = self.code.register(hub.worker(), self.attempts_show).options(options).build()?;
        let (stop, stopped) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            // Nothing is ever written to it; it ends with the parent, or by its wish.
            let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
            drop(stop);
        });
        say(Fact::Ready);
        worker.run(async { _ = stopped.await }).await?;
        Ok(())
    }
}

/// Hears what the hub logs and passes the messages on, with the instance they are about, and without all other fields.
struct Ear;

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("dauer")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut heard = Message::default();
        event.record(&mut heard);
        let plain = |text: String| text.replace(['\t', '\n'], " ");
        say(Fact::Logged(plain(heard.message), heard.instance.map(plain)));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[derive(Default)]
struct Message {
    message: String,
    instance: Option<String>,
}

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            "instance" => self.instance = Some(format!("{value:?}")),
            _ => {}
        }
    }
}
