//! One started instance, with the type of its output.

use std::marker::PhantomData;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use dauer_core::InstanceId;
use dauer_core::model::{Record, Status};
use dauer_replay::{Event, Failure};

use super::{Client, Error, HistoryStream, Instance};

/// One started instance.
///
/// ```
/// # use dauer::{Event, Orchestration, OrchestrationContext, Result, Status};
/// # use std::time::Duration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
/// const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
/// const APPROVED: Event<u32> = Event::new("approved");
/// # let hub = dauer::open("memory:")?;
/// # let code = |ctx: OrchestrationContext, n: u32| async move { Ok(n + ctx.event(APPROVED).await?) };
/// # tokio::spawn(hub.worker().orchestration(ORDER, code).build()?.run(std::future::pending()));
///
/// let order = hub.client().start(ORDER, &7).id("order-7").await?;
/// order.raise(APPROVED, &1).await?;
/// assert_eq!(order.output_within(Duration::from_secs(60)).await?, 8);
/// order.purge().await?;
/// assert!(order.status().await?.is_none());
/// # Ok(())
/// # }
/// ```
pub struct Handle<O> {
    pub(super) client: Client,
    pub(super) id: InstanceId,
    pub(super) output: PhantomData<fn() -> O>,
}

/// Longer than anyone waits: a wait without a timeout.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

impl<O> Handle<O> {
    /// Its id.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::{Event, Orchestration, OrchestrationContext};
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// # const APPROVED: Event<u32> = Event::new("approved");
    /// # let code = |ctx: OrchestrationContext, n: u32| async move { Ok(n + ctx.event(APPROVED).await?) };
    /// # let hub = dauer::open("memory:")?;
    /// # tokio::spawn(hub.worker().orchestration(ORDER, code).build()?.run(std::future::pending()));
    /// let order = hub.client().start(ORDER, &7).await?;
    /// assert_eq!(order.id().as_str().len(), 32); // one that nobody has
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn id(&self) -> &InstanceId {
        &self.id
    }

    /// Its record, if it still exists.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::{Event, Orchestration, OrchestrationContext};
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// # const APPROVED: Event<u32> = Event::new("approved");
    /// # let code = |ctx: OrchestrationContext, n: u32| async move { Ok(n + ctx.event(APPROVED).await?) };
    /// # let hub = dauer::open("memory:")?;
    /// # tokio::spawn(hub.worker().orchestration(ORDER, code).build()?.run(std::future::pending()));
    /// let order = hub.client().start(ORDER, &7).await?;
    ///
    /// let record = order.status().await?.unwrap();
    /// assert!(!record.status.is_ended());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Client`] when the store cannot tell.
    pub async fn status(&self) -> Result<Option<Record>, Error> {
        Ok(self.client.raw.get(&self.id).await?)
    }

    /// Waits until it has begun to run, for at most so long.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::{Event, Orchestration, OrchestrationContext};
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// # const APPROVED: Event<u32> = Event::new("approved");
    /// # let code = |ctx: OrchestrationContext, n: u32| async move { Ok(n + ctx.event(APPROVED).await?) };
    /// # let hub = dauer::open("memory:")?;
    /// # tokio::spawn(hub.worker().orchestration(ORDER, code).build()?.run(std::future::pending()));
    /// let order = hub.client().start(ORDER, &7).await?;
    ///
    /// let begun = order.started_within(std::time::Duration::from_secs(60)).await?;
    /// assert_eq!(begun.status(), dauer::Status::Running);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Client`] when it has not by then or there is no such instance, or the store cannot tell.
    pub async fn started_within(&self, timeout: Duration) -> Result<Instance, Error> {
        let record = self.client.raw.wait_started(&self.id, timeout).await?;
        Ok(self.client.instance(self.id.clone(), record))
    }

    /// Waits until it has ended, however it ends, for at most so long. [`Handle::output`] gives what it ended with.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::{Event, Orchestration, OrchestrationContext};
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// # const APPROVED: Event<u32> = Event::new("approved");
    /// # let code = |ctx: OrchestrationContext, n: u32| async move { Ok(n + ctx.event(APPROVED).await?) };
    /// # let hub = dauer::open("memory:")?;
    /// # tokio::spawn(hub.worker().orchestration(ORDER, code).build()?.run(std::future::pending()));
    /// let order = hub.client().start(ORDER, &7).await?;
    ///
    /// order.terminate("ordered twice").await?;
    /// let ended = order.ended_within(std::time::Duration::from_secs(60)).await?;
    /// assert_eq!(ended.status(), dauer::Status::Terminated);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Handle::started_within`].
    pub async fn ended_within(&self, timeout: Duration) -> Result<Instance, Error> {
        let record = self.client.raw.wait_ended(&self.id, timeout).await?;
        Ok(self.client.instance(self.id.clone(), record))
    }

    /// Its history, event by event: [`Client::history`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::{Event, Orchestration, OrchestrationContext};
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// # const APPROVED: Event<u32> = Event::new("approved");
    /// # let code = |ctx: OrchestrationContext, n: u32| async move { Ok(n + ctx.event(APPROVED).await?) };
    /// # let hub = dauer::open("memory:")?;
    /// # tokio::spawn(hub.worker().orchestration(ORDER, code).build()?.run(std::future::pending()));
    /// let order = hub.client().start(ORDER, &7).await?;
    ///
    /// order.started_within(std::time::Duration::from_secs(60)).await?;
    /// let mut history = order.history().await?;
    /// let first = history.next().await.unwrap()?;
    /// assert!(matches!(first.event_type, Some(dauer::EventType::OrchestratorStarted(_))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Client::history`].
    pub async fn history(&self) -> Result<HistoryStream, Error> {
        self.client.history(&self.id).await
    }

    /// Raises an event to it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::{Event, Orchestration, OrchestrationContext};
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// # const APPROVED: Event<u32> = Event::new("approved");
    /// # let code = |ctx: OrchestrationContext, n: u32| async move { Ok(n + ctx.event(APPROVED).await?) };
    /// # let hub = dauer::open("memory:")?;
    /// # tokio::spawn(hub.worker().orchestration(ORDER, code).build()?.run(std::future::pending()));
    /// let order = hub.client().start(ORDER, &7).await?;
    ///
    /// order.raise(APPROVED, &1).await?;
    /// assert_eq!(order.output().await?, 8);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Client::raise`].
    pub async fn raise<T: Serialize>(&self, event: Event<T>, data: &T) -> Result<(), Error> {
        self.client.raise(&self.id, event, data).await
    }

    /// Suspends it: nothing is delivered until it is resumed.
    ///
    #[doc = include_str!("../docs/suspend.md")]
    ///
    /// # Errors
    /// [`Error::Client`] when it is absent or the store refuses.
    pub async fn suspend(&self, reason: &str) -> Result<(), Error> {
        Ok(self.client.raw.suspend(&self.id, Some(reason.to_owned())).await?)
    }

    /// Resumes it.
    ///
    #[doc = include_str!("../docs/suspend.md")]
    ///
    /// # Errors
    /// As [`Handle::suspend`].
    pub async fn resume(&self, reason: &str) -> Result<(), Error> {
        Ok(self.client.raw.resume(&self.id, Some(reason.to_owned())).await?)
    }

    /// Rewinds it after it has failed: what failed is done again, what succeeded is not; failed children are rewound with it.
    /// It is the same instance, in a new execution that goes on with the history of the failed one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::{Orchestration, OrchestrationContext};
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// # let code = |_: OrchestrationContext, n: u32| async move { Err::<u32, _>(dauer::Error::msg(n)) };
    /// # let hub = dauer::open("memory:")?;
    /// # tokio::spawn(hub.worker().orchestration(ORDER, code).build()?.run(std::future::pending()));
    /// let order = hub.client().start(ORDER, &7).await?;
    ///
    /// assert!(order.output().await.is_err());
    /// order.rewind("the bank is back").await?; // what failed is done again
    /// assert!(order.output().await.is_err(), "by the same code, which fails again");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Client`] when it has not failed, or why it cannot be done.
    pub async fn rewind(&self, reason: &str) -> Result<(), Error> {
        Ok(self.client.raw.rewind(&self.id, Some(reason.to_owned())).await?)
    }

    /// Runs it again from its beginning once it has ended, with the same input, version and tags, under the same id.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::{Event, Orchestration, OrchestrationContext};
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// # const APPROVED: Event<u32> = Event::new("approved");
    /// # let code = |ctx: OrchestrationContext, n: u32| async move { Ok(n + ctx.event(APPROVED).await?) };
    /// # let hub = dauer::open("memory:")?;
    /// # tokio::spawn(hub.worker().orchestration(ORDER, code).build()?.run(std::future::pending()));
    /// let order = hub.client().start(ORDER, &7).await?;
    ///
    /// order.raise(APPROVED, &1).await?;
    /// assert_eq!(order.output().await?, 8);
    /// order.restart().await?;
    /// order.raise(APPROVED, &2).await?;
    /// assert_eq!(order.output().await?, 9);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Client`] when it has not ended, or why it cannot be done.
    pub async fn restart(&self) -> Result<(), Error> {
        let raw = &self.client.raw;
        raw.restart(&self.id, None, raw.random_key()).await?;
        Ok(())
    }

    /// Runs the same again under another id, with the same input, version and tags, whether it has ended or not. No
    /// instance may have that id, not even an ended one.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::{Event, Orchestration, OrchestrationContext};
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// # const APPROVED: Event<u32> = Event::new("approved");
    /// # let code = |ctx: OrchestrationContext, n: u32| async move { Ok(n + ctx.event(APPROVED).await?) };
    /// # let hub = dauer::open("memory:")?;
    /// # tokio::spawn(hub.worker().orchestration(ORDER, code).build()?.run(std::future::pending()));
    /// let order = hub.client().start(ORDER, &7).await?;
    ///
    /// order.started_within(std::time::Duration::from_secs(60)).await?;
    /// let second = order.restart_as("order-again").await?;
    /// second.raise(APPROVED, &1).await?;
    /// assert_eq!(second.output().await?, 8);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Client`] when the id is taken, or why it cannot be done.
    pub async fn restart_as(&self, id: &str) -> Result<Self, Error> {
        let (raw, id) = (&self.client.raw, InstanceId::new(id)?);
        raw.restart(&self.id, Some(id.clone()), raw.random_key()).await?;
        Ok(Self { client: self.client.clone(), id, output: PhantomData })
    }

    /// Terminates it and its open children.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::{Event, Orchestration, OrchestrationContext};
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// # const APPROVED: Event<u32> = Event::new("approved");
    /// # let code = |ctx: OrchestrationContext, n: u32| async move { Ok(n + ctx.event(APPROVED).await?) };
    /// # let hub = dauer::open("memory:")?;
    /// # tokio::spawn(hub.worker().orchestration(ORDER, code).build()?.run(std::future::pending()));
    /// let order = hub.client().start(ORDER, &7).await?;
    ///
    /// order.terminate("ordered twice").await?;
    /// assert!(matches!(order.output().await, Err(dauer::ClientError::Ended { .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Handle::suspend`].
    pub async fn terminate(&self, reason: &str) -> Result<(), Error> {
        let output = self.client.payloads.encode(reason);
        let output = output.map_err(|source| Error::Unencodable { what: "reason", source })?;
        Ok(self.client.raw.terminate(&self.id, Some(output), true).await?)
    }

    /// Removes it for good once it has ended: [`Client::purge`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::{Event, Orchestration, OrchestrationContext};
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// # const APPROVED: Event<u32> = Event::new("approved");
    /// # let code = |ctx: OrchestrationContext, n: u32| async move { Ok(n + ctx.event(APPROVED).await?) };
    /// # let hub = dauer::open("memory:")?;
    /// # tokio::spawn(hub.worker().orchestration(ORDER, code).build()?.run(std::future::pending()));
    /// let order = hub.client().start(ORDER, &7).await?;
    ///
    /// order.raise(APPROVED, &1).await?;
    /// order.output().await?;
    /// order.purge().await?;
    /// assert!(order.status().await?.is_none());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Client::purge`].
    pub async fn purge(&self) -> Result<(), Error> {
        self.client.purge(&self.id).await
    }
}

impl<O: DeserializeOwned> Handle<O> {
    /// Waits for the end, however long it takes, and gives the output.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::{Event, Orchestration, OrchestrationContext};
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// # const APPROVED: Event<u32> = Event::new("approved");
    /// # let code = |ctx: OrchestrationContext, n: u32| async move { Ok(n + ctx.event(APPROVED).await?) };
    /// # let hub = dauer::open("memory:")?;
    /// # tokio::spawn(hub.worker().orchestration(ORDER, code).build()?.run(std::future::pending()));
    /// let order = hub.client().start(ORDER, &7).await?;
    ///
    /// order.raise(APPROVED, &1).await?;
    /// assert_eq!(order.output().await?, 8);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Failed`] with the failure, [`Error::Ended`] when it was terminated, or why it cannot be told.
    pub async fn output(&self) -> Result<O, Error> {
        self.output_within(FOR_EVER).await
    }

    /// As [`Handle::output`], for at most so long.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use dauer::{Event, Orchestration, OrchestrationContext};
    /// # const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    /// # const APPROVED: Event<u32> = Event::new("approved");
    /// # let code = |ctx: OrchestrationContext, n: u32| async move { Ok(n + ctx.event(APPROVED).await?) };
    /// # let hub = dauer::open("memory:")?;
    /// # tokio::spawn(hub.worker().orchestration(ORDER, code).build()?.run(std::future::pending()));
    /// let order = hub.client().start(ORDER, &7).await?;
    ///
    /// let waited = order.output_within(std::time::Duration::from_millis(1)).await;
    /// assert!(matches!(waited, Err(dauer::ClientError::Client(dauer::RawClientError::TimedOut(_)))));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Handle::output`], and [`Error::Client`] when it has not ended by then.
    pub async fn output_within(&self, timeout: Duration) -> Result<O, Error> {
        let ended = self.ended_within(timeout).await?;
        match ended.status() {
            Status::Completed => {
                let output = ended.record().details.output().map(|output| output.as_str());
                self.client
                    .payloads
                    .decode(output)
                    .map_err(|source| Error::Undecodable { what: "output", source })
            }
            Status::Failed => {
                let failure = ended.failure().unwrap_or_else(|| Failure::new("Failed", "it left no details"));
                Err(Error::Failed { id: self.id.clone(), source: Box::new(failure) })
            }
            status => Err(Error::Ended { id: self.id.clone(), status }),
        }
    }
}
