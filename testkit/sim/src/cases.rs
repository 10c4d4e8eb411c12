//! The instances that clients care about, and what they do with them.

use std::time::Duration;

use dauer_store::InstanceId;

use crate::program::{DEPTH, Program, Step};
use crate::random::Random;

/// The fewest and the most instances that clients start.
const CASES: (u64, u64) = (2, 6);

/// The furthest ahead that a start is scheduled.
const SCHEDULED_MAX: Duration = Duration::from_secs(15);

/// One instance that clients care about.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) id: InstanceId,
    pub(crate) program: Program,
    /// It runs the code that old hosts do not have.
    pub(crate) modern: bool,
    /// Somebody asks for its end, whether or not it comes in time.
    pub(crate) terminated: bool,
    /// Somebody suspends it for a while.
    pub(crate) suspended: bool,
    /// It is removed when it has ended.
    pub(crate) purged: bool,
    /// Two clients start it, and only one of them may succeed.
    pub(crate) contended: bool,
    /// It is started as users do, by a client that gives up after some attempts.
    pub(crate) by_user: bool,
    /// It is not to begin before that.
    pub(crate) scheduled: Option<Duration>,
    /// It is rewound when it has failed, and fails again.
    pub(crate) rewound: bool,
    /// It is begun again, under the same id, when it has ended.
    pub(crate) again: Option<Again>,
}

/// How an instance is begun again that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// As it was, by the client's restart.
    Restart,
    /// By another start, which may name another version of the code.
    Start {
        /// The version that old hosts do not have.
        modern: bool,
    },
}

impl Case {
    /// The cases of a seed.
    pub(crate) fn draw(seed: u64) -> Vec<Self> {
        let (mut random, mut later) = (Random::stream(seed, 20), Random::stream(seed, 21));
        let count = random.between(CASES.0, CASES.1);
        let case = |number| {
            let id = InstanceId::new(format!("i{number}")).ok()?;
            let program = Program::draw(&mut random, DEPTH);
            let terminated = random.chance(1_500);
            let program = if terminated { program.endless() } else { program };
            let again = Again::draw(&mut later).filter(|_| !terminated);
            Some(Self {
                id,
                program,
                terminated,
                modern: random.chance(2_500),
                suspended: random.chance(4_000),
                purged: random.chance(2_000),
                contended: random.chance(2_000),
                by_user: random.chance(3_000),
                scheduled: random.chance(1_000).then(|| random.duration(SCHEDULED_MAX)),
                rewound: random.chance(5_000),
                again,
            })
        };
        (0..count).filter_map(case).collect()
    }

    /// Whether its last run is of the version that old hosts do not have.
    pub(crate) fn ends_modern(&self) -> bool {
        match self.again {
            Some(Again::Start { modern }) => modern,
            Some(Again::Restart) | None => self.modern,
        }
    }

    /// Without some of its steps; at least one is left.
    pub(crate) fn without(mut self, dropped: &[usize]) -> Self {
        let steps = std::mem::take(&mut self.program.steps);
        let left =
            steps.iter().enumerate().filter(|(at, _)| !dropped.contains(at)).map(|(_, step)| step.clone());
        self.program.steps = left.collect();
        if self.program.steps.is_empty() {
            self.program.steps = steps.into_iter().take(1).collect();
        }
        // What has to be terminated must not end before.
        if self.terminated && self.program.steps.last() != Some(&Step::Forever) {
            self.program.steps.push(Step::Forever);
        }
        self
    }
}

impl Again {
    fn draw(random: &mut Random) -> Option<Self> {
        let (happens, restart, modern) = (random.chance(5_000), random.chance(5_000), random.chance(5_000));
        happens.then_some(if restart { Self::Restart } else { Self::Start { modern } })
    }
}
