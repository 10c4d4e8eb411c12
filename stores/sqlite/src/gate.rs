//! The gate between the processes on one file: the writer has it.
//!
//! SQLite's own lock is not fair: a process that writes again at once starves the others. Two file locks make it fair.
//! A writer first takes the turnstile, then the gate, and leaves the turnstile as soon as it has the gate; to write
//! again it has to queue at the turnstile, where those who wait for the gate are before it. The locks belong to open
//! files, so that they also hold between two handles of one process, and go when the process dies.

use std::fs::File;
use std::io;
use std::path::Path;

use crate::open::{private_file, side_path};

/// Both locks of one handle.
pub(crate) struct Gate {
    turnstile: File,
    gate: File,
}

impl Gate {
    /// Opens the files of the locks beside the database.
    pub(crate) fn open(database: &Path) -> io::Result<Self> {
        Ok(Self {
            turnstile: private_file(&side_path(database, "turnstile"))?,
            gate: private_file(&side_path(database, "gate"))?,
        })
    }

    /// The file that the holder of the gate may write: see [`crate::touched`].
    pub(crate) fn file(&self) -> &File {
        &self.gate
    }

    /// Waits for its turn.
    pub(crate) fn pass(&self) -> io::Result<Passage<'_>> {
        self.turnstile.lock()?;
        let entered = self.gate.lock();
        self.turnstile.unlock()?;
        entered.map(|()| Passage { gate: &self.gate })
    }
}

/// The right to write, until it is dropped.
pub(crate) struct Passage<'a> {
    gate: &'a File,
}

impl Drop for Passage<'_> {
    fn drop(&mut self) {
        // A lock that cannot be released goes with the file; SQLite's own lock keeps writers apart meanwhile.
        let _ = self.gate.unlock();
    }
}
