//! How much work there is, and when there will be more.

use std::collections::BTreeMap;
use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use dauer_store::{DUE_OVERLAP, Kind, Queues, Scale, SessionId, Timestamp};

use super::{Scope, View};
use crate::fail::Outcome;

impl Scope<'_, '_> {
    /// Ready items that anyone may claim, and items in living hands, by kind.
    pub(crate) fn scale(&mut self) -> Outcome<Scale> {
        self.relay()?;
        self.sweep()?;
        let mut scale = Scale::default();
        for (key, queue) in self.queues()? {
            let sql = match queue.kind {
                Kind::Activity => "SELECT count(*) FROM tasks WHERE queue = ?1 AND place <= ?2",
                Kind::Orchestration | Kind::Entity => {
                    "SELECT count(*) FROM instances WHERE offered = ?1 AND place <= ?2"
                }
            };
            let mut count = self.db.prepare_cached(sql)?;
            let ready = count.query_row(params![key, self.now.0], |row| row.get(0))?;
            add(&mut scale.ready, queue.kind, ready);
        }
        for session in self.sessions()? {
            if self.lives(session.key)? {
                self.count_held(session.key, &mut scale.held)?;
            }
        }
        Ok(scale)
    }

    fn count_held(&self, session: i64, held: &mut BTreeMap<Kind, usize>) -> Outcome<()> {
        for sql in [
            "SELECT q.kind, count(*) FROM instances AS i JOIN queues AS q ON q.key = i.queue WHERE i.holder = ?1
             GROUP BY q.kind",
            "SELECT q.kind, count(*) FROM tasks AS t JOIN queues AS q ON q.key = t.queue WHERE t.holder = ?1
             GROUP BY q.kind",
        ] {
            let mut count = self.db.prepare_cached(sql)?;
            let mut rows = count.query([session])?;
            while let Some(row) = rows.next()? {
                add(held, dauer_store_kit::codec::kind_of(row.get(0)?)?, row.get(1)?);
            }
        }
        add(held, Kind::Activity, self.count_taken(session)?);
        Ok(())
    }
}

fn add(counts: &mut BTreeMap<Kind, usize>, kind: Kind, count: i64) {
    let count = usize::try_from(count).unwrap_or(0);
    if count > 0 {
        *counts.entry(kind).or_default() += count;
    }
}

impl View<'_> {
    /// How long until something that sleeps in these queues is due. The end of a session makes nothing due here: it
    /// may be renewed, and a hint tells when it was not.
    pub(crate) fn next_due(&self, session: SessionId, queues: &Queues) -> Outcome<Option<Duration>> {
        self.acting(session)?;
        // What was loaded and not yet delivered is delivered by the next claim.
        let mut unsent = self.db.prepare_cached("SELECT 1 FROM outbox WHERE hub = ?1 LIMIT 1")?;
        if unsent.exists([self.hub])? {
            return Ok(Some(Duration::ZERO));
        }
        let since = self.now.before(DUE_OVERLAP).0;
        let mut earliest: Option<i64> = None;
        for (key, queue) in self.queues()? {
            if !queues.admits(&queue) {
                continue;
            }
            let mut next = self.db.prepare_cached(match queue.kind {
                Kind::Activity => {
                    "SELECT place FROM tasks WHERE queue = ?1 AND place > ?2 ORDER BY place LIMIT 1"
                }
                Kind::Orchestration | Kind::Entity => {
                    "SELECT place FROM instances WHERE offered = ?1 AND place > ?2 ORDER BY place LIMIT 1"
                }
            })?;
            let found: Option<i64> = next.query_row(params![key, since], |row| row.get(0)).optional()?;
            earliest = earliest.into_iter().chain(found).min();
        }
        Ok(earliest.map(|time| Timestamp(time).since(self.now)))
    }
}
