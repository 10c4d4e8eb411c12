//! Rule 10, applied once: results and messages have their effect once, however often they come.

use std::time::Duration;

use dauer_core::limits::START_RETRY_MAX;
use dauer_store::{
    Control, Created, Delivered, DropReason, Message, MessageId, Purge, Refused, Reuse, Status,
};

use crate::message::ids;
use crate::run::open;
use crate::session::GiveBack;
use crate::world::instance;
use crate::{Fixture, Step};

/// The result of a task is applied once; the same again is dropped, which is no error.
pub async fn r10a_a_task_is_completed_once(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    let session = w.session().await;
    let lease = session.task().await;
    let completion = w.answer(&lease);
    let first = session.complete(completion.clone()).await;
    w.same(&first, &Delivered::Applied, "the result is applied");
    let turn = session.turn().await;
    w.same(&ids(&turn.messages), &vec![completion.answer.id], "the result is a message to the instance");

    let again = session.complete(completion.clone()).await;
    w.same(&again, &Delivered::Dropped(DropReason::NotHeld), "an answered task is no longer held");
    session.commit(Step::of(&turn)).await;
    session.no_turn("the result came once").await;
}

/// The result of a task that has changed hands is dropped, also when its old holder has it again under a new epoch;
/// that of the hands that hold it is applied.
pub async fn r10b_only_the_holder_completes_a_task(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    let (first, second) = (w.session().await, w.session().await);
    let before = first.task().await;
    first.release(before.plainly()).await;
    let between = second.task().await;
    let late = first.complete(w.answer(&before)).await;
    w.same(&late, &Delivered::Dropped(DropReason::NotHeld), "the old holder's result is dropped");

    second.release(between.plainly()).await;
    let after = first.task().await;
    let late = first.complete(w.answer(&before)).await;
    w.same(&late, &Delivered::Dropped(DropReason::NotHeld), "the result of an earlier lease is dropped");
    let answered = first.complete(w.answer(&after)).await;
    w.same(&answered, &Delivered::Applied, "the holder's result is applied");
}

/// A message that was consumed is remembered, also by the next run: the same again is dropped.
pub async fn r10c_a_consumed_message_is_remembered(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    let event = w.event_to("order");
    w.deliver(event.clone()).await;
    w.run(Step::of).await;
    let again = w.send(event.clone()).await;
    w.same(&again, &Delivered::Dropped(DropReason::Repeat), "it was applied before");

    w.deliver(w.event_to("order")).await;
    w.run(|turn| Step::of(turn).continue_as_new(Vec::new())).await;
    let again = w.send(event.clone()).await;
    w.same(&again, &Delivered::Dropped(DropReason::Repeat), "it was applied by the run before");
    w.deliver(w.event_to("order")).await;
    w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
    w.ok(w.create(w.start_message("order"), Reuse::default()).await, "create");
    w.run(Step::of).await;
    let again = w.send(event).await;
    w.same(&again, &Delivered::Dropped(DropReason::Repeat), "it was applied before another start");
    w.session().await.no_turn("nothing new has come").await;
}

/// A start is remembered when another one takes its place, in whatever way: the same again begins nothing.
pub async fn r10d_a_start_that_gave_way_is_remembered(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let start = w.start("child").await;
    // As a child whose parent was rewound: it goes on under the start of the parent's new run.
    w.run(|turn| Step::of(turn).record(|record| record.start = MessageId([7; 16]))).await;
    // Longer than the hub itself remembers a start that no instance names.
    w.advance(START_RETRY_MAX + Duration::from_secs(1)).await;
    let again = w.send(start.clone()).await;
    w.same(&again, &Delivered::Dropped(DropReason::Repeat), "it began the run that goes on");
    w.deliver(w.event_to("child")).await;
    w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
    let again = w.send(start).await;
    w.same(&again, &Delivered::Dropped(DropReason::Repeat), "it began the run that has ended");

    let start = w.start("order").await;
    w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
    w.ok(w.create(w.start_message("order"), Reuse::default()).await, "create");
    w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
    w.advance(START_RETRY_MAX + Duration::from_secs(1)).await;
    let again = w.send(start.clone()).await;
    w.same(&again, &Delivered::Dropped(DropReason::Repeat), "it began the run before");
    let again = w.create(start, Reuse::default()).await;
    w.check(matches!(again, Ok(Created::Repeat(_))), &format!("so it does for a client: {again:?}"));
    w.session().await.no_turn("nothing new has come").await;
}

/// A message that an amendment carries out is remembered, whether it ever waited or not: sent again it is a repeat, and an
/// amendment that names it again is refused, also when another run is there by then.
pub async fn r10e_an_amended_message_is_remembered(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let terminate = w.control_to("order", Control::Terminate);
    let start = w.start("order").await;
    let turn = w.unclaimed("order", vec![start, terminate.clone()]).await;
    w.ok(w.manage().amend(Step::of(&turn).ended(Status::Terminated).into()).await, "amend");

    let next = w.start_message("order");
    w.ok(w.create(next.clone(), Reuse::default()).await, "create");
    let again = w.send(terminate.clone()).await;
    w.same(&again, &Delivered::Dropped(DropReason::Repeat), "the next run does not get it");
    let before = w.snapshot().await;
    let turn = w.unclaimed("order", vec![next, terminate]).await;
    let amended = w.manage().amend(Step::of(&turn).ended(Status::Terminated).into()).await;
    w.check(matches!(amended, Err(Refused::Repeat)), &format!("nor does an amendment apply it: {amended:?}"));
    w.same(&w.snapshot().await, &before, "a refused amendment changes nothing");
}

/// A start that waited, and that an amendment took out without beginning it, is remembered: the same again begins nothing, also
/// when the instance is gone.
pub async fn r10f_an_overtaken_start_is_remembered(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    let overtaken = w.start_message("order");
    w.deliver(overtaken.clone()).await;
    let turn = w.unclaimed("order", vec![overtaken.clone()]).await;
    w.ok(w.manage().amend(Step::of(&turn).ended(Status::Terminated).into()).await, "amend");
    let again = w.create(overtaken.clone(), Reuse::default()).await;
    w.check(matches!(again, Ok(Created::Repeat(_))), &format!("the instance remembers it: {again:?}"));

    let purged = w.manage().purge(Purge::Ids(vec![instance("order")])).await;
    w.same(&w.ok(purged, "purge").count, &1, "no start waits for the instance");
    let again = w.create(overtaken, Reuse::default()).await;
    w.check(matches!(again, Ok(Created::Repeat(_))), &format!("the hub remembers it: {again:?}"));
    w.session().await.no_turn("nothing new has come").await;
}

/// The start of a removed instance is not carried out by an amendment of a later one, neither consumed nor put before the inbox,
/// whatever class the amendment gives it.
pub async fn r10g_an_amendment_names_no_removed_start(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let removed = w.start("order").await;
    w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
    w.ok(w.manage().purge(Purge::Ids(vec![instance("order")])).await, "purge");
    let next = w.start("order").await;
    let before = w.snapshot().await;
    let consumes = Step::of(&w.unclaimed("order", vec![next.clone(), removed.clone()]).await);
    let rewind = Message { id: removed.id, ..w.rewind_message("order") };
    let turn = w.unclaimed("order", vec![next]).await;
    let begins = [removed, rewind].map(|first| {
        let id = first.id;
        Step::of(&turn).continue_as_new(vec![first]).record(|record| record.start = id)
    });
    for step in [consumes].into_iter().chain(begins) {
        let amended = w.manage().amend(step.into()).await;
        w.check(matches!(amended, Err(Refused::Repeat)), &format!("its start is known: {amended:?}"));
    }
    w.same(&w.snapshot().await, &before, "a refused amendment changes nothing");
}
