//! How one input becomes the next.

use crate::random::Random;
use crate::tree::Tree;

/// Inputs never grow beyond this: longer ones find nothing that shorter ones do not, only slower.
pub const INPUT_BYTES_MAX: usize = 16 * 1024;

/// At most so many changes from one input to the next: with more, nothing of what made it valid is left.
const CHANGES_MAX: usize = 4;

/// Numbers at the edges of what code is written for.
const EDGES: [u64; 16] = [
    0,
    1,
    2,
    99,
    100,
    127,
    128,
    255,
    256,
    u16::MAX as u64,
    i32::MAX as u64,
    // A 32-bit -1 and the smallest 32-bit number, as protobuf writes them.
    u64::MAX,
    (i32::MIN as i64).cast_unsigned(),
    u32::MAX as u64,
    i64::MAX as u64,
    i64::MIN.cast_unsigned(),
];

/// Texts at the edges of what names, URLs and payloads are.
const WORDS: [&str; 12] =
    ["", "@", "@counter@7", "sqlite:", "memory:", "\0", "\n", "é", "\u{1f980}", "\u{fffd}", "..", "\u{85}"];

/// The next input from one of the corpus and a second to take parts of.
#[must_use]
pub fn next(from: &[u8], donor: &[u8], random: &mut Random) -> Vec<u8> {
    let mut input = from.to_vec();
    // Along the fields or across them: each finds what the other does not.
    if random.below(4) > 0 {
        let (mut tree, donor) = (Tree::read(&input), Tree::read(donor));
        for _ in 0..=random.below(CHANGES_MAX) {
            tree.mutate(random, &donor);
        }
        input = tree.write();
    } else {
        for _ in 0..=random.below(CHANGES_MAX) {
            change_bytes(&mut input, random, donor);
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

/// A number near an edge, or near what it was.
pub(crate) fn change_number(number: u64, random: &mut Random) -> u64 {
    let edge = EDGES[random.below(EDGES.len())];
    match random.below(6) {
        0 => number.wrapping_add(1),
        1 => number.wrapping_sub(1),
        2 => number ^ (1 << random.below(64)),
        3 => edge.wrapping_add(1),
        4 => edge.wrapping_sub(1),
        _ => edge,
    }
}

/// One change of bytes: flip, set, insert, delete, repeat, splice, an integer, a word, a cut.
pub(crate) fn change_bytes(bytes: &mut Vec<u8>, random: &mut Random, donor: &[u8]) {
    let at = random.below(bytes.len());
    match random.below(10) {
        0 if !bytes.is_empty() => bytes[at] ^= 1 << random.below(8),
        1 if !bytes.is_empty() => bytes[at] = random.byte(),
        2 if !bytes.is_empty() => {
            let end = at + random.below(8.min(bytes.len() - at)) + 1;
            drop(bytes.drain(at..end.min(bytes.len())));
        }
        3 if !bytes.is_empty() => {
            let count = random.below(128);
            let byte = bytes[at];
            bytes.splice(at..at, std::iter::repeat_n(byte, count));
        }
        4 => bytes.truncate(at),
        5 if !donor.is_empty() => {
            let from = random.below(donor.len());
            let to = (from + random.below(32) + 1).min(donor.len());
            bytes.splice(at..at, donor[from..to].iter().copied());
        }
        6 => {
            let edge = EDGES[random.below(EDGES.len())].to_le_bytes();
            let width = [1, 2, 4, 8][random.below(4)];
            let end = (at + width).min(bytes.len());
            bytes.splice(at..end, edge[..width].iter().copied());
        }
        7 => {
            let mut edge = Vec::new();
            prost::encoding::encode_varint(EDGES[random.below(EDGES.len())], &mut edge);
            bytes.splice(at..at, edge);
        }
        8 => drop(bytes.splice(at..at, WORDS[random.below(WORDS.len())].bytes())),
        _ => bytes.insert(at, random.byte()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_another_seed_others() {
        let inputs = |seed| {
            let mut random = Random::new(seed);
            (0..50).map(|_| next(b"sqlite:orders.db", b"memory:", &mut random)).collect::<Vec<_>>()
        };
        assert_eq!(inputs(1), inputs(1));
        assert_ne!(inputs(1), inputs(2));
    }

    #[test]
    fn every_kind_of_change_happens_to_bytes() {
        let mut random = Random::new(7);
        let from = b"0123456789".to_vec();
        let (mut shorter, mut longer, mut same) = (0, 0, 0);
        for _ in 0..1_000 {
            let mut changed = from.clone();
            change_bytes(&mut changed, &mut random, b"donor");
            match changed.len().cmp(&from.len()) {
                std::cmp::Ordering::Less => shorter += 1,
                std::cmp::Ordering::Greater => longer += 1,
                std::cmp::Ordering::Equal => same += 1,
            }
        }
        assert!(shorter > 100 && longer > 100 && same > 50, "{shorter} {longer} {same}");
    }
}
