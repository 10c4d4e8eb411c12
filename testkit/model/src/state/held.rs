//! What a session reports of what it holds, what it adopts, and the key of the hub (9, 25).

use dauer_store::{
    Death, Deaths, Fence, HubKey, Item, Refused, SessionId, TaskFence, TaskLease, TaskName, Trial,
};

use super::State;
use super::inbox::Instance;
use super::tasks::OpenTask;

impl State {
    /// The key of the hub.
    pub(crate) fn key(&mut self, candidate: HubKey) -> HubKey {
        self.used = true;
        *self.hub.key.get_or_insert(candidate)
    }

    /// Makes the session the holder of an open task.
    pub(crate) fn adopt(&mut self, session: SessionId, name: TaskName) -> Result<Option<TaskLease>, Refused> {
        self.may_claim(session)?;
        let key = (name.instance, name.task);
        if self.tasks.get(&key).is_none_or(|task| task.withdrawn) {
            return Ok(None);
        }
        self.take_task_from_holder(&key);
        let now = self.shown();
        Ok(self.tasks.get_mut(&key).map(|task| {
            task.epoch = task.epoch.next();
            (task.holder, task.last_holder, task.trial) = (Some(session), Some(session), false);
            task.lease(now)
        }))
    }

    /// Counts the death of a worker with an item that the session holds.
    pub(crate) fn died(&mut self, session: SessionId, death: &Death) -> Result<Deaths, Refused> {
        let (deaths, trial) = match &death.item {
            Item::Turn(fence) => {
                let instance = self.held_turn(session, fence)?;
                (&mut instance.record.deaths, &mut instance.trial)
            }
            Item::Task(fence) => {
                let task = self.held_task(session, fence)?;
                (&mut task.deaths, &mut task.trial)
            }
        };
        let known = death.known;
        let plain = Deaths { workers: known.workers + 1, ..known };
        let tried = Deaths { trials: known.trials + 1, ..plain };
        if *deaths == known {
            *deaths = if std::mem::take(trial) { tried } else { plain };
        } else if *deaths != plain && *deaths != tried {
            return Err(Refused::Fenced);
        }
        Ok(*deaths)
    }

    /// Opens or closes a trial of an item that the session holds.
    pub(crate) fn trial(&mut self, session: SessionId, trial: &Trial) -> Result<(), Refused> {
        match &trial.item {
            Item::Turn(fence) => self.held_turn(session, fence)?.trial = trial.open,
            Item::Task(fence) => self.held_task(session, fence)?.trial = trial.open,
        }
        Ok(())
    }

    /// The instance of a turn that the session holds and has not committed.
    fn held_turn(&mut self, session: SessionId, fence: &Fence) -> Result<&mut Instance, Refused> {
        let held = self.held(session, &fence.instance, fence.epoch)?;
        if held.has_committed() || held.fence(&fence.instance) != *fence {
            return Err(Refused::Fenced);
        }
        self.instances.get_mut(&fence.instance).ok_or(Refused::Fenced)
    }

    fn held_task(&mut self, session: SessionId, fence: &TaskFence) -> Result<&mut OpenTask, Refused> {
        self.may_act(session)?;
        let task = self.tasks.get_mut(&(fence.instance.clone(), fence.task));
        task.filter(|task| task.is_held(session, fence.epoch)).ok_or(Refused::Fenced)
    }
}
