//! `dauer list`: instances that match, newest first.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use clap::Args;
use dauer::{Hub, InstanceId, Record};
use dauer_store::{Order, Query};

use super::filter::Filter;
use super::on_store;
use crate::error::Failure;
use crate::output::{Common, Format, JSON_VERSION, Paint, Versioned, plain, status_name};
use crate::time::{now, roughly, show};
use crate::view::Instance;
use crate::waiting::{code_of, unbegun_since, workers};

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
    /// Only those whose next turn cannot run, with the reason.
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
}

/// The examples in the help.
pub(crate) const LIST_EXAMPLES: &str = "\
Examples:
  dauer list --status failed --created-from -24h
  dauer list --stalled
  dauer list --name checkout --tag zone=north --all -o jsonl";

/// Prints the instances that match.
pub(crate) async fn list(arguments: List) -> Result<ExitCode, Failure> {
    on_store(&arguments.common, async |hub| {
        let out = BufWriter::new(io::stdout().lock());
        let mut printer = Printer {
            out,
            format: arguments.common.output,
            paint: Paint::stdout(),
            workers: None,
            widths: None,
            count: 0,
        };
        let limit = (!arguments.all).then(|| usize::try_from(arguments.limit).unwrap_or(usize::MAX));
        let (stalled, entities) = (arguments.stalled, arguments.entities);
        let order = if arguments.oldest_first { Order::OldestFirst } else { Order::NewestFirst };
        let query = Query { stalled, entities, order, after: arguments.after, ..arguments.filter.query() };
        printer.workers = match printer.format {
            Format::Table => workers(&**hub.manage()).await?,
            _ => None,
        };
        let next = pages(hub, query, (&arguments.filter, limit), |found| Ok(printer.page(found)?)).await?;
        printer.end(next.as_deref())?;
        Ok(ExitCode::SUCCESS)
    })
    .await
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

/// Prints pages one after the other, in one form.
struct Printer<W: Write> {
    out: W,
    format: Format,
    paint: Paint,
    /// How many are connected, where that is told.
    workers: Option<usize>,
    /// Of the columns, once the first page has told them.
    widths: Option<[usize; 2]>,
    count: usize,
}

impl<W: Write> Printer<W> {
    fn page(&mut self, found: &[(InstanceId, Record)]) -> io::Result<()> {
        if self.format == Format::Table && !found.is_empty() && self.widths.is_none() {
            let longest = |column: fn(&(InstanceId, Record)) -> &str, head: &str| {
                found.iter().map(|each| column(each).chars().count()).max().unwrap_or(0).max(head.len())
            };
            let widths =
                [longest(|(id, _)| id.as_str(), "ID"), longest(|(_, record)| &record.queue.name, "NAME")];
            self.widths = Some(widths);
            let [id, name] = widths;
            writeln!(
                self.out,
                "{:<id$}  {:<name$}  {:<10}  {:<24}  {:<24}  TROUBLE",
                "ID", "NAME", "STATUS", "CREATED", "UPDATED"
            )?;
        }
        found.iter().try_for_each(|(id, record)| self.row(id, record))
    }

    fn row(&mut self, id: &InstanceId, record: &Record) -> io::Result<()> {
        let first = self.count == 0;
        self.count += 1;
        match self.format {
            Format::Table => {
                let [id_width, name_width] = self.widths.unwrap_or_default();
                let status = format!("{:<10}", status_name(record.status));
                let status = self.paint.status(record.status, record.trouble.is_some(), &status);
                let line = format!(
                    "{:<id_width$}  {:<name_width$}  {status}  {:<24}  {:<24}  {}",
                    plain(id.as_str()),
                    plain(&record.queue.name),
                    show(record.times.created),
                    show(record.times.updated),
                    plain(&self.trouble(record)),
                );
                writeln!(self.out, "{}", line.trim_end())
            }
            Format::Json => {
                let before = if first {
                    format!("{{\"dauer\":{JSON_VERSION},\"instances\":[\n")
                } else {
                    ",\n".into()
                };
                write!(self.out, "{before}")?;
                Ok(serde_json::to_writer(&mut self.out, &Instance::new(id, record))?)
            }
            Format::Jsonl => {
                serde_json::to_writer(&mut self.out, &Versioned::new(Instance::new(id, record)))?;
                writeln!(self.out)
            }
        }
    }

    /// Why it does not go on: its trouble, or that nobody has begun it.
    fn trouble(&self, record: &Record) -> String {
        if let Some(trouble) = record.trouble.as_deref() {
            return format!("{:?}: {}", trouble.kind, trouble.reason);
        }
        let now = now();
        let Some(since) = unbegun_since(record, now) else { return String::new() };
        let nobody = if self.workers == Some(0) { "; none is connected" } else { "" };
        let waited = roughly(now.since(since));
        format!("waits for a worker that has {} since {waited}{nobody}", code_of(record))
    }

    /// What follows the last page.
    fn end(mut self, next: Option<&str>) -> io::Result<()> {
        if self.format == Format::Json {
            if self.count == 0 {
                write!(self.out, "{{\"dauer\":{JSON_VERSION},\"instances\":[")?;
            }
            let next = serde_json::to_string(&next)?;
            writeln!(self.out, "\n],\"next\":{next}}}")?;
        }
        self.out.flush()?;
        // In a document the cursor is a field. Elsewhere it is not data, and without stderr nobody misses it.
        let _ = match (next, self.format) {
            (_, Format::Json) => Ok(()),
            (Some(next), _) => writeln!(io::stderr(), "more: --after '{}', or --all", plain(next)),
            (None, Format::Table) if self.count == 0 => writeln!(io::stderr(), "no instance matches"),
            (None, _) => Ok(()),
        };
        Ok(())
    }
}
