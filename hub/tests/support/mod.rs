//! A hub in virtual time: tokio's paused clock drives hosts and store alike, so that hours pass in no time.
#![allow(dead_code)] // Each test file uses its own part.
#![allow(clippy::unwrap_used)] // A test that cannot be set up has failed.

mod elsewhere;
mod env;
mod tap;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::oneshot;
use futures::future::{BoxFuture, FutureExt};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use dauer_core::model::{Queues, Record};
use dauer_core::send::StartRequest;
use dauer_core::turn::{Answer, Stalled};
use dauer_core::{HostId, HubName, InstanceId};
use dauer_faults::{Call, Faulty, HintFate, wrap_hub};
use dauer_hub::{
    ActivityDone, ActivityEnd, ActivityWork, Client, Executor, Host, HostOptions, Past, TurnDone, TurnWork,
    Unfinished,
};
use dauer_memory::MemoryStore;

pub(crate) use dauer_faults::{Act, Fate, Op};
use dauer_proto::{EventType, HistoryEvent, OrchestrationStatus, TaskFailureDetails, action};
use dauer_store::{Amount, ClaimedTurn, Credit, Hint, Manage, Reuse, SessionId, TaskLease, Until, Work};

use elsewhere::Elsewhere;
use env::{TestEnv, VirtualClock};
use tap::Tap;

/// A deadline in virtual time that only a broken test reaches.
pub(crate) const SOON: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// Lets so much virtual time pass.
pub(crate) async fn pass(seconds: u64) {
    let time = Duration::from_secs(seconds);
    tokio::time::timeout(time, futures::future::pending::<()>()).await.unwrap_err();
}

/// A session that no host has.
pub(crate) async fn raw(world: &World, number: u128) -> Arc<dyn Work> {
    let id = HostId::new(format!("raw-{number}")).unwrap();
    let host = dauer_store::Host { id, session: SessionId(number), lease: HOUR, runs_code: true };
    world.hub.attach(host).await.unwrap()
}

/// Wins at most `count` turns that are ready, and gives the credit back.
pub(crate) async fn win_turns(work: &dyn Work, count: usize) -> Vec<ClaimedTurn> {
    work.credit(Credit { turns: Amount::items(count), ..Credit::default() });
    let won = work.next(Until::Once).await.unwrap().turns;
    work.credit(Credit::default());
    won
}

/// Wins at most `count` tasks that are ready, and gives the credit back.
pub(crate) async fn win_tasks(work: &dyn Work, count: usize) -> Vec<TaskLease> {
    work.credit(Credit { tasks: Amount::items(count), ..Credit::default() });
    let won = work.next(Until::Once).await.unwrap().tasks;
    work.credit(Credit::default());
    won
}

/// Counts calls and gives each operation the faults that a test asks for.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) calls: Mutex<BTreeMap<Op, u32>>,
    pub(crate) faults: Mutex<BTreeMap<Op, VecDeque<Fate>>>,
    pub(crate) always: Mutex<BTreeMap<Op, Fate>>,
    pub(crate) no_hints: bool,
}

impl Plan {
    pub(crate) fn count(&self, op: Op) -> u32 {
        self.calls.lock().unwrap().get(&op).copied().unwrap_or_default()
    }

    /// What happens to the next calls of that operation, one after the other.
    pub(crate) fn then(&self, op: Op, fates: impl IntoIterator<Item = Fate>) {
        self.faults.lock().unwrap().entry(op).or_default().extend(fates);
    }
}

impl dauer_faults::Plan for Plan {
    fn fate(&self, call: &Call) -> Fate {
        let op = call.op();
        *self.calls.lock().unwrap().entry(op).or_default() += 1;
        let planned = self.faults.lock().unwrap().get_mut(&op).and_then(VecDeque::pop_front);
        planned.or_else(|| self.always.lock().unwrap().get(&op).copied()).unwrap_or_default()
    }

    fn hint(&self, _hint: &Hint) -> HintFate {
        if self.no_hints { HintFate::Lose } else { HintFate::Pass }
    }
}

/// How many are running, and the most that ever were.
#[derive(Default)]
pub(crate) struct Peak(Mutex<(usize, usize)>);

impl Peak {
    fn enter(&self) {
        let mut counts = self.0.lock().unwrap();
        counts.0 += 1;
        counts.1 = counts.1.max(counts.0);
    }

    fn leave(&self) {
        self.0.lock().unwrap().0 -= 1;
    }

    pub(crate) fn most(&self) -> usize {
        self.0.lock().unwrap().1
    }
}

/// What a test does with a turn or an activity.
type OnTurn = dyn Fn(&Record) -> Result<(), Stalled> + Send + Sync;
type OnActivity =
    dyn Fn(TaskLease) -> BoxFuture<'static, Result<Option<String>, TaskFailureDetails>> + Send + Sync;

type Deadly = dyn Fn(&Record) -> bool + Send + Sync;

type OnWork = dyn Fn(ActivityWork) -> BoxFuture<'static, ActivityDone> + Send + Sync;

/// An executor whose orchestration calls as many activities, one after the other, as its input says.
pub(crate) struct Chain {
    /// Turns beside each other.
    pub(crate) peak: Arc<Peak>,
    turn_time: Duration,
    fuses: bool,
    on_turn: Box<OnTurn>,
    on_activity: Box<OnActivity>,
    /// Whether a turn kills its process, and so comes to no end.
    deadly: Box<Deadly>,
    /// Instead of the one before, for tests that look at the signal.
    on_work: Option<Box<OnWork>>,
}

impl Chain {
    pub(crate) fn new() -> Self {
        Self {
            peak: Arc::default(),
            turn_time: Duration::ZERO,
            fuses: false,
            on_turn: Box::new(|_| Ok(())),
            on_activity: Box::new(|_| async { Ok(Some("1".into())) }.boxed()),
            deadly: Box::new(|_| false),
            on_work: None,
        }
    }

    /// Every turn takes that long, so that turns can be seen beside each other.
    pub(crate) fn slow_turns(self, turn_time: Duration) -> Self {
        Self { turn_time, ..self }
    }

    /// Results go into the turns they are for.
    pub(crate) fn fusing(self) -> Self {
        Self { fuses: true, ..self }
    }

    /// Asked before each turn.
    pub(crate) fn on_turn(
        self,
        on_turn: impl Fn(&Record) -> Result<(), Stalled> + Send + Sync + 'static,
    ) -> Self {
        Self { on_turn: Box::new(on_turn), ..self }
    }

    /// Called for each activity.
    pub(crate) fn on_activity(
        self,
        on_activity: impl Fn(TaskLease) -> BoxFuture<'static, Result<Option<String>, TaskFailureDetails>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        Self { on_activity: Box::new(on_activity), ..self }
    }
}

impl Chain {
    /// Turns that kill their process, which the test does.
    pub(crate) fn deadly(self, deadly: impl Fn(&Record) -> bool + Send + Sync + 'static) -> Self {
        Self { deadly: Box::new(deadly), ..self }
    }

    /// Called for each activity, with its signal.
    pub(crate) fn on_work(
        self,
        on_work: impl Fn(ActivityWork) -> BoxFuture<'static, ActivityDone> + Send + Sync + 'static,
    ) -> Self {
        Self { on_work: Some(Box::new(on_work)), ..self }
    }
}

#[async_trait]
impl Executor for Chain {
    fn queues(&self) -> Queues {
        Queues::default()
    }

    fn fuses(&self) -> bool {
        self.fuses
    }

    async fn turn(&self, work: TurnWork) -> Result<TurnDone, Unfinished> {
        if (self.deadly)(&work.record) {
            futures::future::pending::<()>().await;
        }
        self.peak.enter();
        if !self.turn_time.is_zero() {
            tokio::time::timeout(self.turn_time, futures::future::pending::<()>()).await.unwrap_err();
        }
        self.peak.leave();
        (self.on_turn)(&work.record)?;
        let Past::History(past) = work.past else { unreachable!("this executor keeps nothing alive") };
        let all = || past.iter().chain(&*work.new);
        let steps: i32 = all().find_map(input).unwrap().parse().unwrap();
        let done = i32::try_from(all().filter(|event| is_answer(event)).count()).unwrap();
        let failed = all().find_map(failure);
        // A message that is no answer, an event say, finds the task scheduled already.
        let waits = all().any(|event| is_schedule(event, done));
        let next = match failed {
            _ if work.new.iter().any(is_termination) => {
                Some(action::complete(done, OrchestrationStatus::Terminated, None, None))
            }
            Some(failure) => Some(action::complete(done, OrchestrationStatus::Failed, None, Some(failure))),
            None if waits => None,
            None if done < steps => Some(action::schedule_task(done, "step", None)),
            None => {
                let output = Some(done.to_string());
                Some(action::complete(done, OrchestrationStatus::Completed, output, None))
            }
        };
        let answer = Answer { actions: next.into_iter().collect(), ..Answer::default() };
        Ok(TurnDone { answer, live: None, past, receipt: None, build: None })
    }

    async fn activity(&self, work: ActivityWork) -> ActivityEnd {
        let done: ActivityDone = match &self.on_work {
            Some(on_work) => on_work(work).await,
            None => (self.on_activity)(work.lease).await.into(),
        };
        done.into()
    }
}

fn input(event: &HistoryEvent) -> Option<String> {
    match &event.event_type {
        Some(EventType::ExecutionStarted(started)) => started.input.clone(),
        _ => None,
    }
}

fn is_schedule(event: &HistoryEvent, id: i32) -> bool {
    matches!(event.event_type, Some(EventType::TaskScheduled(_))) && event.event_id == id
}

fn is_termination(event: &HistoryEvent) -> bool {
    matches!(event.event_type, Some(EventType::ExecutionTerminated(_)))
}

fn is_answer(event: &HistoryEvent) -> bool {
    dauer_proto::event::answers(event).is_some()
}

fn failure(event: &HistoryEvent) -> Option<TaskFailureDetails> {
    match &event.event_type {
        Some(EventType::TaskFailed(failed)) => failed.failure_details.clone(),
        _ => None,
    }
}

/// A store with one hub.
pub(crate) struct World {
    pub(crate) store: MemoryStore,
    /// With the faults of the plan.
    pub(crate) hub: Arc<dyn Manage>,
    pub(crate) client: Client,
    pub(crate) client_env: Arc<TestEnv>,
    pub(crate) plan: Arc<Plan>,
    /// On all sessions of hosts.
    pub(crate) tap: Arc<Tap>,
    clock: Arc<VirtualClock>,
    seed: AtomicU64,
}

/// A host that runs until it is killed.
pub(crate) struct Running {
    pub(crate) env: Arc<TestEnv>,
    pub(crate) id: HostId,
    stop: Mutex<Option<oneshot::Sender<()>>>,
    life: JoinHandle<()>,
}

impl Running {
    pub(crate) fn kill(&self) {
        self.life.abort();
        self.env.kill();
    }

    /// Asks the host to finish what it has, and waits until it has left.
    pub(crate) async fn stop(self) {
        let stop = self.stop.lock().unwrap().take();
        let _ = stop.unwrap().send(());
        self.life.await.unwrap();
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(Plan::default())
    }

    pub(crate) fn with(plan: Plan) -> Self {
        let clock = Arc::new(VirtualClock(Instant::now()));
        let store = MemoryStore::new(clock.clone());
        let plan = Arc::new(plan);
        let faults = Faulty::new(plan.clone()).with_env(Arc::new(TestEnv::new(clock.clone(), 3)));
        let hub = wrap_hub(store.hub(HubName::default()), Arc::new(faults));
        let env = Arc::new(TestEnv::new(clock.clone(), 1));
        let client = Client::new(hub.clone(), env.clone());
        let tap = Arc::default();
        Self { store, hub, client, client_env: env, plan, tap, clock, seed: AtomicU64::new(1_000) }
    }

    pub(crate) fn host(&self, executor: impl Executor, options: HostOptions) -> Running {
        self.host_in(|env| env, executor, options)
    }

    /// A host that has one thread, and knows it.
    pub(crate) fn host_of_one_thread(&self, executor: Chain) -> Running {
        self.host_in(TestEnv::of_one_thread, executor, HostOptions::default())
    }

    fn host_in(&self, env: fn(TestEnv) -> TestEnv, executor: impl Executor, options: HostOptions) -> Running {
        let seed = self.seed.fetch_add(1_000, Ordering::Relaxed);
        let id = HostId::new(format!("host-{seed}")).unwrap();
        let env = Arc::new(env(TestEnv::new(self.clock.clone(), seed)));
        let hub = wrap_hub(self.hub.clone(), self.tap.clone());
        let host = Host::new(hub, env.clone(), Arc::new(executor), id.clone()).options(options);
        let (stop, stopped) = oneshot::channel::<()>();
        let told = async move {
            if stopped.await.is_err() {
                futures::future::pending::<()>().await;
            }
        };
        let life = tokio::spawn(async move { host.run(told).await.unwrap() });
        Running { env, id, stop: Mutex::new(Some(stop)), life }
    }

    /// Starts a chain of so many activities.
    pub(crate) async fn start(&self, name: &str, steps: u32) -> InstanceId {
        let id = InstanceId::new(name).unwrap();
        let request =
            StartRequest { input: Some(steps.to_string()), ..StartRequest::new(id.clone(), "chain") };
        self.client.start(request, Reuse::default()).await.unwrap();
        id
    }

    /// A client of the same hub who learns only that somebody has written.
    pub(crate) fn client_elsewhere(&self) -> Client {
        let env = Arc::new(TestEnv::new(self.clock.clone(), 2));
        Client::new(wrap_hub(self.hub.clone(), Arc::new(Elsewhere)), env)
    }

    pub(crate) async fn ended(&self, id: &InstanceId) -> Record {
        self.client.wait_ended(id, SOON).await.unwrap()
    }

    pub(crate) async fn until(&self, id: &InstanceId, condition: impl Fn(&Record) -> bool) -> Record {
        self.client.wait(id, SOON, condition).await.unwrap()
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.0.elapsed()
    }
}

impl World {
    /// Starts an instance that the test's executor recognises by its tag.
    pub(crate) async fn start_bad(&self, name: &str) -> InstanceId {
        let id = InstanceId::new(name).unwrap();
        let tags = [("bad".to_owned(), "yes".to_owned())].into();
        let request =
            StartRequest { input: Some("1".into()), tags, ..StartRequest::new(id.clone(), "chain") };
        self.client.start(request, Reuse::default()).await.unwrap();
        id
    }

    /// How many messages the store dropped for that reason.
    pub(crate) async fn dropped(&self, reason: dauer_store::DropReason) -> u64 {
        let dump = self.hub.dump(None).await.unwrap();
        let count = |item| match item {
            dauer_store::DumpItem::Dropped(found, count) if found == reason => Some(count),
            _ => None,
        };
        dump.items.into_iter().filter_map(count).sum()
    }

    /// The instance as it lies in the store.
    pub(crate) async fn instance(&self, id: &InstanceId) -> dauer_store::InstanceDump {
        let dump = self.hub.dump(None).await.unwrap();
        let found = dump.items.into_iter().find_map(|item| match item {
            dauer_store::DumpItem::Instance(instance) if instance.id == *id => Some(*instance),
            _ => None,
        });
        found.unwrap()
    }

    /// A task of the instance as it lies in the store.
    pub(crate) async fn task(&self, id: &InstanceId) -> dauer_store::TaskDump {
        let mut after = None;
        loop {
            let dump = self.hub.dump(after).await.unwrap();
            let found = dump.items.into_iter().find_map(|item| match item {
                dauer_store::DumpItem::Task(task) if task.task.instance == *id => Some(*task),
                _ => None,
            });
            if let Some(task) = found {
                return task;
            }
            after = Some(dump.next.unwrap());
        }
    }

    /// The sessions that the store knows.
    pub(crate) async fn sessions(&self) -> Vec<dauer_core::SessionId> {
        let dump = self.hub.dump(None).await.unwrap();
        let session = |item| match item {
            dauer_store::DumpItem::Session(session) => Some(session.id),
            _ => None,
        };
        dump.items.into_iter().filter_map(session).collect()
    }
}
