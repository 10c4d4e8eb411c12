//! How a claim goes through an index: one item of each queue in turn, oldest first within a queue.

use std::collections::VecDeque;

use dauer_store::{QueueKey, Want};

use super::State;
use super::index::{Index, Position};
use crate::defect::Defect;

/// What became of an item that a claim came by.
pub(super) enum Take {
    /// The claim has it.
    Taken,
    /// It is not for this claim.
    Passed,
    /// The claim has all it asked for.
    Full,
}

impl State {
    /// Offers due items of the wanted queues to `take` until it is full or nothing is left.
    pub(super) fn gather<K: Clone>(
        &mut self,
        want: &Want,
        index: fn(&mut Self) -> &mut Index<K>,
        mut take: impl FnMut(&mut Self, &QueueKey, &K) -> Take,
    ) {
        let now = self.now();
        let newest_first = self.broken(Defect::NewestFirst);
        let starves = self.broken(Defect::QueueStarved);
        let any_queue = self.broken(Defect::QueueFilterIgnored);
        let queues = index(self).queues_in_turn().into_iter().filter(|q| any_queue || want.queues.admits(q));
        let mut queues: VecDeque<(QueueKey, Option<Position>)> = queues.map(|queue| (queue, None)).collect();
        if starves {
            queues.make_contiguous().sort_by(|a, b| a.0.cmp(&b.0));
        }
        while let Some((queue, mut position)) = queues.pop_front() {
            while let Some((found, item)) = index(self).next_due(&queue, position, now, newest_first) {
                match take(self, &queue, &item) {
                    Take::Full => return,
                    Take::Passed => position = Some(found),
                    Take::Taken => {
                        index(self).mark_served(&queue);
                        queues.push_back((queue, Some(found)));
                        break;
                    }
                }
            }
        }
    }

    /// Whether an item with these tags is for a claim.
    pub(super) fn tags_match(&self, want: &Want, tags: &dauer_store::Tags) -> bool {
        self.broken(Defect::TagFilterIgnored)
            || want.tags.iter().all(|(key, value)| tags.get(key) == Some(value))
    }

    /// Whether a claim with that many items has all it asked for.
    pub(super) fn is_full(&self, want: &Want, count: usize) -> bool {
        count >= want.count && !self.broken(Defect::CountIgnored)
    }
}
