//! I18: a purged execution never returns.

use crate::report::{Finding, Place, Tally};
use crate::view::Views;
use crate::{Action, ClientJournal, Outcome};

pub(super) fn check(views: &Views<'_>, journal: &ClientJournal) -> Finding {
    let mut tally = Tally::default();
    for (instance, operations) in journal.by_instance() {
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
