//! What `start` and `restart` share: telling what was started, and waiting for the end.

use std::cell::Cell;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use dauer::{Hub, InstanceId, Record, Status};
use dauer_core::MessageId;
use dauer_core::identity::requested;
use dauer_store::Created;
use serde::Serialize;

use crate::error::Failure;
use crate::output::{Common, Format, Versioned, plain, write_data};
use crate::time::parse_duration;
use crate::view::{Instance, failure_of};
use crate::waiting::workers;

/// Longer than anyone waits.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

/// Whether to wait for the end, and how long.
#[derive(Args, Clone)]
pub(super) struct Wait {
    /// Wait for the end and print the output. The exit code is 6 when it fails or is terminated.
    #[arg(long)]
    wait: bool,
    /// Wait at most so long, like 30s or 5m; then the exit code is 7, and the instance goes on.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "wait")]
    timeout: Option<Duration>,
}

/// A start that was acknowledged.
pub(super) struct Launched {
    id: InstanceId,
    message: MessageId,
    /// What the store did; a server does not tell.
    created: Option<Created>,
}

/// A start in JSON. What a server does not tell is null.
#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    execution: Option<String>,
    created: Option<&'static str>,
}

/// Prints what was started, and its end if that is asked for.
pub(super) async fn follow(
    hub: &Hub,
    launched: Launched,
    wait: &Wait,
    common: &Common,
) -> Result<ExitCode, Failure> {
    match wait.wait {
        // There is no end to wait for.
        true if launched.is_gone() => return Err(Failure::Repeated(launched.id)),
        true => return end(hub, &launched, wait.timeout, common).await,
        false if launched.is_gone() => {
            common.note("note: the request was carried out before, and its run is gone; nothing was started");
        }
        false => {}
    }
    let out = &mut io::stdout().lock();
    match common.output {
        Format::Table | Format::Wide | Format::Id => writeln!(out, "{}", launched.id)?,
        format => write_data(out, format, &Versioned::new(launched.shown()))?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Launched {
    /// What became of a start with that key.
    pub(super) fn new(id: InstanceId, key: u128, created: Option<Created>) -> Self {
        Self { message: requested(&id, key), id, created }
    }

    /// The store remembers the request, but has no run of it: another start has replaced it, or it was purged.
    fn is_gone(&self) -> bool {
        self.created == Some(Created::Repeat(None))
    }

    fn shown(&self) -> Shown<'_> {
        let told = self.created.map(|created| match created {
            Created::New(execution) => (Some(execution), "new"),
            Created::Repeat(execution) => (execution, "repeat"),
            Created::Replacing(execution) => (Some(execution), "replacing"),
        });
        let (execution, created) = told.unzip();
        let execution = execution.flatten();
        Shown { id: self.id.as_str(), execution: execution.map(|execution| execution.to_string()), created }
    }
}

async fn end(
    hub: &Hub,
    launched: &Launched,
    timeout: Option<Duration>,
    common: &Common,
) -> Result<ExitCode, Failure> {
    let id = &launched.id;
    common.note(&format!("started {id}"));
    if workers(hub).await? == Some(0) {
        common.note("note: no worker is connected to this store; it waits until one is");
    }
    // The run that this start began: under a living one's id, the end of that one is not meant. And what was new can only
    // be another's because that other start has taken its place.
    let client = hub.client();
    let timeout = timeout.unwrap_or(FOR_EVER);
    let Some(created) = launched.created else {
        // Which start a run is of, a server does not tell.
        return conclude(id, &client.raw().wait_ended(id, timeout).await?, common.output);
    };
    // Once the run of this start is the current one, another start in the record has replaced it.
    let begun = Cell::new(matches!(created, Created::New(_)));
    let told = |record: &Record| {
        let ours = record.start == launched.message;
        begun.set(begun.get() || ours);
        if ours { record.status.is_ended() } else { begun.get() }
    };
    let record = client.raw().wait(id, timeout, told).await?;
    if record.start != launched.message {
        return Err(Failure::Moved(id.clone()));
    }
    conclude(id, &record, common.output)
}

/// Prints how an instance ended: its output, or as an error why it has none.
pub(super) fn conclude(id: &InstanceId, record: &Record, format: Format) -> Result<ExitCode, Failure> {
    let out = &mut io::stdout().lock();
    match format {
        Format::Json | Format::Jsonl => {
            write_data(out, format, &Versioned::new(Instance::new(id, record)))?;
        }
        Format::Id => writeln!(out, "{id}")?,
        // As it is, for whoever reads it by a program; a terminal must not be told anything by it.
        Format::Table | Format::Wide if record.status == Status::Completed => {
            let output = record.details.output().map_or("null", |output| output.as_str());
            match io::stdout().is_terminal() {
                true => writeln!(out, "{}", plain(output))?,
                false => writeln!(out, "{output}")?,
            }
        }
        Format::Table | Format::Wide => {}
    }
    match record.status {
        Status::Completed => Ok(ExitCode::SUCCESS),
        Status::Failed => {
            let source = failure_of(record).unwrap_or_else(|| dauer::Failure::new("Failed", "no details"));
            Err(Failure::Failed { id: id.clone(), source: Box::new(source) })
        }
        status => Err(Failure::Stopped { id: id.clone(), status }),
    }
}
