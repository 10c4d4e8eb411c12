//! Which messages an instance has applied: the same again is a repeat, also after continue-as-new.

use dauer_core::limits::MEMORY_IDS_MAX;
use dauer_store::{MessageId, Timestamp};

use crate::few::Few;
use crate::judge::is_known;

/// Ids of applied messages, oldest first, bounded in number and age.
#[derive(Debug, Clone, Default)]
pub(super) struct Applied {
    order: Few<u64, (MessageId, Timestamp)>,
    known: Few<MessageId, u64>,
    next: u64,
}

impl Applied {
    /// Remembers that a message was applied. An id that is known becomes the youngest.
    pub(super) fn insert(&mut self, id: MessageId, at: Timestamp) {
        if let Some(before) = self.known.insert(id, self.next) {
            self.order.remove(&before);
        }
        self.order.insert(self.next, (id, at));
        self.next += 1;
        while let Some((oldest, (id, since))) = self.order.first() {
            if self.order.len() <= MEMORY_IDS_MAX && is_known(since, at) {
                break;
            }
            self.order.remove(&oldest);
            self.known.remove(&id);
        }
    }

    pub(super) fn at(&self, id: MessageId) -> Option<Timestamp> {
        self.order.get(self.known.get(&id)?).map(|(_, at)| *at)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MessageId, Timestamp)> {
        self.order.iter().map(|(_, entry)| *entry)
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
    fn oldest_ids_are_forgotten_beyond_the_limit() {
        let mut applied = Applied::default();
        let now = Timestamp(1);
        for number in 0..=MEMORY_IDS_MAX {
            applied.insert(id(number), now);
        }
        assert_eq!((applied.at(id(0)), applied.at(id(1))), (None, Some(now)));
        assert_eq!(applied.iter().count(), MEMORY_IDS_MAX);
    }

    #[test]
    fn id_applied_again_is_remembered_from_then_on() {
        let mut applied = Applied::default();
        let later = Timestamp(0).after(MEMORY_AGE_MAX);
        applied.insert(id(1), Timestamp(0));
        applied.insert(id(1), later);
        let last = later.after(MEMORY_AGE_MAX);
        applied.insert(id(2), last);
        assert_eq!(applied.iter().collect::<Vec<_>>(), [(id(1), later), (id(2), last)]);
    }
}
