//! What a session reports of the items it holds, and the tasks that it adopts.

use dauer_store::{Death, Deaths, Fence, Item, Refused, SessionId, TaskFence, TaskLease, TaskName, Trial};
use dauer_store_kit::instance::{Dirty, HeldTask};

use super::task::TaskRow;
use super::{Scope, fenced};
use crate::fail::Outcome;

impl Scope<'_, '_> {
    /// Makes a session the holder of an open task, wherever the task lies.
    pub(crate) fn adopt(&mut self, session: SessionId, name: &TaskName) -> Outcome<Option<TaskLease>> {
        self.claimer(session)?;
        let Some((mut row, adopting)) = self.row_of(name, |held| held.check_adopt(session))? else {
            return Ok(None);
        };
        let mut changes = self.changes();
        let lease = row.held.adopt(&adopting, self.context(), &mut changes);
        self.store_task(row)?;
        self.report_lost(&mut changes)?;
        self.done_with(changes);
        Ok(Some(lease))
    }

    /// Counts the death of a worker of a session with an item that the session holds.
    pub(crate) fn died(&mut self, session: SessionId, death: &Death) -> Outcome<Deaths> {
        self.actor(session)?;
        match &death.item {
            Item::Turn(fence) => self.died_with_turn(session, fence, death.known),
            Item::Task(fence) => {
                let (mut row, dying) =
                    self.held_row(fence, |held| held.check_died(session, fence, death.known))?;
                let deaths = row.held.died(&dying);
                self.store_task(row)?;
                Ok(deaths)
            }
        }
    }

    fn died_with_turn(&mut self, session: SessionId, fence: &Fence, known: Deaths) -> Outcome<Deaths> {
        let Some(mut loaded) = self.fetch(&fence.instance)? else { return fenced() };
        match loaded.instance.check_died(session, fence, known) {
            Ok(dying) => {
                let mut changes = self.changes();
                let deaths = loaded.instance.died(&dying, &mut changes);
                self.finish(loaded, changes)?;
                Ok(deaths)
            }
            Err(refused) => {
                self.put_back(loaded);
                Err(refused.into())
            }
        }
    }

    /// Opens or closes a trial of an item that a session holds.
    pub(crate) fn trial(&mut self, session: SessionId, trial: &Trial) -> Outcome<()> {
        self.actor(session)?;
        match &trial.item {
            Item::Turn(fence) => self.try_turn(session, fence, trial.open),
            Item::Task(fence) => {
                let (mut row, trying) =
                    self.held_row(fence, |held| held.check_trial(session, fence, trial.open))?;
                row.held.note_trial(&trying);
                self.store_task(row)
            }
        }
    }

    fn try_turn(&mut self, session: SessionId, fence: &Fence, open: bool) -> Outcome<()> {
        let Some(mut loaded) = self.fetch(&fence.instance)? else { return fenced() };
        match loaded.instance.check_trial(session, fence, open) {
            Ok(trying) => {
                let mut changes = self.changes();
                loaded.instance.note_trial(&trying, &mut changes);
                self.finish(loaded, changes)
            }
            Err(refused) => {
                self.put_back(loaded);
                Err(refused.into())
            }
        }
    }

    /// The row of a task, if `check` allows what happens to it, with the token of the check. A task that lies in the row of its
    /// instance becomes a row of its own.
    pub(super) fn held_row<T>(
        &mut self,
        fence: &TaskFence,
        check: impl FnOnce(&HeldTask) -> Result<T, Refused>,
    ) -> Outcome<(TaskRow, T)> {
        let name = TaskName { instance: fence.instance.clone(), task: fence.task };
        self.row_of(&name, |held| check(held).ok())?.map_or_else(fenced, Ok)
    }

    fn row_of<T>(
        &mut self,
        name: &TaskName,
        check: impl FnOnce(&HeldTask) -> Option<T>,
    ) -> Outcome<Option<(TaskRow, T)>> {
        let Some(mut loaded) = self.fetch(&name.instance)? else { return Ok(None) };
        let held = self.task_of(&loaded.stored, name.task)?;
        let Some(token) = held.and_then(|held| check(&held)) else {
            self.put_back(loaded);
            return Ok(None);
        };
        self.put_out(&mut loaded)?;
        self.write_row(&mut loaded, Dirty::default())?;
        let key = loaded.stored.key;
        self.put_back(loaded);
        Ok(self.task(key, name.task)?.map(|row| (row, token)))
    }
}
