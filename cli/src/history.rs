//! A history as a table.

use std::io::{self, Write};

use dauer::Timestamp;
use dauer_proto::{EventType, HistoryEvent, event, time};

use crate::output::plain;
use crate::time::Dates;

/// Prints events one after the other, with the time since the first of them.
#[derive(Default)]
pub(crate) struct Table {
    /// How to print when each event was, in a column of its own, if that is wanted.
    dates: Option<Dates>,
    index: usize,
    first: Option<i64>,
}

impl Table {
    /// With a column that says when each event was.
    pub(crate) fn dated(dates: Dates) -> Self {
        Self { dates: Some(dates), ..Self::default() }
    }

    /// Prints the next event.
    pub(crate) fn row(&mut self, out: &mut impl Write, event: &HistoryEvent) -> io::Result<()> {
        let at = event.timestamp.as_ref().and_then(|at| time::to_millis_ceil(at).ok());
        self.first = self.first.or(at);
        let first = self.first.unwrap_or_default();
        let millis = at.unwrap_or(first).saturating_sub(first).max(0);
        let seconds = format!("{}.{:03}", millis / 1000, millis % 1000);
        let (index, kind, subject) = (self.index, event::kind_name(event), plain(&subject(event)));
        self.index += 1;
        let dated = self.dates.zip(at).map(|(dates, at)| (dates.show(Timestamp(at)), dates.width()));
        let dated = dated.map(|(shown, width)| format!("  {shown:<width$}")).unwrap_or_default();
        writeln!(out, "{index:>4}  {seconds:>7} s{dated}  {kind:<34} {subject}")
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
