//! `dauer history`: what happened to an instance, event by event.

use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::process::ExitCode;

use clap::Args;
use dauer::{InstanceId, Record};
use dauer_proto::HistoryEvent;
use dauer_proto::json::{HISTORY_VERSION, HistoryDocument, event_to_value};
use serde::Serialize;

use super::{found, on_store};
use crate::error::Failure;
use crate::history::Table;
use crate::output::{Common, Format};
use crate::progress::Progress;

/// What `dauer history` is told.
#[derive(Args)]
pub(crate) struct History {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Which instance.
    pub(crate) id: String,
}

/// The examples in the help.
pub(crate) const HISTORY_EXAMPLES: &str = "\
Examples:
  dauer history order-7
  dauer history order-7 -o json";

/// The first line of JSON a line; the others are an event each.
#[derive(Serialize)]
struct Head<'a> {
    dauer_history: u64,
    #[serde(rename = "instanceId")]
    instance_id: &'a str,
    #[serde(rename = "executionId")]
    execution_id: String,
}

/// Prints the history of the current run. Only a document is held as a whole: a history may be long.
pub(crate) async fn history(arguments: History) -> Result<ExitCode, Failure> {
    let id = InstanceId::new(arguments.id)?;
    on_store(&arguments.common, async |hub| {
        let record = found(hub, &id).await?;
        let mut printer = Printer::new(&id, &record, &arguments.common)?;
        let total = usize::try_from(record.history_len).unwrap_or(usize::MAX);
        // On a terminal that shows the events themselves, nobody needs more to see how far it is.
        let unseen = matches!(printer.form, Form::Document(_)) || !io::stdout().is_terminal();
        let progress = Progress::new("reading", total, unseen && !arguments.common.quiet);
        let mut read = 0;
        let mut events = hub.client().raw().history_of(&id, &record);
        while let Some(event) = events.next().await {
            progress.at(read);
            read += 1;
            printer.event(event?)?;
        }
        drop(progress);
        printer.end()?;
        Ok(ExitCode::SUCCESS)
    })
    .await
}

/// Prints events one after the other, in one form.
struct Printer<'a> {
    out: BufWriter<io::StdoutLock<'static>>,
    id: &'a InstanceId,
    form: Form,
}

enum Form {
    Table(Table),
    Lines,
    /// Held back until it is whole.
    Document(HistoryDocument),
}

impl<'a> Printer<'a> {
    fn new(id: &'a InstanceId, record: &Record, common: &Common) -> Result<Self, Failure> {
        let mut out = BufWriter::new(io::stdout().lock());
        let (instance_id, execution_id) = (id.as_str(), record.execution.to_string());
        let form = match common.output {
            Format::Table => Form::Table(Table::default()),
            Format::Wide => Form::Table(Table::dated(common.dates())),
            Format::Json => {
                let (instance_id, events) = (instance_id.to_owned(), Vec::new());
                Form::Document(HistoryDocument { instance_id, execution_id, events })
            }
            Format::Id => return Err(Failure::Usage("events have no ids of their own; use another -o")),
            Format::Jsonl => {
                let head = Head { dauer_history: HISTORY_VERSION, instance_id, execution_id };
                line(&mut out, &head)?;
                Form::Lines
            }
        };
        Ok(Self { out, id, form })
    }

    fn event(&mut self, event: HistoryEvent) -> Result<(), Failure> {
        match &mut self.form {
            Form::Table(table) => table.row(&mut self.out, &event)?,
            Form::Document(document) => document.events.push(event),
            Form::Lines => {
                let value = event_to_value(&event);
                let value = value.map_err(|source| Failure::Unwritable { id: self.id.clone(), source })?;
                line(&mut self.out, &value)?;
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<(), Failure> {
        if let Form::Document(document) = &self.form {
            let text = document.to_text();
            let text = text.map_err(|source| Failure::Unwritable { id: self.id.clone(), source })?;
            self.out.write_all(text.as_bytes())?;
        }
        Ok(self.out.flush()?)
    }
}

fn line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}
