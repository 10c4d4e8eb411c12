//! Applying a checkpoint that was checked: everything in one transaction, or nothing.

use dauer_store::{
    Checkpoint, Committed, DropReason, History, Message, MessageId, Record, Task, TaskLease, Then, Timestamp,
};
use dauer_store_kit::codec::{LastCommit, digest};
use dauer_store_kit::judge::{self, Recall};

use super::Scope;
use super::commit::Committer;
use super::instance::Instance;
use super::tail::HistoryRow;
use crate::fail::Outcome;

impl Scope<'_, '_> {
    pub(super) fn apply(
        &mut self,
        by: &Committer,
        mut instance: Box<Instance>,
        checkpoint: &Checkpoint,
    ) -> Outcome<Committed> {
        let Checkpoint { fence, consumed, completions, history, record, tasks, timers, messages, take, then } =
            checkpoint;
        if by.session.is_none() {
            // The fence of whoever holds it will never pass again.
            self.take_from_holder(&mut instance)?;
            instance.epoch = instance.epoch.next();
        }
        self.consume(&mut instance, consumed, by.session.is_none().then_some(record.start))?;
        for completion in completions {
            self.remove_task_of(&mut instance, completion.fence.task)?;
        }
        self.write_history(by, &mut instance, history)?;
        self.write_record(&mut instance, record.clone())?;
        self.end_run(&mut instance)?;
        // An ended instance is never kept: what may wait for it is a start, which the code of another host may have to run.
        let keeper = by.session.filter(|_| *then == Then::Keep && !instance.is_over());
        if keeper.is_none() {
            self.put_out(&mut instance)?;
        }
        let taken = self.insert_tasks((by.session, keeper), &mut instance, (tasks, *take))?;
        // A look for mail passes over instances whose start lies in their row.
        if keeper.is_some() && instance.start_in_row {
            self.forget_inbox(&mut instance)?;
        }
        // What the turn sends to its own instance needs no hint: the answer has it.
        instance.holder = None;
        self.deliver_all(&mut instance, timers.iter().chain(messages))?;
        instance.not_before = match then {
            Then::Keep => Timestamp::default(),
            Then::Release { delay } => judge::not_before(*delay, self.now),
        };
        instance.holder = keeper;
        self.refresh(&mut instance)?;
        instance.last = Some(LastCommit {
            execution: fence.execution,
            revision: fence.revision,
            epoch: fence.epoch,
            by: by.session,
            amendment: by.session.is_none().then(|| digest(checkpoint)),
            taken: taken.iter().map(|lease| lease.fence.task).collect(),
        });
        let committed = self.answer(by.session, &instance, taken)?;
        match history {
            History::Append(batch) => self.store_turn(by, &mut instance, batch)?,
            History::Replace { .. } => self.store_all(&mut instance)?,
        }
        self.group.effort.turns += 1;
        // One that waits for time or others is not needed soon.
        if instance.holder.is_some() || instance.place.is_some_and(|place| place <= self.now) {
            self.put_back(instance);
        }
        Ok(committed)
    }

    /// Takes messages out and remembers them. An amendment, which leaves the instance with the start `amended`, may carry out
    /// a message that never waited: that is remembered too. A start is known by the record, or is remembered when the amendment
    /// has overtaken it.
    fn consume(
        &mut self,
        instance: &mut Instance,
        consumed: &[MessageId],
        amended: Option<MessageId>,
    ) -> Outcome<()> {
        for id in consumed {
            let taken = self.take_message(instance, *id)?;
            let recall = judge::recall(&instance.record, *id, taken.as_ref(), amended);
            if recall == Some(Recall::Overtaken) {
                self.put_removed_start(*id, self.now)?;
                self.store_hub()?;
            }
            if recall.is_some() {
                self.remember(instance, *id, self.now)?;
            }
        }
        Ok(())
    }

    /// Sends what a turn sends. What it sends to itself goes into the instance at hand.
    fn deliver_all<'m>(
        &mut self,
        instance: &mut Instance,
        messages: impl Iterator<Item = &'m Message>,
    ) -> Outcome<()> {
        for message in messages {
            if message.to == instance.id {
                self.deliver_to(instance, message.clone())?;
            } else {
                self.deliver(message.clone())?;
            }
        }
        Ok(())
    }

    /// The length of the history is counted in the record that is there; `write_record` keeps it. What is added to a history
    /// is written when it is known how the turn leaves the instance.
    fn write_history(&mut self, by: &Committer, instance: &mut Instance, history: &History) -> Outcome<()> {
        match history {
            History::Append(batch) => {
                instance.count_history(batch);
                Ok(())
            }
            History::Replace { execution, batches, prologue } => {
                self.run("DELETE FROM history WHERE instance = ?1", [instance.key])?;
                (instance.record.history_len, instance.record.history_bytes) = (0, 0);
                for batch in batches {
                    instance.count_history(batch);
                    let revision = instance.record.revision.next();
                    self.insert_history(by, instance, HistoryRow { batch, revision, tail: None })?;
                }
                // What the turn did not name of the old prologue stays, behind the new one: an event that was carried
                // over before a suspend, say, is carried on.
                self.renew_prologue(instance, prologue)?;
                let dropped = self.drop_other_executions(instance, *execution)?;
                self.count_dropped(DropReason::OtherExecution, dropped)
            }
        }
    }

    /// Takes the record over, with what the store sets.
    fn write_record(&mut self, instance: &mut Instance, mut record: Record) -> Outcome<()> {
        let now = self.now;
        if record.start != instance.record.start {
            self.remember(instance, instance.record.start, now)?;
            self.start_is_gone(&instance.record)?;
            self.store_hub()?;
        }
        let old = &instance.record;
        judge::stamp(&mut record, old, (old.history_len, old.history_bytes), now);
        self.put_record(instance, record)
    }

    /// Adds tasks, and leases the first `take` of them to the session: in the row of the instance, if the session keeps
    /// it and there is room.
    fn insert_tasks(
        &mut self,
        (by, keeper): (Option<i64>, Option<i64>),
        instance: &mut Instance,
        (tasks, take): (&[Task], usize),
    ) -> Outcome<Vec<TaskLease>> {
        let mut taken = Vec::with_capacity(take.min(tasks.len()));
        for (at, task) in tasks.iter().enumerate() {
            if instance.tasks.contains_key(&task.id) {
                continue;
            }
            let taker = by.filter(|_| at < take);
            let held = match self.take_in_instance(keeper.and(taker), instance, task)? {
                Some(held) => Some(held),
                None => self.insert_task(instance, task.clone(), taker)?,
            };
            if let Some(held) = held.filter(|_| taker.is_some()) {
                taken.push(held.lease(self.now));
                instance.tasks.insert(task.id, held);
            }
        }
        Ok(taken)
    }
}
