//! The client without types: of a store in this process, or of a server.

use std::time::Duration;

use futures::stream::{BoxStream, StreamExt, TryStreamExt, try_unfold};

use dauer_core::InstanceId;
use dauer_core::model::Record;
use dauer_core::send::StartRequest;
use dauer_hub::{Client as Local, ClientError, HistoryReader, Unusable};
use dauer_proto::HistoryEvent;
use dauer_store::{Created, Inspection, Page, Purge, Purged, Query, Reuse, SessionInfo};

use super::history::HistoryStream;
#[cfg(feature = "grpc")]
use crate::remote::RemoteClient;

/// A client without types: payloads are text. For tools; programs use [`Client`](super::Client), which is made of one.
#[doc = include_str!("../docs/tools.md")]
#[derive(Clone)]
pub struct RawClient(Kind);

/// An instance from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Inspected {
    /// The instance without its history.
    pub record: Record,
    /// Its holder, the messages that wait for it and its open tasks.
    pub inspection: Inspection,
}

/// A session from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Attached {
    /// The session of one host.
    pub session: SessionInfo,
    /// How many workers are connected to the host. Only for the server that was asked, whose host runs no code itself;
    /// `None` for all other hosts.
    pub workers: Option<usize>,
}

#[derive(Clone)]
enum Kind {
    Local(Local),
    #[cfg(feature = "grpc")]
    Remote(RemoteClient),
}

/// The same call for both, whose errors are the same.
macro_rules! either {
    ($self:ident, $client:ident => $call:expr) => {
        match &$self.0 {
            Kind::Local($client) => $call,
            #[cfg(feature = "grpc")]
            Kind::Remote($client) => $call,
        }
    };
}

impl RawClient {
    pub(crate) fn local(client: Local) -> Self {
        Self(Kind::Local(client))
    }

    #[cfg(feature = "grpc")]
    pub(crate) fn remote(client: RemoteClient) -> Self {
        Self(Kind::Remote(client))
    }

    /// The same client for the waits of an instance that it has started.
    pub(super) fn having_started(self) -> Self {
        match self.0 {
            Kind::Local(_) => self,
            #[cfg(feature = "grpc")]
            Kind::Remote(client) => Self(Kind::Remote(client.having_started())),
        }
    }

    /// A request's id that nobody else has.
    #[must_use]
    pub fn random_key(&self) -> u128 {
        either!(self, client => client.random_key())
    }

    /// Starts an instance, with the request's own id: the same id for the same instance again, from whatever process, is the
    /// same start and does nothing. What else the second one says is not looked at. A server does not tell what it did: then
    /// there is nothing.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with [`Refused::Exists`](crate::Refused) when the id is taken and `reuse` keeps it.
    pub async fn start_requested(
        &self,
        request: StartRequest,
        reuse: Reuse,
        key: u128,
    ) -> Result<Option<Created>, ClientError> {
        match &self.0 {
            Kind::Local(client) => client.start_requested(request, reuse, key).await.map(Some),
            #[cfg(feature = "grpc")]
            Kind::Remote(client) => client.start_requested(request, reuse, key).await.map(|()| None),
        }
    }

    /// Raises an event. An instance that is absent or has ended never sees it.
    ///
    /// # Errors
    /// [`ClientError`] when the request breaks a rule, the instance is absent or the store refuses.
    pub async fn raise(&self, to: &InstanceId, name: &str, data: Option<String>) -> Result<(), ClientError> {
        either!(self, client => client.raise(to, name, data).await)
    }

    /// Suspends an instance.
    ///
    /// # Errors
    /// As [`RawClient::raise`].
    pub async fn suspend(&self, to: &InstanceId, reason: Option<String>) -> Result<(), ClientError> {
        either!(self, client => client.suspend(to, reason).await)
    }

    /// Resumes an instance.
    ///
    /// # Errors
    /// As [`RawClient::raise`].
    pub async fn resume(&self, to: &InstanceId, reason: Option<String>) -> Result<(), ClientError> {
        either!(self, client => client.resume(to, reason).await)
    }

    /// Terminates an instance, its open children too when `recurse`.
    ///
    /// # Errors
    /// As [`RawClient::raise`].
    pub async fn terminate(
        &self,
        to: &InstanceId,
        output: Option<String>,
        recurse: bool,
    ) -> Result<(), ClientError> {
        either!(self, client => client.terminate(to, output, recurse).await)
    }

    /// The record of an instance.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the store cannot tell.
    pub async fn get(&self, instance: &InstanceId) -> Result<Option<Record>, ClientError> {
        either!(self, client => client.get(instance).await)
    }

    /// The record of an instance, its holder, the messages that wait for it and its open tasks.
    ///
    /// # Errors
    /// As [`RawClient::get`]; [`RemoteError::Unsupported`](crate::RemoteError::Unsupported) when the server is not dauer's.
    pub async fn inspect(&self, instance: &InstanceId) -> Result<Option<Inspected>, ClientError> {
        match &self.0 {
            Kind::Local(client) => {
                let record = client.get(instance).await?;
                let inspection = client.inspect(instance).await?;
                Ok(record.zip(inspection).map(|(record, inspection)| Inspected { record, inspection }))
            }
            #[cfg(feature = "grpc")]
            Kind::Remote(client) => client.inspect(instance).await,
        }
    }

    /// The sessions of the hub, by id: one for each host that claims its work. Never creates the hub.
    ///
    /// # Errors
    /// As [`RawClient::inspect`].
    pub async fn sessions(&self) -> Result<Vec<Attached>, ClientError> {
        match &self.0 {
            Kind::Local(client) => {
                let sessions = client.sessions().await?.into_iter();
                Ok(sessions.map(|session| Attached { session, workers: None }).collect())
            }
            #[cfg(feature = "grpc")]
            Kind::Remote(client) => client.sessions().await,
        }
    }

    /// Waits until the instance has begun to run.
    ///
    /// # Errors
    /// [`ClientError::TimedOut`] after `timeout`; [`ClientError::Absent`], without waiting, when there is no such instance.
    pub async fn wait_started(
        &self,
        instance: &InstanceId,
        timeout: Duration,
    ) -> Result<Record, ClientError> {
        either!(self, client => client.wait_started(instance, timeout).await)
    }

    /// Waits until the instance has ended.
    ///
    /// # Errors
    /// As [`RawClient::wait_started`].
    pub async fn wait_ended(&self, instance: &InstanceId, timeout: Duration) -> Result<Record, ClientError> {
        either!(self, client => client.wait_ended(instance, timeout).await)
    }

    /// Waits for a condition. Over a server it looks twice a second, because nothing else can be waited for there.
    ///
    /// # Errors
    /// As [`RawClient::wait_started`].
    pub async fn wait(
        &self,
        instance: &InstanceId,
        timeout: Duration,
        condition: impl Fn(&Record) -> bool,
    ) -> Result<Record, ClientError> {
        either!(self, client => client.wait(instance, timeout, condition).await)
    }

    /// One page of the instances that match.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with [`Refused::Cursor`](crate::Refused) when `after` is nothing that a page ended with,
    /// [`ClientError::Remote`] when the server does not have dauer's management service, or why the store cannot tell.
    pub async fn query(&self, query: Query) -> Result<Page, ClientError> {
        either!(self, client => client.query(query).await)
    }

    /// Whether the hub holds no instance, neither an orchestration nor an entity. Never creates the hub.
    ///
    /// # Errors
    /// As [`RawClient::query`].
    pub async fn is_empty(&self) -> Result<bool, ClientError> {
        for entities in [false, true] {
            let any = self.query(Query { entities, page: 1, ..Query::default() }).await?;
            if !any.records.is_empty() || any.next.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes an ended instance for good.
    ///
    /// # Errors
    /// [`ClientError::Absent`], [`ClientError::NotEnded`], [`ClientError::Engaged`], or why the store refused.
    pub async fn purge(&self, instance: &InstanceId) -> Result<(), ClientError> {
        either!(self, client => client.purge(instance).await)
    }

    /// Removes those of these instances that have ended, for good; how many that were.
    ///
    /// # Errors
    /// [`ClientError::Refused`] when the store refused.
    pub async fn purge_ids(&self, ids: &[InstanceId]) -> Result<usize, ClientError> {
        match &self.0 {
            Kind::Local(client) => Ok(client.hub().purge(Purge::Ids(ids.to_vec())).await?.count),
            #[cfg(feature = "grpc")]
            Kind::Remote(client) => client.purge_ids(ids).await,
        }
    }

    /// Removes ended instances that match, at most so many. What was removed by a call whose answer was lost is not in the
    /// count.
    ///
    /// # Errors
    /// As [`RawClient::query`].
    pub async fn purge_matching(&self, query: &Query, budget: usize) -> Result<Purged, ClientError> {
        either!(self, client => client.purge_matching(query, budget).await)
    }

    /// Runs a stalled instance at once: ends the delay before its next try. An instance whose delay is over, or that a worker
    /// holds, is left as it is.
    ///
    /// # Errors
    /// [`ClientError::Absent`], [`ClientError::NotStalled`], [`ClientError::Remote`] when the server does not have dauer's
    /// management service, or why the store refused.
    pub async fn retry(&self, instance: &InstanceId) -> Result<(), ClientError> {
        either!(self, client => client.retry(instance).await)
    }

    /// Runs those of these instances at once that are stalled. Returns the number of instances whose delay it ended.
    ///
    /// # Errors
    /// [`ClientError::Remote`] when the server does not have dauer's management service, or why the store refused.
    pub async fn retry_ids(&self, ids: &[InstanceId]) -> Result<usize, ClientError> {
        either!(self, client => client.retry_ids(ids).await)
    }

    /// Rewinds a failed instance: what failed is done again, what succeeded is not. Failed children are rewound with it.
    ///
    /// # Errors
    /// [`ClientError::Absent`], [`ClientError::NotFailed`], or why it cannot be done.
    pub async fn rewind(&self, instance: &InstanceId, reason: Option<String>) -> Result<(), ClientError> {
        either!(self, client => client.rewind(instance, reason).await)
    }

    /// Starts an ended instance again from its beginning: the same orchestration, version, input and tags. Under another id
    /// when one is given, and then whatever its own status is; that other id must be one that no instance has. The same key
    /// again is the same start, as in [`RawClient::start_requested`].
    ///
    /// # Errors
    /// [`ClientError::Absent`], [`ClientError::NotEnded`], [`ClientError::Refused`] with
    /// [`Refused::Exists`](crate::Refused) when the other id is taken, or why it cannot be done.
    pub async fn restart(
        &self,
        instance: &InstanceId,
        to: Option<InstanceId>,
        key: u128,
    ) -> Result<Option<Created>, ClientError> {
        match &self.0 {
            Kind::Local(client) => client.restart(instance, to, key).await.map(Some),
            #[cfg(feature = "grpc")]
            Kind::Remote(client) => client.restart(instance, to, key).await.map(|()| None),
        }
    }

    /// The input of the run that the record is of, whether it has begun or not.
    ///
    /// # Errors
    /// [`ClientError::MovedOn`] when another run has taken its place meanwhile, or why it cannot be told.
    pub async fn input(&self, instance: &InstanceId, record: &Record) -> Result<Option<String>, ClientError> {
        match &self.0 {
            Kind::Local(client) => client.input(instance, record).await,
            #[cfg(feature = "grpc")]
            Kind::Remote(client) => client.input(instance, record).await,
        }
    }

    /// The history of the run that the record is of, event by event.
    #[must_use]
    pub fn history_of(&self, instance: &InstanceId, record: &Record) -> HistoryStream {
        let events = match &self.0 {
            Kind::Local(client) => events(client.history_of(instance, record)),
            #[cfg(feature = "grpc")]
            Kind::Remote(client) => client.history_of(instance, record),
        };
        HistoryStream::new(instance.clone(), record.execution, events)
    }
}

/// The events of a stored history, read a part at a time.
fn events(reader: HistoryReader) -> BoxStream<'static, Result<HistoryEvent, ClientError>> {
    let parts = try_unfold(reader, |mut reader| async move {
        let Some(batches) = reader.next().await? else { return Ok::<_, ClientError>(None) };
        let mut events = Vec::new();
        for stored in batches {
            let decoded = stored.batch.decode().map_err(|error| ClientError::History {
                instance: reader.instance().clone(),
                source: Unusable::Ledger(error.into()),
            })?;
            events.extend(decoded);
        }
        Ok(Some((futures::stream::iter(events.into_iter().map(Ok)), reader)))
    });
    parts.try_flatten().boxed()
}
