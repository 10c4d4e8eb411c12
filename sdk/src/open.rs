//! Opening a hub by the URL of its store.

mod error;

use std::sync::Arc;

use tokio::runtime::Handle;

use dauer_core::HubName;
use dauer_hub::HostOptions;
use dauer_memory::{MemoryStore, SystemClock};
use dauer_replay::{PayloadCodec, Payloads};
use dauer_store::{Manage, Refused};

use crate::client::{Client, RawClient};
use crate::runtime::TokioEnv;
use crate::worker::WorkerBuilder;

pub use error::OpenError;

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
    /// The client that all typed clients of this hub share. Each of its own would subscribe to the store, and would have to
    /// look at what it waits for because it does not follow it.
    pub(crate) raw: RawClient,
    place: Place,
}

/// Where a hub lives.
#[derive(Clone)]
enum Place {
    /// In a store that this process has open.
    Store(Store),
    /// Behind a server.
    #[cfg(feature = "grpc")]
    Server(Arc<crate::remote::Wire>),
}

/// An open store, which holds any number of task hubs. Cheap to clone. [`open`] is its default hub, which is all that most
/// programs need.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dauer::{HubName, Store};
///
/// let store = Store::open("memory:")?;
/// let (north, south) = (store.hub(HubName::new("north")?), store.hub(HubName::new("south")?));
/// # let _ = (north, south);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Store {
    kind: Kind,
    runtime: Handle,
    /// The hub that its URL names, if it does.
    named: Option<HubName>,
}

#[derive(Clone)]
enum Kind {
    Memory(MemoryStore),
    #[cfg(feature = "sqlite")]
    Sqlite(dauer_sqlite::SqliteStore),
}

/// Opens a hub of a store, by URL: the default one, or the one that the URL names.
///
/// - `sqlite:FILE` is a file, created if it is not there. Any number of processes may have it open.
/// - `sqlite:FILE?durability=normal` is the same file, written to by this process without waiting for the disk: a power
///   failure may take back the last moments, consistently, a crash of the process does not. The default is
///   `durability=full`: what was acknowledged stays.
/// - `sqlite:FILE?hub=NAME` is another task hub in that file than the default one. Several options are joined by `&`.
/// - `memory:` is a store in this process that is gone with it.
/// - `http://HOST:PORT` is a server, with the feature `grpc`: what `connect` does.
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
    #[cfg(feature = "grpc")]
    if is_server(url) {
        return crate::remote::connect(url);
    }
    let store = Store::open(url)?;
    let named = store.named.clone();
    Ok(store.hub(named.unwrap_or_default()))
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
    #[cfg(feature = "grpc")]
    if is_server(url) {
        return crate::remote::connect(url);
    }
    let store = Store::open_existing(url)?;
    let named = store.named.clone();
    Ok(store.hub(named.unwrap_or_default()))
}

impl Store {
    /// Opens a store by URL, as [`open`] does.
    ///
    /// # Errors
    /// As [`open`].
    pub fn open(url: &str) -> Result<Self, OpenError> {
        let runtime = Handle::try_current().map_err(|_| OpenError::NoRuntime)?;
        if url == "memory:" {
            let kind = Kind::Memory(MemoryStore::new(Arc::new(SystemClock::new())));
            return Ok(Self { kind, runtime, named: None });
        }
        #[cfg(feature = "sqlite")]
        if let Some(File { path, options, hub }) = sqlite_file(url)? {
            let store = dauer_sqlite::SqliteStore::open(path, options);
            let store = store.map_err(|source| OpenError::Sqlite { url: url.to_owned(), source })?;
            return Ok(Self { kind: Kind::Sqlite(store), runtime, named: hub });
        }
        Err(OpenError::UnknownStore { url: url.to_owned() })
    }

    /// Opens a store that is there, as [`open_existing`] does.
    ///
    /// # Errors
    /// As [`open_existing`].
    pub fn open_existing(url: &str) -> Result<Self, OpenError> {
        #[cfg(feature = "sqlite")]
        if let Some(File { path, .. }) = sqlite_file(url)? {
            // An empty file is what SQLite leaves when it is opened and nothing is written: there is no store in it.
            let there = std::fs::metadata(path).map(|found| !found.is_file() || found.len() > 0);
            // What cannot be looked at for another reason than that it is absent is for `open` to explain.
            return match there.unwrap_or_else(|error| error.kind() != std::io::ErrorKind::NotFound) {
                true => Self::open(url),
                false => Err(OpenError::Missing { url: url.to_owned() }),
            };
        }
        if url == "memory:" {
            return Err(OpenError::Missing { url: url.to_owned() });
        }
        Err(OpenError::UnknownStore { url: url.to_owned() })
    }

    /// One of its hubs. It exists from the first write on.
    #[must_use]
    pub fn hub(&self, name: HubName) -> Hub {
        let manage: Arc<dyn Manage> = match &self.kind {
            Kind::Memory(store) => store.hub(name),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(store) => store.hub(name),
        };
        let (runtime, place) = (self.runtime.clone(), Place::Store(self.clone()));
        let env = Arc::new(TokioEnv::new(runtime.clone()));
        let raw = RawClient::local(dauer_hub::Client::new(Arc::clone(&manage), env).refusing_absent());
        Hub { manage, runtime, payloads: Payloads::default(), raw, place }
    }

    /// The hub that its URL names, if it does: `sqlite:FILE?hub=NAME`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// assert_eq!(dauer::Store::open("memory:")?.named_hub(), None);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn named_hub(&self) -> Option<&HubName> {
        self.named.as_ref()
    }

    /// The names of the hubs that are in it, in their order.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dauer::{HubName, Orchestration, Store};
    ///
    /// const HELLO: Orchestration<String, String> = Orchestration::new("hello");
    ///
    /// let store = Store::open("memory:")?;
    /// let north = HubName::new("north")?;
    /// store.hub(north.clone()).client().start(HELLO, &"world".to_owned()).await?;
    /// assert_eq!(store.hubs().await?, [north]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Refused`] when the store cannot be read.
    pub async fn hubs(&self) -> Result<Vec<HubName>, Refused> {
        match &self.kind {
            Kind::Memory(store) => Ok(store.hubs()),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(store) => store.hubs().await,
        }
    }

    /// Whether a hub exists. It does once something was put into it: an instance, a message or a worker's session. Reading
    /// never makes one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dauer::{HubName, InstanceId, Store};
    ///
    /// let (store, north) = (Store::open("memory:")?, HubName::new("north")?);
    /// store.hub(north.clone()).client().get(&InstanceId::new("order-7")?).await?;
    /// assert!(!store.has_hub(&north).await?);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Refused`] when the store cannot be read.
    pub async fn has_hub(&self, name: &HubName) -> Result<bool, Refused> {
        match &self.kind {
            Kind::Memory(store) => Ok(store.has_hub(name)),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(store) => store.has_hub(name).await,
        }
    }

    /// Deletes a hub and all that is in it, for good. One that is absent is deleted already.
    ///
    /// # Errors
    /// [`Refused`] when a living host works in the hub, or the store cannot do it.
    pub async fn delete_hub(&self, name: &HubName) -> Result<(), Refused> {
        match &self.kind {
            Kind::Memory(store) => store.delete_hub(name),
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(store) => store.delete_hub(name).await,
        }
    }

    /// Closes the store, as [`Hub::close`] does.
    pub async fn close(&self) {
        match &self.kind {
            Kind::Memory(_) => {}
            #[cfg(feature = "sqlite")]
            Kind::Sqlite(store) => {
                let store = store.clone();
                // It waits for the disk and for threads. It does not panic, so there is nothing to learn from its end.
                let _ = self.runtime.spawn_blocking(move || store.close()).await;
            }
        }
    }
}

#[cfg(feature = "grpc")]
fn is_server(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
}

/// A file, and how it is to be opened.
#[cfg(feature = "sqlite")]
struct File<'u> {
    path: &'u str,
    options: dauer_sqlite::Options,
    hub: Option<HubName>,
}

#[cfg(feature = "sqlite")]
fn sqlite_file(url: &str) -> Result<Option<File<'_>>, OpenError> {
    use dauer_sqlite::Durability;

    let Some(file) = url.strip_prefix("sqlite:") else { return Ok(None) };
    let (path, given) = file.split_once('?').unwrap_or((file, ""));
    let (mut options, mut hub) = (dauer_sqlite::Options::default(), None);
    for option in given.split('&').filter(|option| !option.is_empty()) {
        let unknown = || OpenError::UnknownOption { url: url.to_owned(), option: option.to_owned() };
        match option.split_once('=') {
            Some(("durability", "full")) => options.durability = Durability::Full,
            Some(("durability", "normal")) => options.durability = Durability::Normal,
            Some(("hub", name)) => hub = Some(HubName::new(name).map_err(|_| unknown())?),
            _ => return Err(unknown()),
        }
    }
    Ok(Some(File { path, options, hub }).filter(|file| !file.path.is_empty()))
}

impl Hub {
    #[cfg(feature = "grpc")]
    pub(crate) fn remote(wire: Arc<crate::remote::Wire>) -> Self {
        let (manage, runtime) = (Arc::new(crate::remote::NoStore), wire.runtime().clone());
        let raw = RawClient::remote(crate::remote::RemoteClient::new(Arc::clone(&wire)));
        Self { manage, runtime, payloads: Payloads::default(), raw, place: Place::Server(wire) }
    }

    /// The connection to its server, if it is behind one.
    #[cfg(feature = "grpc")]
    pub(crate) fn wire(&self) -> Option<Arc<crate::remote::Wire>> {
        match &self.place {
            Place::Store(_) => None,
            Place::Server(wire) => Some(Arc::clone(wire)),
        }
    }

    /// Whether the hub is behind a server. Its store is then out of reach: [`Hub::manage`] refuses everything.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), dauer::OpenError> {
    /// assert!(!dauer::open("memory:")?.is_remote());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn is_remote(&self) -> bool {
        !matches!(self.place, Place::Store(_))
    }

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

    /// A client of this hub. It costs next to nothing: all clients of a hub share one subscription to the store.
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
        Client::new(self)
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
    /// anyone who shares this hub, is refused. A store in memory has nothing to close, nor has a hub behind a server.
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
        match &self.place {
            Place::Store(store) => store.close().await,
            #[cfg(feature = "grpc")]
            Place::Server(_) => {}
        }
    }

    /// The store's own view of the hub, for tools. Behind a server there is none: it refuses everything.
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

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use dauer_memory::{Call, Fault, FaultPlan};
    use dauer_replay::{Orchestration, OrchestrationContext};

    use super::*;

    const ECHO: Orchestration<u32, u32> = Orchestration::new("echo");

    /// Counts the looks at records, and lets everything succeed.
    #[derive(Default)]
    struct Looks(AtomicUsize);

    impl FaultPlan for Looks {
        fn next(&self, call: Call) -> Fault {
            self.0.fetch_add(usize::from(call == Call::Get), Ordering::Relaxed);
            Fault::None
        }
    }

    /// Counts looks instead of time: a client with a subscription of its own would look at the record for every wait.
    #[tokio::test]
    async fn client_per_call_looks_no_more_than_one_client() {
        let looks = Arc::new(Looks::default());
        let memory = MemoryStore::new(Arc::new(SystemClock::new()));
        memory.set_faults(looks.clone());
        let store = Store { kind: Kind::Memory(memory), runtime: Handle::current(), named: None };
        let hub = store.hub(HubName::default());
        let code = |_: OrchestrationContext, number: u32| async move { Ok(number) };
        let worker = hub.worker().orchestration(ECHO, code).build().expect("a worker");
        let worker = tokio::spawn(worker.run(std::future::pending()));
        for number in 0..50 {
            let output = hub.client().start(ECHO, &number).await.expect("started").output().await;
            assert_eq!(output.expect("an output"), number);
        }
        worker.abort();
        let looks = looks.0.load(Ordering::Relaxed);
        assert!(looks < 10, "50 calls looked {looks} times");
    }
}
