//! `dauer get`: one instance, and what it is waiting for.

use std::io;
use std::process::ExitCode;

use clap::Args;
use dauer::{Hub, InstanceId};
use dauer_hub::ClientError;

use super::{found, on_store};
use crate::error::Failure;
use crate::output::{Common, Format, Versioned, embedded, write_json};
use crate::time::now;
use crate::view::{self, Detailed, Instance};
use crate::waiting::{past, waiting};

/// How often to look again at an instance that began another run meanwhile: more than anyone is so unlucky.
const LOOKS: u32 = 5;

/// What `dauer get` is told.
#[derive(Args)]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Which instance.
    id: String,
}

/// The examples in the help.
pub(crate) const GET_EXAMPLES: &str = "\
Examples:
  dauer get order-7
  dauer get order-7 -o json --store sqlite:shop.db";

/// Prints an instance.
pub(crate) async fn get(arguments: Get) -> Result<ExitCode, Failure> {
    let id = InstanceId::new(arguments.id)?;
    on_store(&arguments.common, async |hub| {
        let mut looks = 1;
        loop {
            match show(hub, &id, arguments.common.output).await {
                Err(Failure::Client(ClientError::MovedOn(_))) if looks < LOOKS => looks += 1,
                result => return result.map(|()| ExitCode::SUCCESS),
            }
        }
    })
    .await
}

async fn show(hub: &Hub, id: &InstanceId, format: Format) -> Result<(), Failure> {
    let record = found(hub, id).await?;
    let mut past = past(hub, id, &record).await?;
    let input = past.started.take().and_then(|start| start.input);
    let waiting = waiting(&**hub.manage(), (id, &record), past, now()).await?;
    let out = &mut io::stdout().lock();
    match format {
        Format::Table => view::write(out, (id, &record), input.as_deref(), waiting.as_ref())?,
        Format::Json | Format::Jsonl => {
            let instance = Instance::new(id, &record);
            let input = input.as_deref().and_then(embedded);
            write_json(out, format, &Versioned::new(Detailed { instance, input, waiting_for: waiting }))?;
        }
    }
    Ok(())
}
