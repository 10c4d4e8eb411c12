//! Rule 20, fusion and keep: a host goes on with what it has at hand, without asking again.

use dauer_store::{Delivered, DropReason, Epoch, Revision};

use crate::message::ids;
use crate::run::open;
use crate::world::World;
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

/// An instance that is kept stays with its session, which gets it again under the same epoch when a message comes.
pub async fn r20b_a_kept_instance_stays_with_its_session(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let (session, other, kept) = keep(&w).await;
    session.no_turn("nothing has come").await;
    let event = w.event_to("order");
    w.deliver(event.clone()).await;
    other.no_turn("the instance is kept by another session").await;

    let turn = session.turn().await;
    w.same(&turn.fence.epoch, &kept.epoch, "it has not changed hands");
    w.same(&turn.fence.revision, &Revision(1), "it has had one commit");
    w.same(&ids(&turn.messages), &vec![event.id], "the message is there");
    session.commit(Step::of(&turn)).await;
}

async fn keep(w: &World<'_>) -> (Session, Session, dauer_store::Fence) {
    w.start("order").await;
    let (session, other) = (w.session().await, w.session().await);
    let turn = session.turn().await;
    let committed = session.commit(Step::of(&turn).keep()).await;
    w.same(&ids(&committed.arrived), &vec![], "nothing has arrived");
    (session, other, turn.fence)
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
