//! How a session goes through the ready items: one of each queue in turn, oldest first within a queue.

use std::collections::VecDeque;

use rusqlite::{Row, params};

use dauer_store::{Kind, QueueKey};
use dauer_store_kit::calls::Offer;

use super::Scope;
use crate::fail::Outcome;

/// A turn or a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    Turn,
    Task,
}

impl What {
    /// Which of them work of that kind is.
    pub(crate) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Activity => Self::Task,
            Kind::Orchestration | Kind::Entity => Self::Turn,
        }
    }
}

/// What became of an item that was ready.
pub(super) enum Take {
    /// The session has it.
    Taken,
    /// It is not for this session.
    Passed,
    /// There is no credit left for it.
    Full,
}

/// How many due items of a queue one statement finds: it costs little more than for one.
const DUE_AT_ONCE: usize = 64;

/// An item that is due.
pub(super) struct Due {
    pub(super) key: i64,
    /// The id of the instance whose turn it is.
    pub(super) turn_of: Option<String>,
    /// The time from which it is ready.
    place: i64,
}

/// A queue that a session has credit for.
struct Line {
    queue: i64,
    name: QueueKey,
    /// What was found of it and not offered yet, in its order.
    found: VecDeque<Due>,
    /// Behind which place and key to look for more; nowhere when all was found.
    behind: Option<(i64, i64)>,
}

impl Scope<'_, '_> {
    /// Passes due items of the queues of the offer to `take` until it is full or nothing is left. What it does with one changes
    /// nothing about the others that are due.
    pub(super) fn gather(
        &mut self,
        offer: &mut Offer,
        what: What,
        mut take: impl FnMut(&mut Self, &mut Offer, &Due) -> Outcome<Take>,
    ) -> Outcome<()> {
        let mut lines = self.lines_in_turn(offer, what)?;
        let count = match what {
            What::Turn => offer.count(Kind::Orchestration),
            What::Task => offer.count(Kind::Activity),
        };
        // One more than there is credit for shows that there is more.
        let at_once = count.saturating_add(1).min(DUE_AT_ONCE);
        while let Some(mut line) = lines.pop_front() {
            while let Some(due) = self.next_ready(what, &mut line, at_once)? {
                match take(self, offer, &due)? {
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
    fn lines_in_turn(&self, offer: &Offer, what: What) -> Outcome<VecDeque<Line>> {
        let served = match what {
            What::Turn => self.group.served_turns.get(&self.hub),
            What::Task => self.group.served_tasks.get(&self.hub),
        };
        let mut wanted = self.queues()?;
        wanted.retain(|(_, queue)| What::of(queue.kind) == what && offer.queues().admits(queue));
        wanted.sort_by(|a, b| a.1.cmp(&b.1));
        let behind = served.map_or(0, |served| wanted.partition_point(|(_, queue)| queue <= served));
        wanted.rotate_left(behind);
        let begin =
            |(queue, name)| Line { queue, name, found: VecDeque::new(), behind: Some((i64::MIN, i64::MIN)) };
        Ok(wanted.into_iter().map(begin).collect())
    }

    /// The next due item of a queue, oldest first.
    fn next_ready(&self, what: What, line: &mut Line, at_once: usize) -> Outcome<Option<Due>> {
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
