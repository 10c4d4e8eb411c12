//! Rule 9, attempts: how often an item has failed, so that what kills its host is found out.

use crate::run::open;
use crate::session::GiveBack;
use crate::world::{HOUR, PAST_LEASE};
use crate::{Fixture, Step};

/// Each time an item is taken from a session that has expired, its attempts grow by one.
pub async fn r09a_a_takeover_counts_as_an_attempt(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running_with_task("order").await;
    w.deliver(w.event_to("order")).await;
    for expected in 0..3 {
        let session = w.session().await;
        let (turn, lease) = (session.turn().await, session.task().await);
        let attempts = (turn.record.attempts, lease.attempts);
        w.same(&attempts, &(expected, expected), "attempts count the hosts that died with turn and task");
        w.kill(session).await;
        w.advance(PAST_LEASE).await;
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
    let turn = session.turn().await;
    session.commit(Step::of(&turn)).await;

    w.deliver(w.event_to("order")).await;
    let turn = session.turn().await;
    w.same(&turn.record.attempts, &0, "a commit is a success, and ends the count");
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
    w.same(&next.record.attempts, &0, "no turn was under way");
}
