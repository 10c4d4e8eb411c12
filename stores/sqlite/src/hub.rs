//! One hub of a SQLite store, for clients and operators.

use std::sync::Arc;

use async_trait::async_trait;

use dauer_store::{
    Cause, Changes, Checkpoint, Committed, Create, Created, Delivered, Dump, DumpItem, Effort, ExecutionId,
    Fence, Holder, Host, HubKey, IdPage, Inspection, InstanceId, List, Manage, Message, Page, Purge, Purged,
    Query, Record, Refused, Scale, SessionId, SessionInfo, Slice, StoreLimits, Work,
};
use dauer_store_kit::hints::Listener;

use crate::session::SqliteSession;
use crate::shell::Shell;

/// One hub of a [`crate::SqliteStore`].
pub(crate) struct SqliteHub {
    shell: Shell,
}

impl SqliteHub {
    pub(crate) fn new(shell: Shell) -> Self {
        Self { shell }
    }
}

#[async_trait]
impl Manage for SqliteHub {
    async fn create(&self, batch: Vec<Create>) -> Vec<Result<Created, Refused>> {
        self.shell.batch(batch, |scope, create| scope.create(create)).await
    }

    async fn send(&self, batch: Vec<Message>) -> Vec<Result<Delivered, Refused>> {
        self.shell.batch(batch, |scope, message| scope.send(message)).await
    }

    async fn amend(&self, checkpoint: Checkpoint) -> Result<Committed, Refused> {
        self.shell.write(move |scope| scope.amend(&checkpoint)).await
    }

    async fn get(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<(Fence, Record)>>, Refused> {
        self.shell.read(move |view| ids.iter().map(|id| view.get(id)).collect()).await
    }

    async fn inspect(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<Inspection>>, Refused> {
        let lives = Arc::clone(&self.shell.shared.lives);
        let found = self.shell.read(move |view| ids.iter().map(|id| view.inspect(id)).collect());
        let mut found: Vec<Option<Inspection>> = found.await?;
        for one in found.iter_mut().flatten() {
            // The lock of a session proves its death before its lease ends.
            let living = |holder: &mut Holder| holder.lives &= !lives.is_dead(holder.session);
            one.holder.iter_mut().for_each(living);
            one.tasks.iter_mut().filter_map(|task| task.holder.as_mut()).for_each(living);
        }
        Ok(found)
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, Refused> {
        let lives = Arc::clone(&self.shell.shared.lives);
        let mut sessions = self.shell.read(|view| view.list_sessions()).await?;
        for session in &mut sessions {
            // As in an inspection: the lock proves the death of a host before the lease ends.
            session.lives &= !lives.is_dead(session.id);
        }
        Ok(sessions)
    }

    async fn query(&self, query: Query) -> Result<Page, Refused> {
        self.shell.read(move |view| view.query(&query)).await
    }

    async fn list(&self, list: List) -> Result<IdPage, Refused> {
        self.shell.read(move |view| view.list(&list)).await
    }

    async fn read_history(
        &self,
        instance: &InstanceId,
        execution: Option<ExecutionId>,
        from: u32,
        max_bytes: usize,
    ) -> Result<Slice, Refused> {
        let instance = instance.clone();
        self.shell.read(move |view| view.read_history(&instance, execution, (from, max_bytes))).await
    }

    async fn read_start(&self, instance: &InstanceId) -> Result<Option<Message>, Refused> {
        let instance = instance.clone();
        self.shell.read(move |view| view.read_start(&instance)).await
    }

    async fn purge(&self, purge: Purge) -> Result<Purged, Refused> {
        self.shell.write(move |scope| scope.purge(&purge)).await
    }

    async fn retry(&self, ids: Vec<InstanceId>) -> Result<usize, Refused> {
        self.shell.write(move |scope| scope.retry(&ids)).await
    }

    async fn key(&self, candidate: HubKey) -> Result<HubKey, Refused> {
        self.shell.write(move |scope| scope.key(candidate)).await
    }

    async fn attach(&self, host: Host) -> Result<Arc<dyn Work>, Refused> {
        let session = host.session;
        // Locked before the session can be read, so that no process takes it for dead.
        let lives = &self.shell.shared.lives;
        lives.begin(session).map_err(|error| Refused::NotExecuted(Cause::new(error)))?;
        self.shell.write(move |scope| scope.attach(&host)).await?;
        Ok(Arc::new(SqliteSession::new(self.shell.clone(), session)))
    }

    async fn end_session(&self, session: SessionId) -> Result<(), Refused> {
        self.shell.write(move |scope| scope.end_session(session)).await
    }

    async fn scale(&self) -> Result<Scale, Refused> {
        self.shell.write(|scope| scope.scale()).await
    }

    fn limits(&self) -> StoreLimits {
        self.shell.limits()
    }

    fn effort(&self) -> Effort {
        self.shell.effort()
    }

    async fn dump(&self, after: Option<String>) -> Result<Dump, Refused> {
        self.shell.read(move |view| view.dump(after.as_deref())).await
    }

    async fn load(&self, items: Vec<DumpItem>) -> Result<(), Refused> {
        self.shell.write(move |scope| scope.load(&items)).await
    }

    fn changes(&self) -> Changes {
        self.shell.changes(Listener::Client)
    }
}
