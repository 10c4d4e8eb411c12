//! Who gets what: fairness, sizes, and what becomes of answers that nobody received.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use dauer_memory::{Call, Fault, FaultPlan};
use dauer_store::*;
use futures::FutureExt as _;
use futures::executor::block_on;
use futures::poll;

use crate::support::*;

/// The first call of a kind is slow to answer.
struct SlowOnce(std::sync::Mutex<Option<Call>>);

impl FaultPlan for SlowOnce {
    fn next(&self, call: Call) -> Fault {
        let mut slow = self.0.lock().unwrap();
        if *slow == Some(call) {
            *slow = None;
            return Fault::DelayAfter(Duration::from_secs(1));
        }
        Fault::None
    }
}

fn slow_once(w: &World, call: Call) {
    w.store.set_faults(Arc::new(SlowOnce(std::sync::Mutex::new(Some(call)))));
}

#[test]
fn queues_take_turns_within_a_claim_and_from_one_to_the_next() {
    let w = World::new();
    for (id, queue) in [("a1", "A"), ("a2", "A"), ("a3", "A"), ("b1", "B"), ("c1", "C"), ("c2", "C")] {
        w.create(&w.start(id, queue));
    }
    let session = w.session();
    assert_eq!(names(&turns(&session, want(2))), ["a1", "b1"]);
    assert_eq!(names(&turns(&session, want(2))), ["c1", "a2"]);
    assert_eq!(names(&turns(&session, want(9))), ["c2", "a3"]);
}

#[test]
fn a_claim_stops_before_the_item_that_does_not_fit() {
    let w = World::new();
    for (name, size) in [("a", 10), ("b", 50), ("c", 1)] {
        w.create(&Message { event: bytes(size), ..w.start(name, "Orders") });
    }
    let session = w.session();
    let claimed = turns(&session, Want { bytes: 40, ..want(9) });
    assert_eq!(names(&claimed), ["a"], "b is next and does not fit; c does not overtake it");
    assert_eq!(names(&turns(&session, Want { bytes: 40, ..want(9) })), ["b"], "the first, whatever its size");
}

#[test]
fn messages_beyond_the_bytes_stay_and_are_announced() {
    let w = World::new();
    w.running("order");
    let sent = [w.event("order"), w.event("order"), w.event("order")];
    for message in &sent {
        w.send(message);
    }
    let session = w.session();
    let turn = turns(&session, Want { bytes: 25, ..want(1) }).remove(0);
    assert_eq!((ids(&turn.messages), turn.more), (ids(&sent[..2]), true));
    commit(&session, step(&turn)).unwrap();
    let turn = turn_of(&session, "order");
    assert_eq!((ids(&turn.messages), turn.more), (ids(&sent[2..]), false));
    commit(&session, step(&turn)).unwrap();

    let more = [w.event("order"), w.event("order")];
    for message in &more {
        w.send(message);
    }
    let turn = turns(&session, Want { bytes: 1, ..want(1) }).remove(0);
    assert_eq!((ids(&turn.messages), turn.more), (ids(&more[..1]), true), "the first, whatever its size");
}

#[test]
fn tasks_that_fit_exactly_fit() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    let turn = turn_of(&session, "order");
    let three = [(); 3].map(|()| w.task(&turn, "pay"));
    commit(&session, Checkpoint { tasks: three.into(), ..step(&turn) }).unwrap();
    let claim = |bytes| block_on(session.claim_activities(Want { bytes, ..want(9) })).unwrap().len();
    assert_eq!(claim(20), 2, "ten bytes each");
    assert_eq!(claim(20), 1, "the third");
}

#[test]
fn what_becomes_ready_in_the_same_moment_is_all_found() {
    let w = World::new();
    for name in ["a", "b", "c"] {
        w.create(&w.start(name, "Orders"));
    }
    let session = w.session();
    let held = turns(&session, want(9));
    for turn in &held {
        w.send(&w.event(turn.fence.instance.as_str()));
    }
    for turn in &held {
        commit(&session, step(turn)).unwrap();
    }
    assert_eq!(names(&turns(&session, want(9))), ["a", "b", "c"]);
}

#[test]
fn a_start_that_is_not_due_never_comes_alone() {
    let w = World::new();
    let start = Message { visible_at: BEGIN.after(HOUR), ..w.start("order", "Orders") };
    w.create(&start);
    let session = w.session();
    assert!(turns(&session, want(1)).is_empty());
    let terminate = w.message("order", Class::Control(Control::Terminate));
    w.send(&terminate);
    // One byte would be full with the start alone, which must not run an hour early.
    let turn = turns(&session, Want { bytes: 1, ..want(1) }).remove(0);
    assert_eq!(ids(&turn.messages), [start.id, terminate.id]);
}

#[test]
fn a_dropped_claim_waits_for_a_claim_that_may_have_it() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    slow_once(&w, Call::ClaimTurns);
    block_on(async {
        let mut claim = session.claim_turns(want(1));
        assert!(poll!(&mut claim).is_pending());
    });
    assert!(turns(&session, Want { queues: only("Refunds"), ..want(1) }).is_empty(), "not asked for");
    assert!(turns(&w.session(), want(1)).is_empty(), "it is held");
    let turn = turn_of(&session, "order");
    assert_eq!(turn.fence.epoch, Epoch(1), "it has not changed hands");
    assert!(turns(&session, want(1)).is_empty(), "handed out once");
}

#[test]
fn two_claims_of_one_session_never_return_the_same() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    slow_once(&w, Call::ClaimTurns);
    block_on(async {
        let mut slow = session.claim_turns(want(1));
        assert!(poll!(&mut slow).is_pending());
        let quick = session.claim_turns(want(1)).await.unwrap();
        assert_eq!(names(&quick), ["order"]);
        let Poll::Ready(late) = poll!(&mut slow) else { panic!("one pause is enough") };
        assert!(late.unwrap().is_empty(), "the other claim has it");
    });
}

#[test]
fn a_dropped_claim_of_tasks_comes_back() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    let turn = turn_of(&session, "order");
    commit(&session, Checkpoint { tasks: vec![w.task(&turn, "pay")], ..step(&turn) }).unwrap();
    slow_once(&w, Call::ClaimActivities);
    block_on(async {
        let mut claim = session.claim_activities(want(1));
        assert!(poll!(&mut claim).is_pending());
    });
    assert!(tasks(&w.session()).is_empty());
    let leases = tasks(&session);
    assert_eq!((leases.len(), leases[0].fence.epoch, leases[0].attempts), (1, Epoch(1), 0));
}

#[test]
fn the_epoch_grows_whenever_the_instance_comes_from_the_store() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let (one, two) = (w.session(), w.session());
    let give_back = |session: &Arc<dyn Work>, turn: ClaimedTurn| {
        block_on(session.release(vec![release(Item::Turn(turn.fence.clone()))])).remove(0).unwrap();
        turn.fence.epoch
    };
    assert_eq!(give_back(&one, turn_of(&one, "order")), Epoch(1));
    assert_eq!(give_back(&one, turn_of(&one, "order")), Epoch(2));
    assert_eq!(give_back(&two, turn_of(&two, "order")), Epoch(3));
}

#[test]
fn what_sleeps_tells_when_it_is_due() {
    let w = World::new();
    let session = w.session();
    let next = |queues: Queues| block_on(session.next_due(&queues)).unwrap();
    assert_eq!(next(Queues::default()), None);
    w.create(&w.start("ready", "Orders"));
    let at_once = Some(Duration::ZERO);
    assert_eq!(next(Queues::default()), at_once, "it may not have been there when a claim found nothing");
    w.clock.advance(DUE_OVERLAP);
    assert_eq!(next(Queues::default()), None, "what is ready waits for no time");
    w.create(&Message { visible_at: BEGIN.after(HOUR + DUE_OVERLAP), ..w.start("later", "Orders") });
    assert_eq!(next(Queues::default()), Some(HOUR));
    assert_eq!(next(only("Refunds")), None);
    let turn = turn_of(&session, "ready");
    let delay = Duration::from_secs(9);
    let rests = Release { delay, ..release(Item::Turn(turn.fence)) };
    block_on(session.release(vec![rests])).remove(0).unwrap();
    assert_eq!(next(Queues::default()), Some(delay));
}

#[test]
fn what_a_session_keeps_is_due_for_it_alone_as_long_as_it_lives() {
    let w = World::new();
    let (keeper, other) = (w.session(), w.session());
    w.create(&w.start("kept", "Orders"));
    let turn = turn_of(&keeper, "kept");
    commit(&keeper, Checkpoint { then: Then::Keep, ..step(&turn) }).unwrap();
    w.send(&Message { visible_at: BEGIN.after(HOUR), ..w.event("kept") });
    let next = |session: &Arc<dyn Work>| block_on(session.next_due(&Queues::default())).unwrap();
    assert_eq!(block_on(keeper.waiting_mail()).unwrap().next, Some(HOUR));
    assert_eq!((next(&keeper), next(&other)), (None, None), "no claim gets it");
    w.clock.advance(LEASE);
    block_on(other.renew()).unwrap();
    assert_eq!(turns(&other, want(1)), [], "it is not due");
    assert_eq!(next(&other), Some(HOUR - LEASE), "the claim has found that its session expired");
}

#[test]
fn a_claim_that_waits_is_answered_with_what_becomes_ready() {
    let w = World::new();
    let session = w.session();
    w.create(&w.start("before", "Orders"));
    let mut waits = session.await_turns(Want { queues: only("Orders"), ..want(9) });
    assert!((&mut waits).now_or_never().is_none(), "what was ready already is left to claims that ask");
    w.create(&w.start("other", "Refunds"));
    assert!((&mut waits).now_or_never().is_some_and(|turns| names(&turns.unwrap()) == ["before"]));
    let mut waits = session.await_turns(Want { queues: only("Orders"), ..want(9) });
    assert!((&mut waits).now_or_never().is_none());
    w.create(&w.start("order", "Orders"));
    let turn = waits.now_or_never().expect("it is ready").unwrap().remove(0);
    assert_eq!(turn.fence.instance, id("order"));
    commit(&session, step(&turn)).unwrap();
}
