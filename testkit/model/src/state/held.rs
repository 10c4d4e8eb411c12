//! What a session reports of what it holds, what it adopts, and the key of the hub (9, 25).

use dauer_store::{
    Death, Deaths, Fence, HubKey, Item, Refused, SessionId, TaskFence, TaskLease, TaskName, Trial,
};

use super::State;
use super::inbox::Instance;
use super::tasks::OpenTask;
use crate::mistake::Mistake as M;

impl State {
    /// The key of the hub.
    pub(crate) fn key(&mut self, candidate: HubKey) -> HubKey {
        self.used |= !self.makes(M::KeyMakesNoHub);
        if self.makes(M::KeyReplaced) {
            self.hub.key = None;
        }
        *self.hub.key.get_or_insert(candidate)
    }

    /// Makes the session the holder of an open task.
    pub(crate) fn adopt(&mut self, session: SessionId, name: TaskName) -> Result<Option<TaskLease>, Refused> {
        if !self.makes(M::ExpiredAdopts) {
            self.may_claim(session)?;
        }
        self.may_act(session)?;
        let key = (name.instance, name.task);
        let Some(task) = self.tasks.get(&key) else { return Ok(None) };
        let living = task.holder.is_some_and(|holder| holder != session && self.lives(holder));
        let spared = living && self.makes(M::AdoptSparesLiving)
            || task.not_before > self.now() && self.makes(M::AdoptWaits)
            || task.withdrawn && !self.makes(M::AdoptTakesWithdrawn);
        if spared {
            return Ok(None);
        }
        let ended = task.holder.filter(|holder| !self.lives(*holder));
        let counted = ended.filter(|_| self.makes(M::AdoptCountsDeath)).map(|holder| self.runs_code(holder));
        let noted = ended.filter(|_| self.makes(M::AdoptMovesMark)).map(|holder| self.end_of(holder));
        self.take_from_former(&key);
        let (now, wrong) = (self.shown(), self.wrong());
        Ok(self.tasks.get_mut(&key).map(|task| {
            task.epoch = if wrong.makes(M::AdoptKeepsEpoch) { task.epoch } else { task.epoch.next() };
            (task.holder, task.last_holder) = (Some(session), Some(session));
            task.trial &= wrong.makes(M::AdoptKeepsTrial);
            task.deaths = counted.map_or(task.deaths, |runs_code| task.deaths.after(runs_code));
            task.mark = task.mark.max(noted);
            task.lease(now)
        }))
    }

    fn take_from_former(&mut self, key: &super::TaskKey) {
        let hides = self.makes(M::AdoptHidesLost);
        match self.tasks.get_mut(key).filter(|_| hides) {
            Some(task) => task.holder = None,
            None => self.take_task_from_holder(key),
        }
    }

    /// Counts the death of a worker with an item that the session holds.
    pub(crate) fn died(&mut self, session: SessionId, death: &Death) -> Result<Deaths, Refused> {
        let (wrong, loose) = (self.wrong(), (M::ReportUnfenced, M::ReportOfKept));
        let (deaths, trial) = match &death.item {
            Item::Turn(fence) => {
                let instance = self.held_turn(session, fence, loose)?;
                (&mut instance.record.deaths, &mut instance.trial)
            }
            Item::Task(fence) => {
                let task = self.held_task(session, fence, loose.0)?;
                (&mut task.deaths, &mut task.trial)
            }
        };
        let known = death.known;
        let plain = Deaths { workers: known.workers + 1, ..known };
        let tried = Deaths { trials: known.trials + 1, ..plain };
        let repeat = *deaths == plain || *deaths == tried;
        if *deaths == known || repeat && wrong.makes(M::ReportCountedTwice) {
            deaths.workers += 1;
            deaths.trials += u32::from(*trial && !wrong.makes(M::ReportUncountedInTrial));
            *trial &= wrong.makes(M::ReportKeepsTrial);
        } else if !repeat && wrong.makes(M::ReportComparesNothing) {
            deaths.workers += 1;
        } else if !repeat {
            return Err(Refused::Fenced);
        }
        Ok(*deaths)
    }

    /// Opens or closes a trial of an item that the session holds.
    pub(crate) fn trial(&mut self, session: SessionId, trial: &Trial) -> Result<(), Refused> {
        let loose = (M::TrialUnfenced, M::TrialOfKept);
        let stays = self.makes(M::TrialCloseIgnored);
        let open = match &trial.item {
            Item::Turn(fence) => &mut self.held_turn(session, fence, loose)?.trial,
            Item::Task(fence) => &mut self.held_task(session, fence, loose.0)?.trial,
        };
        *open = trial.open || *open && stays;
        Ok(())
    }

    /// The instance of a turn that the session holds and has not committed, unless one of these mistakes is made.
    fn held_turn(
        &mut self,
        session: SessionId,
        fence: &Fence,
        (of_others, of_kept): (M, M),
    ) -> Result<&mut Instance, Refused> {
        self.may_act(session)?;
        let held = self.held(session, &fence.instance, fence.epoch);
        let held = held.is_ok_and(|held| held.fence(&fence.instance) == *fence) || self.makes(of_others);
        let kept = self.instances.get(&fence.instance).is_some_and(Instance::has_committed);
        if !held || kept && !self.makes(of_kept) && !self.makes(of_others) {
            return Err(Refused::Fenced);
        }
        self.instances.get_mut(&fence.instance).ok_or(Refused::Fenced)
    }

    fn held_task(
        &mut self,
        session: SessionId,
        fence: &TaskFence,
        of_others: M,
    ) -> Result<&mut OpenTask, Refused> {
        self.may_act(session)?;
        let any = self.makes(of_others);
        let task = self.tasks.get_mut(&(fence.instance.clone(), fence.task));
        task.filter(|task| any || task.is_held(session, fence.epoch)).ok_or(Refused::Fenced)
    }
}
