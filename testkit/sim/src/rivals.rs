//! Clients of a hub whose instances come and go: several of them start, replace, suspend, rewind, restart, terminate and
//! purge the same few ids at the same time, and send the same starts again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauer_audit::collect;
use dauer_core::identity;
use dauer_core::send::StartRequest;
use dauer_hub::{Client, ClientError};
use dauer_store::{
    Created, Env, ExecutionId, InstanceId, Manage, Purge, Query, Refused, Reuse, Status, Timestamp,
};
use futures::FutureExt;
use futures::future::join_all;

use crate::env::SimEnv;
use crate::errand::{ERRAND, Errand, GO, Tickets};
use crate::executor::Executor;
use crate::hosts::Hosts;
use crate::liveness;
use crate::lookout::Lookout;
use crate::outcome::Churned;
use crate::random::Random;
use crate::unpoisoned;
use crate::wire::Network;

/// Clients that want the same id.
const CLIENTS: u64 = 2;

/// The fewest and the most things that a client does with its id.
const ACTS: (u64, u64) = (4, 14);

/// No client begins anything later than that after the first.
const BUSY_MAX: Duration = Duration::from_secs(30);

/// How long a client waits for an end before it does something else.
const PATIENCE: Duration = Duration::from_secs(4);

/// How many of ten thousand seasons end with equal starts that come so late that no store remembers the first ones.
const LATE: u32 = 1_500;

/// How late those are: longer than removed starts are remembered, and than the store's clock may stand still.
pub(crate) const LATE_AFTER: Duration = Duration::from_secs(200);

/// The time between two looks of the caretaker.
const CARE_EVERY: Duration = Duration::from_secs(1);

/// How many looks the caretaker gives an instance to end by itself, and lets pass between two terminations of it.
const CARE_PATIENCE: u64 = 5;

/// What the clients share.
pub(crate) struct Rivals {
    pub(crate) hub: Arc<dyn Manage>,
    pub(crate) network: Arc<Network>,
    pub(crate) executor: Executor,
    pub(crate) env: Arc<SimEnv>,
    pub(crate) tickets: Arc<Tickets>,
    /// The last start of each id that some client has sent.
    pub(crate) last: Mutex<BTreeMap<InstanceId, Wanted>>,
    /// The runs that acknowledged starts begin.
    pub(crate) promised: Mutex<BTreeSet<(InstanceId, ExecutionId)>>,
    pub(crate) counts: Counts,
}

/// A start as a client wants it. The same again is an equal start.
#[derive(Debug, Clone)]
pub(crate) struct Wanted {
    request: StartRequest,
    key: u128,
    label: u64,
}

/// How often clients did what.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) starts: AtomicU64,
    pub(crate) equal_starts: AtomicU64,
    pub(crate) repeats: AtomicU64,
    pub(crate) replacements: AtomicU64,
    pub(crate) rewinds: AtomicU64,
    pub(crate) restarts: AtomicU64,
    pub(crate) suspends: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counts {
    pub(crate) fn add_to(&self, churned: &mut Churned) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        churned.starts += of(&self.starts);
        churned.equal_starts += of(&self.equal_starts);
        churned.repeats += of(&self.repeats);
        churned.replacements += of(&self.replacements);
        churned.rewinds += of(&self.rewinds);
        churned.restarts += of(&self.restarts);
        churned.suspends += of(&self.suspends);
    }
}

impl Rivals {
    fn client(&self) -> Client {
        Client::new(Arc::clone(&self.hub), Arc::clone(&self.env) as Arc<dyn Env>)
    }

    async fn sleep(&self, duration: Duration) {
        self.env.sleep(duration).await;
    }

    /// Waits a little before the same is asked again.
    async fn rest(&self) {
        self.sleep(Duration::from_millis(self.env.random() % 500)).await;
    }

    /// All that clients do with these ids, and then the caretaker's work.
    pub(crate) async fn run(&self, ids: &[InstanceId], hosts: &Arc<Hosts>, random: &mut Random) {
        let until = self.executor.now().after(BUSY_MAX);
        let clients = ids.iter().flat_map(|id| (0..CLIENTS).map(move |_| id));
        let clients: Vec<_> = clients.map(|id| self.compete(id, until, Random::new(random.bits()))).collect();
        join_all(clients).await;
        if random.chance(LATE) {
            self.take_care(hosts).await;
            self.sleep(LATE_AFTER).await;
            for id in ids {
                self.begin_anew(id, random).await;
            }
        }
        self.take_care(hosts).await;
    }

    /// One client of one id.
    async fn compete(&self, id: &InstanceId, until: Timestamp, mut random: Random) {
        self.sleep(random.duration(Duration::from_secs(3))).await;
        let acts = random.between(ACTS.0, ACTS.1);
        for _ in 0..acts {
            if self.executor.now() > until {
                return;
            }
            self.act(id, &mut random).await;
            let pause = random.pick(&[0, 1, 10, 200, 3_000]);
            self.sleep(random.duration(Duration::from_millis(pause))).await;
        }
    }

    async fn act(&self, id: &InstanceId, random: &mut Random) {
        match random.below(16) {
            0..=2 => self.start(id, None, random).await,
            3..=5 => self.turn_over(id, random).await,
            6 | 14 => self.begin_anew(id, random).await,
            7 => self.purge(Purge::Ids(vec![id.clone()])).await,
            8 => {
                let query = Query { prefix: Some("c".into()), ..Query::default() };
                let budget = random.index(3) + 1;
                self.purge(Purge::Matching { query, budget }).await;
            }
            9 => {
                count(&self.counts.suspends);
                drop(self.client().suspend(id, None).await);
                self.sleep(random.duration(Duration::from_secs(2))).await;
                drop(self.client().resume(id, None).await);
            }
            10 => drop(self.client().terminate(id, None, random.chance(5_000)).await),
            11 => drop(self.client().raise(id, GO, Some("1".into())).await),
            12 => self.rewind(id).await,
            13 => self.restart(id).await,
            _ => self.sleep(random.duration(Duration::from_secs(1))).await,
        }
    }

    /// Waits for an end, removes the instance at once, and begins it again at once: the host that has ended it may not know
    /// yet that it has.
    async fn turn_over(&self, id: &InstanceId, random: &mut Random) {
        drop(self.client().wait_ended(id, PATIENCE).await);
        self.purge(Purge::Ids(vec![id.clone()])).await;
        self.start(id, None, random).await;
    }

    /// Ends a run, removes it and sends its start once more, while its activities may still run.
    async fn begin_anew(&self, id: &InstanceId, random: &mut Random) {
        drop(self.client().terminate(id, None, true).await);
        drop(self.client().wait_ended(id, PATIENCE).await);
        self.purge(Purge::Ids(vec![id.clone()])).await;
        let equal = unpoisoned(&self.last).get(id).cloned();
        self.start(id, equal, random).await;
    }

    async fn rewind(&self, id: &InstanceId) {
        let failed = self.client().wait_ended(id, PATIENCE).await;
        if failed.is_ok_and(|record| record.status == Status::Failed)
            && self.client().rewind(id, None).await.is_ok()
        {
            count(&self.counts.rewinds);
        }
    }

    async fn purge(&self, purge: Purge) {
        loop {
            match self.hub.purge(purge.clone()).await {
                Ok(purged) if purged.more => {}
                Err(Refused::Unknown(_) | Refused::NotExecuted(_)) => self.rest().await,
                _ => return,
            }
        }
    }

    async fn restart(&self, id: &InstanceId) {
        let client = self.client();
        drop(client.wait_ended(id, PATIENCE).await);
        if let Ok(created) = client.restart(id, None, client.random_key()).await {
            count(&self.counts.restarts);
            self.promise(id, created);
        }
    }

    /// Starts an errand: the given one, the last that some client has asked for, or another; over whatever the policy allows.
    async fn start(&self, id: &InstanceId, given: Option<Wanted>, random: &mut Random) {
        let last = || unpoisoned(&self.last).get(id).cloned();
        let known = given.or_else(|| if random.chance(3_000) { last() } else { None });
        let equal = known.is_some();
        let wanted = known.unwrap_or_else(|| {
            let errand = Errand::draw(random);
            let input = serde_json::to_string(&errand).ok();
            let request = StartRequest { input, ..StartRequest::new(id.clone(), ERRAND.name()) };
            let key = u128::from(random.bits()) << 64 | u128::from(random.bits());
            Wanted { request, key, label: errand.label }
        });
        unpoisoned(&self.last).insert(id.clone(), wanted.clone());
        count(if equal { &self.counts.equal_starts } else { &self.counts.starts });
        let replaceable = match random.below(3) {
            0 => Vec::new(),
            1 => Reuse::default().replaceable,
            _ => vec![
                Status::Pending,
                Status::Running,
                Status::Suspended,
                Status::Completed,
                Status::Failed,
                Status::Terminated,
            ],
        };
        self.create(id, wanted, Reuse { replaceable }).await;
    }

    /// Sends a start until it is known what became of it.
    async fn create(&self, id: &InstanceId, wanted: Wanted, reuse: Reuse) {
        let Wanted { request, key, label } = wanted;
        self.tickets.label(identity::requested(id, key), label);
        loop {
            match self.client().start_requested(request.clone(), reuse.clone(), key).await {
                Ok(created) => return self.promise(id, created),
                Err(ClientError::Refused(Refused::Unknown(_) | Refused::NotExecuted(_))) => self.rest().await,
                Err(_) => return,
            }
        }
    }

    fn promise(&self, id: &InstanceId, created: Created) {
        let execution = match created {
            Created::New(execution) => execution,
            Created::Replacing(execution) => {
                count(&self.counts.replacements);
                execution
            }
            Created::Repeat(execution) => {
                count(&self.counts.repeats);
                let Some(execution) = execution else { return };
                execution
            }
        };
        self.executor
            .trace()
            .note(self.executor.now(), &[14], || format!("{id}: a start was answered {created:?}"));
        unpoisoned(&self.promised).insert((id.clone(), execution));
    }

    /// Ends all that would not end by itself, until everything is at rest.
    async fn take_care(&self, hosts: &Arc<Hosts>) {
        let mut lookout = Lookout::new(&self.network, hosts);
        for look in 1_u64.. {
            if let Some(Ok(snapshot)) = collect(&*self.network.raw).now_or_never() {
                if liveness::is_drained(&snapshot) {
                    return;
                }
                for (id, dump) in &snapshot.instances {
                    if dump.record.status == Status::Suspended {
                        drop(self.client().resume(id, None).await);
                    }
                    // A pending one has to begin by itself: a client that terminates it would free it from a host that lost it.
                    let begun = !matches!(dump.record.status, Status::Pending);
                    if begun && !dump.record.status.is_ended() && look.is_multiple_of(CARE_PATIENCE) {
                        drop(self.client().terminate(id, None, true).await);
                    }
                }
                lookout.look(snapshot).await;
            }
            self.sleep(CARE_EVERY).await;
        }
    }

    /// L1: starts that were acknowledged, and of which no turn ever was.
    pub(crate) fn broken_promises(&self) -> Vec<String> {
        let promised = unpoisoned(&self.promised);
        let broken = promised.iter().filter(|(id, run)| !self.network.journal.has_run(id, *run));
        let text = |(id, run): &(InstanceId, ExecutionId)| {
            format!("L1 {id}: the start of execution {run} was acknowledged, and it never ran")
        };
        broken.map(text).collect()
    }
}
