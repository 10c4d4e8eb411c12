//! The hosts of a run: real ones, started, watched and started again.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauer::LocalExecutor;
use dauer_hub::{Executor as _, Host, HostOptions, Inspection, Inspector, TroublePolicy};
use dauer_replay::Registry;
use dauer_store::{Env, HostId, SessionId};
use futures::channel::oneshot;
use futures::future::{Either, FutureExt, select};

use crate::code::{Actions, Code, with_foreign};
use crate::elsewhere::{Elsewhere, is_elsewhere};
use crate::env::SimEnv;
use crate::errand::Tickets;
use crate::executor::Owner;
use crate::interpret::Effects;
use crate::random::Random;
use crate::unpoisoned;
use crate::wire::{Network, Wire};

/// How many hosts a hub has.
pub const HOSTS: usize = 3;

/// The longest a dead host is missed during the chaos.
const ABSENCE_MAX: Duration = Duration::from_secs(8);

/// How long a host may take to say what it holds: longer than any turn that it runs in its loop.
const INSPECT_MAX: Duration = Duration::from_secs(10);

/// A host that lives.
struct Living {
    owner: Owner,
    id: HostId,
    env: Arc<SimEnv>,
    modern: bool,
    stop: Option<oneshot::Sender<()>>,
    inspector: Inspector,
}

/// The code of all hosts: before an upgrade, and after it.
#[derive(Clone)]
pub(crate) struct Registries {
    pub(crate) old: Registry,
    pub(crate) modern: Registry,
}

/// All hosts of a run.
pub(crate) struct Hosts {
    network: Arc<Network>,
    seed: u64,
    options: HostOptions,
    registries: Registries,
    effects: Effects,
    tickets: Arc<Tickets>,
    replay_always: bool,
    /// Whether results go into the turns they are for.
    fuses: bool,
    places: Mutex<[Option<Living>; HOSTS]>,
    /// Which places have been upgraded.
    modern: Mutex<[bool; HOSTS]>,
    next_owner: AtomicU32,
    closing: AtomicBool,
    pub(crate) actions: Actions,
    pub(crate) crashes: AtomicU64,
    pub(crate) refused: Mutex<Vec<String>>,
}

/// The settings of a seed's hosts: small ones find what large ones hide.
pub(crate) fn draw_options(random: &mut Random) -> HostOptions {
    let lease = Duration::from_secs(random.pick(&[2, 5, 15]));
    HostOptions {
        lease,
        turns_max: random.pick(&[1, 3, 256]),
        activities_max: random.pick(&[1, 4, 256]),
        claim_bytes_max: random.pick(&[1, 8 * 1024 * 1024]),
        history_page_bytes: random.pick(&[1, 4 * 1024 * 1024]),
        cache_instances_max: random.pick(&[0, 1, 4_096]),
        poll_max: Duration::from_secs(random.pick(&[1, 5])),
        retry_delay_max: Duration::from_secs(5),
        stalled_delay_max: Duration::from_secs(5),
        // Hosts die here more often than in ten lives; giving up would be right, and no outcome of the model.
        task_attempts_max: u32::MAX,
        trouble: TroublePolicy::default(),
        // Hosts die often, and with one slot every survivor needs a trial: the bound of liveness leaves no time for the default.
        trial_quiet: lease / 20,
        trial_deaths_max: u32::MAX,
        drain_max: Duration::from_secs(random.pick(&[0, 10])),
        ..HostOptions::default()
    }
}

impl Hosts {
    /// No host yet. All of them will have the modern code, unless there is an upgrade to come.
    pub(crate) fn new(
        network: Arc<Network>,
        seed: u64,
        options: HostOptions,
        (registries, effects, tickets): (Registries, Effects, Arc<Tickets>),
        upgrades: bool,
    ) -> Self {
        Self {
            network,
            seed,
            options,
            registries,
            effects,
            tickets,
            modern: Mutex::new([!upgrades; HOSTS]),
            replay_always: Random::stream(seed, 6).chance(2_500),
            fuses: Random::stream(seed, 7).chance(7_500),
            places: Mutex::default(),
            next_owner: AtomicU32::new(1),
            closing: AtomicBool::new(false),
            actions: Actions::default(),
            crashes: AtomicU64::new(0),
            refused: Mutex::default(),
        }
    }

    /// The same hosts, with numbers from there on.
    pub(crate) fn numbered_from(self, first: u32) -> Self {
        Self { next_owner: AtomicU32::new(first), ..self }
    }

    /// Keeps one place occupied until the run closes.
    pub(crate) async fn supervise(self: Arc<Self>, place: usize) {
        let first = u64::from(self.next_owner.load(Ordering::Relaxed));
        let mut random = Random::stream(self.seed, 99 + first + place as u64);
        while !self.closing.load(Ordering::Relaxed) {
            let (owner, gone) = self.start(place, &mut random);
            let crashed = gone.await.is_err();
            unpoisoned(&self.places)[place] = None;
            self.network.executor.kill(owner);
            if crashed {
                self.crashes.fetch_add(1, Ordering::Relaxed);
                if random.chance(2_000) {
                    self.vouch_for_death(owner).await;
                }
            }
            let delay = random.duration(ABSENCE_MAX);
            self.network.executor.sleep_until(self.network.executor.now().after(delay)).await;
        }
    }

    /// A new host, with a new name, a new clock and new luck. The receiver ends when it is gone: with a value when it
    /// stopped by itself, without when it died.
    fn start(self: &Arc<Self>, place: usize, random: &mut Random) -> (Owner, oneshot::Receiver<()>) {
        let owner = Owner(self.next_owner.fetch_add(1, Ordering::Relaxed));
        let executor = &self.network.executor;
        executor.admit(owner);
        let env = Arc::new(SimEnv::new(
            executor.clone(),
            owner,
            Random::stream(self.seed, 1_000 + u64::from(owner.0)),
        ));
        if random.chance(3_000) {
            env.set_skew_ms(i64::try_from(random.below(120_000)).unwrap_or_default() - 60_000);
        }
        let Ok(id) = HostId::new(format!("h{place}-{}", owner.0)) else {
            unreachable!("short, not empty, without control characters")
        };
        let modern = unpoisoned(&self.modern)[place];
        let registry = if modern { &self.registries.modern } else { &self.registries.old };
        let local = LocalExecutor::new(registry.clone());
        let local = if self.replay_always { local.replay_always() } else { local };
        let code = Code {
            queues: with_foreign(local.queues()),
            local,
            env: Arc::clone(&env),
            plan: Arc::clone(&self.network.plan),
            journal: Arc::clone(&self.network.journal),
            effects: Arc::clone(&self.effects),
            tickets: Arc::clone(&self.tickets),
            pause_max: self.options.lease * 3,
            actions: Arc::clone(&self.actions),
            fuses: self.fuses,
        };
        let wire = Wire::new(Arc::clone(&self.network), owner).old(!modern).hub_of_host();
        let executor_of_code: Arc<dyn dauer_hub::Executor> = match is_elsewhere(self.seed) {
            true => Elsewhere::new(Code { fuses: false, ..code }, &self.network, random),
            false => Arc::new(code),
        };
        let host = Host::new(wire, Arc::clone(&env) as Arc<dyn Env>, executor_of_code, id.clone());
        let host = host.options(self.options.clone());
        let inspector = host.inspector();
        let (stop, stopped) = oneshot::channel::<()>();
        let (leave, gone) = oneshot::channel();
        let hosts = Arc::clone(self);
        let life = async move {
            if let Err(refused) = host.run(stopped.map(|_| ())).await {
                unpoisoned(&hosts.refused).push(format!("a host gave up: {refused}"));
            }
            // Nobody listens once the run is over.
            let _ = leave.send(());
        };
        executor.spawn(owner, life.boxed());
        unpoisoned(&self.places)[place] =
            Some(Living { owner, id, env, modern, stop: Some(stop), inspector });
        (owner, gone)
    }

    /// Tells the store that a host is dead, which is true: its sessions end before their leases do.
    async fn vouch_for_death(&self, owner: Owner) {
        let wire = Wire::new(Arc::clone(&self.network), Owner::OUTSIDE).hub();
        for session in self.network.sessions(owner) {
            // If the store does not take it, the lease runs out.
            let _ = wire.end_session(session).await;
        }
    }

    pub(crate) fn owner(&self, place: usize) -> Option<Owner> {
        unpoisoned(&self.places)[place].as_ref().map(|living| living.owner)
    }

    /// The lease of their sessions.
    pub(crate) fn lease(&self) -> Duration {
        self.options.lease
    }

    /// What the host of a session holds, by its own account; `None` when it is gone, or does not answer in time.
    pub(crate) async fn inspect(&self, session: SessionId) -> Option<Inspection> {
        let opened = unpoisoned(&self.network.opened).iter().find(|(_, of)| *of == session).copied();
        let (owner, _) = opened?;
        let inspector = unpoisoned(&self.places)
            .iter()
            .flatten()
            .find(|living| living.owner == owner)
            .map(|living| living.inspector.clone())?;
        let executor = &self.network.executor;
        let in_time = executor.sleep_until(executor.now().after(INSPECT_MAX));
        match select(inspector.inspect().boxed(), in_time).await {
            Either::Left((inspection, _)) => inspection.filter(|inspection| inspection.session == session),
            Either::Right(_) => None,
        }
    }

    pub(crate) fn id(&self, place: usize) -> Option<HostId> {
        unpoisoned(&self.places)[place].as_ref().map(|living| living.id.clone())
    }

    pub(crate) fn skew(&self, place: usize, skew_ms: i64) {
        if let Some(living) = &unpoisoned(&self.places)[place] {
            living.env.set_skew_ms(skew_ms);
        }
    }

    /// Asks a host to finish what it has and leave.
    pub(crate) fn ask_to_stop(&self, place: usize) {
        let stop = unpoisoned(&self.places)[place].as_mut().and_then(|living| living.stop.take());
        drop(stop);
    }

    /// Replaces the host of a place by one with the new code; false when it has it already.
    pub(crate) fn upgrade(&self, place: usize) -> bool {
        let old = !std::mem::replace(&mut unpoisoned(&self.modern)[place], true);
        if old && unpoisoned(&self.places)[place].as_ref().is_some_and(|living| !living.modern) {
            self.ask_to_stop(place);
        }
        old
    }

    /// All hosts go on that were stopped in the middle of something.
    pub(crate) fn resume_all(&self) {
        for place in 0..HOSTS {
            if let Some(owner) = self.owner(place) {
                self.network.executor.resume(owner);
            }
        }
    }

    /// From now on no host comes back, and all are asked to leave.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        (0..HOSTS).for_each(|place| self.ask_to_stop(place));
    }
}

impl Network {
    /// The sessions that an owner opened.
    fn sessions(&self, owner: Owner) -> Vec<SessionId> {
        unpoisoned(&self.opened).iter().filter(|(by, _)| *by == owner).map(|(_, session)| *session).collect()
    }
}
