//! An orchestration that no worker knows, over the protocol.

#![allow(clippy::unwrap_used)] // What is not there fails the test.

use dauer_proto::wire::{
    CreateInstanceRequest, OrchestrationIdReusePolicy, PurgeInstancesRequest, ResumeRequest, SuspendRequest,
    TerminateRequest,
};
use dauer_proto::{OrchestrationStatus, PurgeRequest, event};

use crate::support::worker::{Worker, complete};
use crate::support::{Running, ended, history, start, state};

/// An orchestration that no worker knows is suspended, resumed, replaced, terminated and purged; its history is there.
#[tokio::test]
async fn unknown_orchestration_is_controlled_and_purged() {
    let server = Running::start().await;
    let client = &server.client().await;
    let status = async |id: &str| state(client, id).await.orchestration_status();
    client.clone().start_instance(start("lost", "unknown")).await.unwrap();
    let suspend = SuspendRequest { instance_id: "lost".into(), reason: None };
    client.clone().suspend_instance(suspend).await.unwrap();
    assert_eq!(status("lost").await, OrchestrationStatus::Suspended);
    // A worker that comes does not begin it: it begins what was started later.
    let mut worker = Worker::connect(client).await;
    client.clone().start_instance(start("later", "unknown")).await.unwrap();
    let turn = worker.turn().await;
    assert_eq!(turn.request.instance_id, "later");
    worker.answer(turn.answer(vec![complete(1, "1")])).await;
    ended(client, "later").await;
    let resume = ResumeRequest { instance_id: "lost".into(), reason: None };
    client.clone().resume_instance(resume).await.unwrap();
    let turn = worker.turn().await;
    assert_eq!((turn.request.instance_id.as_str(), turn.news().len()), ("lost", 2));
    worker.answer(turn.answer(vec![complete(1, "1")])).await;
    ended(client, "lost").await;
    drop(worker);

    client.clone().start_instance(start("old", "unknown")).await.unwrap();
    let replaceable_status =
        [OrchestrationStatus::Pending, OrchestrationStatus::Running, OrchestrationStatus::Terminated];
    let policy = OrchestrationIdReusePolicy {
        replaceable_status: replaceable_status.map(i32::from).to_vec(),
        ..OrchestrationIdReusePolicy::default()
    };
    let new = CreateInstanceRequest {
        input: Some("7".into()),
        orchestration_id_reuse_policy: Some(policy),
        ..start("old", "known")
    };
    client.clone().start_instance(new).await.unwrap();
    let replaced = state(client, "old").await;
    assert_eq!((replaced.name.as_str(), replaced.input.as_deref()), ("known", Some("7")));

    let terminate = TerminateRequest { instance_id: "old".into(), output: None, recursive: true };
    client.clone().terminate_instance(terminate).await.unwrap();
    assert_eq!(status("old").await, OrchestrationStatus::Terminated);
    let kinds: Vec<_> = history(client, "old").await.iter().map(event::kind_name).collect();
    let expected = ["OrchestratorStarted", "ExecutionStarted", "ExecutionTerminated", "ExecutionCompleted"];
    assert_eq!(kinds, expected);
    let purge = PurgeInstancesRequest {
        request: Some(PurgeRequest::InstanceId("old".into())),
        ..PurgeInstancesRequest::default()
    };
    let purged = client.clone().purge_instances(purge).await.unwrap().into_inner();
    assert_eq!(purged.deleted_instance_count, 1);
    server.stop().await.unwrap();
}
