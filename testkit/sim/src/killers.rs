//! Code that kills the process that runs it, beside code that does not; and power losses of all hosts at once.
//!
//! A world of its own: real hosts on a memory store, whose executor (`code`) kills its host where its input says so. It shows
//! what `docs/decisions/suspects-and-trials.md` promises:
//!
//! - poison that kills within the quiet time is recognised after a number of deaths that the slots bound, also beside other poison;
//! - a healthy item is never taken for poison, however long it runs beside killers;
//! - after two power losses with every slot in use, at least a quarter of the slots is in use again at once;
//! - what has no place is back in the store before a suspect begins, so that few items die that had not begun.

mod aboard;
mod code;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

#[cfg(feature = "planted")]
use dauer_core::planted::Bug;
use dauer_core::send::StartRequest;
use dauer_hub::{Client, Host, HostOptions};
use dauer_memory::{ManualClock, MemoryStore};
use dauer_store::{Env, HostId, HubName, InstanceId, Manage, Record, Reuse, Status, TroubleKind};
use futures::channel::oneshot;
use futures::future::FutureExt;

use self::aboard::{Aboard, Key, Way};
use self::code::{Deadly, KILLER, TURN, WORK, kills, takes};
use crate::config::Config;
use crate::env::SimEnv;
use crate::executor::{BEGINNING, Executor, Owner, Progress};
use crate::outcome::{Killed, Outcome, Statistics};
use crate::random::Random;
use crate::trace::Trace;
use crate::unpoisoned;

/// One seed in this many has killers.
const ONE_IN: u64 = 4;

/// One seed in this many of them has power losses instead.
const POWER_ONE_IN: u64 = 4;

/// The planted bugs that no other world shows.
#[cfg(feature = "planted")]
const ONLY_HERE: [Bug; 3] = [Bug::SurplusStays, Bug::TrialBesideOthers, Bug::PlainDeathsCount];

/// The stream of randomness of this world.
const STREAM: u64 = 60;

/// When everything must have ended: poison is recognised within minutes, and trials of the healthy take some more.
const END: Duration = Duration::from_secs(12 * 60 * 60);

/// How often tasks may run without time going on.
const POLLS_AT_ONE_TIME_MAX: u64 = 200_000;

/// How long what all hosts held may wait for its first claims after a power loss, beyond the lease.
const TAKE_OVER_MAX: Duration = Duration::from_secs(10);

/// How many suspects that had not begun may die with those that kill as they begin, beyond one for each: some are won while others
/// begin. In 1,500 seeds there were 31 with 11,438 deaths, in no seed more than deaths; with the planted bug up to 68 in a seed.
const UNBEGUN_MAX: u64 = 4;

/// Whether a seed has killers. All seeds do where a bug is planted that only they show.
pub(crate) fn is_in(seed: u64, config: &Config) -> bool {
    let has = seed % ONE_IN == 1;
    #[cfg(feature = "planted")]
    let has = has || config.planted.is_some_and(|bug| ONLY_HERE.contains(&bug));
    has && !config.calm && !config.without_killers
}

/// Runs the killers of a seed, whether it has them or not, and nothing else.
#[must_use]
pub fn run(seed: u64, config: &Config) -> Outcome {
    #[cfg(feature = "planted")]
    let _planted = dauer_core::planted::plant(config.planted);
    run_world(seed, config.trace)
}

pub(crate) fn run_world(seed: u64, traced: bool) -> Outcome {
    let world = Arc::new(World::new(seed, traced));
    let mut violations = Vec::new();
    world.spawn_all();
    if !world.drive() {
        violations.push("killers: not everything had ended in time".into());
    }
    world.check(&mut violations);
    violations.append(&mut unpoisoned(&world.aboard.violations));
    let trace = world.executor.trace();
    let (trace_hash, trace) = (trace.hash(), trace.take_lines());
    let statistics = Statistics { seeds: 1, killed: world.killed(), ..Statistics::default() };
    world.executor.shut_down();
    Outcome { seed, trace_hash, trace, statistics, violations }
}

/// An instance, and whether its code kills.
#[derive(Debug, Clone)]
struct Started {
    id: InstanceId,
    /// What of it kills, for poison.
    event: i32,
    name: &'static str,
    input: String,
    /// When it starts.
    after: Duration,
}

impl Started {
    fn key(&self) -> Key {
        (self.id.clone(), self.event)
    }
}

struct World {
    seed: u64,
    executor: Executor,
    raw: Arc<dyn Manage>,
    aboard: Arc<Aboard>,
    client: Client,
    options: HostOptions,
    hosts: usize,
    fuses: bool,
    poison: Vec<Started>,
    healthy: Vec<Started>,
    losses: AtomicU64,
    next_owner: AtomicU32,
    finished: AtomicBool,
}

fn id(text: String) -> InstanceId {
    let Ok(id) = InstanceId::new(text) else { unreachable!("short, not empty, without control characters") };
    id
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl World {
    fn new(seed: u64, traced: bool) -> Self {
        let mut random = Random::stream(seed, STREAM);
        let clock = Arc::new(ManualClock::new(BEGINNING));
        let trace = Arc::new(Trace::new(traced));
        let executor = Executor::new(Arc::clone(&clock), trace, Random::stream(seed, STREAM + 1));
        let store = MemoryStore::new(clock);
        let raw: Arc<dyn Manage> = store.hub(HubName::default());
        let env = SimEnv::new(executor.clone(), Owner::OUTSIDE, Random::stream(seed, STREAM + 2));
        let client = Client::new(Arc::clone(&raw), Arc::new(env));
        let power = random.bits().is_multiple_of(POWER_ONE_IN);
        let each = if power { random.pick(&[8, 16, 64]) } else { random.pick(&[1, 2, 4, 8, 32]) };
        let lease = Duration::from_secs(random.pick(&[2, 5]));
        let options = HostOptions {
            lease,
            turns_max: each,
            activities_max: each,
            poll_max: Duration::from_secs(random.pick(&[1, 5])),
            trial_quiet: Duration::from_secs(random.between(1, 4)),
            trial_deaths_max: u32::try_from(random.between(3, 7)).unwrap_or_default(),
            // Longer than the run: a turn that is recognised is not tried again here.
            poison_delay: END * 2,
            stalled_delay_max: Duration::from_secs(5),
            ..HostOptions::default()
        };
        let hosts = usize::try_from(random.between(1, 3)).unwrap_or(1);
        let fuses = random.chance(5_000);
        let (poison, healthy) = match power {
            true => (Vec::new(), long(hosts * each)),
            false => (draw_poison(&mut random, &options), draw_healthy(&mut random, &options)),
        };
        let failing = if random.chance(3_000) { 200 } else { 0 };
        let aboard = Arc::new(Aboard::new(executor.clone(), Arc::clone(&raw), failing));
        Self {
            seed,
            executor,
            raw,
            aboard,
            client,
            options,
            hosts,
            fuses,
            poison,
            healthy,
            losses: AtomicU64::new(0),
            next_owner: AtomicU32::new(1),
            finished: AtomicBool::new(false),
        }
    }

    fn slots(&self) -> usize {
        self.options.turns_max + self.options.activities_max
    }

    fn spawn_all(self: &Arc<Self>) {
        for place in 0..self.hosts {
            self.executor.spawn(Owner::OUTSIDE, Arc::clone(self).supervise(place).boxed());
        }
        for started in self.poison.iter().chain(&self.healthy) {
            let (world, started) = (Arc::clone(self), started.clone());
            let start = async move {
                world.sleep(started.after).await;
                let request = StartRequest {
                    input: Some(started.input),
                    ..StartRequest::new(started.id, started.name)
                };
                if let Err(error) = world.client.start(request, Reuse::default()).await {
                    unpoisoned(&world.aboard.violations).push(format!("killers: no start: {error}"));
                }
            };
            self.executor.spawn(Owner::OUTSIDE, start.boxed());
        }
        let world = Arc::clone(self);
        let course = async move {
            if world.poison.is_empty() {
                world.lose_power().await;
                world.lose_power().await;
                world.sleep(world.options.lease + TAKE_OVER_MAX).await;
                world.is_in_use_again();
            }
            while !world.has_ended().await {
                world.sleep(Duration::from_secs(5)).await;
            }
            world.finished.store(true, Ordering::Relaxed);
        };
        self.executor.spawn(Owner::OUTSIDE, course.boxed());
    }

    /// Keeps one place occupied, by one process after the other.
    async fn supervise(self: Arc<Self>, place: usize) {
        let mut random = Random::stream(self.seed, STREAM + 100 + place as u64);
        loop {
            let owner = Owner(self.next_owner.fetch_add(1, Ordering::Relaxed));
            self.executor.admit(owner);
            let gone = self.start(owner);
            // Never sent: the process has died.
            let _ = gone.await;
            self.aboard.dies(owner);
            self.executor.kill(owner);
            if random.chance(5_000) {
                for session in self.aboard.sessions(owner) {
                    // If the store does not take it, the lease runs out.
                    let _ = self.raw.end_session(session).await;
                }
            }
            self.sleep(random.duration(Duration::from_secs(2))).await;
        }
    }

    fn start(&self, owner: Owner) -> oneshot::Receiver<()> {
        let random = Random::stream(self.seed, STREAM + 1_000 + u64::from(owner.0));
        let env = Arc::new(SimEnv::new(self.executor.clone(), owner, random));
        let Ok(id) = HostId::new(format!("k{}", owner.0)) else {
            unreachable!("short, not empty, without control characters")
        };
        let code =
            Deadly { aboard: Arc::clone(&self.aboard), env: Arc::clone(&env), owner, fuses: self.fuses };
        let way = Way { aboard: Arc::clone(&self.aboard), env: Arc::clone(&env), owner };
        let host = Host::new(way.hub(), Arc::clone(&env) as Arc<dyn Env>, Arc::new(code), id);
        let host = host.options(self.options.clone());
        let (leave, gone) = oneshot::channel();
        let life = async move {
            // It never stops by itself.
            let _ = host.run(futures::future::pending()).await;
            let _ = leave.send(());
        };
        self.executor.spawn(owner, life.boxed());
        gone
    }

    async fn sleep(&self, duration: Duration) {
        self.executor.sleep_until(self.executor.now().after(duration)).await;
    }

    fn drive(&self) -> bool {
        let deadline = BEGINNING.after(END);
        while !self.finished.load(Ordering::Relaxed) {
            if self.executor.polls_at_this_time() > POLLS_AT_ONE_TIME_MAX
                || self.executor.now() > deadline
                || self.executor.step() == Progress::Stuck
            {
                return false;
            }
        }
        true
    }

    async fn has_ended(&self) -> bool {
        for started in self.healthy.iter().chain(&self.poison) {
            match self.client.get(&started.id).await {
                Ok(Some(record)) if record.status.is_ended() || is_recognised(&record) => {}
                _ => return false,
            }
        }
        true
    }
}

/// Whether the turn of an instance is stalled for what it did to its workers.
fn is_recognised(record: &Record) -> bool {
    record.trouble.as_ref().is_some_and(|trouble| trouble.kind == TroubleKind::HostDied)
}

/// Power losses.
impl World {
    /// Waits until every slot for activities is in use, and kills all hosts at once.
    async fn lose_power(&self) {
        while self.aboard.running() < self.healthy.len() {
            self.sleep(Duration::from_millis(500)).await;
        }
        self.losses.fetch_add(1, Ordering::Relaxed);
        for owner in self.aboard.living() {
            self.aboard.dies(owner);
            self.executor.kill(owner);
        }
    }

    /// Property (c).
    fn is_in_use_again(&self) {
        let (running, all) = (self.aboard.running(), self.hosts * self.options.activities_max);
        if running * 4 < all {
            unpoisoned(&self.aboard.violations)
                .push(format!("killers: after two power losses {running} of {all} slots are in use"));
        }
    }
}

/// Checks at the end.
impl World {
    fn record(&self, id: &InstanceId) -> Option<Record> {
        self.client.get(id).now_or_never()?.ok()?
    }

    fn check(&self, violations: &mut Vec<String>) {
        let most = self.slots().ilog2() + self.options.trial_deaths_max + 2;
        for poison in &self.poison {
            let deaths = self.aboard.deaths(&poison.key());
            if deaths > most {
                violations.push(format!("killers: {deaths} processes died with {}, {most} may", poison.id));
            }
            let record = self.record(&poison.id);
            let found = match poison.name {
                KILLER => record.as_ref().is_some_and(is_recognised),
                _ => record.as_ref().is_some_and(|record| record.status == Status::Failed),
            };
            if !found {
                violations.push(format!("killers: {} was not recognised: {record:?}", poison.id));
            }
        }
        for healthy in &self.healthy {
            match self.record(&healthy.id) {
                Some(record) if record.status == Status::Completed => {}
                Some(record) if record.status == Status::Failed || is_recognised(&record) => {
                    violations.push(format!("killers: {} was taken for poison", healthy.id));
                }
                record => violations.push(format!("killers: {} did not end: {record:?}", healthy.id)),
            }
        }
        let (deaths, unbegun) = self.aboard.unbegun();
        if unbegun > deaths + UNBEGUN_MAX {
            violations.push(format!(
                "killers: {unbegun} suspects died before they began, with {deaths} that had just begun"
            ));
        }
    }

    fn killed(&self) -> Killed {
        let poison = self.poison.iter().filter(|poison| self.aboard.deaths(&poison.key()) > 0).count();
        let (at_once, unbegun) = self.aboard.unbegun();
        Killed {
            at_once,
            unbegun,
            poison: poison as u64,
            deaths: self.poison.iter().map(|poison| u64::from(self.aboard.deaths(&poison.key()))).sum(),
            healthy: self.healthy.len() as u64,
            trials: self.aboard.trials(),
            losses: self.losses.load(Ordering::Relaxed),
        }
    }
}

/// One long activity for each slot.
fn long(count: usize) -> Vec<Started> {
    let hour = takes(Duration::from_secs(3_600));
    let one = |number| Started {
        id: id(format!("long-{number}")),
        event: 0,
        name: WORK,
        input: hour.clone(),
        after: Duration::ZERO,
    };
    (0..count).map(one).collect()
}

/// Poison turns and poison activities: some are there from the beginning, others come while these are looked for.
fn draw_poison(random: &mut Random, options: &HostOptions) -> Vec<Started> {
    let quiet = options.trial_quiet;
    let count = random.between(1, 6);
    let mut poison = Vec::new();
    for number in 0..count {
        // Less than the quiet time, by what calls take.
        let late = if random.chance(4_000) { Duration::ZERO } else { random.duration(quiet * 4 / 5) };
        let after = if random.chance(4_000) { Duration::ZERO } else { random.duration(quiet * 200) };
        let started = match random.chance(4_000) {
            true => Started {
                id: id(format!("killer-{number}")),
                event: TURN,
                name: KILLER,
                input: millis(late).to_string(),
                after,
            },
            false => {
                let beside = (0..random.below(3)).map(|_| takes(random.duration(quiet)));
                let jobs: Vec<String> = beside.chain([kills(late)]).collect();
                let event = i32::try_from(jobs.len()).unwrap_or(i32::MAX) - 1;
                Started {
                    id: id(format!("poison-{number}")),
                    event,
                    name: WORK,
                    input: jobs.join(","),
                    after,
                }
            }
        };
        poison.push(started);
    }
    poison
}

/// Healthy instances, of which some run for long.
fn draw_healthy(random: &mut Random, options: &HostOptions) -> Vec<Started> {
    let quiet = options.trial_quiet;
    let count = random.between(1, 2 * options.activities_max as u64 + 3);
    let mut healthy = Vec::new();
    for number in 0..count {
        let longest = random.pick(&[Duration::ZERO, quiet / 2, quiet * 8, quiet * 60]);
        let jobs: Vec<String> = (0..random.between(1, 3)).map(|_| takes(random.duration(longest))).collect();
        let after = random.duration(quiet * 100);
        let (id, input) = (id(format!("good-{number}")), jobs.join(","));
        healthy.push(Started { id, event: 0, name: WORK, input, after });
    }
    healthy
}
