//! Removing ended instances for good.

use rusqlite::params;

use dauer_store::{InstanceId, Order, Purge, Purged, Query};

use super::stored::Loaded;
use super::{ABSENT, Scope, View};
use crate::fail::Outcome;

/// Free pages that stay in the file.
const PAGES_KEPT_FREE: i64 = 256;

/// Pages that one purge gives back at most: each is moved inside the transaction.
const PAGES_GIVEN_BACK: i64 = 2_000;

impl View<'_> {
    /// Whether a purge removes an instance. One of another store's dump stays until its messages are sent.
    fn may_purge(&self, loaded: &Loaded) -> Outcome<bool> {
        let Loaded { instance, stored } = loaded;
        if !instance.may_purge(&self.facts(Some(stored)))? {
            return Ok(false);
        }
        let mut unsent = self.db.prepare_cached("SELECT 1 FROM outbox WHERE hub = ?1 AND instance = ?2")?;
        Ok(!unsent.exists(params![self.hub, stored.key])?)
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
                view.matching(&oldest, |image| {
                    let loaded = view.loaded(image)?;
                    if view.may_purge(&loaded)? {
                        more = ids.len() == *budget;
                        if !more {
                            ids.push(loaded.instance.id().clone());
                        }
                    }
                    Ok(!more)
                })?;
                (ids, more)
            }
        };
        let mut count = 0;
        for id in ids {
            let Some(loaded) = self.fetch(&id)? else { continue };
            if self.may_purge(&loaded)? {
                self.erase(*loaded)?;
                count += 1;
            } else {
                self.put_back(loaded);
            }
        }
        if count > 0 {
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

    fn erase(&mut self, loaded: Loaded) -> Outcome<()> {
        let Loaded { instance, stored } = loaded;
        self.raise_floor(&instance)?;
        let (tasks, mut changes) = (self.tasks_of(&stored, None)?, self.changes());
        instance.purge(tasks, self.now, &mut changes);
        self.erase_rows(&stored)?;
        changes.tasks_gone.clear();
        self.write_beside(&mut changes)?;
        self.store_hub()?;
        self.report_lost(&mut changes)?;
        self.done_with(changes);
        Ok(())
    }
}
