//! How a claim goes through the ready items: one of each queue in turn, oldest first within a queue.

use std::collections::VecDeque;

use rusqlite::{OptionalExtension, params};

use dauer_store::{Kind, QueueKey, Tags, Want};

use super::{Scope, What};
use crate::fail::Outcome;

/// What became of an item that a claim came by.
pub(super) enum Take {
    /// The claim has it.
    Taken,
    /// It is not for this claim.
    Passed,
    /// The claim has all it asked for.
    Full,
}

/// A place in a queue: the time from which an item is ready, and its key.
type Position = (i64, i64);

impl Scope<'_, '_> {
    /// Offers due items of the wanted queues to `take` until it is full or nothing is left.
    pub(super) fn gather(
        &mut self,
        want: &Want,
        what: What,
        mut take: impl FnMut(&mut Self, i64) -> Outcome<Take>,
    ) -> Outcome<()> {
        let mut queues: VecDeque<(i64, QueueKey, Position)> = self.queues_in_turn(want, what)?;
        while let Some((queue, name, mut position)) = queues.pop_front() {
            while let Some(found) = self.next_due(what, queue, position)? {
                position = found;
                match take(self, found.1)? {
                    Take::Full => return Ok(()),
                    Take::Passed => {}
                    Take::Taken => {
                        let served = match what {
                            What::Turn => &mut self.group.served_turns,
                            What::Task => &mut self.group.served_tasks,
                        };
                        served.insert(self.view.hub, name.clone());
                        queues.push_back((queue, name, position));
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// The wanted queues, beginning behind the one served last.
    fn queues_in_turn(&self, want: &Want, what: What) -> Outcome<VecDeque<(i64, QueueKey, Position)>> {
        let served = match what {
            What::Turn => self.group.served_turns.get(&self.hub),
            What::Task => self.group.served_tasks.get(&self.hub),
        };
        let mut wanted = self.queues()?;
        wanted.retain(|(_, queue)| {
            (queue.kind == Kind::Activity) == (what == What::Task) && want.queues.admits(queue)
        });
        wanted.sort_by(|a, b| a.1.cmp(&b.1));
        let behind = served.map_or(0, |served| wanted.partition_point(|(_, queue)| queue <= served));
        wanted.rotate_left(behind);
        Ok(wanted.into_iter().map(|(key, queue)| (key, queue, (i64::MIN, i64::MIN))).collect())
    }

    /// The oldest due item of a queue behind that position.
    fn next_due(&self, what: What, queue: i64, (time, key): Position) -> Outcome<Option<Position>> {
        let mut find = self.db.prepare_cached(match what {
            What::Turn => {
                "SELECT place, key FROM instances WHERE offered = ?1 AND place IS NOT NULL AND place <= ?2
                    AND (place, key) > (?3, ?4) ORDER BY place, key LIMIT 1"
            }
            What::Task => {
                "SELECT place, key FROM tasks WHERE queue = ?1 AND place IS NOT NULL AND place <= ?2
                    AND (place, key) > (?3, ?4) ORDER BY place, key LIMIT 1"
            }
        })?;
        let found = find
            .query_row(params![queue, self.now.0, time, key], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        Ok(found)
    }
}

/// Whether an item with these tags is for a claim.
pub(super) fn tags_match(want: &Want, tags: &Tags) -> bool {
    want.tags.iter().all(|(key, value)| tags.get(key) == Some(value))
}
