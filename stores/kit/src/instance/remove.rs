//! Removal of an instance, by a purge or by a load in its place (rule 21).

use dauer_store::{DropReason, Floor, Hint, Record, Timestamp};

use crate::instance::{Changes, Facts, HeldTask, Instance, Part};
use crate::judge::is_recent;

impl Instance {
    /// Whether a purge removes it: it has ended, and no start or rewind waits for it.
    pub fn may_purge<F: Facts>(&self, facts: &F) -> Result<bool, F::Error> {
        if planted!(Defect::PurgeLiving) && !self.head.record.status.is_ended() {
            return Ok(true);
        }
        let ended = self.head.record.status.is_ended();
        Ok(ended
            && (planted!(Defect::PurgeTakesWaitingStart)
                || !self.part(facts, &[Part::Openings])?.has_opening()))
    }

    /// The floor of the hub above this instance.
    #[must_use]
    pub fn floor_above(&self, floor: Floor) -> Floor {
        let above = floor.above(self.head.epoch, self.head.record.revision);
        let epoch = if planted!(Defect::RemovalKeepsEpochFloor) { floor.epoch } else { above.epoch };
        let revision =
            if planted!(Defect::RemovalKeepsRevisionFloor) { floor.revision } else { above.revision };
        Floor { epoch, revision }
    }

    /// Purges the instance. `tasks` are all its tasks. The caller raises the floor, and removes what belongs to the instance.
    pub fn purge(mut self, tasks: Vec<HeldTask>, now: Timestamp, changes: &mut Changes) {
        discard_tasks(tasks, changes);
        self.take_from_holder(changes);
        if !planted!(Defect::RemovalForgetsStart) {
            start_is_gone(&self.head.record, now, changes);
        }
        changes.hints.push(Hint::Status(self.id.clone(), self.head.record.status));
    }
}

/// The tasks of an instance that goes: their holders lose them.
pub(super) fn discard_tasks(tasks: Vec<HeldTask>, changes: &mut Changes) {
    changes.drops(DropReason::Withdrawn, tasks.len());
    for mut task in tasks {
        task.take_from_holder(changes);
        changes.tasks_gone.push(task.id());
    }
}

/// No instance names the start of that record any more: a retry of it must still be recognised.
pub(super) fn start_is_gone(record: &Record, now: Timestamp, changes: &mut Changes) {
    let accepted = record.times.accepted;
    if is_recent(accepted, now) {
        changes.gone_starts.push((record.start, accepted));
    }
}
