//! Rule 7, atomic: a checkpoint is there as a whole or not at all.

use dauer_proto::event;
use dauer_store::{Batch, Checkpoint, Encoded, Message, MessageId, Payload};

use crate::message::{ids, sorted};
use crate::run::open;
use crate::world::HOUR;
use crate::{Call, Fault, Fixture, Snapshot, Step};

/// One commit consumes, writes history and record, schedules every task and timer and sends every message.
pub async fn r07a_one_commit_does_everything(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("other").await;
    let start = w.start("order").await;
    let session = w.session().await;
    let turn = session.turn().await;
    let tasks = ["pay", "pack", "ship"].map(|name| w.task(&turn, name));
    let timers = [1, 2, 3].map(|hours| w.timer(&turn, w.at(HOUR * hours)));
    let messages =
        ["other", "order", "other"].into_iter().zip(0..).map(|(to, ordinal)| w.event_of(&turn, to, ordinal));
    let messages: Vec<Message> = messages.collect();
    let step = Step::of(&turn).tasks(tasks.clone()).timers(timers.clone()).messages(messages.clone());
    let step = step.record(|record| record.details.set_custom_status(Some("waiting".into())));
    session.commit(step).await;

    let mut scheduled: Vec<_> = session.tasks().await.into_iter().map(|lease| lease.task.id).collect();
    scheduled.sort();
    let mut expected = tasks.map(|task| task.id);
    expected.sort();
    w.same(&scheduled, &expected.to_vec(), "every task waits");
    let mut told = Vec::new();
    for turn in session.turns().await {
        session.commit(Step::of(&turn)).await;
        told.extend(turn.messages);
    }
    w.same(&sorted(&told), &sorted(&messages), "every message has arrived, at others and at itself");
    let stored = w.snapshot().await;
    let order = stored.instance("order").expect("it runs");
    let waiting = Payload::from("waiting");
    w.same(&order.record.details.custom_status(), &Some(&waiting), "the record is written");
    let consumed = order.history[0].batch.consumed.iter().map(|(id, _)| *id).collect();
    w.same(&vec![start.id], &consumed, "the history is written");
    w.advance(HOUR * 3).await;
    let fired = w.session().await.turn().await;
    w.same(&sorted(&fired.messages), &sorted(&timers), "every timer fires");
}

/// When a commit fails, in whatever way, all of it is there or nothing is.
pub async fn r07b_a_failed_commit_is_whole_or_absent(fixture: &dyn Fixture) {
    let w = open!(fixture);
    w.running("other").await;
    for fault in [Fault::NotExecuted, Fault::UnknownNotDone, Fault::UnknownDone] {
        let id = format!("order{fault:?}").to_lowercase();
        // In a queue of its own: what the fault leaves held is of no concern to the next.
        let start = w.start_in(&id, &id, |_| {});
        w.start_with(start.clone()).await;
        let session = w.session().await;
        let turn = session.turn_of(&id).await;
        let step = Step::of(&turn).tasks([w.task(&turn, "pay")]).timers([w.timer(&turn, w.at(HOUR))]);
        let step = Checkpoint::from(step.messages([w.event_of(&turn, "other", 0)]));
        let (timer, message) = (step.timers[0].id, step.messages[0].id);
        let result = w.faulted(Call::CommitTurns, fault, session.try_commit(step)).await;
        w.check(result.is_err(), "the commit did not answer");

        let stored = w.snapshot().await;
        let parts = [
            !stored.waiting(&id).contains(&start.id),
            stored.instance(&id).is_some_and(|instance| instance.record.revision.0 == 1),
            stored.instance(&id).is_some_and(|instance| !instance.history.is_empty()),
            stored.tasks().any(|task| task.task.instance.as_str() == id),
            stored.waiting(&id).contains(&timer),
            sent(&stored, message),
        ];
        let whole = parts.iter().all(|part| *part) || !parts.iter().any(|part| *part);
        let what = format!("{fault:?}: consumed, record, history, task, timer, message are {parts:?}");
        w.check(whole, &what);
    }
}

/// A message counts as sent when its target has it, or the sender still keeps it to be relayed.
fn sent(stored: &Snapshot, message: MessageId) -> bool {
    let relayed = stored.instances().any(|instance| ids(&instance.outbox).contains(&message));
    relayed || stored.waiting("other").contains(&message)
}

/// A commit that replaces the history brings the new one whole, and nothing of the old stays.
pub async fn r07c_a_replacement_brings_its_history(fixture: &dyn Fixture) {
    let w = open!(fixture);
    let turn = Step::after(&w.running("order").await);
    let events = [1, 2, 3].map(|at| Encoded::new(&event::orchestrator_started(at)));
    let batch = |events: &[Encoded]| Batch::join(events, Vec::new(), Vec::new()).expect("our own format");
    let batches = vec![batch(&events[..2]), batch(&events[2..])];
    let step = Step::of(&turn).continue_as_new(Vec::new()).with_history(batches.clone());
    let execution = Some(step.execution());
    w.ok(w.manage().amend(step.into()).await, "amend");

    let read = w.manage().read_history(&crate::instance("order"), execution, 0, usize::MAX).await;
    let stored = w.ok(read, "read_history").batches;
    let firsts: Vec<u32> = stored.iter().map(|stored| stored.first).collect();
    w.same(&firsts, &vec![0, 2], "the new history begins with its first event");
    let found: Vec<Batch> = stored.into_iter().map(|stored| stored.batch).collect();
    w.same(&found, &batches, "the new history is the one that was given");
}
