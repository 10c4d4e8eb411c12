//! A handle of the hub whose store only tells that somebody else has written, as one does when another process has.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;

use dauer_memory::MemoryHub;
use dauer_store::{
    Changes, Checkpoint, Committed, Create, Created, Delivered, Dump, DumpItem, ExecutionId, Fence, Hint,
    Host, IdPage, Inspection, InstanceId, List, Manage, Message, Page, Purge, Purged, Query, Record, Refused,
    Scale, SessionId, SessionInfo, Slice, StoreLimits, Work,
};

pub(crate) struct Elsewhere(pub(crate) Arc<MemoryHub>);

#[async_trait]
impl Manage for Elsewhere {
    async fn create(&self, batch: Vec<Create>) -> Vec<Result<Created, Refused>> {
        self.0.create(batch).await
    }

    async fn send(&self, batch: Vec<Message>) -> Vec<Result<Delivered, Refused>> {
        self.0.send(batch).await
    }

    async fn amend(&self, checkpoint: Checkpoint) -> Result<Committed, Refused> {
        self.0.amend(checkpoint).await
    }

    async fn get(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<(Fence, Record)>>, Refused> {
        self.0.get(ids).await
    }

    async fn inspect(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<Inspection>>, Refused> {
        self.0.inspect(ids).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, Refused> {
        self.0.sessions().await
    }

    async fn query(&self, query: Query) -> Result<Page, Refused> {
        self.0.query(query).await
    }

    async fn list(&self, list: List) -> Result<IdPage, Refused> {
        self.0.list(list).await
    }

    async fn read_history(
        &self,
        instance: &InstanceId,
        execution: Option<ExecutionId>,
        from: u32,
        max_bytes: usize,
    ) -> Result<Slice, Refused> {
        self.0.read_history(instance, execution, from, max_bytes).await
    }

    async fn read_start(&self, instance: &InstanceId) -> Result<Option<Message>, Refused> {
        self.0.read_start(instance).await
    }

    async fn purge(&self, purge: Purge) -> Result<Purged, Refused> {
        self.0.purge(purge).await
    }

    async fn attach(&self, host: Host) -> Result<Arc<dyn Work>, Refused> {
        self.0.attach(host).await
    }

    async fn end_session(&self, session: SessionId) -> Result<(), Refused> {
        self.0.end_session(session).await
    }

    async fn scale(&self) -> Result<Scale, Refused> {
        self.0.scale().await
    }

    fn limits(&self) -> StoreLimits {
        self.0.limits()
    }

    async fn dump(&self, after: Option<String>) -> Result<Dump, Refused> {
        self.0.dump(after).await
    }

    async fn load(&self, items: Vec<DumpItem>) -> Result<(), Refused> {
        self.0.load(items).await
    }

    fn changes(&self) -> Changes {
        let told = |hint| async move {
            matches!(hint, Hint::Status(..) | Hint::Ended(..)).then_some(Hint::Elsewhere)
        };
        Box::pin(self.0.changes().filter_map(told))
    }
}
