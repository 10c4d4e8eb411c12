//! Rule 6, order: first in, first out for each sender; nothing before its time.

use dauer_store::Message;

use crate::message::ids;
use crate::run::open;
use crate::world::HOUR;
use crate::{Fixture, Step};

/// Messages of one sender come in the order they were sent, within a commit and from one commit to the next.
pub async fn r06a_messages_of_one_sender_keep_their_order(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    let mut sent = w.events_from("parent", "order", 1, 3);
    sent.extend(w.events_from("parent", "order", 2, 3));
    let answers = w.manage().send(sent.clone()).await;
    w.check(answers.iter().all(Result::is_ok), "all were sent");

    let turn = w.session().await.turn().await;
    w.same(&ids(&turn.messages), &ids(&sent), "they come in the order they were sent");
}

/// A message is not delivered before its time, not even with others, and makes the instance ready when it is due.
pub async fn r06b_nothing_is_delivered_before_its_time(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    let later = Message { visible_at: w.at(HOUR), ..w.event_to("order") };
    w.deliver(later.clone()).await;
    let session = w.session().await;
    session.no_turn("nothing is due").await;

    let now = w.event_to("order");
    w.deliver(now.clone()).await;
    let turn = session.turn().await;
    w.same(&ids(&turn.messages), &vec![now.id], "what is not due does not come with what is");
    session.commit(Step::of(&turn)).await;
    session.no_turn("nothing more is due").await;

    w.advance(HOUR).await;
    let turn = w.session().await.turn().await;
    w.same(&ids(&turn.messages), &vec![later.id], "it comes when it is due");
}

/// The prologue of a new run (its start, what is carried over) comes before all that waits in the inbox.
pub async fn r06c_the_prologue_precedes_the_inbox(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    let turn = session.turn().await;
    let waiting = w.event_to("order");
    w.deliver(waiting.clone()).await;
    let prologue = vec![w.start_message("order"), w.event_to("order")];
    session.commit(Step::of(&turn).continue_as_new(prologue.clone())).await;

    let turn = session.turn().await;
    let expected = [ids(&prologue), vec![waiting.id]].concat();
    w.same(&ids(&turn.messages), &expected, "the prologue comes first, in its order, then the inbox");
    session.commit(Step::of(&turn)).await;
    session.no_turn("the prologue is consumed like any message").await;
}

/// A commit consumes the messages it names; the others stay, and come again.
pub async fn r06d_a_commit_consumes_what_it_names(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    let (one, two) = (w.event_to("order"), w.event_to("order"));
    w.deliver(one.clone()).await;
    w.deliver(two.clone()).await;
    let session = w.session().await;
    let turn = session.turn().await;
    session.commit(Step::of(&turn).consuming(&[two.id])).await;

    let turn = session.turn().await;
    w.same(&ids(&turn.messages), &vec![one.id], "what was not consumed stays, what was does not");
}

/// An event that was carried over and not consumed, because the turn ended with a suspend, say, is there in the run after
/// next too, behind that run's own prologue.
pub async fn r06e_what_is_left_of_a_prologue_is_carried_on(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    let turn = session.turn().await;
    let (start, carried) = (w.start_message("order"), w.event_to("order"));
    session.commit(Step::of(&turn).continue_as_new(vec![start.clone(), carried.clone()])).await;
    let turn = session.turn().await;
    let next = vec![w.start_message("order")];
    session.commit(Step::of(&turn).consuming(&[start.id]).continue_as_new(next.clone())).await;

    let turn = session.turn().await;
    let expected = [ids(&next), vec![carried.id]].concat();
    w.same(&ids(&turn.messages), &expected, "the new prologue, then what is left of the old one");
}
