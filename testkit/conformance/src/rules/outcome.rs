//! Rule 3, outcome: what the answer of a call says about what has happened, and what to do when it says nothing.

use dauer_store::{Checkpoint, Credit, Delivered, Next, Recalled, Refused, Revision, TaskLease};

use crate::message::{names, only};
use crate::run::open;
use crate::session::{GiveBack, tasks, turns};
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
        // By the answer or by the next look, the session has the task it took.
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
    w.start("later").await;
    let before = w.snapshot().await;
    let won = w.faulted(Call::Next, Fault::NotExecuted, session.try_win(turns(9))).await;
    not_executed(&w, &won, "next");
    w.same(&w.snapshot().await, &before, "next changed nothing");
    w.same(&names(&session.turns().await), &vec!["later"], "the next call of next returns it");

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

/// The fences of what was recalled.
fn fences(recalled: &Recalled) -> (Vec<&str>, usize) {
    (names(&recalled.turns), recalled.tasks.len())
}

/// What the answer of a look contained, and what was won while no call waited, comes back by a recall, whatever was lost: the
/// caller had gone, or the outcome was unknown. Room, queues and tags do not limit it, and the same again returns the same.
pub async fn r03d_a_recall_returns_what_was_won(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let (session, other) = (w.session().await, w.session().await);
    w.running_with_task("order").await;
    // Of another name than the run that has ended: its queue is that of the start.
    w.ended("ended").await;
    w.deliver(w.start_in("ended", "Refunds", |_| {})).await;
    let refunds = Credit { queues: only("Refunds"), ..turns(9) };
    let first = session.grant(refunds);
    w.dropped(Call::Next, session.look()).await;
    session.grant(tasks(9));
    let unknown = session.work().next(dauer_store::Until::Once);
    let unknown = w.faulted(Call::Next, Fault::UnknownDone, unknown).await;
    w.check(matches!(unknown, Err(Refused::Unknown(_))), "no one knows what the look has won");
    w.deliver(w.event_to("order")).await;
    let last = session.grant(turns(1));
    session.take_back();
    let recalled = session.recall(first, last).await;
    let expected = (vec!["ended"], 1);
    w.same(&fences(&recalled), &expected, "all that was won comes back");
    w.same(&recalled.turns[0].messages.len(), &1, "with its messages");
    w.same(&session.recall(first, last).await, &recalled, "the same again returns the same");
    session.grant(turns(9));
    let next = session.look().await;
    session.take_back();
    w.same(&names(&next.turns), &vec!["order"], "nothing is returned that was recalled");

    // Under their own fence: what comes back can be committed and completed.
    let begun = Step::of(&recalled.turns[0]).ended(dauer_store::Status::Terminated);
    session.commit(begun).await;
    let answered = session.complete(w.answer(&recalled.tasks[0])).await;
    w.same(&answered, &Delivered::Applied, "a task that came back can be completed");
    other.no_task("the task is done").await;
    what_was_not_done_is_won_later(&w).await;
}

async fn what_was_not_done_is_won_later(w: &World<'_>) {
    let session = w.session().await;
    w.start("lost").await;
    let number = session.grant(turns(9));
    let unknown = session.work().next(dauer_store::Until::Once);
    let unknown = w.faulted(Call::Next, Fault::UnknownNotDone, unknown).await;
    w.check(matches!(unknown, Err(Refused::Unknown(_))), "no one knows what the look has won");
    w.same(&session.recall(number, number).await, &Recalled::default(), "it has won nothing");
    w.same(&names(&session.turns().await), &vec!["lost"], "a later look wins it");
}

/// A number that was recalled wins nothing from then on: neither with the credit that is set, nor when it is set again, nor by a
/// call that waits. A look that had begun before has won something that a recall returns, or nothing.
pub async fn r03e_a_recalled_number_wins_nothing(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let (session, other) = (w.session().await, w.session().await);
    w.start("first").await;
    let number = session.grant(turns(9));
    let mut waits = session.waits();
    // It may have looked by now, or be about to.
    let begun = futures::FutureExt::now_or_never(&mut waits);
    let mut won = session.recall(number, number).await.turns;
    if begun.is_none() {
        session.still_waits(&mut waits, "its number was recalled");
    }
    drop(waits);
    w.same(&session.recall(number, number).await.turns, &won, "the same again returns the same");
    won.extend(other.turns().await);
    w.same(&names(&won), &vec!["first"], "it is won once");

    w.start("second").await;
    w.same(&session.look().await, &Next::default(), "its number was recalled");
    session.work().credit(Credit { number, ..turns(9) });
    w.same(&session.look().await, &Next::default(), "so it was before");
    session.work().credit(Credit { number: number - 1, ..turns(9) });
    w.same(&session.look().await, &Next::default(), "so were all that came before");
    session.grant(turns(9));
    w.same(&names(&session.look().await.turns), &vec!["second"], "a later number wins");
}

/// A recall returns only what the session still holds as it won it: nothing that it has committed, kept, given back, answered,
/// or lost to another session. What it won again has another number, and what was won with other numbers is not asked for.
pub async fn r03f_a_recall_returns_only_what_is_held(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let session = w.session().await;
    for id in ["before", "committed", "kept", "returned", "held"] {
        w.start(id).await;
    }
    let before = session.claim(turns(1)).await;
    let number = session.grant(turns(9));
    let won = session.look().await.turns;
    session.take_back();
    let of = |id: &str| won.iter().find(|turn| turn.fence.instance.as_str() == id).expect("all were won");
    session.commit(Step::of(of("committed")).tasks((0..3).map(|_| w.task(of("committed"), "pay")))).await;
    session.commit(Step::of(of("kept")).keep()).await;
    session.release(of("returned").plainly()).await;
    session.work().credit(Credit { number, ..tasks(9) });
    let leases: Vec<TaskLease> = session.look().await.tasks;
    session.take_back();
    session.complete(w.answer(&leases[0])).await;
    session.release(leases[1].plainly()).await;
    w.same(&session.turns().await.len(), &2, "what was given back or became ready again is won again");
    session.tasks().await;

    let recalled = session.recall(number, number).await;
    w.same(&recalled.turns, &vec![of("held").clone()], "only what it holds since");
    w.same(&recalled.tasks, &leases[2..].to_vec(), "only what it holds since");
    let all = session.recall(0, number).await;
    w.check(names(&all.turns).contains(&names(&before)[0]), "what was won before has another number");

    w.advance(crate::world::PAST_LEASE).await;
    let other = w.session().await;
    other.turns().await;
    other.tasks().await;
    let lost = w.ok(session.work().recall(0, number).await, "recall");
    w.same(&lost, &Recalled::default(), "nothing that another session has");
}
