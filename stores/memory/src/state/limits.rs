//! What is too large.

use std::time::Duration;

use dauer_core::limits;
use dauer_store::{Checkpoint, History, Limit, Message, Refused, StoreLimits};

use super::State;
use crate::defect::Defect;

/// Room for names, ids and trace context beside the payload of an event.
const EVENT_BYTES_BESIDE_PAYLOAD: u64 = 1024 * 1024;

/// The limits of a store that was given none.
pub(crate) fn default_limits() -> StoreLimits {
    StoreLimits {
        message_bytes: limits::PAYLOAD_BYTES_MAX as u64 + EVENT_BYTES_BESIDE_PAYLOAD,
        checkpoint_bytes: limits::HISTORY_BYTES_MAX,
        // An action makes one item; the end of a run adds an answer, and unlocks and terminates for what is open.
        checkpoint_items: 2 * limits::ACTIONS_PER_TURN_MAX as u64,
        delay: limits::TIMER_MAX,
        removed_starts: limits::REMOVED_STARTS_MAX as u64,
    }
}

impl State {
    pub(super) fn check_message(&self, message: &Message) -> Result<(), Refused> {
        self.within("message bytes", message.event.len() as u64, self.limits.message_bytes)?;
        let delay = message.visible_at.since(self.now());
        self.within("message delay in ms", millis(delay), millis(self.limits.delay))
    }

    pub(super) fn check_limits(&self, checkpoint: &Checkpoint) -> Result<(), Refused> {
        let Checkpoint { completions, history, tasks, timers, messages, .. } = checkpoint;
        let (batches, prologue) = match history {
            History::Append(batch) => (std::slice::from_ref(batch), [].as_slice()),
            History::Replace { batches, prologue, .. } => (batches.as_slice(), prologue.as_slice()),
        };
        let answers = completions.iter().map(|completion| &completion.answer);
        let mut bytes: u64 = batches.iter().map(|batch| batch.events.len() as u64).sum();
        for message in timers.iter().chain(messages).chain(prologue).chain(answers) {
            self.check_message(message)?;
            bytes = bytes.saturating_add(message.event.len() as u64);
        }
        for task in tasks {
            self.within("message bytes", task.event.len() as u64, self.limits.message_bytes)?;
            bytes = bytes.saturating_add(task.event.len() as u64);
        }
        let items = tasks.len() + timers.len() + messages.len();
        self.within("checkpoint items", items as u64, self.limits.checkpoint_items)?;
        self.within("checkpoint bytes", bytes, self.limits.checkpoint_bytes)
    }

    fn within(&self, name: &'static str, found: u64, allowed: u64) -> Result<(), Refused> {
        if found <= allowed || self.broken(Defect::LimitIgnored) {
            return Ok(());
        }
        Err(Refused::TooLarge(Limit { name, found, allowed }))
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What core lets through must fit, or a turn that core thinks right could never be committed; and not much more
    /// than that fits, or the limits would protect nobody.
    #[test]
    fn what_core_allows_fits_and_little_more() {
        let limits = default_limits();
        let beside = limits.message_bytes - limits::PAYLOAD_BYTES_MAX as u64;
        assert!((100_000..10_000_000).contains(&beside), "{beside} bytes for names, ids and trace context");
        let items = limits.checkpoint_items / limits::ACTIONS_PER_TURN_MAX as u64;
        assert_eq!(items, 2, "each action may leave an item, and one more when its run ends");
        assert_eq!(limits.checkpoint_bytes, limits::HISTORY_BYTES_MAX);
        assert_eq!(limits.delay, limits::TIMER_MAX);
    }
}
