//! How much work there is.

use std::collections::BTreeMap;

use rusqlite::params;

use dauer_store::{Kind, Scale};

use super::Scope;
use crate::fail::Outcome;

impl Scope<'_, '_> {
    /// Ready items, and items that living sessions hold, by kind.
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
            if session.life.lives(self.now) {
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
