//! "What is it waiting for?", answered in one line: from the record, the open ends of the history, the inspection, and the
//! number of connected workers.

mod around;
mod past;

use std::collections::BTreeMap;

use dauer::{Hub, InstanceId, Record, Status, Timestamp};
use dauer_store::Inspection;
use serde::{Serialize, Serializer};

use crate::error::Failure;
use crate::output::{Common, status_name};
use crate::program::quoted;
use crate::time::{Dates, show};
use around::{Turn, turn};
pub(crate) use around::{live_host, workers};
pub(crate) use past::{Past, past};

/// Names that one line has room for.
const NAMES_SHOWN: usize = 5;

/// Children that are looked at for one that is stalled. Each is a call.
const CHILDREN_LOOKED_AT: usize = 20;

/// What an instance is waiting for.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Waiting {
    /// The answer, in one line.
    pub(crate) line: String,
    /// What the history leaves open.
    pub(crate) open: Vec<Open>,
    /// How many workers are connected; null where that does not matter or the server is too old to tell.
    pub(crate) workers: Option<usize>,
}

/// Something that was asked for and is not answered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Open {
    /// An activity that has no result.
    Activity {
        name: String,
        /// From 1: those of this name that failed, and beginnings that came to nothing because a worker died.
        attempt: u32,
        /// The worker that runs it.
        worker: Option<String>,
        /// Whether the inspection lists its task. Otherwise the worker is not known.
        #[serde(skip)]
        found: bool,
    },
    /// A timer that has not fired.
    Timer {
        #[serde(serialize_with = "as_time")]
        due: Timestamp,
    },
    /// A child that has not ended.
    Child {
        id: String,
        name: String,
        /// Where it stands: its status, or that it is stalled.
        status: Option<&'static str>,
        /// Why it is stalled: the kind and the reason.
        trouble: Option<String>,
    },
    /// A call or lock of an entity.
    Entity { id: String },
}

fn as_time<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&show(*at))
}

/// All that the answer is made of.
struct Situation<'a> {
    record: &'a Record,
    open: Vec<Open>,
    failed: Option<(String, u32)>,
    raised: Vec<String>,
    turn: Turn,
    dates: Dates,
    /// The command that resumes the instance.
    resume: String,
}

/// The answer for a living instance; `None` for one that has ended.
pub(crate) async fn waiting(
    hub: &Hub,
    (id, record): (&InstanceId, &Record),
    (past, inspection): (Past, Option<Inspection>),
    common: &Common,
) -> Result<Option<Waiting>, Failure> {
    if record.status.is_ended() {
        return Ok(None);
    }
    let Past { mut open, failed, raised, .. } = past;
    for (identity, each) in &mut open {
        let task = inspection.iter().flat_map(|seen| &seen.tasks).find(|task| task.id == *identity);
        if let (Open::Activity { attempt, worker, found, .. }, Some(task)) = (each, task) {
            *attempt += task.tried();
            (*worker, *found) = (live_host(task.holder.as_ref()), true);
        }
    }
    let mut open = open.into_iter().map(|(_, each)| each).collect::<Vec<_>>();
    children(hub, &mut open).await?;
    let turn = turn(inspection.as_ref(), record.times.updated);
    let (dates, resume) = (common.dates(), common.command(&format!("resume {}", quoted(id.as_str()))));
    let situation = Situation { record, open, failed, raised, turn, dates, resume };
    let workers = if situation.needs_worker() { workers(hub).await? } else { None };
    let line = situation.line(workers);
    Ok(Some(Waiting { line, open: situation.open, workers }))
}

/// Since when an instance waits for its first turn, if it does.
pub(crate) fn unbegun_since(record: &Record, now: Timestamp) -> Option<Timestamp> {
    let since = record.times.scheduled.map_or(record.times.created, |at| at.max(record.times.created));
    let waits = record.status == Status::Pending && record.trouble.is_none() && since <= now;
    waits.then_some(since)
}

/// The code that an instance needs.
pub(crate) fn code_of(record: &Record) -> String {
    let version = record.queue.version.as_ref();
    let version = version.map(|version| format!(" in version '{version}'")).unwrap_or_default();
    format!("'{}'{version}", record.queue.name)
}

/// Finds out where the children stand, as far as they are looked at. Stalled ones come first.
async fn children(hub: &Hub, open: &mut [Open]) -> Result<(), Failure> {
    let client = hub.client();
    for each in open.iter_mut().filter(|each| matches!(each, Open::Child { .. })).take(CHILDREN_LOOKED_AT) {
        let Open::Child { id, status, trouble, .. } = each else { continue };
        let Ok(id) = InstanceId::new(id.as_str()) else { continue };
        let Some(record) = client.raw().get(&id).await? else { continue };
        *status = Some(match record.trouble {
            Some(_) => "stalled",
            None => status_name(record.status),
        });
        *trouble = record.trouble.map(|trouble| format!("{:?}: {}", trouble.kind, trouble.reason));
    }
    open.sort_by_key(|each| !each.is_stalled());
    Ok(())
}

impl Open {
    /// Whether it is a child that is stalled.
    fn is_stalled(&self) -> bool {
        matches!(self, Self::Child { trouble: Some(_), .. })
    }
}

impl Waiting {
    /// The first child that is stalled.
    pub(crate) fn stalled_child(&self) -> Option<String> {
        self.open.iter().find_map(|each| match each {
            Open::Child { id, trouble: Some(_), .. } => Some(id.clone()),
            _ => None,
        })
    }
}

impl Situation<'_> {
    /// Whether only a worker can bring it on.
    fn needs_worker(&self) -> bool {
        let runnable = |open: &Open| match open {
            Open::Activity { .. } => true,
            Open::Timer { due } => *due <= self.dates.now,
            Open::Child { .. } | Open::Entity { .. } => false,
        };
        match self.record.status {
            Status::Pending => unbegun_since(self.record, self.dates.now).is_some(),
            Status::Running => self.open.iter().any(runnable) || matches!(self.turn, Turn::Waits(_)),
            _ => false,
        }
    }

    fn line(&self, workers: Option<usize>) -> String {
        let (resume, dates) = (&self.resume, self.dates);
        if let Some(trouble) = &self.record.trouble {
            let (kind, attempts, since) = (trouble.kind, trouble.attempts, dates.due(trouble.since));
            let reason = &trouble.reason;
            return format!("nothing, it is stalled ({kind:?}, attempt {attempts}, {since}): {reason}");
        }
        match (self.record.status, &self.turn) {
            (Status::Suspended, _) if self.open.is_empty() => {
                format!("`{resume}`: it is suspended")
            }
            (Status::Suspended, _) => {
                format!("`{resume}`: it is suspended; then for {}", self.list())
            }
            (Status::Pending | Status::Running, Turn::Runs(host)) => {
                format!("its turn, which worker '{host}' has")
            }
            (Status::Pending, _) => match unbegun_since(self.record, dates.now) {
                Some(since) => self.code(since, workers),
                // Held back by nothing but time.
                None => {
                    let at = self.record.times.scheduled.unwrap_or(dates.now);
                    format!("its scheduled start, {}", dates.due(at))
                }
            },
            (Status::Running, Turn::Waits(since)) => self.code(*since, workers),
            (Status::Running, _) if self.record.details.entity().is_some() => "a message".to_owned(),
            (Status::Running, _) => {
                let missing = if workers == Some(0) { "; no worker is connected to this store" } else { "" };
                format!("{}{missing}", self.list())
            }
            (ended, _) => format!("nothing, it is {}", status_name(ended)),
        }
    }

    /// A turn that no worker takes.
    fn code(&self, since: Timestamp, workers: Option<usize>) -> String {
        let there = match workers {
            None => String::new(),
            Some(0) => "; none is connected to this store".to_owned(),
            Some(1) => "; 1 is connected and has not taken it".to_owned(),
            Some(count) => format!("; {count} are connected and none has taken it"),
        };
        format!("a worker that has {}, since {}{there}", code_of(self.record), self.dates.due(since))
    }

    /// What is open, as a part of a sentence.
    fn list(&self) -> String {
        let (mut activities, mut children, mut entities) = (Vec::new(), Vec::new(), Vec::new());
        let (mut timers, mut stalled) = (Vec::new(), None);
        for each in &self.open {
            match each {
                Open::Activity { name, .. } => activities.push(format!("'{name}'")),
                Open::Child { id, name, trouble: Some(trouble), .. } => {
                    stalled.get_or_insert(trouble);
                    children.push(format!("'{id}' ({name}, stalled)"));
                }
                Open::Child { id, name, status: None, .. } => children.push(format!("'{id}' ({name})")),
                Open::Child { id, name, status: Some(status), .. } => {
                    children.push(format!("'{id}' ({name}, {status})"));
                }
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
                [name] => parts.push(format!("{one} {name}{}", self.who(one))),
                names => {
                    parts.push(format!("{} {many} ({}){}", names.len(), counted(names), self.who(many)));
                }
            }
        }
        // Beside nothing or a timer it may wait for an event, which leaves no trace until it comes.
        let events = parts.is_empty();
        if let Some(first) = timers.iter().min() {
            let due = self.dates.due(*first);
            let after = self.failed.as_ref().map(|(name, count)| match count {
                1 => format!(" after activity '{name}' failed"),
                count => format!(" after activity '{name}' failed {count} times"),
            });
            let after = after.unwrap_or_default();
            parts.push(match timers.len() {
                1 => format!("a timer, due {due}{after}"),
                many => format!("{many} timers, the first due {due}{after}"),
            });
        }
        if events {
            parts.push(self.event());
        }
        let parts = parts.join(if events { ", or " } else { ", " });
        match stalled {
            Some(trouble) => format!("{parts}; stalled by {trouble}"),
            None => parts,
        }
    }

    /// Which workers run the activities, in as many words as there is room for.
    fn who(&self, what: &str) -> String {
        let workers = self.open.iter().filter_map(|each| match each {
            Open::Activity { attempt, worker, found, .. } => Some((attempt, worker, found)),
            _ => None,
        });
        let workers: Vec<_> = workers.collect();
        match (what, workers.as_slice()) {
            ("activity", [(attempt, Some(worker), _)]) => {
                format!(" (attempt {attempt}, on worker '{worker}')")
            }
            ("activity", [(attempt, None, true)]) => format!(" (attempt {attempt}, on no worker)"),
            ("activity", [(attempt, None, false)]) => format!(" (attempt {attempt})"),
            ("activities", many) if many.iter().all(|(_, _, found)| **found) => {
                let running = many.iter().filter(|(_, worker, _)| worker.is_some()).count();
                format!(", {running} of them on a worker")
            }
            _ => String::new(),
        }
    }

    fn event(&self) -> String {
        let names: Vec<String> = self.raised.iter().map(|name| format!("'{name}'")).collect();
        let raised = match names.is_empty() {
            true => String::new(),
            false => format!("; raised so far: {}", counted(&names)),
        };
        format!("an event (which one, a history does not tell{raised})")
    }
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
    use dauer::ExecutionId;
    use dauer_core::MessageId;
    use dauer_core::model::{Kind, QueueKey};

    use super::*;
    use crate::time::TimeStyle;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);
    const EVENT: &str = "an event (which one, a history does not tell)";

    fn list(open: &[Open], failed: Option<(&str, u32)>, raised: &[&str]) -> String {
        let queue = QueueKey::new(Kind::Orchestration, "order", None);
        let record = Record::pending(queue, ExecutionId(1), MessageId([2; 16]));
        let situation = Situation {
            record: &record,
            open: open.to_vec(),
            failed: failed.map(|(name, count)| (name.to_owned(), count)),
            raised: raised.iter().map(|name| (*name).to_owned()).collect(),
            turn: Turn::Unknown,
            dates: Dates { style: TimeStyle::Iso, now: NOW },
            resume: String::new(),
        };
        situation.list()
    }

    fn activity(name: &str) -> Open {
        Open::Activity { name: name.to_owned(), attempt: 1, worker: None, found: true }
    }

    fn timer(seconds: i64) -> Open {
        Open::Timer { due: Timestamp(NOW.0 + seconds * 1_000) }
    }

    #[test]
    fn what_is_open_fits_into_a_line() {
        let child = |status| {
            let (id, name) = ("c-1".to_owned(), "pack".to_owned());
            Open::Child { id, name, status, trouble: None }
        };
        assert_eq!(list(&[], None, &[]), EVENT);
        assert_eq!(
            list(&[timer(60)], None, &[]),
            format!("a timer, due 2023-11-14T22:14:20Z (in 1 min 0 s), or {EVENT}")
        );
        assert_eq!(
            list(&[timer(60), timer(30), activity("ship")], None, &[]),
            "activity 'ship' (attempt 1, on no worker), 2 timers, the first due 2023-11-14T22:13:50Z (in 30 s)"
        );
        assert_eq!(
            list(&[child(Some("stalled")), activity("a"), activity("a")], None, &[]),
            "2 activities ('a' x 2), 0 of them on a worker, child 'c-1' (pack, stalled)"
        );
        assert_eq!(list(&[child(None)], None, &[]), "child 'c-1' (pack)");
        let many: Vec<_> = ["g", "f", "e", "d", "c", "b", "a"].map(activity).to_vec();
        let line = "7 activities ('a', 'b', 'c', 'd', 'e', and 2 more), 0 of them on a worker";
        assert_eq!(list(&many, None, &[]), line);
    }

    #[test]
    fn attempts_and_workers_are_told() {
        let worker = Some("host-1".to_owned());
        let running = Open::Activity { name: "ship".to_owned(), attempt: 3, worker, found: true };
        let line = "activity 'ship' (attempt 3, on worker 'host-1')";
        assert_eq!(list(std::slice::from_ref(&running), None, &[]), line);
        let both = list(&[running, activity("pack")], None, &[]);
        assert_eq!(both, "2 activities ('pack', 'ship'), 1 of them on a worker");
        let unknown = Open::Activity { name: "ship".to_owned(), attempt: 2, worker: None, found: false };
        assert_eq!(list(std::slice::from_ref(&unknown), None, &[]), "activity 'ship' (attempt 2)");
        let both = list(&[unknown, activity("pack")], None, &[]);
        assert_eq!(both, "2 activities ('pack', 'ship')", "nobody looked far enough");
        let pause = list(&[timer(30)], Some(("ship", 2)), &[]);
        assert!(pause.contains("(in 30 s) after activity 'ship' failed 2 times, or an event"), "{pause}");
        let pause = list(&[timer(30)], Some(("ship", 1)), &[]);
        assert!(pause.contains("(in 30 s) after activity 'ship' failed, or an event"), "{pause}");
    }

    #[test]
    fn the_events_that_came_are_told_as_the_one_that_is_awaited_cannot_be() {
        let told = list(&[], None, &["go", "aproved", "go"]);
        let line = "an event (which one, a history does not tell; raised so far: 'aproved', 'go' x 2)";
        assert_eq!(told, line);
    }
}
