//! What a session reports of the items it holds, and the tasks that it adopts (rules 9 and 25).

use dauer_store::{Death, Deaths, Item, Refused, SessionId, TaskFence, TaskLease, TaskName, Trial};

use super::{Partition, TaskKey, TaskRow};
use crate::instance::Context;

impl Partition {
    /// Makes a session the holder of an open task.
    ///
    /// # Errors
    /// If the session may not claim.
    pub fn adopt(&mut self, session: SessionId, name: TaskName) -> Result<Option<TaskLease>, Refused> {
        self.lists.beside.sessions.winning(session, self.lists.beside.now)?;
        let key: TaskKey = (name.instance, name.task);
        let Some(adopting) = self.task(&key).and_then(|row| row.held.check_adopt(session)) else {
            return Ok(None);
        };
        let lease = self.change_tasks(&key.0, |lists, tasks| {
            let context = Context { now: lists.beside.now, limits: &lists.limits };
            Some(tasks.get_mut(&key.1)?.held.adopt(&adopting, context, &mut lists.changes))
        });
        self.write_of_task(&key.0);
        self.change_task(&key, |_| true);
        Ok(lease)
    }

    /// Counts the death of a worker of a session with an item that the session holds.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session does not hold it, or knows other deaths.
    pub fn died(&mut self, session: SessionId, death: &Death) -> Result<Deaths, Refused> {
        self.lists.beside.sessions.acting(session)?;
        match &death.item {
            Item::Turn(fence) => {
                let id = &fence.instance;
                let stored = self.instances.get_mut(id).ok_or(Refused::Fenced)?;
                let dying = stored.instance.check_died(session, fence, death.known)?;
                let deaths = self
                    .lists
                    .apply(&mut stored.instance, |instance, _, _, changes| instance.died(&dying, changes));
                self.lists.write(id, stored);
                Ok(deaths)
            }
            Item::Task(fence) => {
                let (key, row) = self.held_task(fence)?;
                let dying = row.held.check_died(session, fence, death.known)?;
                let mut deaths = death.known;
                self.change_task(&key, |row| {
                    deaths = row.held.died(&dying);
                    true
                });
                Ok(deaths)
            }
        }
    }

    /// Opens or closes a trial of an item that a session holds.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session does not hold it.
    pub fn trial(&mut self, session: SessionId, trial: &Trial) -> Result<(), Refused> {
        self.lists.beside.sessions.acting(session)?;
        match &trial.item {
            Item::Turn(fence) => {
                let id = &fence.instance;
                let stored = self.instances.get_mut(id).ok_or(Refused::Fenced)?;
                let trying = stored.instance.check_trial(session, fence, trial.open)?;
                self.lists.apply(&mut stored.instance, |instance, _, _, changes| {
                    instance.note_trial(&trying, changes);
                });
                self.lists.write(id, stored);
            }
            Item::Task(fence) => {
                let (key, row) = self.held_task(fence)?;
                let trying = row.held.check_trial(session, fence, trial.open)?;
                self.change_task(&key, |row| {
                    row.held.note_trial(&trying);
                    true
                });
            }
        }
        Ok(())
    }

    fn held_task(&self, fence: &TaskFence) -> Result<(TaskKey, &TaskRow), Refused> {
        let key = (fence.instance.clone(), fence.task);
        let row = self.task(&key).ok_or(Refused::Fenced)?;
        Ok((key, row))
    }
}
