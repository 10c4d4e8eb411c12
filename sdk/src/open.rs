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
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dauer::OpenError;
///
/// match dauer::open_existing("sqlite:/nowhere/orders.db") {
///     Err(OpenError::Missing { url }) => println!("there is no store {url}"),
///     Err(other) => println!("{other}"),
///     Ok(_) => unreachable!(),
/// }
/// assert!(matches!(dauer::open("redis:host"), Err(OpenError::UnknownStore { .. })));
/// # Ok(())
/// # }
/// ```
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
    /// The URL has an option that its store does not have, or a value that the option does not take.
    #[error("'{url}' has the option '{option}', which its store does not have; use {OPTIONS}")]
    UnknownOption {
        /// The URL.
        url: String,
        /// The option, with its value.
        option: String,
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

/// An open task hub: where workers and clients meet. Cheap to clone.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dauer::{Orchestration, OrchestrationContext, Result};
///
/// const HELLO: Orchestration<String, String> = Orchestration::new("hello");
///
/// async fn hello(_: OrchestrationContext, name: String) -> Result<String> {
///     Ok(format!("Hello, {name}!"))
/// }
///
/// let hub = dauer::open("memory:")?;
/// let worker = hub.worker().orchestration(HELLO, hello).build()?;
/// let stop = tokio::spawn(worker.run(std::future::pending()));
/// let greeting = hub.client().start(HELLO, &"world".to_owned()).await?.output().await?;
/// assert_eq!(greeting, "Hello, world!");
/// stop.abort();
/// hub.close().await;
/// # Ok(())
/// # }
/// ```
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

/// What may follow the name of a file.
const OPTIONS: &str = "durability=full or durability=normal behind a ?";

/// Opens the default hub of a store, by URL.
///
/// - `sqlite:FILE` is a file, created if it is not there. Any number of processes may have it open.
/// - `sqlite:FILE?durability=normal` is the same file, written to by this process without waiting for the disk: a power
///   failure may take back the last moments, consistently, a crash of the process does not. The default is
///   `durability=full`: what was acknowledged stays.
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
    if let Some(File { path, options }) = sqlite_file(url)? {
        let store = dauer_sqlite::SqliteStore::open(path, options);
        let store = store.map_err(|source| OpenError::Sqlite { url: url.to_owned(), source })?;
        let (manage, payloads) = (store.hub(HubName::default()), Payloads::default());
        return Ok(Hub { manage, runtime, payloads, store: Store::Sqlite(store) });
    }
    Err(OpenError::UnknownStore { url: url.to_owned() })
}

/// As [`open`], for tools that look at what is there: a store that does not exist is not created. `memory:` never exists
/// before it is opened.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dauer::OpenError;
///
/// let missing = dauer::open_existing("sqlite:/nowhere/orders.db");
/// assert!(matches!(missing, Err(OpenError::Missing { .. })));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`OpenError::Missing`] when there is no such store, and as [`open`].
pub fn open_existing(url: &str) -> Result<Hub, OpenError> {
    #[cfg(feature = "sqlite")]
    if let Some(File { path, .. }) = sqlite_file(url)? {
        // An empty file is what SQLite leaves when it is opened and nothing is written: there is no store in it.
        let there = std::fs::metadata(path).map(|found| !found.is_file() || found.len() > 0);
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

/// A file, and how it is to be opened.
#[cfg(feature = "sqlite")]
struct File<'u> {
    path: &'u str,
    options: dauer_sqlite::Options,
}

#[cfg(feature = "sqlite")]
fn sqlite_file(url: &str) -> Result<Option<File<'_>>, OpenError> {
    use dauer_sqlite::Durability;

    let Some(file) = url.strip_prefix("sqlite:") else { return Ok(None) };
    let (path, given) = file.split_once('?').unwrap_or((file, ""));
    let mut options = dauer_sqlite::Options::default();
    for option in given.split('&').filter(|option| !option.is_empty()) {
        options.durability = match option {
            "durability=full" => Durability::Full,
            "durability=normal" => Durability::Normal,
            _ => {
                let (url, option) = (url.to_owned(), option.to_owned());
                return Err(OpenError::UnknownOption { url, option });
            }
        };
    }
    Ok(Some(File { path, options }).filter(|file| !file.path.is_empty()))
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
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::Orchestration;
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    ///
    /// let client = dauer::open("memory:")?.client();
    /// let order = client.start(ORDER, &7).id("order-7").await?;
    /// assert_eq!(order.id().as_str(), "order-7");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self, Arc::new(TokioEnv::new(self.runtime.clone())))
    }

    /// A worker in this process, to be given its code.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dauer::{Activity, ActivityContext};
    ///
    /// const DOUBLE: Activity<u32, u32> = Activity::new("double");
    /// let double = |_: ActivityContext, n: u32| async move { Ok(n * 2) };
    ///
    /// let worker = dauer::open("memory:")?.worker().activity(DOUBLE, double).build()?;
    /// # let _ = worker;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn worker(&self) -> WorkerBuilder {
        WorkerBuilder::new(self.clone(), HostOptions::default())
    }

    /// Closes the store: what waits to be written is written, the write-ahead log is moved into the file if nobody else
    /// has it open, and its threads end. To be called when the workers have ended; whatever is called afterwards, by
    /// anyone who shares this hub, is refused. A store in memory has nothing to close.
    ///
    /// Without it nothing durable is lost: the next who opens the file finds all that was acknowledged.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let hub = dauer::open("memory:")?;
    /// // ... workers run, and end ...
    /// hub.close().await;
    /// # Ok(())
    /// # }
    /// ```
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
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let hub = dauer::open("memory:")?;
    /// let work = hub.manage().scale().await?;
    /// assert!(work.ready.is_empty() || work.ready.values().all(|count| *count == 0));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn manage(&self) -> &Arc<dyn Manage> {
        &self.manage
    }
}
