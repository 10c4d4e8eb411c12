//! Giving items back.

use dauer_store::{Fence, Item, Release, SessionId, TaskFence};
use dauer_store_kit::instance::Dirty;

use super::{Scope, fenced};
use crate::fail::Outcome;

impl Scope<'_, '_> {
    /// Gives one item back.
    pub(crate) fn release(&mut self, session: SessionId, release: &Release) -> Outcome<()> {
        self.actor(session)?;
        match &release.item {
            Item::Turn(fence) => self.release_turn(session, fence, release),
            Item::Task(fence) => self.release_task(session, fence, release),
        }
    }

    fn release_turn(&mut self, session: SessionId, fence: &Fence, release: &Release) -> Outcome<()> {
        let Some(mut loaded) = self.fetch(&fence.instance)? else { return fenced() };
        match loaded.instance.check_release(session, fence, release) {
            Ok(releasing) => {
                let mut changes = self.changes();
                loaded.instance.release(releasing, self.context(), &mut changes);
                self.finish(loaded, changes)
            }
            Err(refused) => {
                self.put_back(loaded);
                Err(refused.into())
            }
        }
    }

    fn release_task(&mut self, session: SessionId, fence: &TaskFence, release: &Release) -> Outcome<()> {
        let Some(mut loaded) = self.fetch(&fence.instance)? else { return fenced() };
        let held = self.task_of(&loaded.stored, fence.task)?;
        if held.is_none_or(|held| held.check_release(session, fence).is_err()) {
            self.put_back(loaded);
            return fenced();
        }
        self.put_out(&mut loaded)?;
        self.write_row(&mut loaded, Dirty::default())?;
        let key = loaded.stored.key;
        self.put_back(loaded);
        let Some(mut row) = self.task(key, fence.task)? else { return fenced() };
        let stays = row.held.release(release, self.context());
        self.let_task_go(row, stays)
    }
}
