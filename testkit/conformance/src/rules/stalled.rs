//! Rule 26, stalled instances: what ends the delay of a release.

use std::time::Duration;

use dauer_store::{Control, Created, Release, Reuse, Status};

use crate::run::open;
use crate::session::GiveBack;
use crate::world::{HOUR, World, instance};
use crate::{Fixture, Step};

async fn retry(w: &World<'_>, ids: &[&str]) -> usize {
    let ids = ids.iter().map(|id| instance(id)).collect();
    w.ok(w.manage().retry(ids).await, "retry")
}

/// A retry makes a stalled instance ready at once. Trouble, attempts and fence stay as they are.
pub async fn r26a_retry_ends_the_delay_of_a_stalled_instance(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start("order").await;
    let session = w.session().await;
    let turn = session.turn().await;
    let trouble = w.trouble("the code panicked");
    session.release(Release { delay: HOUR, ..turn.troubled(trouble) }).await;
    session.no_turn("the delay has only begun").await;
    let before = w.found("order").await;
    w.same(&retry(&w, &["order", "order"]).await, &1, "one delay has ended");
    w.same(&w.found("order").await, &before, "a retry changes neither record nor fence");
    let turn = session.turn().await;
    w.same(&turn.record.attempts, &1, "the attempts stay");
    session.commit(Step::of(&turn)).await;
}

/// A retry changes neither an instance that is delayed without trouble, nor one that a living session holds. It makes no hub.
pub async fn r26b_retry_leaves_other_instances_alone(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.same(&retry(&w, &["order"]).await, &0, "an absent instance");
    w.check(!w.ok(w.store().has_hub(w.name()).await, "has_hub"), "a retry makes no hub");
    w.start("order").await;
    let session = w.session().await;
    session.release(session.turn().await.delayed(HOUR)).await;
    w.same(&retry(&w, &["order"]).await, &0, "an instance without trouble");
    session.no_turn("it is delayed without trouble").await;
    w.advance(HOUR).await;
    let session = w.session().await;
    let turn = session.turn().await;
    session.release(turn.troubled(w.trouble("the code panicked"))).await;
    let turn = session.turn().await;
    w.same(&retry(&w, &["order"]).await, &0, "an instance that a session holds");
    session.commit(Step::of(&turn)).await;
}

/// A control message ends the delay of a stalled instance when it becomes visible: a terminate needs no code. Other messages
/// leave the delay as it is.
pub async fn r26c_control_ends_the_delay(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    let turn = session.turn().await;
    session.release(Release { delay: HOUR, ..turn.troubled(w.trouble("the code panicked")) }).await;
    w.deliver(w.event_to("order")).await;
    session.no_turn("an event does not end the delay").await;
    w.deliver(w.control_to("order", Control::Terminate)).await;
    let turn = session.turn().await;
    w.same(&turn.messages.len(), &3, "the turn has all messages");
}

/// A start that replaces a stalled run ends its delay.
pub async fn r26d_a_replacing_start_ends_the_delay(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    let turn = session.turn().await;
    session.release(Release { delay: HOUR, ..turn.troubled(w.trouble("the code panicked")) }).await;
    session.no_turn("the delay has only begun").await;
    let reuse = Reuse { replaceable: vec![Status::Running] };
    let created = w.ok(w.create(w.start_message("order"), reuse).await, "create");
    w.check(matches!(created, Created::Replacing(_)), "the run is replaced by its next turn");
    session.turn().await;
}

/// A release delays an instance for which a control message waits no longer than the message has waited.
pub async fn r26e_control_that_waits_shortens_a_delay(fixture: &dyn Fixture) {
    const WAITED: Duration = Duration::from_secs(2);
    let w = open!(fixture);
    w.running("order").await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    let turn = session.turn().await;
    w.deliver(w.control_to("order", Control::Terminate)).await;
    w.advance(WAITED).await;
    session.release(Release { delay: HOUR, ..turn.troubled(w.trouble("the code panicked")) }).await;
    session.no_turn("the delay is as long as the message has waited").await;
    w.advance(WAITED).await;
    session.turn().await;
}
