//! How a store is opened, and why it may not be.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use dauer_store::{Clock, StoreLimits, SystemClock};
use dauer_store_kit::judge::default_limits;

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The loss of power (`synchronous=FULL`).
    #[default]
    Full,
    /// The death of the process, not the loss of power (`synchronous=NORMAL`): the last writes before it may be gone,
    /// the file stays whole.
    Normal,
}

/// The settings of a store.
#[derive(Clone)]
pub struct Options {
    /// What an acknowledged write survives.
    pub durability: Durability,
    /// The time of this handle. The file's time is the latest that any handle has written.
    pub clock: Arc<dyn Clock>,
    /// The largest things it takes.
    pub limits: StoreLimits,
    /// How much of the file is held in memory.
    pub memory: Memory,
    /// How many instances the index of tags may be behind. A query by tag reads that many rows beyond those it finds, which
    /// takes a millisecond or two with the default. In return a start writes fewer pages.
    pub tags_behind: usize,
}

/// How much of the file is held in memory, so that it need not be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Instances. What runs at the same time is far less than the default; each takes one or two kilobytes.
    pub instances: usize,
    /// Waiting messages of one instance. Beyond, a turn takes them a part at a time from the file.
    pub messages: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Self { instances: 8_192, messages: 64 }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            durability: Durability::Full,
            clock: Arc::new(SystemClock::new()),
            limits: default_limits(),
            memory: Memory::default(),
            // An instance of a hundred customers then writes a tenth of a page.
            tags_behind: 1_024,
        }
    }
}

/// Why a file could not be opened as a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The folder of the file does not exist.
    #[error("{0:?} is in a folder that does not exist; create the folder first")]
    DirectoryMissing(PathBuf),
    /// The path is a folder, a device or the like.
    #[error("{0:?} is not a file; give the path of a file that exists or can be created")]
    NotAFile(PathBuf),
    /// The file is there and is something else.
    #[error("{0:?} is not a dauer store; give another path, or move that file away")]
    NotADatabase(PathBuf),
    /// The file was written by a newer dauer.
    #[error("{path:?} has format {format}; use a newer dauer")]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// The file was written by an older dauer, in a format that this one cannot migrate. It was not changed.
    #[error(
        "{path:?} has format {format}, which this dauer cannot migrate; finish its work with the dauer that wrote it, or move the file away"
    )]
    Older {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
    /// The file is of an older format, and something in it cannot be read. It was not changed.
    #[error(
        "{path:?} could not be brought to the current format; open it with the dauer that wrote it, and dump it"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What cannot be read.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file or its folder cannot be written.
    #[error("{path:?} cannot be written; give this user write access to the file and its folder")]
    ReadOnly {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The file lies on a network file system, whose locks cannot be trusted.
    #[error("{path:?} is on a network file system ({kind}), where SQLite loses data; use a local disk")]
    Network {
        /// The file.
        path: PathBuf,
        /// Which.
        kind: &'static str,
    },
    /// SQLite failed.
    #[error("{path:?} could not be opened")]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        #[source]
        source: rusqlite::Error,
    },
    /// The system failed.
    #[error("{path:?} could not be opened")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}
