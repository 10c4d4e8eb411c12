//! The storm of failing disks: under each worker syncs and writes fail with EIO for a moment, or the worker is killed at
//! the k-th system call that changes a file, while the others and the clients go on with the same file.
//!
//! A commit whose sync failed has an unknown outcome; it is asked again, and counts once. Here the system's memory
//! survives; what a loss of power would leave is for `testkit/power`.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dauer_sim::random::Random;

use crate::error::Error;
use crate::figures::Own;
use crate::options::Common;
use crate::preload::failing_disk;
use crate::process::Process;
use crate::stage::{Aftermath, LOOK, Stage};
use crate::worker::Worker;

/// Before which of its syncs or writes it fails: behind the first steps of a worker, and soon.
const FROM_MAX: u64 = 300;

/// How many calls in a row fail: one, and so many that a second and a third attempt meet the fault too.
const FAILURES: [u64; 3] = [1, 4, 12];

/// How long a worker lives on after its fault, at most; every other one is killed at once.
const AFTERLIFE_MAX: Duration = Duration::from_millis(500);

/// What is asked for.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Failing {
    #[command(flatten)]
    pub(crate) common: Common,
    /// Faults that have to be met.
    #[arg(long, default_value_t = 60)]
    faults: u64,
    /// A worker whose fault has not come by then has too little to do, and is started anew.
    #[arg(long, default_value_t = 10_000)]
    patience_ms: u64,
    /// A negative control: nothing fails.
    #[arg(long, hide = true)]
    harmless: bool,
}

/// What is wrong with a worker's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Sync,
    Write,
    Kill,
}

/// One worker's fate.
struct Fate {
    fault: Fault,
    since: Instant,
    log: PathBuf,
}

#[derive(Default)]
struct Counts {
    syncs: u64,
    writes: u64,
    kills: u64,
    late: u64,
    made: u64,
}

impl Counts {
    fn met(&self) -> u64 {
        self.syncs + self.writes + self.kills
    }
}

impl Failing {
    /// All of it.
    pub(crate) async fn run(self, file: PathBuf) -> Result<Aftermath, Error> {
        let root = file.parent().map(PathBuf::from).unwrap_or_default();
        // The library writes its records beside the folder that it watches.
        let disk = root.join("disk");
        std::fs::create_dir_all(&disk)?;
        let mut stage = Stage::new(self.common.clone(), disk.join("storm.db"))?;
        let (mut counts, mut fates) = (Counts::default(), Vec::new());
        for _ in 0..self.common.processes {
            let (process, fate) = self.start(&mut stage, &root, &mut counts)?;
            stage.slots.push(process);
            fates.push(fate);
        }
        stage.feed();
        let mut stuck = Vec::new();
        while stuck.is_empty() && counts.met() < self.faults {
            tokio::time::sleep(LOOK).await;
            for (slot, fate) in fates.iter_mut().enumerate() {
                self.look(&mut stage, (slot, fate, &root), &mut counts).await?;
            }
            let given_up = counts.late > self.faults + self.common.processes;
            if given_up || stage.is_stuck() {
                stuck = stage.stuck("too few faults were met, or no instance has ended for long").await?;
            }
        }
        // Those that are left have healthy disks from here on.
        for slot in 0..stage.slots.len() {
            let old = stage.replace(slot)?;
            stage.board.excuse(old.number);
            old.kill().await?;
        }
        let mut own = Own::new("failing disks");
        own.count("faults_met", counts.met());
        own.count("syncs_failed_met", counts.syncs);
        own.count("writes_failed_met", counts.writes);
        own.count("kills_at_a_system_call", counts.kills);
        own.count("workers_that_met_no_fault", counts.late);
        own.demand(counts.met() >= self.faults, "too few faults were met");
        stage.close(stuck, own).await
    }

    /// A worker with a fault before it.
    fn start(&self, stage: &mut Stage, root: &Path, counts: &mut Counts) -> Result<(Process, Fate), Error> {
        let (fault, plan) = draw(&mut stage.random);
        let plan = if self.harmless { "watch".to_owned() } else { plan };
        let log = root.join(format!("records{}", counts.made));
        counts.made += 1;
        let environment = failing_disk(&root.join("disk"), &log, &plan)?;
        let process = stage.start_as(&Worker { environment, ..stage.worker.clone() })?;
        Ok((process, Fate { fault, since: Instant::now(), log }))
    }

    /// Whether a worker has met its fault; if so another one takes its place, sooner or later.
    async fn look(
        &self,
        stage: &mut Stage,
        (slot, fate, root): (usize, &mut Fate, &Path),
        counts: &mut Counts,
    ) -> Result<(), Error> {
        let number = stage.slots[slot].number;
        let ended = stage.slots[slot].has_ended()?;
        let late = fate.since.elapsed() > Duration::from_millis(self.patience_ms);
        match (fate.fault, ended) {
            (Fault::Kill, Some(status)) if !status.success() && status.code().is_none() => counts.kills += 1,
            (_, Some(status)) => {
                stage.tally.wrong.push(format!("worker {number} ended by itself: {status}"));
            }
            (Fault::Sync, None) if stage.board.again_by(number) > 0 => counts.syncs += 1,
            (Fault::Write, None) if stage.board.again_by(number) > 0 => counts.writes += 1,
            (_, None) if late => counts.late += 1,
            (_, None) => return Ok(()),
        }
        if ended.is_none() && stage.random.chance(5_000) {
            tokio::time::sleep(stage.random.duration(AFTERLIFE_MAX)).await;
        }
        let (fresh, next) = self.start(stage, root, counts)?;
        stage.tally.restarts += 1;
        let old = std::mem::replace(&mut stage.slots[slot], fresh);
        stage.board.excuse(old.number);
        if ended.is_none() {
            old.kill().await?;
        }
        std::fs::remove_file(std::mem::replace(fate, next).log)?;
        Ok(())
    }
}

fn draw(random: &mut Random) -> (Fault, String) {
    let (from, failures) = (random.between(10, FROM_MAX), FAILURES[random.index(FAILURES.len())]);
    match random.below(4) {
        0 => (Fault::Kill, format!("kill-before={from}")),
        1 => (Fault::Write, format!("write-fails={from}x{failures}")),
        _ => (Fault::Sync, format!("sync-fails={from}x{failures}")),
    }
}
