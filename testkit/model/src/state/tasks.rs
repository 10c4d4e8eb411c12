//! Activity tasks (10, 19, 20).

use dauer_store::{
    Completion, Deaths, Delivered, DropReason, Epoch, ExecutionId, InstanceId, Item, Refused, SessionId,
    Task, TaskFence, TaskLease, Timestamp,
};

use super::{State, TaskKey};
use crate::mistake::Mistake as M;

/// A task that is not answered.
#[derive(Debug, Clone)]
pub(super) struct OpenTask {
    pub(super) task: Task,
    pub(super) epoch: Epoch,
    pub(super) holder: Option<SessionId>,
    pub(super) last_holder: Option<SessionId>,
    pub(super) attempts: u32,
    pub(super) deaths: Deaths,
    /// When the session of a server that held it ended.
    pub(super) mark: Option<Timestamp>,
    /// A trial is open.
    pub(super) trial: bool,
    /// When it was scheduled.
    pub(super) ready_at: Timestamp,
    pub(super) not_before: Timestamp,
    /// It only waits for its holder to answer or die.
    pub(super) withdrawn: bool,
}

impl OpenTask {
    pub(super) fn is_held(&self, session: SessionId, epoch: Epoch) -> bool {
        self.holder == Some(session) && self.epoch == epoch
    }

    pub(super) fn fence(&self) -> TaskFence {
        TaskFence { task: self.task.id, instance: self.task.instance.clone(), epoch: self.epoch }
    }

    pub(super) fn lease(&self, now: Timestamp) -> TaskLease {
        let Self { attempts, deaths, mark, .. } = *self;
        TaskLease { fence: self.fence(), task: self.task.clone(), attempts, deaths, mark, now }
    }
}

impl State {
    /// Adds new tasks, and leases the first `take` of them to the session.
    pub(super) fn add_tasks(
        &mut self,
        by: Option<SessionId>,
        tasks: Vec<Task>,
        take: usize,
    ) -> Vec<TaskLease> {
        let take = if self.makes(M::TakeIgnored) { 0 } else { take };
        let most = if self.makes(M::LoseTasks) { 2 } else { usize::MAX };
        let now = self.now();
        let mut taken = Vec::new();
        for (at, task) in tasks.into_iter().take(most).enumerate() {
            let key = (task.instance.clone(), task.id);
            if self.tasks.contains_key(&key) {
                continue;
            }
            let (epoch, not_before) = (Epoch::default(), Timestamp::default());
            let open = OpenTask {
                task,
                epoch,
                holder: None,
                last_holder: None,
                attempts: 0,
                deaths: Deaths::default(),
                mark: None,
                trial: false,
                ready_at: now,
                not_before,
                withdrawn: false,
            };
            self.tasks.insert(key.clone(), open);
            if let Some(session) = by.filter(|_| at < take) {
                self.hold_task(session, &key);
                taken.extend(self.tasks.get(&key).map(|task| task.lease(self.shown())));
            }
        }
        taken
    }

    /// Makes a session the holder of a task. The deaths grow when the last holder died with it (9).
    pub(super) fn hold_task(&mut self, session: SessionId, key: &TaskKey) {
        let Some(holder) = self.tasks.get(key).map(|task| task.holder) else { return };
        let proven = holder.is_some_and(|holder| self.is_proven_dead(holder));
        let uncounted = if proven { M::EndSessionUncounted } else { M::TakeoverUncounted };
        let counts = holder.is_some() && !self.makes(uncounted);
        let runs_code =
            holder.is_some_and(|holder| self.runs_code(holder)) || self.makes(M::ServerCountsAsWorker);
        let mark = holder.filter(|holder| !self.runs_code(*holder) && !self.makes(M::ExpiryLeavesNoMark));
        let mark = mark.map(|holder| self.end_of(holder));
        let ran_code = holder.is_some_and(|holder| self.runs_code(holder));
        self.take_task_from_holder(key);
        let wrong = self.wrong();
        let Some(task) = self.tasks.get_mut(key) else { return };
        let reclaims = holder.is_none() && task.last_holder == Some(session);
        let keeps = holder.is_some() && wrong.makes(M::TakeoverKeepsEpoch)
            || reclaims && wrong.makes(M::ReclaimKeepsEpoch);
        task.epoch = if keeps { task.epoch } else { task.epoch.next() };
        if counts {
            let during = task.trial && (ran_code || wrong.makes(M::ServerEndCountsInTrial));
            task.deaths.trials += u32::from(during && !wrong.makes(M::TrialUncounted));
            task.deaths = task.deaths.after(runs_code);
        }
        task.trial &= wrong.makes(M::TakeoverKeepsTrial);
        task.mark = task.mark.max(mark);
        (task.holder, task.last_holder) = (Some(session), Some(session));
    }

    pub(super) fn take_task_from_holder(&mut self, key: &TaskKey) {
        let Some(task) = self.tasks.get_mut(key) else { return };
        let Some(holder) = task.holder.take() else { return };
        let fence = task.fence();
        if let Some(session) = self.sessions.get_mut(&holder) {
            session.lost.push(Item::Task(fence));
        }
        self.forget_ended();
    }

    /// Answers a task (10).
    pub(crate) fn complete(
        &mut self,
        session: SessionId,
        completion: Completion,
    ) -> Result<Delivered, Refused> {
        self.check_message(&completion.answer)?;
        if !self.exists() && !self.makes(M::AnswerMakesHub) {
            return Ok(Delivered::Dropped(DropReason::NotHeld));
        }
        self.used = true;
        let Completion { fence, answer } = completion;
        let key = (fence.instance, fence.task);
        let acts = self.may_act(session).is_ok();
        let stale = self.makes(M::StaleTaskEpochAccepted);
        let held = |task: &&OpenTask| acts && task.is_held(session, fence.epoch) || stale;
        let Some(withdrawn) = self.tasks.get(&key).filter(held).map(|task| task.withdrawn) else {
            self.count(DropReason::NotHeld, 1);
            return Ok(Delivered::Dropped(DropReason::NotHeld));
        };
        if withdrawn {
            self.discard(&key);
            return Ok(Delivered::Dropped(DropReason::Withdrawn));
        }
        if !self.makes(M::CompleteTwice) {
            self.tasks.remove(&key);
        }
        Ok(self.deliver(answer))
    }

    /// Withdraws the tasks of a terminated run. Those that a living session holds wait for it.
    pub(super) fn withdraw(&mut self, id: &InstanceId, execution: ExecutionId) {
        for key in self.tasks_of(id) {
            let Some(task) = self.tasks.get(&key).filter(|task| task.task.execution == execution) else {
                continue;
            };
            if task.holder.is_some_and(|holder| self.lives(holder)) {
                if let Some(task) = self.tasks.get_mut(&key) {
                    task.withdrawn = true;
                }
            } else {
                self.discard(&key);
            }
        }
    }

    /// Withdraws all tasks of an instance that gives way.
    pub(super) fn withdraw_all(&mut self, id: &InstanceId) {
        for key in self.tasks_of(id) {
            self.take_task_from_holder(&key);
            self.discard(&key);
        }
    }

    /// Removes a task that no one will answer.
    pub(super) fn discard(&mut self, key: &TaskKey) {
        if self.tasks.remove(key).is_some() {
            self.count(DropReason::Withdrawn, 1);
        }
        self.forget_ended();
    }
}
