//! Activity tasks: claimed like turns, answered by a message to the instance.

use dauer_store::{
    Completion, Delivered, DropReason, Epoch, ExecutionId, InstanceId, Item, MessageId, Refused, SessionId,
    Task, TaskFence, TaskLease, Timestamp, Want,
};

use super::gather::Take;
use super::{Held, Place, State};
use crate::defect::Defect;

/// A task is found by its instance first, so that an instance's tasks stand together.
pub(crate) type TaskKey = (InstanceId, MessageId);

/// A task as it lies in the store.
#[derive(Debug, Clone)]
pub(crate) struct HeldTask {
    pub(crate) task: Task,
    pub(crate) epoch: Epoch,
    pub(crate) holder: Option<Held>,
    pub(crate) last_holder: Option<SessionId>,
    pub(crate) attempts: u32,
    /// Since when it waits.
    pub(crate) ready_at: Timestamp,
    pub(crate) not_before: Timestamp,
    /// It only waits for its holder to answer or die.
    pub(crate) withdrawn: bool,
    pub(crate) place: Option<Place>,
}

/// What a claim has won, to be handed out in the moment it answers.
pub(crate) struct WonTasks {
    number: u64,
    leases: Vec<TaskLease>,
    bytes: usize,
}

impl HeldTask {
    pub(crate) fn new(task: Task, ready_at: Timestamp) -> Self {
        Self {
            task,
            epoch: Epoch::default(),
            holder: None,
            last_holder: None,
            attempts: 0,
            ready_at,
            not_before: Timestamp::default(),
            withdrawn: false,
            place: None,
        }
    }

    pub(crate) fn fence(&self) -> TaskFence {
        TaskFence { task: self.task.id, instance: self.task.instance.clone(), epoch: self.epoch }
    }

    pub(crate) fn lease(&self, now: Timestamp) -> TaskLease {
        TaskLease { fence: self.fence(), task: self.task.clone(), attempts: self.attempts, now }
    }

    pub(crate) fn is_held_by(&self, session: SessionId, epoch: Epoch) -> bool {
        self.epoch == epoch && self.holder.is_some_and(|held| held.session == session)
    }
}

impl State {
    /// Wins tasks for a session. They stay won until they are handed out, or the session ends.
    pub(crate) fn win_tasks(&mut self, session: SessionId, want: &Want) -> Result<WonTasks, Refused> {
        self.claiming(session)?;
        self.pristine = false;
        self.sweep();
        let mut won = WonTasks { number: self.next_sequence(), leases: Vec::new(), bytes: 0 };
        for key in self.undelivered_tasks(session, want) {
            if let Take::Full = self.win_task(session, want, &key, &mut won) {
                return Ok(won);
            }
        }
        self.gather(
            want,
            |state| &mut state.ready_tasks,
            |state, _, key| {
                let mine = |task: &HeldTask| task.holder.is_some_and(|held| held.session == session);
                if state.tasks.get(key).is_none_or(mine) {
                    return Take::Passed;
                }
                state.win_task(session, want, key, &mut won)
            },
        );
        Ok(won)
    }

    /// Hands out what a claim won and still has.
    pub(crate) fn hand_out_tasks(&mut self, session: SessionId, won: WonTasks) -> Vec<TaskLease> {
        let mut leases = won.leases;
        leases.retain(|lease| {
            let key = (lease.fence.instance.clone(), lease.fence.task);
            let Some(task) = self.tasks.get_mut(&key) else { return false };
            let mine = task.holder == Some(Held { session, won_by: Some(won.number) });
            if mine {
                task.holder = Some(Held::by(session));
            }
            mine || self.broken(Defect::ForgetDroppedClaim)
        });
        leases
    }

    fn undelivered_tasks(&self, session: SessionId, want: &Want) -> Vec<TaskKey> {
        let held = self.sessions.get(&session).into_iter().flat_map(|s| s.tasks.iter());
        let undelivered = held.filter(|key| {
            self.tasks.get(*key).is_some_and(|task| {
                let won = task.holder.is_some_and(|held| held.session == session && held.won_by.is_some());
                won && !task.withdrawn && want.queues.admits(&task.task.queue)
            })
        });
        undelivered.cloned().collect()
    }

    fn win_task(&mut self, session: SessionId, want: &Want, key: &TaskKey, won: &mut WonTasks) -> Take {
        if self.is_full(want, won.leases.len()) {
            return Take::Full;
        }
        let Some(task) = self.tasks.get(key) else { return Take::Passed };
        if !self.tags_match(want, &task.task.tags) {
            return Take::Passed;
        }
        let bytes = won.bytes.saturating_add(task.task.event.len());
        if bytes > want.bytes && !won.leases.is_empty() {
            return Take::Full;
        }
        let won_by = (!self.broken(Defect::ForgetDroppedClaim)).then_some(won.number);
        self.take_over_task(session, key, Held { session, won_by });
        let now = self.shown_now();
        let Some(task) = self.tasks.get(key) else { return Take::Passed };
        won.bytes = bytes;
        won.leases.push(task.lease(now));
        Take::Taken
    }

    /// Makes the session the holder of a task, as for turns.
    pub(super) fn take_over_task(&mut self, session: SessionId, key: &TaskKey, holder: Held) {
        let Some(task) = self.tasks.get(key) else { return };
        let from_dead = task.holder.is_some_and(|held| held.session != session);
        let continues = task.holder.is_some_and(|held| held.session == session);
        let reclaims = task.holder.is_none() && task.last_holder == Some(session);
        let proven = task.holder.is_some_and(|held| self.is_proven_dead(held.session));
        if from_dead {
            self.take_task_from_holder(key);
        }
        let keeps_epoch = from_dead && self.broken(Defect::TakeoverKeepsEpoch)
            || reclaims && self.broken(Defect::ReclaimKeepsEpoch);
        let uncounted = if proven { Defect::EndSessionUncounted } else { Defect::TakeoverUncounted };
        let counts = from_dead && !self.broken(uncounted);
        let Some(task) = self.tasks.get_mut(key) else { return };
        if !continues && !keeps_epoch {
            task.epoch = task.epoch.next();
        }
        if counts {
            task.attempts = task.attempts.saturating_add(1);
        }
        task.last_holder = Some(session);
        task.holder = Some(holder);
        if let Some(session) = self.sessions.get_mut(&session) {
            session.tasks.insert(key.clone());
        }
        self.reindex_task(key);
    }

    /// Takes a task from whoever holds it; a host that had received it is told at its next renewal.
    pub(super) fn take_task_from_holder(&mut self, key: &TaskKey) {
        let Some(task) = self.tasks.get_mut(key) else { return };
        let Some(held) = task.holder.take() else { return };
        let fence = task.fence();
        if let Some(session) = self.sessions.get_mut(&held.session) {
            session.tasks.remove(key);
            if held.won_by.is_none() {
                session.lost.push(Item::Task(fence));
            }
        }
        self.forget_if_gone(held.session);
        self.reindex_task(key);
    }

    /// Answers a task. What is no longer held is dropped, which is no error.
    pub(crate) fn complete(
        &mut self,
        session: SessionId,
        completion: Completion,
    ) -> Result<Delivered, Refused> {
        self.pristine = false;
        self.check_message(&completion.answer)?;
        let Completion { fence, answer } = completion;
        let key = (fence.instance, fence.task);
        let acts = self.acting(session).is_ok();
        let held = self.tasks.get(&key).filter(|task| {
            acts && task.is_held_by(session, fence.epoch) || self.broken(Defect::StaleTaskEpochAccepted)
        });
        let Some(task) = held else { return Ok(self.drop_answer(DropReason::NotHeld)) };
        if task.withdrawn {
            self.remove_task(&key);
            return Ok(self.drop_answer(DropReason::Withdrawn));
        }
        if !self.broken(Defect::CompleteTwice) {
            self.remove_task(&key);
        }
        Ok(self.deliver(answer))
    }

    fn drop_answer(&mut self, reason: DropReason) -> Delivered {
        self.count_dropped(reason, 1);
        Delivered::Dropped(reason)
    }

    /// Withdraws the tasks of a terminated run: those in living hands wait for their answer, the others go.
    pub(super) fn withdraw_tasks(&mut self, id: &InstanceId, execution: ExecutionId) {
        for key in self.tasks_of(id) {
            let Some(task) = self.tasks.get(&key).filter(|task| task.task.execution == execution) else {
                continue;
            };
            // What was won and never handed out nobody is running: there is no answer to wait for.
            let runs = task.holder.is_some_and(|held| held.won_by.is_none() && self.is_live(held.session));
            if runs {
                if let Some(task) = self.tasks.get_mut(&key) {
                    task.withdrawn = true;
                }
                self.reindex_task(&key);
            } else {
                self.discard_task(&key);
            }
        }
    }

    /// Removes a task that nobody will answer any more.
    pub(super) fn discard_task(&mut self, key: &TaskKey) {
        let holder = self.remove_task(key).and_then(|task| task.holder);
        self.count_dropped(DropReason::Withdrawn, 1);
        if let Some(held) = holder {
            self.forget_if_gone(held.session);
        }
    }
}
