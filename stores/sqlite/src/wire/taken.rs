//! The tasks that lie in the row of their instance.

use std::collections::BTreeMap;

use bytes::Bytes;
use dauer_store::{Encoded, InstanceId, Task, Timestamp};
use dauer_store_kit::codec::{
    Blob, FORMAT, Read, WireQueue, execution, message_id, queue_from_wire, unseal, write_queue,
};

#[derive(Clone, PartialEq, prost::Message)]
struct WireTakenTask {
    #[prost(bytes = "vec", tag = "1")]
    id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    execution: Vec<u8>,
    #[prost(int32, tag = "3")]
    event_id: i32,
    #[prost(message, optional, tag = "4")]
    queue: Option<WireQueue>,
    #[prost(btree_map = "string, string", tag = "5")]
    tags: BTreeMap<String, String>,
    #[prost(int64, tag = "6")]
    ready_at: i64,
    #[prost(bytes = "bytes", tag = "7")]
    event: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireTaken {
    #[prost(message, repeated, tag = "1")]
    tasks: Vec<WireTakenTask>,
}

/// Nothing when there are none.
pub(crate) fn write_taken<'t>(tasks: impl Iterator<Item = (&'t Task, Timestamp)>) -> Option<Vec<u8>> {
    let mut tasks = tasks.peekable();
    tasks.peek()?;
    let mut blob = Blob::new(FORMAT);
    for (task, ready_at) in tasks {
        blob.message(1, |blob| {
            blob.bytes(1, &task.id.0);
            blob.bytes(2, &task.execution.0.to_be_bytes());
            blob.number(3, i64::from(task.event_id).cast_unsigned());
            blob.message(4, |blob| write_queue(blob, &task.queue));
            blob.texts(5, &task.tags);
            blob.number(6, ready_at.0.cast_unsigned());
            blob.bytes(7, task.event.stored());
        });
    }
    Some(blob.finish())
}

/// How many they are.
pub(crate) fn count_taken(bytes: &[u8]) -> Read<usize> {
    Ok(unseal::<WireTaken>(bytes)?.tasks.len())
}

/// The tasks of that instance, each with the time since when it waits.
pub(crate) fn read_taken(bytes: &[u8], instance: &InstanceId) -> Read<Vec<(Task, Timestamp)>> {
    let wire: WireTaken = unseal(bytes)?;
    let task = |task: WireTakenTask| {
        let ready_at = Timestamp(task.ready_at);
        let task = Task {
            id: message_id(&task.id)?,
            instance: instance.clone(),
            execution: execution(&task.execution)?,
            event_id: task.event_id,
            queue: queue_from_wire(task.queue)?,
            tags: task.tags.into(),
            event: Encoded::from_stored(task.event),
        };
        Ok((task, ready_at))
    };
    wire.tasks.into_iter().map(task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_store::{ExecutionId, Kind, MessageId, QueueKey};
    use dauer_store_kit::codec::{queue_to_wire, seal};

    fn task(number: u8, version: Option<&str>, tags: &[(&str, &str)], event: &'static [u8]) -> Task {
        let tags = tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Task {
            id: MessageId([number; 16]),
            instance: InstanceId::new("i").unwrap(),
            execution: ExecutionId(u128::from(number)),
            event_id: i32::from(number) - 2,
            queue: QueueKey::new(Kind::Activity, "work", version),
            tags: tags.collect::<BTreeMap<_, _>>().into(),
            event: Encoded::from_stored(Bytes::from_static(event)),
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_message_they_are_read_from() {
        // Zeros and nothings are left out, negative numbers take ten bytes, lengths may take two.
        const LONG: &[u8] = &[7; 300];
        let tasks = [
            (task(0, None, &[], &[]), Timestamp(-3)),
            (task(1, Some(""), &[("", ""), ("a", ""), ("b", "c")], &[1, 2]), Timestamp(0)),
            (task(2, Some("v"), &[("k", "v")], LONG), Timestamp(9)),
        ];
        let wire = |(task, ready_at): &(Task, Timestamp)| WireTakenTask {
            id: task.id.0.to_vec(),
            execution: task.execution.0.to_be_bytes().to_vec(),
            event_id: task.event_id,
            queue: Some(queue_to_wire(&task.queue)),
            tags: task.tags.to_map(),
            ready_at: ready_at.0,
            event: task.event.stored().clone(),
        };
        let written = write_taken(tasks.iter().map(|(task, ready_at)| (task, *ready_at))).unwrap();
        assert_eq!(written, seal(&WireTaken { tasks: tasks.iter().map(wire).collect() }));
        assert_eq!(read_taken(&written, &tasks[0].0.instance).unwrap(), tasks);
        assert_eq!(write_taken(std::iter::empty()), None);
    }
}
