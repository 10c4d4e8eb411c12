//! Servers that are away, go away and come back; workers that stop in the middle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, ClientError, Orchestration, OrchestrationContext, RawClientError, RemoteError,
};
use dauer::{HostOptions, Store};
use tokio::sync::watch;

use crate::code::{ASKS, GO, worker};
use crate::support::{SOON, Served, Working, eventually};

const SLOW: Activity<u32, u32> = Activity::new("slow");
const CALLS: Orchestration<u32, u32> = Orchestration::new("calls");

/// An activity that takes as long as a test likes, and how often it ran.
struct Slow {
    begun: AtomicU32,
    open: watch::Sender<bool>,
}

impl Slow {
    fn new() -> Arc<Self> {
        Arc::new(Self { begun: AtomicU32::new(0), open: watch::channel(false).0 })
    }

    fn worker(self: &Arc<Self>, hub: &dauer::Hub) -> dauer::WorkerBuilder {
        let slow = Arc::clone(self);
        let run = move |_: ActivityContext, n: u32| {
            slow.begun.fetch_add(1, Ordering::SeqCst);
            let mut open = slow.open.subscribe();
            async move {
                open.wait_for(|open| *open).await?;
                Ok(n + 1)
            }
        };
        let calls = |ctx: OrchestrationContext, n: u32| async move { Ok(ctx.call(SLOW, &n).await?) };
        hub.worker().orchestration(CALLS, calls).activity(SLOW, run)
    }

    async fn has_begun(&self, times: u32) {
        eventually(async || (self.begun.load(Ordering::SeqCst) >= times).then_some(())).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_named() {
    let served = Served::new().await;
    let (hub, url) = (served.hub(), served.url());
    served.stop().await;
    let error = hub.client().get(&dauer::InstanceId::new("x").unwrap()).await.unwrap_err();
    let ClientError::Client(RawClientError::Remote(RemoteError::Unreachable { address, source })) = &error
    else {
        panic!("{error:?}")
    };
    assert_eq!(*address, url);
    assert!(!source.to_string().is_empty() && error.to_string().contains("dauer serve"), "{error}: {source}");
}

/// Behaviour 5 is about a worker that gives up; this one does not.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_waits_for_a_server_that_comes_later() {
    let first = Served::new().await;
    let (address, store) = (first.address, first.store.clone());
    first.stop().await;
    let hub = dauer::connect(&format!("http://{address}")).unwrap();
    let working = Working::start(worker(&hub));
    let served = Served::on(store, address, |_| {}).await;
    let asks = served.hub().client().start(ASKS, &0).await.unwrap();
    asks.raise(GO, &"now".to_owned()).await.unwrap();
    assert_eq!(asks.output_within(SOON).await.unwrap(), "now");
    working.stop().await;
    served.stop().await;
}

/// What runs while the server is away is answered to the one that comes back; where that one knows nothing of it, it is
/// done again. Either way the instance ends, and the wait for it, which was there all the time, is answered.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_restarts_loses_nothing() {
    let served = Served::with(|options| options.host.drain_max = Duration::from_millis(50)).await;
    let (address, store) = (served.address, served.store.clone());
    let (hub, slow) = (served.hub(), Slow::new());
    let working = Working::start(slow.worker(&hub));
    let calls = hub.client().start(CALLS, &1).id("calls").await.unwrap();
    slow.has_begun(1).await;
    let waiting = tokio::spawn(async move { calls.output_within(SOON).await });
    served.stop().await;
    let served = Served::on(store, address, |_| {}).await;
    slow.open.send_replace(true);
    assert_eq!(waiting.await.unwrap().unwrap(), 2);
    working.stop().await;
    served.stop().await;
}

/// A worker that stops finishes what it has begun, and nobody else gets it meanwhile, however long it takes.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_finishes_what_it_has_begun() {
    let short = Duration::from_millis(20);
    let served = Served::with(|options| options.workers.reconnect_grace = short).await;
    let (hub, slow) = (served.hub(), Slow::new());
    let options = HostOptions { drain_max: SOON, ..HostOptions::default() };
    let working = Working::start(slow.worker(&hub).options(options));
    let calls = hub.client().start(CALLS, &1).id("calls").await.unwrap();
    slow.has_begun(1).await;
    let other = Slow::new();
    let replacement = Working::start(other.worker(&hub));
    let stopping = tokio::spawn(working.stop());
    // A call that comes while the first worker drains is for the other one.
    let later = hub.client().start(CALLS, &5).id("later").await.unwrap();
    other.has_begun(1).await;
    other.open.send_replace(true);
    assert_eq!(later.output_within(SOON).await.unwrap(), 6);
    slow.open.send_replace(true);
    assert_eq!(calls.output_within(SOON).await.unwrap(), 2);
    stopping.await.unwrap();
    assert_eq!((slow.begun.load(Ordering::SeqCst), other.begun.load(Ordering::SeqCst)), (1, 1));
    replacement.stop().await;
    served.stop().await;
}

/// After its time is over a worker goes, and what it had is done by somebody else.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_cannot_finish_leaves_it_to_others() {
    let short = Duration::from_millis(20);
    let served = Served::with(|options| options.workers.reconnect_grace = short).await;
    let (hub, slow) = (served.hub(), Slow::new());
    let options = HostOptions { drain_max: short, ..HostOptions::default() };
    let working = Working::start(slow.worker(&hub).options(options));
    let calls = hub.client().start(CALLS, &1).id("calls").await.unwrap();
    slow.has_begun(1).await;
    working.stop().await;
    let other = Slow::new();
    other.open.send_replace(true);
    let replacement = Working::start(other.worker(&hub));
    assert_eq!(calls.output_within(SOON).await.unwrap(), 2);
    replacement.stop().await;
    served.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_are_none_are_refused() {
    for url in
        ["127.0.0.1:4001", "ftp://here:1", "http://", "http://here:1/path", "http://here:1?hub=x", "nonsense"]
    {
        let refused = dauer::connect(url).map(drop).unwrap_err();
        assert!(matches!(refused, dauer::OpenError::Address { .. }), "{url}: {refused}");
        assert!(refused.to_string().contains(url), "{refused}");
    }
    let option = dauer::connect("http://here:1?tub=x").map(drop).unwrap_err();
    assert!(matches!(option, dauer::OpenError::UnknownOption { .. }), "{option}");
    assert!(Store::open("http://here:1").is_err(), "a server is no store");
    assert!(dauer::open("http://here:1").unwrap().is_remote());
}

/// The worker of another build that connects has what the first one stalled retried.
#[tokio::test(flavor = "multi_thread")]
async fn worker_of_another_build_has_stalled_instances_retried() {
    const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
    let hour = Duration::from_secs(3_600);
    let served = Served::with(|options| {
        options.host = HostOptions { retry_delay_min: hour, stalled_delay_max: hour, ..options.host.clone() };
    })
    .await;
    let hub = served.hub();
    let panics = |ctx: OrchestrationContext, n: u32| async move {
        assert!(ctx.now().0 < 0, "no luck with {n}");
        Ok(n)
    };
    let old = Working::start(hub.worker().orchestration(ORDER, panics).build_id("old"));
    let order = hub.client().start(ORDER, &5).await.unwrap();
    let stalled = eventually(async || {
        let seen = hub.client().raw().inspect(order.id()).await.unwrap();
        seen.and_then(|seen| seen.record.trouble)
    })
    .await;
    assert_eq!(stalled.build.as_deref(), Some("old"));
    old.stop().await;
    let succeeds = |_: OrchestrationContext, n: u32| async move { Ok(n) };
    let new = Working::start(hub.worker().orchestration(ORDER, succeeds).build_id("new"));
    assert_eq!(order.output_within(SOON).await.unwrap(), 5);
    new.stop().await;
    served.stop().await;
}
