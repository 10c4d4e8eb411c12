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
