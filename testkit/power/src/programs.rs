//! The work of a child: a few instances of every kind of step, and what must come of each.

use std::ops::ControlFlow;
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, Event, InstanceId, Orchestration, OrchestrationContext, RegisterError, Result,
};
use dauer_core::send::StartRequest;
use dauer_replay::Registry;
use futures::future::{Either, join_all, select};
use serde::Serialize;
use serde_json::Value;

use crate::error::Error;

const CHAIN: Orchestration<Vec<i64>, i64> = Orchestration::new("chain");
const FAN: Orchestration<Vec<i64>, i64> = Orchestration::new("fan");
const FAMILY: Orchestration<Vec<Vec<i64>>, i64> = Orchestration::new("family");
const RACE: Orchestration<i64, i64> = Orchestration::new("race");
const ROUNDS: Orchestration<(usize, i64), i64> = Orchestration::new("rounds");
const SLEEPER: Orchestration<i64, i64> = Orchestration::new("sleeper");
const WORK: Activity<i64, i64> = Activity::new("work");
/// Carries a number to a race or a round.
pub(crate) const NUMBER: Event<i64> = Event::new("number");

/// A timer that no run lives to see: it stays in the store when its race is over.
const FAR: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a sleeper sleeps: a timer that fires, and costs hardly any time.
const NAP: Duration = Duration::from_millis(3);

/// What one instance does.
#[derive(Debug, Clone)]
enum Program {
    /// One activity after the other.
    Chain(Vec<i64>),
    /// Activities beside each other.
    Fan(Vec<i64>),
    /// A chain for each, as children.
    Family(Vec<Vec<i64>>),
    /// An event against a timer.
    Race(i64),
    /// An event in each execution, then the next.
    Rounds(Vec<i64>),
    /// A timer, then an activity.
    Sleeper(i64),
}

/// One instance.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) id: &'static str,
    program: Program,
    /// The life of the store in which the child starts it.
    pub(crate) life: usize,
    /// Whether the child purges it in the life after that.
    pub(crate) purged: bool,
}

/// How often the child opens the store.
pub(crate) const LIVES: usize = 3;

/// All work of a run. The first life is short, so that the first few hundred calls have all of it: the file is made,
/// written, emptied of its log, and closed. The second has every kind of step. The third removes something.
pub(crate) fn cases() -> Vec<Case> {
    let case = |life, id, program| Case { id, program, life, purged: id == "first" };
    vec![
        case(0, "first", Program::Chain(vec![1, 2])),
        case(1, "chain", Program::Chain(vec![3, 4, 5])),
        case(1, "fan", Program::Fan(vec![6, 7, 8, 9, 10])),
        case(1, "family", Program::Family(vec![vec![11], vec![12, 13]])),
        case(1, "race", Program::Race(14)),
        case(1, "rounds", Program::Rounds(vec![15, 16])),
        case(1, "sleeper", Program::Sleeper(17)),
        case(2, "last", Program::Chain(vec![18, 19])),
    ]
}

fn worked(value: i64) -> i64 {
    value * 3 + 1
}

fn chained(values: &[i64]) -> i64 {
    values.iter().fold(0, |total, value| worked(total + value))
}

impl Case {
    /// What starts it.
    pub(crate) fn request(&self) -> Result<StartRequest, Error> {
        fn input<T: Serialize>(name: &str, input: &T) -> Result<(String, String), serde_json::Error> {
            Ok((name.to_owned(), serde_json::to_string(input)?))
        }
        let (name, input) = match &self.program {
            Program::Chain(values) => input(CHAIN.name(), values),
            Program::Fan(values) => input(FAN.name(), values),
            Program::Family(children) => input(FAMILY.name(), children),
            Program::Race(value) => input(RACE.name(), value),
            Program::Rounds(values) => input(ROUNDS.name(), &(values.len(), 0)),
            Program::Sleeper(value) => input(SLEEPER.name(), value),
        }?;
        Ok(StartRequest { input: Some(input), ..StartRequest::new(InstanceId::new(self.id)?, name) })
    }

    /// The numbers to be raised to it.
    pub(crate) fn numbers(&self) -> Vec<i64> {
        match &self.program {
            Program::Race(value) => vec![*value],
            Program::Rounds(values) => values.clone(),
            _ => Vec::new(),
        }
    }

    /// The outputs of it and its children.
    pub(crate) fn expected(&self) -> Vec<(String, Value)> {
        let own = |value: i64| (self.id.to_owned(), Value::from(value));
        match &self.program {
            Program::Chain(values) => vec![own(chained(values))],
            Program::Fan(values) | Program::Rounds(values) => {
                vec![own(values.iter().map(|value| worked(*value)).sum())]
            }
            Program::Family(children) => {
                let results: Vec<i64> = children.iter().map(|values| chained(values)).collect();
                let mut all = vec![own(results.iter().sum())];
                all.extend(
                    results.iter().enumerate().map(|(n, result)| (child(self.id, n), (*result).into())),
                );
                all
            }
            Program::Race(value) | Program::Sleeper(value) => vec![own(worked(*value))],
        }
    }
}

fn child(parent: &str, number: usize) -> String {
    format!("{parent}.{number}")
}

/// The code of all of it.
pub(crate) fn registry() -> Result<Registry, RegisterError> {
    let mut registry = Registry::new();
    registry
        .orchestration(CHAIN, chain)?
        .orchestration(FAN, fan)?
        .orchestration(FAMILY, family)?
        .orchestration(RACE, race)?
        .orchestration(ROUNDS, rounds)?
        .orchestration(SLEEPER, sleeper)?
        .activity(WORK, work)?;
    Ok(registry)
}

async fn work(_: ActivityContext, value: i64) -> Result<i64> {
    Ok(worked(value))
}

async fn chain(context: OrchestrationContext, values: Vec<i64>) -> Result<i64> {
    let mut total = 0;
    for value in values {
        total = context.call(WORK, &(total + value)).await?;
    }
    Ok(total)
}

async fn fan(context: OrchestrationContext, values: Vec<i64>) -> Result<i64> {
    let results = join_all(values.iter().map(|value| context.call(WORK, value))).await;
    let mut sum = 0;
    for result in results {
        sum += result?;
    }
    Ok(sum)
}

async fn family(context: OrchestrationContext, children: Vec<Vec<i64>>) -> Result<i64> {
    let calls = children.iter().enumerate().map(|(number, values)| {
        let id = InstanceId::new(child(context.instance().as_str(), number));
        let call = context.call_orchestration(CHAIN, values);
        async move { Ok::<i64, dauer::Error>(call.instance(&id?).await?) }
    });
    let mut sum = 0;
    for result in join_all(calls).await {
        sum += result?;
    }
    Ok(sum)
}

async fn race(context: OrchestrationContext, value: i64) -> Result<i64> {
    match select(context.sleep(FAR), context.event(NUMBER)).await {
        // The timer is a day away: whoever sees it sees a wrong output.
        Either::Left(_) => Ok(-1),
        Either::Right((number, _)) => {
            let number = number?;
            Ok(context.call(WORK, &(value.min(number))).await?)
        }
    }
}

async fn rounds(
    context: OrchestrationContext,
    (left, sum): (usize, i64),
) -> Result<ControlFlow<i64, (usize, i64)>> {
    if left == 0 {
        return Ok(ControlFlow::Break(sum));
    }
    let number = context.event(NUMBER).await?;
    let sum = sum + context.call(WORK, &number).await?;
    Ok(ControlFlow::Continue((left - 1, sum)))
}

async fn sleeper(context: OrchestrationContext, value: i64) -> Result<i64> {
    context.sleep(NAP).await;
    Ok(context.call(WORK, &value).await?)
}
