//! Rule 9, attempts and deaths: how often an item has failed, so that the one that kills its host is found.

use dauer_store::{Deaths, Trouble, TroubleKind};

use crate::run::open;
use crate::session::GiveBack;
use crate::world::{HOUR, PAST_LEASE};
use crate::{Fixture, Step};

/// Each time an item is taken from a session that has expired, its deaths grow by one, and its attempts do not. The deaths of
/// servers count apart from those of processes that execute code.
pub async fn r09a_a_takeover_counts_as_a_death(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let mut deaths = Deaths::default();
    for is_server in [false, true, false, true, true] {
        let session = if is_server { w.server().await } else { w.session().await };
        let (turn, lease) = (session.turn().await, session.task().await);
        w.same(&turn.record.deaths, &deaths, "deaths count the hosts that died with the turn");
        w.same(&lease.deaths, &deaths, "deaths count the hosts that died with the task");
        w.same(
            &(turn.record.attempts, lease.attempts),
            &(0, 0),
            "a death is no attempt that was released as failed",
        );
        w.kill(session).await;
        w.advance(PAST_LEASE).await;
        deaths = deaths.after(!is_server);
    }
}

/// An item that is released as failed counts an attempt.
pub async fn r09b_a_failed_release_counts_as_an_attempt(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    session.release(session.turn().await.failed()).await;
    session.release(session.task().await.failed()).await;
    session.release(session.turn().await.failed()).await;

    let attempts = (session.turn().await.record.attempts, session.task().await.attempts);
    w.same(&attempts, &(2, 1), "every failed release counts");
}

/// An item that is given back without a reason counts none.
pub async fn r09c_a_plain_release_counts_nothing(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    session.release(session.turn().await.plainly()).await;
    session.release(session.task().await.plainly()).await;

    let attempts = (session.turn().await.record.attempts, session.task().await.attempts);
    w.same(&attempts, &(0, 0), "an item given back in good order has not failed");
}

/// After a commit the attempts are zero and the trouble is gone.
pub async fn r09d_a_commit_clears_the_attempts(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    let session = w.session().await;
    session.release(session.turn().await.troubled(w.trouble("the code panicked"))).await;
    session.trial(&session.turn().await.item(), true).await;
    w.kill(session).await;
    w.advance(PAST_LEASE).await;
    let session = w.session().await;
    let turn = session.turn().await;
    session.commit(Step::of(&turn)).await;

    w.deliver(w.event_to("order")).await;
    let turn = session.turn().await;
    w.same(&turn.record.attempts, &0, "a commit is a success, and ends the count");
    w.same(&turn.record.deaths, &Deaths::default(), "a commit ends that of deaths");
    w.same(&turn.record.trouble, &None, "a commit ends the trouble");
}

/// An item that is released with a delay is not claimable before it is over.
pub async fn r09e_a_release_may_delay(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    session.release(session.turn().await.delayed(HOUR)).await;
    session.release(session.task().await.delayed(HOUR)).await;
    session.no_turn("the delay has only begun").await;
    session.no_task("the delay has only begun").await;

    w.advance(HOUR).await;
    let session = w.session().await;
    session.turn().await;
    session.task().await;
}

/// The trouble of a released turn is shown in the record, to those who look and to the next who claims it.
pub async fn r09f_trouble_is_shown(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    let session = w.session().await;
    let trouble = w.trouble("the history does not match the code");
    session.release(session.turn().await.troubled(trouble.clone())).await;

    let (_, record) = w.found("order").await;
    w.same(&record.trouble, &Some(Box::new(trouble.clone())), "get shows the trouble");
    let turn = session.turn().await;
    w.same(&turn.record.trouble, &Some(Box::new(trouble)), "the next claim shows the trouble");
}

/// Each kind of trouble is counted for itself, until the next commit. A trouble that goes on began with its first attempt.
pub async fn r09i_each_kind_of_trouble_has_a_count(fixture: &dyn Fixture) {
    use TroubleKind::{Panic, UnknownName};
    let w = open!(fixture);
    w.start("order").await;
    let session = w.session().await;
    for kind in [UnknownName, UnknownName, UnknownName, Panic, UnknownName, Panic] {
        let trouble = Trouble { kind, ..w.trouble("it failed") };
        session.release(session.turn().await.troubled(trouble)).await;
    }
    let turn = session.turn().await;
    // That it is shown is another rule (r09f).
    for trouble in turn.record.trouble.iter() {
        w.same(&(trouble.kind, trouble.attempts), &(Panic, 2), "the last kind");
        w.same(&trouble.others, &vec![(UnknownName, 4)], "the other kinds");
    }
    w.same(&turn.record.attempts, &6, "all attempts");
    session.commit(Step::of(&turn)).await;

    w.deliver(w.event_to("order")).await;
    session.release(session.turn().await.troubled(w.trouble("it failed"))).await;
    for trouble in session.turn().await.record.trouble.iter() {
        w.same(&(trouble.attempts, trouble.others.len()), &(1, 0), "a commit ends all counts");
    }
}

/// The death of a host counts nothing of an instance that it only kept.
pub async fn r09g_a_death_counts_nothing_of_a_kept_instance(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    let session = w.session().await;
    let turn = session.turn().await;
    session.commit(Step::of(&turn).keep()).await;
    w.deliver(w.event_to("order")).await;
    w.kill(session).await;
    w.advance(PAST_LEASE).await;
    let next = w.session().await.turn().await;
    w.same(&next.record.deaths, &Deaths::default(), "no turn had begun");
}

/// A task that a server held when its session ended is marked with the time of that end. Neither a release nor the end of a
/// process that executes code marks it, and a later end of a server moves the mark.
pub async fn r09h_tasks_of_a_server_are_marked(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    let host = w.session().await;
    host.task().await;
    host.detach().await;
    w.advance(PAST_LEASE).await;
    let server = w.server().await;
    let lease = server.task().await;
    w.same(&lease.mark, &None, "no server has held it");
    server.release(lease.plainly()).await;
    let lease = server.task().await;
    w.same(&lease.mark, &None, "it was given back");
    server.detach().await;
    w.advance(PAST_LEASE).await;

    let server = w.server().await;
    let lease = server.task().await;
    let first = lease.mark;
    w.check(first.is_some(), "its server has detached");
    server.release(lease.plainly()).await;
    w.kill(server).await;
    let host = w.session().await;
    w.same(&host.task().await.mark, &first, "it was given back before its server died");
    w.kill(host).await;
    w.advance(PAST_LEASE).await;
    let server = w.server().await;
    w.same(&server.task().await.mark, &first, "a process that executes code has died");
    w.kill(server).await;
    w.advance(PAST_LEASE).await;
    let lease = w.session().await.task().await;
    w.check(lease.mark > first, "another server has died with it");
}
