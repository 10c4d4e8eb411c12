//! How a claim goes through the ready items: one of each queue in turn, oldest first within a queue.

use std::collections::VecDeque;

use rusqlite::{Row, params};

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

/// How many due items of a queue are looked for at once: one statement for so many costs little more than for one.
const DUE_AT_ONCE: usize = 64;

/// An item that is due.
pub(super) struct Due {
    pub(super) key: i64,
    /// The id of the instance whose turn it is.
    pub(super) turn_of: Option<String>,
    /// The time from which it is ready.
    place: i64,
}

/// A queue that a claim goes through.
struct Line {
    queue: i64,
    name: QueueKey,
    /// What was found of it and not offered yet, in its order.
    found: VecDeque<Due>,
    /// Behind which place and key to look for more; nowhere when all was found.
    behind: Option<(i64, i64)>,
}

impl Scope<'_, '_> {
    /// Offers due items of the wanted queues to `take` until it is full or nothing is left. What it does with one changes
    /// nothing about the others that are due.
    pub(super) fn gather(
        &mut self,
        want: &Want,
        what: What,
        mut take: impl FnMut(&mut Self, &Due) -> Outcome<Take>,
    ) -> Outcome<()> {
        let mut lines = self.lines_in_turn(want, what)?;
        // One more than is wanted shows that there is more.
        let at_once = want.count.saturating_add(1).min(DUE_AT_ONCE);
        while let Some(mut line) = lines.pop_front() {
            while let Some(due) = self.next_due(what, &mut line, at_once)? {
                match take(self, &due)? {
                    Take::Full => return Ok(()),
                    Take::Passed => {}
                    Take::Taken => {
                        let served = match what {
                            What::Turn => &mut self.group.served_turns,
                            What::Task => &mut self.group.served_tasks,
                        };
                        served.insert(self.view.hub, line.name.clone());
                        lines.push_back(line);
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// The wanted queues, beginning behind the one served last.
    fn lines_in_turn(&self, want: &Want, what: What) -> Outcome<VecDeque<Line>> {
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
        let begin =
            |(queue, name)| Line { queue, name, found: VecDeque::new(), behind: Some((i64::MIN, i64::MIN)) };
        Ok(wanted.into_iter().map(begin).collect())
    }

    /// The next due item of a queue, oldest first.
    fn next_due(&self, what: What, line: &mut Line, at_once: usize) -> Outcome<Option<Due>> {
        if let (true, Some((place, key))) = (line.found.is_empty(), line.behind) {
            let mut find = self.db.prepare_cached(match what {
                What::Turn => {
                    "SELECT place, key, id FROM instances WHERE offered = ?1 AND place IS NOT NULL AND place <= ?2
                        AND (place, key) > (?3, ?4) ORDER BY place, key LIMIT ?5"
                }
                What::Task => {
                    "SELECT place, key, NULL FROM tasks WHERE queue = ?1 AND place IS NOT NULL AND place <= ?2
                        AND (place, key) > (?3, ?4) ORDER BY place, key LIMIT ?5"
                }
            })?;
            let limit = super::signed(at_once as u64);
            let due = |row: &Row<'_>| Ok(Due { place: row.get(0)?, key: row.get(1)?, turn_of: row.get(2)? });
            for due in find.query_map(params![line.queue, self.now.0, place, key, limit], due)? {
                line.found.push_back(due?);
            }
            let last = line.found.back().filter(|_| line.found.len() == at_once);
            line.behind = last.map(|due| (due.place, due.key));
        }
        Ok(line.found.pop_front())
    }
}

/// Whether an item with these tags is for a claim.
pub(super) fn tags_match(want: &Want, tags: &Tags) -> bool {
    want.tags.iter().all(|(key, value)| tags.get(key) == Some(value))
}
