//! Which session wins which work: fairness and sizes, and what a wait returns.

use std::sync::Arc;

use dauer_store::*;
use futures::FutureExt as _;
use futures::executor::block_on;

use crate::support::*;

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
    let claim = |bytes| tasks_of(&session, Want { bytes, ..want(9) }).len();
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

/// A look of a session with credit for turns of all queues.
fn waits(session: &Arc<dyn Work>) -> impl Future<Output = Result<Next, Refused>> {
    session.credit(want(9).credit(next_number(), true));
    let session = Arc::clone(session);
    let env = StillEnv;
    async move { session.next(Until::At(&env, Steady(i64::MAX))).await }
}

#[test]
fn wait_is_answered_by_the_write_that_makes_work_ready() {
    let w = World::new();
    let session = w.session();
    let mut wait = Box::pin(waits(&session));
    assert!((&mut wait).now_or_never().is_none(), "nothing is ready");
    w.create(&w.start("order", "Orders"));
    let held = block_on(w.hub.inspect(vec![id("order")])).unwrap().remove(0).unwrap();
    assert_eq!(held.holder.map(|holder| holder.session), Some(session.session()), "in the same write");
    let next = wait.now_or_never().expect("it is won").unwrap();
    assert_eq!(names(&next.turns), ["order"]);
}

#[test]
fn credit_is_not_spent_twice_while_answers_wait() {
    let w = World::new();
    let session = w.session();
    session.credit(want(2).credit(next_number(), true));
    for name in ["a", "b", "c"] {
        w.create(&w.start(name, "Orders"));
    }
    assert_eq!(names(&block_on(session.next(Until::Once)).unwrap().turns), ["a", "b"]);
    assert!(block_on(session.next(Until::Once)).unwrap().is_empty(), "the credit is spent");
    session.credit(want(2).credit(next_number(), true));
    assert_eq!(names(&block_on(session.next(Until::Once)).unwrap().turns), ["c"]);
}

#[test]
fn mail_of_a_kept_instance_is_named_when_it_becomes_visible() {
    let w = World::new();
    let (keeper, other) = (w.session(), w.session());
    w.create(&w.start("kept", "Orders"));
    let turn = turn_of(&keeper, "kept");
    commit(&keeper, Checkpoint { then: Then::Keep, ..step(&turn) }).unwrap();
    let mail = |session: &Arc<dyn Work>| block_on(session.next(Until::Once)).unwrap().mail;
    w.send(&Message { visible_at: BEGIN.after(HOUR), ..w.event("kept") });
    assert_eq!((mail(&keeper), mail(&other)), (vec![], vec![]));
    w.clock.advance(HOUR);
    block_on(keeper.renew()).unwrap();
    block_on(other.renew()).unwrap();
    assert_eq!((mail(&keeper), mail(&other)), (vec![id("kept")], vec![]));
    assert!(turns(&other, want(1)).is_empty(), "it is held");
}

#[test]
fn recall_returns_what_the_session_was_never_given() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    let number = next_number();
    session.credit(want(1).credit(number, true));
    drop(session.next(Until::Once).now_or_never());
    w.create(&w.start("later", "Orders"));
    let recalled = block_on(session.recall(number, number)).unwrap();
    assert!(!recalled.turns.is_empty(), "it has won");
    session.credit(want(9).credit(number, true));
    assert!(block_on(session.next(Until::Once)).unwrap().turns.is_empty(), "the number is recalled");
    let again = block_on(session.recall(number, number)).unwrap();
    assert_eq!(names(&again.turns), names(&recalled.turns));
}
