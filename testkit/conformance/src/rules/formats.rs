//! Rule 16, formats: everything can be taken out and put into another hub, byte for byte.

use dauer_proto::event;
use dauer_store::{
    Checkpoint, Control, Created, DumpItem, Encoded, EntityRecord, ExecutionId, Fence, History, HubKey, Kind,
    Lock, Message, Origin, Parent, Purge, QueueKey, Record, Refused, Reuse, Status, Task,
};

use crate::message::ids;
use crate::run::open;
use crate::session::GiveBack;
use crate::world::{HOUR, PAST_LEASE, instance};
use crate::{Fixture, Snapshot, Step};

/// A dump holds everything: put into an empty hub it gives the same hub, which goes on where the first stopped and
/// remembers what was applied.
pub async fn r16a_a_dump_holds_everything(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.start_with(w.start_in("held", "Refunds", |_| {})).await;
    let session = w.session().await;
    session.trial(&session.turn().await.item(), true).await;
    session.renew().await;
    w.running_with_task("order").await;
    let event = w.event_to("order");
    w.deliver(event.clone()).await;
    w.run(Step::of).await;
    w.deliver(Message { visible_at: w.at(HOUR), ..w.event_to("order") }).await;
    w.deliver(w.event_to("order")).await;
    session.release(session.turn().await.failed()).await;
    w.send(w.event_to("nobody")).await;
    let held = session.task().await;
    session.trial(&held.item(), true).await;
    let items = w.everything().await;

    let copy = w.beside("Copy").await;
    let mut damaged = items.clone();
    damaged.push(DumpItem::Damaged(instance("bad"), "of no sense".to_owned()));
    let refused = copy.manage().load(damaged).await;
    w.check(
        matches!(refused, Err(Refused::Corrupt(_))),
        "what is damaged is not loaded, nor what comes with it",
    );
    w.ok(copy.manage().load(items.clone()).await, "load");
    let copied = copy.snapshot().await;
    w.check(copied.instance("order").is_some(), "the dump holds the instance");
    w.same(&copied, &Snapshot::of(items), "the copy holds what the first hub held");
    let again = (w.send(event.clone()).await, copy.send(event).await);
    w.same(&again.1, &again.0, "the copy remembers what the first hub remembers of applied messages");
    let session = copy.session().await;
    let turn = session.turn_of("order").await;
    session.commit(Step::of(&turn)).await;
    session.no_task("the copy keeps what a host holds for it").await;
    w.advance(PAST_LEASE).await;
    let heir = copy.session().await;
    heir.turn_of("held").await;
    let lease = heir.task().await;
    w.same(&lease.task, &held.task, "what a host held is free when its lease has run out");
}

/// The bytes of an event come back as they went in, also those that this version of dauer does not understand.
pub async fn r16b_bytes_are_kept_as_they_came(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("order").await;
    let mut event = w.event_to("order");
    // Field 1000, a string: valid protobuf that no decoder of ours knows.
    let unknown = [0xc2, 0x3e, 0x03, b'n', b'e', b'w'];
    event.event = Encoded::from_stored([event.event.stored(), &unknown[..]].concat().into());
    w.deliver(event.clone()).await;

    let session = w.session().await;
    let turn = session.turn().await;
    w.same(&turn.messages[0].event, &event.event, "a message comes as it was sent");
    session.commit(Step::of(&turn)).await;
    let history = w.snapshot().await;
    let last = history
        .instance("order")
        .and_then(|order| order.history.last())
        .map(|batch| batch.batch.events.clone());
    let kept = last.is_some_and(|events| events.stored().ends_with(&unknown));
    w.check(kept, "a history keeps the bytes it was given");
}

/// Messages, tasks, histories and records come back with every field as it was written; only what the store sets
/// differs.
pub async fn r16c_values_come_back_whole(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let execution = w.running("order").await.fence.execution;
    let mut sent = vec![w.control_to("order", Control::Resume), w.rewind_message("order")];
    let answers = Some(sent[0].id);
    sent.extend(w.events_from("parent", "order", 3, 2).into_iter().map(|m| Message { answers, ..m }));
    sent.push(Message { origin: Origin::Client { request: None }, ..w.event_to("order") });
    sent.push(Message { execution: Some(execution), ..w.event_to("order") });
    for message in &sent {
        w.deliver(message.clone()).await;
    }
    let session = w.session().await;
    let turn = session.turn().await;
    let mut given = turn.messages.clone();
    // A store may move the time of a message that is due to that of its arrival.
    given.iter_mut().filter(|message| message.visible_at <= turn.now).for_each(|m| m.visible_at = w.began);
    given.sort_by_key(|message| message.id);
    sent.sort_by_key(|message| message.id);
    w.same(&given, &sent, "messages come back as they were sent");

    let tags = [("zone".to_owned(), "north".to_owned())].into();
    let queue = QueueKey::new(Kind::Activity, "pay", Some("2"));
    let task = Task { tags, queue, ..w.task(&turn, "pay") };
    let written = Checkpoint::from(Step::of(&turn).tasks([task.clone()]).record(full));
    session.commit(written.clone()).await;
    w.same(&session.task().await.task, &task, "a task comes back as it was scheduled");

    let stored = w.snapshot().await;
    let found = stored.instance("order").map(|order| order.record.clone()).expect("it runs");
    let (revision, times) = (found.revision, found.times.clone());
    let expected = Record { revision, times, ..written.record.after(&turn.record.details) };
    w.same(&found, &expected, "a record comes back as it was written");
    // Its lock lets nothing else through.
    w.deliver(w.events_from("owner", "order", 1, 1).remove(0)).await;
    let turn = session.turn().await;
    w.same(&turn.record, &expected, "a claim gives the record as it was written");
    let slice = w.ok(session.work().load_history(&turn.fence, 0, usize::MAX).await, "load_history");
    let last = slice.batches.last().map(|stored| History::Append(stored.batch.clone()));
    w.same(&last, &Some(written.history), "a batch of history comes back as it was written");
}

/// Fills every field of a record that a turn may set.
fn full(record: &mut Record) {
    let owner = crate::instance("owner");
    let blob = || Some(Encoded::new(&event::orchestrator_started(7)));
    record.generation = 3;
    record.queue.version = Some("2".into());
    record.tags = [("zone".to_owned(), "north".to_owned())].into();
    record.parent =
        Some(Box::new(Parent { instance: owner.clone(), execution: ExecutionId(u128::MAX), event_id: -5 }));
    let details = &mut record.details;
    details.set_custom_status(Some("\u{fc}ber".into()));
    details.set_output(Some("".into()));
    details.set_failure(blob());
    details.set_trace(blob());
    let lock = Lock { section: "one".into(), owner, owner_execution: ExecutionId(1) };
    let early_unlocks = vec!["two".into(), "three".into()];
    details.set_entity(Some(EntityRecord { state: Some("{}".into()), lock: Some(lock), early_unlocks }));
}

/// What one store had sent and not yet confirmed, another delivers: messages in a loaded outbox reach their targets.
pub async fn r16d_a_loaded_outbox_is_delivered(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let turn = w.running("order").await;
    w.running("other").await;
    let message = w.event_of(&turn, "other", 0);
    let mut items = w.everything().await;
    for item in &mut items {
        if let DumpItem::Instance(instance) = item
            && instance.id == turn.fence.instance
        {
            instance.outbox.push(message.clone());
        }
    }

    let copy = w.beside("Copy").await;
    w.ok(copy.manage().load(items).await, "load");
    let turn = copy.session().await.turn().await;
    w.same(&turn.fence.instance.as_str(), &"other", "the target is ready");
    w.same(&ids(&turn.messages), &vec![message.id], "the target has the message");
    w.same(&copy.snapshot().await.waiting("other"), &vec![message.id], "it was delivered once");
}

/// A dump holds the hub's own values: where new instances begin, which starts were removed lately, and the key.
pub async fn r16e_a_dump_holds_the_values_of_the_hub(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let replaced = w.start("order").await;
    w.run(|turn| Step::of(turn).ended(Status::Completed)).await;
    w.ended_again("order").await;
    w.ok(w.manage().purge(Purge::Ids(vec![instance("order")])).await, "purge");
    let key = w.ok(w.manage().key(HubKey([1; 32])).await, "key");
    let items = w.everything().await;
    let copy = w.beside("Copy").await;
    w.ok(copy.manage().load(items.clone()).await, "load");
    w.same(&copy.snapshot().await, &Snapshot::of(items), "the copy holds what the first hub held");

    for (world, which) in [(&w, "the first hub"), (&copy, "the copy")] {
        let again = world.create(replaced.clone(), Reuse::default()).await;
        let known = matches!(again, Ok(Created::Repeat(_)));
        w.check(known, &format!("{which} knows a start that was replaced and removed: {again:?}"));
    }
    w.check(copy.snapshot().await.hub().key == Some(key), "the copy has the key of the first hub");
    w.start("new").await;
    copy.start("new").await;
    let begins = |fence: Fence| (fence.epoch, fence.revision);
    let (first, second) = (w.found("new").await.0, copy.found("new").await.0);
    w.same(&begins(second), &begins(first), "a new instance begins where it would in the first hub");
}
