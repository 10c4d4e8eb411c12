//! What lies between a host and its store: calls take a moment, hosts die at their edges, commits are written down.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dauer_memory::{Call, MemoryHub};
use dauer_store::{
    Changes, Checkpoint, ClaimedTurn, Committed, Completion, Create, Created, Delivered, Dump, DumpItem,
    ExecutionId, Fence, History, Host, IdPage, InstanceId, Item, List, Lost, Manage, Message, MessageId,
    Page, Purge, Purged, Query, Queues, Record, Refused, Release, Scale, SessionId, Slice, StoreLimits,
    TaskLease, Then, Trouble, Want, Work,
};

use crate::executor::{Executor, Owner, give_way};
use crate::faults::{Edge, Plan};
use crate::journal::Journal;
use crate::unpoisoned;

/// What hosts were told, over all of them.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) fenced: AtomicU64,
    pub(crate) unknown: AtomicU64,
    pub(crate) calls: AtomicU64,
    /// Turns that were committed with results of their host's tasks.
    pub(crate) fused: AtomicU64,
    /// Kept instances for which something had arrived.
    pub(crate) arrived: AtomicU64,
    /// Claims that brought an instance of which a turn was under way, or committed, at the same host.
    pub(crate) met: AtomicU64,
}

/// What all wires of a run share.
pub(crate) struct Network {
    pub(crate) hub: Arc<MemoryHub>,
    pub(crate) executor: Executor,
    pub(crate) plan: Arc<Plan>,
    pub(crate) journal: Arc<Journal>,
    pub(crate) told: Told,
    /// Turns that a host gave back as impossible.
    pub(crate) stalled: Mutex<Vec<String>>,
    /// Every session that was asked for, with who asked.
    pub(crate) opened: Mutex<Vec<(Owner, SessionId)>>,
    /// Whether hosts forget the revision of their fence, as if the store did not compare it.
    pub(crate) without_revision: bool,
}

/// One owner's way to the hub.
#[derive(Clone)]
pub(crate) struct Wire {
    network: Arc<Network>,
    owner: Owner,
}

impl Wire {
    pub(crate) fn new(network: Arc<Network>, owner: Owner) -> Self {
        Self { network, owner }
    }

    /// The edge of a call: before it is sent, or after it was answered.
    async fn edge(&self, call: Call, side: u64) {
        let network = &self.network;
        let edge = network.plan.edge(self.owner != Owner::OUTSIDE);
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

    async fn call<T>(&self, call: Call, answer: impl Future<Output = T>) -> T {
        self.network.told.calls.fetch_add(1, Ordering::Relaxed);
        self.edge(call, 0).await;
        let answer = answer.await;
        self.edge(call, 1).await;
        answer
    }

    fn tell<'a, T: 'a>(&self, results: impl IntoIterator<Item = &'a Result<T, Refused>>) {
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

/// One session's way to the store.
struct Line {
    wire: Wire,
    work: Arc<dyn Work>,
    /// The last claim of each instance that brought it to its session once more, under the epoch it was kept with.
    again: Mutex<BTreeMap<InstanceId, (Fence, Vec<MessageId>)>>,
}

impl Line {
    /// Remembers what a claim brought, to see what becomes of it.
    fn note_claim(&self, claimed: &[ClaimedTurn]) {
        let mut again = unpoisoned(&self.again);
        for ClaimedTurn { fence, messages, .. } in claimed {
            let messages = messages.iter().map(|message| message.id).collect();
            again.insert(fence.instance.clone(), (fence.clone(), messages));
        }
    }

    /// Counts what is about fusion. A commit that carries the fence of a claim and uses none of its messages is that of
    /// a turn which the claim met.
    fn note_commits(&self, batch: &[Arc<Checkpoint>], results: &[Result<Committed, Refused>]) {
        let (told, again) = (&self.wire.network.told, unpoisoned(&self.again));
        let count = |counter: &AtomicU64, is: bool| counter.fetch_add(u64::from(is), Ordering::Relaxed);
        for (checkpoint, result) in batch.iter().zip(results) {
            let Checkpoint { fence, completions, consumed, history, then, .. } = &**checkpoint;
            let Ok(committed) = result else { continue };
            count(&told.fused, !completions.is_empty());
            let kept = *then == Then::Keep && matches!(history, History::Append(_));
            count(&told.arrived, kept && !committed.arrived.is_empty());
            let met = again.get(&fence.instance).is_some_and(|(claimed, messages)| {
                claimed == fence
                    && !completions.is_empty()
                    && !messages.iter().any(|message| consumed.contains(message))
            });
            count(&told.met, met);
        }
    }

    /// With [`Network::without_revision`] a stale turn pretends to be the next one.
    fn pretend(&self, mut batch: Vec<Arc<Checkpoint>>) -> Vec<Arc<Checkpoint>> {
        let network = &self.wire.network;
        if network.without_revision {
            for checkpoint in &mut batch {
                let current = network.journal.look(vec![checkpoint.fence.instance.clone()]).pop().flatten();
                if let Some((current, _)) = current {
                    Arc::make_mut(checkpoint).fence.revision = current.revision;
                }
            }
        }
        batch
    }
}

#[async_trait]
impl Work for Line {
    fn session(&self) -> SessionId {
        self.work.session()
    }

    async fn claim_turns(&self, want: Want) -> Result<Vec<ClaimedTurn>, Refused> {
        let claimed = self.wire.call(Call::ClaimTurns, self.work.claim_turns(want)).await?;
        self.note_claim(&claimed);
        Ok(claimed)
    }

    async fn load_history(&self, fence: &Fence, from: u32, max_bytes: usize) -> Result<Slice, Refused> {
        self.wire.call(Call::LoadHistory, self.work.load_history(fence, from, max_bytes)).await
    }

    async fn commit_turns(&self, batch: Vec<Arc<Checkpoint>>) -> Vec<Result<Committed, Refused>> {
        let sent = async {
            let work = self.work.commit_turns(self.pretend(batch.clone()));
            let results = self.wire.network.journal.watch(&batch, work).await;
            self.wire.tell(&results);
            results
        };
        let results = self.wire.call(Call::CommitTurns, sent).await;
        self.note_commits(&batch, &results);
        results
    }

    async fn claim_activities(&self, want: Want) -> Result<Vec<TaskLease>, Refused> {
        self.wire.call(Call::ClaimActivities, self.work.claim_activities(want)).await
    }

    async fn complete_activities(&self, batch: Vec<Completion>) -> Vec<Result<Delivered, Refused>> {
        let results = self.wire.call(Call::CompleteActivities, self.work.complete_activities(batch)).await;
        self.wire.tell(&results);
        results
    }

    async fn renew(&self) -> Result<Vec<Lost>, Refused> {
        self.wire.call(Call::Renew, self.work.renew()).await
    }

    async fn release(&self, items: Vec<Release>) -> Vec<Result<(), Refused>> {
        for Release { item, trouble, .. } in &items {
            if let (Item::Turn(Fence { instance, .. }), Some(Trouble { kind, reason, .. })) = (item, trouble)
            {
                let text =
                    format!("a turn of {instance} was stalled, which no program does: {kind:?}: {reason}");
                unpoisoned(&self.wire.network.stalled).push(text);
            }
        }
        self.wire.call(Call::Release, self.work.release(items)).await
    }

    async fn next_due(&self, queues: &Queues) -> Result<Option<Duration>, Refused> {
        self.wire.call(Call::NextDue, self.work.next_due(queues)).await
    }

    async fn detach(&self) -> Result<(), Refused> {
        self.wire.call(Call::Detach, self.work.detach()).await
    }

    fn changes(&self) -> Changes {
        self.work.changes()
    }
}

#[async_trait]
impl Manage for Wire {
    async fn create(&self, batch: Vec<Create>) -> Vec<Result<Created, Refused>> {
        let results = self.call(Call::Create, self.network.hub.create(batch)).await;
        self.tell(&results);
        results
    }

    async fn send(&self, batch: Vec<Message>) -> Vec<Result<Delivered, Refused>> {
        let results = self.call(Call::Send, self.network.hub.send(batch)).await;
        self.tell(&results);
        results
    }

    async fn amend(&self, checkpoint: Checkpoint) -> Result<Committed, Refused> {
        self.call(Call::Amend, self.network.hub.amend(checkpoint)).await
    }

    async fn get(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<(Fence, Record)>>, Refused> {
        self.call(Call::Get, self.network.hub.get(ids)).await
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

    async fn purge(&self, purge: Purge) -> Result<Purged, Refused> {
        self.call(Call::Purge, self.network.hub.purge(purge)).await
    }

    async fn attach(&self, host: Host) -> Result<Arc<dyn Work>, Refused> {
        unpoisoned(&self.network.opened).push((self.owner, host.session));
        let work = self.call(Call::Attach, self.network.hub.attach(host)).await?;
        Ok(Arc::new(Line { wire: self.clone(), work, again: Mutex::default() }))
    }

    async fn end_session(&self, session: SessionId) -> Result<(), Refused> {
        self.call(Call::EndSession, self.network.hub.end_session(session)).await
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
