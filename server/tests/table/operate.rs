//! What operators do.

use dauer_proto::wire::{
    InstanceBatch, RestartInstanceRequest, RewindInstanceRequest,
    SkipGracefulOrchestrationTerminationsRequest,
};
use dauer_proto::{ActivityResponse, CreateInstanceRequest, OrchestrationStatus, action, event, failure};
use tonic::{Code, Status};

use super::{Client, Fixture};
use crate::support::worker::{Worker, complete};
use crate::support::{ended, history, refused, start, state};

fn failed(id: i32) -> dauer_proto::OrchestratorAction {
    action::complete(id, OrchestrationStatus::Failed, None, Some(failure::failure("Boom", "it broke")))
}

/// behaviour-54: only a failed one; then what failed is done again.
pub(crate) async fn rewind_instance(fixture: &Fixture) {
    let client = &fixture.client;
    let rewind = async |id: &str| {
        let request = RewindInstanceRequest { instance_id: id.to_owned(), reason: Some("again".into()) };
        client.clone().rewind_instance(request).await
    };
    assert_eq!(refused(rewind("absent").await).0, Code::NotFound);
    assert_eq!(refused(rewind("@a@b").await).0, Code::InvalidArgument);
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let (code, text) = refused(rewind("a").await);
    assert_eq!((code, text.contains("not allow")), (Code::FailedPrecondition, true), "{text}");
    let mut worker = Worker::connect(client).await;
    let turn = worker.turn().await;
    let first = turn.request.execution_id.clone();
    worker.answer(turn.answer(vec![action::schedule_task(1, "t", None)])).await;
    let task = worker.task().await;
    let broken = Some(failure::failure("Boom", "it broke"));
    worker.answer_task(ActivityResponse { failure_details: broken, ..task.answer("") }).await;
    let turn = worker.turn().await;
    worker.answer(turn.answer(vec![failed(2)])).await;
    assert_eq!(ended(client, "a").await.orchestration_status(), OrchestrationStatus::Failed);
    rewind("a").await.unwrap();
    let again = worker.turn().await;
    assert_ne!(again.request.execution_id, first);
    assert!(again.news().iter().all(|name| *name != "TaskFailed"));
    worker.answer(again.answer(vec![action::schedule_task(1, "t", None)])).await;
    let task = worker.task().await;
    worker.answer_task(task.answer("\"ok\"")).await;
    let turn = worker.turn().await;
    worker.answer(turn.answer(vec![complete(2, "\"out\"")])).await;
    assert_eq!(ended(client, "a").await.output.as_deref(), Some("\"out\""));
}

/// behaviour-53, D4: under the same id it must have ended, under a new one it may run.
pub(crate) async fn restart_instance(fixture: &Fixture) {
    let client = &fixture.client;
    let restart = async |id: &str, anew: bool| {
        let request =
            RestartInstanceRequest { instance_id: id.to_owned(), restart_with_new_instance_id: anew };
        client.clone().restart_instance(request).await.map(|response| response.into_inner().instance_id)
    };
    assert_eq!(refused(restart("absent", false).await).0, Code::NotFound);
    assert_eq!(refused(restart("absent", true).await).0, Code::NotFound);
    let request = CreateInstanceRequest {
        input: Some("\"in\"".into()),
        version: Some("2".into()),
        tags: [("team".to_owned(), "north".to_owned())].into(),
        ..start("a", "one")
    };
    client.clone().start_instance(request).await.unwrap();
    let mut worker = Worker::connect(client).await;
    let turn = worker.turn().await;
    let first = turn.request.execution_id.clone();
    worker.answer(turn.answer(Vec::new())).await;
    assert_eq!(refused(restart("a", false).await).0, Code::FailedPrecondition);
    let other = restart("a", true).await.unwrap();
    assert_ne!(other, "a");
    let copy = worker.turn().await;
    assert_eq!(
        (copy.request.instance_id.as_str(), copy.input().as_deref()),
        (other.as_str(), Some("\"in\""))
    );
    let told = state(client, &other).await;
    assert_eq!((told.name.as_str(), told.version.as_deref()), ("one", Some("2")));
    assert_eq!(told.tags.get("team").map(String::as_str), Some("north"));
    worker.answer(copy.answer(vec![complete(1, "1")])).await;
    ended(client, &other).await;
    assert_eq!(restart(&other, false).await.unwrap(), other);
    let again = worker.turn().await;
    assert_eq!(again.input().as_deref(), Some("\"in\""));
    assert_ne!(again.request.execution_id, first);
}

async fn by_force(client: &Client, ids: &[&str]) -> Result<Vec<String>, Status> {
    let instance_ids = ids.iter().map(|id| (*id).to_owned()).collect();
    let request = SkipGracefulOrchestrationTerminationsRequest {
        instance_batch: Some(InstanceBatch { instance_ids }),
        reason: Some("\"enough\"".into()),
    };
    let response = client.clone().skip_graceful_orchestration_terminations(request).await?;
    Ok(response.into_inner().unterminated_instance_ids)
}

/// behaviour-57: at once, without a worker; what could not be ended is told.
pub(crate) async fn skip_graceful_orchestration_terminations(fixture: &Fixture) {
    let client = &fixture.client;
    for id in ["pending", "running", "done"] {
        client.clone().start_instance(start(id, "one")).await.unwrap();
    }
    let filters = dauer_proto::wire::WorkItemFilters::default();
    let only =
        |name: &str| dauer_proto::wire::OrchestrationFilter { name: name.into(), versions: Vec::new() };
    let filters = dauer_proto::wire::WorkItemFilters { orchestrations: vec![only("one")], ..filters };
    let request =
        dauer_proto::wire::GetWorkItemsRequest { work_item_filters: Some(filters), ..Default::default() };
    let mut worker = Worker::with(client, request).await;
    let pending = worker.turn().await;
    let running = worker.turn().await;
    worker.answer(running.answer(vec![action::schedule_task(1, "t", None)])).await;
    worker.finish("1").await;
    ended(client, "done").await;
    let left = by_force(client, &["running", "pending", "done", "absent", "@entity@1", ""]).await.unwrap();
    assert_eq!(left, ["done", "absent", "@entity@1", ""]);
    for id in ["running", "pending"] {
        let told = state(client, id).await;
        assert_eq!(told.orchestration_status(), OrchestrationStatus::Terminated, "{id}");
        assert_eq!(told.output.as_deref(), Some("\"enough\""));
    }
    // The worker that had a turn of it comes too late.
    worker.answer(pending.answer(vec![complete(1, "1")])).await;
    assert_eq!(state(client, "pending").await.orchestration_status(), OrchestrationStatus::Terminated);
    let names: Vec<_> = history(client, "running").await.iter().map(event::kind_name).collect();
    assert_eq!(names[names.len() - 2..], ["ExecutionTerminated", "ExecutionCompleted"]);
    let many = vec!["a"; 501];
    assert_eq!(refused(by_force(client, &many).await).0, Code::InvalidArgument);
    let none = client
        .clone()
        .skip_graceful_orchestration_terminations(SkipGracefulOrchestrationTerminationsRequest::default())
        .await;
    assert!(none.unwrap().into_inner().unterminated_instance_ids.is_empty());
}
