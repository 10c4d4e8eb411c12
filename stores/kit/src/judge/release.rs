//! Release of items (rule 9).

use std::time::Duration;

use dauer_store::{Record, Timestamp, Trouble};

/// Counts a failed attempt and shows the trouble, which began earlier if the last trouble was of the same kind.
pub fn release_turn(record: &mut Record, failed: bool, trouble: Option<Trouble>) {
    record.attempts = record.attempts.saturating_add(u32::from(failed));
    if let Some(trouble) = trouble {
        let earlier = record.trouble.as_ref().filter(|earlier| earlier.kind == trouble.kind);
        let since = earlier.map_or(trouble.since, |earlier| earlier.since);
        record.trouble = Some(Box::new(Trouble { since, attempts: record.attempts, ..trouble }));
    }
}

/// The time before which a released item is not claimed.
#[must_use]
pub fn not_before(delay: Duration, now: Timestamp) -> Timestamp {
    if delay.is_zero() { Timestamp::default() } else { now.after(delay) }
}
