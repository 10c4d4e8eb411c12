//! Rule 4, readiness: an instance is ready when a message is visible and its hold admits it.

use std::collections::BTreeSet;

use dauer_store::{
    ClaimedTurn, Class, Control, Credit, Delivered, DropReason, Message, MessageId, Queues, Record, Status,
};

use crate::message::{ids, only};
use crate::run::open;
use crate::session::{GiveBack, turns};
use crate::world::{HOUR, World};
use crate::{Fixture, Step};

/// A suspended instance takes control messages only; what else arrives waits until it is open again. So does one
/// that has not started.
pub async fn r04a_a_suspended_instance_takes_only_control(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    w.run(|turn| Step::of(turn).suspended()).await;
    let event = w.event_to("order");
    w.deliver(event.clone()).await;
    w.start_with(w.scheduled_start("later", HOUR)).await;
    w.deliver(w.event_to("later")).await;
    let session = w.session().await;
    session.no_turn("events wait while an instance is suspended or not started").await;

    let resume = w.control_to("order", Control::Resume);
    w.deliver(resume.clone()).await;
    let turn = session.turn().await;
    w.same(&ids(&turn.messages), &vec![resume.id], "a suspended instance gets its control messages alone");
    session.commit(Step::of(&turn)).await;
    let turn = session.turn().await;
    w.same(&ids(&turn.messages), &vec![event.id], "what waited comes when the instance is open");
}

/// An instance that is locked takes control messages and those of its owner; others wait until it is open again.
pub async fn r04b_a_locked_instance_takes_its_owners_messages(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("stock").await;
    w.run(|turn| Step::of(turn).locked_by("owner")).await;
    let foreign = w.events_from("stranger", "stock", 1, 1).remove(0);
    w.deliver(foreign.clone()).await;
    let session = w.session().await;
    session.no_turn("messages of others wait while an instance is locked").await;

    let own = w.events_from("owner", "stock", 1, 1).remove(0);
    w.deliver(own.clone()).await;
    let turn = session.turn().await;
    w.same(&ids(&turn.messages), &vec![own.id], "a locked instance gets its owner's messages alone");
    session.commit(Step::of(&turn)).await;
    let turn = session.turn().await;
    w.same(&ids(&turn.messages), &vec![foreign.id], "what waited comes when the instance is open");
}

/// Messages to an ended instance are dropped and counted, those that waited when it ended too.
pub async fn r04c_an_ended_instance_drops_messages(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    let session = w.session().await;
    let turn = session.turn().await;
    w.deliver(w.event_to("order")).await;
    session.commit(Step::of(&turn).ended(Status::Completed)).await;

    let late = w.send(w.event_to("order")).await;
    w.same(&late, &Delivered::Dropped(DropReason::Ended), "an ended instance takes no event");
    let stored = w.snapshot().await;
    w.same(&stored.waiting("order"), &vec![], "nothing waits for an ended instance");
    w.same(&stored.dropped(DropReason::Ended), &2, "what an ended instance drops is counted");
    session.no_turn("nothing waits for an ended instance").await;
    what_was_carried_over_is_dropped(&w).await;
    what_was_for_the_ended_run_is_dropped(&w).await;
}

/// What a run carried over waits before the inbox, and goes with it when the next run ends.
async fn what_was_carried_over_is_dropped(w: &World<'_>) {
    w.running("next").await;
    w.deliver(w.event_to("next")).await;
    let session = w.session().await;
    let turn = session.turn().await;
    let (start, carried, second) = (w.start_message("next"), w.event_to("next"), w.start_message("next"));
    session.commit(Step::of(&turn).continue_as_new(vec![start.clone(), carried, second.clone()])).await;
    let turn = session.turn().await;
    let before = w.snapshot().await.dropped(DropReason::Ended);
    session.commit(Step::of(&turn).consuming(&[start.id]).ended(Status::Completed)).await;

    let stored = w.snapshot().await;
    w.same(&stored.waiting("next"), &vec![second.id], "only what would open the instance again still waits");
    w.same(&stored.dropped(DropReason::Ended), &(before + 1), "what was carried over is counted");
}

/// Before a waiting start, or behind it: what came for the run that has ended goes with it.
async fn what_was_for_the_ended_run_is_dropped(w: &World<'_>) {
    w.start("last").await;
    let session = w.session().await;
    let turn = session.turn_of("last").await;
    w.deliver(w.event_to("last")).await;
    let (start, _) = waiting_start(w, "last").await;
    w.deliver(Message { execution: Some(turn.fence.execution), ..w.event_to("last") }).await;
    session.commit(Step::of(&turn).ended(Status::Completed)).await;
    w.same(&w.snapshot().await.waiting("last"), &vec![start], "only the start is left");
}

/// A turn of a pending instance carries its start, first, even when a control message woke it before the start is
/// due.
pub async fn r04d_a_pending_turn_carries_its_start_first(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let start = w.scheduled_start("order", HOUR);
    w.start_with(start.clone()).await;
    let terminate = w.control_to("order", Control::Terminate);
    w.deliver(terminate.clone()).await;

    let turn = w.session().await.turn().await;
    w.same(&turn.record.status, &Status::Pending, "the instance has not run");
    w.same(&ids(&turn.messages), &vec![start.id, terminate.id], "the start comes first, then what woke it");
}

/// An ended instance is ready when a start waits for it, and is claimed under the queue of that start.
pub async fn r04e_an_ended_instance_takes_a_start(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.ended("order").await;
    let start = w.start_in("order", "Refunds", |_| {});
    w.deliver(start.clone()).await;

    let queues = Queues { ..only("Refunds") };
    let turns = w.session().await.claim(Credit { queues, ..turns(10) }).await;
    w.same(&turns.len(), &1, "the waiting start makes the instance ready in the queue of the start");
    w.same(&turns[0].record.status, &Status::Completed, "the turn decides what the start does");
    let starts = turns[0].messages.iter().filter(|message| matches!(message.class, Class::Start(_)));
    w.same(&starts.map(|message| message.id).collect::<Vec<_>>(), &vec![start.id], "the turn gets the start");
}

/// What comes behind a start that waits for an ended instance waits with it: it is for the run that the start begins. So
/// does what stands behind a start when the run before it ends. What is for the run that has ended is dropped.
pub async fn r04f_what_follows_a_start_waits_with_it(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let before = w.ended("order").await;
    let (start, next) = waiting_start(&w, "order").await;
    let event = w.event_to("order");
    w.deliver(event.clone()).await;
    let cancel = Message { execution: Some(next.execution), ..w.control_to("order", Control::Terminate) };
    w.deliver(cancel.clone()).await;
    let late = Message { execution: Some(before.fence.execution), ..w.event_to("order") };
    let late = w.send(late).await;
    w.same(&late, &Delivered::Dropped(DropReason::Ended), "what is for the run that has ended is dropped");

    let (fence, record) = w.found("order").await;
    let begins = ClaimedTurn { fence, record, messages: Vec::new(), ..before };
    w.ok(w.manage().amend(Step::of(&begins).consuming(&[start]).begin(&next).into()).await, "amend");
    let session = w.session().await;
    let turn = session.turn().await;
    let came: BTreeSet<MessageId> = ids(&turn.messages).into_iter().collect();
    w.same(&came, &BTreeSet::from([event.id, cancel.id]), "what followed the start is for its run");
    session.commit(Step::of(&turn).ended(Status::Completed)).await;
    what_stands_behind_a_start_outlives_the_end(&w).await;
}

/// A start that comes while an instance still runs, and what follows it, are still there when that run has ended.
async fn what_stands_behind_a_start_outlives_the_end(w: &World<'_>) {
    w.start("next").await;
    let session = w.session().await;
    let turn = session.turn().await;
    let (start, _) = waiting_start(w, "next").await;
    let event = w.event_to("next");
    w.deliver(event.clone()).await;
    session.commit(Step::of(&turn).ended(Status::Completed)).await;
    let waiting = w.snapshot().await.waiting("next");
    w.same(&waiting, &vec![start, event.id], "what stood behind the start is left");
}

/// Sends a start. Returns its id, and the record of the run that it will begin.
async fn waiting_start(w: &World<'_>, to: &str) -> (MessageId, Record) {
    let start = w.start_message(to);
    let Class::Start(carried) = start.class.clone() else { unreachable!("a start was made") };
    w.deliver(start.clone()).await;
    (start.id, carried.record(start.id))
}

/// An instance that was suspended before it began is not ready for its start. A control message wakes it, and brings the
/// start, first. So it is with a start before the inbox, and however much waits.
pub async fn r04g_a_suspended_unborn_run_keeps_its_start_back(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let start = w.start("order").await;
    suspend_unborn(&w, "order").await;
    let session = w.session().await;
    session.no_turn("a run that is suspended before it began does not begin").await;
    let many = (0..MANY).map(|_| w.event_to("order")).collect();
    let sent = w.manage().send(many).await;
    w.check(sent.iter().all(Result::is_ok), "a suspended instance takes events");
    session.no_turn("events do not wake it").await;
    let terminate = w.control_to("order", Control::Terminate);
    w.deliver(terminate.clone()).await;
    let turn = session.turn().await;
    w.same(&ids(&turn.messages), &vec![start.id, terminate.id], "what woke it brings the start, first");
    session.commit(Step::of(&turn).ended(Status::Terminated)).await;

    w.running("next").await;
    w.deliver(w.event_to("next")).await;
    let turn = session.turn_of("next").await;
    let next = Step::of(&turn).continue_as_new(Vec::new()).execution();
    let start = w.start_in("next", "Orders", |opening| opening.execution = next);
    session.commit(Step::of(&turn).continue_as_new(vec![start.clone()])).await;
    suspend_unborn(&w, "next").await;
    session.no_turn("nor does a run that was continued").await;
    let resume = w.control_to("next", Control::Resume);
    w.deliver(resume.clone()).await;
    let turn = session.turn().await;
    w.same(&ids(&turn.messages), &vec![start.id, resume.id], "the start before the inbox comes first, too");
    session.release(turn.plainly()).await;
    let opened = Step::of(&w.unclaimed("next", Vec::new()).await);
    w.ok(w.manage().amend(opened.into()).await, "amend");
    let turn = session.turn().await;
    w.check(ids(&turn.messages).contains(&start.id), "open again, it begins");
}

/// More than a store keeps at hand.
const MANY: usize = 80;

/// Suspends a run from outside that has not begun.
async fn suspend_unborn(w: &World<'_>, id: &str) {
    let turn = w.unclaimed(id, Vec::new()).await;
    // No event says so: its history is empty as before.
    let step = Step::of(&turn).without_events().suspended();
    w.ok(w.manage().amend(step.into()).await, "amend");
}
