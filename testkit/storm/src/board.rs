//! What the workers were heard to do, and for how long each of them was not heard at all.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::voice::{Fact, Line, Point};

/// What the hub says when a commit is refused because the instance has changed hands.
const FENCED: &str = "a turn was fenced";

/// What the hub says when the result of an activity is not wanted any more.
const DROPPED: &str = "the answer of an activity was dropped";

/// What the hub says when a renewal is answered by what others have taken.
const ROBBED: &str = "items were taken over";

/// How the hub ends what it says when a store refuses and may not the next time.
const AGAIN: &str = "trying again";

/// Everything heard, by whom.
#[derive(Default)]
pub(crate) struct Board {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    passed: BTreeMap<Point, u32>,
    /// Who was last heard to run a turn of an instance.
    runner: BTreeMap<String, usize>,
    begun: BTreeMap<Point, u32>,
    /// Activities that a worker has begun and not finished.
    in_hand: BTreeMap<usize, BTreeSet<Point>>,
    logged: BTreeMap<String, u64>,
    /// How often each worker was refused something and tries again.
    again: BTreeMap<usize, u64>,
    /// Of which instances the late work of a worker was refused.
    refused: BTreeMap<(usize, String), Refusal>,
    living: BTreeMap<usize, Living>,
    longest_silence: Duration,
    longest_start: Duration,
    progressed: BTreeSet<usize>,
}

/// How late work was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The commit of its turn was fenced.
    Fenced,
    /// The answer of its activity was dropped.
    Dropped,
}

/// A worker that is expected to be heard.
struct Living {
    heard_at: Instant,
    has_worked: bool,
}

/// The sums.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) turns: u64,
    pub(crate) turns_redone: u64,
    pub(crate) activities: u64,
    pub(crate) activities_redone: u64,
    pub(crate) fenced: u64,
    pub(crate) dropped: u64,
    /// The longest that any living worker said nothing.
    pub(crate) longest_silence: Duration,
    /// The longest from its start to the first thing a worker did; part of the above.
    pub(crate) longest_start: Duration,
    /// How many workers did something.
    pub(crate) progressed: u64,
    pub(crate) logged: BTreeMap<String, u64>,
}

impl Board {
    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere leaves counters, which are still worth reading.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this worker is expected to be heard.
    pub(crate) fn expect(&self, number: usize) {
        let living = Living { heard_at: Instant::now(), has_worked: false };
        self.lock().living.insert(number, living);
    }

    /// It is no longer: it was stopped or killed, or there is nothing left to do.
    pub(crate) fn excuse(&self, number: usize) {
        let mut state = self.lock();
        if let Some(living) = state.living.remove(&number) {
            let silence = living.heard_at.elapsed();
            state.longest_silence = state.longest_silence.max(silence);
        }
    }

    /// Takes in what a worker said.
    pub(crate) fn hear(&self, number: usize, line: Line) {
        let mut state = self.lock();
        match line.fact {
            Fact::Ready => return,
            Fact::Logged(message, instance) => {
                if message.ends_with(AGAIN) {
                    *state.again.entry(number).or_default() += 1;
                }
                let refusal = if message.starts_with(FENCED) {
                    Some(Refusal::Fenced)
                } else {
                    message.starts_with(DROPPED).then_some(Refusal::Dropped)
                };
                if let Some((instance, refusal)) = instance.zip(refusal) {
                    state.refused.insert((number, instance), refusal);
                }
                *state.logged.entry(message).or_default() += 1;
                return;
            }
            Fact::Passed(point) => {
                state.runner.insert(point.instance.clone(), number);
                *state.passed.entry(point).or_default() += 1;
            }
            Fact::Begun(point) => {
                state.in_hand.entry(number).or_default().insert(point.clone());
                *state.begun.entry(point).or_default() += 1;
            }
            Fact::Finished(point) => _ = state.in_hand.entry(number).or_default().remove(&point),
        }
        let Some(living) = state.living.get_mut(&number) else { return };
        let silence = living.heard_at.elapsed();
        living.heard_at = Instant::now();
        living.has_worked = true;
        state.longest_silence = state.longest_silence.max(silence);
        if state.progressed.insert(number) {
            state.longest_start = state.longest_start.max(silence);
        }
    }

    /// Whether every worker that is expected has done something.
    pub(crate) fn all_have_worked(&self) -> bool {
        self.lock().living.values().all(|living| living.has_worked)
    }

    /// The worker that was last heard to run a turn of an instance.
    pub(crate) fn runner(&self, instance: &str) -> Option<usize> {
        self.lock().runner.get(instance).copied()
    }

    /// The worker that has begun an activity of an instance and not finished it.
    pub(crate) fn busy_with(&self, instance: &str) -> Option<usize> {
        let state = self.lock();
        let busy = |points: &BTreeSet<Point>| points.iter().any(|point| point.instance == instance);
        state.in_hand.iter().find(|(_, points)| busy(points)).map(|(number, _)| *number)
    }

    /// Whether and how late work of a worker on an instance was refused.
    pub(crate) fn refusal(&self, number: usize, instance: &str) -> Option<Refusal> {
        self.lock().refused.get(&(number, instance.to_owned())).copied()
    }

    /// How many activities a worker has begun and not finished.
    pub(crate) fn in_hand(&self, number: usize) -> usize {
        self.lock().in_hand.get(&number).map_or(0, BTreeSet::len)
    }

    /// How many commits were fenced so far.
    pub(crate) fn fenced(&self) -> u64 {
        count(&self.lock().logged, FENCED)
    }

    /// How often a worker was refused something and says that it tries again.
    pub(crate) fn again(&self) -> u64 {
        self.lock().again.values().sum()
    }

    /// How often that worker was.
    pub(crate) fn again_by(&self, number: usize) -> u64 {
        self.lock().again.get(&number).copied().unwrap_or_default()
    }

    /// How often a worker was told at a renewal that something was taken from it.
    pub(crate) fn robbed(&self) -> u64 {
        count(&self.lock().logged, ROBBED)
    }

    /// The sums of all that was heard.
    pub(crate) fn sums(&self) -> Sums {
        let state = self.lock();
        let total = |map: &BTreeMap<Point, u32>| map.values().copied().map(u64::from).sum::<u64>();
        let (turns, activities) = (total(&state.passed), total(&state.begun));
        Sums {
            turns,
            turns_redone: turns - state.passed.len() as u64,
            activities,
            activities_redone: activities - state.begun.len() as u64,
            fenced: count(&state.logged, FENCED),
            dropped: count(&state.logged, DROPPED),
            longest_silence: state.longest_silence,
            longest_start: state.longest_start,
            progressed: state.progressed.len() as u64,
            logged: state.logged.clone(),
        }
    }
}

fn count(logged: &BTreeMap<String, u64>, beginning: &str) -> u64 {
    logged.iter().filter(|(message, _)| message.starts_with(beginning)).map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fact: Fact) -> Line {
        Line { nanos: 0, fact }
    }

    #[test]
    fn only_the_same_point_twice_is_work_done_twice() {
        let board = Board::default();
        let point = |step| Point { instance: "i".into(), execution: "e".into(), step };
        for (number, step) in [(0, 0), (0, 1), (1, 1), (1, 2), (2, 1)] {
            board.hear(number, line(Fact::Passed(point(step))));
        }
        board.hear(0, line(Fact::Begun(point(0))));
        board.hear(0, line(Fact::Begun(point(1))));
        board.hear(0, line(Fact::Finished(point(0))));
        assert_eq!((board.in_hand(0), board.in_hand(1)), (1, 0));
        assert_eq!((board.busy_with("i"), board.busy_with("j")), (Some(0), None));
        let sums = board.sums();
        assert_eq!((sums.turns, sums.turns_redone), (5, 2));
        assert_eq!((sums.activities, sums.activities_redone), (2, 0));
    }

    #[test]
    fn silence_counts_only_while_a_worker_is_expected() {
        let board = Board::default();
        let point = Point { instance: "i".into(), execution: "e".into(), step: 0 };
        board.hear(7, line(Fact::Passed(point.clone())));
        assert_eq!(board.sums().progressed, 0, "nobody expected it");
        board.expect(7);
        assert!(!board.all_have_worked());
        assert_eq!(board.refusal(7, "i"), None);
        board.hear(7, line(Fact::Logged("a turn was fenced: by whom".into(), Some("i".into()))));
        assert_eq!((board.refusal(7, "i"), board.refusal(8, "i")), (Some(Refusal::Fenced), None));
        assert!(!board.all_have_worked(), "what it logs is no work");
        board.hear(7, line(Fact::Passed(point)));
        assert!(board.all_have_worked());
        board.excuse(7);
        let sums = board.sums();
        assert_eq!((sums.progressed, sums.fenced), (1, 1));
        assert!(sums.longest_silence > Duration::ZERO);
    }
}
