//! Removing ended instances for good.

use rusqlite::params;

use dauer_store::{Hint, InstanceId, Order, Purge, Purged, Query};

use super::instance::Instance;
use super::{ABSENT, Scope, View};
use crate::fail::Outcome;

/// Free pages that stay in the file.
const PAGES_KEPT_FREE: i64 = 256;

/// Pages that one purge gives back at most: each is moved inside the transaction.
const PAGES_GIVEN_BACK: i64 = 2_000;

impl View<'_> {
    /// Whether an instance has ended, and no start, rewind or unsent message waits.
    fn may_purge(&self, instance: &Instance) -> Outcome<bool> {
        if !instance.record.status.is_ended() || self.start_waits(instance)? {
            return Ok(false);
        }
        let mut unsent = self.db.prepare_cached("SELECT 1 FROM outbox WHERE hub = ?1 AND instance = ?2")?;
        Ok(!unsent.exists(params![self.hub, instance.key])?)
    }
}

impl Scope<'_, '_> {
    /// Removes instances that have ended and for which no start or rewind waits.
    pub(crate) fn purge(&mut self, purge: &Purge) -> Outcome<Purged> {
        if self.hub == ABSENT {
            return Ok(Purged { count: 0, more: false });
        }
        self.touch()?;
        let (ids, more): (Vec<InstanceId>, bool) = match purge {
            Purge::Ids(ids) => (ids.clone(), false),
            Purge::Matching { query, budget } => {
                let (mut ids, mut more) = (Vec::new(), false);
                let view = self.view;
                let oldest = Query { order: Order::OldestFirst, after: None, ..query.clone() };
                view.matching(&oldest, |instance| {
                    if view.may_purge(&instance)? {
                        more = ids.len() == *budget;
                        if !more {
                            ids.push(instance.id);
                        }
                    }
                    Ok(!more)
                })?;
                (ids, more)
            }
        };
        let mut count = 0;
        for id in ids {
            let Some(instance) = self.fetch(&id)? else { continue };
            if self.may_purge(&instance)? {
                self.erase(instance)?;
                count += 1;
            }
        }
        if count > 0 {
            self.store_hub()?;
            self.give_back_pages()?;
        }
        Ok(Purged { count, more })
    }

    /// Makes the file smaller when much of it is free; a few free pages are kept for what comes next.
    pub(super) fn give_back_pages(&self) -> Outcome<()> {
        let free: i64 = self.db.query_row("PRAGMA freelist_count", [], |row| row.get(0))?;
        let given = (free - PAGES_KEPT_FREE).min(PAGES_GIVEN_BACK);
        if given > 0 {
            // The number is one of ours, and a pragma takes no parameters. Every step gives back one page.
            let mut give = self.db.prepare(&format!("PRAGMA incremental_vacuum({given})"))?;
            let mut rows = give.query([])?;
            while rows.next()?.is_some() {}
        }
        Ok(())
    }

    fn erase(&mut self, mut instance: Box<Instance>) -> Outcome<()> {
        let hint = Hint::Status(instance.id.clone(), instance.record.status);
        self.discard_tasks_of(&mut instance)?;
        self.removed(&instance)?;
        self.remove_instance(instance)?;
        self.hint(hint);
        Ok(())
    }
}
