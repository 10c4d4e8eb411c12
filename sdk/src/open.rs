//! Opening a hub by the URL of its store.

mod error;
mod store;
mod url;

use std::sync::Arc;

use tokio::runtime::Handle;

use dauer_hub::HostOptions;
use dauer_replay::{PayloadCodec, Payloads};
use dauer_store::Manage;

use crate::client::{Client, RawClient};
use crate::worker::WorkerBuilder;

pub use error::OpenError;
pub use store::Store;

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

/// Opens a hub of a store, by URL: the default one, or the one that the URL names.
///
/// - `sqlite:FILE` is a file, created if it is not there. Any number of processes may have it open.
/// - `sqlite:FILE?durability=normal` is the same file, written to by this process without waiting for the disk: a power
///   failure may take back the last moments, consistently, a crash of the process does not. The default is
///   `durability=full`: what was acknowledged stays.
/// - `memory:` is a store in this process that is gone with it.
/// - `?hub=NAME` behind any of them is another task hub than the default one. Several options are joined by `&`.
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
    Ok(store.hub(store.named_hub().cloned().unwrap_or_default()))
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
    Ok(store.hub(store.named_hub().cloned().unwrap_or_default()))
}

#[cfg(feature = "grpc")]
fn is_server(url: &str) -> bool {
    url.starts_with("http://") || url.starts_with("https://")
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
