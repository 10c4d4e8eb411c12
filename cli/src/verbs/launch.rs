//! What `start` and `restart` share: the start itself, and waiting for the end.

use std::io::{self, IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use dauer::{Hub, InstanceId, Record, Refused, Reuse, Status};
use dauer_core::MessageId;
use dauer_core::model::Over;
use dauer_core::send::{self, Caller, StartRequest};
use dauer_store::{Create, Created};
use serde::Serialize;
use uuid::Uuid;

use crate::error::Failure;
use crate::output::{Format, Versioned, plain, write_json};
use crate::time::{now, parse_duration};
use crate::view::{Instance, failure_of};
use crate::waiting::workers;

/// How often a start is sent again when the store did not execute it or does not know: the message has an identity, so
/// that it starts at most one run.
const ATTEMPTS: u32 = 8;

/// The delay before the first of these; each is twice as long as the one before.
const RETRY_DELAY: Duration = Duration::from_millis(50);

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
    created: Created,
}

/// A start in JSON.
#[derive(Serialize)]
struct Shown<'a> {
    id: &'a str,
    execution: String,
    created: &'static str,
}

/// Sends a start. The same key and id again are the same start.
pub(super) async fn launch(
    hub: &Hub,
    request: StartRequest,
    reuse: Reuse,
    key: Uuid,
) -> Result<Launched, Failure> {
    let id = request.instance.clone();
    let living = reuse.replaceable.iter().any(|status| !status.is_ended());
    let over = if living { Over::Terminate } else { Over::Refuse };
    let caller = Caller { request: key.as_u128(), repeatable: true, now: now() };
    let start = send::start(request, caller, over)?;
    let message = start.id;
    let mut attempts = 0;
    loop {
        let create = Create { start: start.clone(), reuse: reuse.clone() };
        let answer = hub.manage().create(vec![create]).await.into_iter().next();
        match answer.unwrap_or(Err(Refused::Fenced)) {
            Ok(created) => return Ok(Launched { id, message, created }),
            Err(Refused::Unknown(_) | Refused::NotExecuted(_)) if attempts < ATTEMPTS => {
                tokio::time::sleep(RETRY_DELAY * 2u32.pow(attempts)).await;
                attempts += 1;
            }
            Err(refused) => return Err(refused.into()),
        }
    }
}

/// Prints what was started, and its end if that is asked for.
pub(super) async fn follow(
    hub: &Hub,
    launched: Launched,
    wait: &Wait,
    format: Format,
) -> Result<ExitCode, Failure> {
    if wait.wait {
        return end(hub, &launched, wait.timeout, format).await;
    }
    let out = &mut io::stdout().lock();
    match format {
        Format::Table => writeln!(out, "{}", launched.id)?,
        Format::Json | Format::Jsonl => write_json(out, format, &Versioned::new(launched.shown()))?,
    }
    Ok(ExitCode::SUCCESS)
}

impl Launched {
    fn shown(&self) -> Shown<'_> {
        let (execution, created) = match self.created {
            Created::New(execution) => (execution, "new"),
            Created::Repeat(execution) => (execution, "repeat"),
            Created::Replacing(execution) => (execution, "replacing"),
        };
        Shown { id: self.id.as_str(), execution: execution.to_string(), created }
    }
}

async fn end(
    hub: &Hub,
    launched: &Launched,
    timeout: Option<Duration>,
    format: Format,
) -> Result<ExitCode, Failure> {
    let id = &launched.id;
    // Without stderr the wait is as good.
    let _ = writeln!(io::stderr(), "started {id}");
    if workers(&**hub.manage()).await? == Some(0) {
        let _ = writeln!(io::stderr(), "note: no worker is connected to this store; it waits until one is");
    }
    // The run that this start began: under a living one's id, the end of that one is not meant. And what was new can only
    // be another's because that other start has taken its place.
    let new = matches!(launched.created, Created::New(_));
    let told = |record: &Record| match record.start == launched.message {
        true => record.status.is_ended(),
        false => new,
    };
    let record = hub.client().raw().wait(id, timeout.unwrap_or(FOR_EVER), told).await?;
    if record.start != launched.message {
        return Err(Failure::Moved(id.clone()));
    }
    conclude(id, &record, format)
}

/// Prints how an instance ended: its output, or as an error why it has none.
pub(super) fn conclude(id: &InstanceId, record: &Record, format: Format) -> Result<ExitCode, Failure> {
    let out = &mut io::stdout().lock();
    match format {
        Format::Json | Format::Jsonl => {
            write_json(out, format, &Versioned::new(Instance::new(id, record)))?;
        }
        // As it is, for whoever reads it by a program; a terminal must not be told anything by it.
        Format::Table if record.status == Status::Completed => {
            let output = record.output.as_ref().map_or("null", |output| output.as_str());
            match io::stdout().is_terminal() {
                true => writeln!(out, "{}", plain(output))?,
                false => writeln!(out, "{output}")?,
            }
        }
        Format::Table => {}
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
