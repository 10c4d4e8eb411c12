//! Items that a session has won and still holds, for a host that lost the answer. Nothing here changes anything.

use rusqlite::{OptionalExtension, params};

use dauer_store::{ClaimedTurn, Fence, Item, Recalled, SessionId, StoreLimits, TaskFence, TaskLease};
use dauer_store_kit::instance::Context;

use super::View;
use super::claim::readable;
use crate::fail::Outcome;

impl View<'_> {
    /// Those of the items that the session still holds, and has neither committed nor answered.
    pub(crate) fn recalled(
        &self,
        session: SessionId,
        items: &[Item],
        limits: &StoreLimits,
    ) -> Outcome<Recalled> {
        self.acting(session)?;
        let mut recalled = Recalled::default();
        for item in items {
            match item {
                Item::Turn(fence) => {
                    let turn = readable(self.recalled_turn(session, fence, limits))?;
                    recalled.turns.extend(turn.flatten());
                }
                Item::Task(fence) => {
                    let task = readable(self.recalled_task(session, fence))?;
                    recalled.tasks.extend(task.flatten());
                }
            }
        }
        Ok(recalled)
    }

    fn recalled_turn(
        &self,
        session: SessionId,
        fence: &Fence,
        limits: &StoreLimits,
    ) -> Outcome<Option<ClaimedTurn>> {
        let Some(loaded) = self.instance(&fence.instance)? else { return Ok(None) };
        let context = Context { now: self.now, limits };
        loaded.instance.recalled(session, fence, context, &self.facts(Some(&loaded.stored)))
    }

    fn recalled_task(&self, session: SessionId, fence: &TaskFence) -> Outcome<Option<TaskLease>> {
        let mut find = self.db.prepare_cached("SELECT key FROM instances WHERE hub = ?1 AND id = ?2")?;
        let key: Option<i64> =
            find.query_row(params![self.hub, fence.instance.as_str()], |row| row.get(0)).optional()?;
        let Some(key) = key else { return Ok(None) };
        let row = self.task(key, fence.task)?;
        Ok(row.and_then(|row| row.held.recalled(session, fence, self.now)))
    }
}
