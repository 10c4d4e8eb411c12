//! "What is it waiting for?", answered in one line: from the record, from what the history leaves open, and from whether
//! there is a worker at all.

use std::collections::BTreeMap;

use dauer::{Hub, InstanceId, Record, Refused, Status, Timestamp};
use dauer_core::MessageId;
use dauer_core::ledger::{Ledger, LedgerError};
use dauer_proto::{EventType, ExecutionStartedEvent, HistoryEvent, time::to_millis_ceil};
use dauer_store::{DumpItem, Manage};
use serde::{Serialize, Serializer};

use crate::error::Failure;
use crate::output::status_name;
use crate::time::{show, show_due};

/// Names that one line has room for.
const NAMES_SHOWN: usize = 5;

/// What an instance is waiting for.
#[derive(Debug, Serialize)]
pub(crate) struct Waiting {
    /// The answer, in one line.
    pub(crate) line: String,
    /// What the history leaves open.
    pub(crate) open: Vec<Open>,
    /// How many workers are connected; null where that does not matter or the store cannot tell.
    pub(crate) workers: Option<usize>,
}

/// Something that was asked for and is not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Open {
    /// An activity that has no result.
    Activity { name: String },
    /// A timer that has not fired.
    Timer {
        #[serde(serialize_with = "as_time")]
        due: Timestamp,
    },
    /// A child that has not ended.
    Child { id: String, name: String },
    /// A call or lock of an entity.
    Entity { id: String },
}

fn as_time<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&show(*at))
}

/// What the history of a run tells.
#[derive(Default)]
pub(crate) struct Past {
    /// How it was started; absent before it has begun.
    pub(crate) started: Option<ExecutionStartedEvent>,
    /// What it leaves open, in the order in which it was asked for.
    pub(crate) open: Vec<Open>,
}

/// Follows the history of an instance's current run.
pub(crate) async fn past(hub: &Hub, id: &InstanceId, record: &Record) -> Result<Past, Failure> {
    let unreadable = |source: LedgerError| Failure::History { id: id.clone(), source };
    let mut ledger = Ledger::new(id.clone(), record.execution);
    let mut asked: Vec<(MessageId, Open)> = Vec::new();
    let mut started = None;
    let mut reader = hub.client().raw().history_of(id, record);
    while let Some(batches) = reader.next().await? {
        for stored in batches {
            for event in stored.batch.decode().map_err(|error| unreadable(error.into()))? {
                let identity = ledger.record(&event, None).map_err(unreadable)?;
                asked.extend(identity.zip(open(&event)));
                if let Some(EventType::ExecutionStarted(start)) = event.event_type {
                    started = Some(start);
                }
            }
        }
    }
    let open = asked.into_iter().filter(|(identity, _)| ledger.open(*identity).is_some());
    Ok(Past { started, open: open.map(|(_, open)| open).collect() })
}

/// What an event asks for, if it asks for something that is answered.
fn open(event: &HistoryEvent) -> Option<Open> {
    Some(match event.event_type.as_ref()? {
        EventType::TaskScheduled(task) => Open::Activity { name: task.name.clone() },
        EventType::TimerCreated(timer) => {
            let due = timer.fire_at.as_ref().and_then(|at| to_millis_ceil(at).ok());
            Open::Timer { due: Timestamp(due.unwrap_or_default()) }
        }
        EventType::SubOrchestrationInstanceCreated(child) => {
            Open::Child { id: child.instance_id.clone(), name: child.name.clone() }
        }
        EventType::EntityOperationCalled(call) => {
            Open::Entity { id: call.target_instance_id.clone().unwrap_or_default() }
        }
        EventType::EntityLockRequested(request) => Open::Entity { id: request.lock_set.join(", ") },
        _ => return None,
    })
}

/// The answer for a living instance; `None` for one that has ended.
pub(crate) async fn waiting(
    hub: &dyn Manage,
    id: &InstanceId,
    record: &Record,
    (open, now): (Vec<Open>, Timestamp),
) -> Result<Option<Waiting>, Refused> {
    if record.status.is_ended() {
        return Ok(None);
    }
    let workers = if needs_worker(record, &open, now) { workers(hub).await? } else { None };
    let line = line(id, record, (&open, workers), now);
    Ok(Some(Waiting { line, open, workers }))
}

/// Whether only a worker can bring it on.
fn needs_worker(record: &Record, open: &[Open], now: Timestamp) -> bool {
    let runnable = |open: &Open| match open {
        Open::Activity { .. } => true,
        Open::Timer { due } => *due <= now,
        Open::Child { .. } | Open::Entity { .. } => false,
    };
    match record.status {
        Status::Pending => record.times.scheduled.is_none_or(|at| at <= now),
        Status::Running => open.iter().any(runnable),
        _ => false,
    }
}

/// How many workers are connected, if the store can tell.
pub(crate) async fn workers(hub: &dyn Manage) -> Result<Option<usize>, Refused> {
    // A store that knows by more than time whether a host is dead finds the dead ones while it counts the work.
    hub.scale().await?;
    let (mut now, mut sessions) = (None, Vec::new());
    // Sessions are few, and all in the first part.
    for item in hub.dump(None).await?.items {
        match item {
            DumpItem::Now(at) => now = Some(at),
            DumpItem::Session(session) => sessions.push(session.expires_at),
            _ => {}
        }
    }
    Ok(now.map(|now| sessions.into_iter().filter(|expires_at| *expires_at > now).count()))
}

fn line(
    id: &InstanceId,
    record: &Record,
    (open, workers): (&[Open], Option<usize>),
    now: Timestamp,
) -> String {
    if let Some(trouble) = &record.trouble {
        let (kind, attempts, since) = (trouble.kind, trouble.attempts, show_due(trouble.since, now));
        return format!("nothing, it is stalled ({kind:?}, attempt {attempts}, {since}): {}", trouble.reason);
    }
    match record.status {
        Status::Suspended if open.is_empty() => {
            format!("`dauer resume {id}`: it is suspended")
        }
        Status::Suspended => format!("`dauer resume {id}`: it is suspended; then for {}", list(open, now)),
        Status::Pending => match (record.times.scheduled, workers) {
            (Some(at), _) if at > now => format!("its scheduled start, {}", show_due(at, now)),
            (_, Some(0)) => "a worker: none is connected to this store".to_owned(),
            (_, count) => {
                let version = record.queue.version.as_ref();
                let version = version.map(|version| format!(" in version '{version}'")).unwrap_or_default();
                let none = count.map(|count| format!(", {count} connected and none has taken it yet"));
                format!("a worker that has '{}'{version}{}", record.queue.name, none.unwrap_or_default())
            }
        },
        Status::Running if record.entity.is_some() => "a message".to_owned(),
        Status::Running => {
            let nobody = if workers == Some(0) { "; no worker is connected to this store" } else { "" };
            format!("{}{nobody}", list(open, now))
        }
        ended => format!("nothing, it is {}", status_name(ended)),
    }
}

/// What is open, as a part of a sentence.
fn list(open: &[Open], now: Timestamp) -> String {
    let (mut activities, mut children, mut entities) = (Vec::new(), Vec::new(), Vec::new());
    let mut timers = Vec::new();
    for each in open {
        match each {
            Open::Activity { name } => activities.push(format!("'{name}'")),
            Open::Child { id, name } => children.push(format!("'{id}' ({name})")),
            Open::Entity { id } => entities.push(format!("'{id}'")),
            Open::Timer { due } => timers.push(*due),
        }
    }
    let mut parts = Vec::new();
    for (one, many, names) in [
        ("activity", "activities", activities),
        ("child", "children", children),
        ("entity", "entities", entities),
    ] {
        match names.as_slice() {
            [] => {}
            [name] => parts.push(format!("{one} {name}")),
            names => parts.push(format!("{} {many} ({})", names.len(), counted(names))),
        }
    }
    // Whoever waits for nothing or for time may also wait for an event, which leaves no trace until it comes.
    let events = parts.is_empty();
    if let Some(first) = timers.iter().min() {
        let due = show_due(*first, now);
        parts.push(match timers.len() {
            1 => format!("a timer, due {due}"),
            many => format!("{many} timers, the first due {due}"),
        });
    }
    if events {
        parts.push("an event (which one, a history does not tell)".to_owned());
    }
    parts.join(if events { ", or " } else { ", " })
}

/// Names with how often they occur.
fn counted(names: &[String]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    let left = counts.len().saturating_sub(NAMES_SHOWN);
    let shown = counts.iter().take(NAMES_SHOWN).map(|(name, count)| match count {
        1 => (*name).to_owned(),
        count => format!("{name} x {count}"),
    });
    let mut shown: Vec<String> = shown.collect();
    if left > 0 {
        shown.push(format!("and {left} more"));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_open_fits_into_a_line() {
        let activity = |name: &str| Open::Activity { name: name.to_owned() };
        let now = Timestamp(1_700_000_000_000);
        let timer = |seconds: i64| Open::Timer { due: Timestamp(now.0 + seconds * 1_000) };
        let child = Open::Child { id: "c-1".to_owned(), name: "pack".to_owned() };
        let event = "an event (which one, a history does not tell)";
        assert_eq!(list(&[], now), event);
        assert_eq!(
            list(&[timer(60)], now),
            format!("a timer, due 2023-11-14T22:14:20Z (in 1 min 0 s), or {event}")
        );
        assert_eq!(
            list(&[timer(60), timer(30), activity("ship")], now),
            "activity 'ship', 2 timers, the first due 2023-11-14T22:13:50Z (in 30 s)"
        );
        assert_eq!(
            list(&[child, activity("a"), activity("a")], now),
            "2 activities ('a' x 2), child 'c-1' (pack)"
        );
        let many: Vec<_> = ["g", "f", "e", "d", "c", "b", "a"].map(activity).to_vec();
        assert_eq!(list(&many, now), "7 activities ('a', 'b', 'c', 'd', 'e', and 2 more)");
    }
}
