//! Rule 18, create: a start is carried out once, and replaces what it may.

use std::time::Duration;

use dauer_core::limits::START_RETRY_MAX;
use dauer_store::{
    Class, Create, Created, Delivered, DropReason, ExecutionId, Message, Over, Purge, Refused, Reuse, Status,
};

use crate::message::{execution, ids};
use crate::run::open;
use crate::world::{World, instance};
use crate::{Fixture, Step};

/// The same start again is a repeat, while the instance runs and after it has ended, whatever the policy says.
pub async fn r18a_the_same_start_again_is_a_repeat(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let start = w.start("order").await;
    let again = Ok(Created::Repeat(Some(execution(&start))));
    let repeat = |start: Message| w.create(start, Reuse::default());
    w.same(&repeat(start.clone()).await.map_err(|r| r.to_string()), &again, "a start that waits is repeated");
    let turn = w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
    w.same(&ids(&turn.messages), &vec![start.id], "the start came once");
    w.same(
        &repeat(start).await.map_err(|r| r.to_string()),
        &again,
        "a start that was carried out is repeated",
    );
    w.session().await.no_turn("a repeat starts nothing").await;
    a_start_is_known_wherever_it_got(&w).await;
}

/// A start is known by the run after the one it began, and while it waits for an ended instance to take it: neither is
/// a matter of what may be replaced.
async fn a_start_is_known_wherever_it_got(w: &World<'_>) {
    let start = w.start("loop").await;
    w.run(|turn| Step::of(turn).continue_as_new(Vec::new())).await;
    let again = w.create(start.clone(), Reuse::default()).await;
    w.check(matches!(again, Ok(Created::Repeat(_))), &format!("the next run knows the start: {again:?}"));
    let again = w.send(start).await;
    w.same(&again, &Delivered::Dropped(DropReason::Repeat), "so it does when a parent sends it again");

    w.ended("done").await;
    let waiting = w.start_in("done", "Refunds", |_| {});
    w.deliver(waiting.clone()).await;
    let again = w.create(waiting.clone(), Reuse::default()).await;
    let again = w.ok(again, "create");
    w.same(
        &again,
        &Created::Repeat(Some(execution(&waiting))),
        "a start that waits for an ended instance is known",
    );
}

/// A start over an ended instance replaces it: record, history and tasks are new, the revision goes on and the epoch
/// grows, so that no fence of the old one passes.
pub async fn r18b_a_start_replaces_an_ended_instance(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let old = w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
    let before = w.snapshot().await.instance("order").map(|order| order.epoch);

    let start = w.start_message("order");
    let created = w.create(start.clone(), Reuse::default()).await;
    let created = w.ok(created, "create");
    w.same(&created, &Created::New(execution(&start)), "an ended instance is replaced");
    let stored = w.snapshot().await;
    let order = stored.instance("order").expect("it was just created");
    w.check(Some(order.epoch) > before, "a replacement raises the epoch");
    w.check(order.record.revision > old.fence.revision, "the revision goes on");
    w.same(&order.record.status, &Status::Pending, "the new run has not begun");
    w.same(&order.record.start, &start.id, "the record is that of the new start");
    w.same(&order.history.len(), &0, "the old history is gone");
    w.same(&stored.tasks().count(), &0, "the old tasks are gone");
    w.same(&stored.waiting("order"), &vec![start.id], "the start waits");
}

/// A start that may not replace what is there is refused with its status, also when both come at the same time; an
/// ended instance for which a start waits counts as pending, as that start was acknowledged first. A start that may
/// replace a running instance is put into its inbox, for its next turn to carry out.
pub async fn r18c_a_start_respects_what_is_there(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("living").await;
    w.ended("ended").await;
    w.ended("begun").await;
    w.deliver(w.start_message("begun")).await;
    let before = w.snapshot().await;
    let never = Reuse { replaceable: Vec::new() };
    for (id, reuse, status) in [
        ("living", Reuse::default(), Status::Running),
        ("ended", never, Status::Completed),
        ("begun", Reuse::default(), Status::Pending),
    ] {
        let result = w.create(w.start_message(id), reuse).await;
        let exists = matches!(result, Err(Refused::Exists(found)) if found == status);
        w.check(exists, &format!("a start over {id} should answer Exists({status:?}): {result:?}"));
    }
    w.same(&w.snapshot().await, &before, "a refused start changes nothing");

    let mut start = w.start_message("living");
    if let dauer_store::Class::Start(start) = &mut start.class {
        start.over = Over::Terminate;
    }
    let result = w.create(start.clone(), Reuse { replaceable: vec![Status::Running] }).await;
    let created = w.ok(result, "create");
    w.same(&created, &Created::Replacing(execution(&start)), "the running instance will be replaced");
    let turn = w.session().await.turn_of("living").await;
    w.same(&turn.record.status, &Status::Running, "its next turn carries it out");
    w.same(&ids(&turn.messages), &vec![start.id], "its next turn gets the start");

    let racing = (0..8).map(|_| w.create(w.start_message("new"), Reuse::default()));
    let results = futures::future::join_all(racing).await;
    let won = results.iter().filter(|result| matches!(result, Ok(Created::New(_)))).count();
    let lost = results.iter().filter(|result| matches!(result, Err(Refused::Exists(_)))).count();
    w.same(&(won, lost), &(1, 7), "of starts at the same time one wins");
}

/// A repeat is answered with the run of the start that is there or waits, whatever run the repeat itself names: a client
/// that sends its request again draws another.
pub async fn r18d_a_repeat_names_the_run_that_is_there(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let start = w.start("order").await;
    let repeat = |start: &Message| w.create(drawn_again(start), Reuse { replaceable: vec![Status::Running] });
    let there = Created::Repeat(Some(execution(&start)));
    w.same(&w.ok(repeat(&start).await, "create"), &there, "a run that has not begun is named");
    w.run(Step::of).await;
    w.same(&w.ok(repeat(&start).await, "create"), &there, "a run that has begun is named");

    let next = w.start_message("order");
    let replacing = w.create(next.clone(), Reuse { replaceable: vec![Status::Running] }).await;
    w.same(&w.ok(replacing, "create"), &Created::Replacing(execution(&next)), "the next start waits");
    let waits = Created::Repeat(Some(execution(&next)));
    w.same(&w.ok(repeat(&next).await, "create"), &waits, "a run that waits is named");
    w.run(|turn| Step::of(turn).ended(Status::Terminated)).await;
    w.ok(w.manage().purge(Purge::Ids(vec![instance("order")])).await, "purge");
    let removed = w.ok(repeat(&start).await, "create");
    w.same(&removed, &Created::Repeat(None), "no run is named when only the start's id is remembered");
}

/// The same start as another attempt at its request would be: with a run of its own.
fn drawn_again(start: &Message) -> Message {
    let mut again = start.clone();
    if let Class::Start(start) = &mut again.class {
        start.execution = ExecutionId(start.execution.0 ^ 1);
    }
    again
}

/// A start without a request id is a repeat only as a retry, of an equal start that was accepted shortly before: of the one
/// that is there, of one that waits, and of one that was removed. Otherwise the reuse policy decides.
pub async fn r18e_an_equal_start_is_a_repeat_only_as_a_retry(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let again = |start: Message, retry| {
        let create = Create { start, reuse: Reuse::default(), retry };
        async { w.manage().create(vec![create]).await.pop().expect("one answer") }
    };
    w.start_with(w.alike_start("order", 1)).await;
    let is_repeat = |created: Result<Created, Refused>, what: &str| {
        w.check(matches!(created, Ok(Created::Repeat(_))), &format!("{what}: {created:?}"));
    };
    is_repeat(again(w.alike_start("order", 2), true).await, "a retry of a start that waits is a repeat");
    let deliberate = again(w.alike_start("order", 3), false).await;
    let exists = matches!(deliberate, Err(Refused::Exists(Status::Pending)));
    w.check(exists, &format!("an equal start is a start of its own: {deliberate:?}"));
    w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
    is_repeat(again(w.alike_start("order", 4), true).await, "so is one of a start whose run has ended");
    w.ok(w.manage().purge(Purge::Ids(vec![instance("order")])).await, "purge");
    is_repeat(again(w.alike_start("order", 5), true).await, "and one of a start whose run was removed");
    let other = again(w.alike_start("other", 6), true).await;
    w.check(matches!(other, Ok(Created::New(_))), "a retry whose first attempt never arrived is carried out");

    w.advance(START_RETRY_MAX + Duration::from_secs(1)).await;
    let late = again(w.alike_start("order", 7), true).await;
    w.check(
        matches!(late, Ok(Created::New(_))),
        "a start that was accepted long ago is not retried any more",
    );
    let late = again(w.alike_start("other", 8), true).await;
    let exists = matches!(late, Err(Refused::Exists(Status::Pending)));
    w.check(exists, &format!("nor is one whose run is there: {late:?}"));
}

/// A rewind that waits begins a run, but no start was accepted: a retry of a start with the likeness of its id is no repeat.
pub async fn r18f_a_waiting_rewind_is_no_start_to_retry(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.ended("order").await;
    let start = w.alike_start("order", 2);
    w.deliver(Message { id: w.alike_start("order", 1).id, ..w.rewind_message("order") }).await;
    let create = Create { start, reuse: Reuse::default(), retry: true };
    let created = w.manage().create(vec![create]).await.pop().expect("one answer");
    let exists = matches!(created, Err(Refused::Exists(Status::Pending)));
    w.check(exists, &format!("the instance counts as pending: {created:?}"));
}
