//! Opening a hub by the URL of its store.

use std::sync::Arc;

use tokio::runtime::Handle;

use dauer_core::HubName;
use dauer_hub::HostOptions;
use dauer_memory::{MemoryStore, SystemClock};
use dauer_store::Manage;

use crate::client::Client;
use crate::runtime::TokioEnv;
use crate::worker::WorkerBuilder;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL names no store that this build has.
    #[error("'{url}' names no store; use {KNOWN}")]
    UnknownStore {
        /// The URL.
        url: String,
    },
    /// The file could not be opened.
    #[cfg(feature = "sqlite")]
    #[error("'{url}' could not be opened")]
    Sqlite {
        /// The URL.
        url: String,
        /// Why.
        source: dauer_sqlite::OpenError,
    },
    /// There is no tokio runtime to run on.
    #[error("there is no tokio runtime; call this inside #[tokio::main] or Runtime::enter")]
    NoRuntime,
}

/// An open task hub: where workers and clients meet.
#[derive(Clone)]
pub struct Hub {
    pub(crate) manage: Arc<dyn Manage>,
    pub(crate) runtime: Handle,
}

/// What the URLs of this build look like.
#[cfg(feature = "sqlite")]
const KNOWN: &str = "sqlite:FILE or memory:";
#[cfg(not(feature = "sqlite"))]
const KNOWN: &str = "memory:";

/// Opens the default hub of a store, by URL.
///
/// - `sqlite:FILE` is a file, created if it is not there. Any number of processes may have it open.
/// - `memory:` is a store in this process that is gone with it.
///
/// # Errors
/// [`OpenError`] when the URL names no store, the file cannot be used, or there is no tokio runtime.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), dauer::OpenError> {
/// let hub = dauer::open("memory:")?;
/// # let _ = hub;
/// # Ok(())
/// # }
/// ```
pub fn open(url: &str) -> Result<Hub, OpenError> {
    let runtime = Handle::try_current().map_err(|_| OpenError::NoRuntime)?;
    Ok(Hub { manage: store(url)?, runtime })
}

fn store(url: &str) -> Result<Arc<dyn Manage>, OpenError> {
    if url == "memory:" {
        let store = MemoryStore::new(Arc::new(SystemClock::new()));
        return Ok(store.hub(HubName::default()));
    }
    #[cfg(feature = "sqlite")]
    if let Some(file) = url.strip_prefix("sqlite:").filter(|file| !file.is_empty()) {
        let store = dauer_sqlite::SqliteStore::open(file, dauer_sqlite::Options::default());
        let store = store.map_err(|source| OpenError::Sqlite { url: url.to_owned(), source })?;
        return Ok(store.hub(HubName::default()));
    }
    Err(OpenError::UnknownStore { url: url.to_owned() })
}

impl Hub {
    /// A client of this hub.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self, Arc::new(TokioEnv::new(self.runtime.clone())))
    }

    /// A worker in this process, to be given its code.
    #[must_use]
    pub fn worker(&self) -> WorkerBuilder {
        WorkerBuilder::new(self.clone(), HostOptions::default())
    }

    /// The store's own view of the hub, for tools.
    #[must_use]
    pub fn manage(&self) -> &Arc<dyn Manage> {
        &self.manage
    }
}
