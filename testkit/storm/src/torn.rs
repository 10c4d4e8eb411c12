//! The storm of torn logs: all workers are killed at once, and the write-ahead log they leave is damaged before anyone
//! opens the file again.
//!
//! What it means for the checks:
//! - *Behind the last commit* lies what nobody was ever told of. Whatever happens to it (cut off, half a frame, zeros,
//!   noise, old frames), the hub must be as it was to the last bit, and the storm goes on with that very file: at its
//!   end every acknowledgement since the beginning counts.
//! - *Before the last commit* a tear takes what was acknowledged, as no disk that keeps its promises does. Then the file
//!   must open all the same, be whole, satisfy the auditor, and be an earlier state of the same hub: every instance as
//!   it was at some moment, every history a prefix of what it became. Nothing half, and nothing that never was.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use dauer_audit::{Evidence, Settings, Snapshot, audit, collect};
use dauer_sim::random::Random;

use crate::error::Error;
use crate::figures::Own;
use crate::options::Common;
use crate::prefix::{Earlier, compare};
use crate::stage::{Aftermath, Stage, url};
use crate::verify;
use crate::wal::Log;

/// How long the workers work between two tears.
const WORK_MIN: Duration = Duration::from_millis(300);
const WORK_MORE: Duration = Duration::from_millis(900);

/// The most that is written behind the last commit: some frames.
const NOISE_MAX: u64 = 20_000;

/// The name of the file in each folder.
const NAME: &str = "storm.db";

/// What is asked for.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Torn {
    #[command(flatten)]
    pub(crate) common: Common,
    /// How often all workers are killed and the log is torn behind its last commit.
    #[arg(long, default_value_t = 20)]
    tears: u64,
    /// Tears before the last commit each time, each in a copy of its own.
    #[arg(long, default_value_t = 5)]
    cuts: u64,
    /// A negative control: what should be torn behind the last commit is torn before it.
    #[arg(long, hide = true)]
    too_early: bool,
}

#[derive(Default)]
struct Counts {
    tears: u64,
    uncommitted: u64,
    unseen: u64,
    tails_damaged: u64,
    cuts: u64,
    cuts_that_lost: u64,
    instances_lost: u64,
    revisions_lost: u64,
    compared: u64,
    audited: u64,
    commits_in_log: u64,
}

impl Torn {
    /// All of it.
    pub(crate) async fn run(self, file: PathBuf) -> Result<Aftermath, Error> {
        let root = file.parent().map(PathBuf::from).unwrap_or_default();
        let mut stage = Stage::new(self.common.clone(), file)?;
        let mut counts = Counts::default();
        let mut stuck = stage.open().await?;
        while stuck.is_empty() && counts.tears < self.tears {
            tokio::time::sleep(WORK_MIN + stage.random.duration(WORK_MORE)).await;
            stage.look_after_workers()?;
            self.tear(&mut stage, &root, &mut counts).await?;
            stuck = stage.all_work().await?;
        }
        let mut own = Own::new("torn logs");
        own.count("tears", counts.tears);
        own.count("logs_with_an_uncommitted_tail", counts.uncommitted);
        own.count("logs_with_a_commit_nobody_saw", counts.unseen);
        own.count("tails_damaged", counts.tails_damaged);
        own.count("cuts_before_the_last_commit", counts.cuts);
        own.count("cuts_that_lost_something", counts.cuts_that_lost);
        own.count("cuts_instances_compared", counts.compared);
        own.count("cuts_audit_checked", counts.audited);
        own.count("cuts_instances_lost", counts.instances_lost);
        own.count("cuts_revisions_lost", counts.revisions_lost);
        own.count("commits_in_logs", counts.commits_in_log);
        own.demand(counts.tears >= self.tears, "too few tears");
        own.demand(counts.tails_damaged > 0, "no log was damaged, so nothing was tested");
        let bites = self.cuts == 0 || counts.cuts_that_lost > 0;
        own.demand(bites, "no cut took anything, so no earlier state was tested");
        stage.close(stuck, own).await
    }

    /// Kills everyone, tears, and lets them go on with what is left.
    async fn tear(&self, stage: &mut Stage, root: &Path, counts: &mut Counts) -> Result<(), Error> {
        for process in std::mem::take(&mut stage.slots) {
            let number = process.number;
            process.kill().await?;
            stage.board.excuse(number);
            stage.tally.restarts += 1;
        }
        counts.tears += 1;
        let clients = Arc::clone(&stage.clients);
        let calm = clients.pause().await;
        let old = stage.worker.store.clone();
        let full = self.whole(stage, root, counts).await?;
        let shared = copy(&old, &root.join(format!("torn{}", counts.tears)))?;
        let bytes = read(&side(&shared.file, "-wal"))?;
        let log = Log::read(&bytes);
        if let Some(log) = &log {
            counts.commits_in_log += log.commits.len() as u64;
            counts.uncommitted += u64::from(log.fits > log.end());
            let range = log.tearable(&shared.memory);
            for number in 0..if range.is_empty() { 0 } else { self.cuts } {
                let folder = root.join(format!("cut{}-{number}", counts.tears));
                let cut = copy(&old, &folder)?.file;
                let at = range.start + stage.random.index(range.len());
                std::fs::write(side(&cut, "-wal"), damaged(&bytes, at, &mut stage.random))?;
                self.judge_cut(stage, (&cut, &full), counts).await?;
                std::fs::remove_dir_all(folder)?;
            }
        }
        let end = log.as_ref().map_or(0, Log::end);
        let end = if self.too_early { end.saturating_sub(1) } else { end };
        let torn = damaged(&bytes, end, &mut stage.random);
        counts.tails_damaged += u64::from(torn != bytes);
        std::fs::write(side(&shared.file, "-wal"), torn)?;
        self.go_on(stage, shared.file, &full).await?;
        drop(calm);
        if let Some(place) = old.parent().filter(|place| *place != root && !self.too_early) {
            std::fs::remove_dir_all(place)?;
        }
        stage.fill()
    }

    /// The hub as it is when the file is opened anew with its log as it was left. That may be more than who has had
    /// the file open sees: one that is killed after its commit is in the log, and before it is in the memory that the
    /// processes share, was never told that it had happened, and both is right.
    async fn whole(&self, stage: &mut Stage, root: &Path, counts: &mut Counts) -> Result<Snapshot, Error> {
        let seen = stage.snapshot().await?;
        let folder = root.join("whole");
        let hub = dauer::open(&url(&copy(&stage.worker.store, &folder)?.file))?;
        let whole = collect(&**hub.manage()).await?;
        counts.unseen += u64::from((&seen.instances, &seen.tasks) != (&whole.instances, &whole.tasks));
        let wrong = compare(&seen, &whole).wrong.into_iter();
        stage.tally.wrong.extend(wrong.map(|line| format!("a log as it was left: {line}")));
        hub.close().await;
        std::fs::remove_dir_all(folder)?;
        Ok(whole)
    }

    /// An earlier state of the same hub, and whole.
    async fn judge_cut(
        &self,
        stage: &mut Stage,
        (file, full): (&Path, &Snapshot),
        counts: &mut Counts,
    ) -> Result<(), Error> {
        let hub = dauer::open(&url(file))?;
        let cut = collect(&**hub.manage()).await?;
        let report = audit(&cut, &Evidence { client: None, commits: None }, &Settings::default());
        let Earlier { wrong, compared, instances_lost, revisions_lost } = compare(&cut, full);
        counts.cuts += 1;
        counts.compared += compared;
        counts.audited += report.checked();
        counts.instances_lost += instances_lost;
        counts.revisions_lost += revisions_lost;
        counts.cuts_that_lost += u64::from(instances_lost + revisions_lost > 0);
        let wrong = wrong.into_iter().map(|line| format!("a cut log: {line}"));
        stage.tally.wrong.extend(wrong);
        let violations = report.violations();
        let violations =
            violations.map(|(invariant, violation)| format!("a cut log: {}: {violation}", invariant.code()));
        stage.tally.wrong.extend(violations);
        hub.close().await;
        let damage = verify::integrity(file)?;
        stage.tally.wrong.extend(damage.into_iter().map(|line| format!("a cut log: the file: {line}")));
        Ok(())
    }

    /// The same hub to the last bit, in another file, with which everyone goes on.
    async fn go_on(&self, stage: &mut Stage, file: PathBuf, full: &Snapshot) -> Result<(), Error> {
        let (hub, clients) = (dauer::open(&url(&file))?, dauer::open(&url(&file))?);
        let left = collect(&**hub.manage()).await?;
        if (&left.instances, &left.tasks) != (&full.instances, &full.tasks) {
            let Earlier { instances_lost, revisions_lost, .. } = compare(&left, full);
            stage.tally.wrong.push(format!(
                "torn behind the last commit, a hub is not as it was: it lacks {instances_lost} instances and {revisions_lost} revisions"
            ));
        }
        if self.too_early {
            // The control has shown what it is for; with what is lost no client could go on.
            return Ok(());
        }
        stage.clients.switch(clients);
        std::mem::replace(&mut stage.hub, hub).close().await;
        stage.worker.store = file;
        Ok(())
    }
}

/// A copy of the file with what belongs to it, but for the memory that the processes shared: after a crash nobody may
/// rely on that.
struct Copied {
    file: PathBuf,
    memory: Vec<u8>,
}

fn side(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn read(file: &Path) -> Result<Vec<u8>, Error> {
    match std::fs::read(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        other => Ok(other?),
    }
}

/// Copies by another process: when this one closed the file, the system would forget the locks that its own handles
/// have on it.
fn copy(file: &Path, folder: &Path) -> Result<Copied, Error> {
    std::fs::create_dir_all(folder)?;
    let place = file.parent().unwrap_or(Path::new("."));
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(place)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_file() && name.starts_with(NAME) {
            sources.push(path);
        }
    }
    let status = Command::new("cp").args(&sources).arg(folder).status()?;
    if !status.success() {
        return Err(Error::System(std::io::Error::other("a file could not be copied")));
    }
    let (file, memory) = (folder.join(NAME), folder.join(format!("{NAME}-shm")));
    let copied = Copied { memory: read(&memory)?, file };
    std::fs::remove_file(memory)?;
    Ok(copied)
}

/// What is left of a log when it is whole up to there: cut off, or followed by zeros, noise, or what was there before.
fn damaged(log: &[u8], at: usize, random: &mut Random) -> Vec<u8> {
    let (mut kept, rest) = (log[..at].to_vec(), &log[at..]);
    let more = usize::try_from(random.between(1, NOISE_MAX)).unwrap_or(1);
    match random.below(5) {
        0 => {}
        1 => kept.extend(std::iter::repeat_n(0, rest.len().max(more))),
        2 => kept.extend((0..more).map(|_| u8::try_from(random.below(256)).unwrap_or_default())),
        // One bit of what is there, so that all behind it no longer fits.
        3 if !rest.is_empty() => {
            kept.extend_from_slice(rest);
            kept[at] ^= 1;
        }
        // Old frames, as a log that is written over again and again has them behind its end.
        _ => kept.extend_from_slice(&log[..more.min(log.len())]),
    }
    kept
}
