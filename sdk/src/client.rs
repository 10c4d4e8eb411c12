//! The typed client: start an orchestration, talk to it, wait for its output.

use std::future::{Future, IntoFuture};
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use dauer_core::ids::InvalidName;
use dauer_core::model::{Record, Status};
use dauer_core::send::StartRequest;
use dauer_core::{InstanceId, Timestamp};
use dauer_hub::ClientError;
use dauer_proto::TaskFailureDetails;
use dauer_replay::{Event, Failure, Orchestration};
use dauer_store::{Env, Reuse};

use crate::open::Hub;

/// A client's call that did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The id breaks a rule.
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
        source: serde_json::Error,
    },
    /// The output is not of the type that the orchestration's name says.
    #[error("the output cannot be read; make the types of the name agree on both sides")]
    Undecodable(#[source] serde_json::Error),
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
}

/// A client of a hub.
#[derive(Clone)]
pub struct Client {
    raw: dauer_hub::Client,
    env: Arc<dyn Env>,
}

impl Client {
    pub(crate) fn new(hub: &Hub, env: Arc<dyn Env>) -> Self {
        Self { raw: dauer_hub::Client::new(Arc::clone(&hub.manage), Arc::clone(&env)), env }
    }

    /// The client without types, for tools.
    #[must_use]
    pub fn raw(&self) -> &dauer_hub::Client {
        &self.raw
    }

    /// Starts an orchestration once it is awaited. Without [`StartCall::id`] it gets a random id.
    pub fn start<I: Serialize, O>(&self, orchestration: Orchestration<I, O>, input: &I) -> StartCall<O> {
        StartCall {
            client: self.clone(),
            name: orchestration.name(),
            version: orchestration.version_name(),
            input: serde_json::to_string(input),
            id: None,
            at: None,
            tags: Vec::new(),
            reuse: Reuse::default(),
            output: PhantomData,
        }
    }

    /// A handle on an instance that was started before.
    ///
    /// # Errors
    /// [`Error::Name`] when no instance can have that id.
    pub fn handle<I, O>(&self, _orchestration: Orchestration<I, O>, id: &str) -> Result<Handle<O>, Error> {
        Ok(Handle { client: self.clone(), id: InstanceId::new(id)?, output: PhantomData })
    }

    /// Raises an event. It is buffered until the orchestration waits for it.
    ///
    /// # Errors
    /// [`Error`] when the instance is absent, the data cannot be written, or the store refuses.
    pub async fn raise<T: Serialize>(&self, to: &InstanceId, event: Event<T>, data: &T) -> Result<(), Error> {
        let data = serde_json::to_string(data);
        let data = data.map_err(|source| Error::Unencodable { what: "event data", source })?;
        Ok(self.raw.raise(to, event.name(), Some(data)).await?)
    }
}

/// A start that happens when it is awaited.
#[must_use = "a start does nothing until it is awaited"]
pub struct StartCall<O> {
    client: Client,
    name: &'static str,
    version: Option<&'static str>,
    input: Result<String, serde_json::Error>,
    id: Option<String>,
    at: Option<Timestamp>,
    tags: Vec<(String, String)>,
    reuse: Reuse,
    output: PhantomData<fn() -> O>,
}

impl<O> StartCall<O> {
    /// Under this id. A living instance of the same id is an error; an ended one is replaced.
    pub fn id(self, id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), ..self }
    }

    /// Not before this time.
    pub fn at(self, at: Timestamp) -> Self {
        Self { at: Some(at), ..self }
    }

    /// With a label.
    pub fn tag(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.tags.push((key.into(), value.into()));
        self
    }

    /// With another rule for ids that are taken.
    pub fn reuse(self, reuse: Reuse) -> Self {
        Self { reuse, ..self }
    }

    async fn run(self) -> Result<Handle<O>, Error> {
        let input = self.input.map_err(|source| Error::Unencodable { what: "input", source })?;
        let random = || self.client.env.random();
        let id = self.id.unwrap_or_else(|| format!("{:016x}{:016x}", random(), random()));
        let id = InstanceId::new(id)?;
        let request = StartRequest {
            version: self.version.map(str::to_owned),
            input: Some(input),
            tags: self.tags.into_iter().collect(),
            scheduled: self.at,
            ..StartRequest::new(id.clone(), self.name)
        };
        self.client.raw.start(request, self.reuse).await?;
        Ok(Handle { client: self.client, id, output: PhantomData })
    }
}

impl<O: 'static> IntoFuture for StartCall<O> {
    type Output = Result<Handle<O>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}

/// One started instance.
pub struct Handle<O> {
    client: Client,
    id: InstanceId,
    output: PhantomData<fn() -> O>,
}

/// Longer than anyone waits: a wait without a timeout.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);

impl<O> Handle<O> {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &InstanceId {
        &self.id
    }

    /// Its record, if it still exists.
    ///
    /// # Errors
    /// [`Error::Client`] when the store cannot tell.
    pub async fn status(&self) -> Result<Option<Record>, Error> {
        Ok(self.client.raw.get(&self.id).await?)
    }

    /// Raises an event to it.
    ///
    /// # Errors
    /// As [`Client::raise`].
    pub async fn raise<T: Serialize>(&self, event: Event<T>, data: &T) -> Result<(), Error> {
        self.client.raise(&self.id, event, data).await
    }

    /// Suspends it: nothing is delivered until it is resumed.
    ///
    /// # Errors
    /// [`Error::Client`] when it is absent or the store refuses.
    pub async fn suspend(&self, reason: &str) -> Result<(), Error> {
        Ok(self.client.raw.suspend(&self.id, Some(reason.to_owned())).await?)
    }

    /// Resumes it.
    ///
    /// # Errors
    /// As [`Handle::suspend`].
    pub async fn resume(&self, reason: &str) -> Result<(), Error> {
        Ok(self.client.raw.resume(&self.id, Some(reason.to_owned())).await?)
    }

    /// Rewinds it after it has failed: what failed is done again, what succeeded is not; failed children are rewound with it.
    /// It is the same instance, in a new execution that goes on with the history of the failed one.
    ///
    /// # Errors
    /// [`ClientError::NotFailed`] when it has not failed, or why it cannot be done.
    pub async fn rewind(&self, reason: &str) -> Result<(), Error> {
        Ok(self.client.raw.rewind(&self.id, Some(reason.to_owned())).await?)
    }

    /// Runs it again from its beginning once it has ended, with the same input, version and tags, under the same id.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when it has not ended, or why it cannot be done.
    pub async fn restart(&self) -> Result<(), Error> {
        self.client.raw.restart(&self.id, None).await?;
        Ok(())
    }

    /// Runs the same again under another id, with the same input, version and tags.
    ///
    /// # Errors
    /// As [`Client::start`].
    pub async fn restart_as(&self, id: &str) -> Result<Self, Error> {
        let id = InstanceId::new(id)?;
        self.client.raw.restart(&self.id, Some(id.clone())).await?;
        Ok(Self { client: self.client.clone(), id, output: PhantomData })
    }

    /// Terminates it and its open children.
    ///
    /// # Errors
    /// As [`Handle::suspend`].
    pub async fn terminate(&self, reason: &str) -> Result<(), Error> {
        let output = serde_json::to_string(reason);
        let output = output.map_err(|source| Error::Unencodable { what: "reason", source })?;
        Ok(self.client.raw.terminate(&self.id, Some(output), true).await?)
    }
}

impl<O: DeserializeOwned> Handle<O> {
    /// Waits for the end, however long it takes, and gives the output.
    ///
    /// # Errors
    /// [`Error::Failed`] with the failure, [`Error::Ended`] when it was terminated, or why it cannot be told.
    pub async fn output(&self) -> Result<O, Error> {
        self.output_within(FOR_EVER).await
    }

    /// As [`Handle::output`], for at most so long.
    ///
    /// # Errors
    /// As [`Handle::output`], and [`ClientError::TimedOut`].
    pub async fn output_within(&self, timeout: Duration) -> Result<O, Error> {
        let record = self.client.raw.wait_ended(&self.id, timeout).await?;
        match record.status {
            Status::Completed => {
                let output = record.output.as_ref().map_or("null", |output| output.as_str());
                serde_json::from_str(output).map_err(Error::Undecodable)
            }
            Status::Failed => {
                let details = record.failure.and_then(|failure| failure.decode::<TaskFailureDetails>().ok());
                let source = Box::new(Failure::from(details.unwrap_or_default()));
                Err(Error::Failed { id: self.id.clone(), source })
            }
            status => Err(Error::Ended { id: self.id.clone(), status }),
        }
    }
}
