//! I18: a purged execution never returns.

use dauer_core::limits::START_RETRY_MAX;

use crate::report::{Finding, Place, Tally};
use crate::view::Views;
use crate::{Action, ClientJournal, Outcome};

pub(super) fn check(views: &Views<'_>, journal: Option<&ClientJournal>) -> Finding {
    let mut tally = Tally::default();
    removed_starts(views, &mut tally);
    for (instance, operations) in journal.into_iter().flat_map(ClientJournal::by_instance) {
        let record = views.by_id.get(instance).map(|view| &view.dump.record);
        for operation in operations.iter().filter(|operation| operation.outcome == Outcome::Acknowledged) {
            let Action::Purged { execution } = operation.action else { continue };
            let returned = record.is_some_and(|record| record.execution == execution);
            tally.check(
                !returned,
                || Place::of(instance),
                || format!("execution {execution} is there again, although it was purged"),
            );
            // The start that began the purged run must not begin another one.
            let start = operations.iter().find_map(|other| match other.action {
                Action::Started { execution: begun, start } if begun == execution => Some(start),
                _ => None,
            });
            if let (Some(start), Some(record)) = (start, record) {
                tally.check(
                    record.start != start || returned,
                    || Place::of(instance),
                    || format!("was begun again by start {start}, although the run it began was purged"),
                );
            }
        }
    }
    tally.finding()
}

/// A start whose instance was removed begins no other run for as long as a client may retry it.
fn removed_starts(views: &Views<'_>, tally: &mut Tally) {
    let removed = &views.snapshot.removed_starts;
    for (id, view) in views.by_id.iter().filter(|_| !removed.is_empty()) {
        let record = &view.dump.record;
        // The parts of a dump are read one after the other: one that was removed meanwhile has the same time.
        let begun_again = removed.get(&record.start).filter(|at| {
            let accepted = record.times.accepted;
            accepted > **at && accepted.since(**at) <= START_RETRY_MAX
        });
        tally.check(
            begun_again.is_none(),
            || Place::of(id),
            || format!("was begun again by start {}, whose instance was removed", record.start),
        );
    }
}
