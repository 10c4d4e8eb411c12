//! The index that claims are answered from: by queue, then ready time, then arrival. What sleeps stands behind what is
//! due, and is never walked over.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use dauer_store::{QueueKey, Timestamp};

/// Where an item stands. No two items ever have the same sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) queue: QueueKey,
    pub(crate) time: Timestamp,
    pub(crate) sequence: u64,
}

/// A place within its queue.
pub(crate) type Position = (Timestamp, u64);

/// Items by queue and ready time.
#[derive(Debug, Clone)]
pub(crate) struct Index<K> {
    queues: BTreeMap<QueueKey, BTreeMap<Position, K>>,
    /// The queue that was served last: the next claim begins behind it.
    served: Option<QueueKey>,
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self { queues: BTreeMap::new(), served: None }
    }
}

impl<K: Clone> Index<K> {
    pub(crate) fn insert(&mut self, place: &Place, item: K) {
        self.queues.entry(place.queue.clone()).or_default().insert((place.time, place.sequence), item);
    }

    pub(crate) fn remove(&mut self, place: &Place) {
        if let Some(queue) = self.queues.get_mut(&place.queue) {
            queue.remove(&(place.time, place.sequence));
            if queue.is_empty() {
                self.queues.remove(&place.queue);
            }
        }
    }

    /// The queues with something in them, beginning behind the one served last.
    pub(crate) fn queues_in_turn(&self) -> Vec<QueueKey> {
        let (behind, before) = match &self.served {
            None => (self.queues.range::<QueueKey, _>(..), None),
            Some(served) => (
                self.queues.range::<QueueKey, _>((Excluded(served), Unbounded)),
                Some(self.queues.range::<QueueKey, _>((Unbounded, Included(served)))),
            ),
        };
        behind.chain(before.into_iter().flatten()).map(|(queue, _)| queue.clone()).collect()
    }

    pub(crate) fn mark_served(&mut self, queue: &QueueKey) {
        self.served = Some(queue.clone());
    }

    /// The oldest due item of a queue behind `after`; the newest one before it for the defect that asks so.
    pub(crate) fn next_due(
        &self,
        queue: &QueueKey,
        after: Option<Position>,
        now: Timestamp,
        newest_first: bool,
    ) -> Option<(Position, K)> {
        let items = self.queues.get(queue)?;
        let found = if newest_first {
            let end = after.map_or(Included((now, u64::MAX)), Excluded);
            items.range((Unbounded, end)).next_back()
        } else {
            let begin = after.map_or(Unbounded, Excluded);
            items.range((begin, Unbounded)).next().filter(|((time, _), _)| *time <= now)
        };
        found.map(|(position, item)| (*position, item.clone()))
    }

    /// When the first item that was not due at that time becomes due, in the queues and of the items that are asked for.
    pub(crate) fn next_time(
        &self,
        since: Timestamp,
        wanted: impl Fn(&QueueKey) -> bool,
    ) -> Option<Timestamp> {
        let queues = self.queues.iter().filter(|(queue, _)| wanted(queue));
        let later = (Excluded((since, u64::MAX)), Unbounded);
        let first = queues.filter_map(|(_, items)| items.range(later).next());
        first.map(|((time, _), _)| *time).min()
    }

    /// All items with their queue and time.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&QueueKey, Timestamp, &K)> {
        self.queues
            .iter()
            .flat_map(|(queue, items)| items.iter().map(move |((time, _), item)| (queue, *time, item)))
    }
}
