//! Starting instances.
//!
//! A start that is sent twice is carried out once, where it can be recognised:
//!
//! - dauer's own clients name the request in a header. The same request for the same id is the same start.
//! - All other starts are recognised by their content, and only when the transport marks them as a retry (behaviour 11)
//!   and an equal start was accepted shortly before. A deliberate second start is up to the reuse policy (behaviour 46).

use prost::Message;
use sha2::{Digest, Sha256};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use dauer_core::model::Status as InstanceStatus;
use dauer_core::send::StartRequest;
use dauer_proto::CreateInstanceRequest;
use dauer_proto::wire::CreateInstanceResponse;
use dauer_store::Reuse;

use crate::calls::{orchestration, random_id, statuses, time};
use crate::gate::header;
use crate::hub::Hub;
use crate::status;

/// The header in which dauer's own clients name a request.
pub(crate) const REQUEST_ID_HEADER: &str = "dauer-request-id";

/// The header in which clients of gRPC that try again say how often they have tried before.
const ATTEMPTS_HEADER: &str = "grpc-previous-rpc-attempts";

/// The field that names the statuses of a policy.
const REPLACEABLE: &str = "orchestrationIdReusePolicy.replaceableStatus";

/// What older SDKs mean by a policy of reuse: an instance in one of its statuses is kept, and that is no error.
const KEEP: i32 = 1;

/// The other thing that they mean: it is replaced.
const REPLACE: i32 = 2;

pub(crate) async fn start(
    hub: &Hub,
    metadata: &MetadataMap,
    request: CreateInstanceRequest,
) -> Result<CreateInstanceResponse, Status> {
    let (kept, instance_id) = (kept(&request)?, request.instance_id.clone());
    let exists = match start_new(hub, metadata, request).await {
        Err(status) if status.code() == Code::AlreadyExists && !kept.is_empty() => status,
        answer => return answer,
    };
    let record = hub.client.get(&orchestration(&instance_id)?).await.map_err(status::of)?;
    let is_kept = record.is_some_and(|record| kept.contains(&record.status));
    if is_kept { Ok(CreateInstanceResponse { instance_id }) } else { Err(exists) }
}

/// Those of a policy whose instances are kept.
fn kept(request: &CreateInstanceRequest) -> Result<Vec<InstanceStatus>, Status> {
    let policy = request.orchestration_id_reuse_policy.as_ref().filter(|policy| policy.legacy_action == KEEP);
    policy.map_or(Ok(Vec::new()), |policy| statuses(REPLACEABLE, &policy.replaceable_status))
}

async fn start_new(
    hub: &Hub,
    metadata: &MetadataMap,
    request: CreateInstanceRequest,
) -> Result<CreateInstanceResponse, Status> {
    let (key, reuse) = (request_id(metadata)?, reuse(&request)?);
    // Tags are ordered, so that equal requests are equal bytes.
    let content = Sha256::digest(request.encode_to_vec());
    let request = asked(hub, request)?;
    let instance_id = request.instance.to_string();
    let started = match key {
        Some(key) => hub.client.start_requested(request, reuse, key).await,
        None => hub.client.start_alike(request, reuse, &content, is_retry(metadata)).await,
    };
    started.map_err(status::of)?;
    Ok(CreateInstanceResponse { instance_id })
}

/// Whether a client of gRPC says that it has tried before.
fn is_retry(metadata: &MetadataMap) -> bool {
    header(metadata, ATTEMPTS_HEADER).and_then(|text| text.parse::<u32>().ok()).is_some_and(|tried| tried > 0)
}

/// The request's own id, as 32 hexadecimal digits.
pub(crate) fn request_id(metadata: &MetadataMap) -> Result<Option<u128>, Status> {
    let Some(value) = metadata.get(REQUEST_ID_HEADER) else { return Ok(None) };
    let text = value.to_str().ok().filter(|text| text.len() == 32);
    let key = text.and_then(|text| u128::from_str_radix(text, 16).ok());
    let wrong =
        || Status::invalid_argument(format!("{REQUEST_ID_HEADER} is no id; give 32 hexadecimal digits"));
    key.map(Some).ok_or_else(wrong)
}

fn asked(hub: &Hub, request: CreateInstanceRequest) -> Result<StartRequest, Status> {
    let instance = match request.instance_id.as_str() {
        "" => random_id(hub)?,
        id => orchestration(id)?,
    };
    Ok(StartRequest {
        version: request.version,
        input: request.input,
        tags: request.tags.into(),
        scheduled: time("scheduledStartTimestamp", request.scheduled_start_timestamp)?,
        trace: request.parent_trace_context,
        ..StartRequest::new(instance, request.name)
    })
}

/// Which instances of that id may be replaced: without a policy those that have ended, with one those that it names
/// (behaviour 46).
fn reuse(request: &CreateInstanceRequest) -> Result<Reuse, Status> {
    let Some(policy) = &request.orchestration_id_reuse_policy else { return Ok(Reuse::default()) };
    let replaceable = match policy.legacy_action {
        KEEP => Vec::new(),
        _ => statuses(REPLACEABLE, &policy.replaceable_status)?,
    };
    if policy.legacy_action == REPLACE {
        return Ok(Reuse { replaceable });
    }
    let living = replaceable.iter().any(|status| !status.is_ended());
    if living && !replaceable.contains(&InstanceStatus::Terminated) {
        return Err(Status::invalid_argument(
            "Invalid reusable statuses: cannot exclude 'Terminated' while also allowing reuse of running instances",
        ));
    }
    Ok(Reuse { replaceable })
}
