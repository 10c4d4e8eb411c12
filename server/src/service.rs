//! The service: each call goes to the hub that its caller was admitted to.

use std::future::Future;
use std::sync::Arc;

use futures::stream::BoxStream;
use tokio::sync::watch;
use tonic::{Request, Response, Status};

use dauer_core::HubName;
use dauer_proto::wire::{
    AbandonActivityTaskRequest, AbandonActivityTaskResponse, AbandonEntityTaskRequest,
    AbandonEntityTaskResponse, AbandonOrchestrationTaskRequest, AbandonOrchestrationTaskResponse,
    CleanEntityStorageRequest, CleanEntityStorageResponse, CompleteTaskResponse, CreateInstanceResponse,
    CreateTaskHubRequest, CreateTaskHubResponse, DeleteTaskHubRequest, DeleteTaskHubResponse,
    GetEntityRequest, GetEntityResponse, GetInstanceRequest, GetInstanceResponse, GetWorkItemsRequest,
    HistoryChunk, ListInstanceIdsRequest, ListInstanceIdsResponse, PurgeInstancesRequest,
    PurgeInstancesResponse, QueryEntitiesRequest, QueryEntitiesResponse, QueryInstancesRequest,
    QueryInstancesResponse, RaiseEventRequest, RaiseEventResponse, RestartInstanceRequest,
    RestartInstanceResponse, ResumeRequest, ResumeResponse, RewindInstanceRequest, RewindInstanceResponse,
    SignalEntityRequest, SignalEntityResponse, SkipGracefulOrchestrationTerminationsRequest,
    SkipGracefulOrchestrationTerminationsResponse, StreamInstanceHistoryRequest, SuspendRequest,
    SuspendResponse, TerminateRequest, TerminateResponse,
};
use dauer_proto::{
    ActivityResponse, CreateInstanceRequest, EntityBatchResult, OrchestratorResponse, WorkItem,
};
use dauer_rpc::Service;

use crate::calls::state::Payloads;
use crate::calls::{find, history, instance, operate, orchestration, purge, send, start, wait, work};
use crate::gate::{Admitted, Gate, NotAdmitted};
use crate::hub::Hub;
use crate::hubs::Hubs;
use crate::options::Limits;
use crate::status;

/// The protocol, over the hubs of a server.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) hubs: Arc<Hubs>,
    pub(crate) limits: Limits,
    pub(crate) gate: Gate,
    /// True once nothing is waited for any more.
    pub(crate) ending: watch::Receiver<bool>,
}

type Answer<T> = Result<Response<T>, Status>;

impl Calls {
    /// The hub that a call is for.
    pub(crate) async fn hub<T>(&self, request: &Request<T>) -> Result<Arc<Hub>, Status> {
        self.hubs.get(&admitted(request)?).await
    }

    /// The hub that a message is for, if it exists. A message to an absent hub finds no instance, and does not make the hub.
    async fn existing_hub<T>(&self, request: &Request<T>, id: &str) -> Result<Arc<Hub>, Status> {
        // An invalid request is refused as invalid, whatever hub it names.
        orchestration(id)?;
        self.hubs.existing(&admitted(request)?).await
    }

    /// Waits for something that may take for ever; only while the server goes on.
    async fn while_it_goes_on<T>(
        &self,
        waiting: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let mut ending = self.ending.clone();
        tokio::select! {
            biased;
            result = waiting => result,
            // The sender is gone with the server.
            _ = ending.wait_for(|ending| *ending) => Err(status::stopping()),
        }
    }

    async fn wait(
        &self,
        request: Request<GetInstanceRequest>,
        what: wait::For,
    ) -> Answer<GetInstanceResponse> {
        let hub = self.hub(&request).await?;
        let id = instance(&request.get_ref().instance_id)?;
        let payloads = Payloads::asked(request.metadata(), request.get_ref().get_inputs_and_outputs);
        // A wait keeps no more than it needs: there may be ten thousand of them.
        drop(request);
        let waiting = wait::wait(&hub, id, (what, payloads), self.limits.absent_wait);
        self.while_it_goes_on(waiting).await.map(Response::new)
    }
}

pub(crate) fn admitted<T>(request: &Request<T>) -> Result<HubName, Status> {
    if let Some(NotAdmitted(status)) = request.extensions().get() {
        return Err(status.clone());
    }
    // Nothing comes here but through the gate.
    let admitted = request.extensions().get::<Admitted>();
    admitted.map(|Admitted(hub)| hub.clone()).ok_or_else(|| Status::internal("the call was not admitted"))
}

#[tonic::async_trait]
impl Service for Calls {
    /// Answers before anything is open: a worker in JavaScript that is not greeted at once never comes again
    /// (behaviour 5).
    async fn hello(&self, _: Request<()>) -> Answer<()> {
        Ok(Response::new(()))
    }

    async fn start_instance(
        &self,
        request: Request<CreateInstanceRequest>,
    ) -> Answer<CreateInstanceResponse> {
        let hub = self.hub(&request).await?;
        let (metadata, _, request) = request.into_parts();
        start::start(&hub, &metadata, request).await.map(Response::new)
    }

    async fn get_instance(&self, request: Request<GetInstanceRequest>) -> Answer<GetInstanceResponse> {
        let hub = self.hub(&request).await?;
        let (metadata, _, message) = request.into_parts();
        wait::get(&hub, &metadata, message).await.map(Response::new)
    }

    async fn rewind_instance(
        &self,
        request: Request<RewindInstanceRequest>,
    ) -> Answer<RewindInstanceResponse> {
        let hub = self.hub(&request).await?;
        operate::rewind(&hub, request.into_inner()).await.map(Response::new)
    }

    async fn restart_instance(
        &self,
        request: Request<RestartInstanceRequest>,
    ) -> Answer<RestartInstanceResponse> {
        let hub = self.hub(&request).await?;
        let (metadata, _, request) = request.into_parts();
        operate::restart(&hub, &metadata, request).await.map(Response::new)
    }

    async fn wait_for_instance_start(
        &self,
        request: Request<GetInstanceRequest>,
    ) -> Answer<GetInstanceResponse> {
        self.wait(request, wait::For::Start).await
    }

    async fn wait_for_instance_completion(
        &self,
        request: Request<GetInstanceRequest>,
    ) -> Answer<GetInstanceResponse> {
        self.wait(request, wait::For::End).await
    }

    async fn raise_event(&self, request: Request<RaiseEventRequest>) -> Answer<RaiseEventResponse> {
        let hub = self.existing_hub(&request, &request.get_ref().instance_id).await?;
        send::raise(&hub, request).await.map(Response::new)
    }

    async fn terminate_instance(&self, request: Request<TerminateRequest>) -> Answer<TerminateResponse> {
        let hub = self.existing_hub(&request, &request.get_ref().instance_id).await?;
        send::terminate(&hub, request).await.map(Response::new)
    }

    async fn suspend_instance(&self, request: Request<SuspendRequest>) -> Answer<SuspendResponse> {
        let hub = self.existing_hub(&request, &request.get_ref().instance_id).await?;
        send::suspend(&hub, request).await.map(Response::new)
    }

    async fn resume_instance(&self, request: Request<ResumeRequest>) -> Answer<ResumeResponse> {
        let hub = self.existing_hub(&request, &request.get_ref().instance_id).await?;
        send::resume(&hub, request).await.map(Response::new)
    }

    async fn query_instances(
        &self,
        request: Request<QueryInstancesRequest>,
    ) -> Answer<QueryInstancesResponse> {
        let hub = self.hub(&request).await?;
        let (metadata, _, message) = request.into_parts();
        find::query(&hub, (&metadata, message), &self.limits).await.map(Response::new)
    }

    async fn list_instance_ids(
        &self,
        request: Request<ListInstanceIdsRequest>,
    ) -> Answer<ListInstanceIdsResponse> {
        let hub = self.hub(&request).await?;
        find::list(&hub, request.into_inner(), &self.limits).await.map(Response::new)
    }

    async fn purge_instances(
        &self,
        request: Request<PurgeInstancesRequest>,
    ) -> Answer<PurgeInstancesResponse> {
        let hub = self.hub(&request).await?;
        purge::purge(&hub, request.into_inner(), &self.limits).await.map(Response::new)
    }

    type GetWorkItemsStream = BoxStream<'static, Result<WorkItem, Status>>;

    async fn get_work_items(
        &self,
        request: Request<GetWorkItemsRequest>,
    ) -> Answer<Self::GetWorkItemsStream> {
        let hub = self.hub(&request).await?;
        self.hubs.ensure_host(&hub)?;
        let (metadata, _, request) = request.into_parts();
        work::items(&hub, &metadata, request, &self.limits).map(Response::new)
    }

    /// Answers come late, twice and for nothing: never an error, which would be poison for some SDKs (behaviour 8). Only a server
    /// that stops refuses one.
    async fn complete_activity_task(
        &self,
        request: Request<ActivityResponse>,
    ) -> Answer<CompleteTaskResponse> {
        let hub = self.hub(&request).await?;
        work::complete_activity(&self.hubs, &hub, request.into_inner()).await?;
        Ok(Response::new(CompleteTaskResponse {}))
    }

    async fn complete_orchestrator_task(
        &self,
        request: Request<OrchestratorResponse>,
    ) -> Answer<CompleteTaskResponse> {
        let hub = self.hub(&request).await?;
        hub.workers.complete_turn(request.into_inner()).await;
        Ok(Response::new(CompleteTaskResponse {}))
    }

    async fn complete_entity_task(&self, _: Request<EntityBatchResult>) -> Answer<CompleteTaskResponse> {
        work::no_entities()
    }

    type StreamInstanceHistoryStream = BoxStream<'static, Result<HistoryChunk, Status>>;

    async fn stream_instance_history(
        &self,
        request: Request<StreamInstanceHistoryRequest>,
    ) -> Answer<Self::StreamInstanceHistoryStream> {
        let hub = self.hub(&request).await?;
        history::stream(&hub, request.into_inner(), self.limits.chunk_bytes).await.map(Response::new)
    }

    /// A hub is there from its first use on (behaviour 59).
    async fn create_task_hub(&self, request: Request<CreateTaskHubRequest>) -> Answer<CreateTaskHubResponse> {
        let name = admitted(&request)?;
        if request.into_inner().recreate_if_exists {
            self.hubs.delete(&name).await?;
        }
        Ok(Response::new(CreateTaskHubResponse {}))
    }

    async fn delete_task_hub(&self, request: Request<DeleteTaskHubRequest>) -> Answer<DeleteTaskHubResponse> {
        self.hubs.delete(&admitted(&request)?).await?;
        Ok(Response::new(DeleteTaskHubResponse {}))
    }

    async fn signal_entity(&self, _: Request<SignalEntityRequest>) -> Answer<SignalEntityResponse> {
        work::no_entities()
    }

    async fn get_entity(&self, _: Request<GetEntityRequest>) -> Answer<GetEntityResponse> {
        work::no_entities()
    }

    async fn query_entities(&self, _: Request<QueryEntitiesRequest>) -> Answer<QueryEntitiesResponse> {
        work::no_entities()
    }

    async fn clean_entity_storage(
        &self,
        _: Request<CleanEntityStorageRequest>,
    ) -> Answer<CleanEntityStorageResponse> {
        work::no_entities()
    }

    async fn abandon_task_activity_work_item(
        &self,
        request: Request<AbandonActivityTaskRequest>,
    ) -> Answer<AbandonActivityTaskResponse> {
        let hub = self.hub(&request).await?;
        hub.workers.abandon(&request.into_inner().completion_token);
        Ok(Response::new(AbandonActivityTaskResponse {}))
    }

    async fn abandon_task_orchestrator_work_item(
        &self,
        request: Request<AbandonOrchestrationTaskRequest>,
    ) -> Answer<AbandonOrchestrationTaskResponse> {
        let hub = self.hub(&request).await?;
        hub.workers.abandon(&request.into_inner().completion_token);
        Ok(Response::new(AbandonOrchestrationTaskResponse {}))
    }

    async fn abandon_task_entity_work_item(
        &self,
        _: Request<AbandonEntityTaskRequest>,
    ) -> Answer<AbandonEntityTaskResponse> {
        work::no_entities()
    }

    async fn skip_graceful_orchestration_terminations(
        &self,
        request: Request<SkipGracefulOrchestrationTerminationsRequest>,
    ) -> Answer<SkipGracefulOrchestrationTerminationsResponse> {
        let hub = self.hub(&request).await?;
        operate::end_by_force(&hub, request.into_inner()).await.map(Response::new)
    }
}
