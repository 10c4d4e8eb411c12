//! The model: what a program may come to, computed without hosts, stores, faults or time. Programs without races have
//! exactly one outcome; a race allows both of its own.

use dauer_proto::TaskFailureDetails;
use dauer_store::{Record, Status};

use crate::interpret::{Seen, failure, worked};
use crate::program::{Program, Rival, Step, event_value};

/// The message with which the program fails, if it does: that depends on nothing but the program.
fn fails(program: &Program) -> Option<String> {
    match program.steps.last() {
        Some(Step::Fail(code)) => Some(failure(*code)),
        _ => None,
    }
}

/// What is wrong with the output of a program that did not fail.
fn check_output(program: &Program, output: &[Seen]) -> Result<(), String> {
    let expected = program.steps.len() * program.rounds as usize;
    if output.len() != expected {
        return Err(format!("the output has {} entries instead of {expected}", output.len()));
    }
    let rounds = (0..program.rounds).flat_map(|round| program.steps.iter().map(move |step| (round, step)));
    for ((round, step), seen) in rounds.zip(output) {
        check_step(step, round, seen).map_err(|wrong| format!("{step:?} in round {round}: {wrong}"))?;
    }
    Ok(())
}

fn check_step(step: &Step, round: u32, seen: &Seen) -> Result<(), String> {
    let timer = matches!(seen, Seen::Timer);
    let one = match step {
        Step::Call(value) => of_work(*value),
        Step::FanOut(values) => Seen::All(values.iter().copied().map(of_work).collect()),
        Step::Race(..) if timer => Seen::Timer,
        Step::Race(_, Rival::Activity(value)) => of_work(*value),
        Step::Race(_, Rival::Event(event)) | Step::Wait(event) => Seen::Event(event_value(*event, round)),
        Step::Sleep(_) => Seen::Slept,
        Step::Status(_) => Seen::Reported,
        Step::Children(children) => return check_children(children, seen),
        Step::Fail(_) => return Err("nothing comes after a failure".into()),
    };
    if one == *seen { Ok(()) } else { Err(format!("{seen:?} instead of {one:?}")) }
}

fn check_children(children: &[Program], seen: &Seen) -> Result<(), String> {
    let Seen::All(answers) = seen else { return Err(format!("{seen:?} instead of the children's answers")) };
    if answers.len() != children.len() {
        return Err(format!("{} answers of {} children", answers.len(), children.len()));
    }
    for (child, answer) in children.iter().zip(answers) {
        match (fails(child), answer) {
            (None, Seen::Child(output)) => check_output(child, output)?,
            (Some(message), Seen::Failed(found)) if message == *found => {}
            (expected, found) => return Err(format!("{found:?} of a child that fails with {expected:?}")),
        }
    }
    Ok(())
}

fn of_work(value: i64) -> Seen {
    match worked(value) {
        Ok(result) => Seen::Value(result),
        Err(message) => Seen::Refused(message),
    }
}

/// The custom status at the end: the last one of the last round, because a new run begins without any.
fn last_status(program: &Program) -> Option<u32> {
    let status = |step: &Step| match step {
        Step::Status(status) => Some(*status),
        _ => None,
    };
    program.steps.iter().rev().find_map(status)
}

/// What is wrong with the final record of a program's instance. `terminated` when somebody asked for its end, or for
/// its parent's.
pub(crate) fn check(program: &Program, record: &Record, terminated: bool) -> Result<(), String> {
    match record.status {
        Status::Terminated if terminated => return Ok(()),
        Status::Completed if fails(program).is_none() => {
            let output = record.output.as_ref().map_or("", |output| output.as_str());
            let output: Vec<Seen> =
                serde_json::from_str(output).map_err(|error| format!("no output: {error}"))?;
            check_output(program, &output)?;
        }
        Status::Failed if fails(program).is_some() => {
            let details = record.failure.as_ref().map(|failure| failure.decode::<TaskFailureDetails>());
            let message = details.and_then(Result::ok).map(|details| details.error_message);
            if message != fails(program) {
                return Err(format!("failed with {message:?} instead of {:?}", fails(program)));
            }
        }
        status => return Err(format!("ended as {status:?}: {}", reason(record))),
    }
    let expected = last_status(program).map(|status| status.to_string());
    let found = record.custom_status.as_ref().map(|status| status.as_str().to_owned());
    if found == expected {
        Ok(())
    } else {
        Err(format!("the custom status is {found:?} instead of {expected:?}"))
    }
}

fn reason(record: &Record) -> String {
    let details = record.failure.as_ref().and_then(|failure| failure.decode::<TaskFailureDetails>().ok());
    details.map(|details| details.error_message).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(rounds: u32, steps: Vec<Step>) -> Program {
        Program { rounds, steps }
    }

    #[test]
    fn a_program_without_races_has_one_output() {
        let calls = program(2, vec![Step::Call(3), Step::Wait(1), Step::Call(-4)]);
        let refused = || Seen::Refused("-4 is refused".into());
        let right = vec![
            Seen::Value(7),
            Seen::Event(1_000),
            refused(),
            Seen::Value(7),
            Seen::Event(1_001),
            refused(),
        ];
        assert_eq!(check_output(&calls, &right), Ok(()));
        for at in 0..right.len() {
            let mut wrong = right.clone();
            wrong[at] = Seen::Value(99);
            assert!(check_output(&calls, &wrong).is_err(), "entry {at}");
            wrong.remove(at);
            assert!(check_output(&calls, &wrong).is_err(), "without entry {at}");
        }
        let mut swapped = right;
        swapped.swap(1, 4);
        assert!(check_output(&calls, &swapped).is_err(), "events come in their order");
    }

    #[test]
    fn a_race_allows_its_two_outcomes_and_no_third() {
        let race = program(1, vec![Step::Race(5, Rival::Activity(1))]);
        for (seen, allowed) in [(Seen::Timer, true), (Seen::Value(3), true), (Seen::Value(4), false)] {
            assert_eq!(check_output(&race, std::slice::from_ref(&seen)).is_ok(), allowed, "{seen:?}");
        }
    }

    #[test]
    fn a_child_is_checked_like_its_parent() {
        let family = |child| program(1, vec![Step::Children(vec![program(1, vec![child])])]);
        let answers = |seen| [Seen::All(vec![seen])];
        let calling = family(Step::Call(1));
        assert_eq!(check_output(&calling, &answers(Seen::Child(vec![Seen::Value(3)]))), Ok(()));
        assert!(check_output(&calling, &answers(Seen::Child(vec![Seen::Value(4)]))).is_err());
        assert!(check_output(&calling, &[Seen::All(Vec::new())]).is_err());
        let failing = family(Step::Fail(2));
        assert_eq!(check_output(&failing, &answers(Seen::Failed("failed with 2".into()))), Ok(()));
        assert!(check_output(&failing, &answers(Seen::Failed("failed with 3".into()))).is_err());
        assert!(check_output(&failing, &answers(Seen::Child(Vec::new()))).is_err());
    }
}
