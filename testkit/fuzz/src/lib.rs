//! Fuzzing of what dauer reads and did not write itself, or wrote years ago: stored histories, protocol messages, URLs
//! and ids.
//!
//! - [`targets`]: one function for each kind of input. It takes any bytes, never panics unless a claim is broken, and
//!   says whether the bytes were accepted;
//! - [`corpus`]: valid inputs, made by dauer's own code, and every input that once broke a claim;
//! - [`mutate`]: how one input becomes the next, byte by byte or along the fields of a message;
//! - [`drive`]: the loop. The same target, seed and number of iterations give the same inputs on every machine.
//!
//! The functions are plain `fn(&[u8]) -> Verdict`, so that a coverage-guided fuzzer can call them as they are.

pub mod corpus;
pub mod drive;
mod life;
pub mod mutate;
pub mod random;
pub mod targets;
mod tree;

/// What a target says of an input that broke no claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Verdict {
    /// Whether it was taken for what it should be, or refused with a typed error.
    pub accepted: bool,
    /// How far it came: what was accepted, or what refused it.
    pub what: &'static str,
}

impl Verdict {
    pub(crate) fn accepted(what: &'static str) -> Self {
        Self { accepted: true, what }
    }

    pub(crate) fn refused(what: &'static str) -> Self {
        Self { accepted: false, what }
    }
}

/// Bytes as hexadecimal digits.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes of hexadecimal digits, or `None` when they are none.
#[must_use]
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .trim()
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
