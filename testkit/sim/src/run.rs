//! One run: a store, three hosts, clients and chaos, from one seed, until everything has finished and was checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dauer_audit::{Evidence, Snapshot, collect};
#[cfg(feature = "defects")]
use dauer_memory::Defect;
use dauer_memory::{ManualClock, MemoryStore};
use dauer_replay::Registry;
use dauer_store::{Env, HubName};
use futures::FutureExt;
use futures::future::join_all;

use crate::chaos::{Chaos, STORE_SKEW_MAX};
use crate::check::{self, Check};
use crate::clients::{Case, Clients};
use crate::env::SimEnv;
use crate::executor::{BEGINNING, Executor, Owner, Progress};
use crate::faults::{Plan, Swarm};
use crate::hosts::{self, HOSTS, Hosts};
use crate::interpret::{self, Effects};
use crate::journal::Journal;
use crate::outcome::{Outcome, Statistics};
use crate::random::Random;
use crate::trace::Trace;
use crate::unpoisoned;
use crate::wire::{Network, Wire};

/// How long, beyond what the programs sleep, everything may take after the chaos: leases and pauses run out, delayed
/// calls arrive, clocks that jumped are caught up with.
const RECOVERY_MAX: Duration = Duration::from_secs(240);

/// How often tasks may run without time going on. Nothing real needs a hundredth of it: something spins.
const POLLS_AT_ONE_TIME_MAX: u64 = 200_000;

/// How a run is made.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// Whether lines of the trace are kept.
    pub trace: bool,
    /// No faults at all, whatever the seed says.
    pub calm: bool,
    /// What the store does wrong.
    #[cfg(feature = "defects")]
    pub defect: Option<Defect>,
    /// Hosts forget the revision of their fence. Together with a store that does not compare epochs there is no fence.
    #[cfg(feature = "defects")]
    pub without_revision: bool,
}

impl Config {
    fn store(&self, clock: Arc<ManualClock>) -> MemoryStore {
        let store = MemoryStore::new(clock);
        #[cfg(feature = "defects")]
        if let Some(defect) = self.defect {
            return store.with_defect(defect);
        }
        store
    }

    fn without_revision(&self) -> bool {
        #[cfg(feature = "defects")]
        return self.without_revision;
        #[cfg(not(feature = "defects"))]
        false
    }
}

/// Everything of one run.
struct World {
    seed: u64,
    executor: Executor,
    store: MemoryStore,
    plan: Arc<Plan>,
    network: Arc<Network>,
    journal: Arc<Journal>,
    hosts: Arc<Hosts>,
    clients: Arc<Clients>,
    cases: Vec<Case>,
    effects: Effects,
    registry: Registry,
    expired: Arc<AtomicU64>,
    finished: Arc<AtomicBool>,
    swarm: Swarm,
    lease: Duration,
}

/// Runs one seed.
#[must_use]
pub fn run(seed: u64, config: &Config) -> Outcome {
    let world = World::new(seed, config);
    world.spawn_all();
    let mut violations = Vec::new();
    let done = world.drive(&mut violations);
    let mut statistics = Statistics::default();
    let snapshot = world.plan.silently(|| collect(&*world.network.hub).now_or_never());
    match snapshot {
        Some(Ok(snapshot)) => world.check(done, &snapshot, &mut statistics, &mut violations),
        _ => violations.push("the store could not be dumped".into()),
    }
    world.count(&mut statistics);
    let trace = world.executor.trace();
    let outcome =
        Outcome { seed, trace_hash: trace.hash(), trace: trace.take_lines(), statistics, violations };
    world.executor.shut_down();
    outcome
}

impl World {
    fn new(seed: u64, config: &Config) -> Self {
        let mut random = Random::stream(seed, 1);
        let swarm = if config.calm { Swarm::calm() } else { Swarm::draw(&mut random) };
        let options = hosts::draw_options(&mut random);
        let lease = options.lease;
        let clock = Arc::new(ManualClock::new(BEGINNING));
        let trace = Arc::new(Trace::new(config.trace));
        let executor = Executor::new(Arc::clone(&clock), trace, Random::stream(seed, 2));
        let store = config.store(clock);
        let plan = Arc::new(Plan::new(swarm.rates.clone(), Random::stream(seed, 3), executor.clone()));
        let env = Arc::new(SimEnv::new(executor.clone(), Owner::OUTSIDE, Random::stream(seed, 4)));
        store.set_env(Arc::clone(&env) as Arc<dyn Env>);
        store.set_faults(Arc::clone(&plan) as Arc<dyn dauer_memory::FaultPlan>);
        let hub = store.hub(HubName::default());
        let journal = Arc::new(Journal::new(Arc::clone(&hub), Arc::clone(&plan), executor.clone()));
        let network = Arc::new(Network {
            hub,
            executor: executor.clone(),
            plan: Arc::clone(&plan),
            journal: Arc::clone(&journal),
            told: Default::default(),
            stalled: Default::default(),
            opened: Default::default(),
            without_revision: config.without_revision(),
        });
        let effects = Effects::default();
        let Ok(registry) = interpret::registry(&effects) else {
            unreachable!("the two names are valid and differ")
        };
        let hosts = Arc::new(Hosts::new(Arc::clone(&network), seed, options, registry.clone()));
        let clients = Arc::new(Clients {
            hub: Arc::new(Wire::new(Arc::clone(&network), Owner::OUTSIDE)),
            env,
            journal: Default::default(),
            violations: Default::default(),
            seed,
        });
        let count = random.between(3, 8);
        let cases = Case::draw(&mut random, count);
        let (expired, finished) = Default::default();
        Self {
            seed,
            executor,
            store,
            plan,
            network,
            journal,
            hosts,
            clients,
            cases,
            effects,
            registry,
            expired,
            finished,
            swarm,
            lease,
        }
    }

    fn spawn_all(&self) {
        for place in 0..HOSTS {
            self.executor.spawn(Owner::OUTSIDE, Arc::clone(&self.hosts).supervise(place).boxed());
        }
        let chaos = Chaos {
            swarm: self.swarm.clone(),
            store: self.store.clone(),
            hosts: Arc::clone(&self.hosts),
            executor: self.executor.clone(),
            plan: Arc::clone(&self.plan),
            pause_max: self.lease * 3,
            expired: Arc::clone(&self.expired),
        };
        self.executor.spawn(Owner::OUTSIDE, chaos.run(Random::stream(self.seed, 5)).boxed());
        let serving = self.cases.iter().map(|case| Arc::clone(&self.clients).serve(case.clone()));
        let serving = join_all(serving);
        let (executor, plan, hosts) =
            (self.executor.clone(), Arc::clone(&self.plan), Arc::clone(&self.hosts));
        let (network, finished) = (Arc::clone(&self.network), Arc::clone(&self.finished));
        let course = async move {
            serving.await;
            plan.heal();
            hosts.resume_all();
            loop {
                let snapshot = plan.silently(|| collect(&*network.hub).now_or_never());
                if matches!(&snapshot, Some(Ok(snapshot)) if check::is_drained(snapshot)) {
                    break;
                }
                executor.sleep_until(executor.now().after(Duration::from_secs(1))).await;
            }
            finished.store(true, Ordering::Relaxed);
        };
        self.executor.spawn(Owner::OUTSIDE, course.boxed());
    }

    /// Lets everything happen. True when it came to an end in time.
    fn drive(&self, violations: &mut Vec<String>) -> bool {
        let programs: Duration =
            self.cases.iter().map(|case| case.program.longest()).max().unwrap_or_default();
        let deadline = BEGINNING.after(self.swarm.chaos + STORE_SKEW_MAX + programs + RECOVERY_MAX);
        let in_time = self.until(deadline, violations, || self.finished.load(Ordering::Relaxed));
        // Also the way out is real: hosts drain and detach.
        self.hosts.close();
        let deadline = self.executor.now().after(RECOVERY_MAX);
        let left =
            in_time && self.until(deadline, violations, || (0..HOSTS).all(|p| self.hosts.owner(p).is_none()));
        if in_time && !left {
            violations.push("L1: a host that was asked to stop did not leave".into());
        }
        if !in_time {
            violations.push("L1: not everything had finished in time".into());
        }
        in_time
    }

    fn until(
        &self,
        deadline: dauer_store::Timestamp,
        violations: &mut Vec<String>,
        done: impl Fn() -> bool,
    ) -> bool {
        while !done() {
            if self.executor.polls_at_this_time() > POLLS_AT_ONE_TIME_MAX {
                violations.push("something spins: time stands still".into());
                return false;
            }
            if self.executor.now() > deadline || self.executor.step() == Progress::Stuck {
                return false;
            }
        }
        true
    }

    fn check(
        &self,
        done: bool,
        snapshot: &Snapshot,
        statistics: &mut Statistics,
        violations: &mut Vec<String>,
    ) {
        if !done {
            violations.extend(check::waits(snapshot).into_iter().map(|line| format!("waiting: {line}")));
        }
        violations.append(&mut unpoisoned(&self.clients.violations));
        violations.append(&mut unpoisoned(&self.hosts.refused));
        violations.append(&mut unpoisoned(&self.network.stalled));
        self.journal.check_end(snapshot);
        statistics.commits = self.journal.commits() as u64;
        let (commits, mut found) = self.journal.close();
        violations.append(&mut found);
        let client = std::mem::take(&mut *unpoisoned(&self.clients.journal));
        let (registry, effects) = (&self.registry, &self.effects);
        let mut check = Check { snapshot, registry, effects, statistics, violations };
        check.audit(&Evidence { client: Some(&client), commits: Some(&commits) });
        if done {
            check.outcomes(&self.cases);
            check.replay();
            check.replay_replaced(&self.journal.replaced());
        }
    }

    fn count(&self, statistics: &mut Statistics) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (counts, told) = (&self.plan.counts, &self.network.told);
        statistics.seeds = 1;
        statistics.turns = of(&self.hosts.turns);
        statistics.fused = of(&told.fused);
        statistics.arrived = of(&told.arrived);
        statistics.met = of(&told.met);
        statistics.fenced = of(&told.fenced);
        statistics.unknown = of(&told.unknown);
        statistics.calls = of(&told.calls);
        statistics.crashes = of(&self.hosts.crashes);
        statistics.expired = of(&self.expired);
        statistics.duplicates = of(&counts.duplicated);
        statistics.delays = of(&counts.delayed);
        statistics.failures = of(&counts.failed);
        statistics.hints_lost = of(&counts.hints_lost);
        let effects = unpoisoned(&self.effects);
        statistics.effects = effects.values().map(|count| u64::from(*count)).sum();
        statistics.effects_repeated = statistics.effects - effects.len() as u64;
        statistics.polls = self.executor.polls();
        statistics.duration = self.executor.now().since(BEGINNING);
    }
}
