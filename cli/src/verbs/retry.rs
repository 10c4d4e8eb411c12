//! `dauer retry`: stalled instances, run at once.

use std::io::{self, BufWriter, Write as _};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use dauer::{Hub, InstanceId, Record};
use dauer_core::model::TroubleKind;
use dauer_hub::ClientError;
use dauer_store::Query;
use serde::Serialize;

use super::filter::Filter;
use super::list::pages;
use super::{found, on_store};
use crate::error::Failure;
use crate::output::{Common, Format, Versioned, plain, write_data};
use crate::progress::{Busy, Progress};

/// Instances that one write retries: others wait for the store meanwhile.
const BATCH: usize = 100;

/// The arguments of `dauer retry`.
#[derive(Args)]
pub(crate) struct Retry {
    #[command(flatten)]
    pub(crate) common: Common,
    /// These instances. All must be stalled, or nothing is retried.
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// All stalled instances that match the conditions.
    #[arg(long)]
    all: bool,
    /// Stalled for one of these reasons: `--kind panic,unknown-name`.
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',', ignore_case = true)]
    kind: Vec<KindName>,
    #[command(flatten)]
    filter: Filter,
}

/// The examples in the help.
pub(crate) const RETRY_EXAMPLES: &str = "\
Examples:
  dauer retry order-7
  dauer retry --all
  dauer retry --all --name checkout --kind panic,mismatch";

/// A kind of trouble as it is typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindName {
    /// The code does not match the history.
    Mismatch,
    /// The code panicked.
    Panic,
    /// No code of that name or version is registered.
    UnknownName,
    /// Input, history or message cannot be decoded.
    Undecodable,
    /// The code waits for something that is not durable, or never stops.
    NotDurable,
    /// The answer of the worker makes no sense.
    InvalidAnswer,
    /// A limit was passed.
    TooLarge,
    /// The processes that ran the turn died with it.
    HostDied,
}

impl From<KindName> for TroubleKind {
    fn from(name: KindName) -> Self {
        match name {
            KindName::Mismatch => Self::Mismatch,
            KindName::Panic => Self::Panic,
            KindName::UnknownName => Self::UnknownName,
            KindName::Undecodable => Self::Undecodable,
            KindName::NotDurable => Self::NotDurable,
            KindName::InvalidAnswer => Self::InvalidAnswer,
            KindName::TooLarge => Self::TooLarge,
            KindName::HostDied => Self::HostDied,
        }
    }
}

/// The outcome, in JSON.
#[derive(Serialize)]
struct Done {
    stalled: usize,
    retried: usize,
}

/// Retries instances: the given ones, or all stalled ones that match.
pub(crate) async fn retry(arguments: Retry) -> Result<ExitCode, Failure> {
    let filtered = !arguments.filter.is_empty() || !arguments.kind.is_empty();
    match (arguments.ids.is_empty(), arguments.all) {
        (false, true) => return Err(Failure::Usage("give ids or --all, not both; nothing was retried")),
        (false, false) if filtered => {
            return Err(Failure::Usage("give ids or conditions, not both; nothing was retried"));
        }
        (true, false) if filtered => {
            return Err(Failure::Usage("give --all with conditions, to retry all that match"));
        }
        (true, false) => {
            return Err(Failure::Usage("give the ids to retry, or --all, with conditions like --name"));
        }
        _ => {}
    }
    on_store(&arguments.common, async |hub| {
        let ids = match arguments.all {
            true => matching(hub, &arguments).await?,
            false => stalled(hub, &arguments.ids).await?,
        };
        let (progress, mut retried) = (Progress::new("retrying", ids.len(), !arguments.common.quiet), 0);
        for (batch, done) in ids.chunks(BATCH).zip((0..).step_by(BATCH)) {
            progress.at(done);
            retried += hub.client().raw().retry_ids(batch).await?;
        }
        drop(progress);
        match arguments.common.output {
            Format::Id => list(&ids)?,
            _ => tell(&arguments.common, &Done { stalled: ids.len(), retried })?,
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}

/// The stalled instances that match.
async fn matching(hub: &Hub, arguments: &Retry) -> Result<Vec<InstanceId>, Failure> {
    let kinds: Vec<TroubleKind> = arguments.kind.iter().copied().map(TroubleKind::from).collect();
    let wanted = |record: &Record| match record.trouble.as_deref() {
        Some(trouble) => kinds.is_empty() || kinds.contains(&trouble.kind),
        None => false,
    };
    let _busy = Busy::new("looking for stalled instances", !arguments.common.quiet);
    let mut ids = Vec::new();
    let each = |page: &[(InstanceId, Record)]| {
        ids.extend(page.iter().filter(|(_, record)| wanted(record)).map(|(id, _)| id.clone()));
        Ok(())
    };
    let query = Query { stalled: true, ..arguments.filter.query() };
    pages(hub, query, (&arguments.filter, None), each).await?;
    Ok(ids)
}

/// The given instances, if all of them exist and are stalled.
async fn stalled(hub: &Hub, given: &[String]) -> Result<Vec<InstanceId>, Failure> {
    let ids = given.iter().map(|id| InstanceId::new(id.as_str()));
    let mut ids = ids.collect::<Result<Vec<_>, _>>()?;
    ids.sort();
    ids.dedup();
    for id in &ids {
        let record = match hub.client().raw().inspect(id).await? {
            Some(seen) => seen.record,
            None => found(hub, id).await?,
        };
        if record.trouble.is_none() {
            return Err(ClientError::NotStalled { instance: id.clone(), status: record.status }.into());
        }
    }
    Ok(ids)
}

fn list(ids: &[InstanceId]) -> io::Result<()> {
    let out = &mut BufWriter::new(io::stdout().lock());
    ids.iter().try_for_each(|id| writeln!(out, "{}", plain(id.as_str())))?;
    out.flush()
}

fn tell(common: &Common, done: &Done) -> io::Result<()> {
    let out = &mut io::stdout().lock();
    if !common.output.is_for_people() {
        return write_data(out, common.output, &Versioned::new(done));
    }
    let plural = if done.stalled == 1 { "" } else { "s" };
    if done.retried < done.stalled {
        writeln!(out, "retried {} of {} instance{plural}", done.retried, done.stalled)?;
        common.note("note: the others are not delayed any more; a worker tries them, or has them already");
    } else if !common.quiet {
        writeln!(out, "retried {} instance{plural}", done.retried)?;
    }
    Ok(())
}
