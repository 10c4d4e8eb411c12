//! One hub of a memory store, for clients and operators.

use std::sync::Arc;

use async_trait::async_trait;

use dauer_store::{
    Changes, Checkpoint, Committed, Create, Created, Delivered, Dump, DumpItem, ExecutionId, Fence, Host,
    HubName, IdPage, Inspection, InstanceId, List, Manage, Message, Page, Purge, Purged, Query, Record,
    Refused, Scale, SessionId, SessionInfo, Slice, StoreLimits, Work,
};

use crate::defect::Defect;
use crate::fault::Call;
use crate::session::MemorySession;
use crate::shell::Shell;
use crate::store::MemoryStore;

/// One hub of a [`MemoryStore`].
#[derive(Clone)]
pub struct MemoryHub {
    shell: Shell,
}

impl MemoryHub {
    pub(crate) fn new(store: MemoryStore, hub: HubName) -> Self {
        Self { shell: Shell { store, hub } }
    }

    /// The store it belongs to.
    #[must_use]
    pub fn store(&self) -> &MemoryStore {
        &self.shell.store
    }
}

#[async_trait]
impl Manage for MemoryHub {
    async fn create(&self, batch: Vec<Create>) -> Vec<Result<Created, Refused>> {
        self.shell.batch(Call::Create, batch, |state, create| state.create(create)).await
    }

    async fn send(&self, batch: Vec<Message>) -> Vec<Result<Delivered, Refused>> {
        self.shell.batch(Call::Send, batch, |state, message| state.send(message)).await
    }

    async fn amend(&self, checkpoint: Checkpoint) -> Result<Committed, Refused> {
        self.shell.call(Call::Amend, |state| state.amend(checkpoint.clone())).await?
    }

    async fn get(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<(Fence, Record)>>, Refused> {
        let found = self.shell.call(Call::Get, |state| ids.iter().map(|id| state.get(id)).collect()).await;
        if self.shell.store.defects().broken(Defect::HubsShareInstances) {
            return found.map(|_| ids.iter().map(|id| self.shell.store.get_anywhere(id)).collect());
        }
        found
    }

    async fn inspect(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<Inspection>>, Refused> {
        self.shell.call(Call::Get, |state| ids.iter().map(|id| state.inspect(id)).collect()).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, Refused> {
        self.shell.call(Call::Get, |state| state.sessions()).await
    }

    async fn query(&self, query: Query) -> Result<Page, Refused> {
        self.shell.call(Call::Query, |state| state.query(&query)).await?
    }

    async fn list(&self, list: List) -> Result<IdPage, Refused> {
        self.shell.call(Call::List, |state| state.list(&list)).await?
    }

    async fn read_history(
        &self,
        instance: &InstanceId,
        execution: Option<ExecutionId>,
        from: u32,
        max_bytes: usize,
    ) -> Result<Slice, Refused> {
        let read = self
            .shell
            .call(Call::ReadHistory, |state| state.read_history(instance, execution, from, max_bytes));
        read.await
    }

    async fn read_start(&self, instance: &InstanceId) -> Result<Option<Message>, Refused> {
        self.shell.call(Call::Get, |state| state.read_start(instance)).await
    }

    async fn purge(&self, purge: Purge) -> Result<Purged, Refused> {
        self.shell.call(Call::Purge, |state| state.purge(&purge)).await?
    }

    async fn attach(&self, host: Host) -> Result<Arc<dyn Work>, Refused> {
        self.shell.call(Call::Attach, |state| state.attach(&host)).await??;
        Ok(Arc::new(MemorySession::new(self.shell.clone(), host.session)))
    }

    async fn end_session(&self, session: SessionId) -> Result<(), Refused> {
        self.shell.call(Call::EndSession, |state| state.end_session(session)).await
    }

    async fn scale(&self) -> Result<Scale, Refused> {
        self.shell.call(Call::Scale, |state| state.scale()).await
    }

    fn limits(&self) -> StoreLimits {
        self.shell.store.limits()
    }

    async fn dump(&self, after: Option<String>) -> Result<Dump, Refused> {
        self.shell.call(Call::Dump, |state| state.dump(after.as_deref())).await?
    }

    async fn load(&self, items: Vec<DumpItem>) -> Result<(), Refused> {
        self.shell.call(Call::Load, |state| state.load(items.clone())).await?
    }

    fn changes(&self) -> Changes {
        self.shell.store.subscribe(&self.shell.hub)
    }
}
