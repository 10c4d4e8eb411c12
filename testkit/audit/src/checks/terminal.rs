//! I7: nothing follows a terminal event; status, output and failure are a function of the history.

use dauer_core::model::{Hold, Payload, Status};
use dauer_proto::event::kind_name;
use dauer_proto::{EventType, ExecutionCompletedEvent, OrchestrationStatus, TaskFailureDetails};

use crate::report::{Finding, Place, Tally};
use crate::view::{View, Views};

pub(super) fn check(views: &Views<'_>) -> Finding {
    let mut tally = Tally::default();
    for view in views.iter() {
        completed(view, &mut tally);
        if !view.is_entity() && view.damage.is_none() {
            ended(view, &mut tally);
            suspended(view, &mut tally);
        }
    }
    tally.finding()
}

/// Ended, and with a time of completion: both or none.
fn completed(view: &View<'_>, tally: &mut Tally) {
    let record = &view.dump.record;
    let (status, place) = (record.status, || Place::of(view.id));
    let completed = record.times.completed.is_some();
    tally.check(completed == status.is_ended(), place, || {
        let time = if completed { "a" } else { "no" };
        format!("is {status:?} and has {time} time of completion")
    });
}

fn ended(view: &View<'_>, tally: &mut Tally) {
    let end = view.events.iter().enumerate().find_map(|(index, entry)| match &entry.event.event_type {
        Some(EventType::ExecutionCompleted(completed)) => Some((index, completed)),
        _ => None,
    });
    let status = view.dump.record.status;
    let Some((index, completed)) = end else {
        return tally.check(
            !status.is_ended(),
            || Place::of(view.id),
            || format!("is {status:?}, but its history has no end"),
        );
    };
    for (later, entry) in view.events.iter().enumerate().skip(index + 1) {
        tally.check(
            false,
            || Place::at(view.id, format!("event {later}")),
            || format!("{} follows the end of the run, event {index}", kind_name(&entry.event)),
        );
    }
    outcome(view, index, completed, tally);
}

fn outcome(view: &View<'_>, index: usize, completed: &ExecutionCompletedEvent, tally: &mut Tally) {
    let record = &view.dump.record;
    let place = || Place::at(view.id, format!("event {index}"));
    let told = match completed.orchestration_status() {
        OrchestrationStatus::Completed => Some(Status::Completed),
        OrchestrationStatus::Failed => Some(Status::Failed),
        OrchestrationStatus::Terminated => Some(Status::Terminated),
        OrchestrationStatus::Canceled => Some(Status::Canceled),
        _ => None,
    };
    tally.check(told == Some(record.status), place, || {
        let told = completed.orchestration_status().as_str_name();
        format!("ends the run as {told}, the record says {:?}", record.status)
    });
    let output = record.details.output().map(Payload::as_str);
    tally.check(output == completed.result.as_deref(), place, || {
        "the output of the record is not the result of the history".into()
    });
    let failure = record.details.failure().map(dauer_store::Encoded::decode::<TaskFailureDetails>);
    let same = match (&failure, &completed.failure_details) {
        (None, None) => true,
        (Some(Ok(failure)), Some(details)) => failure == details,
        _ => false,
    };
    tally.check(same, place, || "the failure of the record is not that of the history".into());
}

/// The last word of the history on suspension holds. A continued run may have none and be suspended from before, and one
/// that has not begun is suspended without a word.
fn suspended(view: &View<'_>, tally: &mut Tally) {
    let record = &view.dump.record;
    let word = view.events.iter().rev().find_map(|entry| match entry.event.event_type {
        Some(EventType::ExecutionSuspended(_)) => Some(true),
        Some(EventType::ExecutionResumed(_)) => Some(false),
        _ => None,
    });
    let is = record.status == Status::Suspended;
    let unsaid = word.is_none() && (record.generation > 0 || record.hold() == Hold::Unborn);
    if record.status.is_ended() || unsaid {
        return;
    }
    tally.check(
        is == word.unwrap_or(false),
        || Place::of(view.id),
        || {
            let told =
                if word.unwrap_or(false) { "was suspended" } else { "was not suspended, or was resumed" };
            format!("is {:?}, but by its history it {told}", record.status)
        },
    );
}
