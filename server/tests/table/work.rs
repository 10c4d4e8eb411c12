//! The calls of workers.

use dauer_proto::wire::{
    AbandonActivityTaskRequest, AbandonEntityTaskRequest, AbandonOrchestrationTaskRequest,
    CleanEntityStorageRequest, GetEntityRequest, GetWorkItemsRequest, QueryEntitiesRequest,
    SignalEntityRequest,
};
use dauer_proto::{ActivityResponse, EntityBatchResult, OrchestrationStatus, OrchestratorResponse, action};
use tonic::Code;

use super::Fixture;
use crate::support::worker::{Worker, complete};
use crate::support::{ended, refused, start};

/// behaviour-3, behaviour-5.
pub(crate) async fn hello(fixture: &Fixture) {
    fixture.client.clone().hello(()).await.unwrap();
}

/// behaviour-3, behaviour-56: without Hello; filters that name nothing bring nothing.
pub(crate) async fn get_work_items(fixture: &Fixture) {
    let client = &fixture.client;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let nothing = GetWorkItemsRequest { work_item_filters: Some(Default::default()), ..Default::default() };
    let mut idle = Worker::with(client, nothing).await;
    assert!(idle.is_idle().await);
    let mut worker = Worker::connect(client).await;
    assert_eq!(worker.finish("1").await.request.instance_id, "a");
    ended(client, "a").await;
}

/// behaviour-8: OK for what is known and for what is not.
pub(crate) async fn complete_orchestrator_task(fixture: &Fixture) {
    let client = &fixture.client;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(client).await;
    worker.answer(OrchestratorResponse::default()).await;
    let turn = worker.turn().await;
    worker.answer(turn.answer(vec![complete(1, "1")])).await;
    // Durable when it was answered.
    assert_eq!(ended(client, "a").await.orchestration_status(), OrchestrationStatus::Completed);
    worker.answer(turn.answer(vec![complete(1, "2")])).await;
    assert_eq!(ended(client, "a").await.output.as_deref(), Some("1"));
}

/// behaviour-8, behaviour-27.
pub(crate) async fn complete_activity_task(fixture: &Fixture) {
    let client = &fixture.client;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(client).await;
    worker.answer_task(ActivityResponse::default()).await;
    let turn = worker.turn().await;
    worker.answer(turn.answer(vec![action::schedule_task(1, "t", None)])).await;
    let task = worker.task().await;
    let details = dauer_proto::failure::failure("Boom", "it broke");
    worker.answer_task(ActivityResponse { failure_details: Some(details), ..task.answer("1") }).await;
    worker.answer_task(task.answer("too late")).await;
    assert_eq!(worker.turn().await.news(), ["OrchestratorStarted", "TaskFailed"]);
}

/// behaviour-34.
pub(crate) async fn abandon_task_activity_work_item(fixture: &Fixture) {
    let client = &fixture.client;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(client).await;
    let abandon = |completion_token| AbandonActivityTaskRequest { completion_token };
    client.clone().abandon_task_activity_work_item(abandon(String::new())).await.unwrap();
    let turn = worker.turn().await;
    worker.answer(turn.answer(vec![action::schedule_task(1, "t", None)])).await;
    let task = worker.task().await;
    client.clone().abandon_task_activity_work_item(abandon(task.token.clone())).await.unwrap();
    assert_ne!(worker.task().await.token, task.token);
}

/// behaviour-34.
pub(crate) async fn abandon_task_orchestrator_work_item(fixture: &Fixture) {
    let client = &fixture.client;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(client).await;
    let abandon = |completion_token| AbandonOrchestrationTaskRequest { completion_token };
    client.clone().abandon_task_orchestrator_work_item(abandon("unknown".into())).await.unwrap();
    let turn = worker.turn().await;
    client.clone().abandon_task_orchestrator_work_item(abandon(turn.token.clone())).await.unwrap();
    let again = worker.turn().await;
    assert_ne!(again.token, turn.token);
    assert_eq!(again.news(), turn.news());
}

macro_rules! not_there_yet {
    ($($function:ident($request:ty),)*) => {$(
        pub(crate) async fn $function(fixture: &Fixture) {
            let (code, text) = refused(fixture.client.clone().$function(<$request>::default()).await);
            assert_eq!(code, Code::Unimplemented);
            assert!(text.contains("no entities yet"), "{text}");
        }
    )*};
}

not_there_yet! {
    complete_entity_task(EntityBatchResult),
    abandon_task_entity_work_item(AbandonEntityTaskRequest),
    signal_entity(SignalEntityRequest),
    get_entity(GetEntityRequest),
    query_entities(QueryEntitiesRequest),
    clean_entity_storage(CleanEntityStorageRequest),
}
