//! One hub, for clients and operators.

use std::sync::Arc;

use async_trait::async_trait;
use dauer_store::{
    Cause, Changes, Checkpoint, Committed, Create, Created, Delivered, Dump, DumpItem, ExecutionId, Fence,
    Host, HubKey, HubName, IdPage, Inspection, InstanceId, List, Manage, Message, Page, Purge, Purged, Query,
    Record, Refused, Scale, SessionId, SessionInfo, Slice, StoreLimits, Work,
};

use crate::fault::Call;
use crate::mistake::Mistake as M;
use crate::session::ModelSession;
use crate::state::State;
use crate::store::Model;

/// One hub of a [`Model`].
#[derive(Clone)]
pub(crate) struct ModelHub {
    model: Model,
    name: HubName,
}

impl ModelHub {
    pub(crate) fn new(model: Model, name: HubName) -> Self {
        Self { model, name }
    }

    fn read<T>(&self, operation: impl FnOnce(&mut State) -> T) -> T {
        self.model.read(&self.name, operation)
    }

    pub(crate) fn write<T>(&self, operation: impl FnOnce(&mut State) -> T) -> T {
        self.model.write(&self.name, operation)
    }

    pub(crate) fn model(&self) -> &Model {
        &self.model
    }

    pub(crate) fn name(&self) -> &HubName {
        &self.name
    }

    /// Makes a call of many items, each on its own.
    pub(crate) async fn batch<A: Clone + Send + Sync, T: Send>(
        &self,
        call: Call,
        batch: Vec<A>,
        each: impl Fn(&mut State, A) -> Result<T, Refused> + Send + Sync,
    ) -> Vec<Result<T, Refused>> {
        let all = || {
            let mut answers: Vec<Result<T, Refused>> = Vec::new();
            for item in &batch {
                let answer = self.write(|state| {
                    if state.makes(M::BatchStopsAtFirstRefusal) && answers.iter().any(Result::is_err) {
                        return Err(Refused::NotExecuted(Cause::new("an earlier item was refused")));
                    }
                    each(state, item.clone())
                });
                answers.push(answer);
            }
            answers
        };
        match self.model.call(call, all).await {
            Ok(answers) => answers,
            Err(fault) => batch.iter().map(|_| Err(fault.clone())).collect(),
        }
    }
}

#[async_trait]
impl Manage for ModelHub {
    async fn create(&self, batch: Vec<Create>) -> Vec<Result<Created, Refused>> {
        self.batch(Call::Create, batch, |state, create| state.create(create)).await
    }

    async fn send(&self, batch: Vec<Message>) -> Vec<Result<Delivered, Refused>> {
        self.batch(Call::Send, batch, |state, message| state.send(message)).await
    }

    async fn amend(&self, checkpoint: Checkpoint) -> Result<Committed, Refused> {
        let amend = || self.write(|state| state.commit(None, checkpoint.clone()));
        self.model.call(Call::Amend, amend).await?
    }

    async fn get(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<(Fence, Record)>>, Refused> {
        let found = ids.iter().map(|id| {
            let here = self.read(|state| state.get(id));
            here.or_else(|| self.model.elsewhere(|state| state.get(id)))
        });
        Ok(found.collect())
    }

    async fn inspect(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<Inspection>>, Refused> {
        Ok(self.read(|state| ids.iter().map(|id| state.inspect(id)).collect()))
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, Refused> {
        Ok(self.read(|state| state.sessions()))
    }

    async fn query(&self, query: Query) -> Result<Page, Refused> {
        self.read(|state| state.query(&query))
    }

    async fn list(&self, list: List) -> Result<IdPage, Refused> {
        self.read(|state| state.list(&list))
    }

    async fn read_history(
        &self,
        instance: &InstanceId,
        execution: Option<ExecutionId>,
        from: u32,
        max_bytes: usize,
    ) -> Result<Slice, Refused> {
        Ok(self.read(|state| state.read_history(instance, execution, (from, max_bytes))))
    }

    async fn read_start(&self, instance: &InstanceId) -> Result<Option<Message>, Refused> {
        Ok(self.read(|state| state.read_start(instance)))
    }

    async fn purge(&self, purge: Purge) -> Result<Purged, Refused> {
        Ok(self.write(|state| state.purge(&purge)))
    }

    async fn retry(&self, ids: Vec<InstanceId>) -> Result<usize, Refused> {
        Ok(self.write(|state| state.retry(&ids)))
    }

    async fn key(&self, candidate: HubKey) -> Result<HubKey, Refused> {
        Ok(self.write(|state| state.key(candidate)))
    }

    async fn attach(&self, host: Host) -> Result<Arc<dyn Work>, Refused> {
        self.write(|state| state.attach(&host))?;
        Ok(Arc::new(ModelSession::open(self.clone(), host.session)))
    }

    async fn end_session(&self, session: SessionId) -> Result<(), Refused> {
        self.write(|state| state.end_session(session));
        Ok(())
    }

    async fn scale(&self) -> Result<Scale, Refused> {
        Ok(self.write(|state| state.scale()))
    }

    fn limits(&self) -> StoreLimits {
        self.model.limits()
    }

    async fn dump(&self, after: Option<String>) -> Result<Dump, Refused> {
        match after {
            None => Ok(Dump { items: self.read(|state| state.dump()), next: None }),
            Some(after) => {
                Err(Refused::NotExecuted(Cause::new(format!("a dump has no part after {after:?}"))))
            }
        }
    }

    async fn load(&self, items: Vec<DumpItem>) -> Result<(), Refused> {
        self.write(|state| state.load(items))
    }

    fn changes(&self) -> Changes {
        self.model.changes()
    }
}
