//! Reads: conditions, pages and slices (rules 12 and 13).

use std::borrow::Cow;

use dauer_store::{InstanceId, Kind, Message, Query, Record, Slice, StoredBatch, Tags};

use super::opens;

/// Rows of a page if the caller names no number: two screens of a dashboard.
const PAGE_ROWS: usize = 100;

/// Instances or tasks in one part of a dump.
pub const PART_ITEMS: usize = 100;

/// The rows of a page that asks for `asked`, where 0 is the store's own number.
#[must_use]
pub fn page_rows(asked: usize) -> usize {
    if asked == 0 { PAGE_ROWS } else { asked }
}

/// Whether `tags` have all that are wanted.
#[must_use]
pub fn has_tags(tags: &Tags, wanted: &Tags) -> bool {
    wanted.iter().all(|(key, value)| tags.get(key) == Some(value))
}

/// Whether an instance fulfils all conditions of a query.
#[must_use]
pub fn matches(query: &Query, id: &InstanceId, record: &Record) -> bool {
    let created = record.times.created;
    query.entities == (record.queue.kind == Kind::Entity)
        && (query.statuses.is_empty() || query.statuses.contains(&record.status))
        && query.created_from.is_none_or(|from| created >= from)
        && query.created_to.is_none_or(|to| created < to)
        && query.name.as_ref().is_none_or(|name| *name == record.queue.name)
        && query.prefix.as_ref().is_none_or(|prefix| id.as_str().starts_with(&**prefix))
        && has_tags(&record.tags, &query.tags)
        && (!query.stalled || record.trouble.is_some())
}

/// Whether an instance may begin with a start or rewind that waits: it has no history yet, or has ended.
#[must_use]
pub fn awaits_start(record: &Record) -> bool {
    record.history_len == 0 || record.status.is_ended()
}

/// Whether an instance that [awaits a start](awaits_start) begins with that message.
#[must_use]
pub fn is_next_start(record: &Record, message: &Message) -> bool {
    opens(message).is_some_and(|s| record.status.is_ended() || s.execution == record.execution)
}

/// Whole batches from the one that holds event `from`, about `max_bytes` and at least one.
///
/// # Errors
/// The first error of `batches`, which are in order.
pub fn slice<'b, E>(
    batches: impl IntoIterator<Item = Result<Cow<'b, StoredBatch>, E>>,
    (from, max_bytes): (u32, usize),
) -> Result<Slice, E> {
    let mut slice = Slice::default();
    let mut bytes = 0usize;
    for stored in batches {
        let stored = stored?;
        let reaches = stored.first >= from || stored.first.saturating_add(stored.batch.count) > from;
        if slice.batches.is_empty() && !reaches {
            continue;
        }
        bytes = bytes.saturating_add(stored.batch.events.len());
        // A batch may have no events. A page that ended where it began would be asked for again and again.
        if bytes > max_bytes && stored.first > from && !slice.batches.is_empty() {
            slice.next = Some(stored.first);
            break;
        }
        slice.batches.push(stored.into_owned());
    }
    Ok(slice)
}
