//! Limits (rule 14).

use std::time::Duration;

use dauer_core::limits;
use dauer_store::{Checkpoint, History, Limit, Message, Refused, StoreLimits, Timestamp};

/// Room for names, ids and trace context beside the payload of an event.
const EVENT_BYTES_BESIDE_PAYLOAD: u64 = 1024 * 1024;

/// The limits of a store without other settings.
#[must_use]
pub fn default_limits() -> StoreLimits {
    StoreLimits {
        message_bytes: limits::PAYLOAD_BYTES_MAX as u64 + EVENT_BYTES_BESIDE_PAYLOAD,
        checkpoint_bytes: limits::HISTORY_BYTES_MAX,
        // An action makes one item. The end of a run adds an answer, and unlocks and terminates for open work.
        checkpoint_items: 2 * limits::ACTIONS_PER_TURN_MAX as u64,
        delay: limits::TIMER_MAX,
        removed_starts: limits::REMOVED_STARTS_MAX as u64,
        mail_bytes: limits::MAIL_BYTES_MAX,
    }
}

/// Checks one message.
///
/// # Errors
/// [`Refused::TooLarge`] if its event or its delay is beyond a limit.
pub fn check_message(limits: &StoreLimits, now: Timestamp, message: &Message) -> Result<(), Refused> {
    within("message bytes", message.event.len() as u64, limits.message_bytes)?;
    within("message delay in ms", millis(message.visible_at.since(now)), millis(limits.delay))
}

/// Checks a checkpoint and every message in it.
///
/// # Errors
/// [`Refused::TooLarge`] if anything is beyond a limit.
pub fn check_checkpoint(
    limits: &StoreLimits,
    now: Timestamp,
    checkpoint: &Checkpoint,
) -> Result<(), Refused> {
    let Checkpoint { completions, history, tasks, timers, messages, .. } = checkpoint;
    let (batches, prologue) = match history {
        History::Append(batch) => (std::slice::from_ref(batch), [].as_slice()),
        History::Replace { batches, prologue, .. } => (batches.as_slice(), prologue.as_slice()),
    };
    let answers = completions.iter().map(|completion| &completion.answer);
    let mut bytes: u64 = batches.iter().map(|batch| batch.events.len() as u64).sum();
    for message in timers.iter().chain(messages).chain(prologue).chain(answers) {
        check_message(limits, now, message)?;
        bytes = bytes.saturating_add(message.event.len() as u64);
    }
    for task in tasks {
        within("message bytes", task.event.len() as u64, limits.message_bytes)?;
        bytes = bytes.saturating_add(task.event.len() as u64);
    }
    let items = tasks.len() + timers.len() + messages.len();
    within("checkpoint items", items as u64, limits.checkpoint_items)?;
    within("checkpoint bytes", bytes, limits.checkpoint_bytes)
}

fn within(name: &'static str, found: u64, allowed: u64) -> Result<(), Refused> {
    if found <= allowed { Ok(()) } else { Err(Refused::TooLarge(Limit { name, found, allowed })) }
}

/// A duration in milliseconds, at most `u64::MAX`.
#[must_use]
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A turn that core accepts must fit, or it could never be committed. Much larger limits would protect nothing.
    #[test]
    fn default_limits_fit_core_with_little_room() {
        let limits = default_limits();
        let beside = limits.message_bytes - limits::PAYLOAD_BYTES_MAX as u64;
        assert!((100_000..10_000_000).contains(&beside), "{beside} bytes for names, ids and trace context");
        let items = limits.checkpoint_items / limits::ACTIONS_PER_TURN_MAX as u64;
        assert_eq!(items, 2, "each action may leave an item, and one more when its run ends");
        assert_eq!(limits.checkpoint_bytes, limits::HISTORY_BYTES_MAX);
        assert_eq!(limits.delay, limits::TIMER_MAX);
    }
}
