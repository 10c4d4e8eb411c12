//! The index of ready work: by queue, then ready time, then arrival. Work that sleeps stands behind work that is due, and no
//! look walks over it.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};

use dauer_store::{QueueKey, Queues, Timestamp};

/// Where an item stands. No two items ever have the same sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spot {
    pub(super) queue: QueueKey,
    pub(super) time: Timestamp,
    pub(super) sequence: u64,
}

/// A spot within its queue.
pub(super) type Position = (Timestamp, u64);

/// Items by queue and ready time.
#[derive(Debug, Clone)]
pub(super) struct Index<K> {
    queues: BTreeMap<QueueKey, BTreeMap<Position, K>>,
    /// The queue that was served last: the next look begins behind it.
    served: Option<QueueKey>,
}

impl<K> Default for Index<K> {
    fn default() -> Self {
        Self { queues: BTreeMap::new(), served: None }
    }
}

impl<K: Clone> Index<K> {
    pub(super) fn insert(&mut self, spot: &Spot, item: K) {
        match self.queues.get_mut(&spot.queue) {
            Some(items) => items.insert((spot.time, spot.sequence), item),
            None => {
                self.queues.entry(spot.queue.clone()).or_default().insert((spot.time, spot.sequence), item)
            }
        };
    }

    pub(super) fn remove(&mut self, spot: &Spot) {
        if let Some(items) = self.queues.get_mut(&spot.queue) {
            items.remove(&(spot.time, spot.sequence));
            if items.is_empty() {
                self.queues.remove(&spot.queue);
            }
        }
    }

    /// The wanted queues with something in them, beginning behind the one served last.
    pub(super) fn queues_in_turn(&self, wanted: &Queues) -> Vec<QueueKey> {
        let (behind, before) = match &self.served {
            None => (self.queues.range::<QueueKey, _>(..), None),
            Some(served) => (
                self.queues.range::<QueueKey, _>((Excluded(served), Unbounded)),
                Some(self.queues.range::<QueueKey, _>((Unbounded, Included(served)))),
            ),
        };
        let all = behind.chain(before.into_iter().flatten()).map(|(queue, _)| queue);
        all.filter(|queue| wanted.admits(queue)).cloned().collect()
    }

    pub(super) fn mark_served(&mut self, queue: &QueueKey) {
        if self.served.as_ref() != Some(queue) {
            self.served = Some(queue.clone());
        }
    }

    /// The oldest due item of a queue behind `after`.
    pub(super) fn next_due(
        &self,
        queue: &QueueKey,
        after: Option<Position>,
        now: Timestamp,
    ) -> Option<(Position, K)> {
        let begin = after.map_or(Unbounded, Excluded);
        let found = self.queues.get(queue)?.range((begin, Unbounded)).next();
        found.filter(|((time, _), _)| *time <= now).map(|(position, item)| (*position, item.clone()))
    }

    /// When the first item of those queues that is not due yet becomes due.
    pub(super) fn next_time(&self, now: Timestamp, wanted: &Queues) -> Option<Timestamp> {
        let queues = self.queues.iter().filter(|(queue, _)| wanted.admits(queue));
        let later = (Excluded((now, u64::MAX)), Unbounded);
        let first = queues.filter_map(|(_, items)| items.range(later).next());
        first.map(|((time, _), _)| *time).min()
    }

    /// All due items with their queues.
    pub(super) fn due(&self, now: Timestamp) -> impl Iterator<Item = (&QueueKey, &K)> {
        self.queues.iter().flat_map(move |(queue, items)| {
            items.range(..=(now, u64::MAX)).map(move |(_, item)| (queue, item))
        })
    }
}
