//! `dauer list`: instances that match, newest first.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Args;
use dauer::{ExecutionId, Hub, HubName, InstanceId, Record};
use dauer_store::{Order, Query};

use super::filter::Filter;
use super::on_place;
use super::place::Place;
use super::rows::Rows;
use super::watch::{self, Known};
use crate::error::Failure;
use crate::output::{Common, Format, plain};
use crate::waiting::workers;

/// Instances that the store is asked for at a time: few calls, and little memory for them.
const PAGE_ROWS: usize = 500;

/// Instances that are shown when no number is given: what somebody reads.
const LIMIT: &str = "100";

/// What `dauer list` is told.
#[derive(Args)]
pub(crate) struct List {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(flatten)]
    filter: Filter,
    /// Only those whose next turn cannot run, with the reason, and the parents that wait for them.
    #[arg(long)]
    stalled: bool,
    /// Entities instead of orchestrations.
    #[arg(long)]
    entities: bool,
    /// Show those first that were created first.
    #[arg(long)]
    oldest_first: bool,
    /// Show at most so many.
    #[arg(long, value_name = "COUNT", default_value = LIMIT, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Show all that match.
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// Go on behind the last page, by the cursor that it ended with, with the same options.
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    after: Option<String>,
    /// Print them again whenever they change, until Ctrl-C: drawn anew on a terminal, elsewhere a row for each change.
    #[arg(short = 'f', long, conflicts_with = "after")]
    watch: bool,
}

/// The examples in the help.
pub(crate) const LIST_EXAMPLES: &str = "\
Examples:
  dauer list --status failed --created-from -24h
  dauer list --stalled
  dauer list --status running --watch
  dauer list --name checkout --tag zone=north --all -o jsonl";

/// Prints the instances that match.
pub(crate) async fn list(arguments: List) -> Result<ExitCode, Failure> {
    on_place(&arguments.common, async |place| {
        place.check_hub().await?;
        let hub = place.hub();
        if arguments.watch {
            watch(&hub, &arguments).await?;
        } else if once(&hub, &arguments).await? == 0 && arguments.common.output.is_for_people() {
            tell_where_else(place, &hub, &arguments.common).await?;
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}

impl List {
    fn query(&self) -> Query {
        let (stalled, entities) = (self.stalled, self.entities);
        let order = if self.oldest_first { Order::OldestFirst } else { Order::NewestFirst };
        Query { stalled, entities, order, after: self.after.clone(), ..self.filter.query() }
    }

    fn limit(&self) -> Option<usize> {
        (!self.all).then(|| usize::try_from(self.limit).unwrap_or(usize::MAX))
    }

    /// Rows of what matches, with what people are told beside it.
    async fn rows<W: Write>(&self, hub: &Hub, out: W) -> Result<Rows<W>, Failure> {
        let workers = match self.common.output.is_for_people() {
            true => workers(hub).await?,
            false => None,
        };
        Ok(Rows::new(out, &self.common, workers))
    }
}

/// Says that nothing was found; and where there is something, when nothing at all is in the default hub.
async fn tell_where_else(place: &Place, hub: &Hub, common: &Common) -> Result<(), Failure> {
    let hubs = match place.named() {
        None if hub.client().raw().is_empty().await? => place.survey().await?,
        _ => Vec::new(),
    };
    let filled: Vec<&HubName> = hubs.iter().filter(|(_, empty)| !empty).map(|(name, _)| name).collect();
    let Some(first) = filled.first() else {
        common.note("no instance matches");
        return Ok(());
    };
    let names = filled.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(", ");
    let command = common.command_in_hub("list", first);
    common.note(&format!(
        "the task hub '{}' is empty; not empty: {names}; `{command}` lists '{first}'",
        HubName::default()
    ));
    Ok(())
}

/// Prints what matches. Returns how many that were.
async fn once(hub: &Hub, arguments: &List) -> Result<usize, Failure> {
    let common = &arguments.common;
    let mut rows = arguments.rows(hub, BufWriter::new(io::stdout().lock())).await?;
    rows.begin()?;
    let wanted = (&arguments.filter, arguments.limit());
    let next = if arguments.stalled {
        let mut all = Vec::new();
        let each = |found: &[(InstanceId, Record)]| {
            all.extend_from_slice(found);
            Ok(())
        };
        let next = pages(hub, arguments.query(), wanted, each).await?;
        rows.stalled_children = parents(hub, &mut all).await?;
        rows.page(&all)?;
        next
    } else {
        pages(hub, arguments.query(), wanted, |found| Ok(rows.page(found)?)).await?
    };
    rows.end(next.as_deref())?;
    // In a document the cursor is a field.
    if let (Some(next), false) = (next, common.output == Format::Json) {
        common.note(&format!("more: --after '{}', or --all", plain(&next)));
    }
    Ok(rows.count)
}

/// Prints what matches again and again, until somebody ends it.
async fn watch(hub: &Hub, arguments: &List) -> Result<(), Failure> {
    let redraws = watch::redraws(&arguments.common);
    let common = Common { output: watch::part_of(arguments.common.output), ..arguments.common.clone() };
    let (mut known, mut head) = (Known::default(), None);
    loop {
        let mut found = Vec::new();
        let each = |page: &[(InstanceId, Record)]| {
            found.extend_from_slice(page);
            Ok(())
        };
        pages(hub, arguments.query(), (&arguments.filter, arguments.limit()), each).await?;
        let waiting = if arguments.stalled { parents(hub, &mut found).await? } else { BTreeMap::new() };
        if redraws {
            let mut rows = arguments.rows(hub, Vec::new()).await?;
            rows.stalled_children = waiting;
            rows.page(&found)?;
            watch::draw(&String::from_utf8_lossy(&rows.out))?;
        } else {
            let changed = known.changed(found);
            // One table with one head, however long it gets.
            let rows = match &mut head {
                Some(rows) => rows,
                None => head.insert(Rows::new(io::stdout(), &common, None)),
            };
            rows.stalled_children = waiting;
            rows.page(&changed)?;
            rows.out.flush()?;
        }
        tokio::time::sleep(watch::PAUSE).await;
    }
}

/// Puts behind each stalled instance the parents that wait for it, and theirs, each once. Returns them with the child for
/// which each waits.
async fn parents(
    hub: &Hub,
    found: &mut Vec<(InstanceId, Record)>,
) -> Result<BTreeMap<InstanceId, InstanceId>, Failure> {
    let (client, mut waiting) = (hub.client(), BTreeMap::new());
    let listed: BTreeSet<InstanceId> = found.iter().map(|(id, _)| id.clone()).collect();
    let stalled = std::mem::take(found);
    for (id, record) in stalled {
        let (mut child, mut parent) = (id.clone(), record.parent.clone());
        found.push((id, record));
        while let Some(waits) = parent {
            let id = waits.instance;
            if listed.contains(&id) || waiting.contains_key(&id) {
                break;
            }
            let Some(record) = client.raw().get(&id).await? else { break };
            // A server does not say which run of the parent waits.
            let is_current = waits.execution == ExecutionId(0) || waits.execution == record.execution;
            if record.status.is_ended() || !is_current {
                break;
            }
            waiting.insert(id.clone(), child);
            parent = record.parent.clone();
            child = id.clone();
            found.push((id, record));
        }
    }
    Ok(waiting)
}

/// Gives all matches to `each`, a page at a time, until there are `limit`. The cursor for the rest, if there is a rest.
pub(super) async fn pages(
    hub: &Hub,
    mut query: Query,
    (filter, limit): (&Filter, Option<usize>),
    mut each: impl FnMut(&[(InstanceId, Record)]) -> Result<(), Failure>,
) -> Result<Option<String>, Failure> {
    let mut left = limit.unwrap_or(usize::MAX);
    query.page = PAGE_ROWS;
    let client = hub.client();
    let client = client.raw();
    loop {
        let mut page = client.query(query.clone()).await?;
        let fits = page.records.iter().filter(|(_, record)| filter.admits(record)).count() <= left;
        if !fits {
            // Ends with the last that is still wanted, so that the cursor of the page is the right one.
            let wanted = page.records.iter().enumerate().filter(|(_, (_, record))| filter.admits(record));
            let rows = wanted.map(|(index, _)| index + 1).nth(left - 1).unwrap_or(PAGE_ROWS);
            page = client.query(Query { page: rows, ..query.clone() }).await?;
        }
        page.records.retain(|(_, record)| filter.admits(record));
        left = left.saturating_sub(page.records.len());
        each(&page.records)?;
        match page.next {
            Some(next) if left > 0 && fits => query.after = Some(next),
            next => return Ok(next),
        }
    }
}
