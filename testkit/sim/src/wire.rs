//! What lies between a host or client and the store: calls take a moment, hosts die at their edges, requests arrive once
//! more when nobody expects them, and what clients are told is written down.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use dauer_faults::{Answer, Call, Destination, Interceptor, Op, wrap_hub, wrap_store};
use dauer_store::{
    Cause, Checkpoint, Credit, Fence, InstanceId, Manage, Message, MessageId, Purge, Recalled, Refused,
    SessionId, Store, Work,
};
use futures::FutureExt;

use crate::executor::{Executor, Owner, give_way};
use crate::faults::{Edge, Plan};
use crate::history::{ClientHistory, What};
use crate::journal::Journal;
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
    /// Mail that was read for an instance while results began its next turn.
    pub(crate) met: AtomicU64,
    /// Turns and tasks that `next` has returned.
    pub(crate) won: AtomicU64,
    /// Kept instances that `next` has named because messages wait for them.
    pub(crate) named: AtomicU64,
    /// Recalls that were answered.
    pub(crate) recalls: AtomicU64,
    /// Turns and tasks that they returned.
    pub(crate) recalled: AtomicU64,
    /// Turns of the poisoned instance that somebody tried in vain.
    pub(crate) poisoned: AtomicU64,
}

/// What all wires of a run share.
pub(crate) struct Network {
    /// The hub behind the faults.
    pub(crate) hub: Arc<dyn Manage>,
    /// The hub behind the faults, for one more host: on the handle of all, or on one of its own.
    pub(crate) open: Box<dyn Fn() -> Arc<dyn Manage> + Send + Sync>,
    /// The hub itself: what the simulator looks at disturbs nothing, and is not disturbed.
    pub(crate) raw: Arc<dyn Manage>,
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
    pub(crate) fn arrives(&self, op: Op) -> bool {
        !self.deleted.load(Ordering::Relaxed) || !matches!(op, Op::Send | Op::Amend | Op::Purge)
    }
}

/// The mail that was read last for each kept instance of a session.
type LastMail = BTreeMap<(SessionId, InstanceId), (Fence, Vec<MessageId>)>;

/// One owner's way to the store.
#[derive(Clone)]
pub(crate) struct Wire {
    pub(crate) network: Arc<Network>,
    pub(crate) owner: Owner,
    /// Whether the code of the host lacks what others have: it cannot run their instances.
    pub(crate) old: bool,
    pub(crate) mail: Arc<Mutex<LastMail>>,
}

impl Wire {
    pub(crate) fn new(network: Arc<Network>, owner: Owner) -> Self {
        Self { network, owner, old: false, mail: Arc::default() }
    }

    /// The way of a host whose code is old.
    pub(crate) fn old(self, old: bool) -> Self {
        Self { old, ..self }
    }

    /// The hub at the end of this way.
    pub(crate) fn hub(self) -> Arc<dyn Manage> {
        wrap_hub(Arc::clone(&self.network.hub), Arc::new(self))
    }

    /// The hub at the end of the way of a host.
    pub(crate) fn hub_of_host(self) -> Arc<dyn Manage> {
        wrap_hub((self.network.open)(), Arc::new(self))
    }

    /// A store at the end of this way.
    pub(crate) fn store(self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        wrap_store(store, Arc::new(self))
    }

    /// Perhaps has the same request arrive once more, after a while and whoever died meanwhile. One that was refused as
    /// not executed never arrives: that is what its caller was told.
    fn echo(&self, call: Call, answer: &Answer, to: &Destination<'_>) {
        let (network, op) = (&self.network, call.op());
        let refused = |refused: &Refused| matches!(refused, Refused::NotExecuted(_));
        if answer.results().into_iter().flatten().any(refused) {
            return;
        }
        let Some(delay) = network.plan.echo(op) else { return };
        let (executor, wire, to) = (network.executor.clone(), self.clone(), to.to_owned());
        let later = async move {
            executor.sleep_until(executor.now().after(delay)).await;
            if wire.network.arrives(op) {
                executor.trace().note(executor.now(), &[7, op as u64], || format!("{op} arrives once more"));
                drop(wire.carry_out(call, &to).await);
            }
        };
        network.executor.spawn(Owner::OUTSIDE, later.boxed());
    }

    fn meets(&self, op: Op, side: u64) -> Edge {
        let network = &self.network;
        let edge = network.plan.edge(op, side > 0, self.owner != Owner::OUTSIDE);
        let kind = match edge {
            Edge::Smooth => 0,
            Edge::GiveWay => 1,
            Edge::Crash => 2,
            Edge::Linger(millis) => 2 + millis,
        };
        let numbers = [2, u64::from(self.owner.0), op as u64, side, kind];
        network.executor.trace().note(network.executor.now(), &numbers, || {
            let side = ["sends", "has the answer of"][usize::from(side > 0)];
            format!("{} {side} {op}: {edge:?}", self.owner.0)
        });
        edge
    }

    /// The edge of a call: before it is sent, or after it was answered.
    async fn edge(&self, op: Op, side: u64) {
        let executor = &self.network.executor;
        match self.meets(op, side) {
            Edge::Smooth => {}
            Edge::GiveWay => give_way().await,
            Edge::Linger(millis) => {
                executor.sleep_until(executor.now().after(Duration::from_millis(millis))).await;
            }
            Edge::Crash => {
                executor.doom(self.owner);
                std::future::pending::<()>().await;
            }
        }
    }

    fn tell(&self, answer: &Answer) {
        let network = &self.network;
        for result in answer.results() {
            let (number, told) = match result {
                None => (0, None),
                Some(Refused::Fenced) => (1, Some(&network.told.fenced)),
                Some(Refused::Unknown(_)) => (2, Some(&network.told.unknown)),
                Some(_) => (3, None),
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

    /// Has the call carried out, and writes down what it changed.
    async fn carry_out(&self, call: Call, to: &Destination<'_>) -> Answer {
        let journal = &self.network.journal;
        match &call {
            Call::Create { batch } => {
                let starts: Vec<Message> = batch.iter().map(|create| create.start.clone()).collect();
                journal.watch_openings(&starts, to.carry_out(call)).await
            }
            Call::Amend { checkpoint } => {
                let batch = [Arc::new(Checkpoint::clone(checkpoint))];
                let amended = async {
                    match to.carry_out(call).await {
                        Answer::Amend(answer) => vec![answer],
                        other => unreachable!("Amend was answered as {}", other.op()),
                    }
                };
                let answer = journal.watch(&batch, true, amended).await.pop();
                let lost = || Err(Refused::Unknown(Cause::new("the journal lost the answer")));
                Answer::Amend(answer.unwrap_or_else(lost))
            }
            Call::CommitTurns { batch } => self.commit(batch.clone(), to).await,
            Call::Purge { purge } => {
                let purge = purge.clone();
                let (answer, removed) = journal.watch_purge(&purge, to.carry_out(call)).await;
                self.doubt_purge(&answer, removed);
                answer
            }
            _ => to.carry_out(call).await,
        }
    }

    /// One that was delivered twice answers as the second time was.
    fn doubt_purge(&self, answer: &Answer, removed: usize) {
        if let Answer::Purge(Ok(purged)) = answer
            && purged.count > removed
        {
            let text = format!("a purge answered that it removed {}, and it removed {removed}", purged.count);
            unpoisoned(&self.network.stalled).push(text);
        }
    }

    /// Writes down what a client was told.
    fn note_client(&self, call: &Call, answer: &Answer, began: u64) {
        let history = &self.network.history;
        match (call, answer) {
            (Call::Create { batch }, Answer::Create(results)) => {
                for (create, result) in batch.iter().zip(results) {
                    history.created((&create.start.to, create.start.id), began, result);
                }
            }
            (Call::Send { batch }, Answer::Send(results)) => {
                for (message, result) in batch.iter().zip(results) {
                    if let Ok(delivered) = result {
                        history.answered(&message.to, began, What::Sent(*delivered));
                    }
                }
            }
            (Call::Get { ids }, Answer::Get(Ok(found))) => {
                for (id, found) in ids.iter().zip(found) {
                    history.saw(id, began, found.as_ref());
                }
            }
            (Call::Purge { purge: Purge::Ids(ids) }, Answer::Purge(Ok(purged)))
                if ids.len() == 1 && purged.count == 0 =>
            {
                history.answered(&ids[0], began, What::Kept);
            }
            _ => {}
        }
    }

    /// Counts what a session won, learned of and got back.
    fn count(&self, answer: &Answer) {
        let told = &self.network.told;
        let add = |counter: &AtomicU64, count: usize| counter.fetch_add(count as u64, Ordering::Relaxed);
        match answer {
            Answer::Next(Ok(next)) => {
                add(&told.won, next.turns.len() + next.tasks.len());
                add(&told.named, next.mail.len());
            }
            Answer::Recall(Ok(Recalled { turns, tasks })) => {
                add(&told.recalls, 1);
                add(&told.recalled, turns.len() + tasks.len());
            }
            _ => {}
        }
    }
}

#[async_trait]
impl Interceptor for Wire {
    async fn call(&self, call: Call, to: Destination<'_>) -> Answer {
        let (op, began) = (call.op(), self.network.history.moment());
        self.network.told.calls.fetch_add(1, Ordering::Relaxed);
        self.note_asked(&call);
        self.edge(op, 0).await;
        let answer = self.carry_out(call.clone(), &to).await;
        self.edge(op, 1).await;
        if matches!(op, Op::Create | Op::Send | Op::CommitTurns | Op::CompleteActivities) {
            self.tell(&answer);
        }
        self.note_client(&call, &answer, began);
        self.note_session(&call, &answer, &to);
        self.count(&answer);
        self.echo(call, &answer, &to);
        answer
    }

    fn credit(&self, credit: Credit, to: &Arc<dyn Work>) {
        self.network.told.calls.fetch_add(1, Ordering::Relaxed);
        if self.meets(Op::Credit, 0) == Edge::Crash {
            return self.network.executor.doom(self.owner);
        }
        to.credit(credit);
        if self.meets(Op::Credit, 1) == Edge::Crash {
            self.network.executor.doom(self.owner);
        }
    }
}
