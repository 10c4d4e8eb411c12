//! I3: history, status, consumed and produced messages of a commit are all there or all absent.
//!
//! A dump shows this from both sides. Forward: a schedule in the history comes with an identity that the commit
//! produced, an event sent to an instance that must have received it is there, a created instance has its start.
//! Backward: whatever names a commit as its origin belongs to one that happened. That an open schedule still has its
//! task, child or timer is I15 and I8; that a consumed message is gone is I5.

use std::collections::{BTreeMap, BTreeSet};

use dauer_core::model::{Class, Origin, Status};
use dauer_core::{InstanceId, MessageId};
use dauer_proto::EventType;
use dauer_store::{Message, StoredBatch, TaskDump};

use crate::Settings;
use crate::report::{Finding, Place, Tally};
use crate::view::{Key, View, Views};

pub(super) fn check(views: &Views<'_>, settings: &Settings) -> Finding {
    let mut tally = Tally::default();
    for view in views.orchestrations() {
        begun(view, &mut tally);
        identities(view, &mut tally);
        events_sent(views, view, &mut tally);
    }
    for view in views.iter() {
        for waiting in &view.waiting {
            let place = || Place::at(view.id, format!("message {}", waiting.message.id));
            tally.check(waiting.event.is_some(), place, || "its event cannot be read".into());
            origin(views, waiting.message, settings, &mut tally);
        }
        for message in &view.dump.outbox {
            origin(views, message, settings, &mut tally);
        }
    }
    for task in views.snapshot.tasks.values() {
        scheduled(views, task, settings, &mut tally);
    }
    tally.finding()
}

/// Created: the record and its start are one write. Begun: the status and the history are.
fn begun(view: &View<'_>, tally: &mut Tally) {
    let record = &view.dump.record;
    let place = || Place::of(view.id);
    if record.history_len > 0 {
        let begun = record.status != Status::Pending;
        return tally.check(begun, place, || "has a history, but its status is Pending".into());
    }
    // The first run waits for the very start that created it, later ones for the start their predecessor wrote; a
    // child that a rewind brought back begins with that.
    let begins = |message: &Message| match message.class {
        Class::Start(_) => record.generation > 0 || message.id == record.start,
        Class::Rewind(_) => true,
        Class::Control(_) | Class::Ordinary => false,
    };
    let waits = view.waiting.iter().any(|waiting| begins(waiting.message));
    tally.check(waits, place, || {
        format!("has no history, and its start {} is not waiting for it", record.start)
    });
}

/// Every task, child and timer in a batch has an identity among those the batch produced.
fn identities(view: &View<'_>, tally: &mut Tally) {
    // A rewind joins batches of a run before; the identities of that run are of no use any more.
    if view.rewound {
        return;
    }
    let mut scheduled = vec![0; view.dump.history.len()];
    for schedule in &view.schedules {
        if let (Key::Action(..), Some(entry)) = (&schedule.key, view.events.get(schedule.index)) {
            scheduled[entry.batch] += 1;
        }
    }
    for (stored, scheduled) in view.dump.history.iter().zip(scheduled) {
        let produced = distinct(&stored.batch.produced).len();
        let place = || Place::at(view.id, format!("revision {}", stored.revision.0));
        tally.check(produced >= scheduled, place, || {
            format!(
                "schedules {scheduled} tasks, children and timers, but produced only {produced} identities"
            )
        });
    }
}

/// A commit may name an identity both as scheduled and as sent.
fn distinct(produced: &[MessageId]) -> BTreeSet<MessageId> {
    produced.iter().copied().collect()
}

/// An event for an orchestration that has been in its first run ever since must be waiting or consumed there, or be
/// on its way. Any other target may have dropped or forgotten it.
fn events_sent(views: &Views<'_>, view: &View<'_>, tally: &mut Tally) {
    let mut sent: BTreeMap<(usize, &str), usize> = BTreeMap::new();
    for entry in &view.events {
        if let Some(EventType::EventSent(event)) = &entry.event.event_type {
            *sent.entry((entry.batch, &event.instance_id)).or_default() += 1;
        }
    }
    for ((batch, target), count) in sent {
        let Ok(target) = InstanceId::new(target) else { continue };
        let Some(there) = views.by_id.get(&target) else { continue };
        let Some(stored) = view.dump.history.get(batch) else { continue };
        let record = &there.dump.record;
        let received = there.is_live()
            && !there.is_entity()
            && record.generation == 0
            && record.times.created < stored.at;
        if view.rewound || !received {
            continue;
        }
        let arrived = |id: &&MessageId| views.waits(&target, **id) || there.consumed_ids.contains(*id);
        let found = distinct(&stored.batch.produced).iter().filter(arrived).count();
        let place = || Place::at(view.id, format!("revision {}", stored.revision.0));
        tally.check(found >= count, place, || {
            format!("sent {count} events to {target}, but only {found} of them are waiting, consumed or on their way")
        });
    }
}

/// What a turn sent is there only if the turn was committed.
fn origin(views: &Views<'_>, message: &Message, settings: &Settings, tally: &mut Tally) {
    let Origin::Turn { instance, execution, revision, .. } = &message.origin else { return };
    let Some(sender) = views.by_id.get(instance) else { return };
    // An own timer may come before its commit where the store has no transactions.
    let early = !settings.transactional && message.to == *instance;
    let record = &sender.dump.record;
    let place = || Place::at(&message.to, format!("message {}", message.id));
    tally.check(early || *revision <= record.revision, place, || {
        format!(
            "was sent by revision {} of {instance}, which has only committed {}",
            revision.0, record.revision.0
        )
    });
    if record.execution != *execution {
        return;
    }
    let at = |stored: &StoredBatch| stored.revision.cmp(revision);
    // Out of order, the search may miss it and nothing is said here: I2 reports the disorder.
    let Ok(batch) = sender.dump.history.binary_search_by(at) else { return };
    let produced = |id: MessageId| sender.produced_in(id) == Some(batch);
    // The answer to a task is made by a worker: it is the task that the turn produced.
    let known = produced(message.id) || message.answers.is_some_and(produced) || sender.rewound;
    tally.check(early || known, place, || {
        format!(
            "says that revision {} of {instance} sent it, but that commit produced no such identity",
            revision.0
        )
    });
}

/// A task is there only if the turn that scheduled it was committed.
fn scheduled(views: &Views<'_>, dump: &TaskDump, settings: &Settings, tally: &mut Tally) {
    let task = &dump.task;
    let Some(view) = views.by_id.get(&task.instance) else { return };
    if view.dump.record.execution != task.execution || !settings.transactional || view.rewound {
        return;
    }
    let known = view.produced_in(task.id).is_some();
    tally.check(
        known,
        || Place::at(view.id, format!("task {}", task.id)),
        || "waits to be run, but no commit of this run produced it".into(),
    );
}
