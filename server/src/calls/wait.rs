//! Getting an instance, and waiting for it. A wait is an entry in a map and a timer; it ends when its caller goes away,
//! because then nobody polls it any more.

use std::time::Duration;

use tonic::Status;
use tonic::metadata::MetadataMap;

use dauer_core::InstanceId;
use dauer_core::model::Record;
use dauer_hub::ClientError;
use dauer_proto::wire::{GetInstanceRequest, GetInstanceResponse};

use crate::calls::instance;
use crate::calls::state::{self, Payloads};
use crate::hub::Hub;
use crate::status;

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum For {
    Start,
    End,
}

/// How long the wait for an instance that is there goes on before it begins anew. Seldom: there may be ten thousand of them.
const PRESENT_WAIT: Duration = Duration::from_secs(60 * 60);

/// How often a run that was replaced while it was being told is looked at again.
const LOOKS_MAX: usize = 3;

pub(crate) async fn get(
    hub: &Hub,
    metadata: &MetadataMap,
    request: GetInstanceRequest,
) -> Result<GetInstanceResponse, Status> {
    let id = instance(&request.instance_id)?;
    let record = hub.client.get(&id).await.map_err(status::of)?;
    told(hub, &id, record, Payloads::asked(metadata, request.get_inputs_and_outputs)).await
}

/// Waits for as long as the caller does. For an instance that is not there it waits at most `absent`, and then says so:
/// never an error (behaviour 48).
pub(crate) async fn wait(
    hub: &Hub,
    id: InstanceId,
    (what, payloads): (For, Payloads),
    absent: Duration,
) -> Result<GetInstanceResponse, Status> {
    let mut time = absent;
    let record = loop {
        let waited = match what {
            For::Start => hub.client.wait_started(&id, time).await,
            For::End => hub.client.wait_ended(&id, time).await,
        };
        match waited {
            Ok(record) => break Some(record),
            Err(ClientError::Absent(_)) => break None,
            Err(ClientError::TimedOut(_)) => time = PRESENT_WAIT,
            Err(error) => return Err(status::of(error)),
        }
    };
    // On the heap, so that it takes no room before it is there.
    Box::pin(told(hub, &id, record, payloads)).await
}

async fn told(
    hub: &Hub,
    id: &InstanceId,
    record: Option<Record>,
    payloads: Payloads,
) -> Result<GetInstanceResponse, Status> {
    let mut record = record.filter(state::is_orchestration);
    let mut looks = 0;
    while let Some(found) = record {
        match state::told(&hub.client, (id, found), payloads).await {
            Ok(told) => return Ok(GetInstanceResponse { exists: true, orchestration_state: Some(told) }),
            Err(moved_on) if moved_on.code() == tonic::Code::Aborted && looks < LOOKS_MAX => looks += 1,
            Err(error) => return Err(error),
        }
        record = hub.client.get(id).await.map_err(status::of)?;
    }
    Ok(GetInstanceResponse { exists: false, orchestration_state: None })
}
