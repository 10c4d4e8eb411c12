//! The tasks that lie in the row of their instance.

use std::collections::BTreeMap;

use bytes::Bytes;
use dauer_store::{Encoded, InstanceId, Task, Timestamp};

use super::record::{WireQueue, queue_from_wire, queue_to_wire};
use super::{Read, execution, message_id, seal, unseal};

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
    let tasks: Vec<_> = tasks
        .map(|(task, ready_at)| WireTakenTask {
            id: task.id.0.to_vec(),
            execution: task.execution.0.to_be_bytes().to_vec(),
            event_id: task.event_id,
            queue: Some(queue_to_wire(&task.queue)),
            tags: task.tags.to_map(),
            ready_at: ready_at.0,
            event: task.event.stored().clone(),
        })
        .collect();
    (!tasks.is_empty()).then(|| seal(&WireTaken { tasks }))
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
