//! An instance as it is shown: the same fields for people and programs.

use std::collections::BTreeMap;
use std::io::{self, Write};

use dauer::{Failure as Cause, InstanceId, Record, Status, Timestamp, Trouble};
use dauer_core::HostId;
use dauer_core::model::Deaths;
use dauer_proto::TaskFailureDetails;
use dauer_store::{Control, Holder, Inspection, OpenTask, WaitingClass};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::output::{Common, Format, embedded, plain, status_name};
use crate::time::{Dates, show};
use crate::waiting::{Waiting, live_host};

/// Characters of a payload that are shown to people: a screen is not the place for more.
const PAYLOAD_CHARS_SHOWN: usize = 400;

/// An instance in JSON. Every field is always there: what an instance does not have is null.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Instance<'r> {
    id: &'r str,
    name: &'r str,
    version: Option<&'r str>,
    status: &'static str,
    created: String,
    updated: String,
    scheduled: Option<String>,
    completed: Option<String>,
    execution: String,
    generation: Option<u32>,
    history_events: Option<u32>,
    history_bytes: Option<u64>,
    tags: &'r BTreeMap<String, String>,
    parent: Option<&'r str>,
    worker_deaths: u32,
    server_deaths: u32,
    /// The child for which it waits and which is stalled, where that was looked for.
    stalled_child: Option<String>,
    custom_status: Option<Box<RawValue>>,
    output: Option<Box<RawValue>>,
    failure: Option<FailureView>,
    trouble: Option<TroubleView<'r>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entity: Option<EntityView<'r>>,
}

#[derive(Serialize)]
struct FailureView {
    #[serde(rename = "type")]
    kind: String,
    message: String,
    stack: Option<String>,
    retryable: bool,
    cause: Option<Box<FailureView>>,
}

#[derive(Serialize)]
struct TroubleView<'r> {
    kind: String,
    reason: &'r str,
    since: String,
    attempts: u32,
    build: Option<&'r str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EntityView<'r> {
    state: Option<Box<RawValue>>,
    locked_by: Option<&'r str>,
}

impl From<Cause> for FailureView {
    fn from(failure: Cause) -> Self {
        let cause = failure.cause.map(|cause| Box::new(Self::from(*cause)));
        let Cause { kind, message, stack, retryable, .. } = failure;
        Self { kind, message, stack, retryable, cause }
    }
}

/// A record whose counts are known. A server does not tell them: then one that has begun has no commits.
pub(crate) fn counted(record: &Record) -> Option<&Record> {
    (record.revision.0 > 0 || record.status == Status::Pending).then_some(record)
}

/// The failure of a record, if it has one.
pub(crate) fn failure_of(record: &Record) -> Option<Cause> {
    let details = record.details.failure()?.decode::<TaskFailureDetails>();
    Some(details.map_or_else(|error| Cause::new("Undecodable", error.to_string()), Cause::from))
}

impl<'r> Instance<'r> {
    pub(crate) fn new(id: &'r InstanceId, record: &'r Record) -> Self {
        let counted = counted(record);
        let trouble = record.trouble.as_deref().map(|trouble| TroubleView {
            kind: format!("{:?}", trouble.kind),
            reason: &trouble.reason,
            since: show(trouble.since),
            attempts: trouble.attempts,
            build: trouble.build.as_deref(),
        });
        let entity = record.details.entity().map(|entity| EntityView {
            state: entity.state.as_ref().and_then(|state| embedded(state.as_str())),
            locked_by: entity.lock.as_ref().map(|lock| lock.owner.as_str()),
        });
        Self {
            id: id.as_str(),
            name: &record.queue.name,
            version: record.queue.version.as_deref(),
            status: status_name(record.status),
            created: show(record.times.created),
            updated: show(record.times.updated),
            scheduled: record.times.scheduled.map(show),
            completed: record.times.completed.map(show),
            execution: record.execution.to_string(),
            generation: counted.map(|record| record.generation),
            history_events: counted.map(|record| record.history_len),
            history_bytes: counted.map(|record| record.history_bytes),
            tags: &record.tags,
            parent: record.parent.as_deref().map(|parent| parent.instance.as_str()),
            worker_deaths: record.deaths.workers,
            server_deaths: record.deaths.servers,
            stalled_child: None,
            custom_status: record.details.custom_status().and_then(|status| embedded(status.as_str())),
            output: record.details.output().and_then(|output| embedded(output.as_str())),
            failure: failure_of(record).map(FailureView::from),
            trouble,
            entity,
        }
    }

    /// The same instance, which waits for a child that is stalled.
    pub(crate) fn waits_for(self, stalled_child: Option<String>) -> Self {
        Self { stalled_child, ..self }
    }
}

/// An instance with what `get` finds out beyond its record.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Detailed<'r> {
    #[serde(flatten)]
    pub(crate) instance: Instance<'r>,
    pub(crate) input: Option<Box<RawValue>>,
    pub(crate) waiting_for: Option<Waiting>,
    /// From when a worker may try the turn of a stalled instance again.
    pub(crate) next_try: Option<String>,
    pub(crate) held_by: Option<HolderView<'r>>,
    pub(crate) inbox: Option<InboxView>,
    pub(crate) open_tasks: Option<Vec<TaskView<'r>>>,
}

/// The session that holds an instance or a task.
#[derive(Serialize)]
pub(crate) struct HolderView<'r> {
    worker: Option<&'r str>,
    session: String,
    lives: bool,
}

impl<'r> HolderView<'r> {
    pub(crate) fn new(holder: &'r Holder) -> Self {
        let worker = holder.host.as_ref().map(HostId::as_str);
        Self { worker, session: format!("{:032x}", holder.session.0), lives: holder.lives }
    }
}

/// The messages that wait for an instance.
#[derive(Serialize)]
pub(crate) struct InboxView {
    count: u64,
    /// The first of them.
    messages: Vec<MessageView>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MessageView {
    id: String,
    class: &'static str,
    visible_at: String,
}

impl InboxView {
    pub(crate) fn new(seen: &Inspection) -> Self {
        let messages = seen.messages.iter().map(|message| MessageView {
            id: message.id.to_string(),
            class: class_name(message.class),
            visible_at: show(message.visible_at),
        });
        Self { count: seen.waiting, messages: messages.collect() }
    }
}

/// The name of a class of messages.
fn class_name(class: WaitingClass) -> &'static str {
    match class {
        WaitingClass::Start | WaitingClass::Replacement => "start",
        WaitingClass::Rewind => "rewind",
        WaitingClass::Control(Control::Suspend) => "suspend",
        WaitingClass::Control(Control::Resume) => "resume",
        WaitingClass::Control(Control::Terminate) => "terminate",
        WaitingClass::Ordinary => "event",
    }
}

/// An activity task that has not been answered.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TaskView<'r> {
    id: String,
    event_id: i32,
    name: &'r str,
    version: Option<&'r str>,
    held_by: Option<HolderView<'r>>,
    failed_attempts: u32,
    not_before: String,
    withdrawn: bool,
}

impl<'r> TaskView<'r> {
    pub(crate) fn list(seen: &'r Inspection) -> Vec<Self> {
        let of = |task: &'r OpenTask| Self {
            id: task.id.to_string(),
            event_id: task.event_id,
            name: &task.queue.name,
            version: task.queue.version.as_deref(),
            held_by: task.holder.as_ref().map(HolderView::new),
            failed_attempts: task.attempts,
            not_before: show(task.not_before),
            withdrawn: task.withdrawn,
        };
        seen.tasks.iter().map(of).collect()
    }
}

/// The holder for people. An expired session holds an instance until another one claims it.
fn held_by(holder: &Holder) -> String {
    match (live_host(Some(holder)), &holder.host) {
        (Some(host), _) => format!("worker '{host}'"),
        (None, Some(host)) => format!("worker '{host}', which has died or lost its lease"),
        (None, None) => "a session that the store does not know".to_owned(),
    }
}

/// The waiting messages for people: how many of each class.
fn inbox(seen: &Inspection) -> String {
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    for message in &seen.messages {
        *counts.entry(class_name(message.class)).or_default() += 1;
    }
    // All starts, rewinds and control messages come first: an unlisted message is an event unless the list is full of them.
    let unlisted = seen.waiting.saturating_sub(seen.messages.len() as u64);
    let only_others = seen.messages.last().is_some_and(|last| last.class != WaitingClass::Ordinary);
    *counts.entry(if only_others { "other" } else { "event" }).or_default() += unlisted;
    let named =
        counts.iter().filter(|(_, count)| **count > 0).map(|(class, count)| format!("{count} {class}"));
    named.collect::<Vec<_>>().join(", ")
}

/// From when a worker may try the turn of a stalled instance again; `None` for an instance that is not stalled, or for which
/// nothing waits.
pub(crate) fn next_try(record: &Record, seen: Option<&Inspection>) -> Option<Timestamp> {
    record.trouble.as_ref().and(seen?.ready_at)
}

/// The next try of a stalled instance for people.
fn next_try_line(seen: &Inspection, dates: Dates) -> String {
    match (seen.ready_at, live_host(seen.holder.as_ref())) {
        (_, Some(host)) => format!("now, on worker '{host}'"),
        (Some(at), None) if at > seen.now => dates.due(at),
        (Some(_), None) => "as soon as a worker takes it".to_owned(),
        (None, None) => "when a message arrives".to_owned(),
    }
}

/// The attempts of each kind of trouble for people, the current kind first.
fn attempts(trouble: &Trouble) -> String {
    let first = std::iter::once((trouble.kind, trouble.attempts));
    let all = first.chain(trouble.others.iter().copied());
    all.map(|(kind, attempts)| format!("{attempts} ({kind:?})")).collect::<Vec<_>>().join(", ")
}

/// The processes that died with the next turn for people.
fn deaths(deaths: Deaths) -> String {
    let of = |count: u32, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let some = [(deaths.workers, "worker"), (deaths.servers, "server")].into_iter();
    some.filter(|(count, _)| *count > 0).map(|(count, what)| of(count, what)).collect::<Vec<_>>().join(", ")
}

/// Facts about an instance that its record does not hold.
pub(crate) struct Known<'a> {
    pub(crate) input: Option<&'a str>,
    pub(crate) waiting: Option<&'a Waiting>,
    pub(crate) inspection: Option<&'a Inspection>,
    /// The current run began with a rewind.
    pub(crate) rewound: bool,
}

/// Writes an instance for people: one thing a line, only what there is.
pub(crate) fn write(
    out: &mut impl Write,
    (id, record): (&InstanceId, &Record),
    known: Known<'_>,
    common: &Common,
) -> io::Result<()> {
    let Known { input, waiting, inspection, rewound } = known;
    let (paint, dates) = (common.paint(), common.dates());
    let mut line = |label: &str, text: &str| writeln!(out, "{} {text}", paint.dim(&format!("{label:<14}")));
    line("id", &plain(id.as_str()))?;
    let version = record.queue.version.as_ref().map(|version| format!(" in version {version}"));
    line("name", &plain(&format!("{}{}", record.queue.name, version.unwrap_or_default())))?;
    let stalled = record.trouble.is_some();
    let status = status_name(record.status);
    line("status", &paint.status(record.status, stalled, status))?;
    let nothing = || format!("nothing, it is {status}");
    line("waiting for", &plain(&waiting.map_or_else(nothing, |waiting| waiting.line.clone())))?;
    if let Some(trouble) = record.trouble.as_deref() {
        line("attempts", &attempts(trouble))?;
        inspection.map_or(Ok(()), |seen| line("next try", &plain(&next_try_line(seen, dates))))?;
    }
    if record.deaths.all() > 0 {
        line("deaths", &deaths(record.deaths))?;
    }
    if let Some(seen) = inspection {
        seen.holder.as_ref().map_or(Ok(()), |holder| line("held by", &plain(&held_by(holder))))?;
        if seen.waiting > 0 {
            line("inbox", &inbox(seen))?;
        }
    }
    let times = &record.times;
    let ended = ("ended", times.completed);
    let times = [("created", Some(times.created)), ("scheduled", times.scheduled)]
        .into_iter()
        .chain([("updated", Some(times.updated)), ended]);
    for (label, at) in times {
        at.map_or(Ok(()), |at| line(label, &dates.show(at)))?;
    }
    if let Some(record) = counted(record) {
        line("history", &format!("{} events, {} bytes", record.history_len, record.history_bytes))?;
    }
    if common.output == Format::Wide {
        line("execution", &record.execution.to_string())?;
        counted(record).map_or(Ok(()), |record| line("commits", &record.revision.0.to_string()))?;
    }
    if record.generation > 0 {
        let how = if rewound { "by rewinding" } else { "by continuing as new" };
        line("run", &format!("{}, {how}", record.generation + 1))?;
    }
    if let Some(parent) = &record.parent {
        line("parent", &plain(parent.instance.as_str()))?;
    }
    for (key, value) in &record.tags {
        line("tag", &plain(&format!("{key}={value}")))?;
    }
    let state = record.details.entity().and_then(|entity| entity.state.as_ref());
    let payloads = [("custom status", record.details.custom_status()), ("state", state)]
        .map(|(label, payload)| (label, payload.map(|payload| payload.as_str())))
        .into_iter()
        .chain([("input", input), ("output", record.details.output().map(|output| output.as_str()))]);
    for (label, payload) in payloads {
        payload.map_or(Ok(()), |payload| line(label, &shortened(payload)))?;
    }
    let mut failure = failure_of(record).map(Box::new);
    let mut label = "failure";
    while let Some(each) = failure {
        line(label, &plain(&each.to_string()))?;
        (failure, label) = (each.cause, "caused by");
    }
    Ok(())
}

/// A payload for people: one line, and not for ever.
fn shortened(payload: &str) -> String {
    let text = plain(payload);
    match text.char_indices().nth(PAYLOAD_CHARS_SHOWN) {
        Some((cut, _)) => format!("{} ... ({} bytes; -o json shows all)", &text[..cut], payload.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_payloads_are_cut_between_characters() {
        let long = "ä".repeat(PAYLOAD_CHARS_SHOWN + 1);
        let shown = shortened(&long);
        assert!(shown.starts_with(&"ä".repeat(PAYLOAD_CHARS_SHOWN)) && !shown.contains(&long), "{shown}");
        assert!(shown.ends_with(" ... (802 bytes; -o json shows all)"), "{shown}");
        assert_eq!(shortened(&long[2..]), long[2..]);
    }
}
