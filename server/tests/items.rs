//! Work items as a worker sees them, without an SDK between.

#![allow(clippy::unwrap_used)] // What is not there fails the test.

use crate::support::worker::{Worker, complete};
use crate::support::{Running, ended, get, history, on, start, state, status_is, until, within};
use dauer_proto::wire::{
    AbandonActivityTaskRequest, AbandonOrchestrationTaskRequest, ActivityFilter, GetWorkItemsRequest,
    OrchestrationFilter, RaiseEventRequest, WorkItemFilters,
};
use dauer_proto::{OrchestrationStatus, action, event};
use tonic::Code;

fn call(id: i32, name: &str) -> dauer_proto::OrchestratorAction {
    action::schedule_task(id, name, Some("\"in\"".into()))
}

/// behaviour-3, behaviour-12, behaviour-13, behaviour-17, behaviour-19: a chain, without Hello.
#[tokio::test]
async fn a_worker_takes_turns_and_activities() {
    let server = Running::start().await;
    let client = server.client().await;
    let input = Some("\"x\"".to_owned());
    client
        .clone()
        .start_instance(dauer_proto::CreateInstanceRequest { input, ..start("a", "chain") })
        .await
        .unwrap();
    let mut worker = Worker::connect(&client).await;
    let first = worker.turn().await;
    assert_eq!(first.news(), ["OrchestratorStarted", "ExecutionStarted"]);
    assert_eq!(first.input().as_deref(), Some("\"x\""));
    assert!(first.request.entity_parameters.unwrap().entity_message_reorder_window.is_some());
    let execution = first.request.execution_id.clone().unwrap();
    assert!(execution.len() == 32 && execution.bytes().all(|digit| digit.is_ascii_hexdigit()));
    assert_eq!(state(&client, "a").await.orchestration_status(), OrchestrationStatus::Pending);
    worker.answer(first.answer(vec![call(1, "greet")])).await;
    assert_eq!(state(&client, "a").await.orchestration_status(), OrchestrationStatus::Running);
    let task = worker.task().await;
    assert_eq!((task.request.name.as_str(), task.request.task_id), ("greet", 1));
    assert_eq!(task.request.input.as_deref(), Some("\"in\""));
    assert_eq!(task.request.orchestration_instance.as_ref().unwrap().execution_id, Some(execution));
    worker.answer_task(task.answer("\"done\"")).await;
    let second = worker.turn().await;
    assert_eq!(second.news(), ["OrchestratorStarted", "TaskCompleted"]);
    assert_eq!(second.request.past_events.len(), 3);
    worker.answer(second.answer(vec![complete(2, "\"out\"")])).await;
    let state = ended(&client, "a").await;
    assert_eq!((state.output.as_deref(), state.input.as_deref()), (Some("\"out\""), Some("\"x\"")));
    server.stop().await.unwrap();
}

/// behaviour-8, behaviour-14, behaviour-21: answers with no token, a foreign one, one of another hub, an old one, twice.
#[tokio::test]
async fn answers_that_are_late_foreign_or_repeated_are_dropped_with_ok() {
    let server = Running::start().await;
    let client = server.client().await;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(&client).await;
    let turn = worker.turn().await;
    let mut foreign = turn.answer(vec![complete(1, "\"foreign\"")]);
    foreign.completion_token = "0123".into();
    worker.answer(foreign).await;
    let elsewhere = turn.answer(vec![complete(1, "\"other hub\"")]);
    worker.client.complete_orchestrator_task(on("other", elsewhere)).await.unwrap();
    assert_eq!(state(&client, "a").await.orchestration_status(), OrchestrationStatus::Pending);
    let mut unnamed = turn.answer(vec![complete(1, "\"right\"")]);
    unnamed.completion_token.clear();
    worker.answer(unnamed).await;
    assert_eq!(ended(&client, "a").await.output.as_deref(), Some("\"right\""));
    worker.answer(turn.answer(vec![complete(1, "\"twice\"")])).await;
    assert_eq!(state(&client, "a").await.output.as_deref(), Some("\"right\""));
    // A task's answer, for a task that there is not.
    worker.client.complete_activity_task(dauer_proto::ActivityResponse::default()).await.unwrap();
    worker
        .client
        .abandon_task_orchestrator_work_item(AbandonOrchestrationTaskRequest::default())
        .await
        .unwrap();
    server.stop().await.unwrap();
}

/// behaviour-34: what is abandoned comes again, not at once.
#[tokio::test]
async fn abandoned_items_come_again_after_a_while() {
    let server =
        Running::with(|options| options.workers.abandon_delay = std::time::Duration::from_millis(400)).await;
    let client = server.client().await;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(&client).await;
    let turn = worker.turn().await;
    worker.answer(turn.answer(vec![call(1, "greet")])).await;
    let task = worker.task().await;
    let began = std::time::Instant::now();
    let request = AbandonActivityTaskRequest { completion_token: task.token.clone() };
    worker.client.abandon_task_activity_work_item(request).await.unwrap();
    let again = worker.task().await;
    assert!(began.elapsed() >= std::time::Duration::from_millis(400), "it came back at once");
    assert_ne!(again.token, task.token);
    // The first token means nothing any more.
    worker.answer_task(task.answer("\"stale\"")).await;
    worker.answer_task(again.answer("\"fresh\"")).await;
    let turn = worker.turn().await;
    let request = AbandonOrchestrationTaskRequest { completion_token: turn.token.clone() };
    worker.client.abandon_task_orchestrator_work_item(request).await.unwrap();
    let again = worker.turn().await;
    assert_eq!(again.news(), turn.news());
    worker.answer(again.answer(vec![complete(2, "\"out\"")])).await;
    assert_eq!(ended(&client, "a").await.output.as_deref(), Some("\"out\""));
    server.stop().await.unwrap();
}

/// behaviour-6, behaviour-7: what a lost worker has in its hands goes to another.
#[tokio::test]
async fn a_lost_stream_loses_nothing() {
    let server = Running::start().await;
    let client = server.client().await;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut lost = Worker::connect(&server.client().await).await;
    let turn = lost.turn().await;
    drop(lost);
    let mut worker = Worker::connect(&client).await;
    let again = worker.turn().await;
    assert_eq!(again.news(), turn.news());
    assert_ne!(again.token, turn.token);
    worker.answer(again.answer(vec![complete(1, "\"out\"")])).await;
    assert_eq!(ended(&client, "a").await.output.as_deref(), Some("\"out\""));
    server.stop().await.unwrap();
}

/// behaviour-4, behaviour-7: a worker whose stream broke answers over another, while the lease stands.
#[tokio::test]
async fn a_late_answer_of_a_lost_stream_counts() {
    let server = Running::with(|options| {
        options.workers.reconnect_grace = std::time::Duration::from_secs(30);
    })
    .await;
    let client = server.client().await;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(&server.client().await).await;
    let turn = worker.turn().await;
    worker.answer(turn.answer(vec![call(1, "greet")])).await;
    let task = worker.task().await;
    drop(worker);
    let mut worker = Worker::connect(&client).await;
    worker.answer_task(task.answer("\"late\"")).await;
    let turn = worker.turn().await;
    assert_eq!(turn.news(), ["OrchestratorStarted", "TaskCompleted"]);
    worker.answer(turn.answer(vec![complete(2, "\"out\"")])).await;
    ended(&client, "a").await;
    server.stop().await.unwrap();
}

/// behaviour-9: no more than a worker asked for, and other workers take the rest.
#[tokio::test]
async fn capacity_is_respected() {
    let server = Running::start().await;
    let client = server.client().await;
    for id in ["a", "b", "c"] {
        client.clone().start_instance(start(id, "one")).await.unwrap();
    }
    let request = GetWorkItemsRequest { max_concurrent_orchestration_work_items: 1, ..Default::default() };
    let mut narrow = Worker::with(&client, request).await;
    let turn = narrow.turn().await;
    assert!(narrow.is_idle().await, "it has one already");
    let mut wide = Worker::connect(&client).await;
    let others = [wide.turn().await, wide.turn().await];
    narrow.answer(turn.answer(vec![complete(1, "1")])).await;
    for turn in others {
        wide.answer(turn.answer(vec![complete(1, "1")])).await;
    }
    for id in ["a", "b", "c"] {
        ended(&client, id).await;
    }
    server.stop().await.unwrap();
}

/// behaviour-56: work that nobody's filter names stays where it is.
#[tokio::test]
async fn filters_are_asked_of_the_store() {
    let server = Running::start().await;
    let client = server.client().await;
    let versioned = |id, version: &str| dauer_proto::CreateInstanceRequest {
        version: Some(version.to_owned()),
        ..start(id, "one")
    };
    client.clone().start_instance(start("none", "one")).await.unwrap();
    client.clone().start_instance(versioned("old", "1")).await.unwrap();
    client.clone().start_instance(start("other", "two")).await.unwrap();
    client.clone().start_instance(versioned("new", "2")).await.unwrap();
    let filters = WorkItemFilters {
        orchestrations: vec![OrchestrationFilter { name: "one".into(), versions: vec!["2".into()] }],
        activities: vec![ActivityFilter { name: "greet".into(), versions: Vec::new() }],
        entities: Vec::new(),
    };
    let request = GetWorkItemsRequest { work_item_filters: Some(filters), ..Default::default() };
    let mut worker = Worker::with(&client, request).await;
    let turn = worker.turn().await;
    assert_eq!(turn.request.instance_id, "new");
    worker.answer(turn.answer(vec![call(1, "other"), call(2, "greet")])).await;
    assert_eq!(worker.task().await.request.name, "greet");
    assert!(worker.is_idle().await, "nothing else is for it");
    for id in ["none", "old", "other"] {
        assert_eq!(state(&client, id).await.orchestration_status(), OrchestrationStatus::Pending, "{id}");
    }
    server.stop().await.unwrap();
}

/// behaviour-10: what no worker can read fails with a reason, and does not come again and again.
#[tokio::test]
async fn an_item_that_no_worker_can_read_fails_loudly() {
    let server = Running::with(|options| options.limits.item_bytes = 20_000).await;
    let client = server.client().await;
    let input = Some("x".repeat(30_000));
    client
        .clone()
        .start_instance(dauer_proto::CreateInstanceRequest { input, ..start("fat", "one") })
        .await
        .unwrap();
    client.clone().start_instance(start("thin", "one")).await.unwrap();
    let mut worker = Worker::connect(&client).await;
    let state = ended(&client, "fat").await;
    assert_eq!(state.orchestration_status(), OrchestrationStatus::Failed);
    let details = state.failure_details.unwrap();
    assert!(details.error_message.contains("no connected worker can read more than 20000"), "{details:?}");
    let turn = worker.finish("1").await;
    assert_eq!(turn.request.instance_id, "thin");
    // A task that nobody can read fails, and so does the turn that would have to learn of it.
    client.clone().start_instance(start("task", "one")).await.unwrap();
    let turn = worker.turn().await;
    let fat = action::schedule_task(1, "eat", Some("x".repeat(30_000)));
    worker.answer(turn.answer(vec![fat])).await;
    assert_eq!(ended(&client, "task").await.orchestration_status(), OrchestrationStatus::Failed);
    let names: Vec<_> = history(&client, "task").await.iter().map(event::kind_name).collect();
    assert_eq!(names[2..], ["TaskScheduled", "OrchestratorStarted", "TaskFailed", "ExecutionCompleted"]);
    server.stop().await.unwrap();
}

/// behaviour-10: a worker that can fetch a long history gets it as a stream, in chunks.
#[tokio::test]
async fn a_long_history_is_fetched_by_workers_that_can() {
    let server = Running::with(|options| {
        options.workers.history_streamed_from = 10_000;
        options.limits.chunk_bytes = 5_000;
    })
    .await;
    let client = server.client().await;
    let input = Some("x".repeat(12_000));
    client
        .clone()
        .start_instance(dauer_proto::CreateInstanceRequest { input, ..start("a", "one") })
        .await
        .unwrap();
    let capabilities = vec![dauer_proto::WorkerCapability::HistoryStreaming.into()];
    let mut worker = Worker::with(&client, GetWorkItemsRequest { capabilities, ..Default::default() }).await;
    let first = worker.turn().await;
    worker.answer(first.answer(vec![call(1, "greet")])).await;
    let task = worker.task().await;
    worker.answer_task(task.answer("1")).await;
    let second = worker.turn().await;
    assert!(second.request.requires_history_streaming && second.request.past_events.is_empty());
    let request = dauer_proto::wire::StreamInstanceHistoryRequest {
        instance_id: "a".into(),
        execution_id: second.request.execution_id.clone(),
        for_work_item_processing: true,
    };
    let chunks = crate::support::chunks(&client, request).await.unwrap();
    assert!(chunks.len() > 1, "one chunk holds at most 5,000 bytes, or one event");
    let past: Vec<_> = chunks.into_iter().flat_map(|chunk| chunk.events).collect();
    let names: Vec<_> = past.iter().map(dauer_proto::event::kind_name).collect();
    assert_eq!(names, ["OrchestratorStarted", "ExecutionStarted", "TaskScheduled"]);
    // One that cannot make use of it gets all of it.
    let wants = dauer_proto::OrchestratorResponse { requires_history: true, ..second.answer(Vec::new()) };
    worker.answer(wants).await;
    let whole = worker.turn().await;
    assert_eq!((whole.request.requires_history_streaming, &whole.request.past_events), (false, &past));
    worker.answer(whole.answer(vec![complete(2, "1")])).await;
    ended(&client, "a").await;
    server.stop().await.unwrap();
}

/// behaviour-29: an answer in parts is carried out when it is whole.
#[tokio::test]
async fn an_answer_in_parts_is_put_together() {
    let server = Running::start().await;
    let client = server.client().await;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(&client).await;
    let turn = worker.turn().await;
    #[allow(deprecated)]
    let part = |index: i32, last: bool, actions| dauer_proto::OrchestratorResponse {
        is_partial: !last,
        chunk_index: Some(index),
        num_events_processed: (index > 0).then_some(0),
        ..turn.answer(actions)
    };
    worker.answer(part(0, false, vec![call(1, "greet")])).await;
    assert_eq!(state(&client, "a").await.orchestration_status(), OrchestrationStatus::Pending);
    worker.answer(part(1, true, vec![call(2, "greet")])).await;
    let mut tasks = [worker.task().await.request.task_id, worker.task().await.request.task_id];
    tasks.sort_unstable();
    assert_eq!(tasks, [1, 2]);
    server.stop().await.unwrap();
}

/// behaviour-4: a stream on which nothing happens carries pings.
#[tokio::test]
async fn a_silent_stream_carries_pings() {
    let server =
        Running::with(|options| options.workers.ping_every = std::time::Duration::from_millis(50)).await;
    let mut worker = Worker::connect(&server.client().await).await;
    for _ in 0..3 {
        let item = worker.next_or_ping().await;
        assert!(matches!(item.request, Some(dauer_proto::WorkItemRequest::HealthPing(_))));
        assert!(item.completion_token.is_empty());
    }
    server.stop().await.unwrap();
}

/// A worker that takes items and neither reads on nor answers is contained: others, and other hubs, notice nothing.
#[tokio::test]
async fn a_worker_that_never_answers_is_contained() {
    let server = Running::start().await;
    let client = server.client().await;
    let request = GetWorkItemsRequest { max_concurrent_orchestration_work_items: 2, ..Default::default() };
    let silent = Worker::with(&server.client().await, request).await;
    for id in 0..2 {
        client.clone().start_instance(start(&format!("lost{id}"), "one")).await.unwrap();
    }
    until(|| async {
        let mut client = client.clone();
        let response = client.get_instance(get("lost1")).await.unwrap().into_inner();
        response.exists.then_some(())
    })
    .await;
    let mut worker = Worker::connect(&client).await;
    for id in 0..20 {
        client.clone().start_instance(start(&format!("good{id}"), "one")).await.unwrap();
    }
    for _ in 0..20 {
        worker.finish("1").await;
    }
    let mut other = Worker::with(&client, on("elsewhere", GetWorkItemsRequest::default())).await;
    client.clone().start_instance(on("elsewhere", start("a", "one"))).await.unwrap();
    let turn = other.turn().await;
    let answer = on("elsewhere", turn.answer(vec![complete(1, "1")]));
    other.client.complete_orchestrator_task(answer).await.unwrap();
    drop(silent);
    server.stop().await.unwrap();
}

/// Streams beyond the limit are refused, and the others go on.
#[tokio::test]
async fn a_flood_of_streams_is_refused() {
    let server = Running::with(|options| options.limits.worker_streams = 2).await;
    let client = server.client().await;
    let [first, mut second] = [Worker::connect(&client).await, Worker::connect(&client).await];
    let third = Worker::try_with(&client, GetWorkItemsRequest::default()).await;
    assert_eq!(third.err().unwrap().code(), Code::ResourceExhausted);
    drop(first);
    client.clone().start_instance(start("a", "one")).await.unwrap();
    second.finish("1").await;
    ended(&client, "a").await;
    // Once the server has noticed, there is room again.
    until(|| async { Worker::try_with(&client, GetWorkItemsRequest::default()).await.ok() }).await;
    server.stop().await.unwrap();
}

/// behaviour-30: while an instance is suspended nothing is dispatched but what ends that.
#[tokio::test]
async fn a_suspended_instance_waits() {
    use dauer_proto::wire::{ResumeRequest, SuspendRequest};
    let server = Running::start().await;
    let client = server.client().await;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(&client).await;
    let turn = worker.turn().await;
    worker.answer(turn.answer(Vec::new())).await;
    let instance_id = || "a".to_owned();
    client
        .clone()
        .suspend_instance(SuspendRequest { instance_id: instance_id(), reason: None })
        .await
        .unwrap();
    let turn = worker.turn().await;
    assert_eq!(turn.news(), ["OrchestratorStarted", "ExecutionSuspended"]);
    worker.answer(turn.answer(Vec::new())).await;
    status_is(&client, "a", OrchestrationStatus::Suspended).await;
    let event = RaiseEventRequest { instance_id: instance_id(), name: "Go".into(), input: None };
    client.clone().raise_event(event).await.unwrap();
    assert!(worker.is_idle().await, "it is suspended");
    client.clone().resume_instance(ResumeRequest { instance_id: instance_id(), reason: None }).await.unwrap();
    let turn = worker.turn().await;
    assert_eq!(turn.news()[..2], ["OrchestratorStarted", "ExecutionResumed"]);
    worker.answer(turn.answer(vec![complete(1, "1")])).await;
    within(async { ended(&client, "a").await }).await;
    server.stop().await.unwrap();
}
