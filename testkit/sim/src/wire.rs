//! What lies between a host or client and the store: calls take a moment, hosts die at their edges, requests arrive once
//! more when nobody expects them, and what clients are told is written down.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dauer_memory::{Call, MemoryHub};
use dauer_store::{
    Cause, Changes, Checkpoint, Committed, Create, Created, Delivered, Dump, DumpItem, ExecutionId, Fence,
    Host, IdPage, Inspection, InstanceId, List, Manage, Message, Page, Purge, Purged, Query, Record, Refused,
    Scale, SessionId, SessionInfo, Slice, StoreLimits, Work,
};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::executor::{Executor, Owner, give_way};
use crate::faults::{Edge, Plan};
use crate::history::{ClientHistory, What};
use crate::journal::Journal;
use crate::line::Line;
use crate::unpoisoned;

/// What hosts were told, over all of them.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) fenced: AtomicU64,
    pub(crate) unknown: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) fenced_commits: AtomicU64,
    pub(crate) unknown_commits: AtomicU64,
    /// Unknown commits that had happened by the time their caller was told.
    pub(crate) unknown_committed: AtomicU64,
    /// Turns that were committed with results of their host's tasks.
    pub(crate) fused: AtomicU64,
    /// Kept instances for which something had arrived.
    pub(crate) arrived: AtomicU64,
    /// Messages that were read for kept instances.
    pub(crate) read: AtomicU64,
    /// Claims that brought an instance of which a turn was under way, or committed, at the same host.
    pub(crate) met: AtomicU64,
    /// Turns that claims won while they waited.
    pub(crate) awaited: AtomicU64,
    /// Turns of the poisoned instance that somebody tried in vain.
    pub(crate) poisoned: AtomicU64,
}

/// What all wires of a run share.
pub(crate) struct Network {
    pub(crate) hub: Arc<MemoryHub>,
    pub(crate) executor: Executor,
    pub(crate) plan: Arc<Plan>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) history: Arc<ClientHistory>,
    pub(crate) told: Told,
    /// Turns that a host gave back as impossible.
    pub(crate) stalled: Mutex<Vec<String>>,
    /// Every session that was asked for, with who asked.
    pub(crate) opened: Mutex<Vec<(Owner, SessionId)>>,
    /// Whether hosts forget the revision of their fence, as if the store did not compare it.
    pub(crate) without_revision: bool,
    /// Whether the hub was deleted. What is still on its way to it may reach the next hub of its name.
    pub(crate) deleted: AtomicBool,
}

impl Network {
    /// Whether a request on its way may still arrive: messages and purges end with their hub. What a session sends is
    /// refused by the next hub, which does not know the session.
    pub(crate) fn arrives(&self, call: Call) -> bool {
        !self.deleted.load(Ordering::Relaxed) || !matches!(call, Call::Send | Call::Amend | Call::Purge)
    }
}

/// One owner's way to the hub.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) network: Arc<Network>,
    owner: Owner,
    /// Whether the code of the host lacks what others have: it cannot run their instances.
    pub(crate) old: bool,
}

impl Wire {
    pub(crate) fn new(network: Arc<Network>, owner: Owner) -> Self {
        Self { network, owner, old: false }
    }

    /// The way of a host whose code is old.
    pub(crate) fn old(self, old: bool) -> Self {
        Self { old, ..self }
    }

    /// Perhaps has the same request arrive once more, after a while and whoever died meanwhile. One that was refused as
    /// not executed never arrives: that is what its caller was told.
    pub(crate) fn echo<'a, T: 'a>(
        &self,
        call: Call,
        answers: impl IntoIterator<Item = &'a Result<T, Refused>>,
        again: impl FnOnce() -> BoxFuture<'static, ()>,
    ) {
        let network = &self.network;
        let refused = |answer: &Result<T, Refused>| matches!(answer, Err(Refused::NotExecuted(_)));
        if !answers.into_iter().any(refused)
            && let Some(delay) = network.plan.echo(call)
        {
            let (executor, again, network) = (network.executor.clone(), again(), Arc::clone(network));
            let later = async move {
                executor.sleep_until(executor.now().after(delay)).await;
                if !network.arrives(call) {
                    return;
                }
                executor
                    .trace()
                    .note(executor.now(), &[7, call as u64], || format!("{call:?} arrives once more"));
                again.await;
            };
            self.network.executor.spawn(Owner::OUTSIDE, later.boxed());
        }
    }

    /// The edge of a call: before it is sent, or after it was answered.
    async fn edge(&self, call: Call, side: u64) {
        let network = &self.network;
        let edge = network.plan.edge(call, side > 0, self.owner != Owner::OUTSIDE);
        let kind = match edge {
            Edge::Smooth => 0,
            Edge::GiveWay => 1,
            Edge::Crash => 2,
            Edge::Linger(millis) => 2 + millis,
        };
        let numbers = [2, u64::from(self.owner.0), call as u64, side, kind];
        network.executor.trace().note(network.executor.now(), &numbers, || {
            let side = ["sends", "has the answer of"][usize::from(side > 0)];
            format!("{} {side} {call:?}: {edge:?}", self.owner.0)
        });
        match edge {
            Edge::Smooth => {}
            Edge::GiveWay => give_way().await,
            Edge::Linger(millis) => {
                let until = network.executor.now().after(Duration::from_millis(millis));
                network.executor.sleep_until(until).await;
            }
            Edge::Crash => {
                network.executor.doom(self.owner);
                std::future::pending::<()>().await;
            }
        }
    }

    pub(crate) async fn call<T>(&self, call: Call, answer: impl Future<Output = T>) -> T {
        self.network.told.calls.fetch_add(1, Ordering::Relaxed);
        self.edge(call, 0).await;
        let answer = answer.await;
        self.edge(call, 1).await;
        answer
    }

    pub(crate) fn tell<'a, T: 'a>(&self, results: impl IntoIterator<Item = &'a Result<T, Refused>>) {
        let network = &self.network;
        for result in results {
            let (number, told) = match result {
                Ok(_) => (0, None),
                Err(Refused::Fenced) => (1, Some(&network.told.fenced)),
                Err(Refused::Unknown(_)) => (2, Some(&network.told.unknown)),
                Err(_) => (3, None),
            };
            if let Some(counter) = told {
                counter.fetch_add(1, Ordering::Relaxed);
            }
            network.executor.trace().note(
                network.executor.now(),
                &[3, u64::from(self.owner.0), number],
                || {
                    format!(
                        "{} is told {}",
                        self.owner.0,
                        ["yes", "fenced", "unknown", "no"][number as usize % 4]
                    )
                },
            );
        }
    }
}

#[async_trait]
impl Manage for Wire {
    async fn create(&self, batch: Vec<Create>) -> Vec<Result<Created, Refused>> {
        let (history, began) = (&self.network.history, self.network.history.moment());
        let starts: Vec<Message> = batch.iter().map(|create| create.start.clone()).collect();
        let created = self.network.journal.watch_openings(&starts, self.network.hub.create(batch));
        let results = self.call(Call::Create, created).await;
        self.tell(&results);
        for (start, result) in starts.iter().zip(&results) {
            history.created((&start.to, start.id), began, result);
        }
        results
    }

    async fn send(&self, batch: Vec<Message>) -> Vec<Result<Delivered, Refused>> {
        let (history, began) = (&self.network.history, self.network.history.moment());
        let results = self.call(Call::Send, self.network.hub.send(batch.clone())).await;
        self.tell(&results);
        for (message, result) in batch.iter().zip(&results) {
            if let Ok(delivered) = result {
                history.answered(&message.to, began, What::Sent(*delivered));
            }
        }
        let hub = Arc::clone(&self.network.hub);
        self.echo(Call::Send, &results, || async move { drop(hub.send(batch).await) }.boxed());
        results
    }

    async fn amend(&self, checkpoint: Checkpoint) -> Result<Committed, Refused> {
        let amend = |network: Arc<Network>, checkpoint: Checkpoint| async move {
            let batch = [Arc::new(checkpoint.clone())];
            let amended = async { vec![network.hub.amend(checkpoint).await] };
            let answer = network.journal.watch(&batch, true, amended).await.pop();
            answer.unwrap_or_else(|| Err(Refused::Unknown(Cause::new("the journal lost the answer"))))
        };
        let answer = self.call(Call::Amend, amend(Arc::clone(&self.network), checkpoint.clone())).await;
        let network = Arc::clone(&self.network);
        self.echo(Call::Amend, [&answer], || async move { drop(amend(network, checkpoint).await) }.boxed());
        answer
    }

    async fn get(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<(Fence, Record)>>, Refused> {
        let (history, began) = (&self.network.history, self.network.history.moment());
        let found = self.call(Call::Get, self.network.hub.get(ids.clone())).await?;
        for (id, found) in ids.iter().zip(&found) {
            history.saw(id, began, found.as_ref());
        }
        Ok(found)
    }

    async fn inspect(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<Inspection>>, Refused> {
        self.call(Call::Get, self.network.hub.inspect(ids)).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, Refused> {
        self.call(Call::Get, self.network.hub.sessions()).await
    }

    async fn query(&self, query: Query) -> Result<Page, Refused> {
        self.call(Call::Query, self.network.hub.query(query)).await
    }

    async fn list(&self, list: List) -> Result<IdPage, Refused> {
        self.call(Call::List, self.network.hub.list(list)).await
    }

    async fn read_history(
        &self,
        instance: &InstanceId,
        execution: Option<ExecutionId>,
        from: u32,
        max_bytes: usize,
    ) -> Result<Slice, Refused> {
        self.call(Call::ReadHistory, self.network.hub.read_history(instance, execution, from, max_bytes))
            .await
    }

    async fn read_start(&self, instance: &InstanceId) -> Result<Option<Message>, Refused> {
        self.call(Call::Get, self.network.hub.read_start(instance)).await
    }

    async fn purge(&self, purge: Purge) -> Result<Purged, Refused> {
        let (history, began) = (&self.network.history, self.network.history.moment());
        let (journal, hub) = (Arc::clone(&self.network.journal), Arc::clone(&self.network.hub));
        let (answer, removed) =
            self.call(Call::Purge, journal.watch_purge(&purge, hub.purge(purge.clone()))).await;
        match (&purge, &answer) {
            // One that was delivered twice answers as the second time was.
            (_, Ok(purged)) if purged.count > removed => {
                let text =
                    format!("a purge answered that it removed {}, and it removed {removed}", purged.count);
                unpoisoned(&self.network.stalled).push(text);
            }
            (Purge::Ids(ids), Ok(purged)) if ids.len() == 1 && purged.count == 0 => {
                history.answered(&ids[0], began, What::Kept);
            }
            _ => {}
        }
        self.echo(Call::Purge, [&answer], || {
            let again = async move {
                let purged = hub.purge(purge.clone());
                drop(journal.watch_purge(&purge, purged).await);
            };
            again.boxed()
        });
        answer
    }

    async fn attach(&self, host: Host) -> Result<Arc<dyn Work>, Refused> {
        unpoisoned(&self.network.opened).push((self.owner, host.session));
        let work = self.call(Call::Attach, self.network.hub.attach(host)).await?;
        Ok(Arc::new(Line::new(self.clone(), work)))
    }

    async fn end_session(&self, session: SessionId) -> Result<(), Refused> {
        let answer = self.call(Call::EndSession, self.network.hub.end_session(session)).await;
        let hub = Arc::clone(&self.network.hub);
        self.echo(Call::EndSession, [&answer], || {
            async move { drop(hub.end_session(session).await) }.boxed()
        });
        answer
    }

    async fn scale(&self) -> Result<Scale, Refused> {
        self.call(Call::Scale, self.network.hub.scale()).await
    }

    fn limits(&self) -> StoreLimits {
        self.network.hub.limits()
    }

    async fn dump(&self, after: Option<String>) -> Result<Dump, Refused> {
        self.call(Call::Dump, self.network.hub.dump(after)).await
    }

    async fn load(&self, items: Vec<DumpItem>) -> Result<(), Refused> {
        self.call(Call::Load, self.network.hub.load(items)).await
    }

    fn changes(&self) -> Changes {
        self.network.hub.changes()
    }
}
