//! Opaque bytes: encoded events, batches of history, payloads. Every stored blob starts with a format byte.
//!
//! Raw event bytes are kept as they came and never encoded again, so that a field added by a newer process survives
//! an older one. None of these types prints its content: payloads do not belong into logs.

use std::fmt;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use dauer_proto::HistoryEvent;

use crate::ids::{Epoch, HostId, MessageId, Revision, Timestamp};
use crate::model::DropReason;

/// The format byte that every blob starts with. A blob with another one was written by a newer dauer.
pub const FORMAT: u8 = 1;

/// A blob that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlobError {
    /// The blob has no byte at all.
    #[error("the blob is empty; it should start with a format byte")]
    Empty,
    /// The blob was written in another format.
    #[error("the blob has format {0}, this dauer reads {FORMAT}; use a newer dauer")]
    Format(u8),
    /// The bytes are no events.
    #[error("the blob does not hold the events it should: {0}")]
    Content(String),
}

/// One encoded protobuf message behind its format byte. Stores never look inside.
#[derive(Clone, PartialEq, Eq)]
pub struct Encoded(Bytes);

impl Encoded {
    /// Encodes a message once.
    #[must_use]
    pub fn new(message: &impl prost::Message) -> Self {
        let mut bytes = Vec::with_capacity(1 + message.encoded_len());
        bytes.push(FORMAT);
        message.encode_raw(&mut bytes);
        Self(bytes.into())
    }

    /// Puts a message that is encoded already behind its format byte.
    #[must_use]
    pub fn of_content(content: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(1 + content.len());
        bytes.push(FORMAT);
        bytes.extend_from_slice(content);
        Self(bytes.into())
    }

    /// Takes bytes that a store kept.
    #[must_use]
    pub fn from_stored(bytes: Bytes) -> Self {
        Self(bytes)
    }

    /// The bytes to store, format byte included.
    #[must_use]
    pub fn stored(&self) -> &Bytes {
        &self.0
    }

    /// The message's own bytes.
    ///
    /// # Errors
    /// [`BlobError`] when the format byte is missing or not ours.
    pub fn content(&self) -> Result<&[u8], BlobError> {
        match self.0.split_first() {
            None => Err(BlobError::Empty),
            Some((&FORMAT, content)) => Ok(content),
            Some((&format, _)) => Err(BlobError::Format(format)),
        }
    }

    /// Decodes and checks a history event.
    ///
    /// # Errors
    /// [`BlobError`] when the bytes are no history event that makes sense.
    pub fn event(&self) -> Result<HistoryEvent, BlobError> {
        dauer_proto::decode::decode_event(self.content()?).map_err(|e| BlobError::Content(e.to_string()))
    }

    /// Decodes any other message.
    ///
    /// # Errors
    /// [`BlobError`] when the bytes are not of that type.
    pub fn decode<M: prost::Message + Default>(&self) -> Result<M, BlobError> {
        M::decode(self.content()?).map_err(|e| BlobError::Content(e.to_string()))
    }

    /// How many bytes it takes to store.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is nothing, not even a format byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Encoded({} bytes)", self.0.len())
    }
}

/// Text that belongs to the user: input, output, custom status, entity state. Never parsed, never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Payload(Arc<str>);

impl Payload {
    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl<T: Into<Arc<str>>> From<T> for Payload {
    fn from(text: T) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Payload({} bytes)", self.0.len())
    }
}

/// What became of a message that a turn consumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is this event of the batch, counted from 0.
    Event(u32),
    /// It had no effect, for this reason.
    Dropped(DropReason),
}

/// The events that one turn adds to a history, with what an auditor needs to follow them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// How many events.
    pub count: u32,
    /// The format byte, then each event preceded by its length as a protobuf varint.
    pub events: Encoded,
    /// Each consumed message, and what became of it.
    pub consumed: Vec<(MessageId, Fate)>,
    /// The identities of the tasks, timers and messages the turn produced.
    pub produced: Vec<MessageId>,
}

impl Batch {
    /// Joins encoded events into a batch.
    ///
    /// # Errors
    /// [`BlobError`] when one of them has a foreign format byte.
    pub fn join(
        events: &[Encoded],
        consumed: Vec<(MessageId, Fate)>,
        produced: Vec<MessageId>,
    ) -> Result<Self, BlobError> {
        let size: usize = events.iter().map(|e| e.len() + 4).sum();
        let mut bytes = BytesMut::with_capacity(1 + size);
        bytes.put_u8(FORMAT);
        for event in events {
            let content = event.content()?;
            prost::encoding::encode_varint(content.len() as u64, &mut bytes);
            bytes.put_slice(content);
        }
        let count = u32::try_from(events.len()).unwrap_or(u32::MAX);
        Ok(Self { count, events: Encoded(bytes.freeze()), consumed, produced })
    }

    /// The bytes of each event, in order, as [`Encoded::content`] has them. Nothing follows what makes no sense.
    pub fn contents(&self) -> impl Iterator<Item = Result<&[u8], BlobError>> {
        let (mut rest, mut broken) = match self.events.content() {
            Ok(content) => (content, None),
            Err(error) => (&[][..], Some(error)),
        };
        std::iter::from_fn(move || match broken.take() {
            Some(error) => Some(Err(error)),
            None if rest.is_empty() => None,
            None => Some(cut(&mut rest).inspect_err(|_| rest = &[])),
        })
    }

    /// Takes the events apart again.
    ///
    /// # Errors
    /// [`BlobError`] when the bytes are not `count` events that make sense.
    pub fn decode(&self) -> Result<Vec<HistoryEvent>, BlobError> {
        // The count is checked below; until then it must not be able to ask for all the memory there is.
        let mut events = Vec::with_capacity((self.count as usize).min(self.events.len() / 4));
        for content in self.contents() {
            let event = dauer_proto::decode::decode_event(content?);
            events.push(event.map_err(|e| BlobError::Content(e.to_string()))?);
        }
        if events.len() != self.count as usize {
            let found = events.len();
            return Err(BlobError::Content(format!("{found} events where {} were stored", self.count)));
        }
        Ok(events)
    }
}

/// The first event of several, each preceded by its length; what follows it is left.
fn cut<'b>(rest: &mut &'b [u8]) -> Result<&'b [u8], BlobError> {
    let length = prost::encoding::decode_varint(rest).map_err(|e| BlobError::Content(e.to_string()))?;
    let content = usize::try_from(length).ok().and_then(|length| rest.split_at_checked(length));
    let (event, behind) = content.ok_or_else(|| BlobError::Content("an event is cut off".into()))?;
    *rest = behind;
    Ok(event)
}

/// A batch as it lies in a store, with the commit it belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredBatch {
    /// The index of its first event in the history.
    pub first: u32,
    /// The instance's revision after that commit.
    pub revision: Revision,
    /// Under which epoch it was committed.
    pub epoch: Epoch,
    /// By whom.
    pub owner: HostId,
    /// When, by the store's clock.
    pub at: Timestamp,
    /// What was committed.
    pub batch: Batch,
}
