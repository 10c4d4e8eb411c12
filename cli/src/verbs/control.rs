//! `dauer raise`, `suspend`, `resume` and `terminate`: what a living instance is told.

use std::process::ExitCode;

use clap::Args;
use dauer::{Hub, InstanceId, RemoteError};
use dauer_hub::ClientError;
use dauer_store::WaitingClass;
use serde::Serialize;

use super::{found, on_store};
use crate::error::Failure;
use crate::output::Common;
use crate::payload;

/// What `dauer raise` is told.
#[derive(Args)]
pub(crate) struct Raise {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Which instance.
    pub(crate) id: String,
    /// The event's name.
    event: String,
    /// The event's input: JSON, @FILE, or - for standard input; at most 16 MiB.
    #[arg(long, visible_alias = "data", value_name = "JSON|@FILE|-", allow_negative_numbers = true)]
    input: Option<String>,
}

/// What `dauer suspend` is told.
#[derive(Args)]
pub(crate) struct Suspend {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Which instance.
    pub(crate) id: String,
    /// Why; it is recorded in the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// What `dauer resume` is told.
#[derive(Args)]
pub(crate) struct Resume {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Which instance.
    pub(crate) id: String,
    /// Why; it is recorded in the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// What `dauer terminate` is told.
#[derive(Args)]
pub(crate) struct Terminate {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Which instance.
    pub(crate) id: String,
    /// Why; it becomes the output of the instance.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Leave its children alone. Otherwise those that have not ended are terminated too.
    #[arg(long)]
    no_children: bool,
}

/// What `dauer rewind` is told.
#[derive(Args)]
pub(crate) struct Rewind {
    #[command(flatten)]
    pub(crate) common: Common,
    /// The instance that has failed.
    pub(crate) id: String,
    /// Why; it is recorded in the history.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

/// The examples in the help.
pub(crate) const REWIND_EXAMPLES: &str = "\
Examples:
  dauer rewind order-7 --reason 'the bank is back'
  dauer rewind order-7 --store sqlite:shop.db";

/// The examples in the help.
pub(crate) const RAISE_EXAMPLES: &str = "\
Examples:
  dauer raise order-7 approved --input '{\"by\":\"you\"}'
  dauer raise order-7 invoice --input @invoice.json";

/// The examples in the help.
pub(crate) const SUSPEND_EXAMPLES: &str = "\
Examples:
  dauer suspend order-7 --reason 'the printer is on fire'
  dauer suspend order-7 --store sqlite:shop.db";

/// The examples in the help.
pub(crate) const RESUME_EXAMPLES: &str = "\
Examples:
  dauer resume order-7 --reason 'the printer is new'
  dauer resume order-7 --store sqlite:shop.db";

/// The examples in the help.
pub(crate) const TERMINATE_EXAMPLES: &str = "\
Examples:
  dauer terminate order-7 --reason 'ordered twice'
  dauer terminate order-7 --no-children";

/// An instance that was rewound, in JSON.
#[derive(Serialize)]
struct Rewound<'a> {
    rewound: &'a str,
}

/// The verb that ends an instance.
const TERMINATE: &str = "terminate";

/// Something that was sent, in JSON.
#[derive(Serialize)]
struct Sent<'a> {
    id: &'a str,
    sent: &'static str,
}

/// Raises an event. It is kept until the orchestration waits for it.
pub(crate) async fn raise(arguments: Raise) -> Result<ExitCode, Failure> {
    let data = payload::read("input", arguments.input.as_deref())?;
    let event = arguments.event;
    to_living(&arguments.common, arguments.id, "raise", async |hub, id| {
        Ok(hub.client().raw().raise(id, &event, data).await?)
    })
    .await
}

/// Suspends an instance: it takes nothing but control until it is resumed.
pub(crate) async fn suspend(arguments: Suspend) -> Result<ExitCode, Failure> {
    let reason = arguments.reason;
    to_living(&arguments.common, arguments.id, "suspend", async |hub, id| {
        Ok(hub.client().raw().suspend(id, reason).await?)
    })
    .await
}

/// Resumes an instance.
pub(crate) async fn resume(arguments: Resume) -> Result<ExitCode, Failure> {
    let reason = arguments.reason;
    to_living(&arguments.common, arguments.id, "resume", async |hub, id| {
        Ok(hub.client().raw().resume(id, reason).await?)
    })
    .await
}

/// Terminates an instance. Its output is the reason, as for every other client.
pub(crate) async fn terminate(arguments: Terminate) -> Result<ExitCode, Failure> {
    // A text can always be written as JSON.
    let output = arguments.reason.map(|reason| serde_json::Value::from(reason).to_string());
    let recurse = !arguments.no_children;
    to_living(&arguments.common, arguments.id, TERMINATE, async |hub, id| {
        Ok(hub.client().raw().terminate(id, output, recurse).await?)
    })
    .await
}

/// Rewinds a failed instance. Nothing is sent: it goes on as soon as a worker has it.
pub(crate) async fn rewind(arguments: Rewind) -> Result<ExitCode, Failure> {
    let (common, id) = (&arguments.common, InstanceId::new(arguments.id)?);
    on_store(common, async |hub| Ok(hub.client().raw().rewind(&id, arguments.reason).await?)).await?;
    common.done(id.as_str(), &format!("{id} is rewound"), &Rewound { rewound: id.as_str() })?;
    Ok(ExitCode::SUCCESS)
}

/// Sends something to an instance that has not ended: an ended one would lose it without a word. A terminate also goes to
/// an ended instance for which a start waits: it ends the run of that start.
async fn to_living(
    common: &Common,
    id: String,
    what: &'static str,
    send: impl AsyncFnOnce(&Hub, &InstanceId) -> Result<(), Failure>,
) -> Result<ExitCode, Failure> {
    let id = InstanceId::new(id)?;
    on_store(common, async |hub| {
        let status = found(hub, &id).await?.status;
        if status.is_ended() && !(what == TERMINATE && start_waits(hub, &id).await?) {
            return Err(Failure::Ended { id: id.clone(), status });
        }
        send(hub, &id).await
    })
    .await?;
    let sent = Sent { id: id.as_str(), sent: what };
    common.done(id.as_str(), &format!("{what} sent to {id}"), &sent)?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a start waits for an instance. A server that is not dauer's cannot tell.
async fn start_waits(hub: &Hub, id: &InstanceId) -> Result<bool, Failure> {
    match hub.client().raw().inspect(id).await {
        Ok(seen) => Ok(seen.is_some_and(|seen| {
            seen.inspection
                .messages
                .iter()
                .any(|message| matches!(message.class, WaitingClass::Start | WaitingClass::Replacement))
        })),
        Err(ClientError::Remote(RemoteError::Unsupported { .. })) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
