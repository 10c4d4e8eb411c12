//! `dauer purge`: ended instances, removed for good.

use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use dauer::{Hub, InstanceId, Record, Reuse};
use dauer_hub::ClientError;
use dauer_store::Query;
use serde::Serialize;

use super::filter::Filter;
use super::list::pages;
use super::{found, on_store};
use crate::error::Failure;
use crate::output::{Common, Format, Versioned, write_data};
use crate::progress::{Busy, Progress};
use crate::time::{now, parse_duration};

/// Instances that one write removes: others wait for the store meanwhile.
const BATCH: usize = 100;

/// What `dauer purge` is told.
#[derive(Args)]
pub(crate) struct Purge {
    #[command(flatten)]
    pub(crate) common: Common,
    /// These instances. All must have ended, or nothing is removed.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// That ended longer ago than this, like 12h or 30d.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    older_than: Option<Duration>,
    /// Really remove what the conditions select. Without it they are only counted.
    #[arg(long)]
    yes: bool,
}

/// The examples in the help.
pub(crate) const PURGE_EXAMPLES: &str = "\
Examples:
  dauer purge order-7 order-8
  dauer purge --status completed --older-than 30d
  dauer purge --status completed --older-than 30d --yes";

/// What was done, in JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Done {
    matching: usize,
    purged: usize,
    dry_run: bool,
}

/// Removes instances: the given ones, or all that have ended and match.
pub(crate) async fn purge(arguments: Purge) -> Result<ExitCode, Failure> {
    let filtered = !arguments.filter.is_empty() || arguments.older_than.is_some();
    match (arguments.ids.is_empty(), filtered) {
        (false, true) => return Err(Failure::Usage("give ids or conditions, not both; nothing was removed")),
        (true, false) => {
            return Err(Failure::Usage(
                "give the ids to remove, or conditions like --status and --older-than",
            ));
        }
        _ => {}
    }
    if arguments.filter.statuses().iter().any(|status| !status.is_ended()) {
        return Err(Failure::Usage("only ended instances can be removed; --status names one that is not"));
    }
    on_store(&arguments.common, async |hub| {
        let ids = match filtered {
            true => matching(hub, &arguments).await?,
            false => ended(hub, &arguments.ids).await?,
        };
        let dry_run = filtered && !arguments.yes;
        let gone = match ids.as_slice() {
            _ if dry_run => Vec::new(),
            // One that was asked for by its id: the error says why it stays.
            [id] if !filtered => {
                hub.client().raw().purge(id).await?;
                ids.clone()
            }
            ids => remove(hub, ids, &arguments.common).await?,
        };
        let done = Done { matching: ids.len(), purged: gone.len(), dry_run };
        match arguments.common.output {
            Format::Id => list(if dry_run { &ids } else { &gone })?,
            _ => tell(&arguments.common, &done)?,
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}

/// The ended instances that match.
async fn matching(hub: &Hub, arguments: &Purge) -> Result<Vec<InstanceId>, Failure> {
    let now = now();
    let old = |record: &Record| match (arguments.older_than, record.times.completed) {
        (Some(age), Some(completed)) => now.since(completed) > age,
        (Some(_), None) => false,
        (None, _) => true,
    };
    let mut query = arguments.filter.query();
    if query.statuses.is_empty() {
        query = Query { statuses: Reuse::default().replaceable, ..query };
    }
    let _busy = Busy::new("looking for what is to be removed", !arguments.common.quiet);
    let mut ids = Vec::new();
    let each = |page: &[(InstanceId, Record)]| {
        ids.extend(page.iter().filter(|(_, record)| old(record)).map(|(id, _)| id.clone()));
        Ok(())
    };
    pages(hub, query, (&arguments.filter, None), each).await?;
    Ok(ids)
}

/// The given instances, if all of them are there and have ended.
async fn ended(hub: &Hub, given: &[String]) -> Result<Vec<InstanceId>, Failure> {
    let ids = given.iter().map(|id| InstanceId::new(id.as_str()));
    let mut ids = ids.collect::<Result<Vec<_>, _>>()?;
    ids.sort();
    ids.dedup();
    for id in &ids {
        let status = found(hub, id).await?.status;
        if !status.is_ended() {
            return Err(ClientError::NotEnded { instance: id.clone(), status }.into());
        }
    }
    Ok(ids)
}

/// Removes instances; those that it has removed.
async fn remove(hub: &Hub, ids: &[InstanceId], common: &Common) -> Result<Vec<InstanceId>, Failure> {
    let progress = Progress::new("purging", ids.len(), !common.quiet);
    let (mut gone, client) = (Vec::with_capacity(ids.len()), hub.client());
    for (batch, done) in ids.chunks(BATCH).zip((0..).step_by(BATCH)) {
        progress.at(done);
        let count = client.raw().purge_ids(batch).await?;
        if count == batch.len() {
            gone.extend_from_slice(batch);
            continue;
        }
        // Started again or removed by another meanwhile: which, only a look tells.
        let mut absent = Vec::new();
        for id in batch {
            absent.extend(client.raw().get(id).await?.is_none().then(|| id.clone()));
        }
        gone.extend(absent.into_iter().take(count));
    }
    Ok(gone)
}

fn list(ids: &[InstanceId]) -> io::Result<()> {
    let out = &mut BufWriter::new(io::stdout().lock());
    ids.iter().try_for_each(|id| writeln!(out, "{id}"))?;
    out.flush()
}

fn tell(common: &Common, done: &Done) -> io::Result<()> {
    let out = &mut io::stdout().lock();
    let count = |count: usize| format!("{count} instance{}", if count == 1 { "" } else { "s" });
    if !common.output.is_for_people() {
        return write_data(out, common.output, &Versioned::new(done));
    }
    if done.dry_run {
        writeln!(out, "would purge {}", count(done.matching))?;
        common.note("nothing was removed: give --yes to remove them for good");
    } else if done.purged < done.matching {
        writeln!(out, "purged {} of {}", done.purged, count(done.matching))?;
        let why =
            "the others were started again or removed meanwhile, are about to be, or have messages to send";
        common.note(&format!("note: {why}"));
    } else if !common.quiet {
        writeln!(out, "purged {}", count(done.purged))?;
    }
    Ok(())
}
