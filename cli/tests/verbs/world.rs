//! A store with an instance in every state, and a worker for it.

use std::ops::ControlFlow;
use std::process::Output;
use std::sync::OnceLock;
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, Client, Event, HostOptions, Hub, InstanceId, Orchestration,
    OrchestrationContext, RawClientError, Record, Result, RetryPolicy, Timestamp, WorkerBuilder,
};
use dauer_core::model::{Trouble, TroubleKind};
use dauer_core::{HostId, SessionId};
use dauer_store::{Amount, Credit, Host, Item, Release, Until};
use futures::FutureExt;
use futures::channel::oneshot;
use serde_json::Value;
use tokio::task::JoinHandle;

use crate::support::{Folder, SOON, block_on, dauer, stderr, stdout};

pub(crate) const GREET: Activity<String, String> = Activity::new("greet");
/// Fails always.
const FAIL: Activity<u32, u32> = Activity::new("fail");
/// Does nothing until its worker stops.
const HANG: Activity<u32, u32> = Activity::new("hang");
/// No worker of these tests has this one.
const NEVER: Activity<u32, u32> = Activity::new("never");
pub(crate) const GO: Event<u32> = Event::new("go");

const HELLO: Orchestration<String, String> = Orchestration::new("hello");
const BROKEN: Orchestration<u32, u32> = Orchestration::new("broken");
const EVENT: Orchestration<u32, u32> = Orchestration::new("event");
const SLEEP: Orchestration<u32, u32> = Orchestration::new("sleep");
const TASK: Orchestration<u32, u32> = Orchestration::new("task");
/// Tries what fails again after an hour.
const RETRY: Orchestration<u32, u32> = Orchestration::new("retry");
const LONG: Orchestration<u32, u32> = Orchestration::new("long");
/// Continues as new as often as its input says.
const COUNT: Orchestration<u32, u32> = Orchestration::new("count");
const PARENT: Orchestration<u32, u32> = Orchestration::new("parent");
/// Calls a child that no worker knows, under the id `done`.
const CLAIM: Orchestration<u32, u32> = Orchestration::new("claim");
/// The worker has the name, but not the version.
const UNKNOWN_VERSION: Orchestration<u32, u32> = EVENT.version("9");
/// No worker of these tests has this one.
const ABSENT: Orchestration<u32, u32> = Orchestration::new("absent");

async fn hello(ctx: OrchestrationContext, name: String) -> Result<String> {
    ctx.set_status(&"greets");
    Ok(ctx.call(GREET, &name).await?)
}

async fn broken(_: OrchestrationContext, _: u32) -> Result<u32> {
    Ok("no number".parse::<u32>()?)
}

/// Has done something before it waits, so that not all that its history asks for is open.
async fn event(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    ctx.call(GREET, &n.to_string()).await?;
    Ok(ctx.event(GO).await? + n)
}

async fn sleep(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    ctx.sleep(Duration::from_secs(60 * 60)).await;
    Ok(n)
}

async fn task(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(ctx.call(NEVER, &n).await?)
}

async fn retry(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(ctx.call(FAIL, &n).retry(RetryPolicy::fixed(3, Duration::from_secs(60 * 60))).await?)
}

async fn long(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(ctx.call(HANG, &n).await?)
}

async fn count(_: OrchestrationContext, n: u32) -> Result<ControlFlow<u32, u32>> {
    Ok(if n == 0 { ControlFlow::Break(7) } else { ControlFlow::Continue(n - 1) })
}

async fn parent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(ctx.call_orchestration(EVENT, &n).await?)
}

async fn claim(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(ctx.call_orchestration(ABSENT, &n).instance(&InstanceId::new("done")?).await?)
}

fn code(worker: WorkerBuilder) -> WorkerBuilder {
    let (retry_delay_min, retry_delay_max) = (Duration::from_millis(1), Duration::from_millis(5));
    worker
        .orchestration(HELLO, hello)
        .orchestration(BROKEN, broken)
        .orchestration(EVENT, event)
        .orchestration(SLEEP, sleep)
        .orchestration(TASK, task)
        .orchestration(COUNT, count)
        .orchestration(PARENT, parent)
        .orchestration(RETRY, retry)
        .orchestration(LONG, long)
        .orchestration(CLAIM, claim)
        .activity(FAIL, |_: ActivityContext, _: u32| async move { Ok("no number".parse()?) })
        .activity(HANG, |ctx: ActivityContext, n: u32| async move {
            ctx.cancelled().await;
            Ok(n)
        })
        .activity(GREET, |_: ActivityContext, name: String| async move { Ok(format!("Hello, {name}!")) })
        .options(HostOptions {
            retry_delay_min,
            retry_delay_max,
            poll_max: retry_delay_max,
            ..HostOptions::default()
        })
}

/// A worker in this process, until it is stopped.
pub(crate) struct Live {
    runtime: tokio::runtime::Runtime,
    pub(crate) hub: Hub,
    stop: oneshot::Sender<()>,
    running: JoinHandle<std::result::Result<(), dauer::Refused>>,
}

impl Live {
    pub(crate) fn on(folder: &Folder) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_time().build().unwrap();
        let (hub, stop, running) = {
            let _entered = runtime.enter();
            let hub = dauer::open(&folder.url()).unwrap();
            let (stop, stopped) = oneshot::channel::<()>();
            let worker = code(hub.worker()).build().unwrap();
            (hub, stop, tokio::spawn(worker.run(stopped.map(|_| ()))))
        };
        let live = Self { runtime, hub, stop, running };
        live.wait_for_the_worker();
        live
    }

    /// Waits until the worker has a session. The hub exists then.
    fn wait_for_the_worker(&self) {
        let deadline = std::time::Instant::now() + SOON;
        while self.runtime.block_on(self.hub.client().raw().sessions()).unwrap().is_empty() {
            assert!(std::time::Instant::now() < deadline, "the worker did not come");
            std::thread::yield_now();
        }
    }

    /// Waits until the record of an instance is so.
    pub(crate) fn wait(&self, id: &str, condition: impl Fn(&Record) -> bool) -> Record {
        let id = InstanceId::new(id).unwrap();
        let deadline = std::time::Instant::now() + SOON;
        loop {
            match self.runtime.block_on(self.hub.client().raw().wait(&id, SOON, &condition)) {
                // A wait for an absent instance fails at once: ask again until it exists.
                Err(RawClientError::Absent(_)) if std::time::Instant::now() < deadline => {
                    std::thread::yield_now()
                }
                waited => return waited.unwrap(),
            }
        }
    }

    pub(crate) fn start_hello(&self, id: &str) {
        let start = async { self.hub.client().start(HELLO, &"many".to_owned()).id(id).await.map(|_| ()) };
        self.runtime.block_on(start).unwrap();
    }

    pub(crate) fn stop(self) {
        drop(self.stop);
        self.runtime.block_on(async {
            self.running.await.unwrap().unwrap();
            self.hub.close().await;
        });
    }
}

/// Events of the orchestration `event` until its activity is answered; with one more it waits for the event.
pub(crate) const SETTLED: u32 = 4;

/// What each id of [`filled`] is there for, in the order in which they were created.
pub(crate) const IDS: [&str; 12] = [
    "done", "broken", "event", "sleep", "task", "parent", "child", "paused", "killed", "stalled", "later",
    "pending",
];

/// A folder with a store at rest: an instance in every state, and nobody at work.
pub(crate) fn filled(name: &str) -> Folder {
    // The file, and its log: two connections that are closed at the same moment leave it to each other to empty it.
    type Copied = (&'static str, Option<Vec<u8>>);
    static FILES: OnceLock<[Copied; 2]> = OnceLock::new();
    let files = FILES.get_or_init(|| {
        let folder = Folder::new(&format!("{name}-first"));
        fill(&folder);
        ["dauer.db", "dauer.db-wal"].map(|file| (file, std::fs::read(folder.0.join(file)).ok()))
    });
    let folder = Folder::new(name);
    for (file, bytes) in files {
        if let Some(bytes) = bytes {
            std::fs::write(folder.0.join(file), bytes).unwrap();
        }
    }
    folder
}

fn fill(folder: &Folder) {
    let live = Live::on(folder);
    let client = live.hub.client();
    let start = |orchestration: Orchestration<u32, u32>, id: &str| {
        live.runtime.block_on(async { client.start(orchestration, &1).id(id).await.unwrap() });
    };
    live.runtime.block_on(async {
        let call =
            client.start(HELLO, &"world".to_owned()).id("done").tag("zone", "north").tag("size", "small");
        call.await.unwrap();
    });
    let ended = |record: &Record| record.status.is_ended();
    live.wait("done", ended);
    start(BROKEN, "broken");
    live.wait("broken", ended);
    for (orchestration, id) in [(EVENT, "event"), (SLEEP, "sleep"), (TASK, "task")] {
        start(orchestration, id);
        live.wait(id, |record| record.history_len > if id == "event" { SETTLED } else { 1 });
    }
    // Its child is created in a later millisecond than itself: lists are in the order of creation.
    let later = ahead(Duration::from_millis(2));
    live.runtime.block_on(async { client.start(PARENT, &1).id("parent").at(later).await.unwrap() });
    live.wait("parent", |record| record.history_len > 1);
    live.runtime.block_on(child_begins(&client, &live.hub));
    for id in ["paused", "killed"] {
        start(SLEEP, id);
        live.wait(id, |record| record.history_len > 2);
    }
    let tell = |id: &str| client.handle(SLEEP, id).unwrap();
    live.runtime.block_on(tell("paused").suspend("for the test")).unwrap();
    live.wait("paused", |record| record.status == dauer::Status::Suspended);
    live.runtime.block_on(tell("killed").terminate("for the test")).unwrap();
    live.wait("killed", ended);
    start(UNKNOWN_VERSION, "stalled");
    live.wait("stalled", |record| record.attempts > 1);
    let later = ahead(Duration::from_secs(60 * 60));
    live.runtime.block_on(async { client.start(SLEEP, &1).id("later").at(later).await.unwrap() });
    start(ABSENT, "pending");
    live.stop();
}

fn ahead(of_now: Duration) -> Timestamp {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from(now.as_millis()).unwrap()).after(of_now)
}

async fn child_begins(client: &Client, hub: &Hub) {
    let find = async {
        loop {
            let page = hub.manage().query(dauer_store::Query::default()).await.unwrap();
            let child = page.records.into_iter().find(|(_, record)| record.parent.is_some());
            match child {
                Some((id, _)) => break id,
                None => tokio::task::yield_now().await,
            }
        }
    };
    let id = tokio::time::timeout(SOON, find).await.unwrap();
    client.raw().wait(&id, SOON, |record| record.history_len > SETTLED).await.unwrap();
}

/// The id of the child in a filled store.
pub(crate) fn child(folder: &Folder) -> String {
    let output = succeeds(&["list", "--parent", "parent", "-o", "json"], folder);
    json(&output)["instances"][0]["id"].as_str().unwrap().to_owned()
}

/// Runs a command that must succeed; what it printed.
pub(crate) fn succeeds(arguments: &[&str], folder: &Folder) -> String {
    let output = dauer(arguments, folder);
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), ""), "{arguments:?}: {}", stdout(&output));
    stdout(&output).to_owned()
}

/// Runs a command that must fail with this exit code; what it complained of.
pub(crate) fn fails(arguments: &[&str], folder: &Folder, code: i32) -> String {
    complaint(&dauer(arguments, folder), code, arguments)
}

pub(crate) fn complaint(output: &Output, code: i32, arguments: &[&str]) -> String {
    let text = stderr(output);
    assert_eq!((output.status.code(), stdout(output)), (Some(code), ""), "{arguments:?}: {text}");
    assert!(text.starts_with("error: "), "{arguments:?}: {text}");
    // Those of clap end with how to use it.
    assert!(text.contains("\nhint: ") || text.contains("--help"), "{arguments:?}: {text}");
    text.to_owned()
}

pub(crate) fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The record of an instance.
pub(crate) fn record(folder: &Folder, id: &str) -> Option<Record> {
    block_on(async {
        let hub = dauer::open_existing(&folder.url()).unwrap();
        let record = hub.client().raw().get(&InstanceId::new(id).unwrap()).await.unwrap();
        hub.close().await;
        record
    })
}

/// Stalls an instance whose turn is ready, for an hour.
pub(crate) async fn stall(folder: &Folder, id: &str, kind: TroubleKind) {
    let hour = Duration::from_secs(3_600);
    let hub = dauer::open_existing(&folder.url()).unwrap();
    let (host, session) = (HostId::new("tester").unwrap(), SessionId(7));
    let host = Host { id: host, session, lease: hour, runs_code: true };
    let session = hub.manage().attach(host).await.unwrap();
    session.credit(Credit { number: 1, turns: Amount::items(100), ..Credit::default() });
    for turn in session.next(Until::Once).await.unwrap().turns {
        let stalls = turn.fence.instance.as_str() == id;
        let trouble = stalls.then(|| Trouble::new(kind, "it failed", Timestamp(1_700_000_000_000)));
        let delay = if stalls { hour } else { Duration::ZERO };
        let release = Release { item: Item::Turn(turn.fence), delay, trouble, failed: stalls };
        session.release(vec![release]).await.remove(0).unwrap();
    }
    session.detach().await.unwrap();
    hub.close().await;
}

/// The text with everything replaced that differs from run to run: times and execution ids.
pub(crate) fn steady(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let hex = rest.bytes().take_while(u8::is_ascii_hexdigit).count();
        let time = rest.bytes().take_while(|byte| byte.is_ascii_digit() || b"-:.TZ".contains(byte)).count();
        let (mark, length) = match (hex, time) {
            (32, _) => ("X", 32),
            (_, 20..=30) if rest.as_bytes()[4] == b'-' => ("T", time),
            _ => ("", first.len_utf8()),
        };
        shown.push_str(if mark.is_empty() { &rest[..length] } else { mark });
        rest = &rest[length..];
    }
    shown
}

/// The lines of `dauer get`, by their labels.
pub(crate) fn line<'t>(text: &'t str, label: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(&format!("{label:<14} ")))
}
