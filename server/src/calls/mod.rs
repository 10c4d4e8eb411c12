//! What each call does.
//!
//! - `start` starts instances, `wait` gets and waits for them, `state` is how they are told;
//! - `send` raises events, suspends, resumes and terminates;
//! - `find` queries and lists, `purge` removes, `operate` rewinds, restarts and ends by force;
//! - `history` streams histories;
//! - `work` is what workers call.

pub(crate) mod find;
pub(crate) mod history;
pub(crate) mod operate;
pub(crate) mod purge;
pub(crate) mod send;
pub(crate) mod start;
pub(crate) mod state;
pub(crate) mod wait;
pub(crate) mod work;

use dauer_core::InstanceId;
use dauer_core::model::Status as InstanceStatus;
use dauer_core::{ExecutionId, Timestamp};
use dauer_proto::OrchestrationStatus;
use tonic::Status;

use crate::hub::Hub;
use crate::status;

/// The id of an instance, orchestration or entity.
pub(crate) fn instance(id: &str) -> Result<InstanceId, Status> {
    InstanceId::new(id).map_err(|invalid| status::name(&invalid))
}

/// The id of an orchestration.
pub(crate) fn orchestration(id: &str) -> Result<InstanceId, Status> {
    let id = instance(id)?;
    // A message to an entity that is not there would bring it into being.
    id.check_orchestration().map_err(|invalid| status::name(&invalid))?;
    Ok(id)
}

/// An id that nobody has: 32 hexadecimal digits, as SDKs make them.
pub(crate) fn random_id(hub: &Hub) -> Result<InstanceId, Status> {
    instance(&ExecutionId(hub.client.random_key()).to_string())
}

/// A time of a request, in whole milliseconds: rounded up, which is right for both ends of a range, as what is compared
/// with it is whole.
pub(crate) fn time(field: &str, at: Option<dauer_proto::Timestamp>) -> Result<Option<Timestamp>, Status> {
    let millis = at.as_ref().map(dauer_proto::time::to_millis_ceil).transpose();
    millis.map(|at| at.map(Timestamp)).map_err(|invalid| status::message(&invalid.within(field)))
}

/// The statuses that a request names.
pub(crate) fn statuses(field: &str, wire: &[i32]) -> Result<Vec<InstanceStatus>, Status> {
    let unknown =
        |number| Status::invalid_argument(format!("{field} names the status {number}, which there is not"));
    let status = |number: &i32| OrchestrationStatus::try_from(*number).map_err(|_| unknown(*number));
    wire.iter().map(|number| status(number).map(InstanceStatus::from)).collect()
}
