//! Which messages an instance has applied: the same again is a repeat, also after continue-as-new.

use std::collections::{BTreeMap, VecDeque};

use dauer_core::limits::MEMORY_IDS_MAX;
use dauer_store::{MessageId, Timestamp};
use dauer_store_kit::judge::is_known;

/// Ids of applied messages, oldest first, bounded in number and age.
#[derive(Debug, Clone, Default)]
pub(crate) struct Applied {
    order: VecDeque<(MessageId, Timestamp)>,
    times: BTreeMap<MessageId, Timestamp>,
}

impl Applied {
    /// Remembers that a message was applied.
    pub(crate) fn insert(&mut self, id: MessageId, at: Timestamp) {
        if self.times.insert(id, at).is_some() {
            // Remembered anew: the old entry would otherwise take the new one with it when its age comes.
            self.order.retain(|(known, _)| *known != id);
        }
        self.order.push_back((id, at));
        while let Some(&(oldest, since)) = self.order.front() {
            if self.order.len() <= MEMORY_IDS_MAX && is_known(since, at) {
                break;
            }
            self.order.pop_front();
            self.times.remove(&oldest);
        }
    }

    pub(crate) fn contains(&self, id: MessageId, now: Timestamp) -> bool {
        self.times.get(&id).is_some_and(|since| is_known(*since, now))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (MessageId, Timestamp)> {
        self.order.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_core::limits::MEMORY_AGE_MAX;

    fn id(number: usize) -> MessageId {
        MessageId((number as u128).to_be_bytes())
    }

    #[test]
    fn the_oldest_are_forgotten_when_there_are_too_many() {
        let mut applied = Applied::default();
        let now = Timestamp(1);
        for number in 0..=MEMORY_IDS_MAX {
            applied.insert(id(number), now);
        }
        assert!(!applied.contains(id(0), now));
        assert!(applied.contains(id(1), now));
        assert_eq!(applied.iter().count(), MEMORY_IDS_MAX);
    }

    #[test]
    fn applied_again_is_remembered_anew() {
        let mut applied = Applied::default();
        let later = Timestamp(0).after(MEMORY_AGE_MAX);
        applied.insert(id(1), Timestamp(0));
        applied.insert(id(1), later);
        let last = later.after(MEMORY_AGE_MAX);
        applied.insert(id(2), last);
        assert!(applied.contains(id(1), last), "a day after it was applied for the second time");
        assert_eq!(applied.iter().collect::<Vec<_>>(), [(id(1), later), (id(2), last)]);
    }
}
