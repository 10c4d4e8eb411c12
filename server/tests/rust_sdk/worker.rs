//! Workers over a server: what is kept between turns, filters, large answers and histories.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use dauer::{ActivityContext, HostOptions, Orchestration, OrchestrationContext, Status};

use crate::code::{self, ADD, ASKS, CHAIN, Counts, FAMILY, GO, WIDE, worker};
use crate::support::{SOON, Served, Working, eventually};

/// How often the code of one chain is begun by a worker with these settings.
async fn beginnings(change: impl FnOnce(dauer::WorkerBuilder) -> dauer::WorkerBuilder) -> u32 {
    let served = Served::new().await;
    let (hub, counts) = (served.hub(), Arc::new(Counts::default()));
    let working = Working::start(change(code::register(hub.worker(), &counts)));
    let chain = hub.client().start(CHAIN, &1).await.unwrap();
    assert_eq!(chain.output_within(SOON).await.unwrap(), 4);
    working.stop().await;
    served.stop().await;
    counts.begun.load(Ordering::SeqCst)
}

/// A chain has five turns: three activities, a timer, and the start.
#[tokio::test(flavor = "multi_thread")]
async fn code_that_runs_goes_on_instead_of_being_replayed() {
    assert_eq!(beginnings(|worker| worker).await, 1);
    assert_eq!(beginnings(dauer::WorkerBuilder::replay_always).await, 5);
    let none = HostOptions { cache_instances_max: 0, ..HostOptions::default() };
    assert_eq!(beginnings(|worker| worker.options(none)).await, 5);
}

/// With two workers a turn may be where the last one was not: then the history is replayed, and nothing is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn two_workers_share_the_work_of_one_hub() {
    let served = Served::new().await;
    let hub = served.hub();
    let counts = [Arc::new(Counts::default()), Arc::new(Counts::default())];
    let few = HostOptions { turns_max: 2, activities_max: 2, ..HostOptions::default() };
    let working = counts
        .each_ref()
        .map(|counts| Working::start(code::register(served.hub().worker(), counts).options(few.clone())));
    let families: Vec<_> = (0..8).map(|_| hub.client().start(FAMILY, &5)).collect();
    for family in families {
        assert_eq!(family.await.unwrap().output_within(SOON).await.unwrap(), 25);
    }
    let ran = counts.each_ref().map(|counts| counts.added.load(Ordering::SeqCst));
    assert_eq!(ran.iter().sum::<u32>(), 8 * 5 * 3);
    assert!(ran.iter().all(|count| *count > 0), "one did all the work: {ran:?}");
    for each in working {
        each.stop().await;
    }
    served.stop().await;
}

/// Behaviour 56: a worker gets only what it has code for.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_gets_only_names_and_versions_that_it_has() {
    const REPORT: Orchestration<u32, u32> = Orchestration::new("report");
    let served = Served::new().await;
    let (hub, client) = (served.hub(), served.hub().client());
    let one = |_: OrchestrationContext, n: u32| async move { Ok(n + 1) };
    let two = |ctx: OrchestrationContext, n: u32| async move { Ok(ctx.call(ADD, &n).await? + 100) };
    let first = Working::start(hub.worker().orchestration(REPORT, one));
    let plain = client.start(REPORT, &1).await.unwrap();
    assert_eq!(plain.output_within(SOON).await.unwrap(), 2);
    let newer = client.start(REPORT.version("2"), &1).id("newer").await.unwrap();
    let waits = client.start(ASKS, &1).id("waits").await.unwrap();
    let second = Working::start(hub.worker().orchestration(REPORT.version("2"), two));
    newer.started_within(SOON).await.unwrap();
    // Its activity is nobody's yet.
    let activities = hub.worker().activity(ADD, |_: ActivityContext, n: u32| async move { Ok(n) });
    let third = Working::start(activities);
    assert_eq!(newer.output_within(SOON).await.unwrap(), 101);
    assert_eq!(waits.status().await.unwrap().unwrap().status, Status::Pending);
    for each in [first, second, third] {
        each.stop().await;
    }
    served.stop().await;
}

/// Behaviours 10 and 29: an answer of eight million bytes goes in parts, and its history comes as a stream.
#[tokio::test(flavor = "multi_thread")]
async fn large_answers_and_histories_pass() {
    let served = Served::new().await;
    let hub = served.hub();
    let working = Working::start(worker(&hub).replay_always());
    let wide = hub.client().start(WIDE, &8).await.unwrap();
    assert_eq!(wide.output_within(SOON).await.unwrap(), 8_000_000);
    working.stop().await;
    served.stop().await;
}

/// The same where every history is fetched, however small.
#[tokio::test(flavor = "multi_thread")]
async fn histories_are_fetched_where_the_server_says_so() {
    let served = Served::with(|options| options.workers.history_streamed_from = 0).await;
    let (hub, counts) = (served.hub(), Arc::new(Counts::default()));
    let working = Working::start(code::register(hub.worker(), &counts));
    let chain = hub.client().start(CHAIN, &1).await.unwrap();
    assert_eq!(chain.output_within(SOON).await.unwrap(), 4);
    assert_eq!(counts.begun.load(Ordering::SeqCst), 1, "what was fetched fits what is kept");
    working.stop().await;
    served.stop().await;
}

/// What a termination does not tell is not lost: the custom status, whether the code is kept or has to be replayed for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_terminated_instance_keeps_its_custom_status() {
    let served = Served::new().await;
    let hub = served.hub();
    for (id, kept) in [("kept", 100), ("replayed", 0)] {
        let options = HostOptions { cache_instances_max: kept, ..HostOptions::default() };
        let working = Working::start(worker(&hub).options(options));
        let asks = hub.client().start(ASKS, &0).id(id).await.unwrap();
        asks.started_within(SOON).await.unwrap();
        asks.terminate("enough").await.unwrap();
        let ended = asks.ended_within(SOON).await.unwrap();
        assert_eq!(ended.status(), Status::Terminated);
        assert_eq!(ended.custom_status::<String>().unwrap().as_deref(), Some("asking"), "{id}");
        working.stop().await;
    }
    served.stop().await;
}

/// A turn that cannot run is given back, shown as trouble, and not lost.
#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_cannot_run_is_given_back_and_tried_again() {
    let served = Served::new().await;
    let hub = served.hub();
    async fn broken(_: OrchestrationContext, _: u32) -> dauer::Result<String> {
        panic!("not today")
    }
    let working = Working::start(hub.worker().orchestration(ASKS, broken));
    let asks = hub.client().start(ASKS, &0).id("asks").await.unwrap();
    eventually(async || {
        let found = served.inside().client().get(asks.id()).await.unwrap().unwrap();
        found.trouble().map(|trouble| trouble.attempts).filter(|attempts| *attempts > 1)
    })
    .await;
    working.stop().await;
    let working = Working::start(worker(&hub));
    asks.raise(GO, &"now".to_owned()).await.unwrap();
    assert_eq!(asks.output_within(SOON).await.unwrap(), "now");
    working.stop().await;
    served.stop().await;
}
