//! For tests that speak to a helper process: the encodings of the file, which have everything of a value in them.
//!
//! Nothing is promised of these functions; they exist only with the feature `faults`.

use dauer_store::{Fate, Item, Message, MessageId, Record, Task};

use crate::wire;

/// A record as bytes.
#[must_use]
pub fn record_bytes(record: &Record) -> Vec<u8> {
    wire::write_record(record)
}

/// The record that these bytes are.
#[must_use]
pub fn record(bytes: &[u8]) -> Option<Record> {
    wire::read_record(bytes).ok()
}

/// A message as bytes.
#[must_use]
pub fn message_bytes(message: &Message) -> Vec<u8> {
    wire::write_message(message)
}

/// The message that these bytes are.
#[must_use]
pub fn message(bytes: &[u8]) -> Option<Message> {
    wire::read_message(bytes).ok()
}

/// A task as bytes.
#[must_use]
pub fn task_bytes(task: &Task) -> Vec<u8> {
    wire::write_task(task)
}

/// The task that these bytes are.
#[must_use]
pub fn task(bytes: &[u8]) -> Option<Task> {
    wire::read_task(bytes).ok()
}

/// A held item as bytes.
#[must_use]
pub fn item_bytes(item: &Item) -> Vec<u8> {
    wire::write_item(item)
}

/// The item that these bytes are.
#[must_use]
pub fn item(bytes: &[u8]) -> Option<Item> {
    wire::read_item(bytes).ok()
}

/// What a batch consumed and produced, as bytes.
#[must_use]
pub fn trail_bytes(consumed: &[(MessageId, Fate)], produced: &[MessageId]) -> Vec<u8> {
    wire::write_trail(consumed, produced)
}

/// What a batch consumed and produced.
pub type Trail = (Vec<(MessageId, Fate)>, Vec<MessageId>);

/// What these bytes say was consumed and produced.
#[must_use]
pub fn trail(bytes: &[u8]) -> Option<Trail> {
    wire::read_trail(bytes).ok()
}
