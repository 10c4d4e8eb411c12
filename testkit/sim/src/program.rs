//! Random programs: what an orchestration does, as data. One orchestration interprets them all (`interpret`), and a
//! model without any durability says what may come out (`model`).

use std::time::Duration;

use dauer_store::InstanceId;
use serde::{Deserialize, Serialize};

use crate::random::Random;

/// The names of events. Each wait of a program has its own, so that an event that lost a race is nobody else's.
pub(crate) const EVENT_NAMES: [&str; 8] = ["e0", "e1", "e2", "e3", "e4", "e5", "e6", "e7"];

/// What an orchestration does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// How often it does its steps; between two rounds it continues as new.
    pub rounds: u32,
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
    /// A timer of so many milliseconds against something else; either may win.
    Race(u64, Rival),
    /// Runs children at once, and waits for all.
    Children(Vec<Program>),
    /// Sets timers of so many milliseconds at once, and waits for all.
    Sleep(Vec<u64>),
    /// Waits for the next event of that name.
    Wait(usize),
    /// Reports a custom status.
    Status(u32),
    /// Ends the run as failed; always the last step of the only round.
    Fail(u32),
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
}

/// The value that an event carries in a round.
pub(crate) fn event_value(event: usize, round: u32) -> i64 {
    i64::try_from(event).unwrap_or_default() * 1_000 + i64::from(round)
}

/// The id of a child that a step starts in a round. Ids stay far below the limit, because programs are not deep.
pub(crate) fn child_id(parent: &InstanceId, round: u32, step: usize, child: usize) -> Option<InstanceId> {
    InstanceId::new(format!("{parent}.{round}.{step}.{child}")).ok()
}

impl Program {
    /// A random program; `depth` levels of children are allowed.
    pub fn draw(random: &mut Random, depth: u32) -> Self {
        let rounds = if random.chance(3_000) { u32::try_from(random.between(2, 4)).unwrap_or(2) } else { 1 };
        let count = random.between(1, if depth == 0 { 3 } else { 6 });
        let mut events = 0;
        let mut steps: Vec<Step> =
            (0..count).map(|_| Step::draw(random, depth, rounds > 1, &mut events)).collect();
        if rounds == 1 && random.chance(800) {
            steps.push(Step::Fail(u32::try_from(random.below(100)).unwrap_or_default()));
        }
        Self { rounds, steps }
    }

    /// How long it sleeps at most, children included: a bound for the time it needs.
    #[must_use]
    pub fn longest(&self) -> Duration {
        let step = |step: &Step| match step {
            Step::Race(millis, _) => Duration::from_millis(*millis),
            Step::Sleep(timers) => Duration::from_millis(timers.iter().copied().max().unwrap_or_default()),
            Step::Children(children) => children.iter().map(Self::longest).max().unwrap_or_default(),
            _ => Duration::ZERO,
        };
        self.steps.iter().map(step).sum::<Duration>() * self.rounds
    }

    /// The events that it and its children wait for.
    pub(crate) fn demands(&self, instance: &InstanceId) -> Vec<Demand> {
        let mut demands = Vec::new();
        for (at, step) in self.steps.iter().enumerate() {
            match step {
                Step::Wait(event) | Step::Race(_, Rival::Event(event)) => {
                    let values = (0..self.rounds).map(|round| event_value(*event, round)).collect();
                    demands.push(Demand { instance: instance.clone(), event: *event, values });
                }
                Step::Children(children) => {
                    let children = self.born(instance, at, children);
                    demands.extend(children.flat_map(|(id, child)| child.demands(&id)));
                }
                _ => {}
            }
        }
        demands
    }

    /// The children of one step, in all rounds, by id.
    fn born<'a>(
        &self,
        parent: &InstanceId,
        step: usize,
        children: &'a [Self],
    ) -> impl Iterator<Item = (InstanceId, &'a Self)> {
        let rounds =
            (0..self.rounds).flat_map(move |round| children.iter().enumerate().map(move |c| (round, c)));
        rounds.filter_map(move |(round, (at, child))| Some((child_id(parent, round, step, at)?, child)))
    }

    /// It and all its children by id.
    pub(crate) fn family(&self, instance: &InstanceId) -> Vec<(InstanceId, &Self)> {
        let mut family = vec![(instance.clone(), self)];
        for (at, step) in self.steps.iter().enumerate() {
            if let Step::Children(children) = step {
                let children = self.born(instance, at, children);
                family.extend(children.flat_map(|(id, child)| child.family(&id)));
            }
        }
        family
    }
}

impl Step {
    fn draw(random: &mut Random, depth: u32, looping: bool, events: &mut usize) -> Self {
        let mut fresh_event = || {
            let event = *events;
            *events += 1;
            (event < EVENT_NAMES.len()).then_some(event)
        };
        match random.below(if depth == 0 { 8 } else { 9 }) {
            0 | 1 => Self::Call(value(random)),
            2 => {
                let count = if random.chance(500) { 40 } else { random.between(1, 6) };
                Self::FanOut((0..count).map(|_| value(random)).collect())
            }
            3 => Self::Race(random.between(0, 3_000), Rival::Activity(value(random))),
            // In a loop the event that lost would win the next round's race, and the order would be anybody's guess.
            4 if !looping => match fresh_event() {
                Some(event) => Self::Race(random.between(0, 10_000), Rival::Event(event)),
                None => Self::Call(value(random)),
            },
            5 => {
                let count = if random.chance(3_000) { random.between(2, 4) } else { 1 };
                Self::Sleep((0..count).map(|_| random.pick(&[0, 1, 100, 1_500, 20_000])).collect())
            }
            6 => fresh_event().map_or(Self::Status(7), Self::Wait),
            7 => Self::Status(u32::try_from(random.below(1_000)).unwrap_or_default()),
            8 => {
                let count = if random.chance(3_000) { random.between(2, 3) } else { 1 };
                Self::Children((0..count).map(|_| Program::draw(random, depth - 1)).collect())
            }
            _ => Self::Call(value(random)),
        }
    }
}

fn value(random: &mut Random) -> i64 {
    let value = i64::try_from(random.below(1_000)).unwrap_or_default();
    if random.chance(1_500) { -1 - value } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_step_is_drawn() {
        let mut kinds = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let program = Program::draw(&mut Random::new(seed), 2);
            for step in &program.steps {
                let text = format!("{step:?}");
                kinds.insert(text.split('(').next().unwrap_or_default().to_owned());
            }
        }
        let expected = ["Call", "Children", "Fail", "FanOut", "Race", "Sleep", "Status", "Wait"];
        assert_eq!(kinds.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_family_has_a_child_for_every_round_and_all_waits_are_demanded() {
        let child = Program { rounds: 1, steps: vec![Step::Wait(0)] };
        let program = Program { rounds: 2, steps: vec![Step::Wait(0), Step::Children(vec![child])] };
        let id = InstanceId::new("a").unwrap();
        let ids: Vec<String> = program.family(&id).iter().map(|(id, _)| id.to_string()).collect();
        assert_eq!(ids, ["a", "a.0.1.0", "a.1.1.0"]);
        let demands: Vec<(String, Vec<i64>)> =
            program.demands(&id).into_iter().map(|d| (d.instance.to_string(), d.values)).collect();
        assert_eq!(
            demands,
            [("a".into(), vec![0, 1]), ("a.0.1.0".into(), vec![0]), ("a.1.1.0".into(), vec![0])]
        );
    }
}
