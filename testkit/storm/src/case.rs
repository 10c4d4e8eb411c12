//! What the clients of a storm ask for, and what must come of it.

use std::time::Duration;

use dauer::Status;
use dauer_core::send::StartRequest;
use dauer_sim::random::Random;
use dauer_store::InstanceId;
use serde::Serialize;
use serde_json::Value;

use crate::programs::{
    BROKEN, CHAIN, FAMILY, FAN, Job, PATIENT, RACE, ROUNDS, Race, Rounds, THINKER, chained, child_id,
    refusal, worked,
};

/// A timer that no storm lives to see.
const FAR_MILLIS: u64 = 24 * 60 * 60 * 1_000;

/// The output that a terminated instance is given.
pub(crate) const ENOUGH: &str = "\"enough\"";

/// The output that the hub gives to the child of a terminated instance.
const PARENT_TERMINATED: &str = "the parent was terminated";

/// What one instance does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Program {
    Chain(Vec<Job>),
    Fan(Vec<Job>),
    Race {
        race: Race,
        number: Option<i64>,
    },
    Family(Vec<Vec<Job>>),
    Rounds(Vec<i64>),
    Patient {
        has_child: bool,
    },
    Broken(Job),
    /// Takes long turns; not drawn, but started for a purpose.
    Thinker(i64),
    /// Never ends: it lies in the store, with a timer or a child, when everything else is over.
    Waiting {
        has_child: bool,
    },
}

/// One instance that a client starts and waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) id: InstanceId,
    pub(crate) program: Program,
    /// The longest pause between two things a client does.
    pub(crate) pause_max: Duration,
}

/// How an instance may end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expected {
    pub(crate) id: String,
    pub(crate) status: Status,
    /// One of these, exactly; none is for instances that have no output.
    pub(crate) outputs: Vec<Value>,
    /// The message of the failure.
    pub(crate) failure: Option<String>,
    /// Whether it may be that it never came to be: its parent was terminated first.
    pub(crate) optional: bool,
}

impl Expected {
    fn completed(id: impl Into<String>, outputs: Vec<Value>) -> Self {
        Self { id: id.into(), status: Status::Completed, outputs, failure: None, optional: false }
    }
}

fn job(random: &mut Random) -> Job {
    // Mostly short, now and then long enough that a kill surely finds it in flight.
    let millis = if random.chance(2_000) { random.between(40, 150) } else { random.between(0, 10) };
    Job { value: number(random), millis }
}

fn jobs(random: &mut Random, most: u64) -> Vec<Job> {
    (0..random.between(1, most)).map(|_| job(random)).collect()
}

fn number(random: &mut Random) -> i64 {
    i64::try_from(random.below(1_000)).unwrap_or_default()
}

fn request<T: Serialize>(id: &InstanceId, name: &str, input: &T) -> StartRequest {
    // All inputs are plain numbers and lists, which JSON can always write.
    let input = serde_json::to_string(input).ok();
    StartRequest { input, ..StartRequest::new(id.clone(), name) }
}

impl Case {
    /// A random case.
    pub(crate) fn draw(random: &mut Random, id: InstanceId) -> Self {
        let program = match random.below(56) {
            0..=15 => Program::Chain(jobs(random, 6)),
            16..=22 => Program::Fan(jobs(random, 12)),
            23..=31 => {
                let work_millis = random.between(0, 20);
                let far = random.chance(5_000);
                let timer_millis = if far { FAR_MILLIS } else { random.between(0, 600) };
                // A far timer is never seen to fire, so somebody has to raise the event.
                let number = (far || random.chance(7_000)).then(|| number(random));
                Program::Race { race: Race { timer_millis, work_millis }, number }
            }
            32..=39 => Program::Family((0..random.between(1, 3)).map(|_| jobs(random, 3)).collect()),
            40..=47 => Program::Rounds((0..random.between(1, 5)).map(|_| number(random)).collect()),
            48..=51 => Program::Patient { has_child: random.chance(5_000) },
            52 => Program::Waiting { has_child: random.chance(5_000) },
            _ => Program::Broken(job(random)),
        };
        Self { id, program, pause_max: Duration::from_millis(random.between(1, 300)) }
    }

    /// What starts it.
    pub(crate) fn request(&self) -> StartRequest {
        let id = &self.id;
        match &self.program {
            Program::Chain(jobs) => request(id, CHAIN.name(), jobs),
            Program::Fan(jobs) => request(id, FAN.name(), jobs),
            Program::Race { race, .. } => request(id, RACE.name(), race),
            Program::Family(children) => request(id, FAMILY.name(), children),
            Program::Rounds(numbers) => {
                let left = u32::try_from(numbers.len()).unwrap_or_default();
                request(id, ROUNDS.name(), &Rounds { left, seen: Vec::new() })
            }
            Program::Patient { has_child } | Program::Waiting { has_child: has_child @ true } => {
                request(id, PATIENT.name(), has_child)
            }
            Program::Waiting { has_child: false } => {
                request(id, RACE.name(), &Race { timer_millis: FAR_MILLIS, work_millis: 0 })
            }
            Program::Thinker(value) => request(id, THINKER.name(), value),
            Program::Broken(job) => request(id, BROKEN.name(), job),
        }
    }

    /// The numbers to be raised to it, in this order.
    pub(crate) fn numbers(&self) -> Vec<i64> {
        match &self.program {
            Program::Race { number, .. } => number.iter().copied().collect(),
            Program::Rounds(numbers) => numbers.clone(),
            _ => Vec::new(),
        }
    }

    /// Whether a client has to end it.
    pub(crate) fn is_terminated(&self) -> bool {
        matches!(self.program, Program::Patient { .. })
    }

    /// Whether it is meant to wait for ever.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.program, Program::Waiting { .. })
    }

    /// How it and its children must end.
    pub(crate) fn expected(&self) -> Vec<Expected> {
        let id = self.id.as_str();
        let terminated = |id: String, output: &str, optional| Expected {
            status: Status::Terminated,
            optional,
            ..Expected::completed(id, vec![Value::from(output)])
        };
        let waiting =
            |id: String| Expected { status: Status::Running, ..Expected::completed(id, vec![Value::Null]) };
        match &self.program {
            Program::Chain(jobs) => vec![Expected::completed(id, vec![chained(jobs).into()])],
            Program::Thinker(value) => vec![Expected::completed(id, vec![worked(*value).into()])],
            Program::Fan(jobs) => {
                let sum: i64 = jobs.iter().map(|job| worked(job.value)).sum();
                vec![Expected::completed(id, vec![sum.into()])]
            }
            Program::Race { race, number } => {
                let event = number.map(|number| Value::from(worked(number)));
                let timer = (race.timer_millis < FAR_MILLIS).then_some(Value::Null);
                vec![Expected::completed(id, event.into_iter().chain(timer).collect())]
            }
            Program::Family(children) => {
                let sum: i64 = children.iter().map(|jobs| chained(jobs)).sum();
                let mut all = vec![Expected::completed(id, vec![sum.into()])];
                all.extend(children.iter().enumerate().map(|(number, jobs)| {
                    Expected::completed(child_id(id, number), vec![chained(jobs).into()])
                }));
                all
            }
            Program::Rounds(numbers) => {
                let seen: Vec<i64> = numbers.iter().map(|number| worked(*number)).collect();
                vec![Expected::completed(id, vec![seen.into()])]
            }
            Program::Patient { has_child } => {
                let mut all = vec![terminated(id.to_owned(), "enough", false)];
                all.extend(has_child.then(|| terminated(child_id(id, 0), PARENT_TERMINATED, true)));
                all
            }
            Program::Waiting { has_child } => {
                let mut all = vec![waiting(id.to_owned())];
                all.extend(has_child.then(|| waiting(child_id(id, 0))));
                all
            }
            Program::Broken(job) => {
                let failure = Some(refusal(worked(job.value)));
                vec![Expected { status: Status::Failed, failure, ..Expected::completed(id, Vec::new()) }]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_drawn_and_says_how_it_ends() {
        let mut random = Random::new(1);
        let mut names = std::collections::BTreeSet::new();
        for number in 0..300 {
            let case = Case::draw(&mut random, InstanceId::new(format!("i{number}")).unwrap());
            let expected = case.expected();
            assert_eq!(expected[0].id, case.id.as_str());
            assert!(
                expected.iter().all(|each| each.failure.is_some() || !each.outputs.is_empty()),
                "{case:?}"
            );
            names.insert(case.request().name);
        }
        let all = ["broken", "chain", "family", "fan", "patient", "race", "rounds"];
        assert_eq!(names.into_iter().collect::<Vec<_>>(), all);
    }

    #[test]
    fn a_race_against_a_far_timer_has_one_outcome_and_one_against_a_near_timer_two() {
        let race = |timer_millis, number| Case {
            id: InstanceId::new("i").unwrap(),
            program: Program::Race { race: Race { timer_millis, work_millis: 0 }, number },
            pause_max: Duration::ZERO,
        };
        let outputs = |case: Case| case.expected()[0].outputs.clone();
        assert_eq!(outputs(race(FAR_MILLIS, Some(2))), [Value::from(7)]);
        assert_eq!(outputs(race(5, Some(2))), [Value::from(7), Value::Null]);
        assert_eq!(outputs(race(5, None)), [Value::Null]);
    }
}
