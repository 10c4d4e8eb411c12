//! Writing a blob straight from the values: for what every turn writes, where a protobuf message of its own would copy all of
//! them first. The bytes are those that the message in the same file is read from, field by field in the order of the tags.

use dauer_store::Tags;
use prost::encoding::{WireType, encode_key, encode_varint};

/// Bytes that most blobs of a turn fit into.
const ROOM: usize = 256;

/// A blob that grows.
pub(super) struct Blob(Vec<u8>);

impl Blob {
    /// Nothing but a format byte.
    pub(super) fn new(format: u8) -> Self {
        let mut bytes = Vec::with_capacity(ROOM);
        bytes.push(format);
        Self(bytes)
    }

    /// A number that may be absent: written even if it is zero.
    pub(super) fn present(&mut self, tag: u32, number: u64) {
        encode_key(tag, WireType::Varint, &mut self.0);
        encode_varint(number, &mut self.0);
    }

    /// A number; zero is not written. A signed one is written as the same bits.
    pub(super) fn number(&mut self, tag: u32, number: u64) {
        if number != 0 {
            self.present(tag, number);
        }
    }

    /// One of several, or one that may be absent: written even if it is empty.
    pub(super) fn each(&mut self, tag: u32, bytes: &[u8]) {
        self.begin(tag, bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// Bytes or text; nothing is not written.
    pub(super) fn bytes(&mut self, tag: u32, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.each(tag, bytes);
        }
    }

    /// Bytes that are written piece by piece, and are that many together.
    pub(super) fn pieces<'p>(&mut self, tag: u32, length: usize, pieces: impl Iterator<Item = &'p [u8]>) {
        if length > 0 {
            self.begin(tag, length);
            pieces.for_each(|piece| self.0.extend_from_slice(piece));
        }
    }

    /// A message in it.
    pub(super) fn message(&mut self, tag: u32, write: impl FnOnce(&mut Self)) {
        encode_key(tag, WireType::LengthDelimited, &mut self.0);
        let begin = self.0.len();
        write(self);
        // Its length is known now, and stands before it.
        let end = self.0.len();
        encode_varint((end - begin) as u64, &mut self.0);
        let prefix = self.0.len() - end;
        self.0[begin..].rotate_right(prefix);
    }

    /// Texts by their names.
    pub(super) fn texts(&mut self, tag: u32, texts: &Tags) {
        for (name, text) in texts {
            self.message(tag, |blob| {
                blob.bytes(1, name.as_bytes());
                blob.bytes(2, text.as_bytes());
            });
        }
    }

    /// Numbers, packed; none are not written.
    pub(super) fn numbers(&mut self, tag: u32, numbers: impl ExactSizeIterator<Item = u64>) {
        if numbers.len() > 0 {
            self.message(tag, |blob| numbers.for_each(|number| encode_varint(number, &mut blob.0)));
        }
    }

    fn begin(&mut self, tag: u32, length: usize) {
        encode_key(tag, WireType::LengthDelimited, &mut self.0);
        encode_varint(length as u64, &mut self.0);
    }

    pub(super) fn finish(self) -> Vec<u8> {
        self.0
    }
}
