//! What can keep a run from coming to a verdict.

use std::io;
use std::path::PathBuf;

use dauer_store::Refused;

/// Why there is no verdict.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system did not do what it was asked.
    #[error("the system refused; see the cause")]
    System(#[from] io::Error),
    /// The library to be preloaded is not where Cargo puts it.
    #[error("the shim is not at {0:?}; build dauer-power-shim with the same profile")]
    NoShim(PathBuf),
    /// The records of the shim make no sense.
    #[error("the records of the shim cannot be played: {0}")]
    Records(&'static str),
    /// The child did what the model does not know.
    #[error("the child called {0}, which the model does not know; teach it to the shim and the disk")]
    Foreign(String),
    /// The folder is not what the records say.
    #[error("{0}: the shim has missed a call; teach it to the shim")]
    Unseen(String),
    /// The child ended in a way that nobody planned.
    #[error("the child ended by itself ({0}); run it without a plan and look at its stderr")]
    Child(String),
    /// A store could not be opened although no fault is planned.
    #[error("the store could not be opened")]
    Open(#[from] dauer_sqlite::OpenError),
    /// A store refused although no fault is planned.
    #[error("the store refused")]
    Refused(#[from] Refused),
    /// The file's own check could not be run.
    #[error("the file could not be checked")]
    Sqlite(#[from] rusqlite::Error),
    /// A value could not be written or read.
    #[error("a line of the child, or a figure, is no JSON")]
    Json(#[from] serde_json::Error),
    /// The programs of the run are wrong.
    #[error("a program could not be registered")]
    Register(#[from] dauer::RegisterError),
    /// A request of the run is wrong.
    #[error("a request could not be made")]
    Request(#[from] dauer_core::send::InvalidRequest),
    /// An id of the run is wrong.
    #[error("an id could not be made")]
    Name(#[from] dauer_core::ids::InvalidName),
}
