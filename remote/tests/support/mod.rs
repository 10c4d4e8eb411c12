//! A hub in memory with remote workers, and what a worker says.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use dauer::{HostOptions, Hub, TokioEnv};
use dauer_core::model::{Kind, Record, Trouble};
use dauer_core::send::StartRequest;
use dauer_core::{HostId, InstanceId};
use dauer_hub::{Client, Host};
use dauer_proto::wire::SendEntityMessageAction;
use dauer_proto::{
    ActionType, ActivityRequest, ActivityResponse, EventType, HistoryEvent, OrchestrationStatus,
    OrchestratorAction, OrchestratorRequest, OrchestratorResponse, TaskFailureDetails, WorkItem,
    WorkItemRequest, action,
};
use dauer_remote::{Brought, Figures, Options, WorkerStream, Workers};
use dauer_store::{Env, OpenTask, Reuse};

/// How long anything may take on a machine that is busy elsewhere.
const SOON: Duration = Duration::from_secs(30);

/// How long nothing has to come. It is a look at what is there already: a host hands out what it can at once.
const QUIET: Duration = Duration::from_millis(150);

pub(crate) struct Stage {
    pub(crate) workers: Arc<Workers>,
    pub(crate) client: Client,
    stop: oneshot::Sender<()>,
    host: JoinHandle<()>,
}

impl Stage {
    pub(crate) fn new(options: Options) -> Self {
        Self::polling(options, HostOptions::default().poll_max)
    }

    /// The host asks for work at least so often, whatever it is told.
    pub(crate) fn polling(options: Options, poll_max: Duration) -> Self {
        let drain_max = Duration::from_millis(10);
        let host = HostOptions { drain_max, poll_max, ..HostOptions::default() };
        Self::on(&dauer::open("memory:").unwrap(), options, host)
    }

    /// A server of a hub that others may serve, too.
    pub(crate) fn on(hub: &Hub, options: Options, host_options: HostOptions) -> Self {
        let env: Arc<dyn Env> = Arc::new(TokioEnv::new(tokio::runtime::Handle::current()));
        let workers = Workers::new(Arc::clone(&env), options);
        let client = Client::new(Arc::clone(hub.manage()), Arc::clone(&env));
        let executor: Arc<Workers> = Arc::clone(&workers);
        let host = Host::new(Arc::clone(hub.manage()), env, executor, HostId::new("server").unwrap());
        let host = host.options(host_options);
        let (stop, stopped) = oneshot::channel::<()>();
        let host = tokio::spawn(async move { host.run(async { _ = stopped.await }).await.unwrap() });
        Self { workers, client, stop, host }
    }

    /// The server is killed: its session lives until its lease ends.
    pub(crate) fn kill(self) {
        self.host.abort();
    }

    pub(crate) async fn stop(self) {
        drop(self.stop);
        timeout(SOON, self.host).await.unwrap().unwrap();
    }

    pub(crate) async fn start(&self, instance: &str, name: &str, input: Option<&str>) {
        let request = StartRequest::new(id(instance), name);
        let request = StartRequest { input: input.map(str::to_owned), ..request };
        self.client.start(request, Reuse::default()).await.unwrap();
    }

    pub(crate) async fn start_version(&self, instance: &str, name: &str, version: Option<&str>) {
        let request = StartRequest::new(id(instance), name);
        let request = StartRequest { version: version.map(str::to_owned), ..request };
        self.client.start(request, Reuse::default()).await.unwrap();
    }

    pub(crate) async fn ended(&self, instance: &str) -> Record {
        self.client.wait_ended(&id(instance), SOON).await.unwrap()
    }

    /// Brings the answer to an activity, as a server does.
    pub(crate) async fn bring(&self, response: ActivityResponse) {
        let instance = id(&response.instance_id);
        let brought = match self.workers.complete_activity(response).await {
            Brought::Unnamed(response) => {
                let found = self.client.hub().inspect(vec![instance]).await.unwrap();
                let tasks = found.into_iter().flatten().flat_map(|inspection| inspection.tasks);
                let open: Vec<_> = tasks.map(|task| task.id).collect();
                self.workers.complete_unnamed(response, &open).await
            }
            brought => brought,
        };
        assert_eq!(brought, Brought::Taken);
    }

    /// Waits until the workers' figures are so.
    pub(crate) async fn until(&self, condition: impl Fn(Figures) -> bool) {
        let looks = async {
            while !condition(self.workers.figures()) {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, looks).await.unwrap();
    }

    /// Waits until this server has taken a task over from one that died.
    pub(crate) async fn until_taken_over(&self, instance: &str) {
        let looks = async {
            while !self.tasks(instance).await.iter().any(|task| task.deaths.servers == 1) {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, looks).await.unwrap();
    }

    /// Waits until the instance has a trouble.
    pub(crate) async fn until_stalled(&self, instance: &str) -> Trouble {
        let looks = async {
            loop {
                let record = self.client.get(&id(instance)).await.unwrap();
                if let Some(trouble) = record.and_then(|record| record.trouble) {
                    return *trouble;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, looks).await.unwrap()
    }

    /// The open tasks of an instance.
    pub(crate) async fn tasks(&self, instance: &str) -> Vec<OpenTask> {
        let found = self.client.hub().inspect(vec![id(instance)]).await.unwrap();
        found.into_iter().flatten().flat_map(|inspection| inspection.tasks).collect()
    }

    /// Waits until the store has every turn back.
    pub(crate) async fn until_given_back(&self) {
        let looks = async {
            while self
                .client
                .hub()
                .scale()
                .await
                .unwrap()
                .held
                .get(&Kind::Orchestration)
                .is_some_and(|held| *held > 0)
            {
                tokio::task::yield_now().await;
            }
        };
        timeout(SOON, looks).await.unwrap();
    }
}

pub(crate) fn id(text: &str) -> InstanceId {
    InstanceId::new(text).unwrap()
}

/// Whatever comes next, pings too; nothing at the end.
pub(crate) async fn any(stream: &mut WorkerStream) -> Option<WorkItem> {
    timeout(SOON, stream.next()).await.unwrap()
}

/// The next piece of work.
pub(crate) async fn next(stream: &mut WorkerStream) -> WorkItem {
    any(stream).await.unwrap()
}

pub(crate) async fn no_item(stream: &mut WorkerStream) {
    if let Ok(item) = timeout(QUIET, stream.next()).await {
        panic!("there is {item:?}");
    }
}

pub(crate) fn turn(item: WorkItem) -> (String, OrchestratorRequest) {
    match item.request {
        Some(WorkItemRequest::OrchestratorRequest(request)) => (item.completion_token, request),
        other => panic!("no turn: {other:?}"),
    }
}

pub(crate) fn activity(item: WorkItem) -> (String, ActivityRequest) {
    match item.request {
        Some(WorkItemRequest::ActivityRequest(request)) => (item.completion_token, request),
        other => panic!("no activity: {other:?}"),
    }
}

pub(crate) fn answer(token: &str, instance: &str, actions: Vec<OrchestratorAction>) -> OrchestratorResponse {
    OrchestratorResponse {
        instance_id: instance.to_owned(),
        completion_token: token.to_owned(),
        actions,
        ..OrchestratorResponse::default()
    }
}

pub(crate) fn schedule(id: i32, name: &str, input: &str) -> OrchestratorAction {
    action::schedule_task(id, name, Some(input.to_owned()))
}

pub(crate) fn complete(id: i32, output: &str) -> OrchestratorAction {
    action::complete(id, OrchestrationStatus::Completed, Some(output.to_owned()), None)
}

pub(crate) fn result_of(event: &HistoryEvent) -> Option<String> {
    match &event.event_type {
        Some(EventType::TaskCompleted(completed)) => completed.result.clone(),
        _ => None,
    }
}

pub(crate) fn failure_of(event: &HistoryEvent) -> Option<TaskFailureDetails> {
    match &event.event_type {
        Some(EventType::TaskFailed(failed)) => failed.failure_details.clone(),
        _ => None,
    }
}

/// The next run of the same.
pub(crate) fn go_on(id: i32) -> OrchestratorAction {
    action::complete(id, OrchestrationStatus::ContinuedAsNew, None, None)
}

pub(crate) fn call_entity(id: i32) -> OrchestratorAction {
    let message = SendEntityMessageAction { entity_message_type: None };
    OrchestratorAction { id, orchestrator_action_type: Some(ActionType::SendEntityMessage(message)) }
}

/// A timer that fires after so long.
pub(crate) fn timer(id: i32, after: Duration) -> OrchestratorAction {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap() + after;
    action::create_timer(id, dauer_proto::time::from_millis(i64::try_from(now.as_millis()).unwrap()))
}
