//! A file system for SQLite that stands before the real one and lets accesses fail, in the process of the test and for
//! the files of one folder: quick enough for thousands of cases, which a shim before a process is not.
//!
//! [`FailingDisk::watch`] makes it the default of the process: every connection that is opened from then on goes through
//! it. Files outside of watched folders are as always.
//!
//! An access is a read, a write, a change of size or a sync of a file, or the removal of one. Locks and shared memory
//! never fail: they are not on the disk. A write that fails has written its first half, as disks do.

mod methods;
mod vfs;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which accesses can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads.
    Read,
    /// Writes, changes of size, removals.
    Change,
    /// Syncs.
    Sync,
    /// Changes and syncs.
    ChangeOrSync,
}

impl Access {
    fn covers(self, other: Self) -> bool {
        self == other || self == Self::ChangeOrSync && matches!(other, Self::Change | Self::Sync)
    }
}

/// What accesses fail with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// As if the disk were broken.
    Broken,
    /// As if it were full; syncs and reads are then as if it were broken.
    Full,
}

/// What is to fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// Which accesses.
    pub access: Access,
    /// How many of them go well before.
    pub after: u32,
    /// How many fail then.
    pub count: u32,
    /// With what.
    pub failure: Failure,
}

/// What is planned for the files of a folder.
#[derive(Debug)]
pub(crate) struct Plan {
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    fault: Option<Fault>,
    failed: u32,
}

impl Plan {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every value in here is whole between two statements.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this access fails, and how.
    pub(crate) fn strikes(&self, access: Access) -> Option<Failure> {
        let mut state = self.state();
        let fault = state.fault.as_mut().filter(|fault| fault.access.covers(access))?;
        if fault.after > 0 {
            fault.after -= 1;
            return None;
        }
        let failure = fault.failure;
        fault.count = fault.count.checked_sub(1)?;
        state.failed += 1;
        Some(failure)
    }
}

/// The folders that are watched.
pub(crate) static PLANS: Mutex<Vec<Arc<Plan>>> = Mutex::new(Vec::new());

/// The plan of the folder that a file lies in.
pub(crate) fn plan_of(file: &Path) -> Option<Arc<Plan>> {
    let plans = PLANS.lock().unwrap_or_else(PoisonError::into_inner);
    plans.iter().find(|plan| file.starts_with(&plan.folder)).cloned()
}

/// The disk under one folder, until it is dropped. Files that are open then stay as they are.
#[derive(Debug)]
pub struct FailingDisk {
    plan: Arc<Plan>,
}

impl FailingDisk {
    /// From now on the files that SQLite opens in that folder can fail.
    ///
    /// # Errors
    /// When the folder is not there.
    ///
    /// # Panics
    /// When SQLite has no file system of its own, or does not take another one.
    pub fn watch(folder: &Path) -> std::io::Result<Self> {
        vfs::register();
        let plan = Arc::new(Plan { folder: folder.canonicalize()?, state: Mutex::default() });
        PLANS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&plan));
        Ok(Self { plan })
    }

    /// From now on this fails, instead of whatever was to.
    pub fn fail(&self, fault: Fault) {
        *self.plan.state() = State { fault: Some(fault), failed: 0 };
    }

    /// From now on nothing fails; gives how many accesses have failed since [`FailingDisk::fail`].
    pub fn heal(&self) -> u32 {
        let mut state = self.plan.state();
        state.fault = None;
        std::mem::take(&mut state.failed)
    }
}

impl Drop for FailingDisk {
    fn drop(&mut self) {
        let mut plans = PLANS.lock().unwrap_or_else(PoisonError::into_inner);
        plans.retain(|plan| !Arc::ptr_eq(plan, &self.plan));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // A test fails by panicking.

    use rusqlite::Connection;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("dauer-vfs-{}-{name}", std::process::id()));
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn count(connection: &Connection) -> i64 {
        connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn every_access_of_a_transaction_can_fail_and_leaves_all_or_nothing() {
        let folder = Folder::new("every");
        let disk = FailingDisk::watch(&folder.0).unwrap();
        let open = || {
            let connection = Connection::open(folder.0.join("t.db")).unwrap();
            connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL").unwrap();
            connection
        };
        open().execute_batch("CREATE TABLE t (x)").unwrap();
        for failure in [Failure::Broken, Failure::Full] {
            let (mut failed, mut before) = (0, count(&open()));
            for after in 0..40 {
                let connection = open();
                disk.fail(Fault { access: Access::ChangeOrSync, after, count: 1, failure });
                let answer = connection.execute("INSERT INTO t VALUES (zeroblob(9000))", []);
                let struck = disk.heal();
                assert_eq!(answer.is_err(), struck > 0, "{answer:?} after {struck} failures");
                let now = count(&connection);
                assert_eq!(now, before + i64::from(answer.is_ok()));
                (failed, before) = (failed + struck, now);
                drop(connection);
            }
            assert!((4..40).contains(&failed), "{failed} accesses failed, not some of forty");
        }
    }

    #[test]
    fn reads_fail_and_heal_and_other_folders_are_left_alone() {
        let (folder, other) = (Folder::new("reads"), Folder::new("other"));
        let disk = FailingDisk::watch(&folder.0).unwrap();
        let make = |folder: &Folder| {
            let connection = Connection::open(folder.0.join("t.db")).unwrap();
            connection.execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (1)").unwrap();
        };
        make(&folder);
        make(&other);
        let broken = Connection::open(folder.0.join("t.db")).unwrap();
        disk.fail(Fault { access: Access::Read, after: 0, count: u32::MAX, failure: Failure::Broken });
        broken.query_row("SELECT count(*) FROM t", [], |_| Ok(())).unwrap_err();
        assert_eq!(count(&Connection::open(other.0.join("t.db")).unwrap()), 1);
        assert!(disk.heal() > 0);
        assert_eq!(count(&broken), 1);
    }
}
