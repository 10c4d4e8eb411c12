//! The one orchestration and the one activity that run every random program, on the real replay.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauer_replay::{
    Activity, ActivityContext, CallError, Error, Event, Orchestration, OrchestrationContext, RegisterError,
    Registry, Result,
};
use dauer_store::{ExecutionId, InstanceId};
use futures::future::{Either, join_all, select};
use serde::{Deserialize, Serialize};

use crate::program::{EVENT_NAMES, Program, Rival, Step, child_id};
use crate::unpoisoned;

/// The orchestration that interprets programs.
pub(crate) const PROGRAM: Orchestration<Input, Vec<Seen>> = Orchestration::new("program");

const WORK: Activity<i64, i64> = Activity::new("work");

/// What the orchestration is started with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Input {
    pub(crate) program: Program,
    pub(crate) round: u32,
    pub(crate) seen: Vec<Seen>,
}

impl Input {
    pub(crate) fn first(program: Program) -> Self {
        Self { program, round: 0, seen: Vec::new() }
    }
}

/// What a step came to. All of them together are the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Seen {
    /// The activity gave a value.
    Value(i64),
    /// The activity failed with a message.
    Refused(String),
    /// All that came of what was done at once, in the order of the calls.
    All(Vec<Seen>),
    /// The timer won the race.
    Timer,
    /// The event carried that.
    Event(i64),
    /// The child gave its output.
    Child(Vec<Seen>),
    /// The child failed with a message.
    Failed(String),
    /// The sleep is over.
    Slept,
    /// The status was reported.
    Reported,
}

/// How often each call of an activity was executed.
pub(crate) type Effects = Arc<Mutex<BTreeMap<(InstanceId, ExecutionId, i32), u32>>>;

/// What an activity makes of a value.
pub(crate) fn worked(value: i64) -> Result<i64, String> {
    if value < 0 { Err(format!("{value} is refused")) } else { Ok(value * 2 + 1) }
}

/// The code of every host.
pub(crate) fn registry(effects: &Effects) -> Result<Registry, RegisterError> {
    let effects = Arc::clone(effects);
    let mut registry = Registry::new();
    registry.orchestration(PROGRAM, run)?;
    registry.activity(WORK, move |context: ActivityContext, value: i64| {
        let key = (context.instance().clone(), context.execution(), context.task_id());
        *unpoisoned(&effects).entry(key).or_default() += 1;
        async move { worked(value).map_err(Error::msg) }
    })?;
    Ok(registry)
}

async fn run(context: OrchestrationContext, input: Input) -> Result<ControlFlow<Vec<Seen>, Input>> {
    let Input { program, round, mut seen } = input;
    for (at, step) in program.steps.iter().enumerate() {
        seen.push(take(&context, step, round, at).await?);
    }
    if round + 1 < program.rounds {
        return Ok(ControlFlow::Continue(Input { program, round: round + 1, seen }));
    }
    Ok(ControlFlow::Break(seen))
}

async fn take(context: &OrchestrationContext, step: &Step, round: u32, at: usize) -> Result<Seen> {
    Ok(match step {
        Step::Call(value) => called(context.call(WORK, value).await)?,
        Step::FanOut(values) => {
            let results = join_all(values.iter().map(|value| context.call(WORK, value))).await;
            Seen::All(results.into_iter().map(called).collect::<Result<_>>()?)
        }
        Step::Race(millis, rival) => race(context, Duration::from_millis(*millis), rival).await?,
        Step::Children(programs) => {
            let children = programs.iter().enumerate().map(|(number, program)| {
                let id = child_id(context.instance(), round, at, number);
                async move {
                    let id = id.ok_or_else(|| Error::fatal("the child's id is too long"))?;
                    let input = Input::first(program.clone());
                    match context.call_orchestration(PROGRAM, &input).instance(&id).await {
                        Ok(seen) => Ok(Seen::Child(seen)),
                        Err(CallError::Failed(failure)) => Ok(Seen::Failed(failure.message)),
                        Err(error) => Err(error.into()),
                    }
                }
            });
            Seen::All(join_all(children).await.into_iter().collect::<Result<_>>()?)
        }
        Step::Sleep(timers) => {
            join_all(timers.iter().map(|millis| context.sleep(Duration::from_millis(*millis)))).await;
            Seen::Slept
        }
        Step::Wait(event) => Seen::Event(context.event(event_name(*event)).await?),
        Step::Status(status) => {
            context.set_status(status);
            Seen::Reported
        }
        Step::Fail(code) => return Err(Error::msg(failure(*code))),
    })
}

/// The message with which a program fails.
pub(crate) fn failure(code: u32) -> String {
    format!("failed with {code}")
}

fn event_name(event: usize) -> Event<i64> {
    Event::new(EVENT_NAMES[event % EVENT_NAMES.len()])
}

fn called(result: std::result::Result<i64, CallError>) -> Result<Seen> {
    match result {
        Ok(value) => Ok(Seen::Value(value)),
        Err(CallError::Failed(failure)) => Ok(Seen::Refused(failure.message)),
        Err(error) => Err(error.into()),
    }
}

async fn race(context: &OrchestrationContext, timer: Duration, rival: &Rival) -> Result<Seen> {
    let timer = context.sleep(timer);
    match rival {
        Rival::Activity(value) => match select(timer, context.call(WORK, value)).await {
            Either::Left(_) => Ok(Seen::Timer),
            Either::Right((result, _)) => called(result),
        },
        Rival::Event(event) => match select(timer, context.event(event_name(*event))).await {
            Either::Left(_) => Ok(Seen::Timer),
            Either::Right((value, _)) => Ok(Seen::Event(value?)),
        },
    }
}
