//! Messages to instances: events, and what suspends, resumes and ends them. An absent instance is NOT_FOUND (behaviour 49). An
//! instance that has ended drops them, which is no error (behaviour 31). Those of SDKs are sent as often as they are called; dauer's own
//! clients name their requests, and sending one again does nothing while its instance is there. A purge forgets all ids but those of starts.

use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

use dauer_hub::Client;
use dauer_proto::wire::{
    RaiseEventRequest, RaiseEventResponse, ResumeRequest, ResumeResponse, SuspendRequest, SuspendResponse,
    TerminateRequest, TerminateResponse,
};

use crate::calls::{orchestration, start};
use crate::hub::Hub;
use crate::status;

fn client(hub: &Hub, metadata: &MetadataMap) -> Result<Client, Status> {
    Ok(match start::request_id(metadata)? {
        Some(id) => hub.client.for_request(id),
        None => hub.client.clone(),
    })
}

pub(crate) async fn raise(
    hub: &Hub,
    request: Request<RaiseEventRequest>,
) -> Result<RaiseEventResponse, Status> {
    let client = client(hub, request.metadata())?;
    let RaiseEventRequest { instance_id, name, input } = request.into_inner();
    let id = orchestration(&instance_id)?;
    client.raise(&id, &name, input).await.map_err(status::of)?;
    Ok(RaiseEventResponse {})
}

pub(crate) async fn suspend(hub: &Hub, request: Request<SuspendRequest>) -> Result<SuspendResponse, Status> {
    let client = client(hub, request.metadata())?;
    let SuspendRequest { instance_id, reason } = request.into_inner();
    client.suspend(&orchestration(&instance_id)?, reason).await.map_err(status::of)?;
    Ok(SuspendResponse {})
}

pub(crate) async fn resume(hub: &Hub, request: Request<ResumeRequest>) -> Result<ResumeResponse, Status> {
    let client = client(hub, request.metadata())?;
    let ResumeRequest { instance_id, reason } = request.into_inner();
    client.resume(&orchestration(&instance_id)?, reason).await.map_err(status::of)?;
    Ok(ResumeResponse {})
}

pub(crate) async fn terminate(
    hub: &Hub,
    request: Request<TerminateRequest>,
) -> Result<TerminateResponse, Status> {
    let client = client(hub, request.metadata())?;
    let TerminateRequest { instance_id, output, recursive } = request.into_inner();
    client.terminate(&orchestration(&instance_id)?, output, recursive).await.map_err(status::of)?;
    Ok(TerminateResponse {})
}
