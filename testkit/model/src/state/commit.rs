//! Commits and amendments (2, 3, 7, 10, 19, 20).

use dauer_store::{
    Batch, Checkpoint, Class, Committed, Completion, Deaths, DropReason, EntityRecord, Fence, History,
    HostId, InstanceId, MessageId, NextRecord, Record, Refused, SessionId, Status, StoredBatch, TaskLease,
    Then, Times, Timestamp,
};

use super::State;
use super::inbox::{Instance, LastCommit};
use crate::mistake::Mistake as M;

impl State {
    /// Commits the turn of a session; without one, a change from outside.
    pub(crate) fn commit(
        &mut self,
        by: Option<SessionId>,
        checkpoint: Checkpoint,
    ) -> Result<Committed, Refused> {
        by.map_or(Ok(()), |session| self.may_act(session))?;
        self.used = true;
        let instance = self.instances.get(&checkpoint.fence.instance).ok_or(Refused::Fenced)?;
        if self.repeats(instance, by, &checkpoint) {
            return Ok(self.answer_again(by, &checkpoint.fence.instance));
        }
        if let Err(refused) = self.check(instance, by, &checkpoint) {
            if self.makes(M::RefusedLeavesTasks) {
                self.add_tasks(None, checkpoint.tasks, 0);
            }
            return Err(refused);
        }
        Ok(self.apply(by, checkpoint))
    }

    /// Whether the last commit was the same.
    fn repeats(&self, instance: &Instance, by: Option<SessionId>, checkpoint: &Checkpoint) -> bool {
        let Some(last) = &instance.last else { return false };
        let (fence, any_epoch) = (&checkpoint.fence, self.makes(M::RepeatIgnoresEpoch));
        let same_hands = last.by == by && last.fence.epoch == fence.epoch;
        last.amendment.as_ref().is_none_or(|amendment| amendment == checkpoint)
            && instance.record.revision == fence.revision.next()
            && last.fence.revision == fence.revision
            && last.fence.execution == fence.execution
            && (same_hands || any_epoch)
            && !self.makes(M::RepeatIsFenced)
    }

    fn check(&self, i: &Instance, by: Option<SessionId>, checkpoint: &Checkpoint) -> Result<(), Refused> {
        let fence = &checkpoint.fence;
        let same_run = fence.execution == i.record.execution || self.makes(M::NoExecutionCheck);
        let same_revision = fence.revision == i.record.revision || self.makes(M::NoRevisionCheck);
        let holds = by.is_none_or(|session| i.holder == Some(session) && i.epoch == fence.epoch);
        let expired = by.is_some_and(|session| !self.lives(session)) && self.makes(M::ExpiryRefuses);
        let holds = (holds || self.makes(M::NoEpochCheck)) && !expired;
        if !same_run || !same_revision || !holds {
            return Err(Refused::Fenced);
        }
        let named = |at: usize| &checkpoint.completions[at].fence;
        let once = |at: usize| (0..at).all(|before| named(before).task != named(at).task);
        let held = |at: usize| {
            let task = self.tasks.get(&(named(at).instance.clone(), named(at).task));
            let of_run = task.is_some_and(|task| task.task.execution == fence.execution && !task.withdrawn);
            let held =
                task.is_some_and(|task| by.is_some_and(|session| task.is_held(session, named(at).epoch)));
            of_run && held && named(at).instance == fence.instance
        };
        let fine = (0..checkpoint.completions.len()).all(|at| held(at) && once(at));
        if !fine && !self.makes(M::IgnoreStaleCompletion) {
            return Err(Refused::Fenced);
        }
        if self.makes(M::LimitBeforeRepeat) {
            self.check_size(checkpoint)?;
        }
        if by.is_none() && self.names_known(i, checkpoint) {
            return Err(Refused::Repeat);
        }
        self.check_size(checkpoint)
    }

    /// Whether an amendment carries out a message that was applied, or the start of a removed instance (10).
    fn names_known(&self, instance: &Instance, checkpoint: &Checkpoint) -> bool {
        let begins = match &checkpoint.history {
            History::Replace { prologue, .. } => prologue.iter().any(|m| m.id == checkpoint.record.start),
            History::Append(_) => false,
        };
        let begun = begins.then_some(checkpoint.record.start);
        let mut named = checkpoint.consumed.iter().copied().chain(begun);
        named.any(|id| {
            let applied = instance.remembers(id, self.now()) && !self.makes(M::AmendsRepeat);
            let removed = self.is_removed(id) && !self.makes(M::AmendsRemovedStart);
            (applied || removed) && instance.waits(id).is_none()
        })
    }

    /// Applies a checkpoint that was checked.
    fn apply(&mut self, by: Option<SessionId>, checkpoint: Checkpoint) -> Committed {
        let amendment = by.is_none().then(|| checkpoint.clone());
        let Checkpoint { fence, consumed, completions, history, record, tasks, timers, messages, take, then } =
            checkpoint;
        let id = &fence.instance;
        let before = self.instances.get(id).map(|instance| instance.record.clone());
        let unclaimed = self.instances.get(id).is_some_and(|instance| instance.last_holder.is_none());
        if by.is_none() {
            self.supersede(id);
        }
        if by.is_some() || !unclaimed || !self.makes(M::AmendLeavesUnclaimed) {
            self.consume(id, consumed, by.is_none().then_some(record.start));
        }
        let used = completions.into_iter().filter(|_| !self.makes(M::FusedTaskStays));
        let used: Vec<Completion> = used.collect();
        used.into_iter().for_each(|used| _ = self.tasks.remove(&(used.fence.instance, used.fence.task)));
        self.write_history(by, id, history);
        self.write_record(id, record);
        self.end_run(id);
        let kept = |lost: bool| {
            if self.moment.torn {
                0
            } else if lost {
                2
            } else {
                usize::MAX
            }
        };
        let (timers_kept, kept) = (kept(self.makes(M::LoseTimers)), kept(self.makes(M::LoseMessages)));
        let taken = self.add_tasks(by, tasks, take);
        for message in timers.into_iter().take(timers_kept).chain(messages.into_iter().take(kept)) {
            self.deliver(message);
        }
        self.keep_or_release(by, id, then);
        if let (Some(instance), Some(before)) = (self.instances.get_mut(id), before) {
            let taken = taken.iter().map(|lease| lease.fence.task).collect();
            instance.last = Some(LastCommit { fence: fence.clone(), by, amendment, taken, before });
        }
        self.answer(by, id, taken)
    }

    /// An amendment leaves the instance without a holder, under a higher epoch.
    fn supersede(&mut self, id: &InstanceId) {
        self.take_turn_from_holder(id);
        let keeps = self.makes(M::AmendKeepsEpoch);
        if let Some(instance) = self.instances.get_mut(id) {
            instance.last_holder = None;
            instance.epoch = if keeps { instance.epoch } else { instance.epoch.next() };
        }
    }

    /// Takes messages out and remembers them (10). `amended` is the start of the record that an amendment leaves.
    fn consume(&mut self, id: &InstanceId, mut consumed: Vec<MessageId>, amended: Option<MessageId>) {
        let moment = self.moment;
        let Some(instance) = self.instances.get_mut(id) else { return };
        if moment.makes(M::ConsumeAll) && !consumed.is_empty() {
            let last = consumed.last().copied();
            let given = instance.batch(moment, usize::MAX, true).unwrap_or_default().messages;
            consumed.extend(given.iter().map(|message| message.id).take_while(|id| Some(*id) != last));
        }
        let mut overtaken = Vec::new();
        for id in consumed {
            let from_outside = amended.is_some_and(|start| start != id) && id != instance.record.start;
            let remembered = match instance.take(id) {
                None => from_outside && !moment.makes(M::AmendedMessageForgotten),
                Some(message) => match message.class {
                    Class::Start(_) if from_outside && !moment.makes(M::OvertakenStartForgotten) => {
                        overtaken.push(id);
                        true
                    }
                    Class::Start(_) => false,
                    _ => message.answers.is_none(),
                },
            };
            if remembered && !moment.makes(M::MemoryOff) {
                instance.remember(id, moment.now);
            }
        }
        overtaken.into_iter().for_each(|start| self.remember_start(start, moment.now));
    }

    fn write_history(&mut self, by: Option<SessionId>, id: &InstanceId, history: History) {
        let moment = self.moment;
        let owner = by.and_then(|session| self.sessions.get(&session)).map(|session| session.host.clone());
        let Some(owner) = owner.or_else(|| HostId::new("amend").ok()) else { return };
        let Some(instance) = self.instances.get_mut(id) else { return };
        let (revision, epoch) = (instance.record.revision.next(), instance.epoch);
        let add = |instance: &mut Instance, batch: Batch| {
            let (first, owner) = (instance.history_len(), owner.clone());
            instance.history.push(StoredBatch { first, revision, epoch, owner, at: moment.now, batch });
        };
        let (execution, batches, prologue) = match history {
            History::Append(batch) => return add(instance, batch),
            History::Replace { execution, batches, prologue } => (execution, batches, prologue),
        };
        instance.history.clear();
        if !moment.makes(M::ReplaceLosesBatches) {
            batches.into_iter().for_each(|batch| add(instance, batch));
        }
        // A message waits once, where it was named last.
        prologue.iter().for_each(|message| _ = instance.take(message.id));
        let left = std::mem::replace(&mut instance.prologue, prologue);
        if !moment.makes(M::ReplaceForgetsPrologue) {
            instance.prologue.extend(left);
        }
        if moment.makes(M::MemoryClearedByReplace) {
            instance.memory.clear();
        }
        if !moment.makes(M::AnswersOutliveTheirRun) {
            let dropped = instance.drop_of_others(execution);
            self.count(DropReason::OtherExecution, dropped);
        }
    }

    fn write_record(&mut self, id: &InstanceId, record: NextRecord) {
        let (moment, now) = (self.moment, self.now());
        let Some(instance) = self.instances.get_mut(id) else { return };
        let old = instance.record.clone();
        let mut record = record.after(&old.details);
        let begun = record.start != old.start;
        if begun && !moment.makes(M::ReplacedStartForgotten) {
            instance.remember(old.start, now);
        }
        record.times = times(&record, &old, now);
        record.revision = old.revision.next();
        (record.history_len, record.history_bytes) = (instance.history_len(), instance.history_bytes());
        record.attempts = if moment.makes(M::AttemptsKept) { old.attempts } else { 0 };
        record.deaths = if moment.makes(M::DeathsKept) { old.deaths } else { Deaths::default() };
        if moment.makes(M::TrialDeathsKept) {
            record.deaths.trials = old.deaths.trials;
        }
        record.trouble = None;
        if moment.makes(M::RecordForgetsUnlocks) {
            let forgets =
                |entity: &EntityRecord| EntityRecord { early_unlocks: Vec::new(), ..entity.clone() };
            let entity = record.details.entity().map(forgets);
            record.details.set_entity(entity);
        }
        instance.record = record;
        if begun {
            self.start_is_gone(&old);
        }
    }

    /// Drops what an ended run leaves (4, 19).
    fn end_run(&mut self, id: &InstanceId) {
        let moment = self.moment;
        let Some(instance) = self.instances.get_mut(id) else { return };
        let (status, execution) = (instance.record.status, instance.record.execution);
        if instance.has_ended() && !moment.makes(M::EndedKeepsMessages) {
            let dropped = instance.drop_of_ended(moment);
            self.count(DropReason::Ended, dropped);
        }
        let terminated = status == Status::Terminated && !moment.makes(M::TerminateKeepsTasks);
        if terminated || status == Status::Completed && moment.makes(M::CompleteWithdrawsTasks) {
            self.withdraw(id, execution);
        }
    }

    /// An ended instance is never kept: the code of another host may have to run the start that waits for it.
    fn keep_or_release(&mut self, by: Option<SessionId>, id: &InstanceId, then: Then) {
        let moment = self.moment;
        let not_before = match then {
            Then::Keep => Timestamp::default(),
            Then::Release { delay } => self.not_before(delay),
        };
        let Some(instance) = self.instances.get_mut(id) else { return };
        let idle = instance.batch(moment, usize::MAX, true).is_none();
        let stays = then == Then::Keep && !instance.has_ended() && !(idle && moment.makes(M::KeepReleases));
        instance.not_before = not_before;
        instance.trial &= moment.makes(M::CommitKeepsTrial);
        instance.holder = by.filter(|_| stays);
    }

    /// The answer to a commit (20).
    fn answer(&self, by: Option<SessionId>, id: &InstanceId, taken: Vec<TaskLease>) -> Committed {
        let instance = self.instances.get(id);
        let revision = instance.map(|instance| instance.record.revision).unwrap_or_default();
        let kept = instance.filter(|i| by.is_some() && i.holder == by && i.has_committed());
        let mail = kept.map(|kept| kept.mail(self.moment, self.limits.mail_bytes)).unwrap_or_default();
        let arrived = if self.makes(M::ArrivedEmpty) { Vec::new() } else { mail.messages };
        Committed { revision, arrived, more: mail.more, taken, now: self.shown() }
    }

    /// The answer to the same commit again.
    fn answer_again(&self, by: Option<SessionId>, id: &InstanceId) -> Committed {
        let last = self.instances.get(id).and_then(|instance| instance.last.as_ref());
        let taken = last.into_iter().flat_map(|last| &last.taken);
        let tasks = taken.filter_map(|task| self.tasks.get(&(id.clone(), *task)));
        let held = tasks.filter(|task| by.is_some() && task.holder == by);
        let taken = held.map(|task| task.lease(self.shown())).collect();
        self.answer(by, id, taken)
    }

    /// The fence of an instance that is there.
    pub(super) fn fence(&self, id: &InstanceId) -> Option<Fence> {
        Some(self.instances.get(id)?.fence(id))
    }
}

/// The times of a record after a commit (15).
fn times(record: &Record, old: &Record, now: Timestamp) -> Times {
    let begun = record.start != old.start;
    let names_created = record.times.created != Times::default().created;
    let created = match begun {
        true if record.times.created == old.times.created => old.times.created,
        true => now,
        false if names_created => record.times.created,
        false => old.times.created,
    };
    let ended_before = old.times.completed.filter(|_| record.execution == old.execution);
    let completed = record.status.is_ended().then(|| ended_before.unwrap_or(now));
    let accepted = if begun { now } else { old.times.accepted };
    Times { created, accepted, updated: now, scheduled: record.times.scheduled, completed }
}
