//! `dauer get`: one instance, and what it is waiting for.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::Args;
use dauer::{Hub, Inspected, InstanceId, Record, RemoteError};
use dauer_hub::ClientError;
use dauer_store::Inspection;

use super::{found, on_store, watch};
use crate::error::Failure;
use crate::output::{Common, Format, Versioned, embedded, plain, status_name, write_data};
use crate::time::show;
use crate::view::{self, Detailed, HolderView, InboxView, Instance, Known, TaskView};
use crate::waiting::{Past, Waiting, past, waiting};

/// How often to look again at an instance that began another run meanwhile: more than anyone is so unlucky.
const LOOKS: u32 = 5;

/// What `dauer get` is told.
#[derive(Args)]
pub(crate) struct Get {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Which instance.
    pub(crate) id: String,
    /// Print it again whenever it changes, until it has ended: drawn anew on a terminal, elsewhere a line for each change.
    #[arg(short = 'f', long)]
    watch: bool,
}

/// The examples in the help.
pub(crate) const GET_EXAMPLES: &str = "\
Examples:
  dauer get order-7
  dauer get order-7 --watch
  dauer get order-7 -o json --store sqlite:shop.db";

/// Prints an instance.
pub(crate) async fn get(arguments: Get) -> Result<ExitCode, Failure> {
    let id = InstanceId::new(arguments.id)?;
    on_store(&arguments.common, async |hub| {
        match arguments.watch {
            true => watch(hub, &id, &arguments.common).await?,
            false => {
                let shown = look(hub, &id, &arguments.common, None).await?;
                io::stdout().lock().write_all(&shown.text(&id, &arguments.common)?)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    })
    .await
}

/// What is known of an instance.
struct Seen {
    record: Record,
    inspection: Option<Inspection>,
    input: Option<String>,
    past: Past,
    waiting: Option<Waiting>,
}

/// Looks at an instance, again if it began another run meanwhile.
async fn look(hub: &Hub, id: &InstanceId, common: &Common, before: Option<&Seen>) -> Result<Seen, Failure> {
    let mut looks = 1;
    loop {
        match look_once(hub, id, common, before).await {
            Err(Failure::Client(ClientError::MovedOn(_))) if looks < LOOKS => looks += 1,
            result => return result,
        }
    }
}

async fn look_once(
    hub: &Hub,
    id: &InstanceId,
    common: &Common,
    before: Option<&Seen>,
) -> Result<Seen, Failure> {
    let (record, inspection) = inspected(hub, id).await?;
    let (past, input) = match before {
        // Its history is as it was, and may be long.
        Some(before) if before.record == record => (before.past.clone(), before.input.clone()),
        // Entities have neither history nor input.
        _ if record.details.entity().is_some() => (Past::default(), None),
        _ => {
            let mut past = past(hub, id, &record).await?;
            let input = match past.started.take() {
                Some(start) => start.input,
                // It has not begun.
                None => hub.client().raw().input(id, &record).await?,
            };
            (past, input)
        }
    };
    let waiting = waiting(hub, (id, &record), (past.clone(), inspection.clone()), common).await?;
    Ok(Seen { record, inspection, input, past, waiting })
}

/// The record of an instance and what is around it. A server that is not dauer's tells the record alone.
async fn inspected(hub: &Hub, id: &InstanceId) -> Result<(Record, Option<Inspection>), Failure> {
    match hub.client().raw().inspect(id).await {
        Ok(Some(Inspected { record, inspection, .. })) => Ok((record, Some(inspection))),
        Ok(None) => Err(ClientError::Absent(id.clone()).into()),
        Err(ClientError::Remote(RemoteError::Unsupported { .. })) => Ok((found(hub, id).await?, None)),
        Err(error) => Err(error.into()),
    }
}

impl Seen {
    fn text(&self, id: &InstanceId, common: &Common) -> io::Result<Vec<u8>> {
        let mut out = Vec::new();
        let (input, waiting) = (self.input.as_deref(), self.waiting.as_ref());
        match common.output {
            Format::Table | Format::Wide => {
                let inspection = self.inspection.as_ref();
                let known = Known { input, waiting, inspection, rewound: self.past.rewound };
                view::write(&mut out, (id, &self.record), known, common)?;
            }
            Format::Id => writeln!(out, "{id}")?,
            format => {
                let child = waiting.and_then(Waiting::stalled_child);
                let instance = Instance::new(id, &self.record).waits_for(child);
                let inspection = self.inspection.as_ref();
                let detailed = Detailed {
                    instance,
                    input: input.and_then(embedded),
                    waiting_for: waiting.cloned(),
                    next_try: view::next_try(&self.record, inspection).map(show),
                    held_by: inspection.and_then(|seen| seen.holder.as_ref()).map(HolderView::new),
                    inbox: inspection.map(InboxView::new),
                    open_tasks: inspection.map(TaskView::list),
                };
                write_data(&mut out, format, &Versioned::new(detailed))?;
            }
        }
        Ok(out)
    }

    /// A change, where nothing is drawn: a line.
    fn change(&self, id: &InstanceId, common: &Common) -> io::Result<Vec<u8>> {
        let format = watch::part_of(common.output);
        let mut out = Vec::new();
        match format {
            Format::Table | Format::Wide => {
                let (status, at) =
                    (status_name(self.record.status), common.dates().show(self.record.times.updated));
                let awaited = self.waiting.as_ref().map(|waiting| waiting.line.as_str());
                let line = format!("{at}  {id}  {status:<10}  {}", awaited.unwrap_or_default());
                writeln!(out, "{}", plain(line.trim_end()))?;
            }
            _ => out.extend(self.text(id, &Common { output: format, ..common.clone() })?),
        }
        Ok(out)
    }

    /// What makes it another than before: not how far a time is from now.
    fn is_as(&self, before: &Self) -> bool {
        let parts = |seen: &Self| seen.waiting.as_ref().map(|each| (each.open.clone(), each.workers));
        self.record == before.record && parts(self) == parts(before)
    }
}

/// Prints an instance again and again, until it has ended.
async fn watch(hub: &Hub, id: &InstanceId, common: &Common) -> Result<(), Failure> {
    let redraws = watch::redraws(common);
    let mut before: Option<Seen> = None;
    loop {
        let seen = look(hub, id, common, before.as_ref()).await?;
        if redraws {
            watch::draw(&String::from_utf8_lossy(&seen.text(id, common)?))?;
        } else if !before.as_ref().is_some_and(|before| seen.is_as(before)) {
            let out = &mut io::stdout().lock();
            out.write_all(&seen.change(id, common)?)?;
            out.flush()?;
        }
        if seen.record.status.is_ended() {
            return Ok(());
        }
        before = Some(seen);
        tokio::time::sleep(watch::PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use dauer::ExecutionId;
    use dauer_core::MessageId;
    use dauer_core::model::{Kind, QueueKey};

    use super::*;

    fn seen(line: &str, workers: usize) -> Seen {
        let queue = QueueKey::new(Kind::Orchestration, "order", None);
        let record = Record::pending(queue, ExecutionId(1), MessageId([2; 16]));
        let waiting = Waiting { line: line.to_owned(), open: Vec::new(), workers: Some(workers) };
        Seen { record, inspection: None, input: None, past: Past::default(), waiting: Some(waiting) }
    }

    #[test]
    fn time_that_passes_is_no_change() {
        let before = seen("a worker, since 1 s", 0);
        assert!(seen("a worker, since 2 s", 0).is_as(&before));
        assert!(!seen("a worker, since 1 s", 1).is_as(&before), "a worker came");
        let mut begun = seen("a worker, since 1 s", 0);
        begun.record.history_len = 1;
        assert!(!begun.is_as(&before));
    }
}
