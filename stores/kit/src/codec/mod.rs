//! The bytes of stored values: a format byte, then a protobuf message. Event bytes are kept as they came.
//!
//! Field numbers and codes are part of the format and never change their meaning. `tests/codec.rs` compares the bytes with
//! a golden file. Every function that reads returns [`Unreadable`] for bytes that a newer dauer wrote, or that are damaged.
//!
//! A store may have row formats of its own: [`seal`], [`unseal`], [`Blob`] and [`WireQueue`] are their parts.

mod blob;
mod code;
mod last;
mod message;
mod record;
mod trail;

use std::sync::Arc;

use dauer_store::{Cause, ExecutionId, HostId, HubName, InstanceId, MessageId, Refused};

pub use blob::Blob;
pub use code::{kind_code, kind_of, reason_code, reason_of, status_code, status_of};
pub use last::{LastCommit, digest};
pub use message::{
    CLASS_ORDINARY, class_code, read_item, read_message, read_task, read_task_body, write_item,
    write_message, write_task, write_task_body,
};
use record::write_next;
pub use record::{
    WireQueue, hold_code, queue_from_wire, queue_to_wire, read_base, read_details, read_record, read_tags,
    same_base, write_base, write_details, write_queue, write_record,
};
pub use trail::{read_trail, write_trail};

/// The format byte of every blob but the packed trail.
pub const FORMAT: u8 = 1;

/// Why bytes could not be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// A newer dauer wrote the bytes.
    #[error("a blob has format {0}; use a newer dauer")]
    Newer(u8),
    /// The bytes are not those that were written.
    #[error("a blob of the store is damaged: {0}")]
    Damaged(String),
}

impl Unreadable {
    /// The named value makes no sense.
    #[must_use]
    pub fn of(what: &str) -> Self {
        Self::Damaged(format!("{what} makes no sense"))
    }
}

impl From<Unreadable> for Refused {
    fn from(unreadable: Unreadable) -> Self {
        match unreadable {
            Unreadable::Newer(format) => Self::Newer(u32::from(format)),
            Unreadable::Damaged(_) => Self::Corrupt(Cause::new(unreadable)),
        }
    }
}

/// The result of reading bytes.
pub type Read<T> = Result<T, Unreadable>;

/// Writes a protobuf message behind the format byte.
pub fn seal(message: &impl prost::Message) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + message.encoded_len());
    bytes.push(FORMAT);
    message.encode_raw(&mut bytes);
    bytes
}

/// Reads a protobuf message behind the format byte.
pub fn unseal<M: prost::Message + Default>(bytes: &[u8]) -> Read<M> {
    match bytes.split_first() {
        Some((&FORMAT, content)) => M::decode(content).map_err(|e| Unreadable::Damaged(e.to_string())),
        Some((&format, _)) if format > FORMAT => Err(Unreadable::Newer(format)),
        _ => Err(Unreadable::of("a blob without a format byte")),
    }
}

/// Reads the id of an instance.
pub fn instance_id(text: impl Into<Arc<str>>) -> Read<InstanceId> {
    InstanceId::new(text).map_err(|e| Unreadable::Damaged(e.to_string()))
}

/// Reads the id of a host.
pub fn host_id(text: impl Into<Arc<str>>) -> Read<HostId> {
    HostId::new(text).map_err(|e| Unreadable::Damaged(e.to_string()))
}

/// Reads the name of a hub.
pub fn hub_name(text: String) -> Read<HubName> {
    HubName::new(text).map_err(|e| Unreadable::Damaged(e.to_string()))
}

/// Reads a number of 16 bytes.
pub fn number(bytes: &[u8]) -> Read<u128> {
    bytes.try_into().map(u128::from_be_bytes).map_err(|_| Unreadable::of("an id that has not 16 bytes"))
}

/// Reads the id of an execution.
pub fn execution(bytes: &[u8]) -> Read<ExecutionId> {
    number(bytes).map(ExecutionId)
}

/// Reads the id of a message.
pub fn message_id(bytes: &[u8]) -> Read<MessageId> {
    number(bytes).map(|id| MessageId(id.to_be_bytes()))
}

fn message_ids(ids: &[Vec<u8>]) -> Read<Vec<MessageId>> {
    ids.iter().map(|id| message_id(id)).collect()
}
