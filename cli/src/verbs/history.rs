//! `dauer history`: what happened to an instance, event by event.

use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use clap::Args;
use dauer::InstanceId;

use super::{found, on_store};
use crate::error::Failure;
use crate::history::{Reader, Table};
use crate::output::Common;

/// What `dauer history` is told.
#[derive(Args)]
pub(crate) struct History {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Which instance.
    id: String,
}

/// The examples in the help.
pub(crate) const HISTORY_EXAMPLES: &str = "\
Example:
  dauer history order-7";

/// Prints the history of the current run, a part at a time: it may be long.
pub(crate) async fn history(arguments: History) -> Result<ExitCode, Failure> {
    let id = InstanceId::new(arguments.id)?;
    on_store(&arguments.common, async |hub| {
        let record = found(hub, &id).await?;
        let out = &mut BufWriter::new(io::stdout().lock());
        let mut reader = Reader::new(&id, &record);
        let mut table = Table::default();
        while let Some(batches) = reader.next(&**hub.manage()).await? {
            for stored in batches {
                let events = stored.batch.decode();
                let events =
                    events.map_err(|error| Failure::History { id: id.clone(), source: error.into() })?;
                for event in &events {
                    table.row(out, event)?;
                }
            }
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    })
    .await
}
