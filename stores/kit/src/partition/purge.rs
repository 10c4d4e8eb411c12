//! Removing ended instances for good (rule 21).

use dauer_store::{InstanceId, Purge, Purged};

use super::{Partition, Stored};
use crate::judge;

impl Partition {
    /// Removes instances that have ended and for which no start or rewind waits.
    pub fn purge(&mut self, purge: &Purge) -> Purged {
        self.pristine &= !self.exists();
        let (ids, more): (Vec<InstanceId>, bool) = match purge {
            Purge::Ids(ids) => (ids.clone(), false),
            Purge::Matching { query, budget } => {
                let mut found = self.lists.by_created.iter().map(|(_, id)| id).filter(|id| {
                    let stored = self.instances.get(*id);
                    stored.is_some_and(|stored| {
                        judge::matches(query, id, &stored.instance.record) && self.may_purge(stored)
                    })
                });
                let ids = found.by_ref().take(*budget).cloned().collect();
                (ids, found.next().is_some())
            }
        };
        let count = ids.iter().filter(|id| self.purge_one(id)).count();
        Purged { count, more }
    }

    fn may_purge(&self, stored: &Stored) -> bool {
        let Ok(may) = stored.instance.may_purge(&self.lists.beside.known(stored));
        may && stored.outbox.is_empty()
    }

    fn purge_one(&mut self, id: &InstanceId) -> bool {
        if !self.instances.get(id).is_some_and(|stored| self.may_purge(stored)) {
            return false;
        }
        let Some(mut stored) = self.take_out(id) else { return false };
        let lists = &mut self.lists;
        lists.hub.floor = stored.instance.floor_above(lists.hub.floor);
        let tasks = stored.tasks.iter().map(|(_, row)| row.held.clone()).collect();
        let mut changes = std::mem::take(&mut lists.changes);
        stored.instance.purge(tasks, lists.beside.now, &mut changes);
        lists.write_beside(&mut stored.tasks, &mut changes);
        changes.dirty = Default::default();
        lists.changes = changes;
        true
    }
}
