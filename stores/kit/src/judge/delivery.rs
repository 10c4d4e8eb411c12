//! Delivery: whether an instance takes a message (rules 1, 4, 5 and 10).

use dauer_core::limits::MEMORY_AGE_MAX;
use dauer_store::{Class, DropReason, Message, Opening, Record, Revision, Timestamp};

/// The start that a start or rewind carries. Both create and reopen instances.
#[must_use]
pub fn opens(message: &Message) -> Option<&Opening> {
    match &message.class {
        Class::Start(start) | Class::Rewind(start) => Some(start),
        Class::Control(_) | Class::Ordinary => None,
    }
}

/// Whether a message is the start that the record names.
#[must_use]
pub fn is_own_start(record: &Record, message: &Message) -> bool {
    message.id == record.start && matches!(message.class, Class::Start(_))
}

/// Whether the id of a message is remembered once it is applied. An answer is applied once because its schedule is open
/// once. The record names the start; its id is remembered when the record names another one.
#[must_use]
pub fn is_remembered(message: &Message) -> bool {
    message.answers.is_none() && !matches!(message.class, Class::Start(_))
}

/// Whether an id that was applied at `at` still counts as applied (rule 10).
#[must_use]
pub fn is_known(at: Timestamp, now: Timestamp) -> bool {
    now.since(at) <= MEMORY_AGE_MAX
}

/// Whether the instance has ended and the message is neither start nor rewind. Such a message needs
/// [`Facts::for_next_run`].
#[must_use]
pub fn follows_end(record: &Record, message: &Message) -> bool {
    record.status.is_ended() && opens(message).is_none()
}

/// The facts that [`why_dropped`] needs beside record and message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts {
    /// The message waits, was applied, is the record's start, or is the start of a removed instance.
    pub repeats: bool,
    /// A waiting start or rewind begins the run that the message is for. Only of messages that [`follows_end`] names.
    pub for_next_run: bool,
}

/// Why an instance drops a message on arrival; `None` if it takes the message. The hold decides when a turn gets it.
#[must_use]
pub fn why_dropped(record: &Record, message: &Message, facts: Facts) -> Option<DropReason> {
    let ended = follows_end(record, message);
    let other_run = message.execution.is_some_and(|execution| execution != record.execution);
    if facts.repeats {
        Some(DropReason::Repeat)
    } else if ended && facts.for_next_run {
        None
    } else if other_run && !planted!(Bug::StaleExecution) {
        Some(DropReason::OtherExecution)
    } else {
        ended.then_some(DropReason::Ended)
    }
}

/// The record of the instance that a message to an absent one creates, in a hub whose floor is at `floor` (rule 5).
#[must_use]
pub fn created_by(message: &Message, floor: Revision) -> Option<Record> {
    let record = match opens(message) {
        Some(opening) => opening.record(message.id),
        None => Record::entity(message.to.entity_name()?, message, floor),
    };
    // A message for one run of an instance cannot begin another.
    message.execution.is_none_or(|execution| execution == record.execution).then_some(record)
}

/// Whether a message ends the delay of the instance (rule 26): control, or the start that replaces a living run.
#[must_use]
pub fn hurries(record: &Record, message: &Message) -> bool {
    let hurries = match message.class {
        Class::Control(_) => true,
        Class::Start(_) => !is_own_start(record, message),
        Class::Rewind(_) | Class::Ordinary => false,
    };
    hurries && !record.status.is_ended()
}
