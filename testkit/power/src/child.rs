//! The role of a child: works on the store under the shim, and tells its parent of every answer, until it is done or
//! dead.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use dauer_sqlite::{Durability, OpenError, Options, SqliteStore};
use dauer_store::HubName;
use rusqlite::{Connection, OpenFlags};

use crate::error::Error;
use crate::life::{END_MAX, purge, work};
use crate::observed::{Honesty, observe};
use crate::programs::{Case, LIVES, cases};
use crate::told::{Tell, Told, now};

/// The pause before a store that did not open is opened again.
const AGAIN: Duration = Duration::from_millis(3);

/// What a child is started with.
#[derive(Debug, Clone, clap::Args)]
pub struct Child {
    /// The file.
    #[arg(long)]
    pub(crate) file: PathBuf,
    /// Acknowledge what a power loss may take.
    #[arg(long)]
    pub(crate) normal: bool,
    /// Planted: tell of starts and commits before they are carried out.
    #[arg(long)]
    pub(crate) hasty: bool,
    /// An earlier child has purged what is to be purged: it is not started again.
    #[arg(long)]
    pub(crate) purged: bool,
    /// Do all work without closing the store between.
    #[arg(long)]
    pub(crate) one_life: bool,
    /// End with the store open, as if killed.
    #[arg(long)]
    pub(crate) leave_open: bool,
}

impl Child {
    /// Does all work.
    ///
    /// # Errors
    /// When even the programs cannot be set up; what the store does wrong is told.
    pub async fn run(self) -> Result<(), Error> {
        let tell: Tell = Arc::new(|told: Told| told.say());
        let honesty = if self.hasty { Honesty::Hasty } else { Honesty::Honest };
        let durability = if self.normal { Durability::Normal } else { Durability::Full };
        for life in if self.one_life { LIVES - 1..LIVES } else { 0..LIVES } {
            let Some(store) = open(&self.file, durability, &tell).await else { return Ok(()) };
            let inner = store.hub(HubName::default());
            let hub = observe(inner, Arc::clone(&tell), honesty);
            let is_purged =
                |case: &&Case| case.purged && case.life + 2 == life && (self.purged || !self.one_life);
            for case in cases().iter().filter(is_purged) {
                purge(&hub, case, &tell).await?;
                restart_log(&self.file);
            }
            let is_now = |case: &Case| case.life == life || self.one_life;
            let is_due = |case: &Case| is_now(case) && !(case.purged && self.purged);
            let cases: Vec<_> = cases().into_iter().filter(is_due).collect();
            work(hub, &cases, &tell).await?;
            if life + 1 == LIVES {
                tell(Told::Done);
                if self.leave_open {
                    std::process::abort();
                }
            }
            store.close();
        }
        Ok(())
    }
}

/// Moves the log into the file while the store is open, so that the next write begins it anew over what lies in it: what
/// the store does by itself when its log has grown long.
fn restart_log(file: &Path) {
    let restart = || -> rusqlite::Result<()> {
        let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        connection.query_row("PRAGMA wal_checkpoint(RESTART)", [], |_| Ok(()))
    };
    // On a disk that fails the log stays as it is, which is as well.
    let _ = restart();
}

/// Opens the store, again and again while the disk fails; `None` when that takes too long, or the failure is taken for
/// something else.
async fn open(file: &Path, durability: Durability, tell: &Tell) -> Option<SqliteStore> {
    let began = now();
    while now().since(began) < END_MAX {
        match SqliteStore::open(file, Options { durability, ..Options::default() }) {
            Ok(store) => return Some(store),
            Err(error @ (OpenError::Sqlite { .. } | OpenError::Io { .. } | OpenError::ReadOnly { .. })) => {
                tell(Told::NotOpened(format!("{error:?}")));
                tokio::time::sleep(AGAIN).await;
            }
            Err(error) => {
                tell(Told::Complaint(format!("a failing disk was taken for something else: {error:?}")));
                return None;
            }
        }
    }
    tell(Told::Complaint("the store could not be opened any more".to_owned()));
    None
}
