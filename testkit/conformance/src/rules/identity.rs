//! Rule 1, identity: the same message is the same, however often it is sent.

use dauer_store::{Delivered, DropReason};

use crate::Fixture;
use crate::message::ids;
use crate::run::open;

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
}
