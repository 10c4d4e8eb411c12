//! Opening a hub by the URL of its store.

use std::sync::Arc;

use tokio::runtime::Handle;

use dauer_core::HubName;
use dauer_hub::HostOptions;
use dauer_memory::{MemoryStore, SystemClock};
use dauer_replay::{PayloadCodec, Payloads};
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
    /// There is nothing to open, and it was not to be made.
    #[error("there is no store '{url}'; check the name, or let a worker create it first")]
    Missing {
        /// The URL.
        url: String,
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
    pub(crate) payloads: Payloads,
    store: Store,
}

/// The store behind a hub, kept to be closed.
#[derive(Clone)]
enum Store {
    Memory,
    #[cfg(feature = "sqlite")]
    Sqlite(dauer_sqlite::SqliteStore),
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
    if url == "memory:" {
        let manage = MemoryStore::new(Arc::new(SystemClock::new())).hub(HubName::default());
        return Ok(Hub { manage, runtime, payloads: Payloads::default(), store: Store::Memory });
    }
    #[cfg(feature = "sqlite")]
    if let Some(file) = sqlite_file(url) {
        let store = dauer_sqlite::SqliteStore::open(file, dauer_sqlite::Options::default());
        let store = store.map_err(|source| OpenError::Sqlite { url: url.to_owned(), source })?;
        let (manage, payloads) = (store.hub(HubName::default()), Payloads::default());
        return Ok(Hub { manage, runtime, payloads, store: Store::Sqlite(store) });
    }
    Err(OpenError::UnknownStore { url: url.to_owned() })
}

/// As [`open`], for tools that look at what is there: a store that does not exist is not created. `memory:` never exists
/// before it is opened.
///
/// # Errors
/// [`OpenError::Missing`] when there is no such store, and as [`open`].
pub fn open_existing(url: &str) -> Result<Hub, OpenError> {
    #[cfg(feature = "sqlite")]
    if let Some(file) = sqlite_file(url) {
        // An empty file is what SQLite leaves when it is opened and nothing is written: there is no store in it.
        let there = std::fs::metadata(file).map(|found| !found.is_file() || found.len() > 0);
        // What cannot be looked at for another reason than that it is absent is for `open` to explain.
        return match there.unwrap_or_else(|error| error.kind() != std::io::ErrorKind::NotFound) {
            true => open(url),
            false => Err(OpenError::Missing { url: url.to_owned() }),
        };
    }
    if url == "memory:" {
        return Err(OpenError::Missing { url: url.to_owned() });
    }
    Err(OpenError::UnknownStore { url: url.to_owned() })
}

#[cfg(feature = "sqlite")]
fn sqlite_file(url: &str) -> Option<&str> {
    url.strip_prefix("sqlite:").filter(|file| !file.is_empty())
}

impl Hub {
    /// The same hub, whose workers and clients read and write payloads through that codec. Those that were made before
    /// do not.
    ///
    /// ```
    /// use dauer::{CodecError, PayloadCodec};
    ///
    /// struct Reversed;
    ///
    /// impl PayloadCodec for Reversed {
    ///     fn encode(&self, json: &str) -> Result<String, CodecError> {
    ///         Ok(json.chars().rev().collect())
    ///     }
    ///
    ///     fn decode(&self, stored: &str) -> Result<String, CodecError> {
    ///         Ok(stored.chars().rev().collect())
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), dauer::OpenError> {
    /// let hub = dauer::open("memory:")?.codec(Reversed);
    /// # let _ = hub;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn codec(self, codec: impl PayloadCodec) -> Self {
        Self { payloads: Payloads::through(Arc::new(codec)), ..self }
    }

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

    /// Closes the store: what waits to be written is written, the write-ahead log is moved into the file if nobody else
    /// has it open, and its threads end. To be called when the workers have ended; whatever is called afterwards, by
    /// anyone who shares this hub, is refused. A store in memory has nothing to close.
    ///
    /// Without it nothing durable is lost: the next who opens the file finds all that was acknowledged.
    pub async fn close(&self) {
        match &self.store {
            Store::Memory => {}
            #[cfg(feature = "sqlite")]
            Store::Sqlite(store) => {
                let store = store.clone();
                // It waits for the disk and for threads. It does not panic, so there is nothing to learn from its end.
                let _ = self.runtime.spawn_blocking(move || store.close()).await;
            }
        }
    }

    /// The store's own view of the hub, for tools.
    #[must_use]
    pub fn manage(&self) -> &Arc<dyn Manage> {
        &self.manage
    }
}
