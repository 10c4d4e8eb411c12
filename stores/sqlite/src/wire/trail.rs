//! What an auditor needs of a batch of history: the messages consumed and produced.

use dauer_store::{Fate, MessageId};

use super::code::{reason_code, reason_of};
use super::{Read, Unreadable, id_bytes, message_id, message_ids, seal, unseal};

#[derive(Clone, PartialEq, prost::Message)]
struct WireConsumed {
    #[prost(bytes = "vec", tag = "1")]
    id: Vec<u8>,
    #[prost(uint32, optional, tag = "2")]
    event: Option<u32>,
    #[prost(uint32, tag = "3")]
    dropped: u32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct WireTrail {
    #[prost(message, repeated, tag = "1")]
    consumed: Vec<WireConsumed>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    produced: Vec<Vec<u8>>,
}

type Consumed = Vec<(MessageId, Fate)>;

pub(crate) fn write_trail(consumed: &[(MessageId, Fate)], produced: &[MessageId]) -> Vec<u8> {
    let consumed = consumed.iter().map(|(id, fate)| match fate {
        Fate::Event(event) => WireConsumed { id: id.0.to_vec(), event: Some(*event), dropped: 0 },
        Fate::Dropped(reason) => {
            WireConsumed { id: id.0.to_vec(), event: None, dropped: reason_code(*reason) }
        }
    });
    seal(&WireTrail { consumed: consumed.collect(), produced: id_bytes(produced) })
}

pub(crate) fn read_trail(bytes: &[u8]) -> Read<(Consumed, Vec<MessageId>)> {
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
