//! The ids of recently accepted starts that no instance names any more (rule 21).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use dauer_store::{MessageId, Timestamp};

use crate::judge::is_recent;

/// Ids of accepted starts with the time each was accepted, bounded in number and age.
#[derive(Debug, Clone, Default)]
pub(super) struct RemovedStarts {
    times: BTreeMap<MessageId, Timestamp>,
    by_time: BTreeSet<(Timestamp, MessageId)>,
}

impl RemovedStarts {
    /// Remembers a start. Returns how many were forgotten before their time because there are more than `most`.
    pub(super) fn insert(&mut self, id: MessageId, at: Timestamp, (now, most): (Timestamp, u64)) -> u64 {
        if let Some(before) = self.times.insert(id, at) {
            self.by_time.remove(&(before, id));
        }
        self.by_time.insert((at, id));
        let mut forgotten = 0;
        while let Some(&(oldest, id)) = self.by_time.first() {
            let expired = !is_recent(oldest, now);
            if !expired && self.by_time.len() as u64 <= most {
                break;
            }
            forgotten += u64::from(!expired);
            self.by_time.remove(&(oldest, id));
            self.times.remove(&id);
        }
        forgotten
    }

    /// The latest time of an id in that range.
    pub(super) fn latest(&self, ids: &RangeInclusive<MessageId>) -> Option<Timestamp> {
        if self.times.is_empty() {
            return None;
        }
        self.times.range(ids.clone()).map(|(_, at)| *at).max()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (MessageId, Timestamp)> {
        self.times.iter().map(|(id, at)| (*id, *at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_core::limits::START_RETRY_MAX;

    fn id(number: u8) -> MessageId {
        MessageId([number; 16])
    }

    #[test]
    fn starts_beyond_the_limit_are_counted_and_old_ones_are_not() {
        let mut starts = RemovedStarts::default();
        let now = Timestamp(1);
        for number in 0..3 {
            assert_eq!(starts.insert(id(number), now, (now, 2)), u64::from(number == 2));
        }
        assert_eq!(starts.latest(&(id(0)..=id(0))), None);
        let later = now.after(START_RETRY_MAX).after(std::time::Duration::from_millis(1));
        assert_eq!(starts.insert(id(9), later, (later, 2)), 0, "the others are too old to count");
        assert_eq!(starts.iter().collect::<Vec<_>>(), [(id(9), later)]);
    }
}
