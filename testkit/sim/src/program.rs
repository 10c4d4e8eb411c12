//! Random programs: what an orchestration does, as data. One orchestration interprets them all (`interpret`), and a
//! model without any durability says what may come out (`model`).

use std::time::Duration;

use dauer_store::InstanceId;
use serde::{Deserialize, Serialize};

/// How long clients pause at most before an event that a program waits for, and before each of those that it collects.
const WAIT_PAUSE: Duration = Duration::from_secs(8);
const COLLECT_PAUSE: Duration = Duration::from_millis(300);

mod draw;

pub(crate) use draw::DEPTH;

/// The names of events. Each wait of a program has its own, so that an event that lost a race is nobody else's.
pub(crate) const EVENT_NAMES: [&str; 8] = ["e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7"];

/// The instance whose turns can never run. Everybody else must not notice.
pub(crate) const POISON: &str = "poison";

/// How often a call is tried before its failure counts.
pub(crate) const ATTEMPTS_MAX: u32 = 3;

/// The wait between two attempts.
pub(crate) const ATTEMPT_PAUSE: Duration = Duration::from_millis(200);

/// What an orchestration does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// How often it does its steps; between two rounds it continues as new.
    pub rounds: u32,
    /// The event that it sends to its parent before anything else.
    pub tells: Option<usize>,
    /// What it does in each round.
    pub steps: Vec<Step>,
}

/// One thing that an orchestration does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Calls an activity; a negative value makes it fail, always.
    Call(i64),
    /// Calls an activity for each value at once, and waits for all.
    FanOut(Vec<i64>),
    /// Calls an activity that fails at first, again and again, each time as another action.
    Retry(Flaky),
    /// A child written as Python's SDK is: it calls activities that fail at first again as the same action.
    Reuse {
        /// The calls, one after the other.
        calls: Vec<Flaky>,
        /// Whether it also ends another child of its parent, which would never end by itself.
        hunts: bool,
    },
    /// A timer of so many milliseconds against something else; either may win.
    Race(u64, Rival),
    /// Runs children at once, and waits for all.
    Children(Vec<Program>),
    /// Starts a child and does not wait for it.
    Detach(Program),
    /// Starts a child without waiting for it, and waits for the event that it sends.
    Ask(usize, Program),
    /// Sets timers of so many milliseconds at once, and waits for all.
    Sleep(Vec<u64>),
    /// Waits for the next event of that name.
    Wait(usize),
    /// Waits for so many events of that name, which come in a burst.
    Collect(usize, u32),
    /// Reports a custom status.
    Status(u32),
    /// Ends the run as failed; always the last step of the only round.
    Fail(u32),
    /// Waits for what never comes: only a termination ends it.
    Forever,
}

/// A call that fails at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flaky {
    /// What it is called with.
    pub value: i64,
    /// How many attempts fail.
    pub failures: u32,
}

/// What a timer runs against.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rival {
    /// An activity.
    Activity(i64),
    /// An event.
    Event(usize),
}

/// Events that somebody has to raise, in this order, to one instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) instance: InstanceId,
    pub(crate) event: usize,
    pub(crate) values: Vec<i64>,
    /// The longest pause before each.
    pub(crate) pause: Duration,
}

/// The value that the so-manieth event of a name carries.
pub(crate) fn event_value(event: usize, number: u32) -> i64 {
    i64::try_from(event).unwrap_or_default() * 1_000 + i64::from(number)
}

/// The id of a child that a step starts in a round. Ids stay far below the limit, because programs are not deep.
pub(crate) fn child_id(parent: &InstanceId, round: u32, step: usize, child: usize) -> Option<InstanceId> {
    InstanceId::new(format!("{parent}.{round}.{step}.{child}")).ok()
}

/// The id of the case that an instance belongs to: its own, or that of the first of its parents.
pub(crate) fn family_of(id: &InstanceId) -> &str {
    id.as_str().split('.').next().unwrap_or_default()
}

/// Whose child an instance is, and of which round.
pub(crate) fn parent_of(child: &InstanceId) -> Option<(InstanceId, u32)> {
    let mut parts = child.as_str().rsplitn(4, '.').skip(2);
    let round = parts.next()?.parse().ok()?;
    Some((InstanceId::new(parts.next()?).ok()?, round))
}

/// An instance of a family, and what it does.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Member<'a> {
    Program(&'a Program),
    Reuse(&'a [Flaky]),
    /// The victim of a hunt.
    Prey,
}

impl Program {
    /// A program that does these steps once.
    pub(crate) fn once(steps: Vec<Step>) -> Self {
        Self { rounds: 1, tells: None, steps }
    }

    /// How long it sleeps, and waits for what clients send, at most, children included: a bound for the time it needs.
    #[must_use]
    pub fn longest(&self) -> Duration {
        let step = |step: &Step| match step {
            Step::Race(millis, _) => Duration::from_millis(*millis),
            Step::Sleep(timers) => Duration::from_millis(timers.iter().copied().max().unwrap_or_default()),
            Step::Children(children) => children.iter().map(Self::longest).max().unwrap_or_default(),
            Step::Detach(child) | Step::Ask(_, child) => child.longest(),
            Step::Wait(_) => WAIT_PAUSE,
            Step::Collect(_, count) => COLLECT_PAUSE * *count,
            _ => Duration::ZERO,
        };
        self.steps.iter().map(step).sum::<Duration>() * self.rounds
    }

    /// How many actions it and its children ask for when all goes well.
    #[must_use]
    pub fn actions(&self) -> usize {
        let attempts = |flaky: &Flaky| (flaky.failures.min(ATTEMPTS_MAX - 1) * 2 + 1) as usize;
        let step = |step: &Step| match step {
            Step::Call(_) => 1,
            Step::FanOut(values) => values.len(),
            Step::Retry(flaky) => attempts(flaky),
            Step::Reuse { calls, hunts } => {
                2 + calls.iter().map(attempts).sum::<usize>() + if *hunts { 3 } else { 0 }
            }
            Step::Race(_, Rival::Activity(_)) => 2,
            Step::Race(_, Rival::Event(_)) => 1,
            Step::Children(children) => children.iter().map(|child| 1 + child.actions()).sum(),
            Step::Detach(child) | Step::Ask(_, child) => 1 + child.actions(),
            Step::Sleep(timers) => timers.len(),
            Step::Wait(_) | Step::Collect(..) | Step::Status(_) | Step::Fail(_) | Step::Forever => 0,
        };
        let round = 1 + self.steps.iter().map(step).sum::<usize>();
        round * self.rounds as usize + usize::from(self.tells.is_some())
    }

    /// The events that it and its children wait for.
    pub(crate) fn demands(&self, instance: &InstanceId) -> Vec<Demand> {
        let mut demands = Vec::new();
        for step in &self.steps {
            let (event, count, pause) = match step {
                Step::Wait(event) | Step::Race(_, Rival::Event(event)) => (*event, 1, WAIT_PAUSE),
                Step::Collect(event, count) => (*event, *count, COLLECT_PAUSE),
                _ => continue,
            };
            let values = (0..self.rounds * count).map(|number| event_value(event, number)).collect();
            demands.push(Demand { instance: instance.clone(), event, values, pause });
        }
        for (id, member) in self.born(instance) {
            if let Member::Program(child) = member {
                demands.extend(child.demands(&id));
            }
        }
        demands
    }

    /// The children of all rounds, by id.
    fn born(&self, parent: &InstanceId) -> Vec<(InstanceId, Member<'_>)> {
        let mut born = Vec::new();
        for round in 0..self.rounds {
            for (at, step) in self.steps.iter().enumerate() {
                let members: Vec<Member<'_>> = match step {
                    Step::Children(children) => children.iter().map(Member::Program).collect(),
                    Step::Detach(child) | Step::Ask(_, child) => vec![Member::Program(child)],
                    Step::Reuse { calls, hunts: false } => vec![Member::Reuse(calls)],
                    Step::Reuse { calls, hunts: true } => vec![Member::Reuse(calls), Member::Prey],
                    _ => Vec::new(),
                };
                let named = members.into_iter().enumerate();
                born.extend(
                    named.filter_map(|(number, member)| Some((child_id(parent, round, at, number)?, member))),
                );
            }
        }
        born
    }

    /// It and all its children by id.
    pub(crate) fn family(&self, instance: &InstanceId) -> Vec<(InstanceId, Member<'_>)> {
        let mut family = vec![(instance.clone(), Member::Program(self))];
        for (id, member) in self.born(instance) {
            match member {
                Member::Program(child) => family.extend(child.family(&id)),
                other => family.push((id, other)),
            }
        }
        family
    }
}

#[cfg(test)]
mod tests;
