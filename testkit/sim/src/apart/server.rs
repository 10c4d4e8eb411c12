//! Servers: a real host and real `Workers` each, with calls and streams that break.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauer_faults::wrap_hub;
use dauer_hub::Host;
use dauer_proto::{ActivityResponse, WorkItem, WorkItemRequest};
use dauer_remote::{Brought, Worker, WorkerStream, Workers};
use dauer_store::{Env, HostId, InstanceId, Manage};
use futures::StreamExt;
use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use futures::channel::oneshot;
use futures::future::{Either, FutureExt, select};

use super::code::Call;
use super::journal::Item;
use super::settings::Fault;
use super::watch::Watch;
use super::world::World;
use crate::env::SimEnv;
use crate::executor::Owner;
use crate::random::Random;
use crate::unpoisoned;

/// How long a worker waits for an answer.
const CALL_MAX: Duration = Duration::from_secs(5);

/// The longest that a call takes on its way, each way.
const LATE_MAX_MS: u64 = 1_500;

/// One life of a server.
pub(super) struct Server {
    pub(super) owner: Owner,
    pub(super) workers: Arc<Workers>,
    hub: Arc<dyn Manage>,
    env: Arc<SimEnv>,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    closed: AtomicBool,
}

/// A call that did not come to an end.
#[derive(Debug)]
pub(super) struct Gone;

/// A worker's end of a stream. Dropping it closes the stream.
pub(super) struct Connection {
    pub(super) id: u64,
    pub(super) server: Owner,
    pub(super) items: UnboundedReceiver<WorkItem>,
    /// Ready when the worker notices that the stream is cut.
    pub(super) cut: oneshot::Receiver<()>,
    /// The server notices when it is dropped.
    pub(super) open: oneshot::Sender<()>,
}

/// What cuts a stream: each end notices in its own time.
pub(super) struct Knife {
    pub(super) process: Owner,
    pub(super) server: Owner,
    pub(super) server_end: oneshot::Sender<()>,
    pub(super) worker_end: oneshot::Sender<()>,
    /// Nothing arrives from now on.
    pub(super) is_cut: Arc<AtomicBool>,
}

/// All streams that may be cut.
#[derive(Default)]
pub(super) struct Streams {
    next: AtomicU64,
    pub(super) knives: Mutex<BTreeMap<u64, Knife>>,
}

/// The server's end of a stream.
struct Feed {
    id: u64,
    process: Owner,
    items: UnboundedSender<WorkItem>,
    gone: oneshot::Receiver<()>,
    cut: oneshot::Receiver<()>,
    is_cut: Arc<AtomicBool>,
}

impl Server {
    /// A new server at a place. The receiver ends when it is gone: with a value when it has stopped.
    pub(super) fn start(world: &Arc<World>, place: usize) -> (Arc<Self>, oneshot::Receiver<()>) {
        let owner = world.next_owner();
        world.executor.admit(owner);
        let random = Random::stream(world.seed, 1_000 + u64::from(owner.0));
        let env = Arc::new(SimEnv::new(world.executor.clone(), owner, random));
        let workers = Workers::new(Arc::clone(&env) as Arc<dyn Env>, world.settings.remote.clone());
        let watch = Watch { world: Arc::clone(world), owner, opened: AtomicBool::new(false) };
        let hub = wrap_hub(Arc::clone(&world.hub), Arc::new(watch));
        let Ok(id) = HostId::new(format!("server-{place}-{}", owner.0)) else {
            unreachable!("short, not empty, without control characters")
        };
        let executor = Arc::clone(&workers) as Arc<dyn dauer_hub::Executor>;
        let host = Host::new(Arc::clone(&hub), Arc::clone(&env) as Arc<dyn Env>, executor, id);
        let host = host.options(world.settings.host.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let (leave, gone) = oneshot::channel();
        let server = Arc::new(Self {
            owner,
            workers,
            hub,
            env,
            stop: Mutex::new(Some(stop)),
            closed: AtomicBool::new(false),
        });
        let (of_world, of_server) = (Arc::clone(world), Arc::clone(&server));
        let life = async move {
            if let Err(refused) = host.run(stopped.map(|_| ())).await {
                of_world.journal.complain(format!("a server gave up: {refused}"));
            }
            of_server.workers.close();
            of_server.closed.store(true, Ordering::Relaxed);
            // The supervisor is always there.
            let _ = leave.send(());
        };
        world.executor.spawn(owner, life.boxed());
        world.note(&[20, u64::from(owner.0)], || format!("server {} starts", owner.0));
        (server, gone)
    }

    pub(super) fn is_open(&self, world: &World) -> bool {
        world.executor.is_alive(self.owner) && !self.closed.load(Ordering::Relaxed)
    }

    /// SIGTERM.
    pub(super) fn stop(&self) {
        drop(unpoisoned(&self.stop).take());
    }

    /// Has the server do something for a worker. Its answer may be lost although it was done. A call that its caller gives up is
    /// dropped at the server.
    async fn call<T: Send + 'static>(
        &self,
        world: &Arc<World>,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Gone> {
        world.latency(LATE_MAX_MS).await;
        if world.happens(Fault::RequestLost) || !self.is_open(world) {
            return Err(Gone);
        }
        let (mut tell, answer) = oneshot::channel();
        let handler = async move {
            let done = match select(work.boxed(), tell.cancellation()).await {
                Either::Left((done, _)) => done,
                Either::Right(_) => return,
            };
            // The caller may have given up just now.
            let _ = tell.send(done);
        };
        world.executor.spawn(self.owner, handler.boxed());
        let patience = match world.happens(Fault::CallDropped) {
            true => Duration::from_millis(world.random(|random| random.below(300))),
            false => CALL_MAX,
        };
        let answer = match select(answer, world.sleep(patience)).await {
            Either::Left((answer, _)) => answer.map_err(|_| Gone)?,
            Either::Right(_) => return Err(Gone),
        };
        world.latency(LATE_MAX_MS).await;
        if world.happens(Fault::AnswerLost) { Err(Gone) } else { Ok(answer) }
    }

    /// Takes the answer to an activity, as the server's calls do.
    pub(super) async fn complete_activity(
        &self,
        world: &Arc<World>,
        response: ActivityResponse,
    ) -> Result<bool, Gone> {
        let (workers, hub) = (Arc::clone(&self.workers), Arc::clone(&self.hub));
        let brought = self.call(world, async move {
            match workers.complete_activity(response).await {
                Brought::Unnamed(response) => {
                    let instance = InstanceId::new(response.instance_id.as_str()).ok()?;
                    let found = hub.inspect(vec![instance]).await.ok()?;
                    let tasks = found.into_iter().flatten().flat_map(|inspection| inspection.tasks);
                    let open: Vec<_> = tasks.map(|task| task.id).collect();
                    Some(workers.complete_unnamed(response, &open).await)
                }
                brought => Some(brought),
            }
        });
        Ok(matches!(brought.await?, Some(Brought::Taken | Brought::Unnamed(_))))
    }

    pub(super) async fn complete_turn(
        &self,
        world: &Arc<World>,
        response: dauer_proto::OrchestratorResponse,
    ) -> Result<(), Gone> {
        let workers = Arc::clone(&self.workers);
        self.call(world, async move { workers.complete_turn(response).await }).await
    }

    pub(super) async fn abandon(&self, world: &Arc<World>, token: String) -> Result<(), Gone> {
        let workers = Arc::clone(&self.workers);
        self.call(world, async move { workers.abandon(&token) }).await
    }

    pub(super) async fn resume(
        &self,
        world: &Arc<World>,
        name: Arc<str>,
        tasks: Vec<(InstanceId, String)>,
    ) -> Result<Vec<String>, Gone> {
        let workers = Arc::clone(&self.workers);
        self.call(world, async move { workers.resume(&name, tasks).await }).await
    }

    /// Opens the stream of a worker.
    pub(super) async fn open(
        self: &Arc<Self>,
        world: &Arc<World>,
        process: Owner,
        worker: Worker,
    ) -> Result<Connection, Gone> {
        let id = world.streams.next.fetch_add(1, Ordering::Relaxed);
        let (send, items) = unbounded();
        let (open, gone) = oneshot::channel();
        let (server_end, server_cut) = oneshot::channel();
        let (worker_end, cut) = oneshot::channel();
        let is_cut = Arc::new(AtomicBool::new(false));
        let server = self.owner;
        let knife = Knife { process, server, server_end, worker_end, is_cut: Arc::clone(&is_cut) };
        let feed = Feed { id, process, items: send, gone, cut: server_cut, is_cut };
        let (of_world, of_server) = (Arc::clone(world), Arc::clone(self));
        let opened = self.call(world, async move {
            let stream = of_server.workers.connect(worker);
            of_world.journal.notes().opened(process, (id, server), of_world.executor.now());
            unpoisoned(&of_world.streams.knives).insert(id, knife);
            let (env, feeding) = (Arc::clone(&of_server.env), feed.run(of_world, of_server, stream));
            env.spawn(feeding.boxed());
        });
        opened.await?;
        Ok(Connection { id, server, items, cut, open })
    }
}

impl Feed {
    /// Sends items to the worker until either end is gone.
    async fn run(self, world: Arc<World>, server: Arc<Server>, mut stream: WorkerStream) {
        let mut aboard = BTreeSet::new();
        // A receiver whose sender is gone counts as terminated, and would not be polled.
        let (mut gone, mut cut) = (self.gone.map(drop).fuse(), self.cut.map(drop).fuse());
        loop {
            futures::select_biased! {
                item = stream.next().fuse() => match item {
                    Some(item) => {
                        aboard.extend(named(&item));
                        if !self.is_cut.load(Ordering::Relaxed) {
                            // A worker that is gone is noticed below.
                            let _ = self.items.unbounded_send(item);
                        }
                    }
                    None => break,
                },
                () = gone => {
                    let notice = world.notice(self.process);
                    world.sleep(notice).await;
                    break;
                }
                () = cut => break,
            }
        }
        while let Some(Some(item)) = stream.next().now_or_never() {
            aboard.extend(named(&item));
        }
        let now = world.executor.now();
        let closed = server.workers.is_closed();
        world.note(&[21, self.id], || format!("stream {} is lost at server {}", self.id, server.owner.0));
        {
            let mut notes = world.journal.notes();
            notes.lost(self.process, aboard);
            notes.ended(self.process, self.id, (now, !closed));
        }
        unpoisoned(&world.streams.knives).remove(&self.id);
        drop(stream);
    }
}

/// The name of what a work item is about.
pub(super) fn named(item: &WorkItem) -> Option<Item> {
    match &item.request {
        Some(WorkItemRequest::ActivityRequest(request)) => {
            let call: Call = serde_json::from_str(request.input.as_deref()?).ok()?;
            Some(call.key)
        }
        Some(WorkItemRequest::OrchestratorRequest(request)) => {
            let execution = request.execution_id.as_deref().unwrap_or_default();
            Some(turn_name(&request.instance_id, execution, request.past_events.len()))
        }
        _ => None,
    }
}

pub(super) fn turn_name(instance: &str, execution: &str, past: usize) -> Item {
    format!("turn of {instance} {execution} after {past}")
}
