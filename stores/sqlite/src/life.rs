//! Which sessions live: each has a file beside the database that is locked for as long as its process lives.
//!
//! The system releases the lock when the process dies, however it dies. A process that gets the lock of another's
//! session therefore has the proof that its host is dead, and need not wait until the lease has run out. A file that is missing
//! proves nothing: then the lease decides, as it would between machines.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dauer_store::{SessionId, Timestamp};

use crate::open::{private_file, side_path};

/// How often a writer looks whether the others live: a few system calls each, and a dead host is noticed soon.
pub(crate) const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The locks of one handle, and a view on those of others.
pub(crate) struct Lives {
    database: PathBuf,
    /// The sessions of this handle, with the files that are locked for them.
    own: Mutex<BTreeMap<SessionId, File>>,
    /// When a claim last looked at the others, and when the idle writer did.
    looked_by_claim: Mutex<Option<Timestamp>>,
    looked_by_writer: Mutex<Option<Timestamp>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every value in here is whole between two statements.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_time(looked: &Mutex<Option<Timestamp>>, now: Timestamp) -> bool {
    let mut looked = lock(looked);
    // A clock that was put back does not put off the look.
    let due = looked.is_none_or(|at| now < at || now.since(at) >= LOOK_EVERY);
    if due {
        *looked = Some(now);
    }
    due
}

impl Lives {
    pub(crate) fn new(database: &Path) -> Self {
        Self {
            database: database.into(),
            own: Mutex::default(),
            looked_by_claim: Mutex::default(),
            looked_by_writer: Mutex::default(),
        }
    }

    fn path(&self, session: SessionId) -> PathBuf {
        side_path(&self.database, &format!("session-{:032x}", session.0))
    }

    /// Before a session is in the file: its lock, until it ends or the process does.
    pub(crate) fn begin(&self, session: SessionId) -> io::Result<()> {
        let mut own = lock(&self.own);
        if own.contains_key(&session) {
            return Ok(());
        }
        let file = private_file(&self.path(session))?;
        file.try_lock()?;
        own.insert(session, file);
        Ok(())
    }

    /// After a session has ended.
    pub(crate) fn end(&self, session: SessionId) {
        if lock(&self.own).remove(&session).is_some() {
            self.bury(session);
        }
    }

    /// Whether that session is one of this handle.
    pub(crate) fn is_own(&self, session: SessionId) -> bool {
        lock(&self.own).contains_key(&session)
    }

    /// Whether it is time for a claim to look at the others; the caller does if so.
    pub(crate) fn is_time_for_claim(&self, now: Timestamp) -> bool {
        is_time(&self.looked_by_claim, now)
    }

    /// Whether it is time for the writer to look at the others: only if a session of this handle could take over.
    pub(crate) fn is_time_for_writer(&self, now: Timestamp) -> bool {
        !lock(&self.own).is_empty() && is_time(&self.looked_by_writer, now)
    }

    /// A host was found dead: the next claim looks at once.
    pub(crate) fn look_at_claim(&self) {
        *lock(&self.looked_by_claim) = None;
    }

    /// Whether there is proof that the process of a session is dead.
    pub(crate) fn is_dead(&self, session: SessionId) -> bool {
        if self.is_own(session) {
            return false;
        }
        let file = OpenOptions::new().read(true).write(true).open(self.path(session));
        file.is_ok_and(|file| file.try_lock().is_ok())
    }

    /// Removes the file of a session that is gone from the database. One that cannot be removed does no harm.
    pub(crate) fn bury(&self, session: SessionId) {
        let _ = std::fs::remove_file(self.path(session));
    }

    /// The sessions that have a file here and no living process: what a crash has left.
    pub(crate) fn left_behind(&self) -> Vec<SessionId> {
        let folder = self.database.parent().filter(|folder| !folder.as_os_str().is_empty());
        let prefix = side_path(&self.database, "session-");
        let Some(prefix) = prefix.file_name().map(|name| name.to_string_lossy().into_owned()) else {
            return Vec::new();
        };
        // A folder that cannot be listed keeps its files. That costs space, nothing else.
        let Ok(files) = std::fs::read_dir(folder.unwrap_or(Path::new("."))) else { return Vec::new() };
        let names = files.flatten().map(|file| file.file_name().to_string_lossy().into_owned());
        let ids = names.filter_map(|name| u128::from_str_radix(name.strip_prefix(&prefix)?, 16).ok());
        ids.map(SessionId).filter(|session| self.is_dead(*session)).collect()
    }
}
