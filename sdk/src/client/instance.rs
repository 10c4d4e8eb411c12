//! An instance as a query or a look finds it: typed as far as it can be without knowing its orchestration.

use serde::de::DeserializeOwned;

use dauer_core::model::{Payload, Record, Status, Tags, Trouble};
use dauer_core::{ExecutionId, InstanceId, Timestamp};
use dauer_proto::TaskFailureDetails;
use dauer_replay::{Failure, Payloads};

use super::{Client, Error};

/// An instance as it stood when the store was asked.
///
/// ```
/// # use dauer::Orchestration;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use dauer::Status;
/// const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
///
/// let client = dauer::open("memory:")?.client();
/// let order = client.start(ORDER.version("2"), &7).tag("team", "north").await?;
/// let order = client.get(order.id()).await?.unwrap();
/// assert_eq!((order.name(), order.version()), ("order", Some("2")));
/// assert_eq!((order.status(), order.tag("team")), (Status::Pending, Some("north")));
/// assert_eq!(order.output::<u32>()?, None);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Instance {
    id: InstanceId,
    record: Record,
    payloads: Payloads,
}

impl PartialEq for Instance {
    /// How its payloads are read is the client's affair.
    fn eq(&self, other: &Self) -> bool {
        (&self.id, &self.record) == (&other.id, &other.record)
    }
}

impl Eq for Instance {}

impl Client {
    /// An instance that this client has found.
    pub(super) fn instance(&self, id: InstanceId, record: Record) -> Instance {
        Instance { id, record, payloads: self.payloads.clone() }
    }
}

impl Instance {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &InstanceId {
        &self.id
    }

    /// The name of its orchestration.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.record.queue.name
    }

    /// The version of the code that it runs, if it was started with one.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.record.queue.version.as_deref()
    }

    /// Where it stands.
    #[must_use]
    pub fn status(&self) -> Status {
        self.record.status
    }

    /// Why its next turn cannot run, if it is stalled.
    #[must_use]
    pub fn trouble(&self) -> Option<&Trouble> {
        self.record.trouble.as_deref()
    }

    /// The run that it is in.
    #[must_use]
    pub fn execution(&self) -> ExecutionId {
        self.record.execution
    }

    /// When it was created.
    #[must_use]
    pub fn created(&self) -> Timestamp {
        self.record.times.created
    }

    /// When it last changed.
    #[must_use]
    pub fn updated(&self) -> Timestamp {
        self.record.times.updated
    }

    /// When it is to start, if that was said.
    #[must_use]
    pub fn scheduled(&self) -> Option<Timestamp> {
        self.record.times.scheduled
    }

    /// When it ended, if it has.
    #[must_use]
    pub fn completed(&self) -> Option<Timestamp> {
        self.record.times.completed
    }

    /// Its labels.
    #[must_use]
    pub fn tags(&self) -> &Tags {
        &self.record.tags
    }

    /// The value of one label.
    #[must_use]
    pub fn tag(&self, key: &str) -> Option<&str> {
        self.record.tags.get(key).map(String::as_str)
    }

    /// The orchestration that waits for it, if it is a child.
    #[must_use]
    pub fn parent(&self) -> Option<&InstanceId> {
        self.record.parent.as_deref().map(|parent| &parent.instance)
    }

    /// What its code last reported of itself, if it has.
    ///
    /// # Errors
    /// [`Error::Undecodable`] when it is of another type.
    pub fn custom_status<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.decode("custom status", self.record.details.custom_status())
    }

    /// Its output, once it has one. [`Handle::output`](super::Handle::output) waits for it.
    ///
    /// # Errors
    /// [`Error::Undecodable`] when it is of another type.
    pub fn output<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        self.decode("output", self.record.details.output())
    }

    /// What it failed with, if it has failed.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        let details = self.record.details.failure()?.decode::<TaskFailureDetails>();
        Some(details.map_or_else(|error| Failure::new("Undecodable", error.to_string()), Failure::from))
    }

    /// All that the store has of it.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    fn decode<T: DeserializeOwned>(
        &self,
        what: &'static str,
        payload: Option<&Payload>,
    ) -> Result<Option<T>, Error> {
        let value = payload.map(|payload| self.payloads.decode(Some(payload.as_str()))).transpose();
        value.map_err(|source| Error::Undecodable { what, source })
    }
}
