//! What stands between a caller and a store, and the wrappers that put it there.

use std::sync::Arc;

use async_trait::async_trait;
use dauer_store::{
    Changes, Checkpoint, Committed, Completion, Create, Created, Credit, Death, Deaths, Delivered, Dump,
    DumpItem, Effort, ExecutionId, Fence, Host, HubKey, HubName, IdPage, Inspection, InstanceId, List, Lost,
    Mail, Manage, Message, Next, Page, Purge, Purged, Query, Recalled, Record, Refused, Release, Scale,
    SessionId, SessionInfo, Slice, Store, StoreLimits, TaskLease, TaskName, Trial, Until, Work,
};

use crate::call::{Answer, Call, Session};

/// Where a call goes.
#[derive(Clone)]
pub enum Destination<'e> {
    /// A store.
    Store(Arc<dyn Store>),
    /// A hub.
    Hub(Arc<dyn Manage>),
    /// A session, with the wait of its [`Work::next`]; [`Until::Once`] for all other calls.
    Session(Arc<dyn Work>, Until<'e>),
}

impl Destination<'_> {
    /// The session that makes the call.
    #[must_use]
    pub fn session(&self) -> Option<&Arc<dyn Work>> {
        match self {
            Self::Session(session, _) => Some(session),
            Self::Store(_) | Self::Hub(_) => None,
        }
    }

    /// The same destination for a call that outlives this one. A [`Work::next`] only looks there.
    #[must_use]
    pub fn to_owned(&self) -> Destination<'static> {
        match self {
            Self::Store(store) => Destination::Store(Arc::clone(store)),
            Self::Hub(hub) => Destination::Hub(Arc::clone(hub)),
            Self::Session(session, _) => Destination::Session(Arc::clone(session), Until::Once),
        }
    }

    /// Carries the call out there.
    ///
    /// # Panics
    /// If such a destination does not have the operation. An interceptor is given only calls that fit.
    pub async fn carry_out(&self, call: Call) -> Answer {
        match self {
            Self::Store(store) => of_store(&**store, call).await,
            Self::Hub(hub) => of_hub(&**hub, call).await,
            Self::Session(session, until) => of_session(&**session, *until, call).await,
        }
    }
}

async fn of_store(store: &dyn Store, call: Call) -> Answer {
    match call {
        Call::Hubs {} => Answer::Hubs(store.hubs().await),
        Call::HasHub { name } => Answer::HasHub(store.has_hub(&name).await),
        Call::DeleteHub { name } => Answer::DeleteHub(store.delete_hub(&name).await),
        Call::Close {} => {
            store.close().await;
            Answer::Close(())
        }
        other => unreachable!("a store has no {}", other.op()),
    }
}

async fn of_hub(hub: &dyn Manage, call: Call) -> Answer {
    match call {
        Call::Create { batch } => Answer::Create(hub.create(batch).await),
        Call::Send { batch } => Answer::Send(hub.send(batch).await),
        Call::Amend { checkpoint } => Answer::Amend(hub.amend(*checkpoint).await),
        Call::Get { ids } => Answer::Get(hub.get(ids).await),
        Call::Inspect { ids } => Answer::Inspect(hub.inspect(ids).await),
        Call::Sessions {} => Answer::Sessions(hub.sessions().await),
        Call::Query { query } => Answer::Query(hub.query(query).await),
        Call::List { list } => Answer::List(hub.list(list).await),
        Call::ReadHistory { instance, execution, from, max_bytes } => {
            Answer::ReadHistory(hub.read_history(&instance, execution, from, max_bytes).await)
        }
        Call::ReadStart { instance } => Answer::ReadStart(hub.read_start(&instance).await),
        Call::Purge { purge } => Answer::Purge(hub.purge(purge).await),
        Call::Retry { ids } => Answer::Retry(hub.retry(ids).await),
        Call::Key { candidate } => Answer::Key(hub.key(candidate).await),
        Call::Attach { host } => Answer::Attach(hub.attach(host).await.map(Session)),
        Call::EndSession { session } => Answer::EndSession(hub.end_session(session).await),
        Call::Scale {} => Answer::Scale(hub.scale().await),
        Call::Dump { after } => Answer::Dump(hub.dump(after).await),
        Call::Load { items } => Answer::Load(hub.load(items).await),
        other => unreachable!("a hub has no {}", other.op()),
    }
}

async fn of_session(session: &dyn Work, until: Until<'_>, call: Call) -> Answer {
    match call {
        Call::Credit { credit } => {
            session.credit(credit);
            Answer::Credit(())
        }
        Call::Next { .. } => Answer::Next(session.next(until).await),
        Call::Recall { first, last } => Answer::Recall(session.recall(first, last).await),
        Call::Mail { fences } => Answer::Mail(session.mail(fences).await),
        Call::LoadHistory { fence, from, max_bytes } => {
            Answer::LoadHistory(session.load_history(&fence, from, max_bytes).await)
        }
        Call::CommitTurns { batch } => Answer::CommitTurns(session.commit_turns(batch).await),
        Call::CompleteActivities { batch } => {
            Answer::CompleteActivities(session.complete_activities(batch).await)
        }
        Call::Renew {} => Answer::Renew(session.renew().await),
        Call::Release { items } => Answer::Release(session.release(items).await),
        Call::Adopt { tasks } => Answer::Adopt(session.adopt(tasks).await),
        Call::Died { deaths } => Answer::Died(session.died(deaths).await),
        Call::Trial { trials } => Answer::Trial(session.trial(trials).await),
        Call::Detach {} => Answer::Detach(session.detach().await),
        other => unreachable!("a session has no {}", other.op()),
    }
}

/// Stands between a caller and a store. By default it is not noticed.
#[async_trait]
pub trait Interceptor: Send + Sync {
    /// Answers a call, by [`Destination::carry_out`] or otherwise. The answer must be of the operation of the call.
    async fn call(&self, call: Call, to: Destination<'_>) -> Answer {
        to.carry_out(call).await
    }

    /// [`Work::credit`], which cannot wait and does not pass [`Self::call`].
    fn credit(&self, credit: Credit, to: &Arc<dyn Work>) {
        to.credit(credit);
    }

    /// The hints of a hub or session.
    fn changes(&self, changes: Changes) -> Changes {
        changes
    }
}

/// A store behind an interceptor. Its hubs, and their sessions, are behind it too.
#[must_use]
pub fn wrap_store(inner: Arc<dyn Store>, interceptor: Arc<dyn Interceptor>) -> Arc<dyn Store> {
    Arc::new(Wrapped { inner, interceptor })
}

/// A hub behind an interceptor. Its sessions are behind it too.
#[must_use]
pub fn wrap_hub(inner: Arc<dyn Manage>, interceptor: Arc<dyn Interceptor>) -> Arc<dyn Manage> {
    Arc::new(Wrapped { inner, interceptor })
}

/// A session behind an interceptor.
#[must_use]
pub fn wrap_session(inner: Arc<dyn Work>, interceptor: Arc<dyn Interceptor>) -> Arc<dyn Work> {
    Arc::new(Wrapped { inner, interceptor })
}

struct Wrapped<T: ?Sized> {
    inner: Arc<T>,
    interceptor: Arc<dyn Interceptor>,
}

impl Wrapped<dyn Store> {
    async fn ask(&self, call: Call) -> Answer {
        self.interceptor.call(call, Destination::Store(Arc::clone(&self.inner))).await
    }
}

impl Wrapped<dyn Manage> {
    async fn ask(&self, call: Call) -> Answer {
        self.interceptor.call(call, Destination::Hub(Arc::clone(&self.inner))).await
    }
}

impl Wrapped<dyn Work> {
    async fn ask(&self, call: Call) -> Answer {
        self.wait(call, Until::Once).await
    }

    async fn wait(&self, call: Call, until: Until<'_>) -> Answer {
        self.interceptor.call(call, Destination::Session(Arc::clone(&self.inner), until)).await
    }
}

/// Makes the call and takes the answer out of its variant.
macro_rules! ask {
    ($self:ident, $op:ident { $($field:ident $(: $value:expr)?),* }) => {
        match $self.ask(Call::$op { $($field $(: $value)?),* }).await {
            Answer::$op(answer) => answer,
            // The contract of `Interceptor::call`.
            other => unreachable!("{} was answered as {}", stringify!($op), other.op()),
        }
    };
}

#[async_trait]
impl Store for Wrapped<dyn Store> {
    fn hub(&self, name: HubName) -> Arc<dyn Manage> {
        wrap_hub(self.inner.hub(name), Arc::clone(&self.interceptor))
    }

    async fn hubs(&self) -> Result<Vec<HubName>, Refused> {
        ask!(self, Hubs {})
    }

    async fn has_hub(&self, name: &HubName) -> Result<bool, Refused> {
        ask!(self, HasHub { name: name.clone() })
    }

    async fn delete_hub(&self, name: &HubName) -> Result<(), Refused> {
        ask!(self, DeleteHub { name: name.clone() })
    }

    async fn close(&self) {
        ask!(self, Close {})
    }
}

#[async_trait]
impl Manage for Wrapped<dyn Manage> {
    async fn create(&self, batch: Vec<Create>) -> Vec<Result<Created, Refused>> {
        ask!(self, Create { batch })
    }

    async fn send(&self, batch: Vec<Message>) -> Vec<Result<Delivered, Refused>> {
        ask!(self, Send { batch })
    }

    async fn amend(&self, checkpoint: Checkpoint) -> Result<Committed, Refused> {
        ask!(self, Amend { checkpoint: Box::new(checkpoint) })
    }

    async fn get(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<(Fence, Record)>>, Refused> {
        ask!(self, Get { ids })
    }

    async fn inspect(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<Inspection>>, Refused> {
        ask!(self, Inspect { ids })
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, Refused> {
        ask!(self, Sessions {})
    }

    async fn query(&self, query: Query) -> Result<Page, Refused> {
        ask!(self, Query { query })
    }

    async fn list(&self, list: List) -> Result<IdPage, Refused> {
        ask!(self, List { list })
    }

    async fn read_history(
        &self,
        instance: &InstanceId,
        execution: Option<ExecutionId>,
        from: u32,
        max_bytes: usize,
    ) -> Result<Slice, Refused> {
        ask!(self, ReadHistory { instance: instance.clone(), execution, from, max_bytes })
    }

    async fn read_start(&self, instance: &InstanceId) -> Result<Option<Message>, Refused> {
        ask!(self, ReadStart { instance: instance.clone() })
    }

    async fn purge(&self, purge: Purge) -> Result<Purged, Refused> {
        ask!(self, Purge { purge })
    }

    async fn retry(&self, ids: Vec<InstanceId>) -> Result<usize, Refused> {
        ask!(self, Retry { ids })
    }

    async fn key(&self, candidate: HubKey) -> Result<HubKey, Refused> {
        ask!(self, Key { candidate })
    }

    async fn attach(&self, host: Host) -> Result<Arc<dyn Work>, Refused> {
        let attached: Result<Session, Refused> = ask!(self, Attach { host });
        attached.map(|Session(session)| wrap_session(session, Arc::clone(&self.interceptor)))
    }

    async fn end_session(&self, session: SessionId) -> Result<(), Refused> {
        ask!(self, EndSession { session })
    }

    async fn scale(&self) -> Result<Scale, Refused> {
        ask!(self, Scale {})
    }

    fn limits(&self) -> StoreLimits {
        self.inner.limits()
    }

    fn effort(&self) -> Effort {
        self.inner.effort()
    }

    async fn dump(&self, after: Option<String>) -> Result<Dump, Refused> {
        ask!(self, Dump { after })
    }

    async fn load(&self, items: Vec<DumpItem>) -> Result<(), Refused> {
        ask!(self, Load { items })
    }

    fn changes(&self) -> Changes {
        self.interceptor.changes(self.inner.changes())
    }
}

#[async_trait]
impl Work for Wrapped<dyn Work> {
    fn session(&self) -> SessionId {
        self.inner.session()
    }

    fn credit(&self, credit: Credit) {
        self.interceptor.credit(credit, &self.inner);
    }

    async fn next(&self, until: Until<'_>) -> Result<Next, Refused> {
        let at = match until {
            Until::Once => None,
            Until::At(_, at) => Some(at),
        };
        match self.wait(Call::Next { until: at }, until).await {
            Answer::Next(answer) => answer,
            other => unreachable!("Next was answered as {}", other.op()),
        }
    }

    async fn recall(&self, first: u64, last: u64) -> Result<Recalled, Refused> {
        ask!(self, Recall { first, last })
    }

    async fn mail(&self, fences: Vec<Fence>) -> Vec<Result<Mail, Refused>> {
        ask!(self, Mail { fences })
    }

    async fn load_history(&self, fence: &Fence, from: u32, max_bytes: usize) -> Result<Slice, Refused> {
        ask!(self, LoadHistory { fence: fence.clone(), from, max_bytes })
    }

    async fn commit_turns(&self, batch: Vec<Arc<Checkpoint>>) -> Vec<Result<Committed, Refused>> {
        ask!(self, CommitTurns { batch })
    }

    async fn complete_activities(&self, batch: Vec<Completion>) -> Vec<Result<Delivered, Refused>> {
        ask!(self, CompleteActivities { batch })
    }

    async fn renew(&self) -> Result<Vec<Lost>, Refused> {
        ask!(self, Renew {})
    }

    async fn release(&self, items: Vec<Release>) -> Vec<Result<(), Refused>> {
        ask!(self, Release { items })
    }

    async fn adopt(&self, tasks: Vec<TaskName>) -> Vec<Result<Option<TaskLease>, Refused>> {
        ask!(self, Adopt { tasks })
    }

    async fn died(&self, deaths: Vec<Death>) -> Vec<Result<Deaths, Refused>> {
        ask!(self, Died { deaths })
    }

    async fn trial(&self, trials: Vec<Trial>) -> Vec<Result<(), Refused>> {
        ask!(self, Trial { trials })
    }

    async fn detach(&self) -> Result<(), Refused> {
        ask!(self, Detach {})
    }

    fn changes(&self) -> Changes {
        self.interceptor.changes(self.inner.changes())
    }
}
