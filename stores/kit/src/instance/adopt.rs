//! Adoption of a task: its worker has come to another session (rule 25).

use dauer_store::{SessionId, TaskLease};

use crate::instance::{Changes, Context, HeldTask};

/// A task that [`HeldTask::check_adopt`] gives to a session.
#[derive(Debug)]
pub struct Adopting {
    session: SessionId,
}

impl HeldTask {
    /// Whether a session adopts the task: it is open. Neither its holder nor its delay matters. The caller has checked that the
    /// session may claim.
    #[must_use]
    pub fn check_adopt(&self, session: SessionId) -> Option<Adopting> {
        (!self.withdrawn).then_some(Adopting { session })
    }

    /// Makes the session the holder, under a higher epoch. Deaths, attempts and mark stay, however the former hold ended.
    pub fn adopt(&mut self, adopting: &Adopting, context: Context<'_>, changes: &mut Changes) -> TaskLease {
        let before = self.epoch;
        self.take_from_holder(changes);
        self.hold(adopting.session);
        if planted!(Defect::AdoptKeepsEpoch) {
            self.epoch = before;
        }
        self.lease(context.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instance::testing::*;
    use dauer_store::{Deaths, Epoch, Item};

    #[test]
    fn adoption_takes_an_open_task_from_any_holder() {
        for holder in [None, Some(ONE), Some(TWO)] {
            let mut held = task(1);
            held.holder = holder;
            (held.attempts, held.mark, held.trial) = (2, Some(NOW), holder.is_some());
            held.deaths = Deaths { workers: 1, servers: 2, trials: 1 };
            held.not_before = NOW.after(std::time::Duration::from_secs(9));
            let (before, fence) = (held.clone(), held.fence());
            let mut changes = Changes::default();
            let adopting = held.check_adopt(TWO).unwrap();
            let lease = held.adopt(&adopting, context(), &mut changes);
            assert_eq!((held.holder, held.trial, lease.fence.epoch), (Some(TWO), false, Epoch(1)));
            assert_eq!((lease.attempts, lease.deaths, lease.mark), (2, before.deaths, before.mark));
            let lost: Vec<_> = holder.into_iter().map(|holder| (holder, Item::Task(fence.clone()))).collect();
            assert_eq!(changes.lost, lost);
        }
    }

    #[test]
    fn withdrawn_task_is_not_adopted() {
        let mut held = task(1);
        held.hold(ONE);
        held.withdrawn = true;
        assert!(held.check_adopt(TWO).is_none());
    }
}
