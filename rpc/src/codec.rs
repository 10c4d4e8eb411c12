//! Protobuf on the wire. What cannot be read is the sender's fault, and told so.

use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

/// Bytes that are made ready for a message. Most are smaller, and tonic's 8 KiB for each of thousands a second cost more than
/// growing for the few that are not.
const BUFFER_BYTES: usize = 1024;

/// Bytes after which messages of a stream are sent although more are ready: tonic's own.
const YIELD_BYTES: usize = 32 * 1024;

/// Encodes and decodes messages. A message that is no valid one, because of bytes that are no UTF-8 for instance, is
/// answered with `INVALID_ARGUMENT`; tonic's own codec calls that an internal error, which SDKs try again.
#[derive(Debug, Clone)]
pub struct Strict<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Strict<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for Strict<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = Strict<T, U>;
    type Decoder = Strict<T, U>;

    fn encoder(&mut self) -> Self::Encoder {
        Self::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        Self::default()
    }
}

impl<T: Message, U> Encoder for Strict<T, U> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: Self::Item, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // The buffer grows as it is written to.
        item.encode(buffer).map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, YIELD_BYTES)
    }
}

impl<T, U: Message + Default> Decoder for Strict<T, U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Status> {
        let read = U::decode(buffer);
        read.map(Some)
            .map_err(|error| Status::invalid_argument(format!("the message cannot be read: {error}")))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::new(BUFFER_BYTES, YIELD_BYTES)
    }
}
