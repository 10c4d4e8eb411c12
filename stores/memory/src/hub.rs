//! One hub of a memory store, for clients and operators.

use std::sync::Arc;

use async_trait::async_trait;

use dauer_store::{
    Changes, Checkpoint, Committed, Create, Created, Delivered, Dump, DumpItem, ExecutionId, Fence, Host,
    HubKey, IdPage, Inspection, InstanceId, List, Manage, Message, Page, Purge, Purged, Query, Record,
    Refused, Scale, SessionId, SessionInfo, Slice, StoreLimits, Work,
};
use dauer_store_kit::hints::Listener;
use dauer_store_kit::partition::Partition;

use crate::session::MemorySession;
use crate::store::{MemoryStore, Room};

/// One hub of a [`MemoryStore`].
#[derive(Clone)]
pub struct MemoryHub {
    store: MemoryStore,
    room: Arc<Room>,
}

impl MemoryHub {
    pub(crate) fn new(store: MemoryStore, room: Arc<Room>) -> Self {
        Self { store, room }
    }

    /// The store it belongs to.
    #[must_use]
    pub fn store(&self) -> &MemoryStore {
        &self.store
    }

    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    pub(crate) fn with<T>(&self, operation: impl FnOnce(&mut Partition) -> T) -> T {
        self.store.with(&self.room, operation)
    }

    /// A batch is one operation: its items are judged one after the other.
    pub(crate) fn batch<A, T>(
        &self,
        batch: impl IntoIterator<Item = A>,
        mut each: impl FnMut(&mut Partition, A) -> T,
    ) -> Vec<T> {
        self.with(|partition| batch.into_iter().map(|item| each(partition, item)).collect())
    }
}

#[async_trait]
impl Manage for MemoryHub {
    async fn create(&self, batch: Vec<Create>) -> Vec<Result<Created, Refused>> {
        self.batch(batch, Partition::create)
    }

    async fn send(&self, batch: Vec<Message>) -> Vec<Result<Delivered, Refused>> {
        self.batch(batch, Partition::send)
    }

    async fn amend(&self, checkpoint: Checkpoint) -> Result<Committed, Refused> {
        self.with(|partition| partition.amend(&checkpoint))
    }

    async fn get(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<(Fence, Record)>>, Refused> {
        Ok(self.batch(&ids, |partition, id| partition.get(id)))
    }

    async fn inspect(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<Inspection>>, Refused> {
        Ok(self.batch(&ids, |partition, id| partition.inspect(id)))
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, Refused> {
        Ok(self.with(|partition| partition.sessions()))
    }

    async fn query(&self, query: Query) -> Result<Page, Refused> {
        self.with(|partition| partition.query(&query))
    }

    async fn list(&self, list: List) -> Result<IdPage, Refused> {
        self.with(|partition| partition.list(&list))
    }

    async fn read_history(
        &self,
        instance: &InstanceId,
        execution: Option<ExecutionId>,
        from: u32,
        max_bytes: usize,
    ) -> Result<Slice, Refused> {
        Ok(self.with(|partition| partition.read_history(instance, execution, from, max_bytes)))
    }

    async fn read_start(&self, instance: &InstanceId) -> Result<Option<Message>, Refused> {
        Ok(self.with(|partition| partition.read_start(instance)))
    }

    async fn purge(&self, purge: Purge) -> Result<Purged, Refused> {
        Ok(self.with(|partition| partition.purge(&purge)))
    }

    async fn retry(&self, ids: Vec<InstanceId>) -> Result<usize, Refused> {
        Ok(self.with(|partition| partition.retry(&ids)))
    }

    async fn key(&self, candidate: HubKey) -> Result<HubKey, Refused> {
        Ok(self.with(|partition| partition.key(candidate)))
    }

    async fn attach(&self, host: Host) -> Result<Arc<dyn Work>, Refused> {
        self.with(|partition| partition.attach(&host))?;
        Ok(Arc::new(MemorySession::new(self.clone(), host.session)))
    }

    async fn end_session(&self, session: SessionId) -> Result<(), Refused> {
        self.with(|partition| partition.end_session(session));
        Ok(())
    }

    async fn scale(&self) -> Result<Scale, Refused> {
        Ok(self.with(|partition| partition.scale()))
    }

    fn limits(&self) -> StoreLimits {
        self.store.limits()
    }

    async fn dump(&self, after: Option<String>) -> Result<Dump, Refused> {
        self.with(|partition| partition.dump(after.as_deref()))
    }

    async fn load(&self, items: Vec<DumpItem>) -> Result<(), Refused> {
        self.with(|partition| partition.load(items))
    }

    fn changes(&self) -> Changes {
        self.room.listeners.listen(Listener::Client)
    }
}
