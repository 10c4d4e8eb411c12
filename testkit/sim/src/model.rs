//! The model: what a program may come to, computed without hosts, stores, faults or time. Programs without races have
//! exactly one outcome; a race allows both of its own.

use std::fmt;

use dauer_proto::TaskFailureDetails;
use dauer_store::{Record, Status};

use crate::foreign;
use crate::interpret::{Seen, failure, worked};
use crate::program::{ATTEMPTS_MAX, Flaky, Member, Program, Rival, Step, event_value};

/// What a step may come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    One(Seen),
    Either(Seen, Seen),
    All(Vec<Expected>),
    Child(Vec<Expected>),
}

impl Expected {
    fn admits(&self, seen: &Seen) -> bool {
        let each = |expected: &[Self], seen: &[Seen]| {
            expected.len() == seen.len() && expected.iter().zip(seen).all(|(one, seen)| one.admits(seen))
        };
        match (self, seen) {
            (Self::One(one), seen) => one == seen,
            (Self::Either(one, other), seen) => one == seen || other == seen,
            (Self::All(expected), Seen::All(seen)) | (Self::Child(expected), Seen::Child(seen)) => {
                each(expected, seen)
            }
            _ => false,
        }
    }

    /// How many outcomes that allows.
    fn count(&self) -> u64 {
        match self {
            Self::One(_) => 1,
            Self::Either(..) => 2,
            Self::All(all) | Self::Child(all) => count(all),
        }
    }
}

fn count(all: &[Expected]) -> u64 {
    all.iter().map(Expected::count).fold(1, u64::saturating_mul)
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(one) => write!(f, "{one:?}"),
            Self::Either(one, other) => write!(f, "({one:?} or {other:?})"),
            Self::All(all) => list(f, "All", all),
            Self::Child(all) => list(f, "Child", all),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, name: &str, all: &[Expected]) -> fmt::Result {
    write!(f, "{name}(")?;
    for (at, one) in all.iter().enumerate() {
        write!(f, "{}{one}", if at == 0 { "" } else { ", " })?;
    }
    f.write_str(")")
}

/// How an instance may end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ending {
    /// What the output may be; without one it does not complete.
    pub(crate) output: Option<Vec<Expected>>,
    /// The message with which it fails instead.
    pub(crate) failure: Option<String>,
    /// Whether it may, or must, be ended from outside.
    pub(crate) terminated: bool,
    custom_status: Option<u32>,
}

impl Ending {
    /// How many endings are allowed.
    pub(crate) fn count(&self) -> u64 {
        let output = self.output.as_ref().map_or(0, |output| count(output));
        output + u64::from(self.failure.is_some()) + u64::from(self.terminated)
    }

    /// What is wrong with the final record of an instance.
    pub(crate) fn check(&self, record: &Record) -> Result<(), String> {
        match (record.status, &self.output, &self.failure) {
            (Status::Terminated, ..) if self.terminated => return Ok(()),
            (Status::Completed, Some(expected), _) => {
                let output = record.details.output().map_or("", |output| output.as_str());
                let output: Vec<Seen> =
                    serde_json::from_str(output).map_err(|error| format!("no output: {error}"))?;
                check_output(expected, &output)?;
            }
            (Status::Failed, _, Some(failure)) => {
                let message = reason(record);
                if message != *failure {
                    return Err(format!("failed with {message:?} instead of {failure:?}"));
                }
            }
            (status, ..) => {
                return Err(format!("ended as {status:?} ({}) instead of: {self}", reason(record)));
            }
        }
        let expected = self.custom_status.map(|status| status.to_string());
        let found = record.details.custom_status().map(|status| status.as_str().to_owned());
        if found == expected {
            Ok(())
        } else {
            Err(format!("the custom status is {found:?} instead of {expected:?}"))
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} allowed:", self.count())?;
        if let Some(output) = &self.output {
            list(f, " Completed", output)?;
        }
        if let Some(failure) = &self.failure {
            write!(f, " Failed({failure:?})")?;
        }
        if self.terminated {
            f.write_str(" Terminated")?;
        }
        Ok(())
    }
}

fn check_output(expected: &[Expected], output: &[Seen]) -> Result<(), String> {
    if output.len() != expected.len() {
        return Err(format!("the output has {} entries instead of {}", output.len(), expected.len()));
    }
    match expected.iter().zip(output).enumerate().find(|(_, (one, seen))| !one.admits(seen)) {
        Some((at, (one, seen))) => Err(format!("entry {at}: {seen:?} instead of {one}")),
        None => Ok(()),
    }
}

/// How a member of a family may end. `modern` when it runs the new code; `terminated` when somebody asks for its end,
/// or for that of the instance it descends from.
pub(crate) fn ending(member: Member<'_>, modern: bool, terminated: bool) -> Ending {
    match member {
        Member::Program(program) => {
            let endless = program.steps.contains(&Step::Forever);
            let failure = fails(program);
            let output = (failure.is_none() && !endless).then(|| output(program, modern));
            Ending { output, failure, terminated, custom_status: last_status(program) }
        }
        Member::Reuse(calls) => {
            Ending { output: Some(attempts(calls)), failure: None, terminated, custom_status: None }
        }
        Member::Prey => Ending { output: None, failure: None, terminated: true, custom_status: None },
    }
}

/// The message with which the program fails, if it does: that depends on nothing but the program.
fn fails(program: &Program) -> Option<String> {
    match program.steps.last() {
        Some(Step::Fail(code)) => Some(failure(*code)),
        _ => None,
    }
}

/// The output of a program that does not fail.
fn output(program: &Program, modern: bool) -> Vec<Expected> {
    let rounds = (0..program.rounds).flat_map(|round| program.steps.iter().map(move |step| (round, step)));
    rounds.map(|(round, step)| expected(step, round, modern)).collect()
}

fn expected(step: &Step, round: u32, modern: bool) -> Expected {
    let work = |value: i64| match worked(value, modern) {
        Ok(result) => Seen::Value(result),
        Err(message) => Seen::Refused(message),
    };
    let event = |event: usize, number: u32| Seen::Event(event_value(event, number));
    Expected::One(match step {
        Step::Call(value) => work(*value),
        Step::FanOut(values) => Seen::All(values.iter().copied().map(work).collect()),
        Step::Retry(flaky) => tried(*flaky),
        Step::Reuse { calls, .. } => return Expected::Child(attempts(calls)),
        Step::Race(_, Rival::Activity(value)) => return Expected::Either(Seen::Timer, work(*value)),
        Step::Race(_, Rival::Event(rival)) => return Expected::Either(Seen::Timer, event(*rival, round)),
        Step::Wait(wait) | Step::Ask(wait, _) => event(*wait, round),
        Step::Collect(wait, count) => {
            Seen::All((round * count..(round + 1) * count).map(|number| event(*wait, number)).collect())
        }
        Step::Sleep(_) => Seen::Slept,
        Step::Status(_) => Seen::Reported,
        Step::Detach(_) => Seen::Detached,
        Step::Children(children) => {
            let child = |child: &Program| match fails(child) {
                Some(message) => Expected::One(Seen::Failed(message)),
                None => Expected::Child(output(child, modern)),
            };
            return Expected::All(children.iter().map(child).collect());
        }
        // Nothing comes of these: no such program has an output.
        Step::Fail(_) | Step::Forever => Seen::Failed("nothing comes of it".into()),
    })
}

/// What a call comes to that is tried again.
fn tried(flaky: Flaky) -> Seen {
    let last = flaky.failures.min(ATTEMPTS_MAX - 1) as usize;
    match foreign::attempt(flaky, last) {
        Ok(value) => Seen::Value(value),
        Err(message) => Seen::Refused(message),
    }
}

fn attempts(calls: &[Flaky]) -> Vec<Expected> {
    calls.iter().map(|flaky| Expected::One(tried(*flaky))).collect()
}

/// The custom status at the end: the last one of the last round, because a new run begins without any.
fn last_status(program: &Program) -> Option<u32> {
    let status = |step: &Step| match step {
        Step::Status(status) => Some(*status),
        _ => None,
    };
    program.steps.iter().rev().find_map(status)
}

fn reason(record: &Record) -> String {
    let details = record.details.failure().and_then(|failure| failure.decode::<TaskFailureDetails>().ok());
    details.map(|details| details.error_message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(program: &Program, output: &[Seen]) -> bool {
        let ending = ending(Member::Program(program), false, false);
        check_output(&ending.output.unwrap(), output).is_err()
    }

    fn allowed(program: &Program) -> u64 {
        ending(Member::Program(program), false, false).count()
    }

    #[test]
    fn a_program_without_races_has_one_output() {
        let steps = vec![Step::Call(3), Step::Wait(1), Step::Call(-4)];
        let calls = Program { rounds: 2, tells: None, steps };
        let refused = || Seen::Refused("-4 is refused".into());
        let right = vec![
            Seen::Value(7),
            Seen::Event(1_000),
            refused(),
            Seen::Value(7),
            Seen::Event(1_001),
            refused(),
        ];
        assert_eq!((allowed(&calls), wrong(&calls, &right)), (1, false));
        for at in 0..right.len() {
            let mut other = right.clone();
            other[at] = Seen::Value(99);
            assert!(wrong(&calls, &other), "entry {at}");
            other.remove(at);
            assert!(wrong(&calls, &other), "without entry {at}");
        }
        let mut swapped = right;
        swapped.swap(1, 4);
        assert!(wrong(&calls, &swapped), "events come in their order");
    }

    #[test]
    fn a_race_allows_its_two_outcomes_and_no_third() {
        let race = Program::once(vec![Step::Race(5, Rival::Activity(1)), Step::Race(5, Rival::Event(0))]);
        assert_eq!(allowed(&race), 4);
        let event = Seen::Event(0);
        for (seen, right) in [(Seen::Timer, true), (Seen::Value(3), true), (Seen::Value(4), false)] {
            assert_eq!(!wrong(&race, &[seen.clone(), event.clone()]), right, "{seen:?}");
        }
    }

    #[test]
    fn a_child_is_checked_like_its_parent() {
        let failing = Program::once(vec![Step::Fail(1)]);
        let child = Program::once(vec![Step::Call(1)]);
        let parent = Program::once(vec![Step::Children(vec![child, failing])]);
        let answers = |value: i64, code: u32| {
            vec![Seen::All(vec![Seen::Child(vec![Seen::Value(value)]), Seen::Failed(failure(code))])]
        };
        assert!(!wrong(&parent, &answers(3, 1)));
        assert!(wrong(&parent, &answers(4, 1)) && wrong(&parent, &answers(3, 2)));
    }

    #[test]
    fn retries_give_the_first_success_or_the_last_failure() {
        let tries = |failures| tried(Flaky { value: 1, failures });
        assert_eq!((tries(0), tries(2)), (Seen::Value(8), Seen::Value(8)));
        assert_eq!(tries(3), Seen::Refused("attempt 2 of 1 fails".into()));
    }

    #[test]
    fn what_never_ends_has_to_be_terminated() {
        let endless = Program::once(vec![Step::Call(1)]).endless();
        let ending = ending(Member::Program(&endless), false, true);
        assert_eq!((ending.output.is_none(), ending.count()), (true, 1));
        assert_eq!(ending.to_string(), "1 allowed: Terminated");
    }
}
