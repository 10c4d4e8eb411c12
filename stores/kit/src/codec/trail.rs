//! The trail of a history batch: the ids of the messages that it consumed and produced, for the auditor.
//!
//! Every turn writes one, so the form is packed: ids one after the other, each fate as a number. Format 1 is an older, wordier
//! form, which is only read.

use dauer_store::{Fate, MessageId};

use super::blob::Blob;
use super::code::{reason_code, reason_of};
use super::{Read, Unreadable, message_id, message_ids, unseal};

/// The format byte of the packed form.
const PACKED: u8 = 2;

/// Bytes of an id.
const ID: usize = 16;

#[derive(Clone, PartialEq, prost::Message)]
struct WireConsumed {
    #[prost(bytes = "vec", tag = "1")]
    id: Vec<u8>,
    #[prost(uint32, optional, tag = "2")]
    event: Option<u32>,
    #[prost(uint32, tag = "3")]
    dropped: u32,
}

/// Format 1.
#[derive(Clone, PartialEq, prost::Message)]
struct WireTrail {
    #[prost(message, repeated, tag = "1")]
    consumed: Vec<WireConsumed>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    produced: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PackedTrail {
    #[prost(bytes = "vec", tag = "1")]
    consumed: Vec<u8>,
    /// For each consumed message twice the index of its event, or twice the code of its drop reason plus one.
    #[prost(uint64, repeated, tag = "2")]
    fates: Vec<u64>,
    #[prost(bytes = "vec", tag = "3")]
    produced: Vec<u8>,
}

type Consumed = Vec<(MessageId, Fate)>;

/// Writes a trail.
#[must_use]
pub fn write_trail(consumed: &[(MessageId, Fate)], produced: &[MessageId]) -> Vec<u8> {
    let mut blob = Blob::new(PACKED);
    blob.pieces(1, ID * consumed.len(), consumed.iter().map(|(id, _)| id.0.as_slice()));
    blob.numbers(2, consumed.iter().map(|(_, fate)| fate_code(*fate)));
    blob.pieces(3, ID * produced.len(), produced.iter().map(|id| id.0.as_slice()));
    blob.finish()
}

fn fate_code(fate: Fate) -> u64 {
    match fate {
        Fate::Event(event) => 2 * u64::from(event),
        Fate::Dropped(reason) => 2 * u64::from(reason_code(reason)) + 1,
    }
}

/// Reads a trail: the consumed messages and the produced ones.
pub fn read_trail(bytes: &[u8]) -> Read<(Consumed, Vec<MessageId>)> {
    match bytes.split_first() {
        Some((&PACKED, content)) => read_packed(content),
        _ => read_wordy(bytes),
    }
}

fn read_packed(content: &[u8]) -> Read<(Consumed, Vec<MessageId>)> {
    let wire: PackedTrail =
        prost::Message::decode(content).map_err(|e| Unreadable::Damaged(e.to_string()))?;
    let ids = read_ids(&wire.consumed)?;
    if ids.len() != wire.fates.len() {
        return Err(Unreadable::of("a trail whose messages and fates differ in number"));
    }
    let fate = |code: u64| -> Read<Fate> {
        let half = u32::try_from(code / 2).map_err(|_| Unreadable::of("the fate of a message"))?;
        Ok(if code.is_multiple_of(2) { Fate::Event(half) } else { Fate::Dropped(reason_of(half)?) })
    };
    let consumed = ids.into_iter().zip(wire.fates).map(|(id, code)| Ok((id, fate(code)?)));
    Ok((consumed.collect::<Read<_>>()?, read_ids(&wire.produced)?))
}

fn read_ids(bytes: &[u8]) -> Read<Vec<MessageId>> {
    bytes.chunks(ID).map(message_id).collect()
}

fn read_wordy(bytes: &[u8]) -> Read<(Consumed, Vec<MessageId>)> {
    let wire: WireTrail = unseal(bytes)?;
    let consumed = wire.consumed.into_iter().map(|consumed| {
        let fate = match consumed.event {
            Some(event) => Fate::Event(event),
            None => Fate::Dropped(reason_of(consumed.dropped)?),
        };
        Ok::<_, Unreadable>((message_id(&consumed.id)?, fate))
    });
    Ok((consumed.collect::<Read<_>>()?, message_ids(&wire.produced)?))
}
