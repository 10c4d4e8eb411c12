//! Rule 8, sessions: what a session holds is its own until the session ends.

use std::time::Duration;

use dauer_store::{Delivered, Host, HostId, Item, Lost, Refused, SessionId};

use crate::message::names;
use crate::run::open;
use crate::session::{GiveBack, tasks, turns};
use crate::world::{HOUR, LEASE, PAST_LEASE, World};
use crate::{Fixture, Step};

/// What a session holds nobody else can claim, though its host is dead, until its lease has run out.
pub async fn r08a_what_is_held_is_not_claimable(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let (holder, other) = (w.session().await, w.session().await);
    holder.turn().await;
    holder.task().await;
    other.no_turn("the turn is held").await;
    other.no_task("the task is held").await;

    w.kill(holder).await;
    other.no_turn("a dead host's lease runs on").await;
    other.no_task("a dead host's lease runs on").await;
    w.advance(PAST_LEASE).await;
    let heir = w.session().await;
    w.same(&heir.turns().await.len(), &1, "the turn is free when the lease has run out");
    w.same(&heir.tasks().await.len(), &1, "the task is free when the lease has run out");
    what_was_held_long_ago_is_free(&w).await;
}

/// However long ago a host died with its only turn or its only task, and though nobody has looked since: they are free,
/// and not forgotten with it.
async fn what_was_held_long_ago_is_free(w: &World<'_>) {
    // In a queue of its own: the first instance is held again.
    w.start_with(w.start_in("old", "Refunds", |_| {})).await;
    w.run(|turn| Step::of(turn).tasks([w.task(turn, "pay")])).await;
    w.deliver(w.event_to("old")).await;
    let (first, second) = (w.session().await, w.session().await);
    first.turn_of("old").await;
    second.task().await;
    w.kill(first).await;
    w.kill(second).await;
    w.advance(HOUR * 24 * 3).await;
    let heir = w.session().await;
    heir.turn_of("old").await;
    let tasks = heir.tasks().await;
    w.check(tasks.iter().any(|lease| lease.task.instance.as_str() == "old"), "the task of days ago is free");
}

/// Expiry alone refuses nothing: a host that was slow, but whose items nobody took, commits and completes.
pub async fn r08b_expiry_alone_refuses_nothing(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    let (turn, lease) = (session.turn().await, session.task().await);
    w.advance(PAST_LEASE).await;

    session.commit(Step::of(&turn)).await;
    let answered = session.complete(w.answer(&lease)).await;
    w.same(&answered, &Delivered::Applied, "the task was not taken over, so its result counts");
}

/// A renewal keeps everything the session holds, under the same fences.
pub async fn r08c_a_renewal_keeps_everything(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    let (turn, lease) = (session.turn().await, session.task().await);
    for _ in 0..3 {
        w.advance(LEASE * 2 / 3).await;
        let lost = session.renew().await;
        w.same(&lost, &vec![], "a session that renews in time loses nothing");
    }

    let other = w.session().await;
    other.no_turn("the turn is held by a session that was renewed").await;
    other.no_task("the task is held by a session that was renewed").await;
    session.commit(Step::of(&turn)).await;
    let answered = session.complete(w.answer(&lease)).await;
    w.same(&answered, &Delivered::Applied, "a renewal leaves the fences as they are");
    a_renewal_keeps_what_was_committed_after_the_lease(&w).await;
}

/// Nobody has noticed that the session's time was over: what its commits take meanwhile is its own all the same.
async fn a_renewal_keeps_what_was_committed_after_the_lease(w: &World<'_>) {
    w.start("late").await;
    let session = w.session().await;
    let turn = session.turn_of("late").await;
    w.advance(PAST_LEASE).await;
    let step = Step::of(&turn).tasks([w.task(&turn, "pay")]).take(1).keep();
    // That the commit passes is the matter of `r08b`, and that it takes the task of `r20a`.
    let taken = session.try_commit(step).await.map(|committed| committed.taken).unwrap_or_default();
    let Some(lease) = taken.first() else { return };
    session.renew().await;
    let tasks = w.session().await.tasks().await;
    let lost = tasks.iter().any(|task| task.fence.task == lease.fence.task);
    w.check(!lost, "the task is held by a session that was renewed");
}

/// A renewal tells what the session has lost: a turn and a task that were taken over, and a turn that was amended.
pub async fn r08d_a_renewal_tells_what_was_lost(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    let (turn, lease) = (session.turn().await, session.task().await);
    w.start("amended").await;
    let amended = session.turn().await;
    w.ok(w.manage().amend(Step::of(&amended).into()).await, "amend");
    w.advance(PAST_LEASE).await;
    let other = w.session().await;
    other.turns().await;
    other.tasks().await;

    let lost = session.renew().await;
    for item in [turn.item(), lease.item(), amended.item()] {
        let what = format!("the renewal should tell of the loss of {item:?}");
        w.check(lost.iter().any(|Lost { item: lost }| same_item(lost, &item)), &what);
    }
}

/// Whether both are the same turn or task, whatever has become of their fences.
fn same_item(one: &Item, two: &Item) -> bool {
    match (one, two) {
        (Item::Turn(one), Item::Turn(two)) => one.instance == two.instance,
        (Item::Task(one), Item::Task(two)) => one.task == two.task,
        _ => false,
    }
}

/// A session that is detached gives back everything at once, and nothing counts as an attempt.
pub async fn r08e_detach_gives_everything_back(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let (session, other) = (w.session().await, w.session().await);
    session.turn().await;
    session.task().await;
    session.detach().await;

    let (turns, tasks) = (other.turns().await, other.tasks().await);
    w.same(&(turns.len(), tasks.len()), &(1, 1), "turn and task are free at once");
    w.same(&(turns[0].record.deaths, tasks[0].deaths), &Default::default(), "to detach is no death");
}

/// A session that is ended by someone who knows that its host is dead gives back everything at once, and every item
/// counts an attempt.
pub async fn r08f_the_proof_of_death_ends_a_session(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let (session, other) = (w.session().await, w.session().await);
    session.turn().await;
    session.task().await;
    let id = session.id();
    w.kill(session).await;
    w.ok(w.manage().end_session(id).await, "end_session");

    let (turns, tasks) = (other.turns().await, other.tasks().await);
    w.same(&(turns.len(), tasks.len()), &(1, 1), "turn and task are free at once");
    let deaths = (turns[0].record.deaths.workers, tasks[0].deaths.workers);
    w.same(&deaths, &(1, 1), "the items of a dead host count its death");
}

/// A session that gave an item back and claims it again has two claims of it, and a message of the first that comes late
/// must not pass for the second. (That commits and answers compare the epoch is shown by r02c and r10b.)
pub async fn r08g_what_was_given_back_is_claimed_anew(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    let (turn, lease) = (session.turn().await, session.task().await);
    session.release(turn.plainly()).await;
    session.release(lease.plainly()).await;

    let (again, lease_again) = (session.turn().await, session.task().await);
    w.check(again.fence.epoch > turn.fence.epoch, "the turn has a new epoch");
    w.check(lease_again.fence.epoch > lease.fence.epoch, "the task has a new epoch");
    for late in [turn.plainly(), lease.plainly()] {
        let released = session.work().release(vec![late]).await.pop();
        w.fenced(released.unwrap_or(Ok(())), "a late release of the first claim");
    }
    session.commit(Step::of(&again)).await;
    let answered = session.complete(w.answer(&lease_again)).await;
    w.same(&answered, &Delivered::Applied, "the second claim is untouched");
}

/// When the store's clock jumps, all sessions expire at once. If they could go on claiming, they would take everything
/// from each other, and each time would count as an attempt.
pub async fn r08h_an_expired_session_renews_before_it_claims(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    w.advance(LEASE * 2).await;
    for credit in [turns(1), tasks(1)] {
        let won = session.try_win(credit).await;
        w.check(matches!(won, Err(Refused::NotExecuted(_))), "an expired session wins nothing by a look");
    }
    session.grant(turns(1));
    w.start("later").await;
    let other = w.session().await;
    w.same(&other.turns().await.len(), &2, "nor does it win what becomes ready");
    other.task().await;
}

/// A session that attaches again is renewed, however long ago it expired.
pub async fn r08i_a_session_that_attaches_again_is_renewed(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let id = HostId::new("host").expect("short and printable");
    let host = Host { id, session: SessionId(u128::from(w.number())), lease: LEASE, runs_code: true };
    w.ok(w.manage().attach(host.clone()).await.map(drop), "attach");
    w.advance(Duration::from_secs(25 * 60 * 60)).await;
    let work = w.ok(w.manage().attach(host).await, "attach");
    w.start("order").await;
    let turns = w.session_of(work).turns().await;
    w.same(&names(&turns), &vec!["order"], "it claims like any other");
}
