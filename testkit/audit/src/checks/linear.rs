//! I1: a history is one sequence without gap, fork or duplicate. Here: the batches join up, each holds the events it
//! says, and the record counts the same. That each batch is one commit's own is part of I2. What cannot be read is no sequence of
//! anything.

use dauer_core::InstanceId;

use crate::report::{Finding, Place, Tally};
use crate::view::{View, Views};

pub(super) fn check(views: &Views<'_>, damaged: &[(InstanceId, String)]) -> Finding {
    let mut tally = Tally::default();
    for (id, why) in damaged {
        tally.check(false, || Place::of(id), || format!("it, or something of it, cannot be read: {why}"));
    }
    for view in views.iter() {
        batches(view, &mut tally);
        record(view, &mut tally);
    }
    tally.finding()
}

fn batches(view: &View<'_>, tally: &mut Tally) {
    let mut next = 0;
    for (number, stored) in view.dump.history.iter().enumerate() {
        let place = || Place::at(view.id, format!("batch {number} of revision {}", stored.revision.0));
        let first = stored.first;
        tally.check(first == next, place, || {
            let wrong = if first > next { "a gap" } else { "an overlap" };
            format!("begins with event {first} where event {next} should follow, which is {wrong}")
        });
        let damage = view.damage.as_ref().filter(|(batch, _)| *batch == number);
        tally.check(damage.is_none(), place, || damage.map_or_else(String::new, |(_, why)| why.clone()));
        // What follows is measured from where this batch says it is, so that one gap is reported once.
        next = first.saturating_add(stored.batch.count);
    }
}

fn record(view: &View<'_>, tally: &mut Tally) {
    let record = &view.dump.record;
    let batches = || view.dump.history.iter().map(|stored| &stored.batch);
    let events: u64 = batches().map(|batch| u64::from(batch.count)).sum();
    let bytes: u64 = batches().map(|batch| batch.events.len() as u64).sum();
    tally.check(
        u64::from(record.history_len) == events,
        || Place::of(view.id),
        || format!("the record counts {} events, the history holds {events}", record.history_len),
    );
    tally.check(
        record.history_bytes == bytes,
        || Place::of(view.id),
        || format!("the record counts {} bytes of history, the history holds {bytes}", record.history_bytes),
    );
}
