//! Instances that no host runs are terminated, suspended, resumed and replaced by the client itself.

#![allow(clippy::unwrap_used)] // Also in what the tests share.

use std::time::Duration;

use dauer_core::model::{Hold, Over, Status, TroubleKind};
use dauer_core::send::{self, Caller, StartRequest};
use dauer_core::turn::Stalled;
use dauer_core::{ExecutionId, InstanceId, Timestamp};
use dauer_hub::{Client, ClientError, HostOptions};
use dauer_store::{Checkpoint, Created, History, Refused, Reuse, Then};

use crate::support::{Act, Chain, Fate, HOUR, Op, World, pass, raw, win_turns};

/// Two polls of a client, and less than three.
const TWO_POLLS: std::ops::Range<Duration> = Duration::from_secs(4)..Duration::from_secs(6);

/// A policy that replaces whatever is there.
fn any() -> Reuse {
    let all = [Status::Pending, Status::Running, Status::Suspended];
    Reuse { replaceable: all.into_iter().chain(Reuse::default().replaceable).collect() }
}

fn request(id: &InstanceId, steps: u32) -> StartRequest {
    StartRequest { input: Some(steps.to_string()), ..StartRequest::new(id.clone(), "chain") }
}

async fn status(world: &World, id: &InstanceId) -> Status {
    world.client.get(id).await.unwrap().unwrap().status
}

/// How many messages wait for an instance.
async fn waiting(world: &World, id: &InstanceId) -> u64 {
    world.client.inspect(id).await.unwrap().unwrap().waiting
}

/// An instance that has begun, waits for an activity that no host runs, and is held by no session.
async fn begun(world: &World) -> InstanceId {
    let host = world.host(Chain::new(), HostOptions { activities_max: 0, ..HostOptions::default() });
    let id = world.start("begun", 1).await;
    world.until(&id, |record| record.status == Status::Running).await;
    host.stop().await;
    assert!(world.client.inspect(&id).await.unwrap().unwrap().holder.is_none());
    id
}

#[tokio::test(start_paused = true)]
async fn pending_run_without_a_host_is_terminated_at_once() {
    let world = World::new();
    let (id, before) = (world.start("unknown", 3).await, world.elapsed());
    world.client.terminate(&id, Some("\"no\"".into()), true).await.unwrap();
    let record = world.client.get(&id).await.unwrap().unwrap();
    assert_eq!((record.status, record.details.output().unwrap().as_str()), (Status::Terminated, "\"no\""));
    assert_eq!((world.elapsed(), world.plan.count(Op::Send)), (before, 0), "by one write");
    assert_eq!(waiting(&world, &id).await, 0, "its start is gone");
    let started = world.client.started(&id, &record).await.unwrap();
    assert_eq!((started.name.as_str(), started.input.as_deref()), ("chain", Some("3")), "it can be read");
    // Again, it has ended, which is no error.
    world.client.terminate(&id, None, true).await.unwrap();
    world.client.purge(&id).await.unwrap();
    assert!(world.client.get(&id).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn terminated_unborn_run_is_restarted() {
    let world = World::new();
    let id = world.start("unknown", 1).await;
    world.client.terminate(&id, None, false).await.unwrap();
    let restarted = world.client.restart(&id, None, 7).await.unwrap();
    assert!(matches!(restarted, Created::New(_)), "{restarted:?}");
    let _host = world.host(Chain::new(), HostOptions::default());
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "1");
}

#[tokio::test(start_paused = true)]
async fn forced_end_of_an_unborn_run_leaves_no_start() {
    let world = World::new();
    let id = world.start("unknown", 1).await;
    world.client.force_terminate(&id, None, false).await.unwrap();
    assert_eq!((status(&world, &id).await, waiting(&world, &id).await), (Status::Terminated, 0));
    let again = world.client.force_terminate(&id, None, false).await;
    assert!(matches!(again, Err(ClientError::Ended { status: Status::Terminated, .. })), "{again:?}");
    world.client.purge(&id).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn begun_run_without_a_host_ends_after_two_polls() {
    let world = World::new();
    let id = begun(&world).await;
    let before = world.elapsed();
    world.client.terminate(&id, Some("\"no\"".into()), false).await.unwrap();
    assert!(TWO_POLLS.contains(&(world.elapsed() - before)), "{:?}", world.elapsed() - before);
    assert_eq!((status(&world, &id).await, waiting(&world, &id).await), (Status::Terminated, 0));
}

/// The host answers sooner than the client looks for the first time.
#[tokio::test(start_paused = true)]
async fn begun_run_with_a_host_ends_by_its_own_code() {
    let world = World::new();
    let _host = world.host(Chain::new(), HostOptions { activities_max: 0, ..HostOptions::default() });
    let id = world.start("begun", 1).await;
    world.until(&id, |record| record.status == Status::Running).await;
    let (before, amended) = (world.elapsed(), world.plan.count(Op::Amend));
    world.client.terminate(&id, None, false).await.unwrap();
    assert_eq!(status(&world, &id).await, Status::Terminated);
    assert!(world.elapsed() - before < Duration::from_millis(100), "{:?}", world.elapsed() - before);
    assert_eq!(world.plan.count(Op::Amend), amended);
}

#[tokio::test(start_paused = true)]
async fn run_that_a_live_session_holds_is_left_to_it() {
    let world = World::new();
    let id = begun(&world).await;
    world.client.raise(&id, "wake", None).await.unwrap();
    let session = raw(&world, 7).await;
    assert_eq!(win_turns(&*session, 1).await.len(), 1);
    world.client.terminate(&id, None, false).await.unwrap();
    assert_eq!(status(&world, &id).await, Status::Running, "its host has it");
    pass(2 * HOUR.as_secs()).await;
    world.client.terminate(&id, None, false).await.unwrap();
    assert_eq!(status(&world, &id).await, Status::Terminated, "the session has expired");
}

#[tokio::test(start_paused = true)]
async fn run_in_trouble_is_terminated_at_once() {
    let world = World::new();
    let unknown = || Stalled::new(TroubleKind::UnknownName, "no code of that name");
    let _host = world.host(Chain::new().on_turn(move |_| Err(unknown())), HostOptions::default());
    let id = world.start("unknown", 1).await;
    world.until(&id, |record| record.trouble.is_some()).await;
    let before = world.elapsed();
    world.client.terminate(&id, None, false).await.unwrap();
    assert_eq!((status(&world, &id).await, world.elapsed()), (Status::Terminated, before));
    world.client.purge(&id).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn suspended_unborn_run_begins_when_it_is_resumed() {
    let world = World::new();
    let id = world.start("later", 1).await;
    world.client.suspend(&id, Some("wait".into())).await.unwrap();
    world.client.suspend(&id, None).await.unwrap();
    let record = world.client.get(&id).await.unwrap().unwrap();
    assert_eq!((record.status, record.hold()), (Status::Suspended, Hold::Unborn));
    let _host = world.host(Chain::new(), HostOptions::default());
    pass(60).await;
    let record = world.client.get(&id).await.unwrap().unwrap();
    assert_eq!((record.status, record.history_len), (Status::Suspended, 0), "it has not begun");
    let waited = world.client.wait_started(&id, Duration::from_secs(5)).await;
    assert!(matches!(waited, Err(ClientError::TimedOut(_))), "{waited:?}");
    world.client.resume(&id, None).await.unwrap();
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "1");
}

#[tokio::test(start_paused = true)]
async fn begun_run_without_a_host_is_suspended_and_resumed() {
    let world = World::new();
    let id = begun(&world).await;
    world.client.suspend(&id, None).await.unwrap();
    assert_eq!((status(&world, &id).await, waiting(&world, &id).await), (Status::Suspended, 0));
    world.client.resume(&id, None).await.unwrap();
    assert_eq!(status(&world, &id).await, Status::Running);
    let _host = world.host(Chain::new(), HostOptions::default());
    assert_eq!(
        world.ended(&id).await.details.output().unwrap().as_str(),
        "1",
        "its history is one that code can follow"
    );
}

#[tokio::test(start_paused = true)]
async fn pending_run_is_replaced_by_one_write() {
    let world = World::new();
    let id = InstanceId::new("replaced").unwrap();
    let first = world.client.start_requested(request(&id, 1), any(), 1).await.unwrap();
    let before = world.elapsed();
    let second = world.client.start_requested(request(&id, 2), any(), 2).await.unwrap();
    let (Created::New(first), Created::New(second)) = (first, second) else { panic!("{first:?} {second:?}") };
    assert_eq!((world.elapsed(), world.plan.count(Op::Amend)), (before, 1));
    let record = world.client.get(&id).await.unwrap().unwrap();
    assert_eq!((record.execution, record.status), (second, Status::Pending));
    assert_ne!(first, second);
    // A repeat of either start begins no run.
    for key in [1, 2] {
        let again = world.client.start_requested(request(&id, 9), any(), key).await.unwrap();
        assert!(matches!(again, Created::Repeat(_)), "{again:?}");
    }
    let _host = world.host(Chain::new(), HostOptions::default());
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "2");
}

#[tokio::test(start_paused = true)]
async fn status_outside_the_policy_is_not_replaced() {
    let world = World::new();
    let id = world.start("kept", 1).await;
    let running = Reuse { replaceable: vec![Status::Running, Status::Terminated] };
    let refused = world.client.start(request(&id, 2), running).await.unwrap_err();
    assert!(matches!(refused, ClientError::Refused(Refused::Exists(Status::Pending))), "{refused}");
    assert_eq!(world.plan.count(Op::Amend), 0);
}

#[tokio::test(start_paused = true)]
async fn begun_run_without_a_host_is_replaced_after_two_polls() {
    let world = World::new();
    let id = begun(&world).await;
    let before = world.elapsed();
    world.client.start_requested(request(&id, 2), any(), 2).await.unwrap();
    assert!(TWO_POLLS.contains(&(world.elapsed() - before)), "{:?}", world.elapsed() - before);
    assert_eq!((status(&world, &id).await, waiting(&world, &id).await), (Status::Pending, 1));
    let _host = world.host(Chain::new(), HostOptions::default());
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "2");
}

/// The client dies before its amendment reaches the store: the old run is as before, and the same start replaces it.
#[tokio::test(start_paused = true)]
async fn client_that_dies_before_the_amendment_loses_nothing() {
    let world = World::new();
    let id = world.start("replaced", 1).await;
    let old = world.client.get(&id).await.unwrap().unwrap();
    world.plan.then(Op::Amend, [Fate::PASS.late(HOUR)]);
    let dies = world.client.start_requested(request(&id, 2), any(), 2);
    tokio::time::timeout(Duration::from_secs(1), dies).await.unwrap_err();
    assert_eq!(world.client.get(&id).await.unwrap().unwrap(), old);
    let again = world.client.start_requested(request(&id, 2), any(), 2).await.unwrap();
    assert!(matches!(again, Created::New(_)), "{again:?}");
    let _host = world.host(Chain::new(), HostOptions::default());
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "2");
}

/// The client dies while it waits for a host: its message waits, and the next call carries it out.
#[tokio::test(start_paused = true)]
async fn client_that_dies_after_its_message_is_succeeded() {
    let world = World::new();
    let id = begun(&world).await;
    let second = Duration::from_secs(1);
    let dies = world.client.start_requested(request(&id, 2), any(), 2);
    tokio::time::timeout(second, dies).await.unwrap_err();
    assert_eq!((status(&world, &id).await, waiting(&world, &id).await), (Status::Running, 1));
    let again = world.client.start_requested(request(&id, 2), any(), 2).await.unwrap();
    assert!(matches!(again, Created::Repeat(_)), "{again:?}");
    assert_eq!(status(&world, &id).await, Status::Pending, "the start has its run");

    let requested = world.client.for_request(5);
    let id = InstanceId::new("begun").unwrap();
    world.client.terminate(&id, None, false).await.unwrap();
    world.client.purge(&id).await.unwrap();
    let id = begun(&world).await;
    tokio::time::timeout(second, requested.terminate(&id, None, false)).await.unwrap_err();
    assert_eq!((status(&world, &id).await, waiting(&world, &id).await), (Status::Running, 1));
    requested.terminate(&id, None, false).await.unwrap();
    assert_eq!((status(&world, &id).await, waiting(&world, &id).await), (Status::Terminated, 0));
}

#[tokio::test(start_paused = true)]
async fn amendment_of_unknown_outcome_is_written_once() {
    let world = World::new();
    let id = world.start("unknown", 1).await;
    world.plan.then(Op::Amend, [Fate::of(Act::LoseAnswer), Fate::of(Act::LoseRequest)]);
    world.client.terminate(&id, None, false).await.unwrap();
    let record = world.client.get(&id).await.unwrap().unwrap();
    assert_eq!((record.status, record.revision.0), (Status::Terminated, 1));
}

/// A host claims the instance before the client writes: the commit of the host is refused.
#[tokio::test(start_paused = true)]
async fn claimed_unborn_run_that_is_ended_has_no_turn() {
    let world = World::new();
    let id = world.start("claimed", 1).await;
    let session = raw(&world, 7).await;
    let turn = win_turns(&*session, 1).await.remove(0);
    world.client.terminate(&id, None, false).await.unwrap();
    let checkpoint = Checkpoint {
        fence: turn.fence,
        consumed: turn.messages.iter().map(|message| message.id).collect(),
        completions: Vec::new(),
        history: History::Append(dauer_core::model::Batch::join(&[], Vec::new(), Vec::new()).unwrap()),
        record: turn.record.clone().since(&turn.record.details),
        tasks: Vec::new(),
        timers: Vec::new(),
        messages: Vec::new(),
        take: 0,
        then: Then::Keep,
    };
    let refused = session.commit_turns(vec![checkpoint.into()]).await.remove(0);
    assert!(matches!(refused, Err(Refused::Fenced)), "{refused:?}");
    assert_eq!(status(&world, &id).await, Status::Terminated);
}

/// The host commits between the client's read and its amendment: that is refused, and the client sends a message.
#[tokio::test(start_paused = true)]
async fn run_that_begins_before_the_amendment_gets_the_message() {
    for suspends in [false, true] {
        let world = World::new();
        let id = world.start("raced", 1).await;
        world.plan.then(Op::Amend, [Fate::PASS.late(Duration::from_secs(10))]);
        let act = async {
            match suspends {
                true => world.client.suspend(&id, None).await.unwrap(),
                false => world.client.terminate(&id, None, false).await.unwrap(),
            }
        };
        let begin = async {
            pass(1).await;
            let host = world.host(Chain::new(), HostOptions { activities_max: 0, ..HostOptions::default() });
            world.until(&id, |record| record.status == Status::Running).await;
            host
        };
        let ((), _host) = tokio::join!(act, begin);
        let expected = if suspends { Status::Suspended } else { Status::Terminated };
        let record = world.client.get(&id).await.unwrap().unwrap();
        assert_eq!((record.status, world.plan.count(Op::Amend)), (expected, 1), "by the message");
        assert!(record.history_len > 2, "its code has run");
    }
}

#[tokio::test(start_paused = true)]
async fn two_clients_that_end_the_same_run_end_it_once() {
    let world = World::new();
    let id = world.start("unknown", 1).await;
    let other = world.client_elsewhere();
    let pause = || Fate::PASS.late(Duration::from_millis(5));
    world.plan.then(Op::Amend, [pause(), pause()]);
    let (one, two) =
        tokio::join!(world.client.terminate(&id, None, false), other.terminate(&id, None, false));
    one.unwrap();
    two.unwrap();
    let record = world.client.get(&id).await.unwrap().unwrap();
    assert_eq!((record.status, record.revision.0), (Status::Terminated, 1));
}

#[tokio::test(start_paused = true)]
async fn two_clients_that_replace_the_same_run_do_so_in_turn() {
    let world = World::new();
    let id = world.start("replaced", 9).await;
    let other = world.client_elsewhere();
    let pause = || Fate::PASS.late(Duration::from_millis(5));
    world.plan.then(Op::Amend, [pause(), pause()]);
    let start = |client: Client, steps| {
        let id = id.clone();
        async move { client.start_requested(request(&id, steps), any(), steps.into()).await.unwrap() }
    };
    let (one, two) = tokio::join!(start(world.client.clone(), 1), start(other.clone(), 2));
    let (Created::New(one), Created::New(two)) = (one, two) else { panic!("{one:?} {two:?}") };
    let record = world.client.get(&id).await.unwrap().unwrap();
    assert!(record.execution == one || record.execution == two);
    assert_eq!((record.revision.0, record.generation), (2, 2), "each of them has had the instance");
    for key in [1, 2] {
        let again = other.start_requested(request(&id, 7), any(), key).await.unwrap();
        assert!(matches!(again, Created::Repeat(_)), "{again:?}");
    }
    assert_eq!(world.hub.inspect(vec![id]).await.unwrap()[0].as_ref().unwrap().waiting, 1);
}

/// The same request from two processes is one start, however they race.
#[tokio::test(start_paused = true)]
async fn two_clients_with_the_same_start_begin_one_run() {
    let world = World::new();
    let id = world.start("replaced", 9).await;
    let other = world.client_elsewhere();
    let pause = || Fate::PASS.late(Duration::from_millis(5));
    world.plan.then(Op::Amend, [pause(), pause()]);
    let (one, two) = tokio::join!(
        world.client.start_requested(request(&id, 1), any(), 1),
        other.start_requested(request(&id, 1), any(), 1)
    );
    let created = [one.unwrap(), two.unwrap()];
    let record = world.client.get(&id).await.unwrap().unwrap();
    assert_eq!((record.revision.0, record.generation), (1, 1), "{created:?}");
    assert_eq!(waiting(&world, &id).await, 1);
}

/// An ended instance for which the start of another run waits, such as a parent's. No host is there to take it.
async fn ended_before_a_start(world: &World) -> InstanceId {
    let id = world.start("ended", 1).await;
    world.client.terminate(&id, None, false).await.unwrap();
    let caller = Caller { request: 9, repeatable: true, now: Timestamp(0) };
    let start = send::start(request(&id, 2), ExecutionId(9), caller, Over::Refuse).unwrap();
    world.client.hub().send(vec![start]).await.remove(0).unwrap();
    assert_eq!((status(world, &id).await, waiting(world, &id).await), (Status::Terminated, 1));
    id
}

#[tokio::test(start_paused = true)]
async fn start_behind_an_ended_run_is_terminated() {
    for forced in [false, true] {
        let world = World::new();
        let id = ended_before_a_start(&world).await;
        let engaged = world.client.purge(&id).await.unwrap_err();
        assert!(matches!(engaged, ClientError::Engaged(_)), "{engaged}");
        match forced {
            true => world.client.force_terminate(&id, Some("\"no\"".into()), false).await.unwrap(),
            false => world.client.terminate(&id, Some("\"no\"".into()), false).await.unwrap(),
        }
        let record = world.client.get(&id).await.unwrap().unwrap();
        assert_eq!((record.status, record.execution), (Status::Terminated, ExecutionId(9)));
        assert_eq!(record.details.output().unwrap().as_str(), "\"no\"");
        assert_eq!(waiting(&world, &id).await, 0);
        world.client.purge(&id).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn start_behind_an_ended_run_is_suspended() {
    let world = World::new();
    let id = ended_before_a_start(&world).await;
    world.client.suspend(&id, None).await.unwrap();
    let record = world.client.get(&id).await.unwrap().unwrap();
    assert_eq!((record.execution, record.hold()), (ExecutionId(9), Hold::Unborn));
    world.client.resume(&id, None).await.unwrap();
    let _host = world.host(Chain::new(), HostOptions::default());
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "2");
}

#[tokio::test(start_paused = true)]
async fn start_behind_an_ended_run_is_replaced() {
    let world = World::new();
    let id = ended_before_a_start(&world).await;
    let created = world.client.start_requested(request(&id, 3), any(), 2).await.unwrap();
    assert!(matches!(created, Created::New(_)), "{created:?}");
    assert_eq!((status(&world, &id).await, waiting(&world, &id).await), (Status::Pending, 1));
    let _host = world.host(Chain::new(), HostOptions::default());
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "3");
}

/// The client dies between its two amendments: the start is the current run, and waits for a host as before.
#[tokio::test(start_paused = true)]
async fn client_that_dies_after_a_promotion_loses_nothing() {
    let world = World::new();
    let id = ended_before_a_start(&world).await;
    world.plan.then(Op::Amend, [Fate::PASS, Fate::PASS.late(HOUR)]);
    let dies = world.client.terminate(&id, None, false);
    tokio::time::timeout(Duration::from_secs(10), dies).await.unwrap_err();
    assert_eq!((status(&world, &id).await, waiting(&world, &id).await), (Status::Pending, 1));
    let _host = world.host(Chain::new(), HostOptions::default());
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "2");
}

/// A dauer before format 7 left the start of a pending run that it ended by force. It is dropped, and begins nothing.
#[tokio::test(start_paused = true)]
async fn start_left_by_its_own_ended_run_is_dropped() {
    for replaced in [false, true] {
        let world = World::new();
        let id = InstanceId::new("left").unwrap();
        world.client.start(request(&id, 1), any()).await.unwrap();
        let record = world.client.get(&id).await.unwrap().unwrap();
        end_and_leave_start(&world, &id, record).await;
        if replaced {
            world.client.start_requested(request(&id, 3), any(), 2).await.unwrap();
            let _host = world.host(Chain::new(), HostOptions::default());
            world.until(&id, |record| record.status == Status::Completed).await;
            assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "3");
        } else {
            world.client.terminate(&id, None, false).await.unwrap();
            assert_eq!((status(&world, &id).await, waiting(&world, &id).await), (Status::Terminated, 0));
            world.client.purge(&id).await.unwrap();
        }
    }
}

/// Ends a pending run from outside, and consumes nothing.
async fn end_and_leave_start(world: &World, id: &InstanceId, record: dauer_core::model::Record) {
    let (fence, _) = world.client.hub().get(vec![id.clone()]).await.unwrap().remove(0).unwrap();
    let checkpoint = Checkpoint {
        fence,
        consumed: Vec::new(),
        completions: Vec::new(),
        history: History::Append(dauer_core::model::Batch::join(&[], Vec::new(), Vec::new()).unwrap()),
        record: dauer_core::model::Record { status: Status::Terminated, ..record.clone() }
            .since(&record.details),
        tasks: Vec::new(),
        timers: Vec::new(),
        messages: Vec::new(),
        take: 0,
        then: Then::Release { delay: Duration::ZERO },
    };
    world.client.hub().amend(checkpoint).await.unwrap();
    assert_eq!((status(world, id).await, waiting(world, id).await), (Status::Terminated, 1));
}

/// The run is healthy and at rest: no session holds it, and the start is not due.
#[tokio::test(start_paused = true)]
async fn scheduled_replacement_waits_for_its_time() {
    let world = World::new();
    let host = HostOptions { activities_max: 0, ..HostOptions::default() };
    let _host = world.host(Chain::new(), host);
    let id = world.start("healthy", 1).await;
    world.until(&id, |record| record.status == Status::Running).await;
    let scheduled = Some(world.client.inspect(&id).await.unwrap().unwrap().now.after(HOUR));
    let later = StartRequest { scheduled, ..request(&id, 2) };
    world.client.start_requested(later, any(), 2).await.unwrap();
    assert_eq!((status(&world, &id).await, waiting(&world, &id).await), (Status::Running, 1));
}

/// Messages that wait for a run without a host do not reach the run that replaces it.
#[tokio::test(start_paused = true)]
async fn replacement_overtakes_what_waits_for_the_old_run() {
    for terminates in [false, true] {
        let world = World::new();
        let id = begun(&world).await;
        let caller = Caller { request: 9, repeatable: true, now: Timestamp(0) };
        let sent = match terminates {
            true => send::terminate(id.clone(), None, false, caller).unwrap(),
            false => send::suspend(id.clone(), None, caller).unwrap(),
        };
        world.client.hub().send(vec![sent]).await.remove(0).unwrap();
        world.client.start_requested(request(&id, 2), any(), 2).await.unwrap();
        assert_eq!((status(&world, &id).await, waiting(&world, &id).await), (Status::Pending, 1));
        let _host = world.host(Chain::new(), HostOptions::default());
        assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "2");
    }
}

/// Two starts that replace the same run: the later one counts.
#[tokio::test(start_paused = true)]
async fn replacement_overtakes_an_earlier_replacement() {
    let world = World::new();
    let id = begun(&world).await;
    let caller = Caller { request: 9, repeatable: true, now: Timestamp(0) };
    let earlier = send::start(request(&id, 3), ExecutionId(9), caller, Over::Terminate).unwrap();
    world.client.hub().send(vec![earlier]).await.remove(0).unwrap();
    world.client.start_requested(request(&id, 2), any(), 2).await.unwrap();
    let _host = world.host(Chain::new(), HostOptions::default());
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "2");
}

/// A suspend waits for a run without a host, and the client resumes it: the last word counts.
#[tokio::test(start_paused = true)]
async fn resume_overtakes_a_suspend_that_waits() {
    for unborn in [false, true] {
        let world = World::new();
        let id = if unborn { world.start("unborn", 1).await } else { begun(&world).await };
        let caller = Caller { request: 9, repeatable: true, now: Timestamp(0) };
        let suspend = send::suspend(id.clone(), None, caller).unwrap();
        world.client.hub().send(vec![suspend]).await.remove(0).unwrap();
        world.client.resume(&id, None).await.unwrap();
        assert_eq!(waiting(&world, &id).await, u64::from(unborn), "only the start of the unborn run waits");
        let _host = world.host(Chain::new(), HostOptions::default());
        assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "1");
    }
}

#[tokio::test(start_paused = true)]
async fn resume_of_an_ended_run_keeps_its_result() {
    let world = World::new();
    let id = ended_before_a_start(&world).await;
    let before = world.client.get(&id).await.unwrap().unwrap();
    let engaged = world.client.resume(&id, None).await;
    assert!(matches!(engaged, Err(ClientError::Engaged(_))), "{engaged:?}");
    assert_eq!(world.client.get(&id).await.unwrap().unwrap(), before);
}

/// A start that was acknowledged for later outlives the end of the run that it was to replace.
#[tokio::test(start_paused = true)]
async fn terminate_keeps_a_scheduled_replacement() {
    for force in [false, true] {
        let world = World::new();
        let id = begun(&world).await;
        let scheduled = Some(world.client.inspect(&id).await.unwrap().unwrap().now.after(HOUR));
        let later = StartRequest { scheduled, ..request(&id, 2) };
        world.client.start_requested(later, any(), 2).await.unwrap();
        match force {
            true => world.client.force_terminate(&id, None, false).await.unwrap(),
            false => world.client.terminate(&id, None, false).await.unwrap(),
        }
        assert_eq!((status(&world, &id).await, waiting(&world, &id).await), (Status::Terminated, 1));
        let _host = world.host(Chain::new(), HostOptions::default());
        world.until(&id, |record| record.status == Status::Completed).await;
        assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "2");
    }
}

/// A run that has not begun goes on until its replacement is due.
#[tokio::test(start_paused = true)]
async fn scheduled_replacement_leaves_a_pending_run_until_its_time() {
    let world = World::new();
    let id = world.start("pending", 1).await;
    let scheduled = Some(world.client.inspect(&id).await.unwrap().unwrap().now.after(HOUR));
    let later = StartRequest { scheduled, ..request(&id, 2) };
    world.client.start_requested(later, any(), 2).await.unwrap();
    let _host = world.host(Chain::new(), HostOptions::default());
    world.until(&id, |record| record.status == Status::Completed).await;
    assert_eq!(world.ended(&id).await.details.output().unwrap().as_str(), "1");
    world.until(&id, |record| record.details.output().is_some_and(|output| output.as_str() == "2")).await;
}

/// A retried request of a start that another one has overtaken begins nothing.
#[tokio::test(start_paused = true)]
async fn overtaken_start_sent_again_is_a_repeat() {
    let world = World::new();
    let id = begun(&world).await;
    let caller = Caller { request: 9, repeatable: true, now: Timestamp(0) };
    let earlier = send::start(request(&id, 3), ExecutionId(9), caller, Over::Terminate).unwrap();
    world.client.hub().send(vec![earlier]).await.remove(0).unwrap();
    world.client.start_requested(request(&id, 2), any(), 2).await.unwrap();
    let again = world.client.start_requested(request(&id, 3), any(), 9).await.unwrap();
    assert_eq!(again, Created::Repeat(None));
}
