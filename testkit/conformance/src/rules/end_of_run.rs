//! Rule 19, end of a run: what becomes of its tasks.

use dauer_store::{Delivered, DropReason, Status};

use crate::run::open;
use crate::world::PAST_LEASE;
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
