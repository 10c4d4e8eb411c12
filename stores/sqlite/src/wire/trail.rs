//! What an auditor needs of a batch of history: the messages consumed and produced.
//!
//! Written with every turn, so it is packed: ids one after the other, each fate a number. Files of format 1 have the
//! older, wordier form, which is still read.

use dauer_store::{Fate, MessageId};

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

/// The form of files of format 1.
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
    /// For each consumed message twice the index of its event, or twice its reason and one.
    #[prost(uint64, repeated, tag = "2")]
    fates: Vec<u64>,
    #[prost(bytes = "vec", tag = "3")]
    produced: Vec<u8>,
}

type Consumed = Vec<(MessageId, Fate)>;

pub(crate) fn write_trail(consumed: &[(MessageId, Fate)], produced: &[MessageId]) -> Vec<u8> {
    let mut wire = PackedTrail {
        consumed: Vec::with_capacity(ID * consumed.len()),
        fates: Vec::with_capacity(consumed.len()),
        produced: Vec::with_capacity(ID * produced.len()),
    };
    for (id, fate) in consumed {
        wire.consumed.extend(id.0);
        wire.fates.push(match fate {
            Fate::Event(event) => 2 * u64::from(*event),
            Fate::Dropped(reason) => 2 * u64::from(reason_code(*reason)) + 1,
        });
    }
    produced.iter().for_each(|id| wire.produced.extend(id.0));
    let mut bytes = Vec::with_capacity(1 + prost::Message::encoded_len(&wire));
    bytes.push(PACKED);
    prost::Message::encode_raw(&wire, &mut bytes);
    bytes
}

pub(crate) fn read_trail(bytes: &[u8]) -> Read<(Consumed, Vec<MessageId>)> {
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
