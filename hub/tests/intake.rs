//! How a host learns of work: credit, the one wait, and recalls after lost answers.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::channel::mpsc::{Sender, channel};
use futures::stream::{BoxStream, StreamExt};

use dauer_core::InstanceId;
use dauer_core::model::{Filter, Queues, Status};
use dauer_hub::{ActivityEnd, ActivityWork, Capacity, Executor, HostOptions, TurnDone, TurnWork, Unfinished};

use dauer_store::{Item, Release};

use crate::support::{Act, Chain, Fate, Op, World, pass, raw, win_turns};

const SECOND: Duration = Duration::from_secs(1);

/// A chain that does not fuse, whose turns and activities take a second, and how often each has begun.
fn slow() -> (Chain, Arc<AtomicUsize>, Arc<AtomicUsize>) {
    let (turns, tasks) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let (turned, begun) = (Arc::clone(&turns), Arc::clone(&tasks));
    let chain = Chain::new().slow_turns(SECOND).on_turn(move |_| {
        turned.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let chain = chain.on_activity(move |_| {
        begun.fetch_add(1, Ordering::Relaxed);
        async {
            pass(1).await;
            Ok(Some("1".into()))
        }
        .boxed()
    });
    (chain, turns, tasks)
}

#[tokio::test(start_paused = true)]
async fn lost_answer_is_recalled_and_runs_once() {
    let world = World::new();
    let (chain, turns, tasks) = slow();
    world.host(chain, HostOptions::default());
    pass(1).await;
    // The start, and then the task of its first turn.
    world.tap.loses.store(2, Ordering::Relaxed);
    let before = world.elapsed();
    let id = world.start("chain", 1).await;
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "1");
    let took = world.elapsed() - before;
    assert!(took < SECOND * 5, "found by a poll only, after {took:?}");
    assert_eq!(*world.tap.recalls.lock().unwrap(), [(1, 1), (2, 2)], "each number once");
    assert_eq!((turns.load(Ordering::Relaxed), tasks.load(Ordering::Relaxed)), (2, 1));
    assert_eq!((world.plan.count(Op::CommitTurns), world.plan.count(Op::Release)), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn refused_recall_is_sent_again_with_the_same_numbers() {
    let world = World::new();
    world
        .plan
        .then(Op::Recall, [Fate::of(Act::Refuse), Fate::of(Act::LoseAnswer), Fate::of(Act::LoseRequest)]);
    world.host(Chain::new(), HostOptions::default());
    world.tap.loses.store(1, Ordering::Relaxed);
    let id = world.start("chain", 1).await;
    assert_eq!(world.ended(&id).await.status, Status::Completed);
    assert_eq!(*world.tap.recalls.lock().unwrap(), [(1, 1); 4]);
    assert_eq!(world.tap.last_credit().number, 2, "recalled numbers win nothing");
}

#[tokio::test(start_paused = true)]
async fn recalled_item_that_is_held_already_runs_once() {
    let world = World::new();
    let (chain, turns, tasks) = slow();
    world.host(chain, HostOptions::default());
    let working = world.start("working", 1).await;
    pass(1).await;
    let turning = world.start("turning", 1).await;
    // The activity of the one and the turn of the other have just begun.
    until(|| (tasks.load(Ordering::Relaxed)) == 1).await;
    world.tap.loses.store(1, Ordering::Relaxed);
    let lost = world.start("lost", 1).await;
    for id in [&working, &turning, &lost] {
        assert_eq!(world.ended(id).await.details.output().unwrap().as_str(), "1");
    }
    assert_eq!(*world.tap.recalled.lock().unwrap(), (2, 1), "the lost turn, and what runs already");
    assert_eq!((turns.load(Ordering::Relaxed), tasks.load(Ordering::Relaxed)), (6, 3));
    assert_eq!((world.plan.count(Op::CommitTurns), world.plan.count(Op::Release)), (6, 0));
}

/// The store has answered the recall before the turn was committed, and the answer comes afterwards.
#[tokio::test(start_paused = true)]
async fn recalled_item_that_was_finished_meanwhile_runs_once() {
    let world = World::new();
    world.plan.then(Op::Recall, [Fate::PASS.answered_late(SECOND * 4)]);
    let (chain, turns, tasks) = slow();
    world.host(chain, HostOptions { activities_max: 1, ..HostOptions::default() });
    let first = world.start("first", 1).await;
    pass(1).await;
    until(|| (tasks.load(Ordering::Relaxed)) == 1).await;
    let second = world.start("second", 1).await;
    world.tap.loses.store(1, Ordering::Relaxed);
    let lost = world.start("lost", 1).await;
    for id in [&first, &second, &lost] {
        assert_eq!(world.ended(id).await.details.output().unwrap().as_str(), "1");
    }
    let (recalled_turns, recalled_tasks) = *world.tap.recalled.lock().unwrap();
    assert!(recalled_turns >= 1 && recalled_tasks == 1, "{recalled_turns} turns, {recalled_tasks} tasks");
    assert_eq!((turns.load(Ordering::Relaxed), tasks.load(Ordering::Relaxed)), (6, 3));
    assert_eq!(world.plan.count(Op::Release), 0);
}

/// Lets a millisecond go by until that is so, for at most ten seconds.
async fn until(condition: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if condition() {
            return;
        }
        let moment = Duration::from_millis(1);
        tokio::time::timeout(moment, futures::future::pending::<()>()).await.unwrap_err();
    }
    panic!("it never came to that");
}

#[tokio::test(start_paused = true)]
async fn credit_shrinks_with_the_room_and_grows_with_it() {
    let world = World::new();
    let (chain, ..) = slow();
    world.host(chain, HostOptions { turns_max: 4, activities_max: 0, ..HostOptions::default() });
    pass(1).await;
    assert_eq!((world.tap.last_credit().turns.count, world.tap.last_credit().tasks.count), (2, 0));
    for (number, credit) in [(1, 2), (2, 2), (3, 1), (4, 0)] {
        world.start(&format!("chain-{number}"), 1).await;
        until(|| world.tap.last_credit().turns.count == credit).await;
    }
    let before = world.tap.credits.lock().unwrap().len();
    until(|| world.tap.last_credit().turns.count == 2).await;
    pass(60).await;
    let sent = world.tap.credits.lock().unwrap().len() - before;
    assert!(sent <= 4, "{sent} times, and not again while nothing changes");
    assert_eq!(world.tap.last_credit().number, 1, "nothing was lost");
}

#[tokio::test(start_paused = true)]
async fn due_instance_begins_when_a_full_host_has_room() {
    let world = World::new();
    let other = raw(&world, 9).await;
    let late = world.start("late", 0).await;
    let fence = win_turns(&*other, 1).await.remove(0).fence;
    let release = Release { item: Item::Turn(fence), delay: SECOND * 2, trouble: None, failed: false };
    other.release(vec![release]).await.remove(0).unwrap();
    let chain = Chain::new().slow_turns(SECOND * 3);
    world.host(chain, HostOptions { turns_max: 1, activities_max: 0, ..HostOptions::default() });
    // The only place is taken from the beginning until a second after the other one is due.
    let busy = world.start("busy", 0).await;
    let before = world.elapsed();
    assert_eq!(world.ended(&busy).await.status, Status::Completed);
    assert_eq!(world.ended(&late).await.status, Status::Completed);
    let took = world.elapsed() - before;
    assert!(took < SECOND * 13 / 2, "found by a poll only, after {took:?}");
}

/// The answer with the first win is on its way while more becomes ready.
#[tokio::test(start_paused = true)]
async fn full_host_leaves_tasks_to_others() {
    let world = World::new();
    let begun = Arc::<Mutex<Vec<String>>>::default();
    let only_tasks = || {
        let begun = Arc::clone(&begun);
        let chain = Chain::new().on_activity(move |lease| {
            let name = lease.task.instance.as_str().to_owned();
            let takes = if name == "short" { 60 } else { 3_600 };
            begun.lock().unwrap().push(name);
            async move {
                pass(takes).await;
                Ok(Some("1".into()))
            }
            .boxed()
        });
        world.host(chain, HostOptions { turns_max: 0, activities_max: 1, ..HostOptions::default() });
    };
    world.host(Chain::new(), HostOptions { activities_max: 0, ..HostOptions::default() });
    only_tasks();
    world.start("short", 1).await;
    until(|| begun.lock().unwrap().len() == 1).await;
    world.plan.then(Op::Next, [Fate::PASS.answered_late(SECOND)]);
    only_tasks();
    until(|| world.plan.count(Op::Attach) == 3).await;
    until(|| world.plan.faults.lock().unwrap()[&Op::Next].is_empty()).await;
    for name in ["first", "second"] {
        world.start(name, 1).await;
        world.until(&InstanceId::new(name).unwrap(), |record| record.status == Status::Running).await;
    }
    pass(10).await;
    assert_eq!(begun.lock().unwrap().len(), 2, "one host is free");
    pass(60).await;
    assert_eq!(begun.lock().unwrap().len(), 3, "the other one is free, too");
}

#[tokio::test(start_paused = true)]
async fn wins_beyond_the_room_wait_for_a_place() {
    let world = World::new();
    world.tap.keeps_credit.store(true, Ordering::Relaxed);
    let (running, most) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let peak = Arc::clone(&most);
    let chain = Chain::new().slow_turns(SECOND).on_activity(move |_| {
        let running = Arc::clone(&running);
        peak.fetch_max(running.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        async move {
            pass(3).await;
            running.fetch_sub(1, Ordering::Relaxed);
            Ok(Some("1".into()))
        }
        .boxed()
    });
    let peak = Arc::clone(&chain.peak);
    world.host(chain, HostOptions { turns_max: 2, activities_max: 2, ..HostOptions::default() });
    let mut ids = Vec::new();
    for number in 0..12 {
        ids.push(world.start(&format!("chain-{number}"), 1).await);
    }
    pass(1).await;
    let held = futures::future::join_all(ids.iter().map(|id| world.instance(id))).await;
    assert!(held.iter().filter(|instance| instance.holder.is_some()).count() > 2, "the store has won more");
    for id in &ids {
        assert_eq!(world.ended(id).await.status, Status::Completed);
    }
    assert_eq!((peak.most(), most.load(Ordering::Relaxed)), (2, 2));
    assert_eq!(world.plan.count(Op::Release), 0, "nothing was given back");
}

/// A chain that serves what a test says.
struct Serving {
    chain: Chain,
    now: Arc<Mutex<(Queues, Capacity)>>,
    tell: Mutex<Option<Sender<()>>>,
    /// The next turn finds no worker any more.
    loses_workers: AtomicBool,
}

impl Serving {
    fn new(now: (Queues, Capacity)) -> Arc<Self> {
        let (now, tell) = (Arc::new(Mutex::new(now)), Mutex::default());
        Arc::new(Self { chain: Chain::new(), now, tell, loses_workers: AtomicBool::default() })
    }

    fn says(&self, now: (Queues, Capacity)) {
        *self.now.lock().unwrap() = now;
        self.tell.lock().unwrap().as_mut().unwrap().try_send(()).unwrap();
    }
}

fn nothing() -> Queues {
    Queues { orchestrations: Filter::none(), entities: Filter::none(), activities: Filter::none() }
}

#[async_trait]
impl Executor for Serving {
    fn queues(&self) -> Queues {
        self.now.lock().unwrap().0.clone()
    }

    fn capacity(&self) -> Capacity {
        self.now.lock().unwrap().1
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        let (tell, changes) = channel(1);
        *self.tell.lock().unwrap() = Some(tell);
        changes.boxed()
    }

    async fn turn(&self, work: TurnWork) -> Result<TurnDone, Unfinished> {
        if self.loses_workers.load(Ordering::Relaxed) {
            self.now.lock().unwrap().0 = nothing();
            return Err(Unfinished::Returned { delay: Duration::ZERO });
        }
        self.chain.turn(work).await
    }

    async fn activity(&self, work: ActivityWork) -> ActivityEnd {
        self.chain.activity(work).await
    }
}

#[tokio::test(start_paused = true)]
async fn executor_without_workers_gets_no_credit() {
    let none = Capacity { turns: 0, activities: 0 };
    for absent in [(nothing(), Capacity::UNBOUNDED), (Queues::default(), none)] {
        let world = World::new();
        let executor = Serving::new(absent.clone());
        world.host(Shared(Arc::clone(&executor)), HostOptions::default());
        let id = world.start("chain", 1).await;
        pass(60).await;
        let credits = world.tap.credits.lock().unwrap().clone();
        let counts = |credit: &dauer_store::Credit| (credit.turns.count, credit.tasks.count);
        assert!(credits.iter().all(|credit| counts(credit) == (0, 0)), "{credits:?}");
        let before = world.elapsed();
        executor.says((Queues::default(), Capacity::UNBOUNDED));
        assert_eq!(world.ended(&id).await.status, Status::Completed);
        assert!(world.elapsed() - before < Duration::from_millis(100), "found by a poll only");
        executor.says(absent);
        until(|| counts(&world.tap.last_credit()) == (0, 0)).await;
    }
}

/// The executor has not told that its workers are gone.
#[tokio::test(start_paused = true)]
async fn turn_that_is_given_back_is_not_won_again_at_once() {
    let world = World::new();
    let executor = Serving::new((Queues::default(), Capacity::UNBOUNDED));
    world.host(Shared(Arc::clone(&executor)), HostOptions::default());
    pass(1).await;
    executor.loses_workers.store(true, Ordering::Relaxed);
    let id = world.start("chain", 1).await;
    for _ in 0..1_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.plan.count(Op::Release), 1);
    assert_eq!(world.instance(&id).await.holder, None);
    executor.loses_workers.store(false, Ordering::Relaxed);
    executor.says((Queues::default(), Capacity::UNBOUNDED));
    assert_eq!(world.ended(&id).await.status, Status::Completed);
}

/// An executor that a test has, too.
struct Shared(Arc<Serving>);

#[async_trait]
impl Executor for Shared {
    fn queues(&self) -> Queues {
        self.0.queues()
    }
    fn capacity(&self) -> Capacity {
        self.0.capacity()
    }
    fn changes(&self) -> BoxStream<'static, ()> {
        self.0.changes()
    }
    async fn turn(&self, work: TurnWork) -> Result<TurnDone, Unfinished> {
        self.0.turn(work).await
    }
    async fn activity(&self, work: ActivityWork) -> ActivityEnd {
        self.0.activity(work).await
    }
}

#[tokio::test(start_paused = true)]
async fn wait_is_not_dropped_while_turns_are_committed() {
    for fuses in [false, true] {
        let world = World::new();
        let (chain, ..) = slow();
        let host = world.host(if fuses { chain.fusing() } else { chain }, HostOptions::default());
        let mut ids = Vec::new();
        for number in 0..20 {
            ids.push(world.start(&format!("chain-{number}"), 3).await);
            world.client.raise(&ids[0], "event", None).await.unwrap();
        }
        for id in &ids {
            world.ended(id).await;
        }
        assert_eq!(world.tap.dropped.load(Ordering::Relaxed), 0);
        assert_eq!(world.tap.recalls.lock().unwrap().len(), 0);
        host.stop().await;
        assert_eq!(world.tap.dropped.load(Ordering::Relaxed), 1, "with the session");
    }
}

#[tokio::test(start_paused = true)]
async fn mail_named_before_the_answer_to_a_commit_is_read_after_it() {
    let world = World::new();
    world.plan.then(Op::CommitTurns, [Fate::PASS.answered_late(SECOND)]);
    let chain = Chain::new().fusing().on_activity(|_| {
        async {
            pass(600).await;
            Ok(Some("1".into()))
        }
        .boxed()
    });
    world.host(chain, HostOptions::default());
    let id = world.start("chain", 1).await;
    world.until(&id, |record| record.status == Status::Running).await;
    // The answer to the commit is on its way, and was made before the event came.
    world.client.raise(&id, "event", None).await.unwrap();
    let before = world.elapsed();
    until(|| world.plan.count(Op::Mail) == 1).await;
    world.until(&id, |record| record.revision.0 == 2).await;
    let took = world.elapsed() - before;
    assert!((SECOND..SECOND + SECOND / 10).contains(&took), "it took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn win_before_the_answer_to_a_commit_drops_no_state() {
    let world = World::new();
    world.plan.then(Op::CommitTurns, [Fate::PASS.answered_late(SECOND)]);
    world.host(Chain::new(), HostOptions { activities_max: 0, ..HostOptions::default() });
    let id = world.start("chain", 1).await;
    world.until(&id, |record| record.status == Status::Running).await;
    // The commit has released the instance, and its answer is on its way.
    world.client.raise(&id, "event", None).await.unwrap();
    let before = world.elapsed();
    let held = world.instance(&id).await;
    assert!(held.holder.is_some() && held.record.revision.0 == 1, "the same session has won it again");
    until(|| world.plan.count(Op::CommitTurns) == 2).await;
    let took = world.elapsed() - before;
    assert!((SECOND..SECOND + SECOND / 10).contains(&took), "it took {took:?}");
    assert_eq!(world.instance(&id).await.record.revision.0, 2);
    assert_eq!((world.plan.count(Op::LoadHistory), world.plan.count(Op::CommitTurns)), (0, 2));
    assert_eq!(world.plan.count(Op::Release), 0);
}

#[tokio::test(start_paused = true)]
async fn recall_after_a_change_of_number_names_the_one_before() {
    let world = World::new();
    let begun = Arc::<AtomicUsize>::default();
    let count = Arc::clone(&begun);
    let chain = Chain::new().on_activity(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        futures::future::pending().boxed()
    });
    world.host(chain, HostOptions::default());
    // Its task is won under the first number, and stays.
    world.start("long", 1).await;
    until(|| begun.load(Ordering::Relaxed) == 1).await;
    for number in 0..1_100 {
        let id = world.start(&format!("chain-{number}"), 0).await;
        world.ended(&id).await;
    }
    let numbers = || (world.tap.last_credit().first, world.tap.last_credit().number);
    assert_eq!(numbers(), (1, 2));
    world.tap.loses.store(1, Ordering::Relaxed);
    let id = world.start("lost", 0).await;
    assert_eq!(world.ended(&id).await.status, Status::Completed);
    assert_eq!(*world.tap.recalls.lock().unwrap(), [(1, 2)]);
    assert_eq!(*world.tap.recalled.lock().unwrap(), (1, 1));
    assert_eq!(numbers(), (3, 3), "the store forgets what it has told");
    assert_eq!(begun.load(Ordering::Relaxed), 1, "the task runs already");
}
