//! What a seed of this scenario has: servers, workers, instances, and the faults between them.

use std::collections::BTreeMap;
use std::time::Duration;

use dauer_hub::HostOptions;
use dauer_remote::Options;

use super::code::{Job, Program};
use crate::random::Random;

/// How long an item stays with a worker whose stream is gone.
pub(super) const RECONNECT_GRACE: Duration = Duration::from_secs(8);

/// How long a task rests that another server had handed out.
pub(super) const RESTART_GRACE: Duration = Duration::from_secs(30);

/// How long nothing else begins on a worker before a trial, and during it.
pub(super) const TRIAL_QUIET: Duration = Duration::from_secs(1);

/// Deaths during trials after which an item is poison.
pub(super) const TRIAL_DEATHS_MAX: u32 = 7;

/// Poison kills its worker within this time of its begin: well within the quiet of a trial.
const POISON_WITHIN_MS: u64 = 400;

/// How many of ten thousand seeds have a fault.
const HAVE: u32 = 4_500;

/// How a worker names itself and what it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Species {
    /// Of dauer's SDK: it names itself, says what it executes when it comes again, and keeps answers until they are taken.
    Own,
    /// Names itself and its tokens.
    Named,
    /// Names its tokens only, like Python's SDK.
    Tokens,
    /// Names neither, like Go's SDK.
    Bare,
}

/// What can go wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fault {
    ServerKilled,
    ServerStopped,
    ServerPaused,
    ServerProven,
    WorkerKilled,
    WorkerPaused,
    StreamCut,
    RequestLost,
    AnswerLost,
    CallDropped,
    CallLate,
    Abandons,
    TurnLate,
    StoreRefuses,
    StoreLosesRequest,
    StoreLosesAnswer,
    StoreLate,
    StoreTwice,
    CrashBefore,
    CrashAfter,
}

impl Fault {
    pub(super) const ALL: [Self; 20] = [
        Self::ServerKilled,
        Self::ServerStopped,
        Self::ServerPaused,
        Self::ServerProven,
        Self::WorkerKilled,
        Self::WorkerPaused,
        Self::StreamCut,
        Self::RequestLost,
        Self::AnswerLost,
        Self::CallDropped,
        Self::CallLate,
        Self::Abandons,
        Self::TurnLate,
        Self::StoreRefuses,
        Self::StoreLosesRequest,
        Self::StoreLosesAnswer,
        Self::StoreLate,
        Self::StoreTwice,
        Self::CrashBefore,
        Self::CrashAfter,
    ];

    /// Those that happen from time to time, whatever else does.
    pub(super) fn is_deed(self) -> bool {
        matches!(
            self,
            Self::ServerKilled
                | Self::ServerStopped
                | Self::ServerPaused
                | Self::WorkerKilled
                | Self::WorkerPaused
                | Self::StreamCut
        )
    }

    /// How often it happens, in ten thousand, where a seed has it.
    fn rates(self) -> &'static [u32] {
        match self {
            Self::ServerProven => &[5_000],
            Self::CrashBefore | Self::CrashAfter => &[20, 100],
            Self::StoreRefuses | Self::StoreLosesRequest | Self::StoreLosesAnswer => &[200, 1_000],
            _ => &[300, 1_500],
        }
    }
}

/// One instance, in one or more lives under the same id.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) id: String,
    pub(super) lives: Vec<Life>,
}

/// One life of an instance.
#[derive(Debug, Clone)]
pub(super) struct Life {
    pub(super) program: Program,
    /// It is terminated that long after its start.
    pub(super) terminated: Option<Duration>,
}

/// All that a seed decides before it runs.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) servers: usize,
    pub(super) workers: Vec<(Species, [usize; 2])>,
    pub(super) host: HostOptions,
    pub(super) remote: Options,
    pub(super) rates: BTreeMap<Fault, u32>,
    pub(super) chaos: Duration,
    pub(super) deed_pause: Duration,
    /// The longest that a dead process is missed.
    pub(super) absence: Duration,
    /// Workers killed by chance and streams cut, at most. Fewer than [`TRIAL_DEATHS_MAX`], so that chance alone makes no poison.
    pub(super) kills_max: u32,
    pub(super) cuts_max: u32,
    pub(super) cases: Vec<Case>,
}

impl Settings {
    pub(super) fn draw(seed: u64) -> Self {
        let mut random = Random::stream(seed, 300);
        let random = &mut random;
        let workers = draw_workers(random);
        let with = |species| workers.iter().any(|(other, _)| *other == species);
        let all_own = workers.iter().all(|(species, _)| *species == Species::Own);
        let mut rates = BTreeMap::new();
        for fault in Fault::ALL {
            if random.chance(HAVE) {
                rates.insert(fault, random.pick(fault.rates()));
            }
        }
        // A worker without tokens that hangs is not expected to answer.
        let hangs = if with(Species::Bare) { 300 } else { random.pick(&[2, 300]) };
        let remote = Options {
            turn_answer_max: Duration::from_secs(hangs),
            reconnect_grace: RECONNECT_GRACE,
            restart_grace: RESTART_GRACE,
            received_after: Duration::from_secs(60),
            trial_quiet: TRIAL_QUIET,
            suspect_for: Duration::from_secs(5),
            suspect_delay: Duration::from_millis(300),
            turn_return_after: Duration::from_secs(random.pick(&[0, 1])),
            abandon_delay: Duration::from_millis(500),
            history_streamed_from: usize::MAX,
            ..Options::default()
        };
        let host = HostOptions {
            lease: Duration::from_secs(random.pick(&[2, 5])),
            poll_max: Duration::from_secs(1),
            retry_delay_max: Duration::from_secs(2),
            stalled_delay_max: Duration::from_secs(5),
            // The end of a session that detaches is no death: a turn that a worker without tokens still has would be handed out
            // again at once, and its late answer taken for that to the new turn.
            drain_max: Duration::from_secs(if with(Species::Bare) { 20 } else { random.pick(&[0, 3, 10]) }),
            restart_grace: RESTART_GRACE,
            trial_deaths_max: TRIAL_DEATHS_MAX,
            // Only deaths during trials are judged here.
            task_attempts_max: u32::MAX,
            ..HostOptions::default()
        };
        let few = !all_own;
        Self {
            servers: random.pick(&[1, 2, 2]),
            host,
            remote,
            rates,
            chaos: Duration::from_secs(random.between(10, 60)),
            deed_pause: Duration::from_millis(random.pick(&[300, 1_500, 6_000])),
            absence: Duration::from_millis(random.pick(&[100, 1_000, 5_000])),
            kills_max: if few { 3 } else { TRIAL_DEATHS_MAX - 1 },
            cuts_max: if few { 3 } else { 40 },
            cases: draw_cases(random),
            workers,
        }
    }

    /// How many deaths a worker's share of items halves in.
    pub(super) fn halvings(&self) -> u32 {
        let slots = self.workers.iter().map(|(_, [turns, activities])| turns + activities).max();
        slots.unwrap_or_default().checked_ilog2().unwrap_or_default() + 1
    }
}

fn draw_workers(random: &mut Random) -> Vec<(Species, [usize; 2])> {
    let all = [Species::Own, Species::Named, Species::Tokens, Species::Bare];
    let only = match random.below(10) {
        0..=3 => Some(Species::Own),
        4 => Some(Species::Named),
        5 => Some(Species::Tokens),
        6 | 7 => Some(Species::Bare),
        _ => None,
    };
    let count = random.pick(&[1, 2, 3]);
    let draw = |random: &mut Random| {
        let species = only.unwrap_or_else(|| random.pick(&all));
        (species, [random.pick(&[1, 4, 16]), random.pick(&[1, 4, 16])])
    };
    (0..count).map(|_| draw(random)).collect()
}

fn draw_cases(random: &mut Random) -> Vec<Case> {
    let healthy = random.between(2, 4);
    let mut cases: Vec<Case> = (0..healthy)
        .map(|number| {
            let lives = if random.chance(3_000) { 2 } else { 1 };
            let life = |random: &mut Random| Life {
                program: draw_program(random),
                terminated: random.chance(2_000).then(|| random.duration(Duration::from_secs(15))),
            };
            Case { id: format!("healthy-{number}"), lives: (0..lives).map(|_| life(random)).collect() }
        })
        .collect();
    for number in 0..random.pick(&[0, 0, 1, 2]) {
        let mut program = draw_program(random);
        program.rounds = 1;
        let stage = random.index(program.stages.len());
        let kills = Some(random.below(POISON_WITHIN_MS));
        program.stages[stage].push(Job { ms: 0, kills });
        cases.push(Case { id: format!("killer-{number}"), lives: vec![Life { program, terminated: None }] });
    }
    for number in 0..random.pick(&[0, 0, 0, 1]) {
        let mut program = draw_program(random);
        program.kills = Some((random.below(POISON_WITHIN_MS), random.chance(5_000)));
        cases.push(Case { id: format!("poison-{number}"), lives: vec![Life { program, terminated: None }] });
    }
    cases
}

fn draw_program(random: &mut Random) -> Program {
    let job = |random: &mut Random| {
        let ms = match random.below(10) {
            0 => random.between(10_000, 40_000),
            1..=4 => random.between(500, 8_000),
            _ => random.pick(&[0, 20, 200]),
        };
        Job { ms, kills: None }
    };
    let stage = |random: &mut Random| (0..random.between(1, 3)).map(|_| job(random)).collect();
    let stages = (0..random.between(1, 3)).map(|_| stage(random)).collect();
    Program { rounds: u32::from(random.chance(2_500)) + 1, stages, kills: None }
}
