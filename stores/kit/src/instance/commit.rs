//! Commits: everything one turn changes, checked against the fence and applied as one (rules 2, 7, 9, 10, 15, 19 and 20).

use std::collections::BTreeSet;
use std::sync::Arc;

use dauer_store::{
    Batch, Checkpoint, Committed, Completion, DropReason, Hint, History, Message, MessageId, Refused,
    Revision, SessionId, Status, TaskLease, Then, Timestamp,
};

use crate::codec::{digest, same_base};
use crate::instance::death::outlives_hold;
use crate::instance::remove::start_is_gone;
use crate::instance::{
    Changes, Context, Dirty, Facts, HeldTask, Inbox, Instance, LastCommit, Part, Place, Waiting, Written,
};
use crate::judge::{self, Recall, is_recent};

/// Who commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Committer {
    /// A session.
    Session(SessionId),
    /// A client, over the head of the holder.
    Amendment,
}

impl Committer {
    fn session(self) -> Option<SessionId> {
        match self {
            Self::Session(session) => Some(session),
            Self::Amendment => None,
        }
    }
}

/// What a checkpoint is that is not refused.
#[derive(Debug)]
pub enum Verdict<'c> {
    /// The last commit, sent again. It is answered as the first time.
    Repeat,
    /// A commit to be applied.
    Commit(Commit<'c>),
}

/// A checkpoint that [`Instance::check_commit`] has allowed.
#[derive(Debug)]
pub struct Commit<'c> {
    by: Committer,
    checkpoint: &'c Checkpoint,
    /// The messages of a long inbox that the commit may take.
    part: Option<Box<Inbox>>,
    /// Tasks of a terminated run, and whether each stays for its holder's answer.
    withdrawn: Vec<(HeldTask, bool)>,
    /// New tasks that are there already.
    known_tasks: BTreeSet<MessageId>,
}

impl Instance {
    /// Whether a checkpoint may be applied. Time decides nothing here: an expired session commits until another session has
    /// taken the instance.
    ///
    /// The outer error is the store's; the inner one refuses the checkpoint.
    pub fn check_commit<'c, F: Facts>(
        &self,
        by: Committer,
        checkpoint: &'c Checkpoint,
        context: Context<'_>,
        facts: &F,
    ) -> Result<Result<Verdict<'c>, Refused>, F::Error> {
        if self.repeats(by, checkpoint) {
            return Ok(Ok(Verdict::Repeat));
        }
        if !self.has_fence(by, checkpoint) || !self.has_completions(by, checkpoint, facts)? {
            return Ok(Err(Refused::Fenced));
        }
        if by == Committer::Amendment && self.amends_again(checkpoint, context.now, facts)? {
            return Ok(Err(Refused::Repeat));
        }
        if let Err(refused) = judge::check_checkpoint(context.limits, context.now, checkpoint) {
            return Ok(Err(refused));
        }
        self.prepare(by, checkpoint, facts).map(|commit| Ok(Verdict::Commit(commit)))
    }

    /// Whether that commit did happen as the last one.
    fn repeats(&self, by: Committer, checkpoint: &Checkpoint) -> bool {
        let Some(last) = &self.head.last else { return false };
        let fence = &checkpoint.fence;
        self.head.record.revision == Revision(fence.revision.0.saturating_add(1))
            && last.revision == fence.revision
            && last.execution == fence.execution
            && last.epoch == fence.epoch
            && last.by == by.session()
            && last.amendment.is_none_or(|amendment| amendment == digest(checkpoint))
    }

    fn has_fence(&self, by: Committer, checkpoint: &Checkpoint) -> bool {
        let (fence, head) = (&checkpoint.fence, &self.head);
        let current = fence.execution == head.record.execution && fence.revision == head.record.revision;
        let holds =
            by.session().is_none_or(|session| head.epoch == fence.epoch && head.holder == Some(session));
        current && (holds || planted!(Defect::NoEpochCheck)) || planted!(Bug::NoFence)
    }

    /// Whether every fused completion names a task of this run that the session holds, once.
    fn has_completions<F: Facts>(
        &self,
        by: Committer,
        checkpoint: &Checkpoint,
        facts: &F,
    ) -> Result<bool, F::Error> {
        let mut seen = BTreeSet::new();
        // Most turns have one, which cannot be there twice.
        let alone = checkpoint.completions.len() == 1;
        for Completion { fence, .. } in &checkpoint.completions {
            let task = facts.task(fence.task)?;
            let held = task.zip(by.session()).is_some_and(|(task, session)| {
                let of_run = task.is_of(checkpoint.fence.execution);
                task.is_held_by(session, fence.epoch) && of_run && !task.withdrawn
            });
            if !held || fence.instance != self.id || !(alone || seen.insert(fence.task)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether an amendment carries out a message that was applied before, or the start of a removed instance: one that it
    /// consumes, or a start that it puts before the inbox. A message that waits was not applied.
    fn amends_again<F: Facts>(
        &self,
        checkpoint: &Checkpoint,
        now: Timestamp,
        facts: &F,
    ) -> Result<bool, F::Error> {
        let start = judge::amended_start(checkpoint).map(|start| start.id);
        for id in checkpoint.consumed.iter().copied().chain(start) {
            let removed = facts.removed_start(&(id..=id))?.is_some_and(|at| is_recent(at, now));
            if (removed || self.has_applied(id, now, facts)?) && !self.waits(id, facts)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Looks up what the commit takes with it.
    fn prepare<'c, F: Facts>(
        &self,
        by: Committer,
        checkpoint: &'c Checkpoint,
        facts: &F,
    ) -> Result<Commit<'c>, F::Error> {
        let fused = |id: MessageId| checkpoint.completions.iter().any(|done| done.fence.task == id);
        let mut withdrawn = Vec::new();
        let terminated = checkpoint.record.status == Status::Terminated;
        if terminated && !planted!(Defect::TerminateKeepsTasks) {
            for task in facts.tasks(Some(checkpoint.record.execution))? {
                let lives = task.holder.map_or(Ok(false), |holder| facts.lives(holder))?;
                if !fused(task.id()) {
                    withdrawn.push((task.into_owned(), lives));
                }
            }
        }
        let goes = |id| fused(id) || withdrawn.iter().any(|(task, stays)| task.id() == id && !stays);
        let mut known_tasks = BTreeSet::new();
        for task in &checkpoint.tasks {
            if facts.task(task.id)?.is_some() && !goes(task.id) {
                known_tasks.insert(task.id);
            }
        }
        let part = match &self.inbox {
            Some(_) => None,
            None => Some(Box::new(self.part_of_commit(checkpoint, facts)?)),
        };
        Ok(Commit { by, checkpoint, part, withdrawn, known_tasks })
    }

    /// The messages of a long inbox that a commit may take.
    fn part_of_commit<F: Facts>(&self, checkpoint: &Checkpoint, facts: &F) -> Result<Inbox, F::Error> {
        let consumed = Part::Ids(&checkpoint.consumed);
        if checkpoint.record.status.is_ended() {
            return self.read_parts(facts, &[Part::All]);
        }
        match &checkpoint.history {
            History::Append(_) => self.read_parts(facts, &[consumed]),
            History::Replace { prologue, .. } => {
                let named: Vec<MessageId> = prologue.iter().map(|message| message.id).collect();
                self.read_parts(facts, &[consumed, Part::Ids(&named), Part::Prologue, Part::OfRuns])
            }
        }
    }

    /// Applies a checkpoint. The caller delivers its timers and messages afterwards. Returns the tasks that the session has
    /// taken.
    pub fn commit(
        &mut self,
        commit: Commit<'_>,
        context: Context<'_>,
        changes: &mut Changes,
    ) -> Vec<TaskLease> {
        let Commit { by, checkpoint, mut part, withdrawn, known_tasks } = commit;
        let epoch = checkpoint.fence.epoch;
        if by == Committer::Amendment {
            // The fence of the holder will never pass again.
            self.take_from_holder(changes);
            self.head.epoch = self.head.epoch.next();
            changes.dirty.add(Dirty::HOLDER);
        }
        self.change_inbox(part.as_deref_mut(), |instance, inbox| {
            instance.consume(inbox, (by, checkpoint), context.now, changes);
            instance.write_history(inbox, checkpoint, context, changes);
            instance.end_run(inbox, withdrawn, changes);
        });
        let taken = self.add_tasks((by, checkpoint), &known_tasks, context.now, changes);
        self.keep_or_release(by, checkpoint.then, context.now, changes);
        self.head.last = Some(LastCommit {
            execution: checkpoint.fence.execution,
            revision: checkpoint.fence.revision,
            epoch,
            by: by.session(),
            amendment: (by == Committer::Amendment).then(|| digest(checkpoint)),
            taken: taken.iter().map(|lease| lease.fence.task).collect(),
        });
        changes.dirty.add(Dirty::TURN);
        taken
    }

    /// Changes the inbox, or the part of a long one, and finds again when the instance is ready.
    fn change_inbox(&mut self, part: Option<&mut Inbox>, change: impl FnOnce(&mut Self, &mut Inbox)) {
        match self.inbox.take() {
            Some(mut inbox) => {
                change(self, &mut inbox);
                inbox.admit_for(&self.head.record);
                self.ready_at = inbox.earliest();
                self.inbox = Some(inbox);
            }
            // `check_commit` has read the part of an inbox that is not loaded.
            None => change(self, part.unwrap_or(&mut Inbox::default())),
        }
    }

    /// Takes messages out and remembers them, and ends the fused tasks.
    fn consume(
        &mut self,
        inbox: &mut Inbox,
        (by, checkpoint): (Committer, &Checkpoint),
        now: Timestamp,
        changes: &mut Changes,
    ) {
        let amended = (by == Committer::Amendment).then_some(checkpoint.record.start);
        for id in &checkpoint.consumed {
            let taken = inbox.remove(*id);
            let message = taken.as_ref().map(|waiting| &*waiting.message);
            let recall = judge::recall(&self.head.record, *id, message, amended);
            if recall == Some(Recall::Overtaken) {
                changes.gone_starts.push((*id, now));
            }
            if recall.is_some() && !planted!(Defect::MemoryOff) {
                self.remember(*id, now, changes);
            }
            changes.removed.extend(taken);
        }
        let fused = checkpoint.completions.iter().map(|completion| completion.fence.task);
        changes.tasks_gone.extend(fused.filter(|_| !planted!(Defect::FusedTaskStays)));
    }

    /// The instance remembers that it has applied a message.
    pub(super) fn remember(&mut self, id: MessageId, at: Timestamp, changes: &mut Changes) {
        if !self.head.remembers {
            self.head.remembers = true;
            changes.dirty.add(Dirty::RECORD);
        }
        changes.remembered.push((id, at));
    }

    /// Counts the history, and takes the record over with what the store sets.
    fn write_history(
        &mut self,
        inbox: &mut Inbox,
        checkpoint: &Checkpoint,
        context: Context<'_>,
        changes: &mut Changes,
    ) {
        let old = &self.head.record;
        let history = match &checkpoint.history {
            History::Append(batch) => {
                changes.history = Some(Written::Appended(old.history_len));
                count((old.history_len, old.history_bytes), std::slice::from_ref(batch))
            }
            History::Replace { execution, batches, prologue } => {
                changes.history = Some(Written::Replaced);
                renew_prologue(inbox, prologue, changes);
                let others = inbox.remove_other_runs(*execution);
                changes.drops(DropReason::OtherExecution, others.len());
                changes.removes(others);
                if planted!(Defect::MemoryClearedByReplace) {
                    changes.forgets = true;
                }
                count((0, 0), batches)
            }
        };
        let mut record = checkpoint.record.clone().after(&self.head.record.details);
        if record.start != self.head.record.start {
            let start = self.head.record.start;
            self.remember(start, context.now, changes);
            start_is_gone(&self.head.record, context.now, changes);
        }
        judge::stamp(&mut record, &self.head.record, history, context.now);
        if judge::is_shown(&self.head.record, &record) {
            changes.hints.push(Hint::changed(&self.id, &record));
        }
        changes.dirty.add(Dirty::RECORD);
        if !same_base(&self.head.record, &record) {
            changes.dirty.add(Dirty::BASE);
        }
        // Trouble lies beside the details, and every commit ends it.
        if checkpoint.record.details.is_some() || self.head.record.trouble.is_some() {
            changes.dirty.add(Dirty::DETAILS);
        }
        self.head.record = record;
    }

    /// Drops what an ended run leaves: its messages always, its tasks when it was terminated.
    fn end_run(&mut self, inbox: &mut Inbox, withdrawn: Vec<(HeldTask, bool)>, changes: &mut Changes) {
        if self.head.record.status.is_ended() && !planted!(Defect::EndedKeepsMessages) {
            let dropped = inbox.remove_of_ended();
            changes.drops(DropReason::Ended, dropped.len());
            changes.removes(dropped);
        }
        for (mut task, stays) in withdrawn {
            if stays {
                task.withdrawn = true;
                changes.tasks.push(task);
            } else {
                changes.drops(DropReason::Withdrawn, 1);
                changes.tasks_gone.push(task.id());
            }
        }
    }

    /// Adds tasks, and leases the first of them to the session.
    fn add_tasks(
        &mut self,
        (by, checkpoint): (Committer, &Checkpoint),
        known: &BTreeSet<MessageId>,
        now: Timestamp,
        changes: &mut Changes,
    ) -> Vec<TaskLease> {
        let most = if planted!(Defect::LoseTasks) { 2 } else { usize::MAX };
        let mut taken = Vec::with_capacity(checkpoint.take.min(checkpoint.tasks.len()));
        for (at, task) in checkpoint.tasks.iter().take(most).enumerate() {
            if known.contains(&task.id) {
                continue;
            }
            let mut held = HeldTask::new(task.clone(), now);
            if let Some(session) = by.session().filter(|_| at < checkpoint.take) {
                held.hold(session);
                taken.push(held.lease(now));
            }
            changes.tasks.push(held);
        }
        taken
    }

    /// What becomes of the claim. An ended instance is never kept: what may wait for it is a start, which the code of another
    /// host may have to run.
    fn keep_or_release(&mut self, by: Committer, then: Then, now: Timestamp, changes: &mut Changes) {
        let head = &mut self.head;
        let not_before = match then {
            Then::Keep => Timestamp::default(),
            Then::Release { delay } => judge::not_before(delay, now),
        };
        let holder = by.session().filter(|_| then == Then::Keep && !head.record.status.is_ended());
        if head.not_before != not_before {
            changes.dirty.add(Dirty::NOT_BEFORE);
        }
        if head.holder != holder {
            changes.dirty.add(Dirty::HOLDER);
        }
        changes.dirty.add(Dirty::READY);
        (head.not_before, head.holder, head.trial) = (not_before, holder, outlives_hold(head.trial));
    }

    /// The answer to a commit. A session that keeps the instance gets with it what has arrived.
    pub fn answer<F: Facts>(
        &self,
        by: Committer,
        taken: Vec<TaskLease>,
        context: Context<'_>,
        facts: &F,
    ) -> Result<Committed, F::Error> {
        let keeps = by.session().is_some() && self.head.holder == by.session() && self.has_committed();
        let arrived = if keeps { self.mail(context, facts)? } else { Default::default() };
        let (revision, now) = (self.head.record.revision, context.now);
        Ok(Committed { revision, arrived: arrived.messages, more: arrived.more, taken, now })
    }

    /// The answer to the last commit when it is sent again: the session still holds the tasks that it names.
    pub fn answer_again<F: Facts>(
        &self,
        by: Committer,
        context: Context<'_>,
        facts: &F,
    ) -> Result<Committed, F::Error> {
        let mut taken = Vec::new();
        for id in self.head.last.iter().flat_map(|last| &last.taken) {
            let task = facts.task(*id)?;
            let held = task.filter(|task| by.session().is_some() && task.holder == by.session());
            taken.extend(held.map(|task| task.lease(context.now)));
        }
        self.answer(by, taken, context, facts)
    }
}

/// Events and bytes of a history after more batches.
fn count(before: (u32, u64), batches: &[Batch]) -> (u32, u64) {
    batches.iter().fold(before, |(events, bytes), batch| {
        (events.saturating_add(batch.count), bytes.saturating_add(batch.events.len() as u64))
    })
}

/// Puts messages before the inbox. A message waits once: one that waits already moves to where it is named. What the turn did
/// not name of the old prologue stays, behind the new one.
fn renew_prologue(inbox: &mut Inbox, prologue: &[Message], changes: &mut Changes) {
    changes.removed.extend(prologue.iter().filter_map(|message| inbox.remove(message.id)));
    let begin = inbox.prologue_begin(prologue.len());
    for (position, message) in (begin..).zip(prologue) {
        let waiting = Waiting { place: Place::before(position), message: Arc::new(message.clone()) };
        inbox.insert(waiting.clone());
        changes.added.push(waiting);
    }
}
