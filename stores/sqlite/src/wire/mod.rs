//! How values lie in the file: a format byte, then a protobuf message of this crate. Event bytes are kept as they came.
//!
//! Field numbers and codes are part of the format and never change their meaning; `tests/golden` holds a file of each
//! format.

mod blob;
mod code;
mod last;
mod message;
mod record;
mod tail;
mod taken;
mod trail;

use std::sync::Arc;

use dauer_store::{ExecutionId, HubName, InstanceId, MessageId};

pub(crate) use code::{kind_code, kind_of, reason_code, reason_of, status_code, status_of};
pub(crate) use last::{LastCommit, digest};
pub(crate) use message::{
    CLASS_ORDINARY, CLASS_RESUME, CLASS_REWIND, CLASS_START, CLASS_SUSPEND, CLASS_TERMINATE, class_code,
    read_item, read_message, read_task_body, write_item, write_message, write_task, write_task_body,
};
pub(crate) use record::{
    accept_base, hold_code, read_base, read_details, read_tags, same_base, same_details, write_base,
    write_details, write_record,
};
pub(crate) use tail::{Tail, count_tail, read_tail, write_tail};
pub(crate) use taken::{count_taken, read_taken, write_taken};
pub(crate) use trail::{read_trail, write_trail};
#[cfg(feature = "faults")]
pub(crate) use {message::read_task, record::read_record};

/// The format byte of every blob that this crate writes.
const FORMAT: u8 = 1;

/// A blob that makes no sense.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// Written by a newer dauer.
    #[error("a blob has format {0}; use a newer dauer")]
    Newer(u8),
    /// Not the bytes that were written.
    #[error("a blob of the store is damaged: {0}")]
    Damaged(String),
}

impl Unreadable {
    fn of(what: &str) -> Self {
        Self::Damaged(format!("{what} makes no sense"))
    }
}

pub(crate) type Read<T> = Result<T, Unreadable>;

fn seal(message: &impl prost::Message) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(1 + message.encoded_len());
    bytes.push(FORMAT);
    message.encode_raw(&mut bytes);
    bytes
}

fn unseal<M: prost::Message + Default>(bytes: &[u8]) -> Read<M> {
    match bytes.split_first() {
        Some((&FORMAT, content)) => M::decode(content).map_err(|e| Unreadable::Damaged(e.to_string())),
        Some((&format, _)) if format > FORMAT => Err(Unreadable::Newer(format)),
        _ => Err(Unreadable::of("a blob without a format byte")),
    }
}

/// An id as it was checked when it was made.
pub(crate) fn instance_id(text: impl Into<Arc<str>>) -> Read<InstanceId> {
    InstanceId::new(text).map_err(|e| Unreadable::Damaged(e.to_string()))
}

/// The same for the name of a hub.
pub(crate) fn hub_name(text: String) -> Read<HubName> {
    HubName::new(text).map_err(|e| Unreadable::Damaged(e.to_string()))
}

pub(crate) fn number(bytes: &[u8]) -> Read<u128> {
    bytes.try_into().map(u128::from_be_bytes).map_err(|_| Unreadable::of("an id that has not 16 bytes"))
}

pub(crate) fn execution(bytes: &[u8]) -> Read<ExecutionId> {
    number(bytes).map(ExecutionId)
}

pub(crate) fn message_id(bytes: &[u8]) -> Read<MessageId> {
    number(bytes).map(|id| MessageId(id.to_be_bytes()))
}

fn message_ids(ids: &[Vec<u8>]) -> Read<Vec<MessageId>> {
    ids.iter().map(|id| message_id(id)).collect()
}
