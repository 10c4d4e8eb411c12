//! Commits and amendments: repeats, what the store sets, and what a new run leaves behind.

use std::time::Duration;

use dauer_store::*;
use futures::executor::block_on;

use crate::support::*;

#[test]
fn a_repeated_commit_answers_what_has_arrived_by_now() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    let turn = turn_of(&session, "order");
    let task = w.task(&turn, "pay");
    let checkpoint = Checkpoint { tasks: vec![task], take: 1, then: Then::Keep, ..step(&turn) };
    let first = commit(&session, checkpoint.clone()).unwrap();
    assert_eq!((first.arrived.len(), first.taken.len()), (0, 1));

    let event = w.event("order");
    w.send(&event);
    let again = commit(&session, checkpoint.clone()).unwrap();
    assert_eq!((again.revision, &again.taken), (Revision(1), &first.taken));
    assert_eq!(ids(&again.arrived), [event.id]);
    assert!(turns(&session, want(1)).is_empty(), "what arrived was handed out with the answer");

    complete(&session, w.answer(&first.taken[0]));
    assert!(commit(&session, checkpoint).unwrap().taken.is_empty(), "the task is done");
}

#[test]
fn a_repeated_commit_takes_nothing_back_that_was_given_away() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    let checkpoint = Checkpoint { then: Then::Keep, ..step(&turn_of(&session, "order")) };
    commit(&session, checkpoint.clone()).unwrap();
    let fence = Fence { revision: Revision(1), ..checkpoint.fence.clone() };
    block_on(session.release(vec![release(Item::Turn(fence))])).remove(0).unwrap();
    w.send(&w.event("order"));

    let again = commit(&session, checkpoint).unwrap();
    assert!(again.arrived.is_empty());
    assert_eq!(w.dumped("order").holder, None);
    turn_of(&w.session(), "order");
}

#[test]
fn a_start_is_remembered_when_another_takes_its_place_and_not_before() {
    let w = World::new();
    let first = w.start("order", "Orders");
    w.create(&first);
    let session = w.session();
    commit(&session, step(&turn_of(&session, "order"))).unwrap();
    assert_eq!(w.dumped("order").memory, [], "the record names it");
    w.send(&w.event("order"));
    let turn = turn_of(&session, "order");
    let record = NextRecord { start: MessageId([7; 16]), ..step(&turn).record };
    commit(&session, Checkpoint { record, ..step(&turn) }).unwrap();
    assert!(w.dumped("order").memory.iter().any(|(id, _)| *id == first.id));
}

#[test]
fn two_amendments_of_one_fence_do_not_pass_for_each_other() {
    let w = World::new();
    let turn = w.running("order");
    let (fence, record) = w.get("order");
    let says = |status: &str| {
        let mut record = record.clone();
        record.details.set_custom_status(Some(status.into()));
        let record = record.since(&turn.record.details);
        Checkpoint { fence: fence.clone(), consumed: Vec::new(), record, ..step(&turn) }
    };
    let (one, two) = (says("one"), says("two"));

    let amended = block_on(w.hub.amend(one.clone())).unwrap();
    assert_eq!(amended.revision, Revision(2));
    fenced(block_on(w.hub.amend(two)));
    assert_eq!(block_on(w.hub.amend(one)).unwrap().revision, Revision(2), "the same again is a repeat");
    assert_eq!(w.get("order").1.details.custom_status(), Some(&"one".into()));
}

#[test]
fn an_amendment_takes_the_instance_from_its_holder_and_tells() {
    let w = World::new();
    w.running("order");
    w.send(&w.event("order"));
    let session = w.session();
    let turn = turn_of(&session, "order");
    let (fence, record) = w.get("order");
    let record = record.since(&turn.record.details);
    let amendment = Checkpoint { fence, consumed: Vec::new(), record, ..step(&turn) };
    block_on(w.hub.amend(amendment)).unwrap();

    fenced(commit(&session, step(&turn)));
    let lost = block_on(session.renew()).unwrap();
    assert_eq!(lost, [Lost { item: Item::Turn(turn.fence.clone()) }]);
    let next = turn_of(&session, "order");
    assert!(next.fence.epoch > turn.fence.epoch.next(), "amended, then claimed anew: {:?}", next.fence);
}

#[test]
fn a_fused_result_must_be_of_this_run_and_come_once() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    let turn = turn_of(&session, "order");
    let task = w.task(&turn, "pay");
    let taken = commit(&session, Checkpoint { tasks: vec![task], take: 1, then: Then::Keep, ..step(&turn) });
    let completion = w.answer(&taken.unwrap().taken[0]);
    let fence = Fence { revision: Revision(1), ..turn.fence.clone() };
    let next = Checkpoint { fence, consumed: Vec::new(), then: Then::Keep, ..step(&turn) };

    let twice = Checkpoint { completions: vec![completion.clone(), completion.clone()], ..next.clone() };
    fenced(commit(&session, twice));
    // A kept, idle instance goes on with the result of its own task, without a claim.
    commit(&session, Checkpoint { completions: vec![completion.clone()], ..next }).unwrap();
    assert_eq!(complete(&session, completion), Delivered::Dropped(DropReason::NotHeld));
}

#[test]
fn a_new_run_drops_answers_of_the_old_one_and_keeps_the_rest() {
    let w = World::new();
    let first = w.running("order");
    let event = w.event("order");
    let timer =
        Message { execution: Some(first.fence.execution), visible_at: BEGIN.after(HOUR), ..w.event("order") };
    w.send(&event);
    w.send(&timer);
    let session = w.session();
    let turn = turn_of(&session, "order");
    let late = w.event("order");
    w.send(&late);
    w.clock.advance(HOUR / 2);
    let execution = ExecutionId(99);
    let carried = vec![event.clone()];
    let mut next = step(&turn);
    next.history = History::Replace { execution, batches: vec![batch(2), batch(3)], prologue: carried };
    next.record.execution = execution;
    commit(&session, next).unwrap();

    let dump = w.dumped("order");
    assert_eq!((ids(&dump.prologue), ids(&dump.inbox)), (vec![event.id], vec![late.id]));
    assert_eq!(w.dropped(DropReason::OtherExecution), 1);
    assert_eq!(dump.history.iter().map(|stored| stored.first).collect::<Vec<_>>(), [0, 2]);
    assert_eq!((dump.record.history_len, dump.record.history_bytes), (5, 50));
    assert_eq!(dump.record.times.created, BEGIN, "the next run of the same start");
    assert_eq!(dump.record.times.updated, BEGIN.after(HOUR / 2));
    assert_eq!(w.send(&event), Delivered::Dropped(DropReason::Repeat), "carried over, and still known");
}

#[test]
fn another_start_makes_another_instance_of_it() {
    let w = World::new();
    w.running("order");
    w.clock.advance(HOUR);
    let start = w.start("order", "Orders");
    w.send(&start);
    let session = w.session();
    let turn = turn_of(&session, "order");
    let Class::Start(carried) = start.class else { unreachable!() };
    let mut next = step(&turn);
    let execution = carried.execution;
    next.history = History::Replace { execution, batches: vec![batch(1)], prologue: Vec::new() };
    let record = Record { status: Status::Running, ..carried.record(start.id) };
    next.record = record.since(&turn.record.details);
    commit(&session, next).unwrap();
    let times = w.get("order").1.times;
    assert_eq!((times.created, times.completed), (BEGIN.after(HOUR), None));
}

#[test]
fn a_run_begins_with_its_start_wherever_it_stands() {
    let w = World::new();
    w.running("order");
    w.send(&w.event("order"));
    let session = w.session();
    let turn = turn_of(&session, "order");
    let (event, start, other) = (w.event("order"), w.start("order", "Orders"), w.start("order", "Orders"));
    let Class::Start(carried) = start.class.clone() else { unreachable!() };
    let mut next = step(&turn);
    let execution = carried.execution;
    let prologue = vec![other.clone(), event.clone(), start.clone()];
    next.history = History::Replace { execution, batches: Vec::new(), prologue };
    next.record = Record { status: Status::Running, ..carried.record(start.id) }.since(&turn.record.details);
    commit(&session, next).unwrap();
    assert_eq!(ids(&turn_of(&session, "order").messages), [start.id, other.id, event.id]);
    let counted = w.dump().into_iter().filter(|item| matches!(item, DumpItem::Dropped(..))).count();
    assert_eq!(counted, 0, "what was never dropped is not counted, not even as none");
}

#[test]
fn the_end_of_a_run_is_not_moved_by_a_later_commit() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    commit(&session, ended(&turn_of(&session, "order"), Status::Failed)).unwrap();
    w.clock.advance(Duration::from_secs(5));
    w.send(&w.start("order", "Orders"));
    let turn = turn_of(&session, "order");
    commit(&session, ended(&turn, Status::Failed)).unwrap();
    let times = w.get("order").1.times;
    assert_eq!((times.completed, times.updated), (Some(BEGIN), BEGIN.after(Duration::from_secs(5))));
}

#[test]
fn an_ended_instance_is_not_kept() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    let turn = turn_of(&session, "order");
    let start = w.start("order", "Refunds");
    w.send(&start);
    let committed =
        commit(&session, Checkpoint { then: Then::Keep, ..ended(&turn, Status::Completed) }).unwrap();
    assert!(committed.arrived.is_empty(), "the start may be for code that this host does not have");
    let other = turns(&w.session(), Want { queues: only("Refunds"), ..want(1) });
    assert_eq!(ids(&other[0].messages), [start.id]);
}

#[test]
fn trouble_of_the_same_kind_began_when_it_began() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let session = w.session();
    let trouble = |kind, since| {
        Some(Trouble { kind, reason: "it fails".into(), since, attempts: 0, others: Vec::new(), build: None })
    };
    for (kind, since, expected) in [
        (TroubleKind::Panic, Timestamp(1), (Timestamp(1), 1)),
        (TroubleKind::Panic, Timestamp(2), (Timestamp(1), 2)),
        (TroubleKind::Mismatch, Timestamp(3), (Timestamp(3), 1)),
        (TroubleKind::Panic, Timestamp(4), (Timestamp(4), 3)),
    ] {
        let item = Item::Turn(turn_of(&session, "order").fence);
        let failed = Release { trouble: trouble(kind, since), failed: true, ..release(item) };
        block_on(session.release(vec![failed])).remove(0).unwrap();
        let shown = w.get("order").1.trouble.unwrap();
        assert_eq!((shown.since, shown.attempts), expected);
    }
}

#[test]
fn what_is_too_large_changes_nothing() {
    let w = World::new();
    w.create(&w.start("order", "Orders"));
    let limits = w.hub.limits();
    w.store.set_limits(StoreLimits {
        checkpoint_bytes: 25,
        checkpoint_items: 1,
        message_bytes: 20,
        delay: HOUR,
        ..limits
    });
    let session = w.session();
    let turn = turn_of(&session, "order");
    let before = w.dump();
    let two = vec![w.task(&turn, "pay"), w.task(&turn, "pay")];
    let large = Message { event: bytes(21), ..w.event("order") };
    let late = Message { visible_at: BEGIN.after(HOUR * 2), ..w.event("order") };
    for (checkpoint, name) in [
        (Checkpoint { tasks: two, ..step(&turn) }, "checkpoint items"),
        (Checkpoint { history: History::Append(batch(3)), ..step(&turn) }, "checkpoint bytes"),
        (Checkpoint { messages: vec![large], ..step(&turn) }, "message bytes"),
        (Checkpoint { timers: vec![late], ..step(&turn) }, "message delay in ms"),
    ] {
        let refused = commit(&session, checkpoint);
        assert!(matches!(&refused, Err(Refused::TooLarge(limit)) if limit.name == name), "{refused:?}");
    }
    assert_eq!(w.dump(), before);
    w.store.set_limits(limits);
    commit(&session, Checkpoint { history: History::Append(batch(3)), ..step(&turn) }).unwrap();
}
