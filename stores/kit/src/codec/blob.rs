//! Writes protobuf bytes straight from the values. It is for blobs that every turn writes: a protobuf message would copy the
//! values first. The bytes equal those of the message that reads them, field by field in the order of the tags. Stores call it for
//! every field of every turn from their own crates, so that its small functions are inlined.

use dauer_store::Tags;
use prost::encoding::{WireType, encode_key, encode_varint};

/// The first allocation in bytes. Most blobs of a turn fit.
const ROOM: usize = 256;

/// A writer of protobuf fields.
pub struct Blob(Vec<u8>);

impl Blob {
    /// Begins with a format byte.
    #[must_use]
    #[inline]
    pub fn new(format: u8) -> Self {
        let mut bytes = Vec::with_capacity(ROOM);
        bytes.push(format);
        Self(bytes)
    }

    /// Writes an optional number, also zero.
    #[inline]
    pub fn present(&mut self, tag: u32, number: u64) {
        encode_key(tag, WireType::Varint, &mut self.0);
        encode_varint(number, &mut self.0);
    }

    /// Writes a number, unless it is zero. The caller casts a signed one to the same bits.
    #[inline]
    pub fn number(&mut self, tag: u32, number: u64) {
        if number != 0 {
            self.present(tag, number);
        }
    }

    /// Writes repeated or optional bytes, also empty ones.
    #[inline]
    pub fn each(&mut self, tag: u32, bytes: &[u8]) {
        self.begin(tag, bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// Writes bytes or text, unless they are empty.
    #[inline]
    pub fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.each(tag, bytes);
        }
    }

    /// Writes bytes in pieces, which are `length` bytes together.
    pub fn pieces<'p>(&mut self, tag: u32, length: usize, pieces: impl Iterator<Item = &'p [u8]>) {
        if length > 0 {
            self.begin(tag, length);
            pieces.for_each(|piece| self.0.extend_from_slice(piece));
        }
    }

    /// Writes a nested message.
    pub fn message(&mut self, tag: u32, write: impl FnOnce(&mut Self)) {
        encode_key(tag, WireType::LengthDelimited, &mut self.0);
        let begin = self.0.len();
        write(self);
        // Only now the length is known. It belongs before the content.
        let end = self.0.len();
        encode_varint((end - begin) as u64, &mut self.0);
        let prefix = self.0.len() - end;
        self.0[begin..].rotate_right(prefix);
    }

    /// Writes a map of texts.
    pub fn texts(&mut self, tag: u32, texts: &Tags) {
        for (name, text) in texts {
            self.message(tag, |blob| {
                blob.bytes(1, name.as_bytes());
                blob.bytes(2, text.as_bytes());
            });
        }
    }

    /// Writes packed numbers, unless there are none.
    pub fn numbers(&mut self, tag: u32, numbers: impl ExactSizeIterator<Item = u64>) {
        if numbers.len() > 0 {
            self.message(tag, |blob| numbers.for_each(|number| encode_varint(number, &mut blob.0)));
        }
    }

    #[inline]
    fn begin(&mut self, tag: u32, length: usize) {
        encode_key(tag, WireType::LengthDelimited, &mut self.0);
        encode_varint(length as u64, &mut self.0);
    }

    /// Returns the bytes.
    #[must_use]
    #[inline]
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}
