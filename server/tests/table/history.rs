//! Histories.

use dauer_proto::wire::StreamInstanceHistoryRequest;
use dauer_proto::{action, event, time};
use tonic::Code;

use super::Fixture;
use crate::support::worker::{Worker, complete};
use crate::support::{chunks, ended, history, refused, start};

/// behaviour-55, D5, D10: the exact events of a run with an activity, a timer and a child.
pub(crate) async fn stream_instance_history(fixture: &Fixture) {
    let client = &fixture.client;
    let request = |id: &str, execution: Option<&str>| StreamInstanceHistoryRequest {
        instance_id: id.to_owned(),
        execution_id: execution.map(str::to_owned),
        for_work_item_processing: false,
    };
    assert_eq!(refused(chunks(client, request("absent", None)).await).0, Code::NotFound);
    assert_eq!(refused(chunks(client, request("", None)).await).0, Code::InvalidArgument);
    client.clone().start_instance(start("a", "parent")).await.unwrap();
    assert!(history(client, "a").await.is_empty(), "it has not begun");
    let mut worker = Worker::connect(client).await;
    let turn = worker.turn().await;
    let execution = turn.request.execution_id.clone().unwrap();
    worker.answer(turn.answer(vec![action::schedule_task(1, "t", None)])).await;
    let task = worker.task().await;
    worker.answer_task(task.answer("1")).await;
    let turn = worker.turn().await;
    worker.answer(turn.answer(vec![action::create_timer(2, time::from_millis(0))])).await;
    let turn = worker.turn().await;
    worker.answer(turn.answer(vec![action::create_sub_orchestration(3, "a-child", "child", None)])).await;
    worker.finish("1").await;
    let turn = worker.turn().await;
    worker.answer(turn.answer(vec![complete(4, "1")])).await;
    ended(client, "a").await;
    let events = history(client, "a").await;
    let names: Vec<_> = events.iter().map(event::kind_name).collect();
    assert_eq!(
        names,
        [
            "OrchestratorStarted",
            "ExecutionStarted",
            "TaskScheduled",
            "OrchestratorStarted",
            "TaskCompleted",
            "TimerCreated",
            "OrchestratorStarted",
            "TimerFired",
            "SubOrchestrationInstanceCreated",
            "OrchestratorStarted",
            "SubOrchestrationInstanceCompleted",
            "ExecutionCompleted",
        ]
    );
    let ids: Vec<_> = events.iter().map(|event| event.event_id).collect();
    assert_eq!(ids, [-1, 0, 1, -1, -1, 2, -1, -1, 3, -1, -1, 4]);
    assert!(events.iter().all(|event| event.timestamp.is_some()));
    let same = chunks(client, request("a", Some(&execution))).await.unwrap();
    assert_eq!(same.into_iter().flat_map(|chunk| chunk.events).collect::<Vec<_>>(), events);
    for other in ["0123", &"0".repeat(32)] {
        assert_eq!(refused(chunks(client, request("a", Some(other))).await).0, Code::NotFound);
    }
}
