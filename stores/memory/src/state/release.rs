//! Giving items back.

use std::time::Duration;

use dauer_store::{Fence, Hint, Item, Refused, Release, SessionId, TaskFence, Timestamp};
use dauer_store_kit::judge;

use super::State;
use crate::defect::Defect;

impl State {
    /// Gives one item back.
    pub(crate) fn release(&mut self, session: SessionId, release: Release) -> Result<(), Refused> {
        self.acting(session)?;
        match release.item.clone() {
            Item::Turn(fence) => self.release_turn(session, &fence, release),
            Item::Task(fence) => self.release_task(session, &fence, &release),
        }
    }

    fn release_turn(&mut self, session: SessionId, fence: &Fence, release: Release) -> Result<(), Refused> {
        let not_before = self.until(&release);
        let counts = self.counts(&release);
        let hidden = self.broken(Defect::TroubleHidden);
        let id = &fence.instance;
        let instance = self.instances.get_mut(id).ok_or(Refused::Fenced)?;
        let held = instance.holder.is_some_and(|held| held.session == session);
        if !held || instance.epoch != fence.epoch {
            return Err(Refused::Fenced);
        }
        instance.holder = None;
        instance.not_before = not_before;
        let trouble = release.trouble.filter(|_| !hidden);
        if trouble.is_some() {
            self.hints.push(Hint::Status(id.clone(), instance.record.status));
        }
        judge::release_turn(&mut instance.record, counts, trouble);
        if let Some(session) = self.sessions.get_mut(&session) {
            session.turns.remove(id);
        }
        self.reindex_turn(id);
        Ok(())
    }

    fn release_task(
        &mut self,
        session: SessionId,
        fence: &TaskFence,
        release: &Release,
    ) -> Result<(), Refused> {
        let not_before = self.until(release);
        let counts = self.counts(release);
        let key = (fence.instance.clone(), fence.task);
        let task = self.tasks.get_mut(&key).filter(|task| task.is_held_by(session, fence.epoch));
        let task = task.ok_or(Refused::Fenced)?;
        if task.withdrawn {
            self.discard_task(&key);
            return Ok(());
        }
        task.holder = None;
        task.not_before = not_before;
        task.attempts = task.attempts.saturating_add(u32::from(counts));
        if let Some(session) = self.sessions.get_mut(&session) {
            session.tasks.remove(&key);
        }
        self.reindex_task(&key);
        Ok(())
    }

    fn until(&self, release: &Release) -> Timestamp {
        self.not_before(release.delay)
    }

    fn counts(&self, release: &Release) -> bool {
        release.failed && (release.trouble.is_some() || !self.broken(Defect::ReleaseUncounted))
            || !release.failed && self.broken(Defect::PlainReleaseCounts)
    }

    /// The time until which an item that is given back with a delay rests.
    pub(super) fn not_before(&self, delay: Duration) -> Timestamp {
        let delay = if self.broken(Defect::DelayIgnored) { Duration::ZERO } else { delay };
        judge::not_before(delay, self.now())
    }
}
