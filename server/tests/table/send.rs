//! Events, and what suspends, resumes and ends instances.

use dauer_proto::wire::{RaiseEventRequest, ResumeRequest, SuspendRequest, TerminateRequest};
use dauer_proto::{EventType, OrchestrationStatus, action};
use tonic::Code;

use super::Fixture;
use crate::support::worker::{Worker, complete};
use crate::support::{ended, refused, start, state, status_is, with_header};

fn raise(id: &str, name: &str) -> RaiseEventRequest {
    RaiseEventRequest { instance_id: id.into(), name: name.into(), input: Some("\"data\"".into()) }
}

/// behaviour-33, behaviour-49.
pub(crate) async fn raise_event(fixture: &Fixture) {
    let client = &fixture.client;
    assert_eq!(refused(client.clone().raise_event(raise("absent", "Go")).await).0, Code::NotFound);
    assert_eq!(refused(client.clone().raise_event(raise("@counter@1", "Go")).await).0, Code::InvalidArgument);
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let (code, text) = refused(client.clone().raise_event(raise("a", "")).await);
    assert_eq!((code, text.contains("event name")), (Code::InvalidArgument, true), "{text}");
    client.clone().raise_event(raise("a", "MyEvent")).await.unwrap();
    // Named, it is raised once however often it is sent.
    for _ in 0..2 {
        let named = with_header("dauer-request-id", "000102030405060708090a0b0c0d0e0f", raise("a", "Once"));
        client.clone().raise_event(named).await.unwrap();
    }
    let mut worker = Worker::connect(client).await;
    // The start comes first, whatever else was there before it was taken (behaviour-12).
    let turn = worker.turn().await;
    assert_eq!(turn.news(), ["OrchestratorStarted", "ExecutionStarted"]);
    worker.answer(turn.answer(Vec::new())).await;
    let turn = worker.turn().await;
    assert_eq!(turn.news(), ["OrchestratorStarted", "EventRaised", "EventRaised"]);
    let Some(EventType::EventRaised(raised)) = &turn.request.new_events[1].event_type else { panic!() };
    assert_eq!((raised.name.as_str(), raised.input.as_deref()), ("MyEvent", Some("\"data\"")));
    worker.answer(turn.answer(vec![complete(1, "1")])).await;
    ended(client, "a").await;
    client.clone().raise_event(raise("a", "late")).await.unwrap();
}

/// behaviour-30, behaviour-49.
pub(crate) async fn suspend_instance(fixture: &Fixture) {
    let client = &fixture.client;
    let suspend = |id: &str| SuspendRequest { instance_id: id.into(), reason: Some("why".into()) };
    assert_eq!(refused(client.clone().suspend_instance(suspend("absent")).await).0, Code::NotFound);
    assert_eq!(refused(client.clone().suspend_instance(suspend("")).await).0, Code::InvalidArgument);
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(client).await;
    let turn = worker.turn().await;
    worker.answer(turn.answer(Vec::new())).await;
    client.clone().suspend_instance(suspend("a")).await.unwrap();
    let turn = worker.turn().await;
    worker.answer(turn.answer(Vec::new())).await;
    status_is(client, "a", OrchestrationStatus::Suspended).await;
}

/// behaviour-30, behaviour-49.
pub(crate) async fn resume_instance(fixture: &Fixture) {
    let client = &fixture.client;
    suspend_instance(fixture).await;
    let resume = |id: &str| ResumeRequest { instance_id: id.into(), reason: None };
    assert_eq!(refused(client.clone().resume_instance(resume("absent")).await).0, Code::NotFound);
    assert_eq!(refused(client.clone().resume_instance(resume("@a@b")).await).0, Code::InvalidArgument);
    // The worker of before is gone; its turn was answered.
    let mut worker = Worker::connect(client).await;
    client.clone().resume_instance(resume("a")).await.unwrap();
    let turn = worker.turn().await;
    assert_eq!(turn.news(), ["OrchestratorStarted", "ExecutionResumed"]);
    worker.answer(turn.answer(vec![complete(1, "1")])).await;
    ended(client, "a").await;
    client.clone().resume_instance(resume("a")).await.unwrap();
}

/// behaviour-31, behaviour-49: an absent instance is NOT_FOUND, and ending one that has ended is done already.
pub(crate) async fn terminate_instance(fixture: &Fixture) {
    let client = &fixture.client;
    let terminate = |id: &str| TerminateRequest {
        instance_id: id.into(),
        output: Some("\"stopped\"".into()),
        recursive: true,
    };
    assert_eq!(refused(client.clone().terminate_instance(terminate("absent")).await).0, Code::NotFound);
    assert_eq!(refused(client.clone().terminate_instance(terminate("@a@b")).await).0, Code::InvalidArgument);
    client.clone().start_instance(start("a", "one")).await.unwrap();
    let mut worker = Worker::connect(client).await;
    let turn = worker.turn().await;
    worker.answer(turn.answer(Vec::new())).await;
    client.clone().terminate_instance(terminate("a")).await.unwrap();
    let turn = worker.turn().await;
    assert_eq!(turn.news(), ["OrchestratorStarted", "ExecutionTerminated"]);
    let output = Some("\"stopped\"".to_owned());
    let done = action::complete(1, OrchestrationStatus::Terminated, output.clone(), None);
    worker.answer(turn.answer(vec![done])).await;
    let told = ended(client, "a").await;
    assert_eq!((told.orchestration_status(), told.output), (OrchestrationStatus::Terminated, output));
    client.clone().terminate_instance(terminate("a")).await.unwrap();
    assert_eq!(state(client, "a").await.orchestration_status(), OrchestrationStatus::Terminated);
}
