//! What operators do to instances: rewind them, start them again, end them by force.

use tonic::Status;
use tonic::metadata::MetadataMap;

use dauer_hub::ClientError;
use dauer_proto::wire::{
    RestartInstanceRequest, RestartInstanceResponse, RewindInstanceRequest, RewindInstanceResponse,
    SkipGracefulOrchestrationTerminationsRequest, SkipGracefulOrchestrationTerminationsResponse,
};

use crate::calls::{orchestration, random_id, start};
use crate::hub::Hub;
use crate::options::BATCH_INSTANCES_MAX;
use crate::status;

pub(crate) async fn rewind(
    hub: &Hub,
    request: RewindInstanceRequest,
) -> Result<RewindInstanceResponse, Status> {
    let id = orchestration(&request.instance_id)?;
    hub.client.rewind(&id, request.reason).await.map_err(status::of)?;
    Ok(RewindInstanceResponse {})
}

/// Under the same id an instance must have ended; under a new one it may still run (behaviour 53).
pub(crate) async fn restart(
    hub: &Hub,
    metadata: &MetadataMap,
    request: RestartInstanceRequest,
) -> Result<RestartInstanceResponse, Status> {
    let id = orchestration(&request.instance_id)?;
    let to = if request.restart_with_new_instance_id { Some(random_id(hub)?) } else { None };
    let key = start::request_id(metadata)?.unwrap_or_else(|| hub.client.random_key());
    hub.client.restart(&id, to.clone(), key).await.map_err(status::of)?;
    Ok(RestartInstanceResponse { instance_id: to.unwrap_or(id).to_string() })
}

/// Ends instances at once, without their code, and tells which could not be (behaviour 57).
pub(crate) async fn end_by_force(
    hub: &Hub,
    request: SkipGracefulOrchestrationTerminationsRequest,
) -> Result<SkipGracefulOrchestrationTerminationsResponse, Status> {
    let ids = request.instance_batch.unwrap_or_default().instance_ids;
    if ids.len() > BATCH_INSTANCES_MAX {
        return Err(status::too_many("instanceBatch.instanceIds", ids.len(), BATCH_INSTANCES_MAX));
    }
    let mut left = Vec::new();
    for text in ids {
        let Ok(id) = orchestration(&text) else {
            left.push(text);
            continue;
        };
        match hub.client.force_terminate(&id, request.reason.clone(), false).await {
            Ok(()) => {}
            Err(ClientError::Absent(_) | ClientError::Ended { .. }) => left.push(text),
            Err(error) => return Err(status::of(error)),
        }
    }
    Ok(SkipGracefulOrchestrationTerminationsResponse { unterminated_instance_ids: left })
}
