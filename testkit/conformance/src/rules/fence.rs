//! Rule 2, fence: a commit passes only in the hands that claimed it, in the state that was claimed.

use dauer_store::{Control, Epoch, ExecutionId, Purge, Revision, Status};

use crate::run::open;
use crate::session::GiveBack;
use crate::world::{PAST_LEASE, World};
use crate::{Fixture, Step};

/// A commit or amendment for another run of the instance is refused; the commit for the claimed run passes.
pub async fn r02a_commit_compares_the_execution(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    let session = w.session().await;
    let turn = session.turn().await;

    let other = Step::of(&turn).fence(|fence| fence.execution = ExecutionId(fence.execution.0 ^ 1));
    w.fenced(session.try_commit(other.clone()).await, "a commit for another execution");
    w.fenced(w.manage().amend(other.into()).await, "an amendment of another execution");
    session.commit(Step::of(&turn)).await;
}

/// A commit or amendment that has seen fewer commits than there were, or more, is refused; the commit that has seen
/// them all passes.
pub async fn r02b_commit_compares_the_revision(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    w.deliver(w.event_to("order")).await;
    w.run(Step::of).await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    let turn = session.turn().await;
    w.same(&turn.fence.revision, &Revision(2), "every commit counts");

    let behind = Step::of(&turn).fence(|fence| fence.revision = Revision(0));
    w.fenced(session.try_commit(behind.clone()).await, "a commit two revisions behind");
    w.fenced(w.manage().amend(behind.into()).await, "an amendment two revisions behind");
    let ahead = Step::of(&turn).fence(|fence| fence.revision = Revision(3));
    w.fenced(session.try_commit(ahead).await, "a commit ahead of the revision");
    let committed = session.commit(Step::of(&turn)).await;
    w.same(&committed.revision, &Revision(3), "a commit adds one to the revision");

    // Two operators look at the same instance; the second to act has not seen what the first did.
    let amendment = Step::of(&Step::after(&turn));
    w.ok(w.manage().amend(amendment.clone().into()).await, "amend");
    let other = amendment.record(|record| record.details.set_custom_status(Some("another".into())));
    w.fenced(w.manage().amend(other.into()).await, "another amendment of the same revision");
}

/// The epoch grows when an instance changes hands, after a release and after a takeover from a dead session; the
/// commit of the hands before is refused, also when they have it again, and that of the hands after passes.
pub async fn r02c_commit_compares_the_epoch(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    let (first, second) = (w.session().await, w.session().await);
    let before = first.turn().await;
    first.release(before.plainly()).await;
    let between = second.turn().await;
    w.check(between.fence.epoch > before.fence.epoch, "a change of hands raises the epoch");
    w.fenced(first.try_commit(Step::of(&before)).await, "a commit after the release");

    second.release(between.plainly()).await;
    let again = first.turn().await;
    w.check(again.fence.epoch > between.fence.epoch, "a change of hands raises the epoch, also back");
    w.fenced(first.try_commit(Step::of(&before)).await, "a commit under the epoch of an earlier claim");
    first.release(again.plainly()).await;
    let between = second.turn().await;

    w.advance(PAST_LEASE).await;
    let third = w.session().await;
    let after = third.turn().await;
    w.check(after.fence.epoch > between.fence.epoch, "a takeover raises the epoch");
    w.fenced(second.try_commit(Step::of(&between)).await, "the commit of a host that was taken for dead");
    third.commit(Step::of(&after)).await;
    a_task_that_is_taken_over_has_a_new_epoch(&w).await;
}

/// A task changes hands like a turn: otherwise a host that loses it and gets it back could answer the second lease by
/// what it did for the first.
async fn a_task_that_is_taken_over_has_a_new_epoch(w: &World<'_>) {
    w.running_with_task("paid").await;
    let before = w.session().await.task().await;
    w.advance(PAST_LEASE).await;
    let after = w.session().await.task().await;
    w.check(after.fence.epoch > before.fence.epoch, "a takeover raises the epoch of a task, too");
}

/// An amendment passes whatever the epoch, raises it, and leaves the instance free.
pub async fn r02d_an_amendment_raises_the_epoch(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    let holder = w.session().await;
    let held = holder.turn().await;
    let step = Step::of(&held).record(|record| record.details.set_custom_status(Some("amended".into())));
    let blind = step.fence(|fence| fence.epoch = Epoch(fence.epoch.0 + 9));
    let amended = w.ok(w.manage().amend(blind.into()).await, "amend");
    w.same(&amended.revision, &held.fence.revision.next(), "an amendment is a commit");

    let stored = w.snapshot().await;
    let order = stored.instance("order").expect("it was amended");
    w.check(order.epoch > held.fence.epoch, "an amendment raises the epoch");
    w.same(&order.holder, &None, "an amendment leaves the instance unheld");
    let amended = dauer_store::Payload::from("amended");
    w.same(&order.record.details.custom_status(), &Some(&amended), "an amendment changes the record");
}

/// A checkpoint that uses the result of a task which its session no longer holds is refused as a whole.
pub async fn r02e_a_stale_completion_refuses_the_checkpoint(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    let lease = session.task().await;
    session.release(lease.plainly()).await;

    let turn = session.turn().await;
    let before = w.snapshot().await;
    let step = Step::of(&turn).completions([w.answer(&lease)]);
    w.fenced(session.try_commit(step).await, "a checkpoint with the result of a task that was given back");
    w.same(&w.snapshot().await, &before, "a refused checkpoint has no effect");
    session.commit(Step::of(&turn)).await;
}

/// A refused checkpoint leaves nothing behind: no history, no task, no timer, no message, no new instance.
pub async fn r02f_a_refused_checkpoint_leaves_nothing(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("other").await;
    w.start("order").await;
    let session = w.session().await;
    let turn = session.turn().await;
    let before = w.snapshot().await;

    let full = Step::of(&turn)
        .tasks([w.task(&turn, "pay")])
        .timers([w.timer(&turn, w.began)])
        .messages([
            w.event_of(&turn, "other", 0),
            w.start_message("child"),
            w.control_to("other", Control::Suspend),
        ])
        .take(1)
        // Wrong in two ways, so that this rule is about what a refusal leaves and not about one comparison.
        .fence(|fence| (fence.revision, fence.epoch) = (Revision(9), Epoch(fence.epoch.0 + 9)));
    w.fenced(session.try_commit(full).await, "a commit with a made-up fence");

    w.same(&w.snapshot().await, &before, "a refused checkpoint has no effect");
    session.no_task("a refused checkpoint schedules nothing").await;
}

/// An amendment of an instance that no session ever claimed takes its start out, wherever that waits. So the instance
/// can be purged, and its id can be started again.
pub async fn r02g_an_amendment_consumes_the_start(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let start = w.start("order").await;
    let never_sent = w.control_to("order", Control::Terminate);
    let turn = w.unclaimed("order", vec![start, never_sent]).await;
    w.ok(w.manage().amend(Step::of(&turn).ended(Status::Terminated).into()).await, "amend");
    ended_and_free(&w, "order").await;

    // A start that an amendment has put before the inbox goes with the next one.
    let replaced = w.start("replaced").await;
    let new = w.start_message("replaced");
    let turn = w.unclaimed("replaced", vec![replaced]).await;
    let begun = Step::of(&turn).record(|record| record.status = Status::Pending);
    w.ok(w.manage().amend(begun.continue_as_new(vec![new.clone()]).into()).await, "amend");
    let turn = w.unclaimed("replaced", vec![new]).await;
    w.ok(w.manage().amend(Step::of(&turn).ended(Status::Terminated).into()).await, "amend");
    ended_and_free(&w, "replaced").await;
}

async fn ended_and_free(w: &World<'_>, id: &str) {
    let stored = w.snapshot().await;
    w.same(&stored.waiting(id), &vec![], "nothing is left of an instance that was ended from outside");
    w.session().await.no_turn("an instance that was ended from outside has no turn").await;
    let purged = w.ok(w.manage().purge(Purge::Ids(vec![crate::instance(id)])).await, "purge");
    w.same(&purged.count, &1, "it can be purged");
    w.start(id).await;
    w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
}
