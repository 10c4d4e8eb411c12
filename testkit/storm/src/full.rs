//! The storm of full disks: the file lies on a small disk of its own, which is filled to the last byte while workers and
//! clients write, and freed again. Meanwhile all that is asked is answered by an error that says so, what is there can be
//! read, and workers may die and be started; afterwards everything goes on, and nothing acknowledged is lost.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use dauer_audit::collect;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::error::Error;
use crate::figures::Own;
use crate::options::Common;
use crate::stage::{Aftermath, LOOK, Stage};

/// How long everyone works before the disk is filled.
const WORK_MIN: Duration = Duration::from_millis(300);
const WORK_MORE: Duration = Duration::from_millis(700);

/// How long it stays full, in leases: half of the times everybody's lease runs out, because no renewal can be written.
const FULL_LEASES_MAX: u32 = 2;

/// How the filler is written: in large pieces, then in small ones, until not one more byte finds room.
const PIECES: [usize; 3] = [1 << 20, 4096, 1];

/// Every how many times a worker is killed and another one started while the disk is full.
const KILL_EVERY: u64 = 2;

/// What is asked for.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Full {
    #[command(flatten)]
    pub(crate) common: Common,
    /// How often the disk is filled and freed.
    #[arg(long, default_value_t = 10)]
    fills: u64,
    /// The size of the disk: more than the file will ever need.
    #[arg(long, default_value_t = 128)]
    disk_mb: u64,
    /// From the moment that the disk is freed something must end within this time.
    #[arg(long, default_value_t = 10_000)]
    recovery_ms_max: u64,
    /// A negative control: the disk is not freed.
    #[arg(long, hide = true)]
    stays_full: bool,
}

/// A small disk in memory, until it is dropped.
struct Disk(PathBuf);

impl Disk {
    fn mount(folder: PathBuf, megabytes: u64) -> Result<Self, Error> {
        std::fs::create_dir_all(&folder)?;
        // A number and a word have no zero in them.
        let size = std::ffi::CString::new(format!("size={megabytes}m")).unwrap_or_default();
        match mount("dauer-storm", &folder, "tmpfs", MountFlags::empty(), size.as_c_str()) {
            Ok(()) => Ok(Self(folder)),
            Err(error) => Err(Error::Mount(folder, error.into())),
        }
    }

    /// Fills it to the last byte.
    fn fill(&self) -> Result<(), Error> {
        let mut filler = File::create(self.filler())?;
        for piece in PIECES {
            let piece = vec![0; piece];
            loop {
                match filler.write(&piece) {
                    Ok(written) if written == piece.len() => {}
                    Ok(_) => break,
                    Err(error) if error.kind() == std::io::ErrorKind::StorageFull => break,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn free(&self) -> Result<(), Error> {
        Ok(std::fs::remove_file(self.filler())?)
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Now from the tree, and from memory when the last file on it is closed.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

#[derive(Default)]
struct Counts {
    fills: u64,
    noticed_by_clients: u64,
    noticed_by_workers: u64,
    reads: u64,
    started: u64,
    not_started: u64,
    longest: Duration,
    recovery_longest: Duration,
}

impl Full {
    /// All of it.
    pub(crate) async fn run(self, file: PathBuf) -> Result<Aftermath, Error> {
        let root = file.parent().map(PathBuf::from).unwrap_or_default();
        let disk = Disk::mount(root.join("disk"), self.disk_mb)?;
        let mut stage = Stage::new(self.common.clone(), disk.0.join("storm.db"))?;
        let mut counts = Counts::default();
        let mut stuck = stage.open().await?;
        while stuck.is_empty() && counts.fills < self.fills {
            tokio::time::sleep(WORK_MIN + stage.random.duration(WORK_MORE)).await;
            stage.look_after_workers()?;
            stuck = self.fill(&mut stage, &disk, &mut counts).await?;
        }
        let mut own = Own::new("full disks");
        own.count("fills", counts.fills);
        own.count("clients_refused_while_full", counts.noticed_by_clients);
        own.count("workers_refused_while_full", counts.noticed_by_workers);
        own.count("reads_while_full", counts.reads);
        own.count("workers_started_while_full", counts.started);
        own.count("workers_not_started_while_full", counts.not_started);
        own.count("full_ms_longest", millis(counts.longest));
        own.count("recovery_ms_longest", millis(counts.recovery_longest));
        let typed = stage.clients.refusals();
        let says_so = typed.iter().filter(|(text, _)| text.contains("disk is full"));
        own.count("refusals_that_say_so", says_so.map(|(_, count)| count).sum());
        let (clients, workers) = (counts.noticed_by_clients, counts.noticed_by_workers);
        own.demand(clients > 0 && workers > 0, "nobody noticed that the disk was full");
        own.demand(counts.fills >= self.fills, "the disk was filled too few times");
        let in_time = counts.recovery_longest <= Duration::from_millis(self.recovery_ms_max);
        own.demand(in_time, "it took too long to go on when the disk was freed");
        for (text, count) in typed {
            stage.tally.told.insert(format!("to clients: {text}"), count);
        }
        let store = stage.worker.store.clone();
        let aftermath = stage.close(stuck, own).await?;
        if !aftermath.figures.is_clean() {
            // The disk goes with this process; what is to be looked at is put beside it.
            rescue(&store, &root)?;
        }
        Ok(aftermath)
    }

    /// Fills the disk for a while and frees it. What it gives is empty, unless nothing goes on afterwards.
    async fn fill(&self, stage: &mut Stage, disk: &Disk, counts: &mut Counts) -> Result<Vec<String>, Error> {
        let (by_clients, by_workers) = (stage.clients.refused(), stage.board.again());
        let began = Instant::now();
        disk.fill()?;
        counts.fills += 1;
        let stay = stage.random.duration(stage.lease() * FULL_LEASES_MAX);
        let mut newcomer = None;
        loop {
            let noticed = stage.clients.refused() > by_clients && stage.board.again() > by_workers;
            if noticed && newcomer.is_none() && counts.fills.is_multiple_of(KILL_EVERY) {
                let slot = stage.random.index(stage.slots.len());
                let old = stage.replace(slot)?;
                stage.board.excuse(old.number);
                old.kill().await?;
                counts.started += 1;
                newcomer = Some(slot);
            }
            if noticed && began.elapsed() >= stay {
                break;
            }
            if began.elapsed() > stage.stuck_after() {
                return stage.stuck("the disk is full, and not both clients and workers have noticed").await;
            }
            // What is there can be read.
            collect(&**stage.hub.manage()).await?;
            counts.reads += 1;
            tokio::time::sleep(LOOK).await;
        }
        counts.noticed_by_clients += stage.clients.refused() - by_clients;
        counts.noticed_by_workers += stage.board.again() - by_workers;
        counts.longest = counts.longest.max(began.elapsed());
        if self.stays_full {
            let stuck = stage.stuck("the disk was not freed").await;
            // Now it is: the verdict has to be written down.
            disk.free()?;
            return stuck;
        }
        let (ended, freed) = (stage.clients.ended(), Instant::now());
        disk.free()?;
        // One that was started on a full disk may say that it cannot; whoever lived before must live.
        if let Some(slot) = newcomer
            && stage.slots[slot].has_ended()?.is_some()
        {
            counts.not_started += 1;
            stage.board.excuse(stage.slots[slot].number);
            drop(stage.replace(slot)?);
        }
        while stage.clients.ended() == ended {
            if freed.elapsed() > stage.stuck_after() {
                return stage.stuck("nothing has ended since the disk was freed").await;
            }
            tokio::time::sleep(LOOK).await;
        }
        counts.recovery_longest = counts.recovery_longest.max(freed.elapsed());
        stage.all_work().await
    }
}

/// How often that is tried.
const RESCUES: usize = 3;

/// Copies what lies on the disk to where it stays, by another process: see the storm of torn logs.
fn rescue(store: &Path, root: &Path) -> Result<(), Error> {
    let (from, to) = (store.parent().unwrap_or(root), root.join("rescued"));
    std::fs::create_dir_all(&to)?;
    for _ in 0..RESCUES {
        let status = std::process::Command::new("cp").arg("-r").arg(from.join(".")).arg(&to).status()?;
        if status.success() {
            return Ok(());
        }
        // A worker that ended meanwhile has taken its log with it: what is left is copied once more.
    }
    let what = format!(
        "{} could not be copied to {}; see what cp says, and make room there",
        from.display(),
        to.display()
    );
    Err(Error::System(std::io::Error::other(what)))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
