//! A history as a table.

use std::error::Error;
use std::io::{self, Write};

use dauer::InstanceId;
use dauer_proto::{EventType, HistoryEvent, event, time};
use dauer_store::Manage;

/// Bytes of history read at a time.
const PAGE_BYTES: usize = 1024 * 1024;

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
    let at = |event: &HistoryEvent| event.timestamp.as_ref().and_then(|at| time::to_millis_ceil(at).ok());
    let first = events.first().and_then(at).unwrap_or_default();
    for (index, event) in events.iter().enumerate() {
        let millis = at(event).unwrap_or(first).saturating_sub(first).max(0);
        let seconds = format!("{}.{:03}", millis / 1000, millis % 1000);
        writeln!(out, "{index:>4}  {seconds:>7} s  {:<34} {}", event::kind_name(event), subject(event))?;
    }
    Ok(())
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
