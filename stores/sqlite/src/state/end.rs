//! The end of a run: what it leaves behind.

use dauer_store::{DropReason, ExecutionId, Status};

use super::instance::Instance;
use super::{Scope, What};
use crate::fail::Outcome;

impl Scope<'_, '_> {
    /// Drops what an ended run leaves: its messages always, its tasks when it was terminated.
    pub(super) fn end_run(&mut self, instance: &mut Instance) -> Outcome<()> {
        if instance.is_over() {
            let dropped = self.drop_of_ended(instance)?;
            self.count_dropped(DropReason::Ended, dropped)?;
        }
        if instance.record.status == Status::Terminated {
            self.put_out(instance)?;
            self.withdraw_tasks(instance.key, instance.record.execution)?;
            instance.tasks.clear();
        }
        Ok(())
    }

    /// Withdraws the tasks of a terminated run: those in living hands wait for their answer, the others go.
    fn withdraw_tasks(&mut self, instance: i64, execution: ExecutionId) -> Outcome<()> {
        for mut task in self.tasks_of(instance)? {
            if task.task.execution != execution {
                continue;
            }
            // What a claim has won and nobody received yet will never be answered: it goes at once.
            let received = match task.holder {
                None => false,
                Some(session) => {
                    let parcel = (What::Task, task.key, task.epoch.0);
                    !self.group.undelivered.contains(session, parcel) && self.lives(session)?
                }
            };
            if received {
                task.withdrawn = true;
                self.store_task(&mut task)?;
            } else {
                self.discard_task(&task)?;
            }
        }
        Ok(())
    }
}
