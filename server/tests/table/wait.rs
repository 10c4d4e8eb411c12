//! Getting instances, and waiting for them.

use std::time::Duration;

use dauer_proto::OrchestrationStatus;
use dauer_proto::wire::GetInstanceRequest;
use tonic::{Code, Request};

use super::Fixture;
use crate::support::worker::{Worker, complete};
use crate::support::{Running, get, refused, start, state, told, within};

/// behaviour-47: never an error for an id that is not there.
pub(crate) async fn get_instance(fixture: &Fixture) {
    let client = &fixture.client;
    let absent = client.clone().get_instance(get("absent")).await.unwrap().into_inner();
    assert!(!absent.exists && absent.orchestration_state.is_none());
    assert!(!client.clone().get_instance(get("@counter@1")).await.unwrap().into_inner().exists);
    let input = Some("\"in\"".to_owned());
    let request = dauer_proto::CreateInstanceRequest { input, ..start("a", "one") };
    client.clone().start_instance(request).await.unwrap();
    let pending = state(client, "a").await;
    assert_eq!(pending.orchestration_status(), OrchestrationStatus::Pending);
    assert_eq!(pending.input.as_deref(), Some("\"in\""), "it is known before it begins");
    let mut worker = Worker::connect(client).await;
    let turn = worker.turn().await;
    let custom = dauer_proto::OrchestratorResponse {
        custom_status: Some("\"half\"".into()),
        ..turn.answer(vec![complete(1, "\"out\"")])
    };
    worker.answer(custom).await;
    let all = state(client, "a").await;
    assert_eq!((all.input.as_deref(), all.output.as_deref()), (Some("\"in\""), Some("\"out\"")));
    assert_eq!(all.custom_status.as_deref(), Some("\"half\""));
    assert_eq!(all.execution_id, turn.request.execution_id);
    assert!(all.completed_timestamp.is_some());
    let bare = GetInstanceRequest { get_inputs_and_outputs: false, ..get("a") };
    let bare = told(client.clone().get_instance(bare).await.unwrap().into_inner());
    assert_eq!((bare.input, bare.output, bare.name.as_str()), (None, None, "one"));
    let long = client.clone().get_instance(get(&"x".repeat(101))).await;
    assert_eq!(refused(long).0, Code::InvalidArgument);
    assert_eq!(refused(client.clone().get_instance(get("")).await).0, Code::InvalidArgument);
}

/// behaviour-19, behaviour-48.
pub(crate) async fn wait_for_instance_start(fixture: &Fixture) {
    let client = &fixture.client;
    let wait = |client: &super::Client| {
        let mut client = client.clone();
        tokio::spawn(async move { client.wait_for_instance_start(get("a")).await })
    };
    // Before there is such an instance.
    let early = wait(client);
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(client).await;
    let turn = worker.turn().await;
    let late = wait(client);
    assert!(!early.is_finished() && !late.is_finished(), "it is pending until its first turn is committed");
    worker.answer(turn.answer(Vec::new())).await;
    for waiting in [early, late] {
        let state = told(within(waiting).await.unwrap().unwrap().into_inner());
        assert_eq!(state.orchestration_status(), OrchestrationStatus::Running);
    }
    let long = client.clone().wait_for_instance_start(get(&"x".repeat(101))).await;
    assert_eq!(refused(long).0, Code::InvalidArgument);
}

/// behaviour-48.
pub(crate) async fn wait_for_instance_completion(fixture: &Fixture) {
    let client = &fixture.client;
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let waiting = {
        let mut client = client.clone();
        tokio::spawn(async move { client.wait_for_instance_completion(get("a")).await })
    };
    let mut request = Request::new(get("a"));
    request.set_timeout(Duration::from_millis(50));
    let timed_out = client.clone().wait_for_instance_completion(request).await;
    assert!(matches!(refused(timed_out).0, Code::DeadlineExceeded | Code::Cancelled));
    let mut worker = Worker::connect(client).await;
    worker.finish("\"out\"").await;
    let state = told(within(waiting).await.unwrap().unwrap().into_inner());
    assert_eq!(state.output.as_deref(), Some("\"out\""));
    assert_eq!(refused(client.clone().wait_for_instance_completion(get("")).await).0, Code::InvalidArgument);
}

/// behaviour-48: an instance that never comes is said not to be there, after a while.
#[tokio::test]
async fn a_wait_for_nothing_ends_without_an_error() {
    let server = Running::with(|options| options.limits.absent_wait = Duration::from_millis(50)).await;
    let mut client = server.client().await;
    for absent in [
        within(client.wait_for_instance_start(get("absent"))).await,
        within(client.wait_for_instance_completion(get("absent"))).await,
    ] {
        assert!(!absent.unwrap().into_inner().exists);
    }
    // One that is there is waited for, however long it takes: several times as long.
    client.start_instance(start("a", "one")).await.unwrap();
    let mut request = Request::new(get("a"));
    request.set_timeout(Duration::from_millis(300));
    let began = std::time::Instant::now();
    let timed_out = client.wait_for_instance_completion(request).await;
    assert!(matches!(refused(timed_out).0, Code::DeadlineExceeded | Code::Cancelled));
    assert!(began.elapsed() >= Duration::from_millis(250));
    server.stop().await.unwrap();
}
