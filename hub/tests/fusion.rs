//! Results that go into the turn they are for, and instances that are kept for them: what the commit does then, and all
//! that can come between.

#![allow(clippy::unwrap_used, clippy::expect_used)] // Also in what the tests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt;

use dauer_core::model::{Batch, Checkpoint, History, Status, Then, TroubleKind};
use dauer_core::send;
use dauer_core::turn::Stalled;
use dauer_core::{InstanceId, SessionId, Timestamp};
use dauer_hub::HostOptions;
use dauer_proto::{EventType, HistoryEvent};
use dauer_store::{ClaimedTurn, DropReason, Host, HostId, Message, Work};

use crate::support::{Act, Chain, Fate, Op, Plan, World, win_turns};

const SECOND: Duration = Duration::from_secs(1);

/// Lets so much time go by.
async fn pass(millis: u64) {
    let time = Duration::from_millis(millis);
    tokio::time::timeout(time, futures::future::pending::<()>()).await.unwrap_err();
}

/// A fusing chain whose activities take that long, and how many of them have begun.
fn working(millis: u64) -> (Chain, Arc<AtomicUsize>) {
    let began = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&began);
    let chain = Chain::new().fusing().on_activity(move |_| {
        count.fetch_add(1, Ordering::Relaxed);
        async move {
            if millis > 0 {
                pass(millis).await;
            }
            Ok(Some("1".into()))
        }
        .boxed()
    });
    (chain, began)
}

/// Lets a millisecond go by until that is so, for at most ten seconds.
async fn until(condition: impl AsyncFn() -> bool) {
    until_within(SECOND * 10, condition).await;
}

async fn until_within(most: Duration, condition: impl AsyncFn() -> bool) {
    for _ in 0..most.as_millis() {
        if condition().await {
            return;
        }
        pass(1).await;
    }
    panic!("it never came to that");
}

async fn until_begun(began: &AtomicUsize, count: usize) {
    until(async || began.load(Ordering::Relaxed) >= count).await;
}

async fn history(world: &World, id: &InstanceId) -> Vec<HistoryEvent> {
    let dump = world.instance(id).await;
    dump.history.iter().flat_map(|stored| stored.batch.decode().unwrap()).collect()
}

async fn raised(world: &World, id: &InstanceId) -> usize {
    let is_raised = |event: &HistoryEvent| matches!(event.event_type, Some(EventType::EventRaised(_)));
    history(world, id).await.into_iter().filter(is_raised).count()
}

#[tokio::test(start_paused = true)]
async fn a_result_goes_into_the_commit_of_its_turn() {
    let world = World::new();
    world.host(Chain::new().fusing(), HostOptions::default());
    let id = world.start("chain", 5).await;
    let record = world.ended(&id).await;
    assert_eq!((record.details.output().unwrap().as_str(), record.revision.0), ("5", 6));
    assert_eq!(world.plan.count(Op::CommitTurns), 6);
    assert_eq!(world.plan.count(Op::CompleteActivities), 0, "a result was sent as a message");
    assert_eq!((world.plan.count(Op::Release), world.plan.count(Op::LoadHistory)), (0, 0));
    assert_eq!(world.instance(&id).await.holder, None);

    let world = World::new();
    world.host(Chain::new(), HostOptions::default());
    let id = world.start("chain", 5).await;
    world.ended(&id).await;
    assert_eq!(world.plan.count(Op::CompleteActivities), 5, "the control: an executor that does not fuse");
}

#[tokio::test(start_paused = true)]
async fn no_more_tasks_are_taken_than_may_run() {
    let world = World::new();
    let (chain, began) = working(500);
    let others = HostOptions { activities_max: 0, ..HostOptions::default() };
    world.host(chain, HostOptions { activities_max: 2, ..HostOptions::default() });
    for name in ["a", "b", "c", "d"] {
        world.start(name, 1).await;
    }
    pass(400).await;
    assert_eq!(began.load(Ordering::Relaxed), 2, "more run than may");
    let mut held = 0;
    for name in ["a", "b", "c", "d"] {
        let id = InstanceId::new(name).unwrap();
        held += usize::from(world.instance(&id).await.holder.is_some());
    }
    assert_eq!(held, 2, "an instance is kept for its running task, and not otherwise");
    for name in ["a", "b", "c", "d"] {
        world.ended(&InstanceId::new(name).unwrap()).await;
    }
    assert_eq!(began.load(Ordering::Relaxed), 4);

    // Without room for any, tasks are left to others.
    let world = World::new();
    world.host(Chain::new().fusing(), others);
    let id = world.start("chain", 1).await;
    world.until(&id, |record| record.status == Status::Running).await;
    assert_eq!(world.instance(&id).await.holder, None);
}

#[tokio::test(start_paused = true)]
async fn no_more_is_begun_than_can_be_finished() {
    let world = World::new();
    let mut ids = Vec::new();
    for i in 0..200 {
        ids.push(world.start(&format!("i{i}"), 3).await);
    }
    world.host(Chain::new().fusing(), HostOptions { activities_max: 8, ..HostOptions::default() });
    for id in &ids {
        world.ended(id).await;
    }
    let unfused = world.plan.count(Op::CompleteActivities);
    assert_eq!(unfused, 0, "instances were begun whose tasks there was no room for");

    // Activities that take long do not hold up those that need none.
    let world = World::new();
    let (chain, began) = working(60_000);
    world.host(chain, HostOptions { activities_max: 1, ..HostOptions::default() });
    world.start("long", 1).await;
    until_begun(&began, 1).await;
    let before = world.elapsed();
    let id = world.start("none", 0).await;
    world.ended(&id).await;
    let took = world.elapsed() - before;
    assert!(took < Duration::from_millis(50), "it took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn message_that_meets_a_fused_turn_comes_with_its_commit() {
    let world = World::new();
    world.host(Chain::new().fusing().slow_turns(SECOND), HostOptions::default());
    let id = world.start("chain", 2).await;
    // The first turn takes until 1,000 ms; the result of its activity begins the second, which takes until 2,000 ms.
    pass(1_500).await;
    world.client.raise(&id, "event", None).await.unwrap();
    let record = world.ended(&id).await;
    assert_eq!(record.details.output().unwrap().as_str(), "2");
    assert_eq!(raised(&world, &id).await, 1);
    // The start, the first result, the event that came with the answer to that, the second result.
    assert_eq!((record.revision.0, world.plan.count(Op::CommitTurns)), (4, 4));
    assert_eq!((world.plan.count(Op::CompleteActivities), world.plan.count(Op::Release)), (0, 0));
    assert_eq!(world.plan.count(Op::Mail), 0, "nothing was read for a turn that runs");
}

/// An instance that is kept for a task of ten minutes.
async fn kept(world: &World) -> InstanceId {
    let (chain, began) = working(600_000);
    world.host(chain, HostOptions::default());
    let id = world.start("chain", 1).await;
    until_begun(&began, 1).await;
    world.until(&id, |record| record.status == Status::Running).await;
    id
}

#[tokio::test(start_paused = true)]
async fn mail_begins_the_turn_of_a_kept_instance() {
    let world = World::new();
    let id = kept(&world).await;
    let (before, claimed) = (world.elapsed(), world.instance(&id).await.epoch);
    world.client.raise(&id, "event", None).await.unwrap();
    until(async || world.instance(&id).await.record.revision.0 == 2).await;
    assert!(world.elapsed() - before < Duration::from_millis(50), "the hint names the instance");
    let instance = world.instance(&id).await;
    assert_eq!((instance.epoch, raised(&world, &id).await), (claimed, 1), "it has not changed hands");
    assert!(instance.holder.is_some(), "its task still runs");
    assert_eq!(world.plan.count(Op::Mail), 1);
}

#[tokio::test(start_paused = true)]
async fn mail_is_found_by_a_poll_when_its_hint_is_lost() {
    let world = World::with(Plan { no_hints: true, ..Plan::default() });
    let id = kept(&world).await;
    world.client.raise(&id, "event", None).await.unwrap();
    world.until(&id, |record| record.revision.0 == 2).await;
    assert_eq!(raised(&world, &id).await, 1);
}

#[tokio::test(start_paused = true)]
async fn mail_that_could_not_be_read_is_read_again() {
    let world = World::new();
    world.plan.then(Op::Mail, [Fate::of(Act::Refuse), Fate::of(Act::LoseAnswer)]);
    let id = kept(&world).await;
    world.client.raise(&id, "event", None).await.unwrap();
    world.until(&id, |record| record.revision.0 == 2).await;
    assert_eq!(raised(&world, &id).await, 1);
    assert!(world.plan.count(Op::Mail) >= 3, "two reads failed");
}

/// It wakes by time alone while its task runs.
#[tokio::test(start_paused = true)]
async fn message_that_becomes_visible_later_is_read_in_time() {
    let world = World::new();
    let id = kept(&world).await;
    let caller = send::Caller { request: 1, repeatable: true, now: Timestamp(0) };
    let now = world.client.inspect(&id).await.unwrap().unwrap().now;
    let suspend = send::suspend(id.clone(), None, caller).unwrap();
    let later = Message { visible_at: now.after(SECOND * 60), ..suspend };
    world.client.hub().send(vec![later]).await.remove(0).unwrap();
    let before = world.elapsed();
    world.until(&id, |record| record.status == Status::Suspended).await;
    let took = world.elapsed() - before;
    assert!((SECOND * 60..SECOND * 62).contains(&took), "it took {took:?}");
}

/// The second message becomes visible after the sleep for the first has ended, and its hint is lost.
#[tokio::test(start_paused = true)]
async fn look_tells_of_the_message_after_the_next() {
    let world = World::with(Plan { no_hints: true, ..Plan::default() });
    let (chain, began) = working(600_000);
    world.host(chain, HostOptions::default());
    let ids = [world.start("first", 1).await, world.start("second", 1).await];
    until_begun(&began, 2).await;
    let now = world.client.inspect(&ids[0]).await.unwrap().unwrap().now;
    for (id, seconds) in ids.iter().zip([20, 21]) {
        let caller = send::Caller { request: 1, repeatable: true, now: Timestamp(0) };
        let suspend = send::suspend(id.clone(), None, caller).unwrap();
        let later = Message { visible_at: now.after(SECOND * seconds), ..suspend };
        world.client.hub().send(vec![later]).await.remove(0).unwrap();
    }
    let before = world.elapsed();
    let suspended = async || world.instance(&ids[1]).await.record.status == Status::Suspended;
    until_within(SECOND * 40, suspended).await;
    let took = world.elapsed() - before;
    assert!((SECOND * 20..SECOND * 22).contains(&took), "it took {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fused_turn_that_fails_gives_back_what_a_claim_brought_meanwhile() {
    let world = World::new();
    let turns = AtomicUsize::new(0);
    let chain = Chain::new().fusing().slow_turns(SECOND).on_turn(move |_| {
        let second = turns.fetch_add(1, Ordering::Relaxed) == 1;
        if second { Err(Stalled::new(TroubleKind::Panic, "once")) } else { Ok(()) }
    });
    world.host(chain, HostOptions::default());
    let id = world.start("chain", 1).await;
    pass(1_500).await;
    world.client.raise(&id, "event", None).await.unwrap();
    let record = world.ended(&id).await;
    assert_eq!(record.details.output().unwrap().as_str(), "1");
    assert_eq!(raised(&world, &id).await, 1);
    assert_eq!(world.plan.count(Op::Release), 1);
    assert_eq!(world.plan.count(Op::CompleteActivities), 1, "the result had to become a message");
    assert_eq!(record.revision.0, 2, "event and result were there together");
}

#[tokio::test(start_paused = true)]
async fn a_claim_ahead_of_the_lost_answer_waits_for_the_tasks_that_were_taken() {
    let world = World::new();
    world.plan.then(Op::CommitTurns, [Fate::of(Act::LoseAnswer)]);
    let (chain, began) = working(0);
    world.host(chain, HostOptions::default());
    let id = world.start("chain", 1).await;
    world.until(&id, |record| record.status == Status::Running).await;
    // The commit has happened and its answer is lost: the host has not heard of the task that it took.
    assert_eq!(began.load(Ordering::Relaxed), 0);
    world.client.raise(&id, "event", None).await.unwrap();
    let record = world.ended(&id).await;
    assert_eq!((record.details.output().unwrap().as_str(), record.revision.0), ("1", 3));
    assert_eq!(raised(&world, &id).await, 1);
    assert_eq!(began.load(Ordering::Relaxed), 1);
    // The start twice, the event, the result; and nothing was given back on the way.
    assert_eq!((world.plan.count(Op::CommitTurns), world.plan.count(Op::Release)), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stale_result_costs_the_turn_and_not_the_instance() {
    let world = World::new();
    let (slow, began) = working(500);
    let one = world.host(slow, HostOptions::default());
    let id = world.start("chain", 1).await;
    until_begun(&began, 1).await;
    // The lease is over, and another host, which takes no turns, has the task.
    world.store.expire_sessions(&one.id);
    let (slower, taken) = working(700);
    world.host(slower, HostOptions { turns_max: 0, ..HostOptions::default() });
    until_begun(&taken, 1).await;
    pass(550).await;
    assert_eq!(world.plan.count(Op::CommitTurns), 2, "the result of the first host was not tried");
    assert_eq!(world.dropped(DropReason::NotHeld).await, 1, "nor was it dropped as a message");
    assert_eq!(world.instance(&id).await.holder, None, "the instance was not given back");
    let record = world.ended(&id).await;
    assert_eq!((record.details.output().unwrap().as_str(), record.revision.0), ("1", 2));
}

/// Another session takes what is ready.
async fn take_over(world: &World) -> (Arc<dyn Work>, ClaimedTurn) {
    let host =
        Host { id: HostId::new("raw").unwrap(), session: SessionId(7), lease: SECOND, runs_code: true };
    let work = world.hub.attach(host).await.unwrap();
    let claimed = win_turns(&*work, 1).await.pop().unwrap();
    (work, claimed)
}

#[tokio::test(start_paused = true)]
async fn the_result_of_a_superseded_turn_is_not_lost() {
    let world = World::new();
    let (chain, began) = working(0);
    let one = world.host(chain.slow_turns(SECOND), HostOptions::default());
    let id = world.start("chain", 1).await;
    // The turn of the result runs from 1,000 ms to 2,000 ms. Meanwhile the instance has been in other hands.
    pass(1_500).await;
    world.store.expire_sessions(&one.id);
    world.client.raise(&id, "event", None).await.unwrap();
    let (work, _) = take_over(&world).await;
    work.detach().await.unwrap();
    let record = world.ended(&id).await;
    assert_eq!((record.details.output().unwrap().as_str(), raised(&world, &id).await), ("1", 1));
    assert_eq!((began.load(Ordering::Relaxed), world.plan.count(Op::CompleteActivities)), (1, 1));

    // The same while the result still waits for its turn, after that of an event from 1,100 ms to 2,100 ms.
    let world = World::new();
    let (chain, began) = working(300);
    let one = world.host(chain.slow_turns(SECOND), HostOptions::default());
    let id = world.start("chain", 1).await;
    pass(1_100).await;
    world.client.raise(&id, "event", None).await.unwrap();
    pass(500).await;
    world.store.expire_sessions(&one.id);
    let (work, _) = take_over(&world).await;
    work.detach().await.unwrap();
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "1");
    assert_eq!((began.load(Ordering::Relaxed), world.plan.count(Op::CompleteActivities)), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn tasks_that_a_lost_commit_took_are_given_back() {
    let world = World::new();
    world.plan.then(Op::CommitTurns, [Fate::of(Act::LoseAnswer)]);
    let (chain, began) = working(0);
    let one = world.host(chain, HostOptions::default());
    let id = world.start("chain", 1).await;
    world.until(&id, |record| record.status == Status::Running).await;
    // Before the host can ask again another one takes the instance and commits: it will never hear what it took.
    world.store.expire_sessions(&one.id);
    world.client.raise(&id, "event", None).await.unwrap();
    let (work, claimed) = take_over(&world).await;
    let checkpoint = Checkpoint {
        fence: claimed.fence,
        consumed: claimed.messages.iter().map(|message| message.id).collect(),
        completions: Vec::new(),
        history: History::Append(Batch::join(&[], Vec::new(), Vec::new()).unwrap()),
        record: claimed.record.clone().since(&claimed.record.details),
        tasks: Vec::new(),
        timers: Vec::new(),
        messages: Vec::new(),
        take: 0,
        then: Then::Release { delay: Duration::ZERO },
    };
    work.commit_turns(vec![checkpoint.into()]).await.pop().unwrap().unwrap();
    assert_eq!(began.load(Ordering::Relaxed), 0);
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "1");
    assert_eq!(began.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stopping_host_commits_what_its_activities_bring_and_keeps_nothing() {
    let world = World::new();
    let (chain, began) = working(500);
    let one = world.host(chain, HostOptions::default());
    let id = world.start("chain", 3).await;
    until_begun(&began, 1).await;
    assert!(world.instance(&id).await.holder.is_some());
    one.stop().await;
    assert_eq!(world.sessions().await, []);
    let dump = world.instance(&id).await;
    assert_eq!((dump.record.revision.0, dump.holder), (2, None), "the result was not committed");
    assert_eq!(world.plan.count(Op::CompleteActivities), 0);
    let stopped_at = world.elapsed();
    let (chain, later) = working(0);
    world.host(chain, HostOptions::default());
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "3");
    assert!(world.elapsed() - stopped_at < SECOND, "somebody waited for a lease");
    assert_eq!((began.load(Ordering::Relaxed), later.load(Ordering::Relaxed)), (1, 2), "nothing ran twice");
}

#[tokio::test(start_paused = true)]
async fn a_stopping_host_leaves_as_soon_as_its_last_activity_has_ended() {
    let world = World::new();
    // So long that the result has to go to the inbox, where nobody here waits for it any more.
    let (chain, began) = working(5_000);
    let one = world.host(chain, HostOptions::default());
    let id = world.start("chain", 1).await;
    until_begun(&began, 1).await;
    one.stop().await;
    assert!(world.elapsed() < Duration::from_secs(6), "it left after {:?}", world.elapsed());
    let dump = world.instance(&id).await;
    assert_eq!((dump.inbox.len(), dump.holder), (1, None));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_meets_a_suspend_waits_in_the_inbox() {
    let world = World::new();
    let (chain, _) = working(500);
    world.host(chain.slow_turns(SECOND), HostOptions::default());
    let id = world.start("chain", 1).await;
    // The first turn takes until 1,000 ms, its activity until 1,500; the turn of the event from 1,100 until 2,100.
    pass(1_100).await;
    world.client.raise(&id, "event", None).await.unwrap();
    pass(500).await;
    world.client.suspend(&id, None).await.unwrap();
    // Event, then suspend and result together.
    world.until(&id, |record| record.status == Status::Suspended).await;
    until(async || !world.instance(&id).await.inbox.is_empty()).await;
    let dump = world.instance(&id).await;
    assert_eq!((dump.record.revision.0, dump.inbox.len(), dump.holder), (3, 1, None));
    assert_eq!(world.plan.count(Op::CompleteActivities), 1);
    world.client.resume(&id, None).await.unwrap();
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "1");
}

#[tokio::test(start_paused = true)]
async fn a_result_that_the_store_does_not_take_becomes_a_failure() {
    let world = World::new();
    let limits = world.hub.limits();
    world.store.set_limits(dauer_store::StoreLimits { message_bytes: 1_000, ..limits });
    let chain = Chain::new().fusing().on_activity(|_| async { Ok(Some("x".repeat(2_000))) }.boxed());
    world.host(chain, HostOptions::default());
    let id = world.start("chain", 1).await;
    let record = world.ended(&id).await;
    let failure: dauer_proto::TaskFailureDetails = record.details.failure().unwrap().decode().unwrap();
    assert_eq!((record.status, failure.error_type.as_str()), (Status::Failed, "ResultTooLarge"));
    assert_eq!(record.revision.0, 2);
    assert_eq!(world.plan.count(Op::Release), 1);
    // What is given back as failed rests for a while.
    assert!(world.elapsed() < Duration::from_millis(50), "the turn was blamed for the result");
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_a_result_begins_knows_what_time_it_is() {
    for (millis, messages) in [(400, 0), (3_600_000, 1)] {
        let world = World::new();
        let (chain, _) = working(millis);
        world.host(chain, HostOptions::default());
        let id = world.start("chain", 1).await;
        world.ended(&id).await;
        let started = |event: &HistoryEvent| {
            let is_time = matches!(event.event_type, Some(EventType::OrchestratorStarted(_)));
            let at = event.timestamp.as_ref().map(|at| dauer_proto::time::to_millis_ceil(at).unwrap());
            at.filter(|_| is_time)
        };
        let times: Vec<i64> = history(&world, &id).await.iter().filter_map(started).collect();
        let [first, second] = times[..] else { panic!("{times:?}") };
        // Clocks are read in whole milliseconds: one may be missing.
        let passed = i64::try_from(millis).unwrap() - 1;
        assert!((passed..passed + 100).contains(&(second - first)), "{} of {millis} ms", second - first);
        // Nobody told this host the time for an hour: it has to ask the store.
        assert_eq!(world.plan.count(Op::CompleteActivities), messages);
    }
}

#[tokio::test(start_paused = true)]
async fn instances_that_never_rest_keep_nobody_out() {
    let world = World::new();
    // Five milliseconds for a turn, one turn at a time, and three instances that have results for ever. Their first
    // activities take 0, 2 and 4 ms: from then on there is no moment at which none of them turns.
    let chain = Chain::new().fusing().slow_turns(Duration::from_millis(5)).on_activity(|lease| {
        let first = lease.task.event_id == 0;
        async move {
            match lease.fence.instance.as_str() {
                "b" if first => pass(2).await,
                "c" if first => pass(4).await,
                _ => {}
            }
            Ok(Some("1".into()))
        }
        .boxed()
    });
    world.host(chain, HostOptions { turns_max: 1, ..HostOptions::default() });
    for name in ["a", "b", "c"] {
        world.start(name, 100_000).await;
    }
    for name in ["a", "b", "c"] {
        let id = InstanceId::new(name).unwrap();
        world.client.wait(&id, SECOND, |record| record.revision.0 > 5).await.unwrap();
    }
    let other = world.start("other", 3).await;
    let record = world.client.wait_ended(&other, SECOND).await;
    assert_eq!(record.expect("it was kept out").details.output().unwrap().as_str(), "3");
    for name in ["a", "b", "c"] {
        let busy = world.client.get(&InstanceId::new(name).unwrap()).await.unwrap().unwrap();
        assert_eq!(busy.status, Status::Running);
    }
}

#[tokio::test(start_paused = true)]
async fn commits_are_sent_while_more_are_made() {
    let world = World::new();
    for i in 0..150 {
        world.start(&format!("i{i}"), 1).await;
    }
    let turns_only = HostOptions { activities_max: 0, ..HostOptions::default() };
    world.host(Chain::new(), turns_only);
    world.until(&InstanceId::new("i149").unwrap(), |record| record.status == Status::Running).await;
    // Claimed together, 64 go together: 64, 64 and 22.
    assert_eq!(world.plan.count(Op::CommitTurns), 3);
}
