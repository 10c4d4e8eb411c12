//! Activities that learn that nobody wants their results: each cause end to end, on each store.

#![allow(clippy::expect_used, clippy::unwrap_used)] // Also in what the tests share.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, CancelReason, ClientError, Event, HostId, HostOptions, Hub, InstanceId,
    Orchestration, OrchestrationContext, Result, Status,
};
use dauer_core::send;
use dauer_sqlite::{Options, SqliteStore};
use dauer_store::{Amount, Credit, Delivered, DropReason, DumpItem, HubName, ManualClock, SessionId, Until};
use futures::future::{Either, select};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::support::{Folder, Running, SOON};

const GO: Event<u32> = Event::new("go");
const COPY: Activity<u32, u32> = Activity::new("copy");
const CODE: Orchestration<u32, u32> = Orchestration::new("code");
const EITHER: Orchestration<u32, u32> = Orchestration::new("either");
const AGAIN: Orchestration<u32, u32> = Orchestration::new("again");

/// Longer than any test: whatever happens within one is not by time.
const LONG: Duration = Duration::from_secs(60 * 60);

async fn code(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    Ok(ctx.call(COPY, &n).await?)
}

/// What comes first; the other is left alone.
async fn either(ctx: OrchestrationContext, n: u32) -> Result<u32> {
    match select(ctx.call(COPY, &n), ctx.event(GO)).await {
        Either::Left((copied, _)) => Ok(copied?),
        Either::Right((told, _)) => Ok(told?),
    }
}

/// Goes on in another run while its activity runs, and waits there.
async fn again(ctx: OrchestrationContext, n: u32) -> Result<ControlFlow<u32, u32>> {
    if n == 0 {
        return Ok(ControlFlow::Break(ctx.event(GO).await?));
    }
    drop(ctx.call(COPY, &n).start());
    Ok(ControlFlow::Continue(ctx.event(GO).await?))
}

/// What an activity says.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Said {
    Began { attempt: u32 },
    Cancelled(CancelReason),
}

/// Waits to be cancelled and tells why; then it gives up, or answers all the same.
struct Copier {
    said: UnboundedSender<Said>,
    answer: Option<u32>,
}

impl Copier {
    async fn copy(self: Arc<Self>, ctx: ActivityContext, _: u32) -> Result<u32> {
        assert!(!ctx.is_cancelled() && ctx.cancel_reason().is_none());
        self.said.send(Said::Began { attempt: ctx.attempt() }).unwrap();
        let reason = ctx.cancelled().await;
        assert!(ctx.is_cancelled());
        self.said.send(Said::Cancelled(reason)).unwrap();
        self.answer.ok_or_else(|| reason.into())
    }
}

struct Ear(UnboundedReceiver<Said>);

impl Ear {
    async fn next(&mut self) -> Said {
        tokio::time::timeout(SOON, self.0.recv()).await.expect("nothing was said").unwrap()
    }

    fn is_silent(&mut self) -> bool {
        self.0.try_recv().is_err()
    }
}

fn copier(answer: Option<u32>) -> (Arc<Copier>, Ear) {
    let (said, ear) = unbounded_channel();
    (Arc::new(Copier { said, answer }), Ear(ear))
}

fn all(hub: &Hub, copier: &Arc<Copier>, options: HostOptions) -> Running {
    let copier = Arc::clone(copier);
    Running::on(hub, |worker| {
        let worker = worker.orchestration(CODE, code).orchestration(EITHER, either);
        worker.orchestration(AGAIN, again).activity_with(COPY, copier, Copier::copy).options(options)
    })
}

/// A store in memory, and one in a file.
fn urls(name: &str) -> (Folder, [String; 2]) {
    let folder = Folder::new(&format!("cancel-{name}"));
    let url = folder.url();
    (folder, ["memory:".to_owned(), url])
}

/// How many answers the store has dropped for that reason.
async fn dropped(hub: &Hub, reason: DropReason) -> u64 {
    let dump = hub.manage().dump(None).await.unwrap();
    let counts = dump.items.into_iter().map(|item| match item {
        DumpItem::Dropped(found, count) if found == reason => count,
        _ => 0,
    });
    counts.sum()
}

async fn until_dropped(hub: &Hub, reason: DropReason) {
    let deadline = tokio::time::Instant::now() + SOON;
    while dropped(hub, reason).await == 0 {
        assert!(tokio::time::Instant::now() < deadline, "no answer was dropped as {reason:?}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn terminate_tells_a_running_activity_and_drops_its_answer() {
    let (_folder, urls) = urls("terminate");
    for url in urls {
        let hub = dauer::open(&url).unwrap();
        let (copier, mut ear) = copier(Some(7));
        let running = all(&hub, &copier, HostOptions { lease: LONG, ..HostOptions::default() });
        let handle = running.client.start(CODE, &1).id("one").await.unwrap();
        assert_eq!(ear.next().await, Said::Began { attempt: 1 });
        handle.terminate("enough").await.unwrap();
        assert_eq!(ear.next().await, Said::Cancelled(CancelReason::Terminated));
        match handle.output_within(SOON).await {
            Err(ClientError::Ended { status, .. }) => assert_eq!(status, Status::Terminated),
            other => panic!("expected an end, got {other:?}"),
        }
        until_dropped(&hub, DropReason::Withdrawn).await;
        running.stop().await;
        assert!(ear.is_silent(), "it was run again");
    }
}

#[tokio::test]
async fn terminate_reaches_an_activity_in_another_worker() {
    let (folder, urls) = urls("elsewhere");
    // In one store by its own hint; between two handles of a file because one has written; in one handle of a file, where
    // hosts are not told of ends, after a renewal.
    let short = Duration::from_secs(2);
    for (one, two, lease) in
        [(&urls[0], None, LONG), (&urls[1], Some(&urls[1]), LONG), (&urls[1], None, short)]
    {
        let hub = dauer::open(one).unwrap();
        let other = two.map_or_else(|| hub.clone(), |url| dauer::open(url).unwrap());
        let (copier, mut ear) = copier(None);
        let turns = Running::on(&hub, |worker| worker.orchestration(CODE, code));
        let options = HostOptions { lease, ..HostOptions::default() };
        let tasks = {
            let copier = Arc::clone(&copier);
            Running::on(&other, |worker| worker.activity_with(COPY, copier, Copier::copy).options(options))
        };
        let handle = turns.client.start(CODE, &1).await.unwrap();
        assert_eq!(ear.next().await, Said::Began { attempt: 1 });
        handle.terminate("enough").await.unwrap();
        assert_eq!(ear.next().await, Said::Cancelled(CancelReason::Terminated));
        // It ended with the reason: that is no result, and it is not run again.
        until_dropped(&hub, DropReason::Withdrawn).await;
        tasks.stop().await;
        turns.stop().await;
        assert!(ear.is_silent(), "it was run again");
    }
    drop(folder);
}

#[tokio::test]
async fn a_drained_activity_gives_up_and_is_run_by_the_next_worker() {
    let (_folder, urls) = urls("drain");
    for url in urls {
        let hub = dauer::open(&url).unwrap();
        let (copier, mut ear) = copier(None);
        let options = HostOptions { drain_max: LONG, lease: LONG, ..HostOptions::default() };
        let first = all(&hub, &copier, options);
        let handle = first.client.start(CODE, &1).id("one").await.unwrap();
        assert_eq!(ear.next().await, Said::Began { attempt: 1 });
        // It does not wait for the time it has.
        tokio::time::timeout(SOON, first.stop()).await.expect("the worker waits for what was given up");
        assert_eq!(ear.next().await, Said::Cancelled(CancelReason::Draining));
        assert_eq!(handle.status().await.unwrap().unwrap().status, Status::Running);

        let attempts = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&attempts);
        let second = Running::on(&hub, |worker| {
            worker.orchestration(CODE, code).activity(COPY, move |ctx: ActivityContext, n: u32| {
                seen.lock().unwrap().push(ctx.attempt());
                async move { Ok(n + 1) }
            })
        });
        assert_eq!(handle.output_within(SOON).await.unwrap(), 2);
        assert_eq!(*attempts.lock().unwrap(), [1], "to give up is no failed attempt");
        second.stop().await;
    }
}

#[tokio::test]
async fn a_result_in_time_counts_although_the_worker_drains() {
    let (_folder, urls) = urls("in-time");
    for url in urls {
        let hub = dauer::open(&url).unwrap();
        let (copier, mut ear) = copier(Some(42));
        let first = all(&hub, &copier, HostOptions::default());
        let handle = first.client.start(CODE, &1).id("one").await.unwrap();
        assert_eq!(ear.next().await, Said::Began { attempt: 1 });
        first.stop().await;
        assert_eq!(ear.next().await, Said::Cancelled(CancelReason::Draining));
        let second = Running::on(&hub, |worker| worker.orchestration(CODE, code));
        assert_eq!(handle.output_within(SOON).await.unwrap(), 42);
        second.stop().await;
    }
}

#[tokio::test]
async fn an_activity_is_told_when_its_session_was_ended_and_another_has_it() {
    let (_folder, urls) = urls("session");
    for url in urls {
        let hub = dauer::open(&url).unwrap();
        let (copier, mut ear) = copier(Some(7));
        let first = all(&hub, &copier, HostOptions { lease: LONG, ..HostOptions::default() });
        let handle = first.client.start(CODE, &1).id("one").await.unwrap();
        assert_eq!(ear.next().await, Said::Began { attempt: 1 });
        let dump = hub.manage().dump(None).await.unwrap();
        let session = dump.items.into_iter().find_map(|item| match item {
            DumpItem::Session(session) => Some(session.id),
            _ => None,
        });
        hub.manage().end_session(session.unwrap()).await.unwrap();
        // The next session of the same worker has it, in its second attempt.
        let mut said = [ear.next().await, ear.next().await];
        said.sort_by_key(|said| matches!(said, Said::Began { .. }));
        assert_eq!(said, [Said::Cancelled(CancelReason::LeaseLost), Said::Began { attempt: 2 }]);
        assert_eq!(handle.status().await.unwrap().unwrap().status, Status::Running, "the old answer counted");
        handle.terminate("enough").await.unwrap();
        assert_eq!(ear.next().await, Said::Cancelled(CancelReason::Terminated));
        first.stop().await;
    }
}

/// A session on the same file whose clock is ahead: for it the leases of all others have run out.
async fn thief(folder: &Folder) -> (Arc<dyn dauer_store::Work>, Arc<ManualClock>) {
    let ahead = dauer_store::Clock::now(&dauer_store::SystemClock::new()).after(LONG);
    let clock = Arc::new(ManualClock::new(ahead));
    let options = Options { clock: clock.clone(), ..Options::default() };
    let store = SqliteStore::open(folder.0.join("hub.db"), options).unwrap();
    let host = dauer_store::Host {
        id: HostId::new("thief").unwrap(),
        session: SessionId(7),
        lease: LONG,
        runs_code: true,
    };
    (store.hub(HubName::default()).attach(host).await.unwrap(), clock)
}

#[tokio::test]
async fn an_activity_is_told_when_its_lease_was_taken_over_in_the_file() {
    let folder = Folder::new("cancel-lease");
    let hub = dauer::open(&folder.url()).unwrap();
    let (copier, mut ear) = copier(Some(7));
    let lease = Duration::from_secs(2);
    let first = all(&hub, &copier, HostOptions { lease, ..HostOptions::default() });
    let handle = first.client.start(CODE, &1).id("one").await.unwrap();
    assert_eq!(ear.next().await, Said::Began { attempt: 1 });
    let (thief, clock) = thief(&folder).await;
    thief.credit(Credit { number: 1, tasks: Amount::items(1), ..Credit::default() });
    let mut taken = thief.next(Until::Once).await.unwrap().tasks;
    // The first one may renew its lease in the time of the thief, once a second.
    for _ in 0..100 {
        if taken.is_empty() {
            clock.advance(LONG);
            thief.renew().await.unwrap();
            taken = thief.next(Until::Once).await.unwrap().tasks;
        }
    }
    let taken = taken.remove(0);
    assert_eq!(taken.fence.instance, InstanceId::new("one").unwrap());
    assert_eq!(ear.next().await, Said::Cancelled(CancelReason::LeaseLost));
    // What the first one answers is dropped; what the other answers counts.
    until_dropped(&hub, DropReason::NotHeld).await;
    let answer = send::task_answer(taken.fence, &taken.task, Ok(Some("8".into())), taken.now);
    let delivered = thief.complete_activities(vec![answer]).await.pop().unwrap().unwrap();
    assert_eq!(delivered, Delivered::Applied);
    assert_eq!(handle.output_within(SOON).await.unwrap(), 8);
    first.stop().await;
}

#[tokio::test]
async fn an_activity_that_nobody_waits_for_is_told_of_the_end_of_its_run() {
    let (_folder, urls) = urls("ended");
    for url in urls {
        let hub = dauer::open(&url).unwrap();
        let (copier, mut ear) = copier(None);
        let running = all(&hub, &copier, HostOptions { lease: LONG, ..HostOptions::default() });
        let handle = running.client.start(EITHER, &1).id("either").await.unwrap();
        assert_eq!(ear.next().await, Said::Began { attempt: 1 });
        handle.raise(GO, &5).await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), 5);
        assert_eq!(ear.next().await, Said::Cancelled(CancelReason::Ended));

        let handle = running.client.start(AGAIN, &1).id("again").await.unwrap();
        assert_eq!(ear.next().await, Said::Began { attempt: 1 });
        handle.raise(GO, &0).await.unwrap();
        assert_eq!(ear.next().await, Said::Cancelled(CancelReason::Ended));
        handle.raise(GO, &9).await.unwrap();
        assert_eq!(handle.output_within(SOON).await.unwrap(), 9);
        running.stop().await;
        assert!(ear.is_silent(), "it was run again");
    }
}
