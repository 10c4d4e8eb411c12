//! Reading histories, and how a run begins that has none yet.

use std::borrow::Cow;
use std::convert::Infallible;

use dauer_store::{ExecutionId, Fence, InstanceId, Message, Refused, SessionId, Slice, StoredBatch};
use dauer_store_kit::judge;

use super::State;
use crate::defect::Defect;

impl State {
    /// Reads for a host that holds the instance.
    pub(crate) fn load_history(
        &self,
        session: SessionId,
        fence: &Fence,
        from: u32,
        max_bytes: usize,
    ) -> Result<Slice, Refused> {
        self.acting(session)?;
        let instance = self.instances.get(&fence.instance).ok_or(Refused::Fenced)?;
        let held = instance.holder.is_some_and(|held| held.session == session);
        if !held || instance.fence(&fence.instance) != *fence {
            return Err(Refused::Fenced);
        }
        Ok(self.slice(&instance.history, from, max_bytes))
    }

    /// Reads for anyone. What is not there has no history.
    pub(crate) fn read_history(
        &self,
        id: &InstanceId,
        execution: Option<ExecutionId>,
        from: u32,
        max_bytes: usize,
    ) -> Slice {
        let instance = self.instances.get(id);
        let instance = instance.filter(|i| execution.is_none_or(|execution| execution == i.record.execution));
        instance.map(|instance| self.slice(&instance.history, from, max_bytes)).unwrap_or_default()
    }

    /// The start or rewind that an instance begins with next.
    pub(crate) fn read_start(&self, id: &InstanceId) -> Option<Message> {
        let instance = self.instances.get(id).filter(|instance| judge::awaits_start(&instance.record))?;
        let hidden = |message: &Message| {
            self.broken(Defect::StartHiddenUntilDue) && message.visible_at > self.moment.now
        };
        let begins = |message: &&Message| judge::is_next_start(&instance.record, message) && !hidden(message);
        instance.prologue.iter().chain(instance.inbox.iter()).find(begins).cloned()
    }

    /// Whole batches from the one that holds event `from`, at most about `max_bytes`, at least one.
    fn slice(&self, history: &[StoredBatch], from: u32, max_bytes: usize) -> Slice {
        let off_by_one = u32::from(self.broken(Defect::HistoryOffByOne));
        let batches = history.iter().map(|stored| Ok::<_, Infallible>(Cow::Borrowed(stored)));
        judge::slice(batches, (from.saturating_add(off_by_one), max_bytes))
            .unwrap_or_else(|never| match never {})
    }
}
