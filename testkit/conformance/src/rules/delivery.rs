//! Rule 5, delivery: what becomes of a message whose target is absent, or runs another execution.

use dauer_store::{
    Class, Control, Delivered, DropReason, ExecutionId, Kind, Message, Parent, Revision, Status, Tags,
};

use crate::message::{ids, sorted};
use crate::run::open;
use crate::world::{World, instance};
use crate::{Fixture, Step};

/// A start sent to an absent instance creates it: pending, with the start waiting. So does a rewind.
pub async fn r05a_a_start_creates_an_absent_instance(fixture: &dyn Fixture) {
    let w = open!(fixture);
    for start in [w.start_message("child"), w.rewind_message("lost")] {
        w.deliver(start.clone()).await;
        let turn = w.run(Step::of).await;
        w.same(&turn.fence.instance, &start.to, "the instance is created");
        w.same(&turn.record.status, &Status::Pending, "it has not run");
        let (Class::Start(carried) | Class::Rewind(carried)) = &start.class else {
            unreachable!("both create")
        };
        let (begun, took) = (carried.record(start.id), &turn.record);
        w.same(
            &(took.start, took.execution),
            &(begun.start, begun.execution),
            "the record is that of the start",
        );
        w.same(&ids(&turn.messages), &vec![start.id], "the turn gets the start");
    }
    nothing_has_happened_to_a_new_instance(&w).await;
}

/// A new instance takes from its start what that says. Nothing else has happened to it.
async fn nothing_has_happened_to_a_new_instance(w: &World<'_>) {
    let tags: Tags = [("zone".to_owned(), "north".to_owned())].into();
    let parent = Parent { instance: instance("parent"), execution: ExecutionId(3), event_id: 4 };
    let start = w.start_in("child of a parent", "Refunds", |opening| {
        (opening.tags, opening.parent) = (tags.clone(), Some(Box::new(parent.clone())));
    });
    w.deliver(start).await;
    let record = w.run(Step::of).await.record;
    w.same(
        &(&*record.queue.name, &record.tags),
        &("Refunds", &tags),
        "it has the queue and tags of its start",
    );
    w.same(&record.parent.as_deref(), &Some(&parent), "its parent waits for it");
    w.same(&(record.revision, record.attempts), &(Revision(0), 0), "no host has tried or committed it");
    w.same(&(record.history_len, record.history_bytes), &(0, 0), "it has no history");
    w.same(&(record.trouble, record.times.completed), &(None, None), "it has no trouble and no end");
}

/// A message to an absent entity creates it: open for messages from the first on. One that is for a run of the entity
/// does not: that run is gone.
pub async fn r05b_a_message_creates_an_absent_entity(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let signal = w.event_to("@counter@one");
    w.deliver(signal.clone()).await;

    let turn = w.session().await.turn().await;
    w.same(&turn.record.queue.kind, &Kind::Entity, "the instance is an entity");
    w.same(&&*turn.record.queue.name, &"counter", "it waits in the queue of its name");
    w.same(&ids(&turn.messages), &vec![signal.id], "the turn gets the message");

    let late = Message { execution: Some(ExecutionId(7)), ..w.event_to("@counter@gone") };
    let delivered = w.send(late).await;
    w.check(matches!(delivered, Delivered::Dropped(_)), "a message for a run that is gone is dropped");
    w.check(w.snapshot().await.instance("@counter@gone").is_none(), "it creates nothing");
}

/// Any other message to an absent instance is dropped and counted, and creates nothing.
pub async fn r05c_a_message_to_nobody_is_dropped_and_counted(fixture: &dyn Fixture) {
    let w = open!(fixture);
    for message in [w.event_to("nobody"), w.control_to("nobody", Control::Terminate)] {
        let delivered = w.send(message).await;
        w.same(&delivered, &Delivered::Dropped(DropReason::Absent), "there is nobody to take it");
    }
    let stored = w.snapshot().await;
    w.same(&stored.instances().count(), &0, "no instance came to be");
    w.same(&stored.dropped(DropReason::Absent), &2, "dropped messages are counted");
}

/// A message that names another execution is dropped and counted when it arrives, and so is one that waited when the
/// run it names gave way to the next.
pub async fn r05d_a_message_for_another_execution_is_dropped(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let first = w.running("order").await.fence.execution;
    let foreign = Message { execution: Some(ExecutionId(first.0 ^ 1)), ..w.event_to("order") };
    let delivered = w.send(foreign).await;
    w.same(&delivered, &Delivered::Dropped(DropReason::OtherExecution), "it is for another execution");

    w.deliver(w.event_to("order")).await;
    let session = w.session().await;
    let turn = session.turn().await;
    let answer = Message { execution: Some(first), ..w.event_to("order") };
    w.deliver(answer.clone()).await;
    session.commit(Step::of(&turn).continue_as_new(vec![w.event_to("order")])).await;

    let turn = session.turn().await;
    w.check(!ids(&turn.messages).contains(&answer.id), "what waited for the last run is not for this one");
    let counted = w.snapshot().await.dropped(DropReason::OtherExecution);
    w.same(&counted, &2, "dropped messages are counted");
}

/// A turn's batch ends with the first suspend, and includes it; what follows waits.
pub async fn r05e_a_batch_ends_with_the_first_suspend(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    let mut sent = w.events_from("parent", "order", 1, 3);
    let suspend = w.control_to("order", Control::Suspend);
    (sent[1].class, sent[1].event) = (Class::Control(Control::Suspend), suspend.event);
    for message in &sent {
        w.deliver(message.clone()).await;
    }

    let session = w.session().await;
    let turn = session.turn().await;
    w.same(&turn.messages.len(), &2, "the batch holds what came before the suspend, and the suspend");
    w.check(turn.messages.last().is_some_and(Message::is_suspend), "the suspend is the last of the batch");
    w.check(turn.more, "the turn is told that more waits");
    session.commit(Step::of(&turn)).await;
    let rest = session.turn().await;
    let together = [turn.messages, rest.messages].concat();
    w.same(&sorted(&together), &sorted(&sent), "the rest comes with the next turn");
}
