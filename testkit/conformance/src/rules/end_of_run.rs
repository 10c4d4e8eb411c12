//! Rule 19, end of a run: what becomes of its tasks.

use dauer_store::{Delivered, DropReason, Status};

use crate::run::open;
use crate::world::{PAST_LEASE, World};
use crate::{Fixture, Step};

/// When a run is terminated the tasks that nobody holds are withdrawn; one that is held is not run again when its
/// holder dies, and its answer is dropped.
pub async fn r19a_termination_withdraws_the_tasks(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let terminated = |turn: &_| Step::of(turn).ended(Status::Terminated);
    w.running_with_task("idle").await;
    w.deliver(w.event_to("idle")).await;
    w.run(terminated).await;
    w.session().await.no_task("the task of a terminated run is withdrawn").await;

    w.running_with_task("busy").await;
    let holder = w.session().await;
    let lease = holder.task().await;
    w.deliver(w.event_to("busy")).await;
    w.run(terminated).await;
    let answered = holder.complete(w.answer(&lease)).await;
    w.check(matches!(answered, Delivered::Dropped(_)), "the answer to a terminated run is dropped");
    w.same(&w.snapshot().await.tasks().count(), &0, "an answered task is gone");

    w.running_with_task("dead").await;
    let dead = w.session().await;
    dead.task().await;
    w.deliver(w.event_to("dead")).await;
    w.run(terminated).await;
    w.kill(dead).await;
    w.advance(PAST_LEASE).await;
    w.session().await.no_task("a withdrawn task is not run again").await;
    an_answer_ends_the_withdrawn_task_alone(&w).await;
}

/// The instance has a start that waits, so that its next turn follows at once. Other instances have tasks, too.
async fn an_answer_ends_the_withdrawn_task_alone(w: &World<'_>) {
    w.running_with_task("again").await;
    let holder = w.session().await;
    let lease = holder.task().await;
    let event = w.event_to("again");
    w.start("other").await;
    w.run(|turn| Step::of(turn).tasks((0..2).map(|_| w.task(turn, "pay")))).await;
    w.deliver(event.clone()).await;
    w.deliver(w.start_in("again", "Refunds", |_| {})).await;
    w.run(|turn| Step::of(turn).consuming(&[event.id]).ended(Status::Terminated)).await;
    holder.complete(w.answer(&lease)).await;
    let left = w.snapshot().await;
    w.same(&left.tasks().filter(|task| task.task.id == lease.fence.task).count(), &0, "that task is gone");
    w.same(&left.tasks().count(), &2, "and no other");
}

/// When a run completes its scheduled tasks still run, and their answers are dropped.
pub async fn r19b_tasks_of_a_completed_run_still_run(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    w.run(|turn| Step::of(turn).ended(Status::Completed)).await;

    let session = w.session().await;
    let lease = session.task().await;
    let answered = session.complete(w.answer(&lease)).await;
    w.same(&answered, &Delivered::Dropped(DropReason::Ended), "nobody waits for the answer");
    session.no_task("the task is done").await;
}
