//! Why a benchmark gives no figures.

use std::io;
use std::path::PathBuf;

/// Why there are no figures, or none that count.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store is not new.
    #[error("{path:?} is there and not empty; give a file that does not exist, or leave --store out")]
    NotEmpty {
        /// The file.
        path: PathBuf,
    },
    /// Another benchmark uses the same store now.
    #[error("{path:?} belongs to a benchmark that runs now; wait for its end, or give another store")]
    Running {
        /// The folder for temporary files.
        path: PathBuf,
    },
    /// The folder for temporary files is there, and no benchmark made it.
    #[error("{path:?} is there and not from a benchmark; remove or rename it, or give another store")]
    Foreign {
        /// The folder for temporary files.
        path: PathBuf,
    },
    /// The folder for temporary files could not be made, or not be used.
    #[error("{path:?} cannot be used; give a store in a folder that exists and can be written")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Open(#[from] dauer::OpenError),
    /// A worker cannot be made: two programs of one name.
    #[error(transparent)]
    Register(#[from] dauer::RegisterError),
    /// The store cannot be used.
    #[error("the store refused")]
    Refused(#[from] dauer::Refused),
    /// A call of the client failed.
    #[error("a call failed")]
    Client(#[from] dauer::ClientError),
    /// An orchestration came to a wrong result: nothing that was measured counts.
    #[error("the output of '{id}' is {found} instead of {expected}; please report this")]
    WrongOutput {
        /// Which instance.
        id: String,
        /// What it put out.
        found: String,
        /// What it should have.
        expected: String,
    },
    /// The audit found what must not be.
    #[error("the audit of the store is not clean; please report this:\n{0}")]
    Unclean(String),
    /// The worker ended by itself.
    #[error("the worker has ended by itself; please report this")]
    WorkerGone,
    /// A client's task ended by itself.
    #[error("a client has ended by itself; please report this")]
    ClientGone,
    /// What was expected in the file of the store is not there.
    #[error("the limit does not know this store's tables: {0}; please report this")]
    UnknownTables(String),
    /// The bare file could not be written.
    #[error("the file of the limit could not be written")]
    Bare(#[from] rusqlite::Error),
    /// The bare loop did not do what the store does.
    #[error("the limit is not comparable, it differs by more than {0} % from the store; please report this")]
    NotComparable(u32),
    /// Others used the cores in too many runs.
    #[error(
        "others had a part of the cores in {runs} runs; the last was left {free:.2} of them, and {wanted} are wanted: stop what \
         else runs on this computer, or leave --idle out"
    )]
    NotIdle {
        /// So many runs did not count.
        runs: usize,
        /// So many cores were free in the last of them, where the system tells.
        free: f64,
        /// So many must be.
        wanted: f64,
    },
    /// The child process did not do its part.
    #[error("the restarted process gave no figures: {0}")]
    Child(String),
    /// Output could not be written.
    #[error("the output could not be written")]
    Output(#[from] io::Error),
    /// A figure could not be written as JSON.
    #[error("the figures could not be written as JSON")]
    Json(#[from] serde_json::Error),
}
