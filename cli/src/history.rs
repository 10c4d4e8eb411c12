//! A history as a table.

use std::error::Error;
use std::io::{self, Write};

use dauer::{ExecutionId, InstanceId, Record};
use dauer_proto::{EventType, HistoryEvent, event, time};
use dauer_store::{Manage, StoredBatch};

use crate::error::Failure;
use crate::output::plain;

/// Bytes of history read at a time.
const PAGE_BYTES: usize = 1024 * 1024;

/// Reads the history of one run, a part at a time.
pub(crate) struct Reader<'r> {
    id: &'r InstanceId,
    execution: ExecutionId,
    /// Events that the run has at least.
    expected: u32,
    read: u32,
    from: Option<u32>,
}

impl<'r> Reader<'r> {
    /// A reader of the run that the record is of.
    pub(crate) fn new(id: &'r InstanceId, record: &Record) -> Self {
        Self { id, execution: record.execution, expected: record.history_len, read: 0, from: Some(0) }
    }

    /// The next part; `None` at the end.
    ///
    /// # Errors
    /// [`Failure::Moved`] when another run took the place of this one, so that its history is gone.
    pub(crate) async fn next(&mut self, hub: &dyn Manage) -> Result<Option<Vec<StoredBatch>>, Failure> {
        let Some(from) = self.from else {
            return if self.read < self.expected { Err(Failure::Moved(self.id.clone())) } else { Ok(None) };
        };
        let slice = hub.read_history(self.id, Some(self.execution), from, PAGE_BYTES).await?;
        self.from = slice.next;
        self.read += slice.batches.iter().map(|stored| stored.batch.count).sum::<u32>();
        Ok(Some(slice.batches))
    }
}

/// All events of an instance's current run.
pub(crate) async fn read(hub: &dyn Manage, id: &InstanceId) -> Result<Vec<HistoryEvent>, Box<dyn Error>> {
    let mut events = Vec::new();
    let mut from = Some(0);
    while let Some(next) = from {
        let slice = hub.read_history(id, None, next, PAGE_BYTES).await?;
        for stored in &slice.batches {
            events.extend(stored.batch.decode()?);
        }
        from = slice.next;
    }
    Ok(events)
}

/// Prints events with the time since the first of them.
pub(crate) fn print(out: &mut impl Write, events: &[HistoryEvent]) -> io::Result<()> {
    let mut table = Table::default();
    events.iter().try_for_each(|event| table.row(out, event))
}

/// Prints events one after the other, with the time since the first of them.
#[derive(Default)]
pub(crate) struct Table {
    index: usize,
    first: Option<i64>,
}

impl Table {
    /// Prints the next event.
    pub(crate) fn row(&mut self, out: &mut impl Write, event: &HistoryEvent) -> io::Result<()> {
        let at = event.timestamp.as_ref().and_then(|at| time::to_millis_ceil(at).ok());
        self.first = self.first.or(at);
        let first = self.first.unwrap_or_default();
        let millis = at.unwrap_or(first).saturating_sub(first).max(0);
        let seconds = format!("{}.{:03}", millis / 1000, millis % 1000);
        let (index, kind, subject) = (self.index, event::kind_name(event), plain(&subject(event)));
        self.index += 1;
        writeln!(out, "{index:>4}  {seconds:>7} s  {kind:<34} {subject}")
    }
}

/// What an event is about, without its payload.
fn subject(event: &HistoryEvent) -> String {
    if let Some(answers) = event::answers(event) {
        return format!("of #{answers}");
    }
    let id = event.event_id;
    match &event.event_type {
        Some(EventType::ExecutionStarted(started)) => started.name.clone(),
        Some(EventType::TaskScheduled(task)) => format!("#{id} {}", task.name),
        Some(EventType::TimerCreated(_)) => format!("#{id}"),
        Some(EventType::SubOrchestrationInstanceCreated(child)) => format!("#{id} {}", child.name),
        Some(EventType::EventRaised(raised)) => raised.name.clone(),
        Some(EventType::EventSent(sent)) => format!("#{id} {} to {}", sent.name, sent.instance_id),
        Some(EventType::ExecutionCompleted(completed)) => {
            let status = completed.orchestration_status().as_str_name();
            status.trim_start_matches("ORCHESTRATION_STATUS_").to_lowercase()
        }
        _ => String::new(),
    }
}
