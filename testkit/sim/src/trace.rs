//! What happened, in order: always as one hash, on request also as lines. Nothing that differs between two processes
//! goes in: no address, no thread, no order of a hash map.

use std::sync::Mutex;

use dauer_store::Timestamp;

use crate::unpoisoned;

/// The most lines that are kept: the end of a run that spins is of no interest.
const LINES_MAX: usize = 200_000;

/// Collects what happened in one run.
pub struct Trace {
    state: Mutex<State>,
    wanted: bool,
}

struct State {
    hash: u64,
    lines: Vec<String>,
}

/// A 64-bit FNV-1a hash of some bytes: small, ours, and the same everywhere.
#[must_use]
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

impl Trace {
    /// An empty trace, with lines when they are wanted.
    #[must_use]
    pub fn new(wanted: bool) -> Self {
        Self { state: Mutex::new(State { hash: hash(&[]), lines: Vec::new() }), wanted }
    }

    /// Notes that something happened. The numbers go into the hash, the text only into the lines: it is not even
    /// made when nobody wants it.
    pub fn note(&self, now: Timestamp, numbers: &[u64], text: impl FnOnce() -> String) {
        let mut state = unpoisoned(&self.state);
        for number in [now.0.cast_unsigned()].iter().chain(numbers) {
            state.hash = (state.hash.rotate_left(5) ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        if self.wanted && state.lines.len() < LINES_MAX {
            let line = format!("{:>9} ms  {}", now.0 - crate::executor::BEGINNING.0, text());
            state.lines.push(line);
        }
    }

    /// The hash of all that was noted.
    #[must_use]
    pub fn hash(&self) -> u64 {
        unpoisoned(&self.state).hash
    }

    /// The lines; empty when they were not wanted.
    #[must_use]
    pub fn take_lines(&self) -> Vec<String> {
        std::mem::take(&mut unpoisoned(&self.state).lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_depends_on_order_and_time() {
        let hash = |notes: &[(i64, u64)]| {
            let trace = Trace::new(false);
            for (at, number) in notes {
                trace.note(Timestamp(*at), &[*number], || unreachable!("no line is wanted"));
            }
            trace.hash()
        };
        assert_eq!(hash(&[(1, 2), (3, 4)]), hash(&[(1, 2), (3, 4)]));
        assert_ne!(hash(&[(1, 2), (3, 4)]), hash(&[(3, 4), (1, 2)]));
        assert_ne!(hash(&[(1, 2)]), hash(&[(2, 2)]));
    }
}
