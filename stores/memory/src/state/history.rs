//! Reading histories, and how a run begins that has none yet.

use dauer_store::{ExecutionId, Fence, InstanceId, Message, Refused, SessionId, Slice, StoredBatch};

use super::State;
use super::instance::opens;
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
        let instance = self.instances.get(id)?;
        let ended = instance.record.status.is_ended();
        if instance.record.history_len != 0 && !ended {
            return None;
        }
        let hidden = |message: &Message| {
            self.broken(Defect::StartHiddenUntilDue) && message.visible_at > self.moment.now
        };
        let begins = |message: &&Message| {
            opens(message).is_some_and(|start| ended || start.record.execution == instance.record.execution)
                && !hidden(message)
        };
        instance.prologue.iter().chain(instance.inbox.iter()).find(begins).cloned()
    }

    /// Whole batches from the one that holds event `from`, at most about `max_bytes`, at least one.
    fn slice(&self, history: &[StoredBatch], from: u32, max_bytes: usize) -> Slice {
        let off_by_one = u32::from(self.broken(Defect::HistoryOffByOne));
        let begin = from.saturating_add(off_by_one);
        let after = |stored: &StoredBatch| stored.first >= begin || stored.first + stored.batch.count > begin;
        let mut slice = Slice::default();
        let mut bytes = 0usize;
        for stored in history.iter().skip_while(|stored| !after(stored)) {
            bytes = bytes.saturating_add(stored.batch.events.len());
            // A batch without events begins where the next one does: a page of nothing else would be asked for for ever.
            if bytes > max_bytes && !slice.batches.is_empty() && stored.first > from {
                slice.next = Some(stored.first);
                break;
            }
            slice.batches.push(stored.clone());
        }
        slice
    }
}
