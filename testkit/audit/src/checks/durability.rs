//! I4: what was acknowledged is there, unless something later took it away.

use dauer_core::limits::MEMORY_AGE_MAX;
use dauer_core::model::Status;
use dauer_core::{ExecutionId, MessageId};

use crate::report::{Finding, Place, Tally};
use crate::view::{View, Views};
use crate::{Action, ClientJournal, Operation, Outcome, Settings};

pub(super) fn check(views: &Views<'_>, journal: &ClientJournal, settings: &Settings) -> Finding {
    let mut tally = Tally::default();
    for (instance, operations) in journal.by_instance() {
        let case = Case { views, settings, view: views.by_id.get(instance), operations: &operations };
        for operation in operations.iter().filter(|operation| operation.outcome == Outcome::Acknowledged) {
            let lost = match &operation.action {
                Action::Started { start, .. } => case.started(*start),
                Action::Found => case.found(),
                Action::Ended { execution, status, output } => {
                    case.ended(*execution, *status, output.as_deref())
                }
                Action::Raised { message } => case.delivered(operation, *message, "event"),
                Action::Terminated { message } => case.delivered(operation, *message, "terminate"),
                Action::Answered { execution, answer } => match case.view {
                    // An answer for a run that is over is dropped, which is no loss.
                    Some(view) if view.dump.record.execution != *execution => None,
                    _ => case.delivered(operation, *answer, "answer"),
                },
                Action::Purged { .. } => continue,
            };
            tally.check(lost.is_none(), || Place::of(instance), || lost.unwrap_or_default());
        }
    }
    tally.finding()
}

/// All that was done with one instance, and what there is of it.
struct Case<'a> {
    views: &'a Views<'a>,
    settings: &'a Settings,
    view: Option<&'a View<'a>>,
    operations: &'a [&'a Operation],
}

impl Case<'_> {
    fn purged(&self) -> bool {
        self.operations.iter().any(|each| matches!(each.action, Action::Purged { .. }))
    }

    fn starts(&self) -> impl Iterator<Item = MessageId> {
        self.operations.iter().filter_map(|each| match each.action {
            Action::Started { start, .. } => Some(start),
            _ => None,
        })
    }

    /// Why an acknowledged start is lost, if it is.
    fn started(&self, start: MessageId) -> Option<String> {
        let Some(view) = self.view else {
            let lost = !self.purged();
            return lost.then(|| format!("its start {start} was acknowledged, but it does not exist"));
        };
        let record = &view.dump.record;
        // Another start of the journal, or a parent's, may have replaced it; or it waits to replace another itself.
        let explained = record.start == start
            || self.starts().any(|other| other == record.start)
            || record.parent.is_some()
            || self.views.waits(view.id, start);
        (!explained).then(|| {
            format!(
                "its start {start} was acknowledged, but it was begun by {}, which nobody sent",
                record.start
            )
        })
    }

    /// Why an instance that a client knew of is lost, if it is.
    fn found(&self) -> Option<String> {
        let lost = self.view.is_none() && !self.purged();
        lost.then(|| "was there according to a client, but does not exist".into())
    }

    /// Why an end that a client was told of did not last, if it did not: only a start, a rewind or a purge undoes it.
    fn ended(&self, execution: Option<ExecutionId>, status: Status, output: Option<&str>) -> Option<String> {
        let Some(view) = self.view else { return self.found() };
        let record = &view.dump.record;
        let another_run = execution.is_some_and(|execution| execution != record.execution);
        let replaced = self.starts().any(|start| start != record.start) || record.parent.is_some();
        // A client that does not know the run may have seen the end of one that was replaced since.
        if view.rewound || replaced && (another_run || execution.is_none()) {
            return None;
        }
        if another_run {
            return Some(format!(
                "ended as {status:?} for a client, but is in another run, which nobody began"
            ));
        }
        if record.status != status {
            return Some(format!("ended as {status:?} for a client, but is {:?}", record.status));
        }
        let same =
            output.is_none_or(|output| record.details.output().is_some_and(|it| it.as_str() == output));
        (!same).then(|| "has another output than the one a client was given".into())
    }

    /// Why an acknowledged message is lost, if it is.
    fn delivered(&self, operation: &Operation, message: MessageId, what: &str) -> Option<String> {
        let Some(view) = self.view else {
            let lost = !self.purged();
            return lost
                .then(|| format!("{what} {message} was acknowledged, but the instance does not exist"));
        };
        // Another start may have thrown away what waited for the run before it.
        let replaced = || self.starts().any(|start| start != view.dump.record.start);
        let fine = self.views.waits(view.id, message)
            || view.consumed_ids.contains(&message)
            || view.dump.memory.iter().any(|(id, _)| *id == message)
            || !view.is_live()
            || replaced()
            || self.forgotten(view, operation);
        (!fine).then(|| format!("{what} {message} was acknowledged, but is neither waiting nor applied"))
    }

    /// A later run has only the memory to tell what an earlier one applied, and the memory is bounded.
    fn forgotten(&self, view: &View<'_>, operation: &Operation) -> bool {
        let full = view.dump.memory.len() >= self.settings.memory_ids;
        let old = self.views.snapshot.now.since(operation.at) > MEMORY_AGE_MAX;
        // An entity keeps no history at all.
        (view.dump.record.generation > 0 || view.is_entity()) && (full || old)
    }
}
