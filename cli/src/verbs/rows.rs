//! Instances as rows: a table for people, an element each for programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use dauer::{InstanceId, Record};

use crate::output::{Common, Format, JSON_VERSION, Paint, Versioned, plain, status_name, write_data};
use crate::time::{Dates, now, roughly};
use crate::view::{Instance, counted};
use crate::waiting::{code_of, unbegun_since};

/// Prints pages one after the other, in one form.
pub(super) struct Rows<W: Write> {
    pub(super) out: W,
    format: Format,
    paint: Paint,
    dates: Dates,
    /// How many are connected, where that is told.
    workers: Option<usize>,
    /// Of the columns, once the first page has told them.
    widths: Option<[usize; 2]>,
    /// Instances that wait for a stalled child, with the child.
    pub(super) stalled_children: BTreeMap<InstanceId, InstanceId>,
    pub(super) count: usize,
}

impl<W: Write> Rows<W> {
    pub(super) fn new(out: W, common: &Common, workers: Option<usize>) -> Self {
        let (format, paint, dates) = (common.output, common.paint(), common.dates());
        let stalled_children = BTreeMap::new();
        Self { out, format, paint, dates, workers, widths: None, stalled_children, count: 0 }
    }

    /// What precedes the first page.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        match self.format {
            Format::Json => write!(self.out, "{{\"dauer\":{JSON_VERSION},\"instances\":["),
            _ => Ok(()),
        }
    }

    /// Prints a page.
    pub(super) fn page(&mut self, found: &[(InstanceId, Record)]) -> io::Result<()> {
        if self.format.is_for_people() && !found.is_empty() && self.widths.is_none() {
            let longest = |column: fn(&(InstanceId, Record)) -> &str, head: &str| {
                found.iter().map(|each| column(each).chars().count()).max().unwrap_or(0).max(head.len())
            };
            let widths =
                [longest(|(id, _)| id.as_str(), "ID"), longest(|(_, record)| &record.queue.name, "NAME")];
            self.widths = Some(widths);
            let ([id, name], time) = (widths, self.dates.width());
            let wide = match self.format {
                Format::Wide => format!("{:>7}  {:<10}  {:<id$}  TAGS  ", "EVENTS", "VERSION", "PARENT"),
                _ => String::new(),
            };
            writeln!(
                self.out,
                "{:<id$}  {:<name$}  {:<10}  {:<time$}  {:<time$}  {wide}TROUBLE",
                "ID", "NAME", "STATUS", "CREATED", "UPDATED"
            )?;
        }
        found.iter().try_for_each(|(id, record)| self.row(id, record))
    }

    fn row(&mut self, id: &InstanceId, record: &Record) -> io::Result<()> {
        let first = self.count == 0;
        self.count += 1;
        match self.format {
            Format::Table | Format::Wide => {
                let line = self.line(id, record);
                writeln!(self.out, "{}", line.trim_end())
            }
            Format::Id => writeln!(self.out, "{}", plain(id.as_str())),
            Format::Json => {
                write!(self.out, "{}", if first { "\n" } else { ",\n" })?;
                let instance = self.instance(id, record);
                Ok(serde_json::to_writer(&mut self.out, &instance)?)
            }
            Format::Jsonl => {
                let instance = self.instance(id, record);
                write_data(&mut self.out, self.format, &Versioned::new(instance))
            }
        }
    }

    fn instance<'r>(&self, id: &'r InstanceId, record: &'r Record) -> Instance<'r> {
        Instance::new(id, record).waits_for(self.stalled_children.get(id).map(ToString::to_string))
    }

    fn line(&self, id: &InstanceId, record: &Record) -> String {
        let ([id_width, name_width], time) = (self.widths.unwrap_or_default(), self.dates.width());
        let status = format!("{:<10}", status_name(record.status));
        let status = self.paint.status(record.status, record.trouble.is_some(), &status);
        let wide = match self.format {
            Format::Wide => {
                let parent = record.parent.as_deref().map_or("", |parent| parent.instance.as_str());
                let tags: Vec<String> =
                    record.tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
                let version = record.queue.version.as_deref().unwrap_or_default();
                let (parent, tags, version) = (plain(parent), plain(&tags.join(",")), plain(version));
                let events = counted(record).map(|record| record.history_len.to_string()).unwrap_or_default();
                format!("{events:>7}  {version:<10}  {parent:<id_width$}  {tags:<4}  ")
            }
            _ => String::new(),
        };
        format!(
            "{:<id_width$}  {:<name_width$}  {status}  {:<time$}  {:<time$}  {wide}{}",
            plain(id.as_str()),
            plain(&record.queue.name),
            self.dates.show(record.times.created),
            self.dates.show(record.times.updated),
            plain(&self.trouble(id, record)),
        )
    }

    /// Why it does not go on: its trouble, that of its child, or that no worker has begun it.
    fn trouble(&self, id: &InstanceId, record: &Record) -> String {
        if let Some(trouble) = record.trouble.as_deref() {
            return format!("{:?}: {}", trouble.kind, trouble.reason);
        }
        if let Some(child) = self.stalled_children.get(id) {
            return format!("waits for its child '{child}', which is stalled");
        }
        let now = now();
        let Some(since) = unbegun_since(record, now) else { return String::new() };
        let nobody = if self.workers == Some(0) { "; none is connected" } else { "" };
        let waited = roughly(now.since(since));
        format!("waits for a worker that has {} since {waited}{nobody}", code_of(record))
    }

    /// What follows the last page.
    pub(super) fn end(&mut self, next: Option<&str>) -> io::Result<()> {
        let next = serde_json::to_string(&next)?;
        if self.format == Format::Json {
            writeln!(self.out, "\n],\"next\":{next}}}")?;
        }
        self.out.flush()
    }
}
