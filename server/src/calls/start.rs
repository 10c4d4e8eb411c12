//! Starting instances.
//!
//! A start that is made twice is made once, if it can be recognised. Three kinds of callers:
//!
//! - dauer's own name the request in a header: the same request for the same id is the same start;
//! - some SDKs say when they asked (`requestTime`): the same request, that time included, is the same start, and one that
//!   was made deliberately a second time has another time;
//! - the others say nothing of the kind. Two equal requests are two starts, unless the second says of itself that it is
//!   another attempt at the same call, which clients of gRPC do that try again by themselves (behaviour 11).
//!
//! So of two deliberate starts of a living instance the second is refused (behaviour 46), and one whose answer was lost on
//! its way is not.

use prost::Message;
use sha2::{Digest, Sha256};
use tonic::metadata::MetadataMap;
use tonic::{Code, Status};

use dauer_core::model::Status as InstanceStatus;
use dauer_core::send::StartRequest;
use dauer_proto::CreateInstanceRequest;
use dauer_proto::wire::CreateInstanceResponse;
use dauer_store::{Created, Refused, Reuse};

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

/// How a start is recognised when it comes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Identity {
    /// By this key, which no other start has.
    Sure(u128),
    /// By this key, which a deliberate second start would have as well.
    Alike(u128),
    /// Not at all.
    None,
}

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
    let (identity, reuse) = (identity(metadata, &request)?, reuse(&request)?);
    let request = asked(hub, request)?;
    let instance_id = request.instance.to_string();
    let start = |key| hub.client.start_requested(request.clone(), reuse.clone(), key);
    let response = CreateInstanceResponse { instance_id };
    let key = match identity {
        Identity::Sure(key) => {
            start(key).await.map_err(status::of)?;
            return Ok(response);
        }
        Identity::Alike(key) => match start(key).await.map_err(status::of)? {
            Created::Repeat(_) if !is_retry(metadata) => deliberate(hub, &request, &reuse).await?,
            _ => return Ok(response),
        },
        Identity::None => hub.client.random_key(),
    };
    start(key).await.map_err(status::of)?;
    Ok(response)
}

/// The key of a start that is equal to the one before and meant to be another: refused while that one lives, unless living
/// ones may be replaced.
async fn deliberate(hub: &Hub, request: &StartRequest, reuse: &Reuse) -> Result<u128, Status> {
    let record = hub.client.get(&request.instance).await.map_err(status::of)?;
    match record {
        Some(record) if !reuse.replaceable.contains(&record.status) => {
            Err(status::refusal(&Refused::Exists(record.status)))
        }
        _ => Ok(hub.client.random_key()),
    }
}

/// Whether a client of gRPC says that it has tried before.
fn is_retry(metadata: &MetadataMap) -> bool {
    header(metadata, ATTEMPTS_HEADER).and_then(|text| text.parse::<u32>().ok()).is_some_and(|tried| tried > 0)
}

fn identity(metadata: &MetadataMap, request: &CreateInstanceRequest) -> Result<Identity, Status> {
    if let Some(key) = request_id(metadata)? {
        return Ok(Identity::Sure(key));
    }
    if request.instance_id.is_empty() {
        // Whoever lets the server choose the id gets another one each time.
        return Ok(Identity::None);
    }
    // Tags are ordered, so that equal requests are equal bytes.
    let digest = Sha256::digest(request.encode_to_vec());
    let mut key = [0; 16];
    key.copy_from_slice(&digest[..16]);
    let key = u128::from_le_bytes(key);
    Ok(if request.request_time.is_some() { Identity::Sure(key) } else { Identity::Alike(key) })
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
