//! What all parts of a run share, and what happens to them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauer_audit::{Snapshot, collect};
use dauer_store::{InstanceId, Manage, TroubleKind};
use futures::FutureExt;
use futures::future::BoxFuture;

use super::code::Call;
use super::journal::Journal;
use super::process::Process;
use super::server::{Knife, Server, Streams, turn_name};
use super::settings::{Fault, RECONNECT_GRACE, Settings};
use crate::env::SimEnv;
use crate::executor::{Executor, Owner};
use crate::random::Random;
use crate::unpoisoned;

/// The longest that a server or worker is paused: shorter than any grace.
const PAUSED_MAX: Duration = Duration::from_secs(6);

/// The longest until an end of a cut stream notices.
const NOTICE_MAX_MS: u64 = 2_000;

/// Chance, and whether anything may still go wrong.
pub(super) struct Chance {
    random: Mutex<Random>,
    rates: BTreeMap<Fault, u32>,
    healed: AtomicBool,
}

impl Chance {
    pub(super) fn new(seed: u64, rates: BTreeMap<Fault, u32>) -> Self {
        Self { random: Mutex::new(Random::stream(seed, 301)), rates, healed: AtomicBool::new(false) }
    }

    pub(super) fn random<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        draw(&mut unpoisoned(&self.random))
    }

    pub(super) fn happens(&self, fault: Fault) -> bool {
        let rate = self.rates.get(&fault).copied().unwrap_or_default();
        !self.healed.load(Ordering::Relaxed) && rate > 0 && self.random(|random| random.chance(rate))
    }

    pub(super) fn heal(&self) {
        self.healed.store(true, Ordering::Relaxed);
    }
}

/// Everything of one run.
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) settings: Settings,
    pub(super) executor: Executor,
    pub(super) chance: Arc<Chance>,
    /// The hub itself.
    pub(super) raw: Arc<dyn Manage>,
    /// The hub behind the faults of its store.
    pub(super) hub: Arc<dyn Manage>,
    pub(super) env: Arc<SimEnv>,
    pub(super) journal: Journal,
    pub(super) streams: Streams,
    pub(super) servers: Mutex<BTreeMap<usize, Arc<Server>>>,
    pub(super) processes: Mutex<BTreeMap<usize, Arc<Process>>>,
    pub(super) owners: AtomicU32,
    pub(super) closing: AtomicBool,
    pub(super) finished: AtomicBool,
    pub(super) crashes: AtomicU32,
}

impl World {
    pub(super) fn note(&self, numbers: &[u64], text: impl FnOnce() -> String) {
        self.executor.trace().note(self.executor.now(), numbers, text);
    }

    pub(super) fn next_owner(&self) -> Owner {
        Owner(self.owners.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    pub(super) fn happens(&self, fault: Fault) -> bool {
        self.chance.happens(fault)
    }

    pub(super) fn random<T>(&self, draw: impl FnOnce(&mut Random) -> T) -> T {
        self.chance.random(draw)
    }

    pub(super) fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.executor.sleep_until(self.executor.now().after(duration))
    }

    /// A message takes a moment, and now and then longer.
    pub(super) async fn latency(&self, late_max_ms: u64) {
        let most = if self.happens(Fault::CallLate) { late_max_ms } else { 3 };
        let pause = self.random(|random| random.below(most));
        self.sleep(Duration::from_millis(pause)).await;
    }

    /// A server that a worker reaches.
    pub(super) fn reach(&self) -> Option<Arc<Server>> {
        let servers = unpoisoned(&self.servers);
        let open: Vec<_> = servers.values().filter(|server| server.is_open(self)).collect();
        if open.is_empty() {
            return None;
        }
        let at = self.random(|random| random.index(open.len()));
        open.get(at).map(|server| Arc::clone(server))
    }

    /// After how long a server notices that a worker is gone.
    pub(super) fn notice(&self, process: Owner) -> Duration {
        let processes = unpoisoned(&self.processes);
        let dead = processes.values().find(|other| other.owner == process);
        dead.map_or(Duration::ZERO, |process| Duration::from_millis(process.notice.load(Ordering::Relaxed)))
    }

    pub(super) fn server_died(&self, owner: Owner) {
        self.crashes.fetch_add(1, Ordering::Relaxed);
        self.journal.notes().server_ended(owner, self.executor.now());
    }

    /// Keeps a server at a place until the run closes.
    pub(super) async fn supervise_server(self: Arc<Self>, place: usize) {
        while !self.is_closing() {
            let (server, gone) = Server::start(&self, place);
            let owner = server.owner;
            unpoisoned(&self.servers).insert(place, server);
            let stopped = gone.await.is_ok();
            if stopped {
                self.journal.notes().server_ended(owner, self.executor.now());
            }
            self.note(&[40, u64::from(owner.0)], || {
                format!("server {} is gone, stopped: {stopped}", owner.0)
            });
            unpoisoned(&self.servers).remove(&place);
            self.executor.kill(owner);
            if !stopped && self.happens(Fault::ServerProven) {
                self.prove(place, owner).await;
            }
            let absence = self.settings.absence;
            let absence = self.random(|random| random.duration(absence));
            self.sleep(absence).await;
        }
    }

    /// Ends the sessions of a server that is dead.
    async fn prove(&self, place: usize, owner: Owner) {
        let host = format!("server-{place}-{}", owner.0);
        let Some(Ok(snapshot)) = collect(&*self.raw).now_or_never() else { return };
        for session in snapshot.sessions.values().filter(|session| session.host.as_str() == host) {
            // Otherwise its lease runs out.
            let _ = self.raw.end_session(session.id).await;
        }
    }

    /// Keeps a worker at a place until the run closes.
    pub(super) async fn supervise_worker(self: Arc<Self>, place: usize) {
        let Some(kind) = self.settings.workers.get(place).copied() else { return };
        while !self.is_closing() {
            let (process, gone) = Process::start(&self, kind);
            let owner = process.owner;
            unpoisoned(&self.processes).insert(place, process);
            // It never stops by itself before the end.
            let _ = gone.await;
            self.note(&[41, u64::from(owner.0)], || format!("worker {} is gone", owner.0));
            self.journal.notes().died(owner, self.executor.now());
            self.executor.kill(owner);
            let absence = self.settings.absence;
            let absence = self.random(|random| random.duration(absence));
            self.sleep(absence).await;
        }
    }

    /// What happens from time to time, until everything heals.
    pub(super) async fn disturb(self: Arc<Self>) {
        let deeds: Vec<Fault> = self.settings.rates.keys().copied().filter(|fault| fault.is_deed()).collect();
        let until = self.executor.now().after(self.settings.chaos);
        let (mut kills, mut cuts) = (self.settings.kills_max, self.settings.cuts_max);
        while self.executor.now() < until && !deeds.is_empty() {
            let most = self.settings.deed_pause;
            let pause = self.random(|random| random.duration(most));
            self.sleep(pause).await;
            let deed = self.random(|random| random.pick(&deeds));
            match deed {
                Fault::WorkerKilled if kills > 0 => kills -= u32::from(self.kill_worker()),
                Fault::StreamCut if cuts > 0 => cuts -= u32::from(self.cut(None)),
                Fault::WorkerPaused => self.pause_worker(),
                Fault::ServerKilled | Fault::ServerStopped | Fault::ServerPaused => self.end_server(deed),
                _ => {}
            }
        }
        self.sleep_until_chaos_ends(until).await;
        self.chance.heal();
        self.note(&[42], || "nothing goes wrong any more".into());
    }

    async fn sleep_until_chaos_ends(&self, until: dauer_store::Timestamp) {
        self.executor.sleep_until(until).await;
    }

    fn some_server(&self) -> Option<Arc<Server>> {
        let servers: Vec<_> = unpoisoned(&self.servers).values().cloned().collect();
        let at = self.random(|random| random.index(servers.len().max(1)));
        servers.get(at).cloned()
    }

    fn some_process(&self) -> Option<Arc<Process>> {
        let processes: Vec<_> = unpoisoned(&self.processes).values().cloned().collect();
        let at = self.random(|random| random.index(processes.len().max(1)));
        processes.get(at).cloned()
    }

    fn end_server(&self, deed: Fault) {
        let Some(server) = self.some_server() else { return };
        self.note(&[43, deed as u64], || format!("{deed:?} {}", server.owner.0));
        match deed {
            Fault::ServerKilled => {
                self.server_died(server.owner);
                self.executor.kill(server.owner);
            }
            Fault::ServerStopped => server.stop(),
            _ => self.pause(server.owner),
        }
    }

    fn kill_worker(&self) -> bool {
        let Some(process) = self.some_process() else { return false };
        if !self.executor.is_alive(process.owner) {
            return false;
        }
        self.note(&[44], || format!("worker {} is killed", process.owner.0));
        process.notice.store(self.random(|random| random.below(NOTICE_MAX_MS)), Ordering::Relaxed);
        self.journal.notes().died(process.owner, self.executor.now());
        self.executor.kill(process.owner);
        true
    }

    fn pause_worker(&self) {
        if let Some(process) = self.some_process() {
            self.pause(process.owner);
        }
    }

    fn pause(&self, owner: Owner) {
        let most = PAUSED_MAX.min(RECONNECT_GRACE / 2);
        let pause = self.random(|random| random.duration(most));
        self.note(&[45, u64::from(owner.0)], || format!("{} is paused for {pause:?}", owner.0));
        // What kills a paused worker may do so after its trial.
        self.journal.notes().excused += 1;
        self.executor.stop(owner);
        let (executor, until) = (self.executor.clone(), self.sleep(pause));
        let resumes = async move {
            until.await;
            executor.resume(owner);
        };
        self.executor.spawn(Owner::OUTSIDE, resumes.boxed());
    }

    /// Cuts a stream: that one, or any. Each end notices in its own time.
    pub(super) fn cut(&self, stream: Option<u64>) -> bool {
        let mut knives = unpoisoned(&self.streams.knives);
        let streams: Vec<u64> = knives.keys().copied().collect();
        let any = || streams.get(self.random(|random| random.index(streams.len().max(1)))).copied();
        let Some((id, knife)) = stream.or_else(any).and_then(|id| knives.remove_entry(&id)) else {
            return false;
        };
        drop(knives);
        let Knife { process, server, server_end, worker_end, is_cut } = knife;
        self.note(&[46, id], || format!("stream {id} between {} and {} is cut", process.0, server.0));
        is_cut.store(true, Ordering::Relaxed);
        let (lives, now) = (self.executor.is_alive(server), self.executor.now());
        self.journal.notes().ended(process, id, (now, lives));
        for end in [server_end, worker_end] {
            let later = self.sleep(Duration::from_millis(self.random(|random| random.below(NOTICE_MAX_MS))));
            let tells = async move {
                later.await;
                // That end may be gone.
                let _ = end.send(());
            };
            self.executor.spawn(Owner::OUTSIDE, tells.boxed());
        }
        true
    }

    pub(super) fn snapshot(&self) -> Option<Snapshot> {
        collect(&*self.raw).now_or_never()?.ok()
    }

    /// No item has more deaths than its workers, and no healthy one is taken for what kills them.
    pub(super) fn look(&self) {
        let Some(snapshot) = self.snapshot() else { return };
        let mut notes = self.journal.notes();
        for task in snapshot.tasks.values() {
            if let Some(key) = key_of(task) {
                notes.check_deaths(&key, task.deaths.workers);
            }
        }
        for (id, instance) in &snapshot.instances {
            let record = &instance.record;
            let (execution, past) = (record.execution.to_string(), record.history_len as usize);
            notes.check_deaths(&turn_name(id.as_str(), &execution, past), record.deaths.workers);
            let trouble = record.trouble.as_ref().filter(|trouble| {
                trouble.kind != TroubleKind::UnknownName
                    && !(trouble.kind == TroubleKind::HostDied && id.as_str().starts_with("poison"))
            });
            if let Some(trouble) = trouble {
                let text = format!("healthy: {id} is stalled: {:?}: {}", trouble.kind, trouble.reason);
                if !notes.violations.contains(&text) {
                    notes.violations.push(text);
                }
            }
        }
    }

    /// A worker begins an activity. One of a run that is over counts for nothing: servers learn of the end in their own time.
    pub(super) fn begins(&self, key: &str, process: Owner) {
        let snapshot = self.snapshot().unwrap_or_default();
        let task = snapshot.tasks.values().find(|task| key_of(task).as_deref() == Some(key));
        let is_over = task.is_some_and(|task| task.withdrawn);
        self.journal.notes().begins(&key.to_owned(), process, (self.executor.now(), is_over));
    }

    /// A worker was told that its answer is taken: its task is not open any more.
    pub(super) fn check_taken(&self, key: &str) {
        let Some(snapshot) = self.snapshot() else { return };
        let open =
            snapshot.tasks.values().find(|task| !task.withdrawn && key_of(task).as_deref() == Some(key));
        if let Some(task) = open {
            let instance = &task.task.instance;
            self.journal.complain(format!(
                "taken: the answer of {key} was taken, and its task of {instance} is open"
            ));
        }
    }

    pub(super) fn id(name: &str) -> InstanceId {
        let Ok(id) = InstanceId::new(name) else {
            unreachable!("short, not empty, without control characters")
        };
        id
    }
}

/// The key of the call that a task is.
fn key_of(task: &dauer_store::TaskDump) -> Option<String> {
    let event = task.task.event.event().ok()?;
    let Some(dauer_proto::EventType::TaskScheduled(scheduled)) = event.event_type else { return None };
    serde_json::from_str::<Call>(scheduled.input.as_deref()?).ok().map(|call| call.key)
}
