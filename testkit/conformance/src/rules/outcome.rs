//! Rule 3, outcome: what the answer of a call says about what has happened, and what to do when it says nothing.

use dauer_store::{Checkpoint, Refused, Revision};

use crate::run::open;
use crate::session::{GiveBack, want};
use crate::world::World;
use crate::{Call, Fault, Fixture, Step};

/// After `Unknown` the same commit or amendment is sent again and answers Committed, whether or not it had been
/// executed; it is in the history once.
pub async fn r03a_the_same_commit_again_is_committed(fixture: &dyn Fixture) {
    let w = open!(fixture);
    for (id, fault) in [("done", Fault::UnknownDone), ("lost", Fault::UnknownNotDone)] {
        w.start(id).await;
        let session = w.session().await;
        let turn = session.turn_of(id).await;
        let step = Step::of(&turn).tasks([w.task(&turn, "pay")]).take(1);

        let first = w.faulted(Call::CommitTurns, fault, session.try_commit(step.clone())).await;
        w.check(matches!(first, Err(Refused::Unknown(_))), "the outcome of the first try is unknown");
        let second = session.commit(step).await;
        w.same(&second.revision, &Revision(1), "the same commit again makes the same revision");

        let stored = w.snapshot().await;
        let batches = stored.instance(id).map(|instance| instance.history.len());
        w.same(&batches, &Some(1), "the commit is in the history once");
        let tasks = stored.tasks().filter(|task| task.task.instance.as_str() == id).count();
        w.same(&tasks, &1, "its task is scheduled once");
        // By the answer or by the next claim, the session has the task it took.
        let leases = [second.taken, session.tasks().await].concat();
        w.same(&leases.len(), &1, "a lease is not lost with an answer");
        session.complete(w.answer(&leases[0])).await;

        let amendment = Checkpoint::from(Step::of(&Step::after(&turn)));
        let first = w.faulted(Call::Amend, fault, w.manage().amend(amendment.clone())).await;
        w.check(matches!(first, Err(Refused::Unknown(_))), "the outcome of the first amendment is unknown");
        let second = w.ok(w.manage().amend(amendment).await, "amend");
        w.same(&second.revision, &Revision(2), "the same amendment again makes the same revision");
    }
}

/// A commit that finds the revision it would have made, made by another host or by an amendment, is fenced: it is not
/// a repeat.
pub async fn r03b_the_commit_of_another_epoch_is_no_repeat(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    let (first, second) = (w.session().await, w.session().await);
    let before = first.turn().await;
    first.release(before.plainly()).await;
    let after = second.turn().await;
    second.commit(Step::of(&after)).await;

    w.fenced(first.try_commit(Step::of(&before)).await, "a commit that another host has made");

    w.deliver(w.event_to("order")).await;
    let held = second.turn().await;
    w.ok(w.manage().amend(Step::of(&held).into()).await, "amend");
    w.fenced(second.try_commit(Step::of(&held)).await, "a commit that an amendment has made");
}

/// After `NotExecuted` nothing has changed, and the same may be tried again.
pub async fn r03c_not_executed_changes_nothing(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    let before = w.snapshot().await;
    let (start, event) = (w.start_message("other"), w.event_to("order"));
    let created =
        w.faulted(Call::Create, Fault::NotExecuted, w.create(start.clone(), Default::default())).await;
    not_executed(&w, &created, "create");
    let sent = w.faulted(Call::Send, Fault::NotExecuted, w.try_send(event.clone())).await;
    not_executed(&w, &sent, "send");
    w.same(&w.snapshot().await, &before, "create and send changed nothing");

    w.deliver(event).await;
    let session = w.session().await;
    let (turn, lease) = (session.turn().await, session.task().await);
    let before = w.snapshot().await;
    let checkpoint = Checkpoint::from(Step::of(&turn));
    let committed = session.try_commit(checkpoint.clone());
    let committed = w.faulted(Call::CommitTurns, Fault::NotExecuted, committed).await;
    not_executed(&w, &committed, "commit_turns");
    let completed = session.work().complete_activities(vec![w.answer(&lease)]);
    let completed = w.faulted(Call::CompleteActivities, Fault::NotExecuted, completed).await;
    completed.iter().for_each(|completed| not_executed(&w, completed, "complete_activities"));
    w.same(&w.snapshot().await, &before, "commit and complete changed nothing");

    session.commit(checkpoint).await;
    w.start_with(start).await;
}

#[track_caller]
fn not_executed<T>(w: &World<'_>, result: &Result<T, Refused>, call: &str) {
    w.check(matches!(result, Err(Refused::NotExecuted(_))), &format!("{call} should answer NotExecuted"));
}

/// A claim whose caller went away before the answer came loses nothing: the session's next claim returns what it
/// won, and nobody else gets it meanwhile.
pub async fn r03d_a_dropped_claim_comes_back(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let (session, other) = (w.session().await, w.session().await);
    w.dropped(Call::ClaimTurns, session.work().claim_turns(want(10))).await;
    w.dropped(Call::ClaimActivities, session.work().claim_activities(want(10))).await;

    // Under their own fence: what comes back can be committed and completed.
    let turn = session.turn().await;
    let lease = session.task().await;
    session.commit(Step::of(&turn)).await;
    let answered = session.complete(w.answer(&lease)).await;
    w.same(&answered, &dauer_store::Delivered::Applied, "a task that came back can be completed");
    other.no_task("the task is done").await;
}
