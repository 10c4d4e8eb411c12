//! `dauer hubs`: the task hubs of a store or server.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Args;
use dauer::HubName;
use serde::Serialize;

use super::on_place;
use crate::error::Failure;
use crate::output::{Common, Format, Versioned, write_data};

/// The arguments of `dauer hubs`.
#[derive(Args)]
pub(crate) struct Hubs {
    #[command(flatten)]
    pub(crate) common: Common,
}

/// The examples in the help.
pub(crate) const HUBS_EXAMPLES: &str = "\
Examples:
  dauer hubs
  dauer hubs --store sqlite:shop.db -o json";

/// A hub in JSON.
#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    empty: bool,
}

/// All hubs in JSON.
#[derive(Serialize)]
struct All<'a> {
    hubs: Vec<Shown<'a>>,
}

/// Prints the task hubs.
pub(crate) async fn hubs(arguments: Hubs) -> Result<ExitCode, Failure> {
    let common = &arguments.common;
    on_place(common, async |place| {
        let found = place.survey().await?;
        print(common, &found)?;
        if found.is_empty() && common.output.is_for_people() {
            common.note("there is no task hub yet: a worker or a start makes one");
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}

fn print(common: &Common, found: &[(HubName, bool)]) -> io::Result<()> {
    let out = &mut io::stdout().lock();
    let shown = || found.iter().map(|(name, empty)| Shown { name: name.as_str(), empty: *empty });
    match common.output {
        Format::Table | Format::Wide if found.is_empty() => {}
        Format::Table | Format::Wide => {
            let width = found.iter().map(|(name, _)| name.as_str().len()).max().unwrap_or_default().max(3);
            writeln!(out, "{:<width$}  EMPTY", "HUB")?;
            for (name, empty) in found {
                writeln!(out, "{:<width$}  {}", name.as_str(), if *empty { "yes" } else { "no" })?;
            }
        }
        Format::Id => found.iter().try_for_each(|(name, _)| writeln!(out, "{name}"))?,
        Format::Json => write_data(out, Format::Json, &Versioned::new(All { hubs: shown().collect() }))?,
        Format::Jsonl => {
            shown().try_for_each(|each| write_data(out, Format::Jsonl, &Versioned::new(each)))?;
        }
    }
    out.flush()
}
