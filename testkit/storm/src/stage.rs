//! What all storms share: workers and clients on one file, until it is over; then calm, until everything has ended, and
//! the verdict.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dauer::Hub;
use dauer_audit::{JournalWriter, Snapshot, collect};
use dauer_sim::random::Random;
use tokio::task::JoinSet;

use crate::board::Board;
use crate::clients::Clients;
use crate::error::Error;
use crate::figures::{Figures, Own, Tally};
use crate::locks;
use crate::options::Common;
use crate::process::Process;
use crate::programs::Code;
use crate::verify;
use crate::worker::Worker;

/// Without an end of any instance for so many leases the storm is stuck.
const STUCK_LEASES: u32 = 10;

/// The same for short leases: a busy machine is no fault.
const STUCK_MIN: Duration = Duration::from_secs(30);

/// How often to look at what is waited for.
pub(crate) const LOOK: Duration = Duration::from_millis(50);

/// Everything that takes part.
pub(crate) struct Stage {
    pub(crate) common: Common,
    pub(crate) worker: Worker,
    /// The supervisor's own handle: its long reads delay no client.
    pub(crate) hub: Hub,
    pub(crate) clients: Arc<Clients>,
    pub(crate) board: Arc<Board>,
    pub(crate) slots: Vec<Process>,
    pub(crate) random: Random,
    pub(crate) tally: Tally,
    feeding: JoinSet<()>,
    began: Instant,
    started: usize,
}

/// What the storm left behind.
pub(crate) struct Aftermath {
    pub(crate) figures: Figures,
    /// What a run that does not end waits for.
    pub(crate) stuck: Vec<String>,
}

pub(crate) fn url(file: &std::path::Path) -> String {
    format!("sqlite:{}", file.display())
}

impl Stage {
    /// Opens the file; nobody works yet.
    pub(crate) fn new(common: Common, file: PathBuf) -> Result<Self, Error> {
        let (hub, clients) = (dauer::open(&url(&file))?, dauer::open(&url(&file))?);
        let lease_ms = u64::try_from(common.lease().as_millis()).unwrap_or(u64::MAX);
        let attempts_show = common.attempts_show;
        Ok(Self {
            clients: Clients::new(clients, common.seed),
            random: Random::stream(common.seed, u64::MAX),
            hub,
            worker: Worker { store: file, lease_ms, code: Code::All, attempts_show, environment: Vec::new() },
            board: Arc::default(),
            slots: Vec::new(),
            tally: Tally::default(),
            feeding: JoinSet::new(),
            began: Instant::now(),
            started: 0,
            common,
        })
    }

    /// Starts all workers.
    pub(crate) fn fill(&mut self) -> Result<(), Error> {
        while (self.slots.len() as u64) < self.common.processes {
            let process = self.start()?;
            self.slots.push(process);
        }
        Ok(())
    }

    /// Lets the clients begin.
    pub(crate) fn feed(&mut self) {
        for _ in 0..self.common.instances {
            self.feeding.spawn(Arc::clone(&self.clients).serve());
        }
    }

    /// Starts workers and clients, and waits until every worker has worked. What it gives is empty, unless that never
    /// happens.
    pub(crate) async fn open(&mut self) -> Result<Vec<String>, Error> {
        self.fill()?;
        self.feed();
        self.all_work().await
    }

    /// Waits until every worker has worked.
    pub(crate) async fn all_work(&mut self) -> Result<Vec<String>, Error> {
        while !self.board.all_have_worked() {
            if self.is_stuck() {
                return self.stuck("not all workers have begun to work").await;
            }
            tokio::time::sleep(LOOK).await;
        }
        Ok(Vec::new())
    }

    /// One more worker, in no slot yet.
    pub(crate) fn start(&mut self) -> Result<Process, Error> {
        let worker = self.worker.clone();
        self.start_as(&worker)
    }

    /// The same, started with something else.
    pub(crate) fn start_as(&mut self, worker: &Worker) -> Result<Process, Error> {
        let number = self.started;
        self.started += 1;
        self.board.expect(number);
        let board = Arc::clone(&self.board);
        Process::start(number, worker, move |line| board.hear(number, line))
    }

    pub(crate) fn lease(&self) -> Duration {
        self.common.lease()
    }

    /// How long nothing may end.
    pub(crate) fn stuck_after(&self) -> Duration {
        (self.lease() * STUCK_LEASES).max(STUCK_MIN)
    }

    /// Whether nothing has ended for too long.
    pub(crate) fn is_stuck(&self) -> bool {
        self.clients.since_last_end() > self.stuck_after()
    }

    pub(crate) async fn snapshot(&self) -> Result<Snapshot, Error> {
        Ok(collect(&**self.hub.manage()).await?)
    }

    /// A worker that ends by itself has found something that must never be: it is told, and replaced.
    pub(crate) fn look_after_workers(&mut self) -> Result<(), Error> {
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
    pub(crate) fn replace(&mut self, slot: usize) -> Result<Process, Error> {
        let fresh = self.start()?;
        self.tally.restarts += 1;
        Ok(std::mem::replace(&mut self.slots[slot], fresh))
    }

    /// Stops a process where it is. False when it stands inside a write, so that nobody else can write.
    pub(crate) async fn stop_outside_a_write(&mut self, slot: usize) -> Result<bool, Error> {
        self.slots[slot].stop().await?;
        self.board.excuse(self.slots[slot].number);
        let inside = locks::is_inside_a_write(self.slots[slot].id(), &self.worker.store)?;
        self.tally.stops_blocking += u64::from(inside);
        Ok(!inside)
    }

    /// Lets a stopped process go on; from now on it is expected to be heard.
    pub(crate) fn resume(&mut self, slot: usize) -> Result<(), Error> {
        self.board.expect(self.slots[slot].number);
        self.slots[slot].resume()
    }

    /// Waits until everything has ended.
    async fn heal(&mut self) -> Result<Vec<String>, Error> {
        loop {
            if self.clients.open() == 0 && verify::rests(&self.snapshot().await?) {
                return Ok(Vec::new());
            }
            if self.is_stuck() {
                return self.stuck("not everything has ended since the storm is over").await;
            }
            self.look_after_workers()?;
            tokio::time::sleep(LOOK).await;
        }
    }

    /// What a run that does not go on waits for.
    pub(crate) async fn stuck(&self, why: &str) -> Result<Vec<String>, Error> {
        let snapshot = self.snapshot().await?;
        let (open, tasks) = (self.clients.open(), snapshot.tasks.len());
        let mut lines = vec![format!("stuck: {why}; {open} cases are open, {tasks} tasks are left")];
        lines.extend(verify::stuck(&snapshot));
        Ok(lines)
    }

    /// The storm is over: calm until everything has ended, then the end of all workers, and the verdict. `stuck` is
    /// what it waits for, if it did not come to its own end.
    pub(crate) async fn close(mut self, mut stuck: Vec<String>, own: Own) -> Result<Aftermath, Error> {
        self.clients.close();
        for process in &self.slots {
            self.board.excuse(process.number);
        }
        let calm = Instant::now();
        if stuck.is_empty() {
            stuck = self.heal().await?;
        }
        self.tally.heal = calm.elapsed();
        self.feeding.abort_all();
        for process in self.slots.drain(..) {
            let (number, status) = (process.number, process.retire().await?);
            if stuck.is_empty() && !status.success() {
                self.tally
                    .wrong
                    .push(format!("worker {number} did not end well when it was asked to: {status}"));
            }
        }
        self.tally.duration = self.began.elapsed();
        self.conclude(stuck, own).await
    }

    async fn conclude(mut self, stuck: Vec<String>, own: Own) -> Result<Aftermath, Error> {
        let file = &self.worker.store;
        // A handle that has seen nothing of the storm: what counts is what is in the file.
        let fresh = dauer::open(&url(file))?;
        let mut snapshot = collect(&**fresh.manage()).await?;
        let known = self.snapshot().await?;
        if (&known.instances, &known.tasks) != (&snapshot.instances, &snapshot.tasks) {
            self.tally
                .wrong
                .push("a handle that was open all the time sees another hub than a new one".into());
        }
        if let Some(tamper) = self.common.tamper {
            let copy = file.with_extension("tampered");
            let hub = tamper.copy(fresh.manage().as_ref(), &copy).await?;
            snapshot = collect(&**hub.manage()).await?;
        }
        self.write_journal()?;
        let findings = verify::verify(&snapshot, &self.clients);
        let damage = verify::integrity(file)?.into_iter();
        self.tally.wrong.extend(damage.map(|line| format!("the file: {line}")));
        let figures = Figures::new(&self.common, (self.tally, self.board.sums()), findings, own);
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
