//! Reads of single instances (rules 13, 22 and 23).

use std::borrow::Cow;
use std::convert::Infallible;

use dauer_store::{
    ExecutionId, Fence, Holder, INSPECTED_MAX, Inspection, InstanceId, Message, OpenTask, Record, Refused,
    Scale, SessionId, Slice,
};

use super::{Partition, Stored, TaskRow};
use crate::judge;

impl Partition {
    /// The record of an instance, with the fence that a commit would have to carry.
    #[must_use]
    pub fn get(&self, id: &InstanceId) -> Option<(Fence, Record)> {
        let stored = self.instances.get(id)?;
        #[cfg(feature = "planted")]
        if let Some(stale) = &stored.stale {
            return Some((stored.instance.fence(), Record::clone(stale)));
        }
        Some((stored.instance.fence(), stored.instance.record.clone()))
    }

    /// Reads the history of an instance for its holder.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session does not hold it as the fence says.
    pub fn load_history(
        &self,
        session: SessionId,
        fence: &Fence,
        from: u32,
        max_bytes: usize,
    ) -> Result<Slice, Refused> {
        self.lists.beside.sessions.acting(session)?;
        let stored = self.instances.get(&fence.instance).ok_or(Refused::Fenced)?;
        stored.instance.check_holder(session, fence)?;
        Ok(slice(stored, from, max_bytes))
    }

    /// Reads the history of an instance. An absent instance, or another execution, has an empty one.
    #[must_use]
    pub fn read_history(
        &self,
        id: &InstanceId,
        execution: Option<ExecutionId>,
        from: u32,
        max_bytes: usize,
    ) -> Slice {
        let current = |stored: &Stored| execution.is_none_or(|run| run == stored.instance.record.execution);
        let stored = self.instances.get(id).filter(|stored| current(stored));
        stored.map(|stored| slice(stored, from, max_bytes)).unwrap_or_default()
    }

    /// The start or rewind that an instance begins with next.
    #[must_use]
    pub fn read_start(&self, id: &InstanceId) -> Option<Message> {
        let stored = self.instances.get(id)?;
        let Ok(start) = stored.instance.next_start(&self.lists.beside.known(stored));
        start
    }

    /// Reads one instance for an operator. An expired session still holds what no other session has won.
    #[must_use]
    pub fn inspect(&self, id: &InstanceId) -> Option<Inspection> {
        let Stored { instance, tasks, .. } = &**self.instances.get(id)?;
        let inbox = instance.inbox();
        Some(Inspection {
            now: self.lists.beside.now,
            holder: instance.holder.map(|holder| self.holder(holder)),
            ready_at: instance.offered_at(),
            waiting: inbox.map_or(0, |inbox| inbox.len() as u64),
            messages: inbox.map(|inbox| inbox.inspected()).unwrap_or_default(),
            open: tasks.len() as u64,
            tasks: tasks.iter().take(INSPECTED_MAX).map(|(_, row)| self.open_task(row)).collect(),
        })
    }

    fn open_task(&self, row: &TaskRow) -> OpenTask {
        let held = &row.held;
        OpenTask {
            id: held.id(),
            event_id: held.task.event_id,
            queue: held.task.queue.clone(),
            holder: held.holder.map(|holder| self.holder(holder)),
            attempts: held.attempts,
            deaths: held.deaths,
            mark: held.mark,
            not_before: held.not_before,
            withdrawn: held.withdrawn,
        }
    }

    fn holder(&self, session: SessionId) -> Holder {
        let lives = self.lists.beside.sessions.lives(session, self.lists.beside.now);
        Holder { session, host: self.lists.host_of(session), lives }
    }

    /// Ready items, and items that living sessions hold, by kind.
    pub fn scale(&mut self) -> Scale {
        self.relay();
        self.sweep();
        let now = self.lists.beside.now;
        let mut scale = Scale::default();
        let turns = self.lists.ready_turns.due(now).map(|(queue, _)| queue.kind);
        let tasks = self.lists.ready_tasks.due(now).map(|(queue, _)| queue.kind);
        for kind in turns.chain(tasks) {
            *scale.ready.entry(kind).or_default() += 1;
        }
        for (_, session) in self.lists.beside.sessions.iter().filter(|(_, session)| session.life.lives(now)) {
            let turns = session.turns.iter().filter_map(|id| self.instances.get(id));
            let turns = turns.map(|stored| stored.instance.record.queue.kind);
            let tasks = session.tasks.values().filter_map(|key| self.task(key));
            for kind in turns.chain(tasks.map(|row| row.held.task.queue.kind)) {
                *scale.held.entry(kind).or_default() += 1;
            }
        }
        scale
    }
}

/// Whole batches from the one that holds event `from`, about `max_bytes` and at least one.
fn slice(stored: &Stored, from: u32, max_bytes: usize) -> Slice {
    let batches = stored.history.iter();
    // The batches are in order: those that end before the wanted event are passed over together.
    let begin = stored.history.partition_point(|batch| batch.first.saturating_add(batch.batch.count) < from);
    let batches = batches.skip(begin).map(|stored| Ok::<_, Infallible>(Cow::Borrowed(stored)));
    let Ok(slice) = judge::slice(batches, (from, max_bytes));
    slice
}
