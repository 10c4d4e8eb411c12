//! `dauer restart`: the same once more, with the input, tags and version that it had.

use std::process::ExitCode;

use clap::Args;
use dauer::InstanceId;
use uuid::Uuid;

use super::launch::{Launched, Wait, follow};
use super::on_store;
use crate::error::Failure;
use crate::output::Common;

/// What `dauer restart` is told.
#[derive(Args)]
pub(crate) struct Restart {
    #[command(flatten)]
    pub(crate) common: Common,
    /// The instance that has ended.
    pub(crate) id: String,
    /// Start it under another id, and leave this one as it is: under the one given here, or one that nobody has. Then it
    /// need not have ended.
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    new_id: Option<Option<String>>,
    #[command(flatten)]
    wait: Wait,
}

/// The examples in the help.
pub(crate) const RESTART_EXAMPLES: &str = "\
Examples:
  dauer restart order-7 --wait
  dauer restart order-7 --new-id order-7-again";

/// Starts an instance again. One that continued as new begins with the input of its last run.
pub(crate) async fn restart(arguments: Restart) -> Result<ExitCode, Failure> {
    let id = InstanceId::new(arguments.id)?;
    let key = Uuid::new_v4().as_u128();
    let other = match arguments.new_id {
        None => None,
        Some(Some(new)) => Some(InstanceId::new(new)?),
        Some(None) => Some(InstanceId::new(format!("{key:032x}"))?),
    };
    on_store(&arguments.common, async |hub| {
        let created = hub.client().raw().restart(&id, other.clone(), key).await?;
        let launched = Launched::new(other.unwrap_or(id), key, created);
        follow(hub, launched, &arguments.wait, &arguments.common).await
    })
    .await
}
