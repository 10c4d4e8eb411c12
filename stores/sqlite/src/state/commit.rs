//! Commits: everything one turn changes, checked here against the fence and applied in `apply`.

use std::collections::BTreeSet;

use dauer_store::{Checkpoint, Committed, Completion, Refused, SessionId, TaskLease};
use dauer_store_kit::judge;

use super::instance::Instance;
use super::task::HeldTask;
use super::{Scope, fenced};
use crate::fail::Outcome;

/// Who commits.
pub(super) struct Committer {
    pub(super) session: Option<i64>,
    /// The key of its host.
    pub(super) host: i64,
}

impl Scope<'_, '_> {
    /// Commits the turn of a session.
    pub(crate) fn commit(&mut self, session: SessionId, checkpoint: &Checkpoint) -> Outcome<Committed> {
        let (key, host) = self.actor(session)?;
        self.write(&Committer { session: Some(key), host }, checkpoint)
    }

    /// Commits a change from outside, over the head of whoever holds the instance.
    pub(crate) fn amend(&mut self, checkpoint: &Checkpoint) -> Outcome<Committed> {
        let host = self.host_key(&judge::amender())?;
        self.write(&Committer { session: None, host }, checkpoint)
    }

    fn write(&mut self, by: &Committer, checkpoint: &Checkpoint) -> Outcome<Committed> {
        let Some(mut instance) = self.fetch(&checkpoint.fence.instance)? else { return fenced() };
        if instance.repeats(checkpoint, by.session) {
            return self.answer_again(by.session, instance);
        }
        self.check(by.session, &instance, checkpoint)?;
        if by.session.is_none() {
            self.check_amendment(&instance, checkpoint)?;
        }
        self.touch()?;
        self.know_inbox(&mut instance)?;
        self.apply(by, instance, checkpoint)
    }

    /// Whether a checkpoint may be applied. Changes nothing. Time decides nothing here: an expired session commits until
    /// somebody has taken the instance.
    fn check(&self, by: Option<i64>, instance: &Instance, checkpoint: &Checkpoint) -> Outcome<()> {
        let (fence, record) = (&checkpoint.fence, &instance.record);
        let current = fence.execution == record.execution && fence.revision == record.revision;
        let holds = by.is_none_or(|session| instance.epoch == fence.epoch && instance.is_held_by(session));
        if !current || !holds {
            return fenced();
        }
        self.check_completions(by, instance, &checkpoint.completions)?;
        Ok(judge::check_checkpoint(self.limits, self.now, checkpoint)?)
    }

    /// An amendment carries out no message that was applied before: neither one that it consumes, nor a start that it puts
    /// before the inbox. One that waits was not.
    fn check_amendment(&mut self, instance: &Instance, checkpoint: &Checkpoint) -> Outcome<()> {
        let start = judge::amended_start(checkpoint);
        let removed = start.map(|start| self.repeats_removed_start(start)).transpose()?;
        if removed == Some(true) {
            return Err(Refused::Repeat.into());
        }
        for id in checkpoint.consumed.iter().copied().chain(start.map(|start| start.id)) {
            let applied = instance.remembered > 0 && self.is_applied(instance.key, id)?;
            if applied && !self.waits(instance, id)? {
                return Err(Refused::Repeat.into());
            }
        }
        Ok(())
    }

    /// Every fused completion must name a task of this run that the session holds, once.
    fn check_completions(
        &self,
        by: Option<i64>,
        instance: &Instance,
        completions: &[Completion],
    ) -> Outcome<()> {
        let mut seen = BTreeSet::new();
        // Most turns have one, which cannot be there twice.
        let alone = completions.len() == 1;
        for Completion { fence, .. } in completions {
            let admits = |task: &HeldTask| {
                let mine = by.is_some_and(|session| task.is_held_by(session, fence.epoch));
                mine && task.task.execution == instance.record.execution && !task.withdrawn
            };
            let held = match instance.tasks.get(&fence.task) {
                Some(task) => admits(task),
                None => self.task_of(instance, fence.task)?.is_some_and(|task| admits(&task)),
            };
            if !held || fence.instance != instance.id || !(alone || seen.insert(fence.task)) {
                return fenced();
            }
        }
        Ok(())
    }

    /// The answer to a commit: what has arrived for an instance that is kept is handed out with it.
    pub(super) fn answer(
        &self,
        by: Option<i64>,
        instance: &Instance,
        taken: Vec<TaskLease>,
    ) -> Outcome<Committed> {
        let (revision, now) = (instance.record.revision, self.now);
        let mut committed = Committed { revision, arrived: Vec::new(), more: false, taken, now };
        if by.is_some() && instance.holder == by && instance.has_committed() {
            let batch = self.turn_batch(instance, self.limits.mail_bytes, true)?.unwrap_or_default();
            (committed.arrived, committed.more) = (batch.messages, batch.more);
        }
        Ok(committed)
    }

    /// The answer to a commit that was sent again because its outcome was unknown.
    fn answer_again(&mut self, by: Option<i64>, instance: Box<Instance>) -> Outcome<Committed> {
        let mut taken = Vec::new();
        for id in instance.last.as_ref().map(|last| last.taken.clone()).unwrap_or_default() {
            let task = self.task_of(&instance, id)?;
            let held = task.filter(|task| by.is_some() && task.holder == by);
            taken.extend(held.map(|task| task.lease(self.now)));
        }
        let committed = self.answer(by, &instance, taken)?;
        self.put_back(instance);
        Ok(committed)
    }
}
