//! Removing ended instances for good.

use dauer_store::{Hint, InstanceId, Purge, Purged, Refused};

use super::State;
use super::instance::Instance;
use crate::defect::Defect;

impl State {
    /// Removes instances that have ended and for which no start or rewind waits.
    pub(crate) fn purge(&mut self, purge: &Purge) -> Result<Purged, Refused> {
        self.pristine &= !self.exists();
        let (ids, more): (Vec<InstanceId>, bool) = match purge {
            Purge::Ids(ids) => (ids.clone(), false),
            Purge::Matching { query, budget } => {
                let mut found = self.by_created.iter().map(|(_, id)| id).filter(|id| {
                    let instance = self.instances.get(*id);
                    instance.is_some_and(|i| self.may_purge(i) && self.matches(query, id, &i.record))
                });
                let budget = if self.broken(Defect::BudgetIgnored) { usize::MAX } else { *budget };
                let ids = found.by_ref().take(budget).cloned().collect();
                (ids, found.next().is_some())
            }
        };
        let mut count = 0;
        for id in ids {
            if self.instances.get(&id).is_some_and(|instance| self.may_purge(instance)) {
                self.erase(&id);
                count += 1;
            }
        }
        Ok(Purged { count, more })
    }

    fn may_purge(&self, instance: &Instance) -> bool {
        let ended = instance.record.status.is_ended() || self.broken(Defect::PurgeLiving);
        let waited_for = instance.start_waits() && !self.broken(Defect::PurgeTakesWaitingStart);
        // A living instance that waits for its own start is what the defect `PurgeLiving` is about.
        ended && (!waited_for || !instance.record.status.is_ended()) && instance.outbox.is_empty()
    }

    fn erase(&mut self, id: &InstanceId) {
        for key in self.tasks_of(id) {
            self.take_task_from_holder(&key);
            self.discard_task(&key);
        }
        let Some(instance) = self.remove_instance(id) else { return };
        self.removed(&instance);
        self.hints.push(Hint::Status(id.clone(), instance.record.status));
    }
}
