//! Rule 11, batches: many at once is the same as one after the other.

use std::time::Duration;

use dauer_store::{Checkpoint, Delivered, DropReason, Epoch, Message, Refused, Revision};

use crate::message::sorted;
use crate::run::open;
use crate::session::GiveBack;
use crate::world::HOUR;
use crate::{Fixture, Step};

/// Every item of a batch is judged on its own and answered in its place: one that is refused stops no other.
pub async fn r11a_each_item_of_a_batch_is_judged_alone(fixture: &dyn Fixture) {
    let w = open!(fixture);
    for id in ["one", "two", "three"] {
        w.start(id).await;
    }
    let session = w.session().await;
    let turns = session.turns().await;
    let mut batch: Vec<Checkpoint> = turns.iter().map(|turn| Step::of(turn).into()).collect();
    w.same(&batch.len(), &3, "three turns are ready");
    (batch[1].fence.revision, batch[1].fence.epoch) = (Revision(9), Epoch(batch[1].fence.epoch.0 + 9));
    let batch = batch.into_iter().map(Into::into).collect();
    let results = session.work().commit_turns(batch).await;
    let committed: Vec<bool> = results.iter().map(Result::is_ok).collect();
    w.same(&committed, &vec![true, false, true], "the commit between is refused, the others pass");
    w.check(matches!(results[1], Err(Refused::Fenced)), "the commit between is fenced");

    let mut second = turns[1].plainly();
    let dauer_store::Item::Turn(fence) = &mut second.item else { unreachable!("a turn was claimed") };
    fence.epoch = Epoch(fence.epoch.0 + 9);
    let results = session.work().release(vec![second, turns[1].plainly()]).await;
    let released: Vec<bool> = results.iter().map(Result::is_ok).collect();
    w.same(&released, &vec![false, true], "a release with a made-up fence stops no other");

    let [first, last] = [&turns[0], &turns[2]].map(|turn| w.event_to(turn.fence.instance.as_str()));
    let results = w.manage().send(vec![first, w.event_to("nobody"), last]).await;
    let delivered: Vec<_> = results.into_iter().map(|result| w.ok(result, "send")).collect();
    let expected = vec![Delivered::Applied, Delivered::Dropped(DropReason::Absent), Delivered::Applied];
    w.same(&delivered, &expected, "the message between is dropped, the others arrive");
    w.same(&session.turns().await.len(), &3, "all three have something waiting");
}

/// A message that is due later does not postpone an instance that is ready, and one that is due earlier makes ready
/// one that would have slept.
pub async fn r11b_a_later_message_postpones_nothing(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    w.running("other").await;
    let due = |id, after: Duration| Message { visible_at: w.at(after), ..w.event_to(id) };
    let now = [due("order", Duration::ZERO), due("other", Duration::ZERO)];
    w.deliver(now[0].clone()).await;
    w.deliver(due("order", HOUR)).await;
    w.deliver(due("other", HOUR)).await;
    w.deliver(now[1].clone()).await;

    let turns = w.session().await.turns().await;
    let mut messages: Vec<Message> = turns.into_iter().flat_map(|turn| turn.messages).collect();
    // That nothing comes early is another rule.
    messages.retain(|message| now.iter().any(|due| due.id == message.id));
    w.same(&sorted(&messages), &sorted(&now), "both are ready by what is due");
}
