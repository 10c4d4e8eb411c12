//! The file without the store, for the limit of the benchmark: settings and counting as the store has them. Not for
//! users, and nothing that they may rely on.

use std::path::Path;

use dauer_store::Effort;

use crate::engine::Tally;
use crate::options::{Durability, OpenError};

/// A connection to a file that a store has made, with the settings of a store.
///
/// # Errors
/// [`OpenError`] when the file cannot be used.
pub fn connect(path: &Path) -> Result<rusqlite::Connection, OpenError> {
    crate::open::connect(path, Durability::default())
}

/// Counts what is done to a file, as a store does.
pub struct Count(Tally);

impl Count {
    /// Counts from now on.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self(Tally::new(path, Durability::default()))
    }

    /// This was done. Accesses to the disk are not told but found out.
    pub fn add(&self, effort: &Effort) {
        self.0.add(effort);
    }

    /// All that was done.
    #[must_use]
    pub fn read(&self) -> Effort {
        self.0.read()
    }
}
