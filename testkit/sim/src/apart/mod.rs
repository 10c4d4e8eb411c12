//! Servers whose workers have lives of their own: real hosts with real `Workers`, one memory store, virtual time, one seed.
//!
//! 1. `settings`: what a seed has, of servers, workers, instances and faults;
//! 2. `server`, `process`: one life of each, with the calls and streams between them;
//! 3. `code`: the orchestration and its activities, some of which kill their worker;
//! 4. `watch`: what lies between a server and the store;
//! 5. `journal`: what workers did, and the rules about it;
//! 6. `clients`: start instances, wait for their ends and judge them;
//! 7. `world`: what all of them share, and what happens to them.
//!
//! Checked: an activity whose worker lives begins once, as long as no grace is over; no turn is answered by the answer to an
//! earlier one; the task of an answer that a worker was told is taken is not open; what kills its workers is recognised after a
//! bounded number of deaths, and nothing else is; the store counts no more deaths than workers were lost.

mod clients;
mod code;
mod journal;
mod process;
mod server;
mod settings;
mod watch;
mod world;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use dauer_audit::{Evidence, Settings as AuditSettings, audit};
use dauer_faults::{Faulty, wrap_hub};
use dauer_memory::ManualClock;
use dauer_store::{Env, HubName, Manage};
use futures::FutureExt;

use crate::config::Config;
use crate::env::SimEnv;
use crate::executor::{BEGINNING, Executor, Owner, Progress};
use crate::outcome::{Outcome, Statistics};
use crate::random::Random;
use crate::trace::Trace;
use crate::unpoisoned;
use journal::Journal;
use settings::{RECONNECT_GRACE, RESTART_GRACE, Settings};
use watch::StoreFaults;
use world::{Chance, World};

/// How often tasks may run without time going on.
const POLLS_AT_ONE_TIME_MAX: u64 = 200_000;

/// How long everything takes at most after the chaos, besides jobs and trials.
const RECOVERY_MAX: Duration = Duration::from_secs(400);

/// How long it takes at most to recognise one item that kills its workers.
const RECOGNITION_MAX: Duration = Duration::from_secs(900);

/// Runs one seed.
#[must_use]
pub(crate) fn run(seed: u64, config: &Config) -> Outcome {
    let world = world(seed, config);
    world.note(&[50], || format!("{:?}", world.settings));
    for place in 0..world.settings.servers {
        world.executor.spawn(Owner::OUTSIDE, Arc::clone(&world).supervise_server(place).boxed());
    }
    for place in 0..world.settings.workers.len() {
        world.executor.spawn(Owner::OUTSIDE, Arc::clone(&world).supervise_worker(place).boxed());
    }
    world.executor.spawn(Owner::OUTSIDE, Arc::clone(&world).disturb().boxed());
    world.executor.spawn(Owner::OUTSIDE, clients::serve_all(Arc::clone(&world)).boxed());
    let looking = Arc::clone(&world);
    let looks = async move {
        loop {
            looking.sleep(Duration::from_secs(1)).await;
            looking.look();
        }
    };
    world.executor.spawn(Owner::OUTSIDE, looks.boxed());
    let in_time = drive(&world);
    close(&world, in_time)
}

fn world(seed: u64, config: &Config) -> Arc<World> {
    let settings = Settings::draw(seed);
    let mut settings = settings;
    if config.calm {
        settings.rates.clear();
    }
    let clock = Arc::new(ManualClock::new(BEGINNING));
    let trace = Arc::new(Trace::new(config.trace));
    let executor = Executor::new(Arc::clone(&clock), trace, Random::stream(seed, 302));
    let env = Arc::new(SimEnv::new(executor.clone(), Owner::OUTSIDE, Random::stream(seed, 303)));
    let chance = Arc::new(Chance::new(seed, settings.rates.clone()));
    let raw: Arc<dyn Manage> = config.store(clock).hub(HubName::default());
    let faults = Faulty::new(Arc::new(StoreFaults(Arc::clone(&chance))));
    let faults = faults.with_env(Arc::clone(&env) as Arc<dyn Env>);
    let hub = wrap_hub(Arc::clone(&raw), Arc::new(faults));
    Arc::new(World {
        seed,
        settings,
        executor,
        chance,
        raw,
        hub,
        env,
        journal: Journal::default(),
        streams: Default::default(),
        servers: Default::default(),
        processes: Default::default(),
        owners: AtomicU32::new(1),
        closing: AtomicBool::new(false),
        finished: AtomicBool::new(false),
        crashes: AtomicU32::new(0),
    })
}

/// Lets everything happen. True when it came to an end in time.
fn drive(world: &World) -> bool {
    let lives = || world.settings.cases.iter().flat_map(|case| &case.lives);
    let jobs: u64 = lives().map(|life| life.program.longest_ms()).max().unwrap_or_default() * 4;
    let killers = lives().map(|life| life.program.killers()).sum::<u32>();
    let longest = world.settings.chaos
        + Duration::from_millis(jobs)
        + RECOVERY_MAX
        + (RECONNECT_GRACE + RESTART_GRACE) * 4
        + RECOGNITION_MAX * killers;
    let deadline = BEGINNING.after(longest);
    while !world.finished.load(Ordering::Relaxed) {
        if world.executor.polls_at_this_time() > POLLS_AT_ONE_TIME_MAX {
            world.journal.complain("something spins: time stands still".into());
            return false;
        }
        if world.executor.now() > deadline || world.executor.step() == Progress::Stuck {
            return false;
        }
    }
    true
}

fn close(world: &Arc<World>, in_time: bool) -> Outcome {
    world.look();
    let snapshot = world.snapshot();
    let mut violations = std::mem::take(&mut world.journal.notes().violations);
    if !in_time {
        violations.push("L1: not everything had finished in time".into());
    }
    match &snapshot {
        Some(snapshot) => {
            let report =
                audit(snapshot, &Evidence { client: None, commits: None }, &AuditSettings::default());
            violations.extend(
                report.violations().map(|(invariant, violation)| format!("{invariant}: {violation}")),
            );
            let waits = snapshot.instances.values().filter(|_| !in_time);
            violations.extend(waits.map(|instance| {
                let record = &instance.record;
                format!(
                    "waiting: {} is {:?}, deaths {:?}, holder {:?}, not before {:?}, trouble {:?}",
                    instance.id,
                    record.status,
                    record.deaths,
                    instance.holder,
                    instance.not_before,
                    record.trouble
                )
            }));
            let tasks = snapshot.tasks.values().filter(|_| !in_time);
            violations.extend(tasks.map(|task| {
                format!(
                    "waiting: task {} of {}: {:?}, holder {:?}, mark {:?}, not before {:?}, withdrawn {}",
                    task.task.event_id,
                    task.task.instance,
                    task.deaths,
                    task.holder,
                    task.mark,
                    task.not_before,
                    task.withdrawn
                )
            }));
        }
        None => violations.push("the store could not be dumped".into()),
    }
    let trace = world.executor.trace();
    let mut statistics = Statistics { seeds: 1, ..Statistics::default() };
    {
        let notes = world.journal.notes();
        statistics.effects = notes.begun;
        statistics.effects_repeated = notes.begun_again;
        statistics.poisoned = notes.killed.values().map(|count| u64::from(*count)).sum();
    }
    statistics.instances = snapshot.map_or(0, |snapshot| snapshot.instances.len() as u64);
    statistics.crashes = u64::from(world.crashes.load(Ordering::Relaxed));
    statistics.polls = world.executor.polls();
    statistics.duration = world.executor.now().since(BEGINNING);
    let outcome = Outcome {
        seed: world.seed,
        trace_hash: trace.hash(),
        trace: trace.take_lines(),
        statistics,
        violations,
    };
    world.executor.shut_down();
    unpoisoned(&world.servers).clear();
    unpoisoned(&world.processes).clear();
    outcome
}
