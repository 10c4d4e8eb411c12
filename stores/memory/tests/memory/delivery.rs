//! Inbox order, what is remembered, and how messages bring instances into being.

use dauer_core::limits::MEMORY_AGE_MAX;
use dauer_store::*;
use futures::executor::block_on;

use crate::support::*;

#[test]
fn a_rewind_that_creates_an_instance_begins_it() {
    let w = World::new();
    // The record names the child's first start, which will never come: the rewind has an id of its own.
    let Class::Start(carried) = w.start("child", "Orders").class else { unreachable!() };
    let rewind = w.message("child", Class::Rewind(carried));
    assert_eq!(w.send(&rewind), Delivered::Applied);
    let turn = turn_of(&w.session(), "child");
    assert_eq!(turn.record.status, Status::Pending);
    assert_eq!(ids(&turn.messages), [rewind.id]);
}

#[test]
fn a_rewind_does_not_wake_an_instance_that_waits_for_its_start() {
    let w = World::new();
    let start = w.start("child", "Orders");
    let Class::Start(carried) = start.class.clone() else { unreachable!() };
    w.create(&Message { visible_at: BEGIN.after(HOUR), ..start.clone() });
    let rewind = w.message("child", Class::Rewind(carried));
    w.send(&rewind);
    assert!(turns(&w.session(), want(10)).is_empty(), "it would run before its time");
    w.clock.advance(HOUR);
    let turn = turn_of(&w.session(), "child");
    assert_eq!(ids(&turn.messages), [start.id], "a pending instance takes its start; the rewind waits");
}

#[test]
fn messages_keep_their_order_whatever_times_they_name() {
    let w = World::new();
    w.running("order");
    let sent: Vec<Message> =
        [5, 3, 900_000, 1].map(|at| Message { visible_at: Timestamp(at), ..w.event("order") }).into();
    for message in &sent {
        w.send(message);
    }
    assert_eq!(ids(&turn_of(&w.session(), "order").messages), ids(&sent));
}

#[test]
fn timers_come_in_the_order_of_their_times() {
    let w = World::new();
    w.running("order");
    let late = Message { visible_at: BEGIN.after(HOUR * 2), ..w.event("order") };
    let early = Message { visible_at: BEGIN.after(HOUR), ..w.event("order") };
    w.send(&late);
    w.send(&early);
    w.clock.advance(HOUR * 3);
    let last = w.event("order");
    w.send(&last);
    assert_eq!(ids(&turn_of(&w.session(), "order").messages), [early.id, late.id, last.id]);
}

#[test]
fn events_are_remembered_for_a_day_and_answers_not_at_all() {
    let w = World::new();
    w.running("order");
    let event = w.event("order");
    let answer = Message { answers: Some(message_id(7)), ..w.event("order") };
    w.send(&event);
    w.send(&answer);
    let session = w.session();
    commit(&session, step(&turn_of(&session, "order"))).unwrap();

    assert_eq!(w.send(&event), Delivered::Dropped(DropReason::Repeat));
    assert_eq!(w.send(&answer), Delivered::Applied, "whether it is open is for the turn to say");
    assert_eq!(w.send(&answer), Delivered::Dropped(DropReason::Repeat), "once it waits, it is a repeat");
    assert_eq!(w.dropped(DropReason::Repeat), 2);
    w.clock.advance(MEMORY_AGE_MAX);
    assert_eq!(w.send(&event), Delivered::Dropped(DropReason::Repeat), "a day is not over yet");
    w.clock.advance(std::time::Duration::from_millis(1));
    assert_eq!(w.send(&event), Delivered::Applied);
}

#[test]
fn an_answer_brings_no_entity_into_being() {
    let w = World::new();
    let answer = Message { execution: Some(ExecutionId(1)), ..w.event("@counter@a") };
    assert_eq!(w.send(&answer), Delivered::Dropped(DropReason::Absent));
    assert!(block_on(w.hub.get(vec![id("@counter@a")])).unwrap()[0].is_none());
    assert_eq!(w.send(&w.event("@counter@a")), Delivered::Applied);
}

#[test]
fn a_start_over_a_running_instance_asks_to_end_it_and_is_known_again() {
    let w = World::new();
    w.running("order");
    let second = w.start("order", "Orders");
    let reuse = Reuse { replaceable: vec![Status::Running] };
    let created = w.try_create(second.clone(), reuse.clone()).unwrap();
    assert!(matches!(created, Created::Replacing(_)), "{created:?}");
    let again = w.try_create(second, reuse).unwrap();
    assert!(matches!(again, Created::Repeat(_)), "{again:?}");

    let turn = turn_of(&w.session(), "order");
    assert_eq!(turn.messages.len(), 1);
    let Class::Start(start) = &turn.messages[0].class else { panic!("{:?}", turn.messages) };
    assert_eq!(start.over, Over::Terminate);
}

#[test]
fn only_a_start_creates() {
    let w = World::new();
    let refused = w.try_create(w.event("order"), Reuse::default());
    assert!(matches!(refused, Err(Refused::NotExecuted(_))), "{refused:?}");
    assert!(w.dump().iter().all(|item| !matches!(item, DumpItem::Instance(_))));
}
