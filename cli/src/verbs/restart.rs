//! `dauer restart`: the same once more, with the input, tags and version that it had.

use std::process::ExitCode;

use clap::Args;
use dauer::{InstanceId, Reuse};
use dauer_core::send::StartRequest;
use uuid::Uuid;

use super::launch::{Wait, follow, launch};
use super::{found, on_store};
use crate::error::Failure;
use crate::output::Common;
use crate::waiting::past;

/// What `dauer restart` is told.
#[derive(Args)]
pub(crate) struct Restart {
    #[command(flatten)]
    pub(crate) common: Common,
    /// The instance that has ended.
    id: String,
    /// Start it under another id, and leave this one as it is: under the one given here, or one that nobody has. Then it
    /// need not have ended.
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    new_id: Option<Option<String>>,
    #[command(flatten)]
    wait: Wait,
}

/// The examples in the help.
pub(crate) const RESTART_EXAMPLES: &str = "\
Example:
  dauer restart order-7 --wait
  dauer restart order-7 --new-id order-7-again";

/// Starts an instance again. One that continued as new begins with the input of its last run.
pub(crate) async fn restart(arguments: Restart) -> Result<ExitCode, Failure> {
    let id = InstanceId::new(arguments.id)?;
    let key = Uuid::new_v4();
    let target = match &arguments.new_id {
        None => id.clone(),
        Some(Some(new)) => InstanceId::new(new.as_str())?,
        Some(None) => InstanceId::new(key.simple().to_string())?,
    };
    // Another id is to be new; this one is replaced, as it has ended.
    let reuse = if target == id { Reuse::default() } else { Reuse { replaceable: Vec::new() } };
    on_store(&arguments.common, async |hub| {
        let record = found(hub, &id).await?;
        if target == id && !record.status.is_ended() {
            return Err(Failure::Alive { id: id.clone(), status: record.status });
        }
        let past = past(&**hub.manage(), &id, &record).await?;
        let started = past.started.ok_or_else(|| Failure::NotBegun(id.clone()))?;
        let request = StartRequest {
            version: started.version,
            input: started.input,
            tags: record.tags,
            ..StartRequest::new(target, started.name)
        };
        let launched = launch(hub, request, reuse, key).await?;
        follow(hub, launched, &arguments.wait, arguments.common.output).await
    })
    .await
}
