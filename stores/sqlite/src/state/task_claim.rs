//! Claiming tasks, as turns are claimed.

use dauer_store::{SessionId, TaskLease, Want};

use super::claim::{Won, readable};
use super::gather::{Take, tags_match};
use super::task::HeldTask;
use super::{Scope, What};
use crate::fail::Outcome;

impl Scope<'_, '_> {
    /// Wins tasks for a session.
    pub(crate) fn claim_tasks(&mut self, session: SessionId, want: &Want) -> Outcome<Won<TaskLease>> {
        let session = self.claimer(session)?;
        self.touch()?;
        self.sweep()?;
        let mut won = Won::nothing(session, want);
        for (key, epoch) in self.group.undelivered.of(session, What::Task) {
            let Some(task) = self.undelivered_task(session, key, epoch)? else { continue };
            if want.queues.admits(&task.task.queue)
                && let Take::Full = self.win_task(want, task, &mut won)?
            {
                return Ok(won);
            }
        }
        self.gather(want, What::Task, |scope, due| {
            let Some(task) = readable(scope.task_at(due.key))?.flatten() else { return Ok(Take::Passed) };
            let free = match task.holder {
                None => true,
                Some(holder) => holder != session && !scope.lives(holder)?,
            };
            if free { scope.win_task(want, task, &mut won) } else { Ok(Take::Passed) }
        })?;
        Ok(won)
    }

    /// A task that an earlier claim of the session won, if it is still so. One that was withdrawn meanwhile goes: nobody
    /// else would ever answer it.
    fn undelivered_task(&mut self, session: i64, key: i64, epoch: u64) -> Outcome<Option<HeldTask>> {
        let task = readable(self.task_at(key))?.flatten();
        let mine = task.filter(|task| task.epoch.0 == epoch && task.holder == Some(session));
        let Some(task) = mine else {
            self.group.stale.push((session, (What::Task, key, epoch)));
            return Ok(None);
        };
        if task.withdrawn {
            self.discard_task(&task)?;
            return Ok(None);
        }
        Ok(Some(task).filter(|_| !self.group.won_again.contains(&(What::Task, key))))
    }

    fn win_task(&mut self, want: &Want, mut task: HeldTask, won: &mut Won<TaskLease>) -> Outcome<Take> {
        if won.items.len() >= want.count {
            return Ok(Take::Full);
        }
        if !tags_match(want, &task.task.tags) {
            return Ok(Take::Passed);
        }
        let bytes = won.bytes.saturating_add(task.task.event.len());
        if bytes > want.bytes && !won.items.is_empty() {
            return Ok(Take::Full);
        }
        self.take_over_task(won.session, &mut task)?;
        won.bytes = bytes;
        won.parcels.push((What::Task, task.key, task.epoch.0));
        won.items.push(task.lease(self.now));
        Ok(Take::Taken)
    }

    /// Makes the session the holder of a task, as for turns.
    fn take_over_task(&mut self, session: i64, task: &mut HeldTask) -> Outcome<()> {
        let continues = task.holder == Some(session);
        if task.holder.is_some() && !continues {
            self.take_task_from_holder(task)?;
            task.attempts = task.attempts.saturating_add(1);
        }
        if !continues {
            task.epoch = task.epoch.next();
        }
        task.holder = Some(session);
        self.group.won_again.insert((What::Task, task.key));
        self.store_task(task)
    }
}
