//! Payloads belong to users: nothing of them is ever logged, or told in an error.

#![allow(clippy::unwrap_used)] // What is not there fails the test.

mod support;

use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use dauer_proto::wire::{
    RaiseEventRequest, ResumeRequest, RewindInstanceRequest, SuspendRequest, TerminateRequest,
};
use dauer_proto::{ActivityResponse, CreateInstanceRequest, OrchestratorResponse, action, failure};
use support::worker::{Worker, complete};
use support::{Running, ended, get, start};
use tonic::Status;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// What is looked for.
const CANARY: &str = "canary-3f9a7c";

/// All that is logged, by whatever crate, at whatever level.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Visit for Log {
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        let _ = writeln!(self.0.lock().unwrap(), "{field} {value:?}");
    }
}

impl Subscriber for Log {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        span.record(&mut self.clone());
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        values.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        event.record(&mut self.clone());
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn payload() -> Option<String> {
    Some(format!("\"{CANARY}\""))
}

/// Calls that are refused, each with the canary in it.
async fn refusals(client: &support::Client) -> Vec<Status> {
    let fat = || Some(CANARY.repeat(2 * 1024 * 1024));
    let input = |id: &str, name: &str, input| CreateInstanceRequest { input, ..start(id, name) };
    let tags = [("\u{7}".to_owned(), CANARY.to_owned())].into();
    let raise =
        |id: &str, name: &str, input| RaiseEventRequest { instance_id: id.into(), name: name.into(), input };
    let id = || "absent".to_owned();
    let mut client = client.clone();
    vec![
        client.start_instance(input("fat", "one", fat())).await.unwrap_err(),
        client.start_instance(input("long", &"x".repeat(300), payload())).await.unwrap_err(),
        client
            .start_instance(CreateInstanceRequest { tags, ..input("tags", "one", payload()) })
            .await
            .unwrap_err(),
        client.start_instance(input("taken", "one", payload())).await.unwrap_err(),
        client.raise_event(raise("absent", "go", payload())).await.unwrap_err(),
        client.raise_event(raise("taken", "", payload())).await.unwrap_err(),
        client.raise_event(raise("taken", "go", fat())).await.unwrap_err(),
        client.suspend_instance(SuspendRequest { instance_id: id(), reason: payload() }).await.unwrap_err(),
        client.resume_instance(ResumeRequest { instance_id: id(), reason: payload() }).await.unwrap_err(),
        client
            .rewind_instance(RewindInstanceRequest { instance_id: id(), reason: payload() })
            .await
            .unwrap_err(),
        client
            .terminate_instance(TerminateRequest {
                instance_id: String::new(),
                output: payload(),
                recursive: false,
            })
            .await
            .unwrap_err(),
    ]
}

/// More turns than there are results for.
const TURNS_MAX: usize = 6;

/// What an instance does in a turn.
fn decided(instance: &str, turn: usize) -> Vec<dauer_proto::OrchestratorAction> {
    match (instance, turn) {
        // A timer without a time makes no sense: it is the trouble of the instance, until it is answered otherwise.
        ("a", 1) => {
            let timer = dauer_proto::wire::CreateTimerAction::default();
            let nonsense = action::new(9, dauer_proto::ActionType::CreateTimer(timer));
            vec![nonsense, action::schedule_task(7, "t", payload())]
        }
        ("a", turn) if turn < TURNS_MAX => Vec::new(),
        _ => vec![complete(5, &payload().unwrap())],
    }
}

/// A run with the canary in every payload there is.
async fn run(client: &support::Client) {
    let mut worker = Worker::connect(client).await;
    let input = CreateInstanceRequest { input: payload(), ..start("a", "one") };
    client.clone().start_instance(input).await.unwrap();
    let turn = worker.turn().await;
    let actions = vec![
        action::schedule_task(1, "t", payload()),
        action::schedule_task(2, "t", payload()),
        action::create_sub_orchestration(3, "a-child", "child", payload()),
        action::send_event(4, "taken", "go", payload()),
    ];
    worker.answer(OrchestratorResponse { custom_status: payload(), ..turn.answer(actions) }).await;
    let event = || RaiseEventRequest { instance_id: "a".into(), name: "go".into(), input: payload() };
    client.clone().raise_event(event()).await.unwrap();
    // Whatever comes is answered: with results, a failure, and nonsense.
    let mut turns = 0;
    loop {
        let item = support::within(worker.next()).await.unwrap().unwrap();
        let token = item.completion_token;
        match item.request.unwrap() {
            dauer_proto::WorkItemRequest::ActivityRequest(request) => {
                let details = failure::failure("Broken", CANARY);
                let failure_details = (request.task_id == 2).then_some(details);
                let result = payload().filter(|_| failure_details.is_none());
                let (instance_id, task_id) =
                    (request.orchestration_instance.unwrap().instance_id, request.task_id);
                let answer = ActivityResponse {
                    instance_id,
                    task_id,
                    result,
                    failure_details,
                    completion_token: token,
                };
                worker.answer_task(answer.clone()).await;
                worker.answer_task(answer).await;
            }
            dauer_proto::WorkItemRequest::OrchestratorRequest(request) => {
                let answer = OrchestratorResponse {
                    instance_id: request.instance_id,
                    completion_token: token,
                    custom_status: payload(),
                    ..OrchestratorResponse::default()
                };
                let ours = answer.instance_id == "a";
                worker
                    .answer(OrchestratorResponse { actions: decided(&answer.instance_id, turns), ..answer })
                    .await;
                match ours {
                    true if turns == TURNS_MAX => break,
                    true => client.clone().raise_event(event()).await.unwrap(),
                    false => continue,
                };
                turns += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(ended(client, "a").await.output, payload());
}

#[tokio::test]
async fn nothing_of_a_payload_is_logged_or_told_in_an_error() {
    let log = Log::default();
    tracing::subscriber::set_global_default(log.clone()).unwrap();
    let server = Running::start().await;
    let client = server.client().await;
    client.clone().start_instance(start("taken", "other")).await.unwrap();
    let refusals = refusals(&client).await;
    for status in &refusals {
        assert!(!status.message().contains(CANARY), "{:?}", status.code());
        assert!(!format!("{:?}", status.metadata()).contains(CANARY));
    }
    run(&client).await;
    assert!(client.clone().get_instance(get("a")).await.is_ok());
    server.stop().await.unwrap();
    let logged = log.0.lock().unwrap();
    assert!(logged.contains("a session was opened"), "the log is the right one");
    let hit = logged.lines().find(|line| line.contains(CANARY));
    assert!(hit.is_none(), "{}", hit.unwrap_or_default().chars().take(300).collect::<String>());
}
