//! What stands where a store would be: behind a server there is none to look into.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::stream::StreamExt;

use dauer_core::model::{Checkpoint, Fence, Message, Record};
use dauer_core::{ExecutionId, HubKey, InstanceId, SessionId};
use dauer_store::{
    Cause, Changes, Committed, Create, Created, Delivered, Dump, DumpItem, Host, IdPage, Inspection, List,
    Manage, Page, Purge, Purged, Query, Refused, Scale, SessionInfo, Slice, StoreLimits, Work,
};

/// Refuses everything, and says why.
pub(crate) struct NoStore;

fn refused() -> Refused {
    Refused::NotExecuted(Cause::new(
        "the hub is behind a server, which has the store; use the client, or open the store by its own URL",
    ))
}

#[async_trait]
impl Manage for NoStore {
    async fn create(&self, batch: Vec<Create>) -> Vec<Result<Created, Refused>> {
        batch.iter().map(|_| Err(refused())).collect()
    }

    async fn send(&self, batch: Vec<Message>) -> Vec<Result<Delivered, Refused>> {
        batch.iter().map(|_| Err(refused())).collect()
    }

    async fn amend(&self, _: Checkpoint) -> Result<Committed, Refused> {
        Err(refused())
    }

    async fn get(&self, _: Vec<InstanceId>) -> Result<Vec<Option<(Fence, Record)>>, Refused> {
        Err(refused())
    }

    async fn inspect(&self, _: Vec<InstanceId>) -> Result<Vec<Option<Inspection>>, Refused> {
        Err(refused())
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, Refused> {
        Err(refused())
    }

    async fn query(&self, _: Query) -> Result<Page, Refused> {
        Err(refused())
    }

    async fn list(&self, _: List) -> Result<IdPage, Refused> {
        Err(refused())
    }

    async fn read_history(
        &self,
        _: &InstanceId,
        _: Option<ExecutionId>,
        _: u32,
        _: usize,
    ) -> Result<Slice, Refused> {
        Err(refused())
    }

    async fn read_start(&self, _: &InstanceId) -> Result<Option<Message>, Refused> {
        Err(refused())
    }

    async fn purge(&self, _: Purge) -> Result<Purged, Refused> {
        Err(refused())
    }

    async fn retry(&self, _: Vec<InstanceId>) -> Result<usize, Refused> {
        Err(refused())
    }

    async fn key(&self, _: HubKey) -> Result<HubKey, Refused> {
        Err(refused())
    }

    async fn attach(&self, _: Host) -> Result<Arc<dyn Work>, Refused> {
        Err(refused())
    }

    async fn end_session(&self, _: SessionId) -> Result<(), Refused> {
        Err(refused())
    }

    async fn scale(&self) -> Result<Scale, Refused> {
        Err(refused())
    }

    fn limits(&self) -> StoreLimits {
        StoreLimits {
            message_bytes: 0,
            checkpoint_bytes: 0,
            checkpoint_items: 0,
            delay: Duration::ZERO,
            removed_starts: 0,
            mail_bytes: 0,
        }
    }

    async fn dump(&self, _: Option<String>) -> Result<Dump, Refused> {
        Err(refused())
    }

    async fn load(&self, _: Vec<DumpItem>) -> Result<(), Refused> {
        Err(refused())
    }

    fn changes(&self) -> Changes {
        futures::stream::pending().boxed()
    }
}
