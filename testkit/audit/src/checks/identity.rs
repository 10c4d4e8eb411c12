//! I10: at most one live execution per instance; what is found under an id belongs to it.

use std::collections::BTreeMap;

use dauer_core::ExecutionId;
use dauer_core::model::Status;
use dauer_proto::{EventType, ExecutionStartedEvent};

use crate::Repeated;
use crate::report::{Finding, Place, Tally};
use crate::view::{View, Views};

pub(super) fn check(views: &Views<'_>) -> Finding {
    let mut tally = Tally::default();
    repeated(views, &mut tally);
    let mut starts = BTreeMap::new();
    let mut executions = BTreeMap::new();
    for view in views.iter() {
        let record = &view.dump.record;
        let place = || Place::of(view.id);
        let other = starts.insert(record.start, view.id);
        tally.check(other.is_none(), place, || {
            format!("was begun by start {}, and so was {}", record.start, other.map_or("", |id| id.as_str()))
        });
        let other = executions.insert(record.execution, view.id);
        tally.check(other.is_none(), place, || {
            format!("runs execution {}, and so does {}", record.execution, other.map_or("", |id| id.as_str()))
        });
        for waiting in &view.waiting {
            let to = &waiting.message.to;
            tally.check(
                to == view.id,
                || Place::at(view.id, format!("message {}", waiting.message.id)),
                || format!("waits here, but is for {to}"),
            );
        }
        if !view.is_entity() && !view.events.is_empty() {
            started(view, &mut tally);
        }
    }
    tally.finding()
}

fn repeated(views: &Views<'_>, tally: &mut Tally) {
    for repeated in &views.snapshot.repeated {
        match repeated {
            Repeated::Instance(id) => {
                tally.check(false, || Place::of(id), || "is there more than once".into())
            }
            Repeated::Task(id) => {
                tally.check(false, Place::hub, || format!("task {id} is there more than once"));
            }
            Repeated::Session(id) => {
                tally.check(false, Place::hub, || format!("session {:032x} is there more than once", id.0));
            }
        }
    }
}

/// A history has one start, and it names this instance and this run.
fn started(view: &View<'_>, tally: &mut Tally) {
    let starts: Vec<_> = view
        .events
        .iter()
        .enumerate()
        .filter_map(|(index, entry)| started_event(index, &entry.event))
        .collect();
    // A run that was ended from outside before its first turn never took its start.
    let unborn = starts.is_empty() && matches!(view.dump.record.status, Status::Terminated | Status::Failed);
    tally.check(
        starts.len() == 1 || unborn,
        || Place::of(view.id),
        || format!("its history has {} starts where it should have one", starts.len()),
    );
    for (index, started) in starts {
        let place = || Place::at(view.id, format!("event {index}"));
        let named = started.orchestration_instance.as_ref();
        let instance = named.map_or("", |named| named.instance_id.as_str());
        tally.check(instance == view.id.as_str(), place, || {
            format!("is the start of another instance, {instance}")
        });
        let execution = named.and_then(|named| ExecutionId::parse(named.execution_id.as_deref()?));
        let current = view.dump.record.execution;
        // A rewound history keeps the start of the run it was cut from.
        tally.check(execution == Some(current) || view.rewound, place, || {
            let named = named.and_then(|named| named.execution_id.as_deref()).unwrap_or_default();
            format!("is the start of execution {named:?}, but the record says {current}")
        });
    }
}

fn started_event(index: usize, event: &dauer_proto::HistoryEvent) -> Option<(usize, &ExecutionStartedEvent)> {
    match &event.event_type {
        Some(EventType::ExecutionStarted(started)) => Some((index, started)),
        _ => None,
    }
}
