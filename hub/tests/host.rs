//! A host's life in virtual time: claims, cache, renewal, back-off, takeover, trouble.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt;

use dauer_core::model::{Status, TroubleKind};
use dauer_core::turn::Stalled;
use dauer_hub::{HostOptions, TroublePolicy};
use dauer_store::{DropReason, Host, Item, Release, SessionId, StoreLimits};

use crate::support::{Act, Chain, Fate, Op, Plan, World, win_tasks};

#[tokio::test(start_paused = true)]
async fn a_chain_runs_to_its_end() {
    let world = World::new();
    world.host(Chain::new(), HostOptions::default());
    let id = world.start("chain", 5).await;
    let record = world.ended(&id).await;
    assert_eq!((record.status, record.details.output().unwrap().as_str()), (Status::Completed, "5"));
    // Start, five answers: six turns, and each is one commit.
    assert_eq!(record.revision.0, 6);
}

#[tokio::test(start_paused = true)]
async fn a_cached_instance_is_not_loaded_again() {
    let world = World::new();
    world.host(Chain::new(), HostOptions::default());
    let id = world.start("chain", 20).await;
    world.ended(&id).await;
    assert_eq!(world.plan.count(Op::LoadHistory), 0);

    let world = World::new();
    world.host(Chain::new(), HostOptions { cache_instances_max: 0, ..HostOptions::default() });
    let id = world.start("chain", 20).await;
    world.ended(&id).await;
    assert_eq!(world.plan.count(Op::LoadHistory), 20, "every turn but the first reads the history");
}

#[tokio::test(start_paused = true)]
async fn what_is_cached_is_dropped_after_an_unknown_outcome() {
    let world = World::new();
    world.plan.then(
        Op::CommitTurns,
        [Fate::PASS, Fate::of(Act::LoseAnswer), Fate::PASS, Fate::of(Act::LoseRequest)],
    );
    world.host(Chain::new(), HostOptions::default());
    let id = world.start("chain", 5).await;
    let record = world.ended(&id).await;
    assert_eq!(
        (record.details.output().unwrap().as_str(), record.revision.0),
        ("5", 6),
        "nothing was committed twice"
    );
    // The second had happened: the answer of its task came before the retry, and settled it. The fourth had not, and
    // was committed again. The turn after each of them had to load.
    assert_eq!(world.plan.count(Op::CommitTurns), 7);
    assert_eq!(world.plan.count(Op::LoadHistory), 2);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_a_while_costs_time_and_no_work() {
    let world = World::new();
    for call in [Op::Next, Op::CommitTurns, Op::CompleteActivities] {
        world.plan.then(call, [Fate::of(Act::Refuse); 5]);
    }
    world.host(Chain::new(), HostOptions::default());
    let id = world.start("chain", 3).await;
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "3");
}

#[tokio::test(start_paused = true)]
async fn everything_still_happens_when_every_hint_is_lost() {
    let world = World::with(Plan { no_hints: true, ..Plan::default() });
    world.host(Chain::new(), HostOptions::default());
    let id = world.start("chain", 3).await;
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "3");
    assert!(world.elapsed() < Duration::from_secs(60), "polling took {:?}", world.elapsed());
}

/// An activity that takes that long, and counts how often it began.
fn slow(counter: &Arc<AtomicUsize>, duration: Duration) -> Chain {
    let counter = Arc::clone(counter);
    Chain::new().on_activity(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
        async move {
            tokio::time::timeout(duration, futures::future::pending::<()>()).await.unwrap_err();
            Ok(Some("1".into()))
        }
        .boxed()
    })
}

#[tokio::test(start_paused = true)]
async fn a_renewed_session_keeps_an_activity_for_many_leases() {
    let world = World::new();
    let began = Arc::new(AtomicUsize::new(0));
    let hour = Duration::from_secs(3600);
    let _one = world.host(slow(&began, hour), HostOptions::default());
    let _two = world.host(slow(&began, hour), HostOptions::default());
    let id = world.start("chain", 1).await;
    assert_eq!(world.ended(&id).await.status, Status::Completed);
    assert_eq!(began.load(Ordering::Relaxed), 1, "it was taken over although its host was alive");
    // Two sessions for an hour at half of 30 seconds each.
    let renewals = world.plan.count(Op::Renew);
    assert!((460..=500).contains(&renewals), "{renewals} renewals");
}

#[tokio::test(start_paused = true)]
async fn a_zombies_work_is_taken_over_and_applied_once() {
    let world = World::new();
    let began = Arc::new(AtomicUsize::new(0));
    let minute = Duration::from_secs(60);
    let one = world.host(slow(&began, minute), HostOptions::default());
    let id = world.start("chain", 1).await;
    world.until(&id, |record| record.status == Status::Running).await;
    let _two = world.host(slow(&began, minute), HostOptions::default());
    while began.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    // The first host lives and goes on, but its lease is over: the second takes the task.
    world.store.expire_sessions(&one.id);
    let record = world.ended(&id).await;
    assert_eq!(began.load(Ordering::Relaxed), 2, "nobody took it over");
    assert_eq!(
        (record.details.output().unwrap().as_str(), record.revision.0),
        ("1", 2),
        "two answers, one applied"
    );
    while world.dropped(DropReason::NotHeld).await == 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_cannot_renew_takes_no_more_work_until_it_can() {
    let world = World::new();
    world.plan.always.lock().unwrap().insert(Op::Renew, Fate::of(Act::Refuse));
    let _host = world.host(Chain::new(), HostOptions::default());
    let pass = |seconds| tokio::time::timeout(Duration::from_secs(seconds), futures::future::pending::<()>());
    pass(31).await.unwrap_err();
    let before = world.plan.count(Op::Next);
    let id = world.start("chain", 1).await;
    pass(60).await.unwrap_err();
    assert_eq!(world.plan.count(Op::Next), before, "it claimed with a lease that had run out");
    world.plan.always.lock().unwrap().clear();
    assert_eq!(world.ended(&id).await.status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn a_dead_hosts_work_is_taken_over_after_its_lease() {
    let world = World::new();
    let began = Arc::new(AtomicUsize::new(0));
    let one = world.host(slow(&began, Duration::from_secs(5)), HostOptions::default());
    let id = world.start("chain", 1).await;
    world.until(&id, |record| record.status == Status::Running).await;
    while began.load(Ordering::Relaxed) == 0 {
        tokio::task::yield_now().await;
    }
    one.kill();
    let _two = world.host(slow(&began, Duration::from_secs(5)), HostOptions::default());
    assert_eq!(world.ended(&id).await.status, Status::Completed);
    assert_eq!(began.load(Ordering::Relaxed), 2);
    let (lease, poll) = (Duration::from_secs(30), Duration::from_secs(10));
    let elapsed = world.elapsed();
    assert!((lease..lease + poll).contains(&elapsed), "taken over after {elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_host_whose_session_was_ended_opens_another() {
    let world = World::new();
    world.host(Chain::new(), HostOptions::default());
    let id = world.start("one", 1).await;
    world.ended(&id).await;
    let sessions = world.sessions().await;
    assert_eq!(sessions.len(), 1);
    world.hub.end_session(sessions[0]).await.unwrap();
    let id = world.start("two", 3).await;
    assert_eq!(world.ended(&id).await.status, Status::Completed);
    assert_eq!(world.plan.count(Op::Attach), 2);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_turn_is_tried_again_with_growing_delay_and_shown() {
    let world = World::new();
    let tries = Arc::new(Mutex::new(Vec::new()));
    let chain = {
        let (tries, began) = (Arc::clone(&tries), tokio::time::Instant::now());
        Chain::new().on_turn(move |_| {
            tries.lock().unwrap().push(began.elapsed());
            Err(Stalled::new(TroubleKind::Mismatch, "the code has changed"))
        })
    };
    world.host(chain, HostOptions::default());
    let id = world.start("chain", 1).await;
    let record = world.until(&id, |record| record.attempts == 12).await;
    let trouble = record.trouble.unwrap();
    assert_eq!((trouble.kind, trouble.reason.as_str()), (TroubleKind::Mismatch, "the code has changed"));
    assert_eq!(record.status, Status::Pending, "a mismatch never becomes Failed by default");
    let tries = tries.lock().unwrap();
    let gaps: Vec<_> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (attempt, gap) in gaps.iter().enumerate() {
        let full = Duration::from_millis(100 << attempt.min(20)).min(Duration::from_secs(600));
        // The jitter takes up to half; the host may sleep up to its poll on top.
        assert!(
            *gap >= full / 2 && *gap <= full + Duration::from_secs(5),
            "attempt {attempt}: {gap:?} of {full:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn trouble_becomes_failed_when_its_setting_says_so() {
    let world = World::new();
    let chain = Chain::new().on_turn(|_| Err(Stalled::new(TroubleKind::Panic, "it broke")));
    let trouble = TroublePolicy { panic: Some(4), ..TroublePolicy::default() };
    world.host(chain, HostOptions { trouble, ..HostOptions::default() });
    let id = world.start("chain", 1).await;
    let record = world.ended(&id).await;
    assert_eq!(record.status, Status::Failed);
    let failure: dauer_proto::TaskFailureDetails = record.details.failure().unwrap().decode().unwrap();
    assert_eq!(failure.error_type, "Panic");
    assert_eq!(failure.error_message, "gave up after 4 attempts: it broke");
}

/// A bad deployment: no kind of trouble fails a run by default, and none counts for another.
#[tokio::test(start_paused = true)]
async fn no_kind_of_trouble_fails_a_run_by_default() {
    use TroubleKind::{InvalidAnswer, Mismatch, NotDurable, Panic, TooLarge, Undecodable, UnknownName};
    let world = World::new();
    let kinds = [UnknownName, Panic, Mismatch, Undecodable, NotDurable, InvalidAnswer, TooLarge];
    let turns = Arc::new(AtomicUsize::new(0));
    let chain = Chain::new().on_turn(move |_| match turns.fetch_add(1, Ordering::Relaxed) {
        turn if turn < 70 => Err(Stalled::new(kinds[turn % kinds.len()], "the deployment is bad")),
        _ => Ok(()),
    });
    let delay = Duration::from_secs(1);
    world.host(chain, HostOptions { stalled_delay_max: delay, ..HostOptions::default() });
    let id = world.start("chain", 1).await;
    let record = world.until(&id, |record| record.attempts == 69).await;
    let trouble = record.trouble.unwrap();
    assert_eq!((trouble.kind, trouble.attempts), (InvalidAnswer, 10), "each kind counts for itself");
    assert_eq!(trouble.others.len(), kinds.len() - 1);
    assert_eq!(world.ended(&id).await.status, Status::Completed, "a good one goes on");
}

#[tokio::test(start_paused = true)]
async fn trouble_of_another_kind_does_not_give_up_a_run() {
    let world = World::new();
    let turns = Arc::new(AtomicUsize::new(0));
    let chain = Chain::new().on_turn(move |_| match turns.fetch_add(1, Ordering::Relaxed) {
        turn if turn < 30 => Err(Stalled::new(TroubleKind::UnknownName, "no such code")),
        30 => Err(Stalled::new(TroubleKind::Panic, "it broke")),
        _ => Ok(()),
    });
    let trouble = TroublePolicy { panic: Some(2), ..TroublePolicy::default() };
    let delay = Duration::from_secs(1);
    world.host(chain, HostOptions { trouble, stalled_delay_max: delay, ..HostOptions::default() });
    let id = world.start("chain", 1).await;
    assert_eq!(world.ended(&id).await.status, Status::Completed);
}

/// Its trouble is counted, although the checkpoint that was refused has none.
#[tokio::test(start_paused = true)]
async fn turn_whose_commit_is_refused_is_tried_ever_more_rarely() {
    let world = World::new();
    let id = world.start("chain", 1).await;
    world.store.set_limits(StoreLimits { checkpoint_items: 0, ..world.hub.limits() });
    let turns = Arc::new(AtomicUsize::new(0));
    let chain = {
        let turns = Arc::clone(&turns);
        Chain::new().on_turn(move |_| {
            turns.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    };
    world.host(chain, HostOptions::default());
    let record = world.until(&id, |record| record.attempts == 8).await;
    assert_eq!(record.trouble.unwrap().kind, TroubleKind::TooLarge);
    assert!(world.elapsed() >= Duration::from_secs(5), "{:?}", world.elapsed());
    assert_eq!(turns.load(Ordering::Relaxed), 8);
}

#[tokio::test(start_paused = true)]
async fn activity_that_never_answers_is_answered_as_failed() {
    let world = World::new();
    // Hosts that can only take turns: the task stays.
    let turns_only = HostOptions { activities_max: 0, ..HostOptions::default() };
    let first = world.host(Chain::new(), turns_only);
    let id = world.start("chain", 1).await;
    world.until(&id, |record| record.status == Status::Running).await;
    first.kill();
    let session = SessionId(7);
    let host = Host {
        id: dauer_store::HostId::new("raw").unwrap(),
        session,
        lease: Duration::from_secs(30),
        runs_code: true,
    };
    let work = world.hub.attach(host).await.unwrap();
    for _ in 0..3 {
        let leases = win_tasks(&*work, 1).await;
        let item = Item::Task(leases[0].fence.clone());
        let release = Release { item, delay: Duration::ZERO, trouble: None, failed: true };
        work.release(vec![release]).await.pop().unwrap().unwrap();
    }
    world.host(Chain::new(), HostOptions { task_attempts_max: 3, ..HostOptions::default() });
    let record = world.ended(&id).await;
    let failure: dauer_proto::TaskFailureDetails = record.details.failure().unwrap().decode().unwrap();
    assert_eq!((record.status, failure.error_type.as_str()), (Status::Failed, "ActivityCrashed"));
}

#[tokio::test(start_paused = true)]
async fn an_idle_host_asks_rarely() {
    let world = World::new();
    world.host(Chain::new(), HostOptions::default());
    tokio::time::timeout(Duration::from_secs(600), futures::future::pending::<()>()).await.unwrap_err();
    let claims = world.plan.count(Op::Next);
    // One every two and a half to five seconds, after a short beginning.
    assert!((100..=260).contains(&claims), "{claims} claims in ten minutes");
}
