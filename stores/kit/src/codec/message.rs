//! Messages, tasks and items. The event of a message or task is the last field, with its bytes as they came.

use std::collections::BTreeMap;

use bytes::Bytes;
use dauer_store::{
    Class, Control, Encoded, Epoch, ExecutionId, Fence, InstanceId, Item, Message, MessageId, Opening,
    Origin, Over, QueueKey, Revision, Task, TaskFence, Timestamp,
};

use super::record::{
    WireParent, WireQueue, parent_from_wire, parent_to_wire, queue_from_wire, queue_to_wire,
};
use super::{Read, Unreadable, execution, instance_id, message_id, number, seal, unseal};

/// The code of a start.
const CLASS_START: u32 = 1;
/// The code of a rewind.
const CLASS_REWIND: u32 = 2;
/// The code of a suspend.
const CLASS_SUSPEND: u32 = 3;
/// The code of a resume.
const CLASS_RESUME: u32 = 4;
/// The code of a terminate.
const CLASS_TERMINATE: u32 = 5;
/// The code of every other message.
pub const CLASS_ORDINARY: u32 = 6;

#[derive(Clone, PartialEq, prost::Message)]
struct WireTurn {
    #[prost(string, tag = "1")]
    instance: String,
    #[prost(bytes = "vec", tag = "2")]
    execution: Vec<u8>,
    #[prost(uint64, tag = "3")]
    revision: u64,
    #[prost(uint32, optional, tag = "4")]
    ordinal: Option<u32>,
}

/// The fields have the numbers of a record, which a start carried before format 8 of SQLite: such a start is read as well.
#[derive(Clone, PartialEq, prost::Message)]
struct WireOpening {
    #[prost(message, optional, tag = "1")]
    queue: Option<WireQueue>,
    #[prost(bytes = "vec", tag = "2")]
    execution: Vec<u8>,
    #[prost(int64, optional, tag = "10")]
    scheduled: Option<i64>,
    #[prost(message, optional, tag = "17")]
    parent: Option<WireParent>,
    #[prost(btree_map = "string, string", tag = "18")]
    tags: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireMessage {
    #[prost(bytes = "vec", tag = "1")]
    id: Vec<u8>,
    #[prost(string, tag = "2")]
    to: String,
    #[prost(bytes = "vec", optional, tag = "3")]
    execution: Option<Vec<u8>>,
    #[prost(uint32, tag = "4")]
    class: u32,
    #[prost(message, optional, boxed, tag = "5")]
    opening: Option<Box<WireOpening>>,
    /// 1 refuse, 2 terminate; of starts and rewinds.
    #[prost(uint32, tag = "6")]
    over: u32,
    #[prost(bytes = "vec", optional, tag = "7")]
    request: Option<Vec<u8>>,
    #[prost(message, optional, tag = "8")]
    turn: Option<WireTurn>,
    #[prost(bytes = "vec", optional, tag = "9")]
    answers: Option<Vec<u8>>,
    #[prost(int64, tag = "10")]
    visible_at: i64,
    #[prost(bytes = "bytes", tag = "11")]
    event: Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireTask {
    #[prost(bytes = "vec", tag = "1")]
    id: Vec<u8>,
    #[prost(string, tag = "2")]
    instance: String,
    #[prost(bytes = "vec", tag = "3")]
    execution: Vec<u8>,
    #[prost(int32, tag = "4")]
    event_id: i32,
    #[prost(message, optional, tag = "5")]
    queue: Option<WireQueue>,
    #[prost(btree_map = "string, string", tag = "6")]
    tags: BTreeMap<String, String>,
    #[prost(bytes = "bytes", tag = "7")]
    event: Bytes,
}

/// The part of a task that is not in columns.
#[derive(Clone, PartialEq, prost::Message)]
struct WireTaskBody {
    #[prost(int32, tag = "1")]
    event_id: i32,
    #[prost(btree_map = "string, string", tag = "2")]
    tags: BTreeMap<String, String>,
    #[prost(bytes = "bytes", tag = "3")]
    event: Bytes,
}

/// A held item. A turn has an execution, a task an id.
#[derive(Clone, PartialEq, prost::Message)]
struct WireItem {
    #[prost(string, tag = "1")]
    instance: String,
    #[prost(bytes = "vec", optional, tag = "2")]
    execution: Option<Vec<u8>>,
    #[prost(uint64, tag = "3")]
    revision: u64,
    #[prost(uint64, tag = "4")]
    epoch: u64,
    #[prost(bytes = "vec", optional, tag = "5")]
    task: Option<Vec<u8>>,
}

/// The code of a message's class.
#[must_use]
pub fn class_code(class: &Class) -> u32 {
    match class {
        Class::Start(_) => CLASS_START,
        Class::Rewind(_) => CLASS_REWIND,
        Class::Control(Control::Suspend) => CLASS_SUSPEND,
        Class::Control(Control::Resume) => CLASS_RESUME,
        Class::Control(Control::Terminate) => CLASS_TERMINATE,
        Class::Ordinary => CLASS_ORDINARY,
    }
}

/// Writes a message.
#[must_use]
pub fn write_message(message: &Message) -> Vec<u8> {
    let opening = match &message.class {
        Class::Start(opening) | Class::Rewind(opening) => Some(opening),
        Class::Control(_) | Class::Ordinary => None,
    };
    let (request, turn) = match &message.origin {
        Origin::Client { request } => (request.map(|request| request.to_be_bytes().to_vec()), None),
        Origin::Turn { instance, execution, revision, ordinal } => (
            None,
            Some(WireTurn {
                instance: instance.to_string(),
                execution: execution.0.to_be_bytes().to_vec(),
                revision: revision.0,
                ordinal: *ordinal,
            }),
        ),
    };
    seal(&WireMessage {
        id: message.id.0.to_vec(),
        to: message.to.to_string(),
        execution: message.execution.map(|execution| execution.0.to_be_bytes().to_vec()),
        class: class_code(&message.class),
        opening: opening.map(|opening| Box::new(opening_to_wire(opening))),
        over: opening.map_or(0, |opening| match opening.over {
            Over::Refuse => 1,
            Over::Terminate => 2,
        }),
        request,
        turn,
        answers: message.answers.map(|id| id.0.to_vec()),
        visible_at: message.visible_at.0,
        event: message.event.stored().clone(),
    })
}

/// Reads a message.
pub fn read_message(bytes: &[u8]) -> Read<Message> {
    let wire: WireMessage = unseal(bytes)?;
    let origin = match wire.turn {
        None => Origin::Client { request: wire.request.as_deref().map(number).transpose()? },
        Some(turn) => Origin::Turn {
            instance: instance_id(turn.instance)?,
            execution: execution(&turn.execution)?,
            revision: Revision(turn.revision),
            ordinal: turn.ordinal,
        },
    };
    Ok(Message {
        id: message_id(&wire.id)?,
        to: instance_id(wire.to)?,
        execution: wire.execution.as_deref().map(execution).transpose()?,
        class: read_class(wire.class, wire.opening, wire.over)?,
        origin,
        answers: wire.answers.as_deref().map(message_id).transpose()?,
        visible_at: Timestamp(wire.visible_at),
        event: Encoded::from_stored(wire.event),
    })
}

fn opening_to_wire(opening: &Opening) -> WireOpening {
    WireOpening {
        queue: Some(queue_to_wire(&opening.queue)),
        execution: opening.execution.0.to_be_bytes().to_vec(),
        scheduled: opening.scheduled.map(|time| time.0),
        parent: opening.parent.as_deref().map(parent_to_wire),
        tags: opening.tags.to_map(),
    }
}

fn read_class(class: u32, opening: Option<Box<WireOpening>>, over: u32) -> Read<Class> {
    let opening = || {
        let wire = opening.ok_or_else(|| Unreadable::of("a start without an opening"))?;
        let over = match over {
            1 => Over::Refuse,
            2 => Over::Terminate,
            _ => return Err(Unreadable::of("what a start may replace")),
        };
        Ok(Box::new(Opening {
            queue: queue_from_wire(wire.queue)?,
            execution: execution(&wire.execution)?,
            parent: wire.parent.map(parent_from_wire).transpose()?,
            tags: wire.tags.into(),
            scheduled: wire.scheduled.map(Timestamp),
            over,
        }))
    };
    Ok(match class {
        CLASS_START => Class::Start(opening()?),
        CLASS_REWIND => Class::Rewind(opening()?),
        CLASS_SUSPEND => Class::Control(Control::Suspend),
        CLASS_RESUME => Class::Control(Control::Resume),
        CLASS_TERMINATE => Class::Control(Control::Terminate),
        CLASS_ORDINARY => Class::Ordinary,
        _ => return Err(Unreadable::of("the class of a message")),
    })
}

/// Writes a whole task.
#[must_use]
pub fn write_task(task: &Task) -> Vec<u8> {
    seal(&WireTask {
        id: task.id.0.to_vec(),
        instance: task.instance.to_string(),
        execution: task.execution.0.to_be_bytes().to_vec(),
        event_id: task.event_id,
        queue: Some(queue_to_wire(&task.queue)),
        tags: task.tags.to_map(),
        event: task.event.stored().clone(),
    })
}

/// Reads a whole task.
pub fn read_task(bytes: &[u8]) -> Read<Task> {
    let wire: WireTask = unseal(bytes)?;
    Ok(Task {
        id: message_id(&wire.id)?,
        instance: instance_id(wire.instance)?,
        execution: execution(&wire.execution)?,
        event_id: wire.event_id,
        queue: queue_from_wire(wire.queue)?,
        tags: wire.tags.into(),
        event: Encoded::from_stored(wire.event),
    })
}

/// Writes the part of a task that a row does not have in columns.
#[must_use]
pub fn write_task_body(task: &Task) -> Vec<u8> {
    seal(&WireTaskBody {
        event_id: task.event_id,
        tags: task.tags.to_map(),
        event: task.event.stored().clone(),
    })
}

/// Reads a task from its body and the columns beside it.
pub fn read_task_body(
    bytes: &[u8],
    (id, instance): (MessageId, InstanceId),
    (execution, queue): (ExecutionId, QueueKey),
) -> Read<Task> {
    let wire: WireTaskBody = unseal(bytes)?;
    let (event_id, tags, event) = (wire.event_id, wire.tags.into(), Encoded::from_stored(wire.event));
    Ok(Task { id, instance, execution, event_id, queue, tags, event })
}

/// Writes an item.
#[must_use]
pub fn write_item(item: &Item) -> Vec<u8> {
    seal(&match item {
        Item::Turn(fence) => WireItem {
            instance: fence.instance.to_string(),
            execution: Some(fence.execution.0.to_be_bytes().to_vec()),
            revision: fence.revision.0,
            epoch: fence.epoch.0,
            task: None,
        },
        Item::Task(fence) => WireItem {
            instance: fence.instance.to_string(),
            execution: None,
            revision: 0,
            epoch: fence.epoch.0,
            task: Some(fence.task.0.to_vec()),
        },
    })
}

/// Reads an item.
pub fn read_item(bytes: &[u8]) -> Read<Item> {
    let wire: WireItem = unseal(bytes)?;
    let (instance, epoch) = (instance_id(wire.instance)?, Epoch(wire.epoch));
    match (wire.execution, wire.task) {
        (Some(run), None) => {
            let revision = Revision(wire.revision);
            Ok(Item::Turn(Fence { instance, execution: execution(&run)?, revision, epoch }))
        }
        (None, Some(task)) => Ok(Item::Task(TaskFence { task: message_id(&task)?, instance, epoch })),
        _ => Err(Unreadable::of("an item")),
    }
}
