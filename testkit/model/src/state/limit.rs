//! Limits (14).

use std::time::Duration;

use dauer_store::{Checkpoint, History, Limit, Message, Refused};

use super::State;
use crate::mistake::Mistake as M;

impl State {
    fn within(&self, name: &'static str, found: u64, allowed: u64) -> Result<(), Refused> {
        if found <= allowed || self.makes(M::LimitIgnored) {
            return Ok(());
        }
        Err(Refused::TooLarge(Limit { name, found, allowed }))
    }

    /// Whether a message is small and early enough.
    pub(super) fn check_message(&self, message: &Message) -> Result<(), Refused> {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self.within("message bytes", message.event.len() as u64, self.limits.message_bytes)?;
        let ahead = millis(message.visible_at.since(self.now()));
        self.within("message delay in ms", ahead, millis(self.limits.delay))
    }

    /// Whether a checkpoint and all in it are small enough.
    pub(super) fn check_size(&self, checkpoint: &Checkpoint) -> Result<(), Refused> {
        let Checkpoint { completions, history, tasks, timers, messages, .. } = checkpoint;
        let answers = completions.iter().map(|completion| &completion.answer);
        let mut sent: Vec<&Message> = timers.iter().chain(messages).collect();
        let mut bytes = 0;
        match history {
            History::Append(batch) => bytes += batch.events.len() as u64,
            History::Replace { batches, prologue, .. } => {
                bytes += batches.iter().map(|batch| batch.events.len() as u64).sum::<u64>();
                sent.extend(prologue);
            }
        }
        sent.extend(answers);
        for message in sent {
            self.check_message(message)?;
            bytes += message.event.len() as u64;
        }
        for task in tasks {
            self.within("message bytes", task.event.len() as u64, self.limits.message_bytes)?;
            bytes += task.event.len() as u64;
        }
        let items = (tasks.len() + timers.len() + messages.len()) as u64;
        self.within("checkpoint items", items, self.limits.checkpoint_items)?;
        self.within("checkpoint bytes", bytes, self.limits.checkpoint_bytes)
    }
}
