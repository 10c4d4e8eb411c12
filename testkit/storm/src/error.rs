//! Why a storm could not be made. What a storm finds is no error but a figure.

use std::io;
use std::path::PathBuf;

use dauer_store::Refused;

/// Why a role could not be played.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The store could not be opened.
    #[error(transparent)]
    Open(#[from] dauer::OpenError),
    /// The file could not be opened.
    #[error(transparent)]
    File(#[from] dauer_sqlite::OpenError),
    /// The store refused.
    #[error("the store refused")]
    Refused(#[from] Refused),
    /// A client's call failed.
    #[error(transparent)]
    Client(#[from] dauer::ClientError),
    /// The code could not be registered.
    #[error(transparent)]
    Register(#[from] dauer::RegisterError),
    /// The system refused.
    #[error("a worker could not be started or signalled, or a file not be written")]
    System(#[from] io::Error),
    /// A worker did not do what it was told.
    #[error("worker {0} did not {1} in time; look for it with ps")]
    Stubborn(u32, &'static str),
    /// The folder for the files could not be made.
    #[error("{0:?} could not be made; give another folder by --folder")]
    Folder(PathBuf, #[source] io::Error),
    /// A library to be preloaded is not there.
    #[error("{0:?} is not there; build dauer-storm with Cargo, which builds it too, or give the right path")]
    NoLibrary(PathBuf),
    /// No disk could be made.
    #[error("no small disk could be mounted at {0:?}; run this as root, or by `unshare -rm`")]
    Mount(PathBuf, #[source] io::Error),
    /// The call makes no sense.
    #[error("{0}")]
    Usage(&'static str),
    /// Something already listens to the log.
    #[error("the log has a subscriber already")]
    Subscriber,
    /// The file cannot be read by SQLite.
    #[error("the file could not be checked")]
    Sqlite(#[from] rusqlite::Error),
    /// A value could not be written as JSON.
    #[error("a figure could not be written as JSON")]
    Json(#[from] serde_json::Error),
}
