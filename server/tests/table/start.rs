//! Starting instances.

use std::collections::BTreeMap;

use dauer_proto::wire::OrchestrationIdReusePolicy;
use dauer_proto::{CreateInstanceRequest, EventType, OrchestrationStatus, TraceContext, time};
use tonic::{Code, Request};

use super::Fixture;
use crate::support::worker::Worker;
use crate::support::{ended, refused, start, state, with_header};

const RUNNING: OrchestrationStatus = OrchestrationStatus::Running;
const TERMINATED: OrchestrationStatus = OrchestrationStatus::Terminated;

fn policy(id: &str, statuses: &[OrchestrationStatus]) -> CreateInstanceRequest {
    let replaceable_status = statuses.iter().map(|status| (*status).into()).collect();
    let policy = Some(OrchestrationIdReusePolicy { replaceable_status, legacy_action: 0 });
    CreateInstanceRequest { orchestration_id_reuse_policy: policy, ..start(id, "one") }
}

/// behaviour-11, behaviour-16, behaviour-36, behaviour-46, D1.
pub(crate) async fn start_instance(fixture: &Fixture) {
    everything_is_passed_on(fixture).await;
    what_breaks_a_rule_is_refused(fixture).await;
    the_same_id_again(fixture).await;
    the_same_request_again(fixture).await;
    what_older_clients_mean(fixture).await;
}

async fn everything_is_passed_on(Fixture { client, .. }: &Fixture) {
    let chosen = client.clone().start_instance(start("", "one")).await.unwrap().into_inner().instance_id;
    assert!(chosen.len() == 32 && chosen.bytes().all(|digit| digit.is_ascii_hexdigit()), "{chosen}");
    let trace = TraceContext { trace_parent: "00-ab-cd-01".into(), ..Default::default() };
    let full = CreateInstanceRequest {
        version: Some("1.2".into()),
        input: Some(String::new()),
        tags: BTreeMap::from([("team".to_owned(), "north".to_owned())]),
        parent_trace_context: Some(trace.clone()),
        // What JavaScript sends for "now".
        scheduled_start_timestamp: Some(time::from_millis(0)),
        ..start("full", "one")
    };
    client.clone().start_instance(full).await.unwrap();
    let told = state(client, "full").await;
    assert_eq!((told.name.as_str(), told.version.as_deref()), ("one", Some("1.2")));
    assert_eq!(told.tags.get("team").map(String::as_str), Some("north"));
    assert!(told.created_timestamp.is_some() && told.last_updated_timestamp.is_some());
    let mut worker = Worker::connect(client).await;
    let first = worker.turn().await;
    assert_eq!(first.request.instance_id, chosen);
    let second = worker.turn().await;
    let Some(EventType::ExecutionStarted(started)) = &second.request.new_events[1].event_type else {
        panic!()
    };
    assert_eq!((started.input.as_deref(), started.parent_trace_context.as_deref()), (Some(""), Some(&trace)));
    assert!(started.parent_instance.is_none());
    for turn in [first, second] {
        worker.answer(turn.answer(vec![crate::support::worker::complete(1, "1")])).await;
    }
    // Later than any test takes: it waits.
    let at = time::from_millis(i64::from(i32::MAX) * 1_000);
    let later = CreateInstanceRequest { scheduled_start_timestamp: Some(at), ..start("later", "one") };
    client.clone().start_instance(later).await.unwrap();
    assert!(worker.is_idle().await);
    assert_eq!(state(client, "later").await.scheduled_start_timestamp, Some(at));
}

async fn what_breaks_a_rule_is_refused(Fixture { client, .. }: &Fixture) {
    let refusal =
        async |request: CreateInstanceRequest| refused(client.clone().start_instance(request).await);
    let (code, text) = refusal(start(&"x".repeat(101), "one")).await;
    assert_eq!(code, Code::InvalidArgument);
    assert_eq!(text, "instance id has 101 characters; at most 100 are allowed");
    assert_eq!(refusal(start("@entity@key", "one")).await.0, Code::InvalidArgument);
    let (code, text) = refusal(start("a", "")).await;
    assert_eq!((code, text.contains("orchestration name")), (Code::InvalidArgument, true), "{text}");
    let never = Some(prost_types::Timestamp { seconds: i64::MAX, nanos: 0 });
    let (code, text) =
        refusal(CreateInstanceRequest { scheduled_start_timestamp: never, ..start("a", "one") }).await;
    assert_eq!((code, text.starts_with("scheduledStartTimestamp")), (Code::InvalidArgument, true), "{text}");
    let (code, text) = refusal(policy("a", &[RUNNING])).await;
    assert_eq!(code, Code::InvalidArgument);
    let said = "Invalid reusable statuses: cannot exclude 'Terminated' while also allowing reuse of running instances";
    assert!(text.contains(said), "{text}");
    let unknown = Some(OrchestrationIdReusePolicy { replaceable_status: vec![99], legacy_action: 0 });
    let request = CreateInstanceRequest { orchestration_id_reuse_policy: unknown, ..start("a", "one") };
    assert_eq!(refusal(request).await.0, Code::InvalidArgument);
    let request = with_header("dauer-request-id", "not an id", start("a", "one"));
    assert_eq!(refused(client.clone().start_instance(request).await).0, Code::InvalidArgument);
}

/// Living ones stay unless a policy says otherwise; ended ones are replaced unless a policy says otherwise.
async fn the_same_id_again(Fixture { client, .. }: &Fixture) {
    let begin = async |request: CreateInstanceRequest| client.clone().start_instance(request).await;
    begin(start("again", "one")).await.unwrap();
    let (code, text) = refused(begin(start("again", "two")).await);
    assert_eq!((code, text.contains("Pending")), (Code::AlreadyExists, true), "{text}");
    assert_eq!(refused(begin(policy("again", &[TERMINATED])).await).0, Code::AlreadyExists);
    let mut worker = Worker::connect(client).await;
    let first = worker.finish("1").await.request.execution_id;
    ended(client, "again").await;
    assert_eq!(
        refused(begin(policy("again", &[])).await).0,
        Code::AlreadyExists,
        "an empty policy replaces nothing"
    );
    assert_eq!(refused(begin(policy("again", &[TERMINATED])).await).0, Code::AlreadyExists);
    begin(start("again", "one")).await.unwrap();
    let turn = worker.turn().await;
    assert_ne!(turn.request.execution_id, first);
    worker.answer(turn.answer(Vec::new())).await;
    // A running one is ended in favour of the new one, when that is asked for.
    begin(policy("again", &[RUNNING, TERMINATED])).await.unwrap();
    let next = worker.turn().await;
    assert_ne!(next.request.execution_id, turn.request.execution_id);
    worker.answer(next.answer(vec![crate::support::worker::complete(1, "3")])).await;
    assert_eq!(ended(client, "again").await.output.as_deref(), Some("3"));
}

/// Older clients say beside the statuses whether an instance in one of them is kept or replaced.
async fn what_older_clients_mean(Fixture { client, .. }: &Fixture) {
    let begin = async |id: &str, legacy_action: i32| {
        let mut request = policy(id, &[OrchestrationStatus::Pending, RUNNING]);
        request.name = "other".into();
        if let Some(policy) = &mut request.orchestration_id_reuse_policy {
            policy.legacy_action = legacy_action;
        }
        client.clone().start_instance(request).await
    };
    client.clone().start_instance(start("legacy", "one")).await.unwrap();
    assert_eq!(begin("legacy", 1).await.unwrap().into_inner().instance_id, "legacy");
    assert_eq!(state(client, "legacy").await.name, "one", "it is kept");
    begin("legacy", 2).await.unwrap();
    let mut worker = Worker::connect(client).await;
    worker.finish("1").await;
    assert_eq!(ended(client, "legacy").await.name, "other", "it is replaced");
    assert_eq!(refused(begin("legacy", 1).await).0, Code::AlreadyExists, "it is in another status");
}

/// Made again because the answer was lost it is the same start; made again deliberately it is another.
async fn the_same_request_again(Fixture { client, .. }: &Fixture) {
    let begin = async |request: Request<CreateInstanceRequest>| client.clone().start_instance(request).await;
    let named = |id| with_header("dauer-request-id", "000102030405060708090a0b0c0d0e0f", start(id, "one"));
    begin(named("named")).await.unwrap();
    assert_eq!(begin(named("named")).await.unwrap().into_inner().instance_id, "named");
    let timed = |millis| {
        Request::new(CreateInstanceRequest {
            request_time: Some(time::from_millis(millis)),
            ..start("timed", "one")
        })
    };
    begin(timed(1)).await.unwrap();
    let again = |millis| with_header("grpc-previous-rpc-attempts", "1", timed(millis).into_inner());
    assert_eq!(begin(again(1)).await.unwrap().into_inner().instance_id, "timed");
    assert_eq!(refused(begin(timed(1)).await).0, Code::AlreadyExists, "not marked as a retry");
    assert_eq!(refused(begin(again(2)).await).0, Code::AlreadyExists, "of another time");
    let plain = || start("plain", "one");
    let retried = || with_header("grpc-previous-rpc-attempts", "1", plain());
    begin(Request::new(plain())).await.unwrap();
    assert_eq!(refused(begin(Request::new(plain())).await).0, Code::AlreadyExists);
    assert_eq!(begin(retried()).await.unwrap().into_inner().instance_id, "plain");
    // The same request over one that has ended begins it again, and once more.
    let mut worker = Worker::connect(client).await;
    let mut executions = std::collections::BTreeSet::new();
    for _ in 0..3 {
        let turn = worker.turn().await;
        worker.answer(turn.answer(vec![crate::support::worker::complete(1, "1")])).await;
    }
    for _ in 0..2 {
        executions.insert(ended(client, "plain").await.execution_id);
        begin(Request::new(plain())).await.unwrap();
        worker.finish("1").await;
    }
    executions.insert(ended(client, "plain").await.execution_id);
    assert_eq!(executions.len(), 3);
    assert_eq!(refused(begin(Request::new(policy("plain", &[]))).await).0, Code::AlreadyExists);
}
