//! The storm: workers on one file, killed and stopped at random moments while clients go on, until enough kills have
//! hit a process that held a lease; then calm, until everything has ended.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dauer::Hub;
use dauer_audit::{JournalWriter, Snapshot, collect};
use dauer_sim::random::Random;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::board::Board;
use crate::case::Program;
use crate::clients::Clients;
use crate::error::Error;
use crate::figures::{Figures, Tally};
use crate::held::Held;
use crate::options::Options;
use crate::process::Process;
use crate::programs::Code;
use crate::verify;
use crate::worker::Worker;

/// The longest pause between two blows: with the time a blow takes, several in each lease.
const PAUSE_MAX: Duration = Duration::from_millis(250);

/// How long a client's start may take while a process is stopped before that process is held to stand inside a write:
/// longer than any write that only has to queue, far shorter than a lease.
const PROBE_MAX: Duration = Duration::from_millis(400);

/// How long a process that was stopped lives on afterwards, at least: time to find out what it has lost.
const AFTERLIFE_MIN: Duration = Duration::from_millis(300);

/// And by how much longer at most.
const AFTERLIFE_MORE: Duration = Duration::from_millis(300);

/// How long after a turn was heard to begin its process is stopped: what it was writing then is written, and the turn
/// of a thinker is not over.
const MIDDLE: Duration = Duration::from_millis(100);

/// Without an end of any instance for so many leases the storm is stuck.
const STUCK_LEASES: u32 = 10;

/// The same for short leases: a busy machine is no fault.
const STUCK_MIN: Duration = Duration::from_secs(30);

/// How many further stops are tried when none has led to a fenced commit yet.
const MORE_STOPS_MAX: u64 = 30;

/// How often to look at what is waited for.
const LOOK: Duration = Duration::from_millis(50);

/// How often to listen for what lasts only a moment.
const HEAR: Duration = Duration::from_millis(2);

/// Everything that takes part.
pub(crate) struct Storm {
    options: Options,
    worker: Worker,
    /// The supervisor's own handle: its long reads delay no client.
    hub: Hub,
    clients: Arc<Clients>,
    board: Arc<Board>,
    slots: Vec<Process>,
    /// Processes that were stopped and replaced; each task ends with what the last blow hit.
    zombies: JoinSet<Result<Held, Error>>,
    random: Random,
    started: usize,
    tally: Tally,
}

/// What the storm left behind.
pub(crate) struct Aftermath {
    pub(crate) figures: Figures,
    /// What a run that does not end waits for.
    pub(crate) stuck: Vec<String>,
}

impl Storm {
    /// Opens the file and starts the workers.
    pub(crate) fn new(options: Options, file: PathBuf) -> Result<Self, Error> {
        let url = format!("sqlite:{}", file.display());
        let (hub, clients) = (dauer::open(&url)?, dauer::open(&url)?);
        let (lease_ms, attempts_show) = (options.lease_ms, options.attempts_show);
        let worker = Worker { store: file, lease_ms, code: Code::All, attempts_show };
        let mut storm = Self {
            clients: Clients::new(clients, options.seed),
            random: Random::stream(options.seed, u64::MAX),
            hub,
            worker,
            board: Arc::default(),
            slots: Vec::new(),
            zombies: JoinSet::new(),
            started: 0,
            tally: Tally::default(),
            options,
        };
        for _ in 0..storm.options.processes {
            let process = storm.start()?;
            storm.slots.push(process);
        }
        Ok(storm)
    }

    fn start(&mut self) -> Result<Process, Error> {
        let number = self.started;
        self.started += 1;
        self.board.expect(number);
        let board = Arc::clone(&self.board);
        Process::start(number, &self.worker, move |line| board.hear(number, line))
    }

    fn lease(&self) -> Duration {
        Duration::from_millis(self.options.lease_ms)
    }

    fn stuck_after(&self) -> Duration {
        (self.lease() * STUCK_LEASES).max(STUCK_MIN)
    }

    async fn snapshot(&self) -> Result<Snapshot, Error> {
        Ok(collect(&**self.hub.manage()).await?)
    }

    /// All of it.
    pub(crate) async fn run(mut self) -> Result<Aftermath, Error> {
        let began = Instant::now();
        let mut feeding = JoinSet::new();
        for _ in 0..self.options.instances {
            feeding.spawn(Arc::clone(&self.clients).serve());
        }
        let mut stuck = self.rage().await?;
        self.clients.close();
        for process in &self.slots {
            self.board.excuse(process.number);
        }
        let calm = Instant::now();
        if stuck.is_empty() {
            stuck = self.heal().await?;
        }
        self.tally.heal = calm.elapsed();
        feeding.abort_all();
        while let Some(zombie) = self.zombies.join_next().await {
            // A task is only cancelled by this one, and here nobody does.
            if let Ok(held) = zombie {
                self.tally.hit(&held?);
            }
        }
        for process in self.slots.drain(..) {
            let (number, status) = (process.number, process.retire().await?);
            if stuck.is_empty() && !status.success() {
                self.tally
                    .wrong
                    .push(format!("worker {number} did not end well when it was asked to: {status}"));
            }
        }
        self.tally.duration = began.elapsed();
        self.conclude(stuck).await
    }

    /// Blow after blow until enough have hit. What it gives is empty, unless nothing moves any more.
    async fn rage(&mut self) -> Result<Vec<String>, Error> {
        while !self.board.all_have_worked() {
            if self.clients.since_last_end() > self.stuck_after() {
                return self.stuck("not all workers have begun to work").await;
            }
            tokio::time::sleep(LOOK).await;
        }
        let kills_max = self.options.kills.saturating_mul(10).saturating_add(20);
        let mut more_stops = 0;
        loop {
            let enough = self.tally.hits >= self.options.kills && self.tally.stops >= self.options.stops;
            if enough && self.zombies.is_empty() {
                let fenced = self.board.fenced() > 0 || self.options.stops == 0;
                if fenced || more_stops == MORE_STOPS_MAX {
                    return Ok(Vec::new());
                }
                more_stops += 1;
                self.stop_one().await?;
            }
            while let Some(Ok(held)) = self.zombies.try_join_next() {
                self.tally.hit(&held?);
            }
            if self.tally.kills >= kills_max || self.clients.since_last_end() > self.stuck_after() {
                return self.stuck("too few kills hit a lease, or no instance has ended for long").await;
            }
            tokio::time::sleep(self.random.duration(PAUSE_MAX)).await;
            self.look_after_workers()?;
            // The stops are spread over the storm; one that found its process inside a write is made again.
            let due = self.options.stops * (self.tally.hits + 1) / (self.options.kills + 1);
            if self.tally.stops < due.min(self.options.stops) {
                self.stop_one().await?;
            } else if self.tally.hits < self.options.kills {
                self.kill_one().await?;
            }
        }
    }

    /// A worker that ends by itself has found something that must never be: it is told, and replaced.
    fn look_after_workers(&mut self) -> Result<(), Error> {
        for slot in 0..self.slots.len() {
            if let Some(status) = self.slots[slot].has_ended()? {
                let number = self.slots[slot].number;
                self.tally.wrong.push(format!("worker {number} ended by itself: {status}"));
                self.board.excuse(number);
                self.slots[slot] = self.start()?;
            }
        }
        Ok(())
    }

    /// Puts a new worker into a slot and gives the old one.
    fn replace(&mut self, slot: usize) -> Result<Process, Error> {
        let fresh = self.start()?;
        self.tally.restarts += 1;
        Ok(std::mem::replace(&mut self.slots[slot], fresh))
    }

    async fn kill_one(&mut self) -> Result<(), Error> {
        let slot = self.random.index(self.slots.len());
        let (frozen, vouched) = (self.random.chance(5_000), self.random.chance(3_000));
        let held = if frozen && self.stop_outside_a_write(slot).await? {
            // What the store says of it while it stands is what it holds when it dies.
            let held = Held::by(&self.snapshot().await?, self.slots[slot].id());
            self.replace(slot)?.kill().await?;
            self.tally.frozen += 1;
            held
        } else {
            // What the dead hold stays theirs until their lease has run out, or somebody sees that they are dead.
            let process = self.replace(slot)?;
            let (id, number) = (process.id(), process.number);
            process.kill().await?;
            self.board.excuse(number);
            let in_hand = self.board.in_hand(number);
            Held { in_hand, ..Held::by(&self.snapshot().await?, id) }
        };
        self.tally.hit(&held);
        if vouched {
            // As a supervisor may that has seen the process die: nobody has to wait for its lease to run out.
            for session in held.sessions {
                self.hub.manage().end_session(session).await?;
                self.tally.vouched += 1;
            }
        }
        Ok(())
    }

    /// Stops a process where it is. False when it stands inside a write, so that nobody else can write.
    async fn stop_outside_a_write(&mut self, slot: usize) -> Result<bool, Error> {
        self.slots[slot].stop().await?;
        self.board.excuse(self.slots[slot].number);
        let clients = Arc::clone(&self.clients);
        let (begun, probe) = oneshot::channel();
        tokio::spawn(async move {
            let (_, rest) = clients.begin(None).await;
            // Whoever asked may have stopped waiting.
            let _ = begun.send(());
            rest.await;
        });
        let answered = tokio::time::timeout(PROBE_MAX, probe).await.is_ok();
        self.tally.stops_blocking += u64::from(!answered);
        Ok(answered)
    }

    /// The slot of a worker that is in the middle of a turn right now.
    async fn thinking(&mut self) -> Option<usize> {
        let value = i64::try_from(self.random.below(1_000)).unwrap_or_default();
        let (instance, rest) = self.clients.begin(Some(Program::Thinker(value))).await;
        tokio::spawn(rest);
        let deadline = Instant::now() + self.lease();
        while Instant::now() < deadline {
            if let Some(number) = self.board.runner(&instance) {
                tokio::time::sleep(MIDDLE).await;
                return self.slots.iter().position(|process| process.number == number);
            }
            tokio::time::sleep(HEAR).await;
        }
        None
    }

    /// Stops a process for longer than its lease, lets it go on, and kills it a moment later. Every other time the
    /// process is known to be between a claim and its commit.
    async fn stop_one(&mut self) -> Result<(), Error> {
        let in_turn = self.tally.stops.is_multiple_of(2) || self.tally.stops >= self.options.stops;
        let slot = if in_turn { self.thinking().await } else { None };
        let slot = slot.unwrap_or_else(|| self.random.index(self.slots.len()));
        if !self.stop_outside_a_write(slot).await? {
            self.slots[slot].resume()?;
            self.board.expect(self.slots[slot].number);
            return Ok(());
        }
        self.tally.stops += 1;
        let process = self.replace(slot)?;
        let sleep = self.lease() + self.random.duration(self.lease() / 2);
        let afterlife = AFTERLIFE_MIN + self.random.duration(AFTERLIFE_MORE);
        let patience = self.lease() * 3;
        let hub = self.hub.clone();
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

    /// Waits until everything has ended.
    async fn heal(&mut self) -> Result<Vec<String>, Error> {
        loop {
            if self.clients.open() == 0 && verify::rests(&self.snapshot().await?) {
                return Ok(Vec::new());
            }
            if self.clients.since_last_end() > self.stuck_after() {
                return self.stuck("not everything has ended since the storm is over").await;
            }
            self.look_after_workers()?;
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn stuck(&self, why: &str) -> Result<Vec<String>, Error> {
        let snapshot = self.snapshot().await?;
        let (open, tasks) = (self.clients.open(), snapshot.tasks.len());
        let mut lines = vec![format!("stuck: {why}; {open} cases are open, {tasks} tasks are left")];
        lines.extend(verify::stuck(&snapshot));
        Ok(lines)
    }

    async fn conclude(mut self, stuck: Vec<String>) -> Result<Aftermath, Error> {
        let file = &self.worker.store;
        // A handle that has seen nothing of the storm: what counts is what is in the file.
        let fresh = dauer::open(&format!("sqlite:{}", file.display()))?;
        let mut snapshot = collect(&**fresh.manage()).await?;
        let known = self.snapshot().await?;
        if (&known.instances, &known.tasks) != (&snapshot.instances, &snapshot.tasks) {
            self.tally
                .wrong
                .push("a handle that was open all the time sees another hub than a new one".into());
        }
        if let Some(tamper) = self.options.tamper {
            let copy = file.with_extension("tampered");
            let hub = tamper.copy(fresh.manage().as_ref(), &copy).await?;
            snapshot = collect(&**hub.manage()).await?;
        }
        self.write_journal()?;
        let findings = verify::verify(&snapshot, &self.clients);
        let damage = verify::integrity(file)?.into_iter();
        self.tally.wrong.extend(damage.map(|line| format!("the file: {line}")));
        let figures = Figures::new(&self.options, self.tally, self.board.sums(), findings);
        Ok(Aftermath { figures, stuck })
    }

    /// Puts what the clients were told beside the file, for whoever audits it again.
    fn write_journal(&self) -> Result<(), Error> {
        let mut journal = JournalWriter::new(File::create(self.worker.store.with_extension("journal"))?)?;
        for operation in &self.clients.journal().operations {
            journal.note(operation)?;
        }
        Ok(())
    }
}
