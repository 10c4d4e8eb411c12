//! The storm of kills: workers on one file, killed and stopped at random moments while clients go on, until enough kills
//! have hit a process that held a lease.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use dauer_audit::collect;
use tokio::task::JoinSet;

use crate::case::Program;
use crate::error::Error;
use crate::figures::Own;
use crate::held::Held;
use crate::options::Kills;
use crate::stage::{Aftermath, LOOK, Stage};

/// The longest pause between two blows: with the time a blow takes, several in each lease.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// How long a process that was stopped lives on afterwards, at least: time to find out what it has lost.
const AFTERLIFE_MIN: Duration = Duration::from_millis(300);

/// And by how much longer at most.
const AFTERLIFE_MORE: Duration = Duration::from_millis(300);

/// How long after a turn was heard to begin its process is stopped: what it was writing then is written, and the turn
/// of a thinker is not over.
const MIDDLE: Duration = Duration::from_millis(100);

/// How many further stops are tried when none has led to a fenced commit yet.
const MORE_STOPS_MAX: u64 = 30;

/// How often to listen for what lasts only a moment.
pub(crate) const HEAR: Duration = Duration::from_millis(2);

/// A stage, and what is done on it.
pub(crate) struct Storm {
    stage: Stage,
    kills: u64,
    stops: u64,
    /// Processes that were stopped and replaced; each task ends with what the last blow hit.
    zombies: JoinSet<Result<Held, Error>>,
}

impl Storm {
    /// Opens the file.
    pub(crate) fn new(options: Kills, file: PathBuf) -> Result<Self, Error> {
        let Kills { common, kills, stops } = options;
        Ok(Self { stage: Stage::new(common, file)?, kills, stops, zombies: JoinSet::new() })
    }

    /// All of it.
    pub(crate) async fn run(mut self) -> Result<Aftermath, Error> {
        let mut stuck = self.stage.open().await?;
        if stuck.is_empty() {
            stuck = self.rage().await?;
        }
        while let Some(zombie) = self.zombies.join_next().await {
            // A task is only cancelled by this one, and here nobody does.
            if let Ok(held) = zombie {
                self.stage.tally.hit(&held?);
            }
        }
        let mut own = Own::new("kills");
        own.count("hits_asked", self.kills);
        own.demand(self.stage.tally.hits >= self.kills, "too few kills hit a lease");
        let sums = self.stage.board.sums();
        let redone = self.stage.tally.hits == 0 || sums.turns_redone > 0;
        own.demand(redone, "no turn was redone, so nothing was tested");
        own.demand(self.stops == 0 || sums.fenced > 0, "no commit was fenced, so no fence was tested");
        self.stage.close(stuck, own).await
    }

    /// Blow after blow until enough have hit. What it gives is empty, unless nothing moves any more.
    async fn rage(&mut self) -> Result<Vec<String>, Error> {
        let kills_max = self.kills.saturating_mul(10).saturating_add(20);
        let mut more_stops = 0;
        loop {
            let tally = &self.stage.tally;
            let enough = tally.hits >= self.kills && tally.stops >= self.stops;
            if enough && self.zombies.is_empty() {
                let fenced = self.stage.board.fenced() > 0 || self.stops == 0;
                if fenced || more_stops == MORE_STOPS_MAX {
                    return Ok(Vec::new());
                }
                more_stops += 1;
                self.stop_one().await?;
            }
            while let Some(Ok(held)) = self.zombies.try_join_next() {
                self.stage.tally.hit(&held?);
            }
            if self.stage.tally.kills >= kills_max || self.stage.is_stuck() {
                let why = "too few kills hit a lease, or no instance has ended for long";
                return self.stage.stuck(why).await;
            }
            tokio::time::sleep(self.stage.random.duration(PAUSE_MAX)).await;
            self.stage.look_after_workers()?;
            // The stops are spread over the storm; one that found its process inside a write is made again.
            let tally = &self.stage.tally;
            let due = self.stops * (tally.hits + 1) / (self.kills + 1);
            if tally.stops < due.min(self.stops) {
                self.stop_one().await?;
            } else if tally.hits < self.kills {
                self.kill_one().await?;
            }
        }
    }

    async fn kill_one(&mut self) -> Result<(), Error> {
        let stage = &mut self.stage;
        let slot = stage.random.index(stage.slots.len());
        let (frozen, vouched) = (stage.random.chance(5_000), stage.random.chance(3_000));
        let held = if frozen && stage.stop_outside_a_write(slot).await? {
            // What the store says of it while it stands is what it holds when it dies.
            let held = Held::by(&stage.snapshot().await?, stage.slots[slot].id());
            stage.replace(slot)?.kill().await?;
            stage.tally.frozen += 1;
            held
        } else {
            // What the dead hold stays theirs until their lease has run out, or somebody sees that they are dead.
            let process = stage.replace(slot)?;
            let (id, number) = (process.id(), process.number);
            process.kill().await?;
            stage.board.excuse(number);
            let in_hand = stage.board.in_hand(number);
            Held { in_hand, ..Held::by(&stage.snapshot().await?, id) }
        };
        stage.tally.hit(&held);
        if vouched {
            // As a supervisor may that has seen the process die: nobody has to wait for its lease to run out.
            for session in held.sessions {
                stage.hub.manage().end_session(session).await?;
                stage.tally.vouched += 1;
            }
        }
        Ok(())
    }

    /// The slot of a worker that is in the middle of a turn right now.
    async fn thinking(&mut self) -> Option<usize> {
        let stage = &mut self.stage;
        let value = i64::try_from(stage.random.below(1_000)).unwrap_or_default();
        let (instance, rest) = stage.clients.begin(Some(Program::Thinker(value))).await;
        tokio::spawn(rest);
        let deadline = Instant::now() + stage.lease();
        while Instant::now() < deadline {
            if let Some(number) = stage.board.runner(&instance) {
                tokio::time::sleep(MIDDLE).await;
                return stage.slots.iter().position(|process| process.number == number);
            }
            tokio::time::sleep(HEAR).await;
        }
        None
    }

    /// Stops a process for longer than its lease, lets it go on, and kills it a moment later. Every other time the
    /// process is known to be between a claim and its commit.
    async fn stop_one(&mut self) -> Result<(), Error> {
        let stops = self.stage.tally.stops;
        let in_turn = stops.is_multiple_of(2) || stops >= self.stops;
        let slot = if in_turn { self.thinking().await } else { None };
        let stage = &mut self.stage;
        let slot = slot.unwrap_or_else(|| stage.random.index(stage.slots.len()));
        if !stage.stop_outside_a_write(slot).await? {
            return stage.resume(slot);
        }
        stage.tally.stops += 1;
        let process = stage.replace(slot)?;
        let sleep = stage.lease() + stage.random.duration(stage.lease() / 2);
        let afterlife = AFTERLIFE_MIN + stage.random.duration(AFTERLIFE_MORE);
        let patience = stage.lease() * 3;
        let hub = stage.hub.clone();
        self.zombies.spawn(async move {
            tokio::time::sleep(sleep).await;
            let deadline = Instant::now() + patience;
            // Until others have taken what it held: then its commits come too late.
            while Held::by(&collect(&**hub.manage()).await?, process.id()).is_in_store()
                && Instant::now() < deadline
            {
                tokio::time::sleep(LOOK).await;
            }
            process.resume()?;
            tokio::time::sleep(afterlife).await;
            let id = process.id();
            process.kill().await?;
            Ok(Held::by(&collect(&**hub.manage()).await?, id))
        });
        Ok(())
    }
}
