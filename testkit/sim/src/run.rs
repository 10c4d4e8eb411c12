//! One run: a store, hosts, clients and chaos, from one seed, until everything has finished and was checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dauer_audit::{Evidence, Snapshot, collect};
use dauer_memory::ManualClock;
use dauer_store::{Env, HubName, Manage, Timestamp};
use futures::FutureExt;
use futures::future::{join, join_all, select};

use crate::apart;
use crate::cases::Case;
use crate::chaos::{Chaos, STORE_SKEW_MAX};
use crate::check::Check;
use crate::churn::{self, Churn};
use crate::clients::Clients;
use crate::config::Config;
use crate::env::SimEnv;
use crate::executor::{BEGINNING, Executor, Owner, Progress};
use crate::faults::{Plan, STREAMS, Swarm};
use crate::history::ClientHistory;
use crate::hosts::{self, Hosts, Registries};
use crate::interpret::{self, Effects};
use crate::journal::Journal;
use crate::killers;
use crate::kinds::Kind;
use crate::liveness::{self, RECOVERY_MAX};
use crate::lookout::Lookout;
use crate::model;
use crate::operator::Operator;
use crate::outcome::{Outcome, Statistics};
use crate::random::Random;
use crate::stores::Stores;
use crate::trace::{Trace, hash};
use crate::unpoisoned;
use crate::wire::{Network, Wire};

/// How often tasks may run without time going on. Nothing real needs a hundredth of it: something spins.
const POLLS_AT_ONE_TIME_MAX: u64 = 200_000;

/// How many commits a run may have: many times what its programs need. Without a limit a hub that takes one turn after the
/// other would do so until its time is over, on a history that grows.
const COMMITS_MAX: usize = 5_000;
const COMMITS_PER_ACTION_MAX: usize = 10;

/// How long an action takes at most when nothing fails, one after the other: activities sleep, and retries rest between them.
const ACTION_MAX: Duration = Duration::from_secs(1);

/// How wrong the clients' clock is at most, either way, in milliseconds.
const CLIENT_SKEW_MAX_MS: u64 = 20_000;

/// How many of ten thousand seeds have an instance that nobody can run.
const POISONED: u32 = 5_000;

/// Everything of one run.
struct World {
    seed: u64,
    executor: Executor,
    stores: Stores,
    plan: Arc<Plan>,
    network: Arc<Network>,
    journal: Arc<Journal>,
    hosts: Arc<Hosts>,
    clients: Arc<Clients>,
    churn: Option<Arc<Churn>>,
    cases: Vec<Case>,
    /// Whether the operator looks around, and whether there is something to end by force.
    operator: (bool, bool),
    effects: Effects,
    registries: Registries,
    finished: Arc<AtomicBool>,
    swarm: Swarm,
    lease: Duration,
    host_count: usize,
}

/// Runs one seed.
#[must_use]
pub fn run(seed: u64, config: &Config) -> Outcome {
    #[cfg(feature = "planted")]
    let _planted = dauer_core::planted::plant(config.planted);
    if config.apart {
        return apart::run(seed, config);
    }
    let world = World::new(seed, config).with_churn(config);
    world.describe();
    world.spawn_all();
    let mut violations = Vec::new();
    let done = world.drive(&mut violations);
    let mut statistics = Statistics::default();
    match world.look() {
        Some(snapshot) => world.check(done, &snapshot, &mut statistics, &mut violations),
        None => violations.push("the store could not be dumped".into()),
    }
    world.count(&mut statistics);
    let trace = world.executor.trace();
    let outcome =
        Outcome { seed, trace_hash: trace.hash(), trace: trace.take_lines(), statistics, violations };
    world.executor.shut_down();
    if killers::is_in(seed, config) {
        return outcome.with(killers::run_world(seed, config.trace));
    }
    outcome
}

/// The cases of a seed, without those that are left out.
fn cases(seed: u64, config: &Config) -> Vec<Case> {
    let drawn = Case::draw(seed).into_iter().enumerate();
    let left = drawn.filter(|(number, _)| !config.without_cases.contains(number));
    let steps = |number: usize| -> Vec<usize> {
        config.without_steps.iter().filter(|(case, _)| *case == number).map(|(_, step)| *step).collect()
    };
    left.map(|(number, case)| case.without(&steps(number))).collect()
}

/// The way to one hub, with whether hosts forget the revision of their fence, and whether the journal keeps ended runs.
pub(crate) fn network(
    (stores, name): (&Stores, HubName),
    plan: &Arc<Plan>,
    executor: &Executor,
    (without_revision, with_ends): (bool, bool),
) -> Arc<Network> {
    let raw: Arc<dyn Manage> = stores.raw.hub(name.clone());
    let hub = stores.disturbed.hub(name.clone());
    let of_hosts = stores.clone();
    let open = Box::new(move || of_hosts.of_host().hub(name.clone()));
    let history = Arc::<ClientHistory>::default();
    let journal = Journal::new(Arc::clone(&raw), executor.clone(), Arc::clone(&history));
    let journal = Arc::new(if with_ends { journal.with_ends() } else { journal });
    Arc::new(Network {
        hub,
        open,
        raw,
        executor: executor.clone(),
        plan: Arc::clone(plan),
        journal,
        history,
        told: Default::default(),
        stalled: Default::default(),
        opened: Default::default(),
        without_revision,
        deleted: Default::default(),
    })
}

impl World {
    fn new(seed: u64, config: &Config) -> Self {
        let mut random = Random::stream(seed, 1);
        let swarm = Swarm::draw(&mut random).with_streams(&mut Random::stream(seed, STREAMS));
        let swarm = if config.calm { Swarm::calm() } else { swarm.without(&config.without) };
        let options = hosts::draw_options(&mut random);
        let lease = options.lease;
        let poisoned = random.chance(POISONED);
        let skew_ms = random.below(2 * CLIENT_SKEW_MAX_MS).cast_signed() - CLIENT_SKEW_MAX_MS.cast_signed();
        let cases = cases(seed, config);
        let clock = Arc::new(ManualClock::new(BEGINNING));
        let trace = Arc::new(Trace::new(config.trace));
        let executor = Executor::new(Arc::clone(&clock), trace, Random::stream(seed, 2));
        let plan = Arc::new(Plan::new(swarm.clone(), Random::stream(seed, 3), executor.clone()));
        let env = Arc::new(SimEnv::new(executor.clone(), Owner::OUTSIDE, Random::stream(seed, 4)));
        if swarm.has(Kind::ClientClock) {
            env.set_skew_ms(skew_ms);
            plan.hit(Kind::ClientClock);
        }
        let stores = Stores::new((seed, config), clock, &plan, Arc::clone(&env) as Arc<dyn Env>);
        let without_revision = config.without_revision();
        let of_hub = (&stores, HubName::default());
        let network = network(of_hub, &plan, &executor, (without_revision, false));
        let journal = Arc::clone(&network.journal);
        let effects = Effects::default();
        let (Ok(old), Ok(modern)) =
            (interpret::registry(&effects, false), interpret::registry(&effects, true))
        else {
            unreachable!("the names are valid and differ")
        };
        let registries = Registries { old, modern };
        let code = (registries.clone(), Arc::clone(&effects), Arc::default());
        let upgrades = swarm.has(Kind::Upgrade);
        let hosts = Arc::new(Hosts::new(Arc::clone(&network), seed, options, code, upgrades));
        let clients = Arc::new(Clients {
            hub: Wire::new(Arc::clone(&network), Owner::OUTSIDE).hub(),
            env,
            plan: Arc::clone(&plan),
            journal: Default::default(),
            ended: Default::default(),
            purged: Default::default(),
            revived: Default::default(),
            violations: Default::default(),
            seed,
        });
        let (operator, host_count) =
            ((!config.without_operator, !config.without_operator && poisoned), config.hosts());
        Self {
            seed,
            executor,
            stores,
            plan,
            network,
            journal,
            hosts,
            clients,
            churn: None,
            cases,
            operator,
            effects,
            registries,
            finished: Arc::default(),
            swarm,
            lease,
            host_count,
        }
    }

    /// With the hub whose instances come and go, where the seed has it.
    fn with_churn(self, config: &Config) -> Self {
        let churn = (churn::is_churning(self.seed) && !config.without_churn).then(|| {
            Arc::new(Churn {
                seed: self.seed,
                executor: self.executor.clone(),
                stores: self.stores.clone(),
                plan: Arc::clone(&self.plan),
                swarm: self.swarm.clone(),
                registries: self.registries.clone(),
                effects: Arc::clone(&self.effects),
                without_revision: config.without_revision(),
                seasons: Default::default(),
                deleted: AtomicU64::new(0),
            })
        });
        Self { churn, ..self }
    }

    /// Says first what may come out: what comes after cannot change it.
    fn describe(&self) {
        let note = |numbers: &[u64], text: &dyn Fn() -> String| {
            self.executor.trace().note(self.executor.now(), numbers, text);
        };
        note(&[10], &|| format!("faults: {:?}, until {:?}", self.swarm.rates, self.swarm.chaos));
        for case in &self.cases {
            note(&[11], &|| format!("case: {case:?}"));
            for (id, member) in case.program.family(&case.id) {
                let ending = model::ending(member, case.ends_modern(), case.terminated);
                note(&[12, hash(id.as_str().as_bytes()), ending.count()], &|| format!("{id}: {ending}"));
            }
        }
    }

    fn look(&self) -> Option<Snapshot> {
        collect(&*self.network.raw).now_or_never()?.ok()
    }

    fn spawn_all(&self) {
        for place in 0..self.host_count {
            self.executor.spawn(Owner::OUTSIDE, Arc::clone(&self.hosts).supervise(place).boxed());
        }
        let chaos = Chaos {
            swarm: self.swarm.clone(),
            store: self.stores.raw.clone(),
            hosts: Arc::clone(&self.hosts),
            executor: self.executor.clone(),
            plan: Arc::clone(&self.plan),
            pause_max: self.lease * 3,
        };
        self.executor.spawn(Owner::OUTSIDE, chaos.run(Random::stream(self.seed, 5)).boxed());
        let serving = self.cases.iter().map(|case| Arc::clone(&self.clients).serve(case.clone()));
        let serving = join_all(serving);
        let (clients, journal) = (Arc::clone(&self.clients), Arc::clone(&self.journal));
        let operator = Operator {
            clients,
            journal,
            store: Wire::new(Arc::clone(&self.network), Owner::OUTSIDE)
                .store(Arc::clone(&self.stores.disturbed)),
            name: HubName::default(),
            seen: AtomicBool::new(false),
            ids: self.cases.iter().map(|case| case.id.clone()).collect(),
        };
        let (looks, poisoned) = self.operator;
        let (around, poison) = (Random::stream(self.seed, 8), Random::stream(self.seed, 9));
        let (executor, plan, hosts) =
            (self.executor.clone(), Arc::clone(&self.plan), Arc::clone(&self.hosts));
        let (network, finished) = (Arc::clone(&self.network), Arc::clone(&self.finished));
        let churn = self.churn.clone();
        let course = async move {
            let ended = async {
                if poisoned {
                    operator.poison(poison).await;
                }
            };
            let churning = async {
                if let Some(churn) = churn {
                    churn.run().await;
                }
            };
            let work = join(join(serving, ended), churning);
            if looks {
                select(work.boxed(), operator.look_around(around).boxed()).await;
            } else {
                work.await;
            }
            plan.heal();
            hosts.resume_all();
            let mut lookout = Lookout::new(&network, &hosts);
            loop {
                if let Some(Ok(snapshot)) = collect(&*network.raw).now_or_never() {
                    if liveness::is_drained(&snapshot) {
                        break;
                    }
                    lookout.look(snapshot).await;
                }
                executor.sleep_until(executor.now().after(Duration::from_secs(1))).await;
            }
            finished.store(true, Ordering::Relaxed);
        };
        self.executor.spawn(Owner::OUTSIDE, course.boxed());
    }

    /// Lets everything happen. True when it came to an end in time.
    fn drive(&self, violations: &mut Vec<String>) -> bool {
        let needs = |case: &Case| {
            let actions = u32::try_from(case.program.actions()).unwrap_or(u32::MAX);
            let runs = if case.again.is_some() { 2 } else { 1 };
            (case.program.longest() + ACTION_MAX * actions) * runs
        };
        let programs: Duration = self.cases.iter().map(needs).max().unwrap_or_default();
        let churn = self.churn.as_ref().map_or(Duration::ZERO, |churn| churn::SEASON_MAX * churn.lives());
        let programs = programs.max(churn);
        let deadline = BEGINNING.after(self.swarm.chaos + STORE_SKEW_MAX + programs + RECOVERY_MAX);
        let in_time = self.until(deadline, violations, || self.finished.load(Ordering::Relaxed));
        // Also the way out is real: hosts drain and detach.
        self.hosts.close();
        self.churn.iter().for_each(|churn| churn.close());
        let deadline = self.executor.now().after(RECOVERY_MAX);
        let gone = || {
            (0..self.host_count).all(|place| self.hosts.owner(place).is_none())
                && self.churn.as_ref().is_none_or(|churn| churn.is_gone())
        };
        let left = in_time && self.until(deadline, violations, gone);
        if in_time && !left {
            violations.push("L1: a host that was asked to stop did not leave".into());
        }
        if !in_time {
            violations.push("L1: not everything had finished in time".into());
        }
        in_time
    }

    fn until(&self, deadline: Timestamp, violations: &mut Vec<String>, done: impl Fn() -> bool) -> bool {
        let actions: usize = self.cases.iter().map(|case| case.program.actions()).sum();
        let commits_max = COMMITS_MAX + COMMITS_PER_ACTION_MAX * actions;
        while !done() {
            if self.executor.polls_at_this_time() > POLLS_AT_ONE_TIME_MAX {
                violations.push("something spins: time stands still".into());
                return false;
            }
            if self.journal.commits() > commits_max {
                violations.push("something never comes to rest: turn follows upon turn".into());
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
            violations.extend(liveness::waits(snapshot).into_iter().map(|line| format!("waiting: {line}")));
        }
        violations.append(&mut unpoisoned(&self.clients.violations));
        violations.append(&mut unpoisoned(&self.hosts.refused));
        violations.append(&mut unpoisoned(&self.network.stalled));
        self.journal.check_end(snapshot, false);
        statistics.commits = self.journal.commits() as u64;
        let (commits, mut found) = self.journal.close();
        violations.append(&mut found);
        let (checked, found) = self.network.history.check();
        statistics.client_calls = checked;
        violations.extend(found);
        let client = std::mem::take(&mut *unpoisoned(&self.clients.journal));
        let (registry, effects) = (&self.registries.modern, &self.effects);
        let mut check = Check { snapshot, registry, effects, statistics, violations };
        check.audit(&Evidence { client: Some(&client), commits: Some(&commits) });
        if done {
            check.outcomes(&self.cases, &unpoisoned(&self.clients.ended));
            // The store's clock may be ahead of the one that the chaos goes by.
            check.replay(BEGINNING.after(self.swarm.chaos + STORE_SKEW_MAX));
            check.replay_replaced(&self.journal.replaced());
            violations.extend(liveness::left_over(snapshot));
        }
        if let Some(churn) = &self.churn {
            let healed = BEGINNING.after(self.swarm.chaos + STORE_SKEW_MAX);
            churn.check((done, healed), statistics, violations);
            statistics.churned = churn.churned();
        }
    }

    fn count(&self, statistics: &mut Statistics) {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let told = &self.network.told;
        statistics.seeds = 1;
        statistics.fused = of(&told.fused);
        statistics.arrived = of(&told.arrived);
        statistics.read = of(&told.read);
        statistics.met = of(&told.met);
        statistics.won = of(&told.won);
        statistics.named = of(&told.named);
        statistics.recalls = of(&told.recalls);
        statistics.recalled = of(&told.recalled);
        statistics.fenced = of(&told.fenced);
        statistics.fenced_commits = of(&told.fenced_commits);
        statistics.unknown = of(&told.unknown);
        statistics.unknown_commits = of(&told.unknown_commits);
        statistics.unknown_committed = of(&told.unknown_committed);
        statistics.poisoned = of(&told.poisoned);
        statistics.calls = of(&told.calls);
        statistics.crashes = of(&self.hosts.crashes);
        statistics.begun_again = self.journal.begun_again();
        let effects = unpoisoned(&self.effects);
        statistics.effects = effects.values().map(|count| u64::from(*count)).sum();
        statistics.effects_repeated = statistics.effects - effects.len() as u64;
        statistics.polls = self.executor.polls();
        statistics.duration = self.executor.now().since(BEGINNING);
        let endings = self.cases.iter().flat_map(|case| {
            let family = case.program.family(&case.id).into_iter();
            family.map(|(_, member)| model::ending(member, case.ends_modern(), case.terminated).count())
        });
        statistics.certain = endings.filter(|count| *count == 1).count() as u64;
        let (turns, actions) = unpoisoned(&self.hosts.actions).clone();
        statistics.turns = turns;
        let events = std::mem::take(&mut statistics.coverage.events);
        statistics.coverage = self.plan.coverage();
        statistics.coverage.events = events;
        statistics.coverage.actions = actions;
        statistics.coverage.statuses = self.journal.statuses();
    }
}
