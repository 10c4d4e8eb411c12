//! Rule 1, identity: the same message is the same, however often it is sent.

use dauer_store::{Delivered, DropReason};

use crate::message::ids;
use crate::run::open;
use crate::world::World;
use crate::{Fixture, Step};

/// A message that is sent again while it waits is dropped as a repeat, and a turn gets it once.
pub async fn r01a_a_waiting_message_is_not_taken_twice(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    let event = w.event_to("order");
    w.deliver(event.clone()).await;

    let again = w.send(event.clone()).await;
    w.same(&again, &Delivered::Dropped(DropReason::Repeat), "the same message again is a repeat");
    let other = w.event_to("order");
    w.deliver(other.clone()).await;

    let turn = w.session().await.turn().await;
    let mut found = ids(&turn.messages);
    found.retain(|id| *id == event.id);
    w.same(&found, &vec![event.id], "a turn gets the message once");
    w.same(&turn.messages.len(), &2, "a message of another identity is another message");
    what_was_carried_over_waits_too(&w).await;
}

/// A message that waits before the inbox, because a run carried it over into the next, is known like those in it.
async fn what_was_carried_over_waits_too(w: &World<'_>) {
    // In a queue of its own: the first instance is still held.
    w.start_with(w.start_in("next", "Refunds", |_| {})).await;
    let session = w.session().await;
    let turn = session.turn_of("next").await;
    let carried = w.event_to("next");
    session.commit(Step::of(&turn).continue_as_new(vec![carried.clone()])).await;

    let again = w.send(carried).await;
    w.same(&again, &Delivered::Dropped(DropReason::Repeat), "what was carried over is a repeat, too");
    w.deliver(w.event_to("next")).await;
}
