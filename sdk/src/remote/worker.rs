//! The loop of a worker: a stream of work items in, answers out.
//!
//! Turns run in the loop, because they never wait; activities run beside it. A stream that breaks is opened again; what is
//! under way goes on meanwhile, and is answered under its old token.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::channel::mpsc;
use futures::future::{BoxFuture, Fuse, FusedFuture, FutureExt, Shared};
use futures::stream::{FusedStream, StreamExt};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status, Streaming};

use dauer_core::HostId;
use dauer_core::cancel::{CancelReason, Cancellation};
use dauer_core::model::{Filter, VersionRule};
use dauer_hub::{Executor, HostOptions, with_causes};
use dauer_proto::wire::{
    ActivityFilter, GetWorkItemsRequest, OrchestrationFilter, StreamInstanceHistoryRequest, WorkItemFilters,
};
use dauer_proto::{OrchestratorRequest, WorkItem, WorkItemRequest, WorkerCapability};
use dauer_store::{Cause, Env, Refused, Steady};

use super::activities;
use super::answers::Answers;
use super::courier::Courier;
use super::executing::Executing;
use super::failures;
use super::turns::Turns;
use super::wire::{Wire, delay, service};
use crate::build_id::BuildId;
use crate::local::LocalExecutor;
use crate::runtime::TokioEnv;

/// The first delay before a stream is opened again; doubled with each attempt that fails.
const RECONNECT_MIN: Duration = Duration::from_millis(200);

/// The longest. A server that comes back is noticed within it. Well below the time after which a server takes a worker for dead
/// that has lost its stream (10 s by default).
const RECONNECT_MAX: Duration = Duration::from_secs(3);

/// A stream on which nothing came for so long, not even a ping, is dead (behaviour 4).
const SILENCE_MAX: Duration = Duration::from_secs(120);

/// How long the last answers may take once a worker has nothing else to do.
const LAST_ANSWERS_MAX: Duration = Duration::from_secs(5);

/// The name under which the worker comes again, different for each process.
const WORKER_HEADER: &str = "workerid";

/// Says that the worker tells what it executes before it opens its stream again.
const RESUMES_HEADER: &str = "dauer-resumes";

/// The header with the build id of the worker, by which a server knows which stalled instances to retry.
const BUILD_HEADER: &str = "dauer-build";

/// When to stop. Looked at from several places.
pub(crate) type Stop = Shared<BoxFuture<'static, ()>>;

/// What a worker is made of.
pub(crate) struct Parts {
    pub(crate) executor: Arc<LocalExecutor>,
    pub(crate) options: HostOptions,
    pub(crate) host: HostId,
    pub(crate) build: BuildId,
    pub(crate) retention: Option<Duration>,
}

/// How a stream ended.
enum Ended {
    /// It broke, or was closed.
    Lost,
    /// All activities are over, after the worker was told to stop; or their time is.
    Drained,
}

/// A worker at work.
struct Session {
    wire: Arc<Wire>,
    env: Arc<TokioEnv>,
    executor: Arc<LocalExecutor>,
    turns: Turns,
    answers: Answers,
    subscription: GetWorkItemsRequest,
    /// The name of this process for the server.
    name: String,
    executing: Executing,
    build: BuildId,
    drain_max: Duration,
    /// Given when the worker stops.
    draining: Cancellation,
    /// Turns whose history had to be fetched.
    fetched: mpsc::UnboundedReceiver<(OrchestratorRequest, String)>,
    fetching: mpsc::UnboundedSender<(OrchestratorRequest, String)>,
    /// Every activity holds one; gone once the worker stops. What it is a sender of is never sent.
    activity_held: Option<mpsc::Sender<Infallible>>,
    activities_over: mpsc::Receiver<Infallible>,
    /// The same for answers.
    answer_held: mpsc::Sender<Infallible>,
    answers_over: mpsc::Receiver<Infallible>,
    stop: Fuse<Stop>,
    /// When activities that are still running are given up; set once the worker stops.
    deadline: Fuse<BoxFuture<'static, ()>>,
}

/// Runs a worker until `stop`, then lets it finish what it has.
pub(crate) async fn run(wire: Arc<Wire>, parts: Parts, stop: Stop) -> Result<(), Refused> {
    let env = Arc::new(TokioEnv::new(wire.runtime.clone()));
    if let Some(keep) = parts.retention {
        env.spawn(super::retention::run(Arc::clone(&wire), keep, stop.clone()).boxed());
    }
    let result = Session::new(wire, Arc::clone(&env), parts, stop).run().await;
    env.stop();
    result
}

impl Session {
    fn new(wire: Arc<Wire>, env: Arc<TokioEnv>, parts: Parts, stop: Stop) -> Self {
        let name = format!("{},{},{:016x}", parts.host.as_str(), std::process::id(), env.random());
        let Parts { executor, options, build, .. } = parts;
        let (fetching, fetched) = mpsc::unbounded();
        let (activity_held, activities_over) = mpsc::channel(0);
        let (answer_held, answers_over) = mpsc::channel(0);
        let channel = wire.channel();
        let courier = Courier::start(&wire, &env, channel.clone());
        Self {
            answers: Answers { wire: Arc::clone(&wire), service: service(channel), courier },
            turns: Turns::new(Arc::clone(&executor), options.cache_instances_max),
            subscription: subscription(&executor, &options),
            wire,
            env,
            executor,
            name,
            executing: Executing::default(),
            build,
            drain_max: options.drain_max,
            draining: Cancellation::new(),
            fetched,
            fetching,
            activity_held: Some(activity_held),
            activities_over,
            answer_held,
            answers_over,
            stop: stop.fuse(),
            deadline: Fuse::terminated(),
        }
    }

    async fn run(mut self) -> Result<(), Refused> {
        let (mut attempts, mut known) = (0, false);
        while !self.is_drained() {
            match self.open().await {
                None => continue,
                Some(Ok(stream)) => {
                    tracing::info!(address = self.wire.address(), "the worker is connected");
                    (attempts, known) = (0, true);
                    if let Ended::Drained = self.serve(stream).await {
                        break;
                    }
                }
                // It never was let in: nobody would notice that it only tries. Later, a token may be about to change.
                Some(Err(status)) if is_denied(&status) && !known => {
                    return Err(Refused::NotExecuted(Cause::new(failures::of(self.wire.address(), &status))));
                }
                Some(Err(status)) => {
                    let error = with_causes(&failures::of(self.wire.address(), &status));
                    tracing::warn!(error, "the worker is not connected; it tries again");
                }
            }
            attempts += 1;
            self.rest(attempts).await;
        }
        self.finish().await;
        Ok(())
    }

    /// Whether it was told to stop, and no activity is under way.
    fn is_drained(&mut self) -> bool {
        self.activities_over.is_terminated() || (self.stop.is_terminated() && self.deadline.is_terminated())
    }

    /// Asks for work; `None` when the worker was told to stop meanwhile.
    async fn open(&mut self) -> Option<Result<Streaming<WorkItem>, Status>> {
        let mut service = self.answers.service.clone();
        let (hello, mut items) = (self.wire.request(()), self.wire.request(self.subscription.clone()));
        if let Ok(name) = MetadataValue::try_from(self.name.as_str()) {
            items.metadata_mut().insert(WORKER_HEADER, name);
            items.metadata_mut().insert(RESUMES_HEADER, MetadataValue::from_static("1"));
        }
        let (resuming, executing) = (self.answers.clone(), self.executing.clone());
        let name = self.name.clone();
        let build = self.build.clone();
        let mut opened = Box::pin(async move {
            if let Some(Ok(build)) = build.await.as_deref().map(MetadataValue::try_from) {
                items.metadata_mut().insert(BUILD_HEADER, build);
            }
            service.hello(hello).await?;
            resuming.resume(name, &executing).await?;
            Ok(service.get_work_items(items).await?.into_inner())
        })
        .fuse();
        loop {
            futures::select_biased! {
                () = &mut self.stop => self.begin_to_stop(),
                _ = self.activities_over.next() => return None,
                () = &mut self.deadline => return None,
                opened = opened => return Some(opened),
            }
            if self.is_drained() {
                return None;
            }
        }
    }

    /// Waits before the next attempt.
    async fn rest(&mut self, attempts: u32) {
        let pause = delay(RECONNECT_MIN, RECONNECT_MAX, attempts, self.env.random());
        let mut pause = self.env.sleep(pause).fuse();
        futures::select_biased! {
            () = &mut self.stop => self.begin_to_stop(),
            _ = self.activities_over.next() => {}
            () = pause => {}
        }
    }

    /// From now on no activity is begun; the stream stays open, because what is on a stream that closes is soon given to
    /// others, while it still runs here.
    fn begin_to_stop(&mut self) {
        self.draining.cancel(CancelReason::Draining);
        self.activity_held = None;
        self.deadline = self.env.sleep(self.drain_max).fuse();
    }

    /// Works on what a stream brings until it ends, or there is nothing left to do.
    async fn serve(&mut self, stream: Streaming<WorkItem>) -> Ended {
        let mut stream = stream.fuse();
        let mut heard = self.env.steady();
        let mut silence = self.silence(heard);
        loop {
            futures::select_biased! {
                () = &mut self.stop => self.begin_to_stop(),
                _ = self.activities_over.next() => return Ended::Drained,
                () = &mut self.deadline => return Ended::Drained,
                turn = self.fetched.select_next_some() => self.turn(turn.0, turn.1),
                item = stream.next() => match item {
                    Some(Ok(item)) => {
                        heard = self.env.steady();
                        self.take(item);
                    }
                    Some(Err(status)) => {
                        let (address, code, message) = (self.wire.address(), status.code(), status.message());
                        tracing::warn!(address, ?code, message, "the stream of work items broke; it is opened again");
                        return Ended::Lost;
                    }
                    None => {
                        tracing::info!(address = self.wire.address(), "the server closed the stream of work items");
                        return Ended::Lost;
                    }
                },
                () = silence => {
                    if self.env.steady().since(heard) >= SILENCE_MAX {
                        tracing::warn!(address = self.wire.address(), "the stream of work items is silent; it is opened again");
                        return Ended::Lost;
                    }
                    silence = self.silence(heard);
                }
            }
        }
    }

    fn silence(&self, heard: Steady) -> Fuse<BoxFuture<'static, ()>> {
        self.env.sleep_until(heard.after(SILENCE_MAX)).fuse()
    }

    /// Takes a work item up.
    fn take(&mut self, item: WorkItem) {
        let token = item.completion_token;
        match item.request {
            Some(WorkItemRequest::OrchestratorRequest(request)) if request.requires_history_streaming => {
                self.fetch(request, token);
            }
            Some(WorkItemRequest::OrchestratorRequest(request)) => self.turn(request, token),
            Some(WorkItemRequest::ActivityRequest(request)) => match self.activity_held.clone() {
                Some(held) => {
                    let (executor, answers) = (Arc::clone(&self.executor), self.answers.clone());
                    let execution = self.executing.begin(&request, &token);
                    let running = activities::run(executor, (request, token), self.draining.clone(), answers);
                    self.env.spawn(running.map(|()| drop((held, execution))).boxed());
                }
                None => self.answer(self.answers.clone().abandon_activity(token)),
            },
            Some(WorkItemRequest::EntityRequest(_) | WorkItemRequest::EntityRequestV2(_)) => {
                self.answer(self.answers.clone().abandon_entity(token));
            }
            // A ping, or what a newer server may send.
            Some(WorkItemRequest::HealthPing(_)) | None => {}
        }
    }

    fn turn(&mut self, request: OrchestratorRequest, token: String) {
        let instance = request.instance_id.clone();
        match self.turns.run(request, token.clone()) {
            Ok(response) => self.answer(self.answers.clone().turn(response)),
            Err(error) => {
                let error = with_causes(&error);
                tracing::warn!(instance, error, "a turn cannot run here; it is given back");
                self.answer(self.answers.clone().abandon_turn(token));
            }
        }
    }

    fn answer(&self, bringing: impl Future<Output = ()> + Send + 'static) {
        let held = self.answer_held.clone();
        self.env.spawn(bringing.map(|()| drop(held)).boxed());
    }

    /// Fetches the history of a turn that came without it.
    fn fetch(&self, mut request: OrchestratorRequest, token: String) {
        let (wire, mut service) = (Arc::clone(&self.wire), self.answers.service.clone());
        let (fetched, answers) = (self.fetching.clone(), self.answers.clone());
        let message = StreamInstanceHistoryRequest {
            instance_id: request.instance_id.clone(),
            execution_id: request.execution_id.clone(),
            for_work_item_processing: true,
        };
        self.answer(async move {
            let read = async {
                let mut chunks = service.stream_instance_history(wire.request(message)).await?.into_inner();
                while let Some(chunk) = chunks.message().await? {
                    request.past_events.extend(chunk.events);
                }
                Ok::<_, Status>(request)
            };
            match read.await {
                // Nobody listens when the worker has ended: somebody else gets it.
                Ok(request) => _ = fetched.unbounded_send((request, token)),
                Err(status) => {
                    let (address, message) = (wire.address(), status.message());
                    tracing::warn!(
                        address,
                        message,
                        "a history could not be fetched; its turn is given back"
                    );
                    answers.abandon_turn(token).await;
                }
            }
        });
    }

    /// Lets the last answers arrive.
    async fn finish(self) {
        let Self { answer_held, mut answers_over, env, .. } = self;
        drop(answer_held);
        let mut patience = env.sleep(LAST_ANSWERS_MAX).fuse();
        futures::select_biased! {
            _ = answers_over.next() => {}
            () = patience => tracing::warn!("the last answers did not arrive; what they answer is done again"),
        }
    }
}

fn is_denied(status: &Status) -> bool {
    matches!(status.code(), Code::Unauthenticated | Code::PermissionDenied)
}

/// What a worker asks for.
fn subscription(executor: &LocalExecutor, options: &HostOptions) -> GetWorkItemsRequest {
    let queues = executor.queues();
    let most = |count: usize| i32::try_from(count.max(1)).unwrap_or(i32::MAX);
    let names = |filter: &Filter| match filter {
        Filter::All => Vec::new(),
        Filter::Names(names) => names
            .iter()
            .map(|(name, rule)| match rule {
                VersionRule::Any => (name.to_string(), Vec::new()),
                VersionRule::Listed(versions) => {
                    (name.to_string(), versions.iter().map(ToString::to_string).collect())
                }
            })
            .collect(),
    };
    let orchestrations = names(&queues.orchestrations).into_iter();
    let activities = names(&queues.activities).into_iter();
    GetWorkItemsRequest {
        max_concurrent_orchestration_work_items: most(options.turns_max),
        max_concurrent_activity_work_items: most(options.activities_max),
        // None would be no limit, and the filter admits none.
        max_concurrent_entity_work_items: 1,
        capabilities: vec![WorkerCapability::HistoryStreaming.into()],
        work_item_filters: Some(WorkItemFilters {
            orchestrations: orchestrations
                .map(|(name, versions)| OrchestrationFilter { name, versions })
                .collect(),
            activities: activities.map(|(name, versions)| ActivityFilter { name, versions }).collect(),
            entities: Vec::new(),
        }),
    }
}
