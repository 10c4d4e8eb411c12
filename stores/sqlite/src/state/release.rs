//! Giving items back.

use dauer_store::{Fence, Hint, Item, Release, SessionId, TaskFence};
use dauer_store_kit::judge;

use super::task::HeldTask;
use super::{Scope, fenced};
use crate::fail::Outcome;

impl Scope<'_, '_> {
    /// Gives one item back.
    pub(crate) fn release(&mut self, session: SessionId, release: &Release) -> Outcome<()> {
        let (session, _) = self.actor(session)?;
        match &release.item {
            Item::Turn(fence) => self.release_turn(session, fence, release),
            Item::Task(fence) => self.release_task(session, fence, release),
        }
    }

    fn release_turn(&mut self, session: i64, fence: &Fence, release: &Release) -> Outcome<()> {
        let Some(mut instance) = self.fetch(&fence.instance)? else { return fenced() };
        if !instance.is_held_by(session) || instance.epoch != fence.epoch {
            return fenced();
        }
        self.put_out(&mut instance)?;
        instance.holder = None;
        instance.not_before = judge::not_before(release.delay, self.now);
        judge::release_turn(&mut instance.record, release.failed, release.trouble.clone());
        if release.trouble.is_some() {
            instance.details_changed = true;
            let status = instance.record.status;
            self.hint(Hint::Status(fence.instance.clone(), status));
        } else if !release.failed {
            return self.store_hold(&mut instance);
        }
        self.store_all(&mut instance)
    }

    fn release_task(&mut self, session: i64, fence: &TaskFence, release: &Release) -> Outcome<()> {
        let Some(mut instance) = self.fetch(&fence.instance)? else { return fenced() };
        let is_held = |task: &HeldTask| task.is_held_by(session, fence.epoch);
        if !self.task_of(&instance, fence.task)?.is_some_and(|task| is_held(&task)) {
            self.put_back(instance);
            return fenced();
        }
        self.put_out(&mut instance)?;
        let held = self.task_of(&instance, fence.task)?;
        self.put_back(instance);
        let Some(mut task) = held.filter(|task| is_held(task)) else { return fenced() };
        if task.withdrawn {
            return self.discard_task(&task);
        }
        task.holder = None;
        task.not_before = judge::not_before(release.delay, self.now);
        task.attempts = task.attempts.saturating_add(u32::from(release.failed));
        self.store_task(&mut task)
    }
}
