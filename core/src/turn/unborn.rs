//! Suspending and resuming a run that has not begun. No event records it: the run's first event is its start.

use crate::model::{Control, Hold, Message, Record, Status};

/// Suspends or resumes a run that has not begun; `start` is what it begins with. Returns whether that changed the record.
/// A terminate changes nothing here: it ends the run.
pub(super) fn control(record: &mut Record, start: &Message, control: Control) -> bool {
    let status = match control {
        Control::Suspend => Status::Suspended,
        // A run that was continued as new keeps the start of the first run in its record. It was Running before.
        Control::Resume if start.id != record.start => Status::Running,
        Control::Resume => Status::Pending,
        Control::Terminate => return false,
    };
    let changed = (control == Control::Resume) == (record.hold() == Hold::Unborn);
    if changed {
        record.status = status;
    }
    changed
}
