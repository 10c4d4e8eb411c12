//! Drawing programs.

use super::{EVENT_NAMES, Flaky, Program, Rival, Step};
use crate::random::Random;

/// How deep children go below the instance that a client starts.
pub(crate) const DEPTH: u32 = 3;

/// What a program at some depth may do.
struct Draw<'a> {
    random: &'a mut Random,
    /// Levels of children that are allowed below.
    depth: u32,
    looping: bool,
    /// How many of the events have a use.
    events: usize,
}

impl Program {
    /// A random program; `depth` levels of children are allowed.
    pub fn draw(random: &mut Random, depth: u32) -> Self {
        let rounds = if random.chance(2_000) { u32::try_from(random.between(2, 4)).unwrap_or(2) } else { 1 };
        // What loops or lies deep is shorter: the whole family counts.
        let most = match (depth, rounds) {
            (DEPTH, 1) => 7,
            (DEPTH, _) => 4,
            _ => 3,
        };
        let least = if depth == DEPTH { 2 } else { 1 };
        let count = random.between(least, most);
        let mut draw = Draw { random, depth, looping: rounds > 1, events: 0 };
        let mut steps: Vec<Step> = (0..count).map(|_| draw.step()).collect();
        if rounds == 1 && random.chance(800) {
            steps.push(Step::Fail(u32::try_from(random.below(100)).unwrap_or_default()));
        }
        Self { rounds, tells: None, steps }
    }

    /// The same as a program that never ends by itself, with a child that does not either: for a termination to end
    /// both.
    pub(crate) fn endless(mut self) -> Self {
        self.rounds = 1;
        if let Some(Step::Fail(_)) = self.steps.last() {
            self.steps.pop();
        }
        self.steps.insert(0, Step::Detach(Self::once(vec![Step::Forever])));
        self.steps.push(Step::Forever);
        self
    }
}

impl Draw<'_> {
    fn event(&mut self) -> Option<usize> {
        let event = self.events;
        self.events += 1;
        (event < EVENT_NAMES.len()).then_some(event)
    }

    fn value(&mut self) -> i64 {
        let value = i64::try_from(self.random.below(1_000)).unwrap_or_default();
        if self.random.chance(1_500) { -1 - value } else { value }
    }

    fn values(&mut self, count: u64) -> Vec<i64> {
        (0..count).map(|_| self.value()).collect()
    }

    fn flaky(&mut self) -> Flaky {
        let value = i64::try_from(self.random.below(1_000)).unwrap_or_default();
        Flaky { value, failures: self.random.pick(&[0, 1, 1, 2, 2, 3]) }
    }

    fn child(&mut self) -> Program {
        Program::draw(self.random, self.depth - 1)
    }

    fn step(&mut self) -> Step {
        // The last ones have children.
        match self.random.below(if self.depth == 0 { 12 } else { 17 }) {
            0 | 1 => Step::Call(self.value()),
            2 => {
                let count = if self.random.chance(300) { 40 } else { self.random.between(2, 6) };
                Step::FanOut(self.values(count))
            }
            3 => Step::Race(self.random.between(0, 3_000), Rival::Activity(self.value())),
            // In a loop the event that lost would win the next round's race, and the order would be anybody's guess.
            4 if !self.looping => match self.event() {
                Some(event) => Step::Race(self.random.between(0, 10_000), Rival::Event(event)),
                None => Step::Call(self.value()),
            },
            5 => {
                let count = if self.random.chance(3_000) { self.random.between(2, 4) } else { 1 };
                Step::Sleep((0..count).map(|_| self.random.pick(&[0, 1, 100, 1_500, 15_000])).collect())
            }
            6 => self.event().map_or(Step::Status(7), Step::Wait),
            7 => {
                let count = u32::try_from(self.random.between(2, 5)).unwrap_or(2);
                self.event().map_or(Step::Status(8), |event| Step::Collect(event, count))
            }
            8 => Step::Status(u32::try_from(self.random.below(1_000)).unwrap_or_default()),
            9 | 10 => Step::Retry(self.flaky()),
            11 => Step::Reuse { calls: self.calls(), hunts: self.random.chance(2_500) },
            12 | 13 => {
                let count = if self.random.chance(3_000) { self.random.between(2, 3) } else { 1 };
                Step::Children((0..count).map(|_| self.child()).collect())
            }
            14 => Step::Detach(self.child()),
            15 => match self.event() {
                Some(event) => Step::Ask(event, Program { tells: Some(event), ..self.child() }),
                None => Step::Detach(self.child()),
            },
            _ => Step::Call(self.value()),
        }
    }

    fn calls(&mut self) -> Vec<Flaky> {
        let count = self.random.between(1, 3);
        (0..count).map(|_| self.flaky()).collect()
    }
}
