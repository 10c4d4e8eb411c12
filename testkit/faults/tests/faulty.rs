//! Delays, lost answers, late credit and disturbed hints, between a caller and a real store.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod support;

use std::time::Duration;

use dauer_faults::{Act, Fate, HintFate, Op, Struck};
use dauer_store::{Hint, Refused, Status, Until};
use futures::executor::block_on;
use futures::{FutureExt, StreamExt};
use support::{World, create, credit, id};

const LONG: Duration = Duration::from_secs(60);

#[test]
fn call_dropped_before_its_delay_ends_was_never_made() {
    let world = World::new();
    world.plan.then(Op::Create, Fate::PASS.late(LONG));
    assert!(world.hub.create(vec![create("order")]).now_or_never().is_none());
    assert!(!world.exists("order"));
    // No fault has come between that call and an answer.
    assert_eq!(world.plan.struck(), []);
}

#[test]
fn call_dropped_while_its_answer_waits_was_made() {
    let world = World::new();
    world.plan.then(Op::Create, Fate::PASS.answered_late(LONG));
    assert!(world.hub.create(vec![create("order")]).now_or_never().is_none());
    assert!(world.exists("order"));
    assert_eq!(world.plan.struck(), []);
}

#[test]
fn delayed_call_is_carried_out_and_counted() {
    let world = World::new();
    let fate = Fate::PASS.late(LONG).answered_late(LONG);
    world.plan.then(Op::Create, fate);
    block_on(world.hub.create(vec![create("order")])).remove(0).unwrap();
    assert!(world.exists("order"));
    assert_eq!(world.plan.struck(), [Struck { op: Op::Create, fate }]);
}

#[test]
fn lost_answer_of_next_comes_back_by_recall() {
    for (act, recalled) in [(Act::LoseAnswer, 1), (Act::LoseRequest, 0)] {
        let world = World::new();
        world.start("order");
        world.session.credit(credit(1, 5));
        world.plan.then(Op::Next, Fate::of(act));
        let lost = block_on(world.session.next(Until::Once));
        assert!(matches!(lost, Err(Refused::Unknown(_))), "{lost:?}");
        let turns = block_on(world.session.recall(0, 1)).unwrap().turns;
        assert_eq!(turns.len(), recalled, "{act:?}");
    }
}

#[test]
fn late_credit_counts_with_the_next_call_at_the_latest() {
    let world = World::new();
    world.start("order");
    world.plan.then(Op::Credit, Fate::PASS.late(LONG));
    world.session.credit(credit(1, 5));
    let turns = block_on(world.session.next(Until::Once)).unwrap().turns;
    assert_eq!(turns.len(), 1);
    // And only once: what came later is not replaced by it.
    world.session.credit(credit(2, 0));
    world.start("another");
    assert!(block_on(world.session.next(Until::Once)).unwrap().is_empty());
}

#[test]
fn late_credit_that_was_replaced_never_counts() {
    let world = World::new();
    world.start("order");
    world.plan.then(Op::Credit, Fate::PASS.late(LONG));
    world.session.credit(credit(1, 5));
    world.session.credit(credit(1, 0));
    assert!(block_on(world.session.next(Until::Once)).unwrap().is_empty());
}

#[test]
fn late_credit_counts_when_its_time_has_come() {
    let (world, later) = World::later();
    world.plan.then(Op::Credit, Fate::PASS.late(LONG));
    world.session.credit(credit(1, 5));
    let held =
        |name| block_on(world.raw.inspect(vec![id(name)])).unwrap().remove(0).unwrap().holder.is_some();
    world.start("before");
    assert!(!held("before"));
    later.run();
    // The write that makes it ready wins it: no call of the session has come since.
    world.start("after");
    assert!(held("after"));
}

#[test]
fn late_credit_does_not_keep_a_dropped_session() {
    let (world, later) = World::later();
    world.plan.then(Op::Credit, Fate::PASS.late(LONG));
    world.session.credit(credit(1, 5));
    let World { session, raw, .. } = world;
    drop(session);
    later.run();
    block_on(raw.create(vec![create("order")])).remove(0).unwrap();
    let inspection = block_on(raw.inspect(vec![id("order")])).unwrap().remove(0).unwrap();
    assert_eq!(inspection.holder, None);
}

/// The hints about the starts of `names`, with these fates.
fn hints(names: &[&str], fates: &[HintFate]) -> Vec<Hint> {
    let world = World::new();
    let mut changes = world.hub.changes();
    world.plan.hints.lock().unwrap().extend(fates.iter().copied());
    names.iter().for_each(|name| world.start(name));
    std::iter::from_fn(|| changes.next().now_or_never().flatten()).collect()
}

#[test]
fn hints_are_lost_told_of_doubled_and_late_as_planned() {
    let status = |name| Hint::Status(id(name), Status::Pending);
    let of = |fate| hints(&["one", "two"], &[fate]);
    assert_eq!(of(HintFate::Pass), [status("one"), status("two")]);
    assert_eq!(of(HintFate::Lose), [status("two")]);
    assert_eq!(of(HintFate::Forget), [Hint::Elsewhere, status("two")]);
    assert_eq!(of(HintFate::Twice), [status("one"), status("one"), status("two")]);
    assert_eq!(of(HintFate::Late), [status("two"), status("one")]);
}
