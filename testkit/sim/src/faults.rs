//! Which faults a seed has, how often, and the plan between hosts, clients and the store that is made of them.
//!
//! Each seed draws a random subset of all faults with random rates (a swarm): a run with everything at once hides
//! what a run with two faults shows. Faults end with the chaos; from then on everything must finish.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dauer_faults::{Act, Call, Fate, HintFate, Op, Struck};
use dauer_store::{Hint, Timestamp};

use crate::coverage::{Coverage, impossible};
use crate::executor::Executor;
use crate::kinds::{Kind, Target};
use crate::random::Random;
use crate::unpoisoned;

/// The longest delay of a call in any seed.
pub(crate) const DELAY_LONGEST: Duration = Duration::from_secs(40);

/// The longest delays of calls that a seed may have.
const DELAYS_MAX: [Duration; 4] =
    [Duration::from_millis(50), Duration::from_secs(1), Duration::from_secs(10), DELAY_LONGEST];

/// How long a call takes at most while the store is slow.
const SLOW_MAX: Duration = Duration::from_secs(3);

/// The stream of randomness that the faults of work item streams are drawn from.
pub(crate) const STREAMS: u64 = 10;

/// How many of ten thousand seeds have a fault.
const HAVE: u32 = 5_000;

/// The faults of a seed.
#[derive(Debug, Clone)]
pub struct Swarm {
    /// How often each kind happens; those that are missing never do.
    pub rates: BTreeMap<Kind, u32>,
    /// The longest time between two deeds.
    pub deed_pause: Duration,
    /// The longest delay of a call.
    pub delay_max: Duration,
    /// When the faults end.
    pub chaos: Duration,
    /// Calls at whose edges others run first, in ten thousand. No fault: an order.
    pub give_way: u32,
    /// Calls that take a few milliseconds on their way, also after the chaos: without any, hosts that take something
    /// from each other would do so for ever in no time.
    pub linger: u32,
}

impl Swarm {
    /// The faults of a seed.
    pub fn draw(random: &mut Random) -> Self {
        let mut rates = BTreeMap::new();
        for kind in Kind::ALL.iter().filter(|kind| kind.target() != Target::Stream) {
            if random.chance(HAVE) {
                rates.insert(*kind, random.pick(kind.choices()));
            }
        }
        Self {
            rates,
            deed_pause: Duration::from_millis(random.pick(&[100, 500, 3_000, 10_000])),
            delay_max: random.pick(&DELAYS_MAX),
            chaos: Duration::from_secs(random.between(5, 60)),
            give_way: random.pick(&[0, 2_000, 10_000]),
            linger: random.pick(&[500, 1_500, 4_000]),
        }
    }

    /// And those of streams: drawn apart, because they came later, and seeds that were known had to stay what they were.
    #[must_use]
    pub fn with_streams(mut self, random: &mut Random) -> Self {
        for kind in Kind::of(Target::Stream) {
            if random.chance(HAVE) {
                self.rates.insert(kind, random.pick(kind.choices()));
            }
        }
        self
    }

    /// No faults at all.
    #[must_use]
    pub fn calm() -> Self {
        let (deed_pause, delay_max, chaos) = (Duration::MAX, Duration::ZERO, Duration::ZERO);
        Self { rates: BTreeMap::new(), deed_pause, delay_max, chaos, give_way: 0, linger: 1_500 }
    }

    /// Without some of them.
    #[must_use]
    pub fn without(mut self, kinds: &BTreeSet<Kind>) -> Self {
        self.rates.retain(|kind, _| !kinds.contains(kind));
        self
    }

    /// What happens from time to time.
    #[must_use]
    pub fn deeds(&self) -> Vec<Kind> {
        Kind::of(Target::Deed).filter(|kind| self.has(*kind)).collect()
    }

    /// Whether it has that fault.
    #[must_use]
    pub fn has(&self, kind: Kind) -> bool {
        self.rates.contains_key(&kind)
    }

    fn rate(&self, kind: Kind) -> u32 {
        self.rates.get(&kind).copied().unwrap_or_default()
    }
}

/// The plan of one seed.
pub(crate) struct Plan {
    swarm: Swarm,
    random: Mutex<Random>,
    executor: Executor,
    healed: AtomicBool,
    /// Until when every call is slow, and until when none is executed.
    bad_times: Mutex<(Timestamp, Timestamp)>,
    coverage: Mutex<Coverage>,
}

/// What happens at the edge of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Smooth,
    GiveWay,
    Linger(u64),
    Crash,
}

impl Plan {
    pub(crate) fn new(swarm: Swarm, random: Random, executor: Executor) -> Self {
        executor.set_hazard(swarm.rate(Kind::CrashAtAwait));
        Self {
            swarm,
            random: Mutex::new(random),
            executor,
            healed: AtomicBool::new(false),
            bad_times: Mutex::default(),
            coverage: Mutex::default(),
        }
    }

    /// From now on nothing goes wrong.
    pub(crate) fn heal(&self) {
        self.healed.store(true, Ordering::Relaxed);
        self.executor.set_hazard(0);
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.healed.load(Ordering::Relaxed)
    }

    /// Counts a fault that hit no call and no hint.
    pub(crate) fn hit(&self, kind: Kind) {
        *unpoisoned(&self.coverage).others.entry(kind).or_default() += 1;
    }

    fn hit_call(&self, kind: Kind, op: Op) {
        *unpoisoned(&self.coverage).calls.entry((kind, op)).or_default() += 1;
    }

    /// What happened so far.
    pub(crate) fn coverage(&self) -> Coverage {
        let mut coverage = unpoisoned(&self.coverage).clone();
        let crashes = self.executor.hazards();
        if crashes > 0 {
            coverage.others.insert(Kind::CrashAtAwait, crashes);
        }
        coverage
    }

    /// Whether that happens now; not counted.
    fn chance(&self, kind: Kind) -> bool {
        !self.is_healed() && unpoisoned(&self.random).chance(self.swarm.rate(kind))
    }

    /// Whether that may happen now.
    pub(crate) fn may(&self, kind: Kind) -> bool {
        !self.is_healed() && self.swarm.has(kind)
    }

    /// Whether that happens now; counted.
    pub(crate) fn happens(&self, kind: Kind) -> bool {
        let happens = self.chance(kind);
        if happens {
            self.hit(kind);
        }
        happens
    }

    /// Every call is slow until then.
    pub(crate) fn slow_until(&self, at: Timestamp) {
        unpoisoned(&self.bad_times).0 = at;
    }

    /// No call is executed until then.
    pub(crate) fn out_until(&self, at: Timestamp) {
        unpoisoned(&self.bad_times).1 = at;
    }

    /// What happens before a call is sent, or after it was answered. Others may run first even after the chaos.
    pub(crate) fn edge(&self, op: Op, after: bool, mortal: bool) -> Edge {
        if !after {
            *unpoisoned(&self.coverage).made.entry(op).or_default() += 1;
        }
        let kind = if after { Kind::CrashAfter } else { Kind::CrashBefore };
        // Few calls read mail or recall: each has as many chances to meet a crash as several others.
        let chances = if matches!(op, Op::Mail | Op::Recall) { 16 } else { 1 };
        if mortal && (0..chances).any(|_| self.chance(kind)) {
            self.hit_call(kind, op);
            return Edge::Crash;
        }
        let mut random = unpoisoned(&self.random);
        if random.chance(self.swarm.linger) {
            Edge::Linger(random.between(1, 3))
        } else if random.chance(self.swarm.give_way) {
            Edge::GiveWay
        } else {
            Edge::Smooth
        }
    }

    /// After how long a call is executed once more, if it is.
    pub(crate) fn echo(&self, op: Op) -> Option<Duration> {
        if impossible(Kind::Echo, op).is_some() || !self.chance(Kind::Echo) {
            return None;
        }
        self.hit_call(Kind::Echo, op);
        Some(self.delay())
    }

    /// After how long a message is delivered once more, if it is.
    pub(crate) fn message_again(&self) -> Option<Duration> {
        self.happens(Kind::MessageAgain).then(|| self.delay())
    }

    fn delay(&self) -> Duration {
        unpoisoned(&self.random).duration(self.swarm.delay_max)
    }

    fn draw(&self, op: Op, random: &mut Random) -> Fate {
        let (slow, out) = *unpoisoned(&self.bad_times);
        if self.executor.now() < out {
            return Fate::of(Act::Refuse);
        }
        if self.executor.now() < slow {
            return Fate::PASS.late(random.duration(SLOW_MAX));
        }
        // Few calls read mail, recall or concern the whole store: each has as many chances as several others.
        let chances = if matches!(op, Op::Mail | Op::Recall | Op::DeleteHub) { 6 } else { 1 };
        let drawn = Kind::of(Target::Call).find(|kind| {
            is_fate(*kind)
                && impossible(*kind, op).is_none()
                && (0..chances).any(|_| random.chance(self.swarm.rate(*kind)))
        });
        drawn.map_or(Fate::PASS, |kind| fate(kind, random.duration(self.swarm.delay_max)))
    }
}

/// Whether that is a fault between a call and its answer. A request that arrives again comes later, and hosts die at the
/// edges of their calls.
pub(crate) fn is_fate(kind: Kind) -> bool {
    kind.target() == Target::Call && !matches!(kind, Kind::Echo | Kind::CrashBefore | Kind::CrashAfter)
}

/// What such a fault does to a call.
pub(crate) fn fate(kind: Kind, delay: Duration) -> Fate {
    match kind {
        Kind::FailBefore => Fate::of(Act::Refuse),
        Kind::FailLate => Fate::of(Act::Refuse).late(delay),
        Kind::LoseRequest => Fate::of(Act::LoseRequest),
        Kind::LoseAnswer => Fate::of(Act::LoseAnswer),
        Kind::LoseAnswerLate => Fate::of(Act::LoseAnswer).answered_late(delay),
        Kind::DelayBefore => Fate::PASS.late(delay),
        Kind::DelayAfter => Fate::PASS.answered_late(delay),
        _ => Fate::of(Act::Twice),
    }
}

/// Which fault that was.
fn kind_of(fate: Fate) -> Kind {
    match fate.act {
        Act::Refuse if fate.before.is_zero() => Kind::FailBefore,
        Act::Refuse => Kind::FailLate,
        Act::LoseRequest => Kind::LoseRequest,
        Act::LoseAnswer | Act::Withhold if fate.after.is_zero() => Kind::LoseAnswer,
        Act::LoseAnswer | Act::Withhold => Kind::LoseAnswerLate,
        Act::Twice => Kind::Twice,
        Act::Pass if fate.after.is_zero() => Kind::DelayBefore,
        Act::Pass => Kind::DelayAfter,
    }
}

impl dauer_faults::Plan for Plan {
    fn fate(&self, call: &Call) -> Fate {
        if self.is_healed() {
            return Fate::PASS;
        }
        let op = call.op();
        let fate = self.draw(op, &mut unpoisoned(&self.random));
        if fate != Fate::PASS {
            let numbers = [6, op as u64, kind_of(fate) as u64];
            self.executor.trace().note(self.executor.now(), &numbers, || format!("fault: {op}: {fate:?}"));
        }
        fate
    }

    fn hint(&self, hint: &Hint) -> HintFate {
        if self.is_healed() {
            return HintFate::Pass;
        }
        let drawn = {
            let mut random = unpoisoned(&self.random);
            Kind::of(Target::Hint).find(|kind| random.chance(self.swarm.rate(*kind)))
        };
        let Some(kind) = drawn else { return HintFate::Pass };
        *unpoisoned(&self.coverage).hints.entry((kind, hint_name(hint))).or_default() += 1;
        match kind {
            Kind::HintLost => HintFate::Lose,
            Kind::HintForgotten => HintFate::Forget,
            Kind::HintTwice => HintFate::Twice,
            _ => HintFate::Late,
        }
    }

    fn struck(&self, Struck { op, fate }: Struck) {
        self.hit_call(kind_of(fate), op);
    }
}

fn hint_name(hint: &Hint) -> &'static str {
    match hint {
        Hint::Status(..) => "status",
        Hint::Ended(..) => "ended",
        Hint::SessionEnded(_) => "session ended",
        Hint::Elsewhere => "elsewhere",
    }
}

#[cfg(test)]
mod tests {
    use dauer_faults::Plan as _;

    use super::*;

    fn plan(swarm: Swarm) -> Plan {
        let clock = std::sync::Arc::new(dauer_memory::ManualClock::default());
        let trace = std::sync::Arc::new(crate::Trace::new(false));
        Plan::new(swarm, Random::new(1), Executor::new(clock, trace, Random::new(2)))
    }

    #[test]
    fn healed_plan_does_nothing() {
        let kinds = [Kind::FailBefore, Kind::HintLost, Kind::CrashBefore, Kind::MessageAgain];
        let rates = kinds.into_iter().map(|kind| (kind, 10_000)).collect();
        let plan = plan(Swarm { rates, linger: 0, ..Swarm::calm() });
        let get = || plan.fate(&Call::Sessions {});
        assert_eq!(get(), Fate::of(Act::Refuse));
        plan.struck(Struck { op: Op::Sessions, fate: get() });
        let hint = Hint::SessionEnded(dauer_store::SessionId(1));
        assert_eq!(plan.hint(&hint), HintFate::Lose);
        let edge = |mortal| plan.edge(Op::Renew, false, mortal);
        assert_eq!((edge(true), edge(false)), (Edge::Crash, Edge::Smooth));
        assert!(plan.message_again().is_some());
        plan.heal();
        assert_eq!((get(), edge(true), plan.hint(&hint)), (Fate::PASS, Edge::Smooth, HintFate::Pass));
        assert_eq!(plan.message_again(), None);
        assert_eq!((plan.coverage().of(Kind::FailBefore), plan.coverage().faults()), (1, 4));
    }

    #[test]
    fn fault_that_has_struck_is_of_the_kind_that_was_drawn() {
        for kind in Kind::of(Target::Call).filter(|kind| is_fate(*kind)) {
            assert_eq!(kind_of(fate(kind, Duration::from_secs(1))), kind);
        }
    }

    #[test]
    fn every_fault_is_drawn_by_some_seed_and_missing_in_another() {
        let swarms: Vec<Swarm> = (0..200)
            .map(|seed| Swarm::draw(&mut Random::new(seed)).with_streams(&mut Random::stream(seed, STREAMS)))
            .collect();
        for kind in Kind::ALL {
            let having = swarms.iter().filter(|swarm| swarm.has(*kind)).count();
            assert!((60..140).contains(&having), "{kind} is in {having} of 200");
            let without = swarms[0].clone().without(&BTreeSet::from([*kind]));
            assert!(!without.has(*kind));
        }
    }
}
