//! Worker processes: they take items, execute them, and bring answers to whichever server is there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauer_proto::{
    ActivityRequest, ActivityResponse, OrchestratorRequest, OrchestratorResponse, WorkItem, WorkItemRequest,
};
use dauer_remote::Worker;
use dauer_store::InstanceId;
use futures::StreamExt;
use futures::channel::oneshot;
use futures::future::FutureExt;

use super::code::{self, Call};
use super::server::{Connection, Server, named};
use super::settings::{Fault, Species};
use super::world::World;
use crate::executor::Owner;
use crate::unpoisoned;

/// The longest pause before a worker tries again, doubled from the shortest.
const PAUSE_MIN_MS: u64 = 100;
const PAUSE_MAX_MS: u64 = 1_600;

/// A worker with so many places brings some answers to other servers than the one of its stream.
const ROOM_TO_STRAY: usize = 16;

/// How often the answer to a turn is brought by a worker of dauer's own.
const TURN_ATTEMPTS: u32 = 10;

/// A turn that takes its time takes this at most.
const TURN_LATE_MAX_MS: u64 = 5_000;

/// One life of a worker.
pub(super) struct Process {
    pub(super) owner: Owner,
    species: Species,
    name: Arc<str>,
    room: [usize; 2],
    /// The activities that it executes or has not brought the answers of, by their tokens.
    executing: Mutex<BTreeMap<String, InstanceId>>,
    /// After how many milliseconds a server notices its death.
    pub(super) notice: AtomicU64,
    /// The server of its open stream, and the stream.
    connected: Mutex<Option<(Arc<Server>, u64)>>,
}

impl Process {
    /// A new worker. The receiver ends when it is gone.
    pub(super) fn start(
        world: &Arc<World>,
        (species, room): (Species, [usize; 2]),
    ) -> (Arc<Self>, oneshot::Receiver<()>) {
        let owner = world.next_owner();
        world.executor.admit(owner);
        world.journal.notes().process(owner, species);
        let process = Arc::new(Self {
            owner,
            species,
            name: format!("worker-{}", owner.0).into(),
            room,
            executing: Mutex::default(),
            notice: AtomicU64::new(0),
            connected: Mutex::default(),
        });
        let (stays, gone) = oneshot::channel::<()>();
        let (of_world, of_process) = (Arc::clone(world), Arc::clone(&process));
        let life = async move {
            of_process.live(&of_world).await;
            drop(stays);
        };
        world.executor.spawn(owner, life.boxed());
        world.note(&[22, u64::from(owner.0)], || format!("worker {} starts: {species:?}", owner.0));
        (process, gone)
    }

    fn worker(&self, resumes: bool) -> Worker {
        let [turns_max, activities_max] = self.room;
        let is_named = matches!(self.species, Species::Own | Species::Named);
        Worker {
            turns_max,
            activities_max,
            names_tokens: self.species != Species::Bare,
            name: is_named.then(|| Arc::clone(&self.name)),
            resumes,
            ..Worker::default()
        }
    }

    async fn pause(&self, world: &World, attempts: u32) {
        let most = PAUSE_MAX_MS.min(PAUSE_MIN_MS << attempts.min(8));
        let pause = world.random(|random| random.between(most / 2, most));
        world.sleep(Duration::from_millis(pause)).await;
    }

    async fn live(self: Arc<Self>, world: &Arc<World>) {
        let mut attempts = 0;
        while !world.is_closing() {
            if let Some(server) = world.reach()
                && let Some(connection) = self.connect(world, &server).await
            {
                attempts = 0;
                *unpoisoned(&self.connected) = Some((server, connection.id));
                self.serve(world, connection).await;
                *unpoisoned(&self.connected) = None;
            }
            attempts += 1;
            self.pause(world, attempts).await;
        }
    }

    /// Where a call goes: over the connection of the stream, or to any server while there is none. An answer that counts
    /// everywhere may go elsewhere.
    fn reach(&self, world: &World, anywhere: bool) -> Option<(Arc<Server>, Option<u64>)> {
        let connected = unpoisoned(&self.connected).clone();
        // A server that learns nothing of an answer to another keeps the worker's place for it.
        let has_room = self.room.iter().all(|places| *places >= ROOM_TO_STRAY);
        let strays = anywhere
            && has_room
            && self.species == Species::Own
            && world.random(|random| random.chance(2_000));
        match connected.filter(|(server, _)| server.is_open(world) && !strays) {
            Some((server, stream)) => Some((server, Some(stream))),
            None => world.reach().map(|server| (server, None)),
        }
    }

    /// A call has failed for good: so has the connection that it went over.
    fn disconnect(&self, world: &World, stream: Option<u64>) {
        stream.into_iter().for_each(|stream| _ = world.cut(Some(stream)));
    }

    async fn connect(&self, world: &Arc<World>, server: &Arc<Server>) -> Option<Connection> {
        let resumes = self.species == Species::Own;
        if resumes {
            let executing = unpoisoned(&self.executing).clone();
            let tasks: Vec<_> = executing.into_iter().map(|(token, instance)| (instance, token)).collect();
            if !tasks.is_empty() {
                let resumed = server.resume(world, Arc::clone(&self.name), tasks).await;
                let Ok(unknown) = resumed else {
                    world.journal.notes().lost(self.owner, BTreeSet::new());
                    return None;
                };
                if !unknown.is_empty() && !world.is_closing() && server.is_open(world) {
                    world.journal.complain(format!("a server does not know tokens of the hub: {unknown:?}"));
                }
            }
        }
        let opened = server.open(world, self.owner, self.worker(resumes)).await.ok();
        if resumes && opened.is_none() {
            // A server waits for it in vain.
            world.journal.notes().lost(self.owner, BTreeSet::new());
        }
        opened
    }

    async fn serve(self: &Arc<Self>, world: &Arc<World>, connection: Connection) {
        let Connection { id, server, mut items, cut, open } = connection;
        let mut cut = cut.map(drop).fuse();
        loop {
            let item = futures::select_biased! {
                item = items.next() => item,
                () = cut => None,
            };
            let Some(item) = item else { break };
            // What the worker reads it executes, whatever becomes of the stream.
            if let Some(item) = self.register(world, item) {
                let work = Arc::clone(self).execute(Arc::clone(world), item);
                world.executor.spawn(self.owner, work.boxed());
            }
        }
        let server_lives = world.executor.is_alive(server);
        let at = (world.executor.now(), server_lives);
        world.journal.notes().ended(self.owner, id, at);
        world.note(&[23, id], || format!("worker {} has lost stream {id}", self.owner.0));
        drop(open);
    }

    /// Notes an item that was read.
    fn register(&self, world: &World, item: WorkItem) -> Option<WorkItem> {
        let name = named(&item)?;
        world.note(&[24, u64::from(self.owner.0)], || format!("worker {} has {name}", self.owner.0));
        if let Some(WorkItemRequest::ActivityRequest(request)) = &item.request {
            let instance = request.orchestration_instance.as_ref().map(|of| of.instance_id.as_str());
            if let Ok(instance) = InstanceId::new(instance.unwrap_or_default()) {
                unpoisoned(&self.executing).insert(item.completion_token.clone(), instance);
            }
        }
        Some(item)
    }

    async fn execute(self: Arc<Self>, world: Arc<World>, item: WorkItem) {
        let token = item.completion_token.clone();
        if self.species != Species::Own && world.happens(Fault::Abandons) {
            unpoisoned(&self.executing).remove(&token);
            if let Some((server, stream)) = self.reach(&world, false)
                && server.abandon(&world, token).await.is_err()
            {
                self.disconnect(&world, stream);
            }
            return;
        }
        match item.request {
            Some(WorkItemRequest::OrchestratorRequest(request)) => self.turn(&world, token, request).await,
            Some(WorkItemRequest::ActivityRequest(request)) => self.activity(&world, token, request).await,
            _ => {}
        }
    }

    /// The item ends the process.
    async fn killed_by(&self, world: &World, (item, after): (String, u64)) {
        world.sleep(Duration::from_millis(after)).await;
        self.notice.store(world.random(|random| random.below(200)), Ordering::Relaxed);
        world.note(&[25, u64::from(self.owner.0)], || format!("{item} kills worker {}", self.owner.0));
        {
            let mut notes = world.journal.notes();
            notes.kills(item);
            notes.died(self.owner, world.executor.now());
        }
        world.executor.doom(self.owner);
        std::future::pending::<()>().await;
    }

    async fn turn(&self, world: &Arc<World>, token: String, request: OrchestratorRequest) {
        let Some(decided) = code::turn(&request) else {
            return world.journal.complain(format!("a turn of {} makes no sense", request.instance_id));
        };
        if let Some(after) = decided.kills {
            let execution = request.execution_id.as_deref().unwrap_or_default();
            let name = super::server::turn_name(&request.instance_id, execution, request.past_events.len());
            return self.killed_by(world, (name, after)).await;
        }
        let most = if world.happens(Fault::TurnLate) { TURN_LATE_MAX_MS } else { 20 };
        world.sleep(Duration::from_millis(world.random(|random| random.below(most)))).await;
        let response = OrchestratorResponse {
            instance_id: request.instance_id,
            actions: decided.actions,
            custom_status: Some(decided.seen),
            completion_token: if self.species == Species::Bare { String::new() } else { token },
            ..OrchestratorResponse::default()
        };
        let attempts = if self.species == Species::Own { TURN_ATTEMPTS } else { 1 };
        for attempt in 0..attempts {
            if let Some((server, stream)) = self.reach(world, false) {
                if server.complete_turn(world, response.clone()).await.is_ok() {
                    return;
                }
                if attempt + 1 == attempts {
                    self.disconnect(world, stream);
                }
            }
            self.pause(world, attempt).await;
        }
    }

    async fn activity(&self, world: &Arc<World>, token: String, request: ActivityRequest) {
        let call = request.input.as_deref().and_then(|input| serde_json::from_str::<Call>(input).ok());
        let Some(Call { key, job }) = call else {
            return world.journal.complain(format!("an activity makes no sense: {request:?}"));
        };
        world.note(&[26, u64::from(self.owner.0)], || format!("worker {} begins {key}", self.owner.0));
        world.begins(&key, self.owner);
        if let Some(after) = job.kills {
            return self.killed_by(world, (key, after)).await;
        }
        world.sleep(Duration::from_millis(job.ms)).await;
        let instance_id = request.orchestration_instance.map(|of| of.instance_id).unwrap_or_default();
        let response = ActivityResponse {
            instance_id,
            task_id: request.task_id,
            result: Some(code::result(&key)),
            completion_token: if self.species == Species::Bare { String::new() } else { token.clone() },
            ..ActivityResponse::default()
        };
        let most = if self.species == Species::Own { u32::MAX } else { 1 };
        let mut attempt = 0;
        while attempt < most {
            let reached = self.reach(world, true);
            if let Some((server, _)) = &reached
                && let Ok(true) = server.complete_activity(world, response.clone()).await
            {
                world.note(&[27, u64::from(self.owner.0)], || format!("the answer of {key} is taken"));
                world.check_taken(&key);
                break;
            }
            attempt += 1;
            if attempt == most {
                self.disconnect(world, reached.and_then(|(_, stream)| stream));
            }
            self.pause(world, attempt).await;
        }
        unpoisoned(&self.executing).remove(&token);
        world.journal.notes().is_over(&key, self.owner, attempt < most);
    }
}
