//! Commits: the record fields that the store sets, and the memory of consumed messages (rules 9, 10 and 15).

use dauer_store::{Checkpoint, Class, Deaths, History, HostId, Message, MessageId, Record, Times, Timestamp};

use super::is_remembered;

/// Sets the store's fields in the record of a commit. `history` has the events and bytes of the history after the commit.
pub fn stamp(record: &mut Record, old: &Record, history: (u32, u64), now: Timestamp) {
    let begun = record.start != old.start;
    let unset = record.times.created == Times::default().created;
    record.times.created = match (begun, unset) {
        // Another start begins another run, unless the commit names the old time: the child of a rewound parent goes on.
        (true, _) if record.times.created != old.times.created => now,
        (false, true) => old.times.created,
        _ => record.times.created,
    };
    record.times.accepted = if begun { now } else { old.times.accepted };
    record.times.updated = now;
    // A commit to an ended run does not move its end.
    let ended_before = old.times.completed.filter(|_| old.execution == record.execution);
    record.times.completed = record.status.is_ended().then(|| ended_before.unwrap_or(now));
    record.revision = old.revision.next();
    (record.history_len, record.history_bytes) = history;
    record.attempts = 0;
    record.deaths = Deaths::default();
    record.trouble = None;
}

/// Whether a commit changes a field that watchers of the instance are notified of.
#[must_use]
pub fn is_shown(old: &Record, new: &Record) -> bool {
    // Details that stayed are not looked at.
    let reports = !old.details.is_shared_with(&new.details)
        && old.details.custom_status() != new.details.custom_status();
    old.status != new.status || old.execution != new.execution || reports
}

/// The owner of an amendment, which no host commits.
#[must_use]
#[expect(clippy::expect_used, reason = "a constant, not empty, short, without control characters")]
pub fn amender() -> HostId {
    HostId::new("amend").expect("a valid host id")
}

/// The start that an amendment puts before the inbox as that of the current run. It must be none that was applied before.
#[must_use]
pub fn amended_start(checkpoint: &Checkpoint) -> Option<&Message> {
    match &checkpoint.history {
        History::Replace { prologue, .. } => prologue.iter().find(|m| m.id == checkpoint.record.start),
        History::Append(_) => None,
    }
}

/// Why the instance remembers the id of a consumed message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recall {
    /// The message waited and [is remembered](is_remembered).
    Applied,
    /// An amendment carried the message out without its having waited.
    NeverWaited,
    /// An amendment took out a waiting start and does not begin it. The hub remembers it like the start of a removed instance.
    Overtaken,
}

/// Why the instance with that record remembers `id`, which a commit consumes; `None` if it does not. `taken` is the message if
/// it waited. `amended` is the start of the record that an amendment leaves; a turn has none. The record knows its own start.
#[must_use]
pub fn recall(
    record: &Record,
    id: MessageId,
    taken: Option<&Message>,
    amended: Option<MessageId>,
) -> Option<Recall> {
    let from_outside = amended.is_some() && id != record.start && amended != Some(id);
    match taken {
        None => from_outside.then_some(Recall::NeverWaited),
        Some(start) if matches!(start.class, Class::Start(_)) => from_outside.then_some(Recall::Overtaken),
        Some(message) => is_remembered(message).then_some(Recall::Applied),
    }
}
