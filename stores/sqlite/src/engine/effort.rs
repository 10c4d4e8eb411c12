//! The cost of what a handle has done.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use dauer_store::Effort;

use crate::options::Durability;

/// The syncs of a restart of the log: of the log, of the file that its pages move into, and of the new beginning.
const RESTART_SYNCS: u64 = 3;

/// Counted by the writer, read by anyone.
pub(crate) struct Tally {
    log: PathBuf,
    /// Whether every commit is made durable at once.
    synced: bool,
    /// Restarts of the log before the file was opened.
    restarts_before: u32,
    commits: AtomicU64,
    turns: AtomicU64,
    claims: AtomicU64,
    statements: AtomicU64,
    rows: AtomicU64,
}

impl Tally {
    pub(crate) fn new(database: &Path, durability: Durability) -> Self {
        let mut log = database.as_os_str().to_owned();
        log.push("-wal");
        let log = PathBuf::from(log);
        Self {
            restarts_before: restarts(&log),
            log,
            synced: durability == Durability::Full,
            commits: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            claims: AtomicU64::new(0),
            statements: AtomicU64::new(0),
            rows: AtomicU64::new(0),
        }
    }

    pub(crate) fn add(&self, effort: &Effort) {
        for (sum, more) in [
            (&self.commits, effort.commits),
            (&self.turns, effort.turns),
            (&self.claims, effort.claims),
            (&self.statements, effort.statements),
            (&self.rows, effort.rows),
        ] {
            sum.fetch_add(more, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Effort {
        let load = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        let commits = load(&self.commits);
        let restarted = u64::from(restarts(&self.log).saturating_sub(self.restarts_before));
        Effort {
            commits,
            turns: load(&self.turns),
            claims: load(&self.claims),
            statements: load(&self.statements),
            rows: load(&self.rows),
            syncs: if self.synced { commits } else { 0 } + RESTART_SYNCS * restarted,
        }
    }
}

/// The restarts of the log, a number in its head. SQLite puts no locks on the log itself, so that it may be opened beside it.
/// A log that cannot be read counts as 0: the number is only shown.
fn restarts(log: &Path) -> u32 {
    let mut head = [0; 16];
    let read = File::open(log).and_then(|mut log| log.read_exact(&mut head));
    read.map_or(0, |()| u32::from_be_bytes([head[12], head[13], head[14], head[15]]))
}
