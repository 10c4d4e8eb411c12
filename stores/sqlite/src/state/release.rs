//! Giving items back.

use dauer_store::{Fence, Item, Release, SessionId, TaskFence};

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
        let asked = (self.context(), &self.facts(Some(&loaded.stored)));
        match loaded.instance.check_release(session, fence, release, asked)? {
            Ok(releasing) => {
                let mut changes = self.changes();
                loaded.instance.release(releasing, &mut changes);
                self.finish(loaded, changes)
            }
            Err(refused) => {
                self.put_back(loaded);
                Err(refused.into())
            }
        }
    }

    fn release_task(&mut self, session: SessionId, fence: &TaskFence, release: &Release) -> Outcome<()> {
        let (mut row, ()) = self.held_row(fence, |held| held.check_release(session, fence))?;
        let stays = row.held.release(release, self.context());
        self.let_task_go(row, stays)
    }
}
