//! The fields of a record that the store sets (rules 5, 9 and 15).

use dauer_store::{HostId, Record, Revision, Times, Timestamp};

/// The record of a new instance, from the one that its start carries (rule 5).
#[must_use]
pub fn newborn(record: Record, revision: Revision, now: Timestamp) -> Record {
    let (scheduled, completed) = (record.times.scheduled, None);
    let times = Times { created: now, accepted: now, updated: now, scheduled, completed };
    Record { revision, times, history_len: 0, history_bytes: 0, attempts: 0, trouble: None, ..record }
}

/// Sets the store's fields in the record of a commit. `history` has the events and bytes of the history after the commit.
pub fn stamp(record: &mut Record, old: &Record, history: (u32, u64), now: Timestamp) {
    let begun = record.start != old.start;
    let unset = record.times.created == Times::default().created;
    record.times.created = match (begun, unset) {
        // Another start begins another run, unless the commit names the old time: the child of a rewound parent goes on.
        (true, _) if record.times.created != old.times.created => now,
        (false, true) => old.times.created,
        _ => record.times.created,
    };
    record.times.accepted = if begun { now } else { old.times.accepted };
    record.times.updated = now;
    // A commit to an ended run does not move its end.
    let ended_before = old.times.completed.filter(|_| old.execution == record.execution);
    record.times.completed = record.status.is_ended().then(|| ended_before.unwrap_or(now));
    record.revision = old.revision.next();
    (record.history_len, record.history_bytes) = history;
    record.attempts = 0;
    record.trouble = None;
}

/// Whether a change of the record is told to those who watch the instance.
#[must_use]
pub fn is_shown(old: &Record, new: &Record) -> bool {
    old.status != new.status || old.execution != new.execution || old.custom_status != new.custom_status
}

/// The owner of an amendment, which no host commits.
#[must_use]
#[expect(clippy::expect_used, reason = "a constant, not empty, short, without control characters")]
pub fn amender() -> HostId {
    HostId::new("amend").expect("a valid host id")
}
