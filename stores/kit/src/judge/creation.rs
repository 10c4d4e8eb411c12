//! Creation of instances (rules 5, 18 and 21).

use std::ops::RangeInclusive;

use dauer_core::limits::START_RETRY_MAX;
use dauer_store::{
    Cause, Class, Create, ExecutionId, Message, MessageId, Opening, Over, Record, Refused, Reuse, Revision,
    Status, Times, Timestamp,
};

/// What a start that is no repeat does to an instance that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// It takes the place of the ended instance.
    Replace,
    /// It goes into the inbox of the living one, as [`terminating`].
    Send,
}

/// The start of a creation.
///
/// # Errors
/// If the message is of another class.
pub fn start_of(create: &Create) -> Result<&Opening, Refused> {
    match &create.start.class {
        Class::Start(start) => Ok(start),
        _ => Err(Refused::NotExecuted(Cause::new("only a message of class Start creates an instance"))),
    }
}

/// What a start does to an instance in that status. `opening` says whether a start or rewind waits for the instance; only an
/// ended instance needs it. It counts as pending then, because that start was acknowledged first.
///
/// # Errors
/// [`Refused::Exists`] if the policy does not allow to replace the instance.
pub fn creation(status: Status, opening: bool, reuse: &Reuse) -> Result<Creation, Refused> {
    let status = if status.is_ended() && opening { Status::Pending } else { status };
    match status {
        _ if !reuse.replaceable.contains(&status) => Err(Refused::Exists(status)),
        ended if ended.is_ended() => Ok(Creation::Replace),
        _ => Ok(Creation::Send),
    }
}

/// The record of an instance that is created now (rule 5).
#[must_use]
pub fn newborn(record: Record, revision: Revision, now: Timestamp) -> Record {
    let times = Times { created: now, accepted: now, updated: now, ..record.times };
    Record { revision, times, ..record }
}

/// The same start with the wish to end the run that it meets.
#[must_use]
pub fn terminating(mut message: Message) -> Message {
    if let Class::Start(start) = &mut message.class {
        start.over = Over::Terminate;
    }
    message
}

/// Whether a start that was accepted at `at` may still be retried.
#[must_use]
pub fn is_recent(at: Timestamp, now: Timestamp) -> bool {
    now.since(at) <= START_RETRY_MAX
}

/// The ids of all starts that share the likeness of `id`.
#[must_use]
pub fn likeness(id: MessageId) -> RangeInclusive<MessageId> {
    let likeness = id.likeness();
    let (mut first, mut last) = ([0; 16], [u8::MAX; 16]);
    first[..likeness.len()].copy_from_slice(&likeness);
    last[..likeness.len()].copy_from_slice(&likeness);
    MessageId(first)..=MessageId(last)
}

/// The current run, if a start of the same likeness began it recently.
#[must_use]
pub fn begun_alike(record: &Record, id: MessageId, now: Timestamp) -> Option<ExecutionId> {
    let alike = record.start.likeness() == id.likeness() && is_recent(record.times.accepted, now);
    alike.then_some(record.execution)
}
