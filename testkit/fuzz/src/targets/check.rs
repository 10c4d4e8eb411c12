//! What must hold of every checkpoint, whatever it was made from.

use std::collections::BTreeSet;

use dauer_core::ledger::Ledger;
use dauer_core::limits::TurnLimits;
use dauer_core::model::{
    Batch, Checkpoint, Class, Encoded, Fate, Fence, History, Message, Record, StoredBatch,
};
use dauer_core::turn::{Finished, Input, Stalled};
use dauer_core::{Epoch, HostId, InstanceId, MessageId, Revision, Timestamp};

use super::event::round_trip;

/// What the targets claim an instance with: the same every time.
pub(crate) fn fence(instance: &InstanceId, record: &Record) -> Fence {
    let (instance, execution) = (instance.clone(), record.execution);
    Fence { instance, execution, revision: Revision(3), epoch: Epoch(2) }
}

/// A batch as a store gives it back.
pub(crate) fn stored(batch: Batch) -> StoredBatch {
    let Ok(owner) = HostId::new("host") else { panic!("a plain host id is refused") };
    StoredBatch { first: 0, revision: Revision(1), epoch: Epoch(1), owner, at: Timestamp(0), batch }
}

/// A refusal says why.
pub(crate) fn refusal(stalled: &Stalled) {
    assert!(!stalled.reason.is_empty(), "{:?} without a reason", stalled.kind);
}

/// Checks a checkpoint that was made from `input` and the ledger `before`.
pub(crate) fn finished(input: &Input, before: &Ledger, finished: &Finished, limits: &TurnLimits) {
    let Finished { checkpoint, details, ledger, events } = finished;
    assert_eq!(checkpoint.fence, input.fence, "a commit carries what was claimed");
    consumed(input, checkpoint);
    history(before, checkpoint, ledger);
    produced(checkpoint);
    let record = &checkpoint.record;
    assert_eq!(record.history_len, ledger.events(), "the record counts the history");
    let carried = record.details.as_ref().is_none_or(|carried| carried == details);
    assert!(carried, "a checkpoint carries other details than the turn leaves");
    assert!(
        record.details.is_some() || input.record.details == *details,
        "a checkpoint says nothing of changed details"
    );
    assert!(record.trouble.is_none() && record.attempts == 0, "a turn that was taken leaves no trouble");
    assert!(ledger.open_count() <= limits.open_tasks);
    if let History::Append(batch) = &checkpoint.history {
        assert_eq!(events.len(), batch.count as usize);
    }
}

fn consumed(input: &Input, checkpoint: &Checkpoint) {
    let waiting: BTreeSet<MessageId> = input.messages.iter().map(|message| message.id).collect();
    let consumed: BTreeSet<MessageId> = checkpoint.consumed.iter().copied().collect();
    assert_eq!(consumed.len(), checkpoint.consumed.len(), "a message is consumed twice");
    assert!(consumed.is_subset(&waiting), "a message is consumed that was not there");
}

/// The ledger that is carried along equals the one that a host builds which has never seen the instance.
fn history(before: &Ledger, checkpoint: &Checkpoint, after: &Ledger) {
    let mut rebuilt = match &checkpoint.history {
        History::Append(_) => before.clone(),
        History::Replace { execution, .. } => {
            assert_eq!(*execution, checkpoint.record.execution);
            Ledger::new(checkpoint.fence.instance.clone(), *execution)
        }
    };
    for batch in batches(checkpoint) {
        for (_, fate) in &batch.consumed {
            assert!(!matches!(fate, Fate::Event(index) if *index >= batch.count), "a fate beyond the batch");
        }
        match rebuilt.absorb(&stored(batch.clone())) {
            Ok(events) => events.iter().for_each(round_trip),
            Err(error) => panic!("a turn wrote a history that cannot be read: {error}"),
        }
    }
    assert!(rebuilt == *after, "the ledger of the stored history is not the one carried along");
}

fn batches(checkpoint: &Checkpoint) -> &[Batch] {
    match &checkpoint.history {
        History::Append(batch) => std::slice::from_ref(batch),
        History::Replace { batches, .. } => batches,
    }
}

/// Every effect has an identity of its own, is known to the auditor, and can be read by whoever gets it.
fn produced(checkpoint: &Checkpoint) {
    let prologue = match &checkpoint.history {
        History::Append(_) => [].as_slice(),
        History::Replace { prologue, .. } => prologue,
    };
    let sent = || checkpoint.timers.iter().chain(&checkpoint.messages);
    let effects = || checkpoint.tasks.iter().map(|task| task.id).chain(sent().map(|message| message.id));
    let all: BTreeSet<MessageId> = effects().chain(prologue.iter().map(|message| message.id)).collect();
    let count = effects().count() + prologue.len();
    assert_eq!(all.len(), count, "two effects of one turn have the same identity");
    if let Some(batch) = batches(checkpoint).first() {
        let known: BTreeSet<MessageId> = batch.produced.iter().copied().collect();
        assert_eq!(known.len(), batch.produced.len(), "something is produced twice");
        assert_eq!(known, effects().collect(), "produced is not what the turn made");
    }
    sent().chain(prologue).for_each(readable);
    for task in &checkpoint.tasks {
        let request = dauer_core::workitem::activity_request(task);
        assert!(request.is_ok(), "a task that no worker can be given: {request:?}");
    }
}

fn readable(message: &Message) {
    let event = decoded(&message.event);
    if let Class::Start(_) = &message.class {
        message.to.check_orchestration().unwrap_or_else(|error| panic!("a start for an entity: {error}"));
    }
    round_trip(&event);
}

fn decoded(encoded: &Encoded) -> dauer_proto::HistoryEvent {
    encoded.event().unwrap_or_else(|error| panic!("a turn sent an event that cannot be read: {error}"))
}
