//! Rule 20, fusion and keep: a host goes on with what it has at hand, without asking again.

use std::time::Duration;

use dauer_store::{ClaimedTurn, Delivered, DropReason, Epoch, ExecutionId, Fence, Item, Release, Revision};

use crate::message::ids;
use crate::run::open;
use crate::session::{named, turns};
use crate::world::{LEASE, World};
use crate::{Fixture, Session, Step};

/// A commit leases as many of its new tasks to the session as it wants to take; their results go into the next
/// commit, which ends the tasks without any message.
pub async fn r20a_a_commit_takes_its_own_tasks(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    let (session, other) = (w.session().await, w.session().await);
    let turn = session.turn().await;
    let task = w.task(&turn, "pay");
    let committed = session.commit(Step::of(&turn).tasks([task.clone()]).take(1)).await;
    let taken: Vec<_> = committed.taken.iter().map(|lease| lease.task.clone()).collect();
    w.same(&taken, &vec![task], "the commit leases the task it took");
    w.same(&committed.taken[0].fence.epoch, &Epoch(1), "nobody had the task before");
    other.no_task("the task was taken by the commit").await;

    let event = w.event_to("order");
    w.deliver(event).await;
    let turn = session.turn().await;
    let completion = w.answer(&committed.taken[0]);
    session.commit(Step::of(&turn).completions([completion.clone()])).await;
    w.same(&w.snapshot().await.tasks().count(), &0, "the task ended with the commit that used its result");
    session.no_turn("the result never was a message").await;
    let again = session.complete(completion).await;
    w.same(&again, &Delivered::Dropped(DropReason::NotHeld), "the result is used up");
}

/// An instance that is kept stays with its session. No session wins it; its session learns of messages when they are delivered,
/// when they become due, and by each look.
pub async fn r20b_a_kept_instance_stays_with_its_session(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let (session, other, kept) = keep(&w).await;
    let order = vec!["order".to_owned()];
    w.same(&session.waiting_mail().await, &vec![], "nothing has come");
    session.grant(turns(9));
    let mut waits = session.waits();
    session.still_waits(&mut waits, "nothing has come");
    let event = w.event_to("order");
    w.deliver(event.clone()).await;
    let told = session.returned(waits).await;
    w.same(&(named(&told), told.turns), &(order.clone(), vec![]), "the delivery ends the wait");
    other.no_turn("the instance is kept by another session").await;
    session.no_turn("the session holds the instance already").await;
    w.same(&other.waiting_mail().await, &vec![], "another session holds the instance");
    for _ in 0..2 {
        w.same(&session.waiting_mail().await, &order, "each look finds the message");
    }

    let mail = session.mail(&kept.fence).await;
    w.same(&ids(&mail.messages), &vec![event.id], "the message is there");
    w.same(&session.mail(&kept.fence).await.messages, &mail.messages, "a read changes nothing");
    let next = ClaimedTurn { messages: mail.messages, ..kept };
    let timer = w.timer(&next, w.at(LEASE / 2));
    let committed = session.commit(Step::of(&next).timers([timer.clone()]).keep()).await;
    w.same(&committed.revision, &Revision(2), "the turn went on under the same epoch");
    w.same(&session.waiting_mail().await, &vec![], "what waits is not visible yet");
    let mut waits = session.waits();
    session.still_waits(&mut waits, "what waits is not visible yet");
    w.snapshot().await;
    session.still_waits(&mut waits, "what waits is not visible yet");

    w.advance(LEASE / 2).await;
    w.same(&named(&session.returned(waits).await), &order, "the timer has come");
    let kept = Step::after(&next);
    w.same(&ids(&session.mail(&kept.fence).await.messages), &vec![timer.id], "and is read");
}

/// Mail is for the session that holds the instance, at the run, revision and epoch of the fence.
pub async fn r20d_mail_is_for_the_holder_at_its_revision(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    let (session, other) = (w.session().await, w.session().await);
    let turn = session.turn().await;
    w.deliver(w.event_to("order")).await;
    session.commit(Step::of(&turn).keep()).await;
    let fence = Step::after(&turn).fence;
    w.fenced(other.try_mail(&fence).await, "another session holds the instance");
    let before = Fence { revision: Revision(0), ..fence.clone() };
    w.fenced(session.try_mail(&before).await, "a commit came after");
    let later = Fence { epoch: fence.epoch.next(), ..fence.clone() };
    w.fenced(session.try_mail(&later).await, "it is held under another epoch");
    let other_run = Fence { execution: ExecutionId(7), ..fence.clone() };
    w.fenced(session.try_mail(&other_run).await, "it has another run");
    w.same(&session.mail(&fence).await.messages.len(), &1, "this is its fence");
    let item = Item::Turn(fence.clone());
    session.release(Release { item, delay: Duration::ZERO, trouble: None, failed: false }).await;
    w.fenced(session.try_mail(&fence).await, "it was given back");
}

/// Arrivals and mail stop at the byte limit and say that more waits; the first message comes whatever its size.
pub async fn r20e_mail_has_a_byte_limit(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    let session = w.session().await;
    let turn = session.turn().await;
    let size = w.event_to("order").event.len();
    let fit = w.manage().limits().mail_bytes / size;
    for _ in 0..=fit {
        w.deliver(w.event_to("order")).await;
    }
    let committed = session.commit(Step::of(&turn).keep()).await;
    w.check(committed.arrived.len() <= fit && committed.more, "the commit keeps to the limit");
    let next = Step::after(&turn);
    let mail = session.mail(&next.fence).await;
    w.check(mail.messages.len() <= fit && mail.more, "so does mail");
    let first = ClaimedTurn { messages: mail.messages, ..next };
    let committed = session.commit(Step::of(&first).keep()).await;
    let rest = session.mail(&Step::after(&first).fence).await;
    w.check(!committed.more && !rest.more, "the rest is within the limit");
    w.same(&(first.messages.len() + rest.messages.len()), &(fit + 1), "every message came");
}

/// Keeps an instance with nothing to do; answers with its session, another one, and its next turn.
async fn keep(w: &World<'_>) -> (Session, Session, ClaimedTurn) {
    w.start("order").await;
    let (session, other) = (w.session().await, w.session().await);
    let turn = session.turn().await;
    let committed = session.commit(Step::of(&turn).keep()).await;
    w.same(&ids(&committed.arrived), &vec![], "nothing has arrived");
    (session, other, Step::after(&turn))
}

/// A commit that keeps the instance answers with what has arrived, in order; the session goes on with the next turn
/// without a claim.
pub async fn r20c_a_commit_that_keeps_tells_what_arrived(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    let session = w.session().await;
    let turn = session.turn().await;
    let event = w.event_to("order");
    w.deliver(event.clone()).await;
    let committed = session.commit(Step::of(&turn).keep()).await;
    w.same(&ids(&committed.arrived), &vec![event.id], "the commit tells what arrived meanwhile");

    let next = Step::continued(&turn, &committed);
    let committed = session.commit(Step::of(&next)).await;
    w.same(&committed.revision, &Revision(2), "the turn went on under the same epoch");
    session.no_turn("what arrived is consumed").await;
}
