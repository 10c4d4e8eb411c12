//! The storm of zombies: a worker is stopped in the middle of a turn or an activity until its lease has run out and
//! others have done its work to the end. Then it goes on, knows nothing of that, and writes what it has: that must be
//! refused, every time, and the worker goes on with other work.
//!
//! A process that is stopped inside a write keeps everyone from writing: no lease is taken over then. Such a stop is
//! seen, counted, and made again; a few are kept for longer than the lease, to show that all go on afterwards.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dauer_audit::Snapshot;

use crate::board::Refusal;
use crate::case::Program;
use crate::error::Error;
use crate::figures::Own;
use crate::held::Held;
use crate::options::Common;
use crate::programs::Job;
use crate::stage::{Aftermath, LOOK, Stage};
use crate::storm::HEAR;

/// How long the activity of a zombie takes: time for the parent to hear of it and to stop the process in its middle.
const WORKING: Duration = Duration::from_millis(400);

/// How long a process may be found inside a write, again and again, before its turn may be over.
const CATCH_MAX: Duration = Duration::from_millis(200);

/// One of so many is caught in an activity, the others in a turn.
const ACTIVITY_EVERY: u64 = 3;

/// How many tries may miss, for each that is wanted: the turn was over too soon.
const MISSES_EACH: u64 = 10;

/// How long the refusal of late work may take beyond a lease, in which a worker first finds out what it has lost.
const REFUSAL_MAX: Duration = Duration::from_secs(10);

/// What is asked for.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Zombies {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Workers to be stopped while they hold something, until others have done it, and to be continued.
    #[arg(long, default_value_t = 50)]
    zombies: u64,
    /// How many of those that are found inside a write stay there for longer than a lease.
    #[arg(long, default_value_t = 2)]
    stalls: u64,
    /// A negative control: they go on before anybody has taken over.
    #[arg(long, hide = true)]
    hasty: bool,
}

/// A stopped worker, and what it was doing.
struct Caught {
    slot: usize,
    instance: String,
    in_turn: bool,
    /// Ends when the instance has ended.
    end: tokio::task::JoinHandle<()>,
}

/// What came of them.
#[derive(Default)]
struct Counts {
    in_turn: u64,
    in_activity: u64,
    fenced: u64,
    dropped: u64,
    missed: u64,
    stalls: u64,
    stopped_longest: Duration,
    refused_longest: Duration,
}

impl Zombies {
    /// All of it.
    pub(crate) async fn run(self, file: PathBuf) -> Result<Aftermath, Error> {
        if self.common.processes < 2 {
            return Err(Error::Usage("somebody has to take over; use at least two processes"));
        }
        let mut stage = Stage::new(self.common.clone(), file)?;
        let mut counts = Counts::default();
        let mut stuck = stage.open().await?;
        while stuck.is_empty() && counts.in_turn + counts.in_activity < self.zombies {
            stage.look_after_workers()?;
            if counts.missed > self.zombies * MISSES_EACH || stage.is_stuck() {
                stuck = stage.stuck("too few could be caught, or no instance has ended for long").await?;
            } else if let Some(caught) = self.catch(&mut stage, &mut counts).await? {
                stuck = self.haunt(&mut stage, caught, &mut counts).await?;
            }
        }
        stage.tally.stops = counts.in_turn + counts.in_activity;
        let all = counts.fenced + counts.dropped == stage.tally.stops;
        let mut own = Own::new("zombies");
        own.count("zombies_in_a_turn", counts.in_turn);
        own.count("zombies_in_an_activity", counts.in_activity);
        own.count("zombies_fenced", counts.fenced);
        own.count("zombies_dropped", counts.dropped);
        own.count("zombies_missed", counts.missed);
        own.count("stalls_inside_a_write", counts.stalls);
        own.count("zombies_stopped_ms_longest", millis(counts.stopped_longest));
        own.count("zombies_refused_after_ms_longest", millis(counts.refused_longest));
        own.demand(stage.tally.stops >= self.zombies, "too few zombies");
        own.demand(all, "a zombie was not refused");
        own.demand(counts.fenced >= counts.in_turn, "the turn of a zombie was not fenced");
        stage.close(stuck, own).await
    }

    /// Starts something that takes a moment, and stops whoever does it in the middle. `None` when it was over before.
    async fn catch(&self, stage: &mut Stage, counts: &mut Counts) -> Result<Option<Caught>, Error> {
        let in_turn = (counts.in_turn + counts.in_activity) % ACTIVITY_EVERY != ACTIVITY_EVERY - 1;
        let value = i64::try_from(stage.random.below(1_000)).unwrap_or_default();
        let program = match in_turn {
            true => Program::Thinker(value),
            false => Program::Chain(vec![Job { value, millis: millis(WORKING) }]),
        };
        let (instance, rest) = stage.clients.begin(Some(program)).await;
        let end = tokio::spawn(rest);
        let deadline = Instant::now() + stage.stuck_after();
        let slot = loop {
            let board = &stage.board;
            let who = if in_turn { board.runner(&instance) } else { board.busy_with(&instance) };
            if let Some(slot) = who.and_then(|number| stage.slots.iter().position(|p| p.number == number)) {
                break slot;
            }
            if Instant::now() > deadline {
                // Nothing moves: whoever looks next says what is waited for.
                counts.missed += 1;
                return Ok(None);
            }
            tokio::time::sleep(HEAR).await;
        };
        let deadline = Instant::now() + CATCH_MAX;
        while Instant::now() < deadline {
            if stage.stop_outside_a_write(slot).await? {
                let snapshot = stage.snapshot().await?;
                if holds(&snapshot, stage.slots[slot].id(), (&instance, in_turn)) {
                    return Ok(Some(Caught { slot, instance, in_turn, end }));
                }
                stage.resume(slot)?;
                break;
            }
            if counts.stalls < self.stalls {
                counts.stalls += 1;
                tokio::time::sleep(stage.lease() + stage.lease() / 4).await;
                stage.resume(slot)?;
                break;
            }
            stage.resume(slot)?;
            tokio::time::sleep(HEAR).await;
        }
        counts.missed += 1;
        Ok(None)
    }

    /// Waits until others have done its work, lets it go on, and sees its late work refused. What it gives is empty,
    /// unless nobody takes over.
    async fn haunt(
        &self,
        stage: &mut Stage,
        caught: Caught,
        counts: &mut Counts,
    ) -> Result<Vec<String>, Error> {
        let Caught { slot, instance, in_turn, end } = caught;
        let stopped = Instant::now();
        while !self.hasty && !end.is_finished() {
            if stopped.elapsed() > stage.stuck_after() {
                return stage.stuck(&format!("nobody has taken {instance} from one that is stopped")).await;
            }
            tokio::time::sleep(LOOK).await;
        }
        counts.stopped_longest = counts.stopped_longest.max(stopped.elapsed());
        stage.resume(slot)?;
        *(if in_turn { &mut counts.in_turn } else { &mut counts.in_activity }) += 1;
        let (number, resumed) = (stage.slots[slot].number, Instant::now());
        let deadline = resumed + stage.lease() + REFUSAL_MAX;
        let refusal = loop {
            let refusal = stage.board.refusal(number, &instance);
            if refusal.is_some() || Instant::now() > deadline {
                break refusal;
            }
            tokio::time::sleep(HEAR).await;
        };
        match refusal {
            Some(Refusal::Fenced) => counts.fenced += 1,
            Some(Refusal::Dropped) => counts.dropped += 1,
            None => {
                let text = format!("{instance}: the late work of zombie {number} was not refused");
                stage.tally.wrong.push(text);
            }
        }
        counts.refused_longest = counts.refused_longest.max(resumed.elapsed());
        Ok(Vec::new())
    }
}

/// Whether a process holds the turn of an instance, or a task of it.
fn holds(snapshot: &Snapshot, process: u32, (instance, turn): (&str, bool)) -> bool {
    let sessions = Held::by(snapshot, process).sessions;
    if turn {
        let held = snapshot.instances.values().find(|dump| dump.id.as_str() == instance);
        return held.and_then(|dump| dump.holder).is_some_and(|holder| sessions.contains(&holder));
    }
    let of_it = snapshot.tasks.values().filter(|task| task.task.instance.as_str() == instance);
    of_it.filter_map(|task| task.holder).any(|holder| sessions.contains(&holder))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
