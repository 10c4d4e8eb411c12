//! What is done to instances that have failed or ended: rewind and restart; and what keeps them from failing: retries and
//! time-outs. On both stores, through the public API.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, CallError, ClientError, Error, Event, Hub, InstanceId, Orchestration,
    OrchestrationContext, RawClientError, Result, RetryPolicy, Status, WorkerBuilder,
};

use crate::support::{Folder, Running, SOON};

const PAY: Activity<u32, u32> = Activity::new("pay");
const SHIP: Activity<u32, u32> = Activity::new("ship");
const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
const PARCEL: Orchestration<u32, u32> = Orchestration::new("parcel");
const GO: Event<u32> = Event::new("go");

/// How often the activities ran; the shipping fails so often.
#[derive(Default)]
struct Shop {
    paid: AtomicU32,
    shipped: AtomicU32,
    failures: AtomicU32,
}

impl Shop {
    fn failing(times: u32) -> Arc<Self> {
        Arc::new(Self { failures: AtomicU32::new(times), ..Self::default() })
    }

    fn ran(&self) -> (u32, u32) {
        (self.paid.load(Ordering::SeqCst), self.shipped.load(Ordering::SeqCst))
    }

    fn activities(self: &Arc<Self>, worker: WorkerBuilder) -> WorkerBuilder {
        let (pay, ship) = (Arc::clone(self), Arc::clone(self));
        let worker = worker.activity(PAY, move |_: ActivityContext, n: u32| {
            pay.paid.fetch_add(1, Ordering::SeqCst);
            async move { Ok(n) }
        });
        worker.activity(SHIP, move |_: ActivityContext, n: u32| {
            ship.shipped.fetch_add(1, Ordering::SeqCst);
            let left =
                ship.failures.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
            async move { if left.is_ok() { Err(Error::msg("no carrier")) } else { Ok(n + 1) } }
        })
    }
}

async fn order(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    let paid = ctx.call(PAY, &n).await?;
    Ok(ctx.call(SHIP, &paid).await?)
}

/// A hub in memory, and one in a file.
fn hubs(folder: &Folder) -> [Hub; 2] {
    ["memory:", &folder.url()].map(|url| dauer::open(url).unwrap())
}

#[tokio::test]
async fn a_rewound_orchestration_does_again_only_what_failed() {
    let folder = Folder::new("rewound");
    for hub in hubs(&folder) {
        let shop = Shop::failing(1);
        let running = Running::on(&hub, |worker| shop.activities(worker.orchestration(ORDER, order)));
        let handle = running.client.start(ORDER, &4).id("order-1").tag("team", "north").await.unwrap();
        assert!(matches!(handle.output_within(SOON).await, Err(ClientError::Failed { .. })));
        let failed = handle.status().await.unwrap().unwrap();
        handle.rewind("there is a carrier again").await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), 5);
        assert_eq!(shop.ran(), (1, 2), "paid once");
        let record = handle.status().await.unwrap().unwrap();
        assert_eq!(
            (record.status, record.details.failure(), record.tags),
            (Status::Completed, None, failed.tags)
        );
        assert_ne!(record.execution, failed.execution);
        let again = handle.rewind("").await.unwrap_err().to_string();
        assert!(again.contains("is Completed, which does not allow a rewind"), "{again}");
        running.stop().await;
    }
}

#[tokio::test]
async fn failed_children_are_rewound_with_their_parent() {
    async fn parcels(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let (one, two) = (InstanceId::new("parcel-1")?, InstanceId::new("parcel-2")?);
        let one = ctx.call_orchestration(PARCEL, &n).instance(&one).start();
        let two = ctx.call_orchestration(PARCEL, &(n + 10)).instance(&two).start();
        // Both have ended before this one fails.
        let (one, two) = futures::join!(one, two);
        Ok(one? + two?)
    }
    let folder = Folder::new("children");
    for hub in hubs(&folder) {
        let shop = Shop::failing(1);
        let running = Running::on(&hub, |worker| {
            shop.activities(worker.orchestration(ORDER, parcels).orchestration(PARCEL, order))
        });
        let handle = running.client.start(ORDER, &1).await.unwrap();
        assert!(matches!(handle.output_within(SOON).await, Err(ClientError::Failed { .. })));
        assert_eq!(shop.ran(), (2, 2));
        handle.rewind("").await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), 2 + 12);
        assert_eq!(shop.ran(), (2, 3), "only what had failed was done again");
        running.stop().await;
    }
}

#[tokio::test]
async fn an_ended_orchestration_is_run_again_from_its_beginning() {
    async fn waits(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        Ok(n + ctx.event(GO).await?)
    }
    let folder = Folder::new("restart");
    for hub in hubs(&folder) {
        let running = Running::on(&hub, |worker| worker.orchestration(ORDER, waits));
        let handle = running.client.start(ORDER, &4).id("order-1").tag("team", "north").await.unwrap();
        let early = handle.restart().await.unwrap_err();
        assert!(
            matches!(
                &early,
                ClientError::Client(RawClientError::NotEnded {
                    status: Status::Running | Status::Pending,
                    ..
                })
            ),
            "{early:?}"
        );
        handle.raise(GO, &1).await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), 5);
        let first = handle.status().await.unwrap().unwrap();
        handle.restart().await.unwrap();
        handle.raise(GO, &2).await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), 6, "the same input, another event");
        let second = handle.status().await.unwrap().unwrap();
        assert_ne!(second.execution, first.execution);
        assert_eq!((second.tags, second.queue), (first.tags, first.queue));
        let other = handle.restart_as("order-2").await.unwrap();
        other.raise(GO, &3).await.unwrap();
        assert_eq!(other.output_within(SOON).await.unwrap(), 7);
        assert_eq!(other.id().as_str(), "order-2");
        running.stop().await;
    }
}

#[tokio::test]
async fn what_is_not_there_can_be_neither_rewound_nor_restarted() {
    let running = Running::start(|worker| worker.orchestration(ORDER, order));
    let nobody = running.client.handle(ORDER, "nobody").unwrap();
    for result in [nobody.rewind("").await, nobody.restart().await] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("there is no instance 'nobody'"), "{error}");
    }
    let refused = running.client.start(ORDER, &1).id("").await.err().unwrap();
    assert!(matches!(refused, ClientError::Name(_)), "{refused:?}");
    running.stop().await;
}

#[tokio::test]
async fn a_retry_outlives_failures() {
    async fn persistent(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        let policy = RetryPolicy::exponential(5, Duration::from_millis(1));
        Ok(ctx.call(SHIP, &n).retry(policy).await?)
    }
    let folder = Folder::new("retry");
    for hub in hubs(&folder) {
        let shop = Shop::failing(3);
        let running = Running::on(&hub, |worker| shop.activities(worker.orchestration(ORDER, persistent)));
        let handle = running.client.start(ORDER, &4).await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), 5);
        assert_eq!(shop.ran(), (0, 4));
        running.stop().await;
    }
}

#[tokio::test]
async fn a_wait_that_is_timed_out_gives_up() {
    async fn impatient(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        match ctx.event(GO).timeout(Duration::from_millis(5)).await {
            Ok(value) => Ok(value),
            Err(CallError::TimedOut { .. }) => Ok(n),
            Err(error) => Err(error.into()),
        }
    }
    let running = Running::start(|worker| worker.orchestration(ORDER, impatient));
    let handle = running.client.start(ORDER, &4).await.unwrap();
    assert_eq!(handle.output_within(SOON).await.unwrap(), 4);
    running.stop().await;
}

#[tokio::test]
async fn a_detached_orchestration_goes_its_own_way() {
    async fn starts(ctx: OrchestrationContext, n: u32) -> Result<u32> {
        ctx.start(PARCEL, &InstanceId::new("parcel-1")?, &n);
        Ok(n)
    }
    let shop = Shop::failing(0);
    let running = Running::start(|worker| {
        shop.activities(worker.orchestration(ORDER, starts).orchestration(PARCEL, order))
    });
    let handle = running.client.start(ORDER, &4).await.unwrap();
    assert_eq!(handle.output_within(SOON).await.unwrap(), 4);
    let parcel = running.client.handle(PARCEL, "parcel-1").unwrap();
    assert_eq!(parcel.output_within(SOON).await.unwrap(), 5);
    running.stop().await;
}
