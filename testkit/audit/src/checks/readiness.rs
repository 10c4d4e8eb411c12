//! I16: an instance's ready time is never later than its earliest admitted message.

use dauer_core::Timestamp;

use crate::report::{Finding, Place, Tally};
use crate::view::{View, Views};

pub(super) fn check(views: &Views<'_>) -> Finding {
    let mut tally = Tally::default();
    for view in views.iter() {
        // A time that has come is as good as any earlier one: stores may note when a message arrived instead.
        let Some(due) = due(view).map(|due| due.max(views.snapshot.now)) else { continue };
        let ready = view.dump.ready_at;
        tally.check(
            ready.is_some_and(|ready| ready <= due),
            || Place::of(view.id),
            || match ready {
                None => {
                    format!("has a message to deliver from {} ms on, but is not ready at any time", due.0)
                }
                Some(ready) => format!("is ready {} ms after a message is to be delivered", ready.0 - due.0),
            },
        );
    }
    tally.finding()
}

/// From when something may be delivered. A pending instance is held for starts and control, and both wake it: a
/// terminate before the scheduled time too, although the turn then carries the start first. A release with delay may
/// put off all of it.
fn due(view: &View<'_>) -> Option<Timestamp> {
    let hold = view.dump.record.hold();
    let admitted = view.waiting.iter().map(|waiting| waiting.message).filter(|message| hold.admits(message));
    let earliest = admitted.map(|message| message.visible_at).min()?;
    Some(earliest.max(view.dump.not_before))
}
