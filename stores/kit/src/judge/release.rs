//! Release of items (rule 9).

use std::time::Duration;

use dauer_store::{Record, Timestamp, Trouble};

/// Counts a failed attempt, and shows the trouble with the counts of each kind.
pub fn release_turn(record: &mut Record, failed: bool, trouble: Option<Trouble>) {
    record.attempts = record.attempts.saturating_add(u32::from(failed));
    if let Some(trouble) = trouble {
        record.trouble = Some(Box::new(trouble.behind(record.trouble.as_deref())));
    }
}

/// The time before which a released item is not claimed.
#[must_use]
pub fn not_before(delay: Duration, now: Timestamp) -> Timestamp {
    if delay.is_zero() { Timestamp::default() } else { now.after(delay) }
}
