//! The inbox of one instance: ordered by when a message could first be delivered, then by arrival.
//!
//! That keeps the order of each sender for messages without delay, fires timers in the order of their times, and makes
//! the visible messages a prefix, so that a claim never walks over sleeping timers.

use std::collections::BTreeMap;

use dauer_store::{Message, MessageId, Timestamp};

type Position = (Timestamp, u64);

/// The waiting messages.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inbox {
    messages: BTreeMap<Position, Message>,
    positions: BTreeMap<MessageId, Position>,
}

impl Inbox {
    /// Adds a message that arrives now.
    pub(crate) fn insert(&mut self, message: Message, now: Timestamp, sequence: u64) {
        let position = (message.visible_at.max(now), sequence);
        self.positions.insert(message.id, position);
        self.messages.insert(position, message);
    }

    /// Adds a message behind all others: for loading, in the order of the dump.
    pub(crate) fn push(&mut self, message: Message, sequence: u64) {
        let last = self.messages.last_key_value().map_or(message.visible_at, |((time, _), _)| *time);
        self.insert(message, last, sequence);
    }

    pub(crate) fn get(&self, id: MessageId) -> Option<&Message> {
        self.messages.get(self.positions.get(&id)?)
    }

    pub(crate) fn remove(&mut self, id: MessageId) -> Option<Message> {
        self.messages.remove(&self.positions.remove(&id)?)
    }

    /// Keeps the messages that `keep` names; answers how many went.
    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&Message) -> bool) -> u64 {
        let before = self.messages.len();
        let positions = &mut self.positions;
        self.messages.retain(|_, message| {
            let kept = keep(message);
            if !kept {
                positions.remove(&message.id);
            }
            kept
        });
        (before - self.messages.len()) as u64
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Message> {
        self.messages.values()
    }

    /// What may be delivered at that time, in order.
    pub(crate) fn visible(&self, now: Timestamp) -> impl Iterator<Item = &Message> {
        self.messages.range(..=(now, u64::MAX)).map(|(_, message)| message)
    }

    /// What may be delivered only later, soonest first, each with its time.
    pub(crate) fn later(&self, now: Timestamp) -> impl Iterator<Item = (Timestamp, &Message)> {
        use std::ops::Bound::{Excluded, Unbounded};
        self.messages.range((Excluded((now, u64::MAX)), Unbounded)).map(|((at, _), message)| (*at, message))
    }
}
