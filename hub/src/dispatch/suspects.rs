//! Turns that have failed often. They run one at a time, so that the next crash blames the right one.
//!
//! Invariant: at most one of them runs.

use std::collections::VecDeque;

use super::hold::Begin;

#[derive(Default)]
pub(super) struct Suspects {
    waiting: VecDeque<Begin>,
    runs: bool,
}

impl Suspects {
    pub(super) fn add(&mut self, begin: Begin) {
        self.waiting.push_back(begin);
    }

    /// The next one, if none runs. The caller begins it ([`Self::begins`]) unless its hold is over.
    pub(super) fn next(&mut self) -> Option<Begin> {
        if self.runs { None } else { self.waiting.pop_front() }
    }

    pub(super) fn begins(&mut self) {
        self.runs = true;
    }

    pub(super) fn ended(&mut self) {
        self.runs = false;
    }
}
