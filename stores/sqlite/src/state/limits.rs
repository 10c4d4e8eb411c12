//! What is too large.

use std::time::Duration;

use dauer_store::{Checkpoint, History, Limit, Message, Refused};

use super::Scope;
use crate::fail::Outcome;

impl Scope<'_, '_> {
    pub(super) fn check_message(&self, message: &Message) -> Outcome<()> {
        within("message bytes", message.event.len() as u64, self.limits.message_bytes)?;
        let delay = message.visible_at.since(self.now);
        within("message delay in ms", millis(delay), millis(self.limits.delay))
    }

    pub(super) fn check_limits(&self, checkpoint: &Checkpoint) -> Outcome<()> {
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
            within("message bytes", task.event.len() as u64, self.limits.message_bytes)?;
            bytes = bytes.saturating_add(task.event.len() as u64);
        }
        let items = tasks.len() + timers.len() + messages.len();
        within("checkpoint items", items as u64, self.limits.checkpoint_items)?;
        within("checkpoint bytes", bytes, self.limits.checkpoint_bytes)
    }
}

fn within(name: &'static str, found: u64, allowed: u64) -> Outcome<()> {
    if found <= allowed {
        return Ok(());
    }
    Err(Refused::TooLarge(Limit { name, found, allowed }).into())
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
