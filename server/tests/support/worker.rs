//! A worker without an SDK: it sees work items as they come, and answers as the test says.

#![allow(clippy::unwrap_used, clippy::expect_used, dead_code)] // Test support: what fails here fails the test.

use dauer_proto::wire::GetWorkItemsRequest;
use dauer_proto::{
    ActivityRequest, ActivityResponse, EventType, OrchestrationStatus, OrchestratorAction,
    OrchestratorRequest, OrchestratorResponse, WorkItem, WorkItemRequest, action, event,
};
use tonic::{IntoRequest, Status, Streaming};

use super::{Client, within};

/// A stream of work items.
pub(crate) struct Worker {
    pub(crate) client: Client,
    items: Streaming<WorkItem>,
}

/// A turn, and what its answer has to name.
pub(crate) struct Turn {
    pub(crate) request: OrchestratorRequest,
    pub(crate) token: String,
}

/// An activity, and what its answer has to name.
pub(crate) struct Task {
    pub(crate) request: ActivityRequest,
    pub(crate) token: String,
}

impl Turn {
    pub(crate) fn answer(&self, actions: Vec<OrchestratorAction>) -> OrchestratorResponse {
        OrchestratorResponse {
            instance_id: self.request.instance_id.clone(),
            completion_token: self.token.clone(),
            actions,
            ..OrchestratorResponse::default()
        }
    }

    /// The names of the new events.
    pub(crate) fn news(&self) -> Vec<&'static str> {
        self.request.new_events.iter().map(event::kind_name).collect()
    }

    /// The input that the run began with, if it begins now.
    pub(crate) fn input(&self) -> Option<String> {
        let started = self.request.new_events.iter().find_map(|event| match &event.event_type {
            Some(EventType::ExecutionStarted(started)) => Some(started),
            _ => None,
        });
        started.and_then(|started| started.input.clone())
    }
}

impl Task {
    pub(crate) fn answer(&self, result: &str) -> ActivityResponse {
        ActivityResponse {
            instance_id: self.request.orchestration_instance.as_ref().unwrap().instance_id.clone(),
            task_id: self.request.task_id,
            result: Some(result.to_owned()),
            completion_token: self.token.clone(),
            ..ActivityResponse::default()
        }
    }
}

/// The end of a run.
pub(crate) fn complete(id: i32, output: &str) -> OrchestratorAction {
    action::complete(id, OrchestrationStatus::Completed, Some(output.to_owned()), None)
}

impl Worker {
    pub(crate) async fn connect(client: &Client) -> Self {
        Self::with(client, GetWorkItemsRequest::default()).await
    }

    pub(crate) async fn with(client: &Client, request: impl IntoRequest<GetWorkItemsRequest>) -> Self {
        Self::try_with(client, request).await.unwrap()
    }

    pub(crate) async fn try_with(
        client: &Client,
        request: impl IntoRequest<GetWorkItemsRequest>,
    ) -> Result<Self, Status> {
        let mut client = client.clone();
        let items = within(client.get_work_items(request)).await?.into_inner();
        Ok(Self { client, items })
    }

    /// The next item that is no ping.
    pub(crate) async fn next(&mut self) -> Result<Option<WorkItem>, Status> {
        loop {
            match self.items.message().await? {
                Some(item) if matches!(item.request, Some(WorkItemRequest::HealthPing(_))) => {}
                other => return Ok(other),
            }
        }
    }

    /// The next item, a ping too.
    pub(crate) async fn next_or_ping(&mut self) -> WorkItem {
        within(self.items.message()).await.unwrap().unwrap()
    }

    pub(crate) async fn turn(&mut self) -> Turn {
        let item = within(self.next()).await.unwrap().unwrap();
        match item.request {
            Some(WorkItemRequest::OrchestratorRequest(request)) => {
                Turn { request, token: item.completion_token }
            }
            other => panic!("no turn but {other:?}"),
        }
    }

    pub(crate) async fn task(&mut self) -> Task {
        let item = within(self.next()).await.unwrap().unwrap();
        match item.request {
            Some(WorkItemRequest::ActivityRequest(request)) => Task { request, token: item.completion_token },
            other => panic!("no activity but {other:?}"),
        }
    }

    /// Whether an item comes within a moment. Only to show that something that would come at once does not.
    pub(crate) async fn is_idle(&mut self) -> bool {
        tokio::time::timeout(std::time::Duration::from_millis(300), self.next()).await.is_err()
    }

    pub(crate) async fn answer(&mut self, response: OrchestratorResponse) {
        within(self.client.complete_orchestrator_task(response)).await.unwrap();
    }

    pub(crate) async fn answer_task(&mut self, response: ActivityResponse) {
        within(self.client.complete_activity_task(response)).await.unwrap();
    }

    /// Takes one turn, and ends the run with it.
    pub(crate) async fn finish(&mut self, output: &str) -> Turn {
        let turn = self.turn().await;
        let answer = turn.answer(vec![complete(1, output)]);
        self.answer(answer).await;
        turn
    }
}
