//! Commits: everything one turn changes, checked against the fence and applied as one.

use std::collections::BTreeSet;

use dauer_store::{
    Batch, Checkpoint, Committed, Completion, DropReason, Fence, History, InstanceId, MessageId, Record,
    Refused, SessionId, Status, StoredBatch, Task, TaskLease, Then,
};
use dauer_store_kit::judge::{self, Recall};

use dauer_core::planted::{self, Bug};

use super::instance::LastCommit;
use super::task::HeldTask;
use super::{Held, State};
use crate::defect::Defect;

impl State {
    /// Commits the turn of a session.
    pub(crate) fn commit(
        &mut self,
        session: SessionId,
        checkpoint: Checkpoint,
    ) -> Result<Committed, Refused> {
        self.acting(session)?;
        self.write(Some(session), checkpoint)
    }

    /// Commits a change from outside, over the head of whoever holds the instance.
    pub(crate) fn amend(&mut self, checkpoint: Checkpoint) -> Result<Committed, Refused> {
        self.write(None, checkpoint)
    }

    fn write(&mut self, by: Option<SessionId>, checkpoint: Checkpoint) -> Result<Committed, Refused> {
        self.pristine = false;
        let instance = self.instances.get(&checkpoint.fence.instance).ok_or(Refused::Fenced)?;
        if instance.repeats(&checkpoint, by, self.moment) {
            return Ok(self.answer_again(by, &checkpoint.fence.instance));
        }
        if let Err(refused) = self.check(by, &checkpoint) {
            if self.broken(Defect::RefusedLeavesTasks) {
                self.insert_tasks(None, checkpoint.tasks, 0);
            }
            return Err(refused);
        }
        Ok(self.apply(by, checkpoint))
    }

    /// Whether a checkpoint may be applied. Changes nothing.
    fn check(&self, by: Option<SessionId>, checkpoint: &Checkpoint) -> Result<(), Refused> {
        self.check_fence(by, &checkpoint.fence)?;
        if !self.broken(Defect::IgnoreStaleCompletion) {
            self.check_completions(by, &checkpoint.fence, &checkpoint.completions)?;
        }
        if by.is_none() && !self.broken(Defect::AmendsRepeat) {
            self.check_amendment(checkpoint)?;
        }
        let checked = judge::check_checkpoint(&self.limits, self.now(), checkpoint);
        if self.broken(Defect::LimitIgnored) { Ok(()) } else { checked }
    }

    /// An amendment carries out no message that was applied before: neither one that it consumes, nor a start that it puts
    /// before the inbox. One that waits was not.
    fn check_amendment(&self, checkpoint: &Checkpoint) -> Result<(), Refused> {
        let Some(instance) = self.instances.get(&checkpoint.fence.instance) else { return Ok(()) };
        let start = judge::amended_start(checkpoint);
        let removed = start.is_some_and(|start| self.is_removed_start(start.id));
        let mut named = checkpoint.consumed.iter().copied().chain(start.map(|start| start.id));
        let applied = |id| instance.applied.contains(id, self.now()) && !instance.waits(id);
        if removed || named.any(applied) { Err(Refused::Repeat) } else { Ok(()) }
    }

    /// Time decides nothing here: an expired session commits until somebody has taken the instance.
    fn check_fence(&self, by: Option<SessionId>, fence: &Fence) -> Result<(), Refused> {
        if planted::is_on(Bug::NoFence) {
            return Ok(());
        }
        let instance = self.instances.get(&fence.instance).ok_or(Refused::Fenced)?;
        let record = &instance.record;
        let same_run = fence.execution == record.execution || self.broken(Defect::NoExecutionCheck);
        let same_revision = fence.revision == record.revision || self.broken(Defect::NoRevisionCheck);
        let holds = by.is_none_or(|session| {
            instance.epoch == fence.epoch && instance.holder.is_some_and(|held| held.session == session)
        });
        let holds = holds || self.broken(Defect::NoEpochCheck);
        let expired = by.is_some_and(|session| !self.is_live(session)) && self.broken(Defect::ExpiryRefuses);
        if same_run && same_revision && holds && !expired { Ok(()) } else { Err(Refused::Fenced) }
    }

    /// Every fused completion must name a task of this run that the session holds, once.
    fn check_completions(
        &self,
        by: Option<SessionId>,
        fence: &Fence,
        completions: &[Completion],
    ) -> Result<(), Refused> {
        let mut seen = BTreeSet::new();
        for Completion { fence: of, .. } in completions {
            let task = self.tasks.get(&(of.instance.clone(), of.task));
            let held = task.is_some_and(|task| {
                let mine = by.is_some_and(|session| task.is_held_by(session, of.epoch));
                mine && task.task.execution == fence.execution && !task.withdrawn
            });
            if !held || of.instance != fence.instance || !seen.insert(of.task) {
                return Err(Refused::Fenced);
            }
        }
        Ok(())
    }

    /// Applies a checkpoint that was checked: nothing below can fail.
    fn apply(&mut self, by: Option<SessionId>, checkpoint: Checkpoint) -> Committed {
        let amendment = by.is_none().then(|| Box::new(checkpoint.clone()));
        let Checkpoint { fence, consumed, completions, history, record, tasks, timers, messages, take, then } =
            checkpoint;
        let id = &fence.instance;
        let unclaimed = self.instances.get(id).is_some_and(|instance| instance.last_holder.is_none());
        let leaves = by.is_none() && unclaimed && self.broken(Defect::AmendLeavesUnclaimed);
        if by.is_none() {
            self.supersede(id);
        }
        if !leaves {
            self.consume(id, &consumed, by.is_none().then_some(record.start));
        }
        let stays = self.broken(Defect::FusedTaskStays);
        for completion in completions.into_iter().filter(|_| !stays) {
            self.remove_task(&(completion.fence.instance, completion.fence.task));
        }
        self.write_history(by, id, history);
        let stale = self.write_record(id, record);
        self.end_run(id);
        let taken = self.insert_tasks(by, tasks, take);
        let timers = timers.into_iter().take(self.kept_of(Defect::LoseTimers));
        for message in timers.chain(messages.into_iter().take(self.kept_of(Defect::LoseMessages))) {
            self.deliver(message);
        }
        self.keep_or_release(by, id, then);
        let moment = self.moment;
        if let Some(instance) = self.instances.get_mut(id) {
            instance.refresh(moment);
            let taken = taken.iter().map(|lease| lease.fence.task).collect();
            instance.last = Some(LastCommit { fence: fence.clone(), by, amendment, taken, stale });
        }
        self.answer(by, id, taken)
    }

    /// How many items of a checkpoint survive a defect that loses some.
    fn kept_of(&self, defect: Defect) -> usize {
        // A torn commit keeps its tasks: a store may send those first.
        let torn = self.torn && (defect != Defect::LoseTasks || planted::is_on(Bug::SplitOutbox));
        match (torn, self.broken(defect)) {
            (true, _) => 0,
            (false, true) => 2,
            (false, false) => usize::MAX,
        }
    }

    /// Takes an instance from its holder for good: the fence it has will never pass.
    fn supersede(&mut self, id: &InstanceId) {
        self.take_from_holder(id);
        let keeps = self.broken(Defect::AmendKeepsEpoch);
        if let Some(instance) = self.instances.get_mut(id) {
            instance.last_holder = None;
            if !keeps {
                instance.epoch = instance.epoch.next();
            }
        }
    }

    /// Takes messages out and remembers them. An amendment, which leaves the instance with the start `amended`, may carry out
    /// a message that never waited: that is remembered too. A start is known by the record, or is remembered when the amendment
    /// has overtaken it.
    fn consume(&mut self, id: &InstanceId, consumed: &[MessageId], amended: Option<MessageId>) {
        let moment = self.moment;
        let mut overtaken = Vec::new();
        let Some(instance) = self.instances.get_mut(id) else { return };
        let mut consumed = consumed.to_vec();
        if moment.defects.broken(Defect::ConsumeAll) && !consumed.is_empty() {
            let last = consumed.last().copied();
            let given = instance.turn_batch(moment, usize::MAX, true).unwrap_or_default().messages;
            consumed.extend(given.iter().map(|message| message.id).take_while(|id| Some(*id) != last));
        }
        for id in consumed {
            let taken = instance.take(id);
            let recall = judge::recall(&instance.record, id, taken.as_ref(), amended);
            let recall = recall.filter(|recall| match recall {
                Recall::Applied => true,
                Recall::NeverWaited => !moment.defects.broken(Defect::AmendedMessageForgotten),
                Recall::Overtaken => !moment.defects.broken(Defect::OvertakenStartForgotten),
            });
            overtaken.extend((recall == Some(Recall::Overtaken)).then_some(id));
            if recall.is_some() && !moment.defects.broken(Defect::MemoryOff) {
                instance.applied.insert(id, moment.now);
            }
        }
        for start in overtaken {
            self.remember_start(start);
        }
    }

    fn write_history(&mut self, by: Option<SessionId>, id: &InstanceId, history: History) {
        let owner = by
            .and_then(|session| self.sessions.get(&session))
            .map_or_else(judge::amender, |s| s.life.host.clone());
        let moment = self.moment;
        let Some(instance) = self.instances.get_mut(id) else { return };
        let (revision, epoch) = (instance.record.revision.next(), instance.epoch);
        let stored = |first: u32, batch: Batch| {
            let owner = owner.clone();
            StoredBatch { first, revision, epoch, owner, at: moment.now, batch }
        };
        match history {
            History::Append(batch) => {
                let first = instance.history_len();
                instance.push_history(stored(first, batch));
            }
            History::Replace { execution, batches, prologue } => {
                instance.history.clear();
                instance.history_bytes = 0;
                let lost = moment.defects.broken(Defect::ReplaceLosesBatches);
                for batch in batches.into_iter().filter(|_| !lost) {
                    let first = instance.history_len();
                    instance.push_history(stored(first, batch));
                }
                // A message waits once: named anew, it stands where it is named.
                for message in &prologue {
                    instance.take(message.id);
                }
                // What the turn did not name of the old prologue stays, behind the new one: an event that was carried
                // over before a suspend, say, is carried on.
                let left = std::mem::replace(&mut instance.prologue, prologue);
                let kept =
                    if moment.defects.broken(Defect::ReplaceForgetsPrologue) { Vec::new() } else { left };
                instance.prologue.extend(kept);
                if moment.defects.broken(Defect::MemoryClearedByReplace) {
                    instance.applied = super::applied::Applied::default();
                }
                let outlive = moment.defects.broken(Defect::AnswersOutliveTheirRun);
                let dropped = if outlive { 0 } else { instance.drop_other_executions(execution) };
                self.count_dropped(DropReason::OtherExecution, dropped);
            }
        }
    }

    /// Stores the record with what the store sets; answers with the old one where a defect wants it.
    fn write_record(&mut self, id: &InstanceId, mut record: Record) -> Option<Box<Record>> {
        let now = self.now();
        let forgets = self.broken(Defect::ReplacedStartForgotten);
        let instance = self.instances.get_mut(id)?;
        let begun = record.start != instance.record.start;
        if begun && !forgets {
            instance.applied.insert(instance.record.start, now);
        }
        if begun {
            let old = instance.record.clone();
            self.start_is_gone(&old);
        }
        let instance = self.instances.get(id)?;
        let old = &instance.record;
        judge::stamp(&mut record, old, (instance.history_len(), instance.history_bytes), now);
        if self.broken(Defect::AttemptsKept) {
            record.attempts = old.attempts;
        }
        if self.broken(Defect::RecordForgetsUnlocks) {
            record.entity.iter_mut().for_each(|entity| entity.early_unlocks.clear());
        }
        let stale = self.broken(Defect::StaleGet).then(|| Box::new(old.clone()));
        self.put_record(id, record);
        stale
    }

    /// Drops what an ended run leaves: its messages always, its tasks when it was terminated.
    fn end_run(&mut self, id: &InstanceId) {
        let Some(instance) = self.instances.get(id) else { return };
        let (status, execution) = (instance.record.status, instance.record.execution);
        let ended = instance.record.hold == dauer_store::Hold::Ended;
        let moment = self.moment;
        if ended
            && !self.broken(Defect::EndedKeepsMessages)
            && let Some(instance) = self.instances.get_mut(id)
        {
            let dropped = instance.drop_of_ended(moment);
            self.count_dropped(DropReason::Ended, dropped);
        }
        let terminated = status == Status::Terminated && !self.broken(Defect::TerminateKeepsTasks);
        if terminated || status == Status::Completed && self.broken(Defect::CompleteWithdrawsTasks) {
            self.withdraw_tasks(id, execution);
        }
    }

    /// Adds tasks, and leases the first `take` of them to the session.
    fn insert_tasks(&mut self, by: Option<SessionId>, tasks: Vec<Task>, take: usize) -> Vec<TaskLease> {
        let take = if self.broken(Defect::TakeIgnored) { 0 } else { take };
        let mut taken = Vec::new();
        for (at, task) in tasks.into_iter().take(self.kept_of(Defect::LoseTasks)).enumerate() {
            let key = (task.instance.clone(), task.id);
            if self.tasks.contains_key(&key) {
                continue;
            }
            self.tasks.insert(key.clone(), HeldTask::new(task, self.now()));
            match by {
                Some(session) if at < take => {
                    self.take_over_task(session, &key, Held::by(session));
                    taken.extend(self.tasks.get(&key).map(|task| task.lease(self.shown_now())));
                }
                _ => self.reindex_task(&key),
            }
        }
        taken
    }

    /// What becomes of the claim. An ended instance is never kept: what may wait for it is a start, which the code of another
    /// host may have to run.
    fn keep_or_release(&mut self, by: Option<SessionId>, id: &InstanceId, then: Then) {
        let not_before = match then {
            Then::Keep => Default::default(),
            Then::Release { delay } => self.not_before(delay),
        };
        let moment = self.moment;
        let Some(instance) = self.instances.get_mut(id) else { return };
        let releases = moment.defects.broken(Defect::KeepReleases)
            && instance.turn_batch(moment, usize::MAX, true).is_none();
        instance.not_before = not_before;
        let ended = instance.record.hold == dauer_store::Hold::Ended;
        let keeper = by.filter(|_| then == Then::Keep && !ended && !releases);
        instance.holder = keeper.map(Held::by);
        if let Some(session) =
            by.filter(|_| keeper.is_none()).and_then(|session| self.sessions.get_mut(&session))
        {
            session.turns.remove(id);
        }
    }

    /// The answer to a commit: what has arrived for an instance that is kept is handed out with it.
    fn answer(&mut self, by: Option<SessionId>, id: &InstanceId, taken: Vec<TaskLease>) -> Committed {
        let moment = self.moment;
        let hides = self.broken(Defect::ArrivedEmpty);
        let now = self.shown_now();
        let most = if self.broken(Defect::MailUnbounded) { usize::MAX } else { self.limits.mail_bytes };
        let mut committed =
            Committed { revision: Default::default(), arrived: Vec::new(), more: false, taken, now };
        if let Some(instance) = self.instances.get_mut(id) {
            committed.revision = instance.record.revision;
            let holder = instance.holder.map(|held| held.session);
            if instance.has_committed() && by.is_some() && holder == by {
                let batch = instance.turn_batch(moment, most, true).unwrap_or_default();
                committed.arrived = if hides { Vec::new() } else { batch.messages };
                committed.more = batch.more;
            }
        }
        self.reindex_turn(id);
        committed
    }

    /// The answer to a commit that was sent again because its outcome was unknown.
    fn answer_again(&mut self, by: Option<SessionId>, id: &InstanceId) -> Committed {
        let last = self.instances.get(id).and_then(|instance| instance.last.clone());
        let tasks = last.map(|last| last.taken).unwrap_or_default().into_iter();
        let held = |task: &&HeldTask| by.is_some_and(|by| task.holder.is_some_and(|held| held.session == by));
        let leases = tasks.filter_map(|task| self.tasks.get(&(id.clone(), task)).filter(held));
        let taken = leases.map(|task| task.lease(self.shown_now())).collect();
        self.answer(by, id, taken)
    }
}
