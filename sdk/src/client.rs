//! The typed client: start an orchestration, talk to it, wait for its output; find instances, read their histories and
//! remove those that have ended.

mod handle;
mod history;
mod instance;
mod purge;
mod query;
mod raw;
mod request;
mod start;

use std::marker::PhantomData;

use serde::Serialize;

use dauer_core::InstanceId;
use dauer_core::ids::InvalidName;
use dauer_core::model::Status;
use dauer_hub::ClientError;
use dauer_replay::{Event, Failure, Orchestration, PayloadError, Payloads};

use crate::open::Hub;

pub use handle::Handle;
pub use history::HistoryStream;
pub use instance::Instance;
pub use purge::{PurgeCall, Purged};
pub use query::{InstancePage, InstanceStream, PAGE_SIZE_MAX, QueryCall};
pub use raw::{Attached, Inspected, RawClient};
pub use request::RequestId;
pub use start::StartCall;

/// A client's call that did not succeed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dauer::{ClientError, InstanceId};
///
/// let client = dauer::open("memory:")?.client();
/// match client.purge(&InstanceId::new("order-1")?).await {
///     Err(ClientError::Client(dauer::RawClientError::Absent(id))) => assert_eq!(id.as_str(), "order-1"),
///     other => panic!("{other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An id breaks a rule.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// The call was refused.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A value cannot be written as JSON.
    #[error("the {what} cannot be written as JSON; change its type or its Serialize")]
    Unencodable {
        /// Which value.
        what: &'static str,
        /// Why.
        source: PayloadError,
    },
    /// A stored value is not of the type that is asked for.
    #[error("the {what} cannot be read; make the types of the name agree on both sides")]
    Undecodable {
        /// Which value.
        what: &'static str,
        /// Why.
        source: PayloadError,
    },
    /// The orchestration failed.
    #[error("the orchestration '{id}' failed")]
    Failed {
        /// Which.
        id: InstanceId,
        /// With what.
        source: Box<Failure>,
    },
    /// The orchestration ended without an output: terminated or canceled.
    #[error("the orchestration '{id}' was ended as {status:?}")]
    Ended {
        /// Which.
        id: InstanceId,
        /// How.
        status: Status,
    },
    /// A page of no instances, or of more than fit into memory.
    #[error(
        "a page of {found} instances cannot be asked for; ask for 1 to {limit}, or leave it to the store"
    )]
    PageSize {
        /// What was asked for.
        found: usize,
        /// The largest page.
        limit: usize,
    },
    /// A purge was asked to remove instances that live.
    #[error("only ended instances can be removed, and the query asks for {status:?}; nothing was removed")]
    Living {
        /// The first status that is not an end.
        status: Status,
    },
    /// A purge was stopped on its way. What it removed is gone; the same again goes on with the rest.
    #[error("the purge was stopped after {count} instances; run the same again for the rest")]
    PurgeStopped {
        /// Instances removed before.
        count: usize,
        /// By what.
        source: ClientError,
    },
}

/// A client of a hub. Cheap to clone; any number of clients, in any number of processes, may work on one hub.
///
/// ```
/// # use dauer::Orchestration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
///
/// let client = dauer::open("memory:")?.client();
/// let order = client.start(ORDER, &7).id("order-7").await?;
/// assert_eq!(client.get(order.id()).await?.unwrap().name(), "order");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    raw: RawClient,
    payloads: Payloads,
}

impl Client {
    pub(crate) fn new(hub: &Hub) -> Self {
        Self { raw: hub.raw.clone(), payloads: hub.payloads.clone() }
    }

    /// The client without types, for tools.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dauer::InstanceId;
    ///
    /// let client = dauer::open("memory:")?.client();
    /// assert!(client.raw().get(&InstanceId::new("nobody")?).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn raw(&self) -> &RawClient {
        &self.raw
    }

    /// Starts an orchestration once it is awaited. Without [`StartCall::id`] it gets an id that nobody has.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::Orchestration;
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    ///
    /// let client = dauer::open("memory:")?.client();
    /// let (one, other) = (client.start(ORDER, &7).await?, client.start(ORDER, &7).id("order-7").await?);
    /// assert_ne!(one.id(), other.id());
    /// # Ok(())
    /// # }
    /// ```
    pub fn start<I: Serialize, O>(&self, orchestration: Orchestration<I, O>, input: &I) -> StartCall<O> {
        StartCall::new(self.clone(), orchestration, input)
    }

    /// A handle on an instance that was started before. Whether it is there is not looked at.
    ///
    /// ```
    /// # use dauer::Orchestration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    ///
    /// let client = dauer::open("memory:")?.client();
    /// client.start(ORDER, &7).id("order-7").await?;
    /// let order = client.handle(ORDER, "order-7")?;
    /// assert!(order.status().await?.is_some());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Name`] when no instance can have that id.
    pub fn handle<I, O>(&self, _orchestration: Orchestration<I, O>, id: &str) -> Result<Handle<O>, Error> {
        Ok(Handle { client: self.clone(), id: InstanceId::new(id)?, output: PhantomData })
    }

    /// An instance as it stands, whatever its orchestration; `None` when there is none of that id.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::Orchestration;
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    ///
    /// use dauer::{InstanceId, Status};
    ///
    /// let client = dauer::open("memory:")?.client();
    /// let order = client.start(ORDER, &7).await?;
    /// assert_eq!(client.get(order.id()).await?.unwrap().status(), Status::Pending);
    /// assert!(client.get(&InstanceId::new("nobody")?).await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Client`] when the store cannot tell.
    pub async fn get(&self, id: &InstanceId) -> Result<Option<Instance>, Error> {
        let record = self.raw.get(id).await?;
        Ok(record.map(|record| self.instance(id.clone(), record)))
    }

    /// Finds instances: name the conditions, then ask for a page, for all of them as a stream, or for their removal.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use dauer::Status;
    ///
    /// let client = dauer::open("memory:")?.client();
    /// let mut failed = client.query().name("order").status(Status::Failed).tag("team", "north").stream();
    /// while let Some(order) = failed.next().await {
    ///     let order = order?;
    ///     println!("{} failed: {}", order.id(), order.failure().unwrap());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn query(&self) -> QueryCall {
        QueryCall::new(self.clone())
    }

    /// The history of the run that an instance is in now, event by event. Of one that has not begun it is empty.
    ///
    /// ```
    /// # use dauer::Orchestration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// let client = dauer::open("memory:")?.client();
    /// let order = client.start(ORDER, &7).await?;
    /// let mut history = client.history(order.id()).await?;
    /// while let Some(event) = history.next().await {
    ///     println!("{:?}", event?.event_type);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Client`] when there is no such instance, or the store cannot tell.
    pub async fn history(&self, id: &InstanceId) -> Result<HistoryStream, Error> {
        let record = self.raw.get(id).await?.ok_or_else(|| ClientError::Absent(id.clone()))?;
        Ok(self.raw.history_of(id, &record))
    }

    /// Removes an ended instance for good, with its history. Nothing brings it back: what is still sent to it is dropped.
    /// [`QueryCall::purge`] removes many.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::Orchestration;
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    ///
    /// use dauer::{ClientError, RawClientError};
    ///
    /// let client = dauer::open("memory:")?.client();
    /// let order = client.start(ORDER, &7).await?;
    /// let refused = client.purge(order.id()).await;
    /// assert!(matches!(refused, Err(ClientError::Client(RawClientError::NotEnded { .. }))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Client`] when there is no such instance, when it has not ended, or when others still have to do with it: a
    /// start that waits, or messages that are not delivered yet.
    pub async fn purge(&self, id: &InstanceId) -> Result<(), Error> {
        Ok(self.raw.purge(id).await?)
    }

    /// Runs a stalled instance at once: ends the delay before its next try. See [`Instance::trouble`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::Orchestration;
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// use dauer::{ClientError, RawClientError};
    ///
    /// let client = dauer::open("memory:")?.client();
    /// let order = client.start(ORDER, &7).await?;
    /// let refused = client.retry(order.id()).await;
    /// assert!(matches!(refused, Err(ClientError::Client(RawClientError::NotStalled { .. }))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Client`] when there is no such instance, or when it is not stalled.
    pub async fn retry(&self, id: &InstanceId) -> Result<(), Error> {
        Ok(self.raw.retry(id).await?)
    }

    /// Raises an event. It is buffered until the orchestration waits for it.
    ///
    /// ```
    /// # use dauer::Orchestration;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// use dauer::Event;
    /// const APPROVED: Event<String> = Event::new("approved");
    ///
    /// let client = dauer::open("memory:")?.client();
    /// let order = client.start(ORDER, &7).await?;
    /// client.raise(order.id(), APPROVED, &"by the boss".to_owned()).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error`] when the instance is absent, the data cannot be written, or the store refuses.
    pub async fn raise<T: Serialize>(&self, to: &InstanceId, event: Event<T>, data: &T) -> Result<(), Error> {
        let data = self.payloads.encode(data);
        let data = data.map_err(|source| Error::Unencodable { what: "event data", source })?;
        Ok(self.raw.raise(to, event.name(), Some(data)).await?)
    }
}
