//! The state of an instance in the last row of its history, if it is newer than the row of the instance.

use std::collections::BTreeMap;

use bytes::Bytes;
use dauer_store::{Batch, Encoded, ExecutionId, InstanceId, Task};
use dauer_store_kit::codec::{
    Blob, FORMAT, Read, Unreadable, WireQueue, execution, message_id, queue_from_wire, unseal, write_queue,
};

/// Up to this many events are searched for those of tasks. Among more of them, the search costs more than it saves.
const EVENTS_MAX: u32 = 64;

/// Instance fields after this turn that are not already columns of the history row (`updated` = `at`, `history_len` =
/// `first + count`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tail {
    pub(crate) history_bytes: u64,
    /// The key of the session that committed, and keeps the instance.
    pub(crate) by: i64,
    /// The tasks that it took with the commit, in their order. The row of the instance has no others. They wait since then.
    pub(crate) taken: Vec<Task>,
    /// True once the start was consumed. The row of the instance may still say Pending.
    pub(crate) begun: bool,
}

/// A task of a turn. What it has in common with the turn is left out.
#[derive(Clone, PartialEq, prost::Message)]
struct WireTailTask {
    #[prost(bytes = "vec", tag = "1")]
    id: Vec<u8>,
    #[prost(int32, tag = "2")]
    event_id: i32,
    #[prost(message, optional, tag = "3")]
    queue: Option<WireQueue>,
    #[prost(btree_map = "string, string", tag = "4")]
    tags: BTreeMap<String, String>,
    /// Which event of the row is its own: the first is 1.
    #[prost(uint32, tag = "5")]
    event: u32,
    /// The event, when it is none of those.
    #[prost(bytes = "bytes", tag = "6")]
    event_of_its_own: Bytes,
    /// When it is not that of the instance.
    #[prost(bytes = "vec", tag = "7")]
    execution: Vec<u8>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireTail {
    #[prost(uint64, tag = "1")]
    history_bytes: u64,
    #[prost(int64, tag = "2")]
    by: i64,
    #[prost(message, repeated, tag = "3")]
    taken: Vec<WireTailTask>,
    #[prost(bool, tag = "4")]
    begun: bool,
}

/// As it lies in the row of that batch, of a run of an instance.
pub(crate) fn write_tail<'t>(
    (history_bytes, by, begun): (u64, i64, bool),
    taken: impl Iterator<Item = &'t Task>,
    (current, batch): (ExecutionId, &Batch),
) -> Vec<u8> {
    let mut blob = Blob::new(FORMAT);
    blob.number(1, history_bytes);
    blob.number(2, by.cast_unsigned());
    for task in taken {
        blob.message(3, |blob| {
            blob.bytes(1, &task.id.0);
            blob.number(2, i64::from(task.event_id).cast_unsigned());
            blob.message(3, |blob| write_queue(blob, &task.queue));
            blob.texts(4, &task.tags);
            match number_of(batch, &task.event) {
                Some(event) => blob.number(5, event.into()),
                None => blob.bytes(6, task.event.stored()),
            }
            if task.execution != current {
                blob.bytes(7, &task.execution.0.to_be_bytes());
            }
        });
    }
    if begun {
        blob.number(4, 1);
    }
    blob.finish()
}

/// Which event of a batch that is; the first is 1.
fn number_of(batch: &Batch, event: &Encoded) -> Option<u32> {
    let content = event.content().ok().filter(|_| batch.count <= EVENTS_MAX)?;
    (1..).zip(batch.contents()).find_map(|(number, found)| (found.ok()? == content).then_some(number))
}

/// Reads what was written with these events, for a run of that instance.
pub(crate) fn read_tail(
    bytes: &[u8],
    (instance, current): (&InstanceId, ExecutionId),
    events: &[u8],
) -> Read<Tail> {
    let wire: WireTail = unseal(bytes)?;
    let event = |task: &WireTailTask| match task.event.checked_sub(1) {
        None => Ok(Encoded::from_stored(task.event_of_its_own.clone())),
        Some(index) => nth(events, index).ok_or_else(|| Unreadable::of("a task without its event")),
    };
    let task = |task: WireTailTask| {
        Ok(Task {
            id: message_id(&task.id)?,
            instance: instance.clone(),
            execution: if task.execution.is_empty() { current } else { execution(&task.execution)? },
            event_id: task.event_id,
            event: event(&task)?,
            queue: queue_from_wire(task.queue)?,
            tags: task.tags.into(),
        })
    };
    let taken = wire.taken.into_iter().map(task).collect::<Read<_>>()?;
    Ok(Tail { history_bytes: wire.history_bytes, by: wire.by, taken, begun: wire.begun })
}

/// How many tasks it has.
pub(crate) fn count_tail(bytes: &[u8]) -> Read<usize> {
    Ok(unseal::<WireTail>(bytes)?.taken.len())
}

/// One of the events of a row; the first is 0.
fn nth(events: &[u8], index: u32) -> Option<Encoded> {
    let events = Encoded::from_stored(Bytes::copy_from_slice(events));
    let batch = Batch { count: index, events, consumed: Vec::new(), produced: Vec::new() };
    let content = batch.contents().nth(usize::try_from(index).ok()?)?.ok()?;
    Some(Encoded::of_content(content))
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_store::{Kind, MessageId, QueueKey};
    use dauer_store_kit::codec::{queue_to_wire, seal};

    const OWN: ExecutionId = ExecutionId(7);

    fn task(number: u8, tags: &[(&str, &str)], event: &[u8]) -> Task {
        let tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Task {
            id: MessageId([number; 16]),
            instance: InstanceId::new("i").unwrap(),
            execution: OWN,
            event_id: i32::from(number) - 2,
            queue: QueueKey::new(Kind::Activity, "work", None),
            tags: tags.collect::<BTreeMap<_, _>>().into(),
            event: Encoded::of_content(event),
        }
    }

    fn batch(events: &[&[u8]]) -> Batch {
        let events: Vec<_> = events.iter().map(|content| Encoded::of_content(content)).collect();
        Batch::join(&events, Vec::new(), Vec::new()).unwrap()
    }

    /// How a task lies there.
    fn wire(task: &Task, event: u32) -> WireTailTask {
        let own = if event == 0 { task.event.stored().clone() } else { Bytes::new() };
        let foreign = task.execution != OWN;
        WireTailTask {
            id: task.id.0.to_vec(),
            event_id: task.event_id,
            queue: Some(queue_to_wire(&task.queue)),
            tags: task.tags.to_map(),
            event,
            event_of_its_own: own,
            execution: if foreign { task.execution.0.to_be_bytes().to_vec() } else { Vec::new() },
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_message_they_are_read_from() {
        let batch = batch(&[b"time", b"first", b"", b"second"]);
        let mut tasks =
            vec![task(0, &[], b"second"), task(1, &[("", ""), ("b", "c")], b"first"), task(2, &[], b"")];
        // Its event is not of this turn, nor is it of this run.
        tasks.push(Task { execution: ExecutionId(8), ..task(3, &[], &[9; 300]) });
        let expected = [4, 2, 3, 0];
        let taken = tasks.iter().zip(expected).map(|(task, event)| wire(task, event)).collect();
        let written = write_tail((300, 5, true), tasks.iter(), (OWN, &batch));
        assert_eq!(written, seal(&WireTail { history_bytes: 300, by: 5, taken, begun: true }));
        let read = |events: &[u8]| read_tail(&written, (&tasks[0].instance, OWN), events);
        let tail = Tail { history_bytes: 300, by: 5, taken: tasks.clone(), begun: true };
        assert_eq!(read(batch.events.stored()).unwrap(), tail);
        // With other events it makes no sense.
        let other = super::tests::batch(&[b"time"]);
        assert!(matches!(read(other.events.stored()), Err(Unreadable::Damaged(_))));
        assert_eq!(write_tail((0, 0, false), std::iter::empty(), (OWN, &batch)), [FORMAT]);
    }

    #[test]
    fn a_task_among_too_many_events_brings_its_own() {
        let many: Vec<&[u8]> = vec![b"event"; EVENTS_MAX as usize + 1];
        let task = task(1, &[], b"event");
        for (count, number) in [(many.len(), None), (many.len() - 1, Some(1))] {
            let batch = batch(&many[..count]);
            assert_eq!(number_of(&batch, &task.event), number);
            let written = write_tail((0, 1, false), [&task].into_iter(), (OWN, &batch));
            let read = read_tail(&written, (&task.instance, OWN), batch.events.stored()).unwrap();
            assert_eq!(read.taken, std::slice::from_ref(&task));
        }
    }
}
