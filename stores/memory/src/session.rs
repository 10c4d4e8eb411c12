//! One session of a memory store, for a host.

use std::sync::Arc;
use std::task::Waker;

use async_trait::async_trait;

use dauer_store::{
    Changes, Checkpoint, Committed, Completion, Credit, Death, Deaths, Delivered, Fence, HubName, Lost, Mail,
    Next, Recalled, Refused, Release, SessionId, Slice, TaskLease, TaskName, Trial, Until, Work,
};
use dauer_store_kit::calls::{Desk, Look, Looked, next};
use dauer_store_kit::hints::Listener;

use crate::hub::MemoryHub;

/// One session in one hub of a [`crate::MemoryStore`].
pub struct MemorySession {
    hub: MemoryHub,
    id: SessionId,
    desk: Arc<Desk>,
}

impl MemorySession {
    pub(crate) fn new(hub: MemoryHub, id: SessionId) -> Self {
        let name: HubName = hub.room().name().clone();
        let desk = hub.store().desks().open(name, id);
        Self { hub, id, desk }
    }

    /// Looks once; what the session wins goes to its desk.
    fn look(&self, look: Look) -> Result<Looked, Refused> {
        let (looked, waker) = self.hub.with(|partition| {
            let mut offer = self.desk.offer();
            let looked = partition.look(self.id, offer.as_mut(), look);
            // Within the lock: a write must not spend the same credit.
            (looked, offer.and_then(|offer| self.desk.book(offer.into_won())))
        });
        waker.into_iter().for_each(Waker::wake);
        looked
    }
}

#[async_trait]
impl Work for MemorySession {
    fn session(&self) -> SessionId {
        self.id
    }

    fn credit(&self, credit: Credit) {
        self.desk.credit(credit);
    }

    async fn next(&self, until: Until<'_>) -> Result<Next, Refused> {
        next(&self.desk, until, |look| async move { self.look(look) }).await
    }

    async fn recall(&self, first: u64, last: u64) -> Result<Recalled, Refused> {
        // Within the lock: what was won before is known to the desk, and nothing is won with these numbers afterwards.
        self.hub.with(|partition| partition.recall(self.id, &self.desk.recall(first, last)))
    }

    async fn mail(&self, fences: Vec<Fence>) -> Vec<Result<Mail, Refused>> {
        self.hub.batch(&fences, |partition, fence| partition.mail(self.id, fence))
    }

    async fn load_history(&self, fence: &Fence, from: u32, max_bytes: usize) -> Result<Slice, Refused> {
        self.hub.with(|partition| partition.load_history(self.id, fence, from, max_bytes))
    }

    async fn commit_turns(&self, batch: Vec<Arc<Checkpoint>>) -> Vec<Result<Committed, Refused>> {
        self.hub.batch(&batch, |partition, checkpoint| partition.commit(self.id, checkpoint))
    }

    async fn complete_activities(&self, batch: Vec<Completion>) -> Vec<Result<Delivered, Refused>> {
        self.hub.batch(batch, |partition, completion| partition.complete(self.id, completion))
    }

    async fn renew(&self) -> Result<Vec<Lost>, Refused> {
        self.hub.with(|partition| partition.renew(self.id))
    }

    async fn release(&self, items: Vec<Release>) -> Vec<Result<(), Refused>> {
        self.hub.batch(&items, |partition, release| partition.release(self.id, release))
    }

    async fn adopt(&self, tasks: Vec<TaskName>) -> Vec<Result<Option<TaskLease>, Refused>> {
        self.hub.batch(tasks, |partition, name| partition.adopt(self.id, name))
    }

    async fn died(&self, deaths: Vec<Death>) -> Vec<Result<Deaths, Refused>> {
        self.hub.batch(&deaths, |partition, death| partition.died(self.id, death))
    }

    async fn trial(&self, trials: Vec<Trial>) -> Vec<Result<(), Refused>> {
        self.hub.batch(&trials, |partition, trial| partition.trial(self.id, trial))
    }

    async fn detach(&self) -> Result<(), Refused> {
        self.hub.with(|partition| partition.detach(self.id));
        Ok(())
    }

    fn changes(&self) -> Changes {
        self.hub.room().listeners.listen(Listener::Host)
    }
}
