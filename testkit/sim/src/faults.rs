//! Which faults a seed has, how often, and the store's plan made of them.
//!
//! Each seed draws a random subset of all faults with random rates (a swarm): a run with everything at once hides
//! what a run with two faults shows. Faults end with the chaos; from then on everything must finish.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dauer_memory::{Call, Fault, FaultPlan, HintFault};
use dauer_store::Hint;

use crate::executor::Executor;
use crate::random::Random;
use crate::unpoisoned;

/// How often each fault happens, in ten thousand.
#[derive(Debug, Clone, Default)]
pub struct Rates {
    /// Calls that are not executed.
    pub fail_before: u32,
    /// Calls that are executed, with an answer that says nothing.
    pub unknown: u32,
    /// Calls that are executed late.
    pub delay_before: u32,
    /// Calls that are answered late.
    pub delay_after: u32,
    /// Calls that are executed twice.
    pub duplicate: u32,
    /// Hints that are lost.
    pub hint_lost: u32,
    /// Hints that come twice.
    pub hint_twice: u32,
    /// Hints that come late.
    pub hint_late: u32,
    /// Calls at whose edge the host dies: before it is sent, or before its answer arrives.
    pub crash: u32,
    /// Calls at whose edges others run first.
    pub give_way: u32,
    /// Calls that take a few milliseconds on their way, also after the chaos: without any, hosts that take something
    /// from each other would do so for ever in no time.
    pub linger: u32,
    /// The longest delay of a call.
    pub delay_max: Duration,
}

/// What else a seed does to hosts, and for how long.
#[derive(Debug, Clone)]
pub struct Swarm {
    /// The faults of calls and hints.
    pub rates: Rates,
    /// What the chaos may do to hosts, from time to time.
    pub deeds: Vec<Deed>,
    /// The longest time between two deeds.
    pub deed_pause: Duration,
    /// When the faults end.
    pub chaos: Duration,
}

/// What can happen to a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Deed {
    /// It dies, and another one comes after a while.
    Crash,
    /// It is stopped for a while and goes on as if nothing had happened: a zombie, if it takes longer than its lease.
    Pause,
    /// The store takes its sessions for expired while it works.
    Expire,
    /// Its clock jumps.
    Skew,
    /// The store's clock jumps ahead.
    StoreSkew,
    /// It is asked to stop, drains, and another one comes.
    Stop,
}

impl Deed {
    const ALL: [Self; 6] = [Self::Crash, Self::Pause, Self::Expire, Self::Skew, Self::StoreSkew, Self::Stop];
}

impl Swarm {
    /// The faults of a seed.
    pub fn draw(random: &mut Random) -> Self {
        let mut rate = |choices: &[u32]| if random.chance(5_000) { random.pick(choices) } else { 0 };
        let calls = [50, 200, 500, 1_500];
        let rates = Rates {
            fail_before: rate(&calls),
            unknown: rate(&calls),
            delay_before: rate(&calls),
            delay_after: rate(&calls),
            duplicate: rate(&calls),
            hint_lost: rate(&[500, 2_000, 5_000, 10_000]),
            hint_twice: rate(&[500, 2_000, 5_000]),
            hint_late: rate(&[500, 2_000, 5_000]),
            crash: rate(&[10, 30, 100]),
            give_way: random.pick(&[0, 2_000, 10_000]),
            linger: random.pick(&[500, 1_500, 4_000]),
            delay_max: Duration::from_millis(random.pick(&[50, 1_000, 10_000, 40_000])),
        };
        let deeds = Deed::ALL.into_iter().filter(|_| random.chance(5_000)).collect();
        Self {
            rates,
            deeds,
            deed_pause: Duration::from_millis(random.pick(&[500, 3_000, 10_000])),
            chaos: Duration::from_secs(random.between(5, 60)),
        }
    }

    /// No faults at all.
    #[must_use]
    pub fn calm() -> Self {
        let rates = Rates { linger: 1_500, ..Rates::default() };
        Self { rates, deeds: Vec::new(), deed_pause: Duration::MAX, chaos: Duration::ZERO }
    }
}

/// How often something was done to the store.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) failed: AtomicU64,
    pub(crate) unknown: AtomicU64,
    pub(crate) delayed: AtomicU64,
    pub(crate) duplicated: AtomicU64,
    pub(crate) hints_lost: AtomicU64,
}

/// The plan of one seed.
pub(crate) struct Plan {
    rates: Rates,
    random: Mutex<Random>,
    executor: Executor,
    healed: AtomicBool,
    /// Set while the simulator itself looks into the store: looking must not disturb.
    silent: AtomicBool,
    pub(crate) counts: Counts,
}

/// What happens at the edge of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Smooth,
    GiveWay,
    Linger(u64),
    Crash,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Plan {
    pub(crate) fn new(rates: Rates, random: Random, executor: Executor) -> Self {
        let (healed, silent) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { rates, random: Mutex::new(random), executor, healed, silent, counts: Counts::default() }
    }

    /// From now on nothing goes wrong.
    pub(crate) fn heal(&self) {
        self.healed.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_healed(&self) -> bool {
        self.healed.load(Ordering::Relaxed)
    }

    /// Looks without being seen.
    pub(crate) fn silently<T>(&self, look: impl FnOnce() -> T) -> T {
        self.silent.store(true, Ordering::Relaxed);
        let seen = look();
        self.silent.store(false, Ordering::Relaxed);
        seen
    }

    fn is_quiet(&self) -> bool {
        self.silent.load(Ordering::Relaxed) || self.is_healed()
    }

    /// What happens before a call is sent, or after it was answered. Others may run first even after the chaos.
    pub(crate) fn edge(&self, mortal: bool) -> Edge {
        let mut random = unpoisoned(&self.random);
        if mortal && !self.is_healed() && random.chance(self.rates.crash) {
            Edge::Crash
        } else if random.chance(self.rates.linger) {
            Edge::Linger(random.between(1, 3))
        } else if random.chance(self.rates.give_way) {
            Edge::GiveWay
        } else {
            Edge::Smooth
        }
    }

    fn draw(&self, random: &mut Random) -> Fault {
        let Rates { fail_before, unknown, delay_before, delay_after, duplicate, delay_max, .. } = self.rates;
        let counts = &self.counts;
        if random.chance(fail_before) {
            count(&counts.failed);
            let late = random.chance(2_500);
            return if late {
                Fault::DelayAndFailBefore(random.duration(delay_max))
            } else {
                Fault::FailBefore
            };
        }
        if random.chance(unknown) {
            count(&counts.unknown);
            let late = random.chance(2_500);
            return if late {
                Fault::ExecuteDelayAndFail(random.duration(delay_max))
            } else {
                Fault::ExecuteAndFail
            };
        }
        if random.chance(delay_before) {
            count(&counts.delayed);
            return Fault::DelayBefore(random.duration(delay_max));
        }
        if random.chance(delay_after) {
            count(&counts.delayed);
            return Fault::DelayAfter(random.duration(delay_max));
        }
        if random.chance(duplicate) {
            count(&counts.duplicated);
            return Fault::Duplicate;
        }
        Fault::None
    }
}

impl FaultPlan for Plan {
    fn next(&self, call: Call) -> Fault {
        if self.is_quiet() {
            return Fault::None;
        }
        let fault = self.draw(&mut unpoisoned(&self.random));
        if fault != Fault::None {
            self.executor
                .trace()
                .note(self.executor.now(), &[6, call as u64], || format!("fault: {call:?}: {fault:?}"));
        }
        fault
    }

    fn hint(&self, _hint: &Hint) -> HintFault {
        if self.is_quiet() {
            return HintFault::None;
        }
        let mut random = unpoisoned(&self.random);
        if random.chance(self.rates.hint_lost) {
            count(&self.counts.hints_lost);
            HintFault::Drop
        } else if random.chance(self.rates.hint_twice) {
            HintFault::Duplicate
        } else if random.chance(self.rates.hint_late) {
            HintFault::Reorder
        } else {
            HintFault::None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_healed_or_silent_plan_does_nothing() {
        let always = Rates { fail_before: 10_000, hint_lost: 10_000, crash: 10_000, ..Rates::default() };
        let clock = std::sync::Arc::new(dauer_memory::ManualClock::default());
        let trace = std::sync::Arc::new(crate::Trace::new(false));
        let plan = Plan::new(always, Random::new(1), Executor::new(clock, trace, Random::new(2)));
        assert_eq!(plan.next(Call::Get), Fault::FailBefore);
        assert_eq!(plan.hint(&Hint::Ready(dauer_store::Kind::Activity)), HintFault::Drop);
        assert_eq!((plan.edge(true), plan.edge(false)), (Edge::Crash, Edge::Smooth));
        assert_eq!(plan.silently(|| plan.next(Call::Get)), Fault::None);
        assert_ne!(plan.next(Call::Get), Fault::None);
        plan.heal();
        assert_eq!((plan.next(Call::Get), plan.edge(true)), (Fault::None, Edge::Smooth));
    }

    #[test]
    fn every_fault_is_drawn_by_some_seed_and_missing_in_another() {
        let swarms: Vec<Swarm> = (0..200).map(|seed| Swarm::draw(&mut Random::new(seed))).collect();
        let both = |has: &dyn Fn(&Swarm) -> bool| swarms.iter().any(has) && !swarms.iter().all(has);
        assert!(both(&|s| s.rates.fail_before > 0) && both(&|s| s.rates.unknown > 0));
        assert!(both(&|s| s.rates.delay_before > 0) && both(&|s| s.rates.delay_after > 0));
        assert!(both(&|s| s.rates.duplicate > 0) && both(&|s| s.rates.crash > 0));
        assert!(both(&|s| s.rates.hint_lost > 0) && both(&|s| s.rates.hint_twice > 0));
        assert!(both(&|s| s.rates.hint_late > 0) && both(&|s| s.rates.give_way > 0));
        for deed in Deed::ALL {
            assert!(both(&|s| s.deeds.contains(&deed)), "{deed:?}");
        }
    }
}
