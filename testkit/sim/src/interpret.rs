//! The one orchestration and the activities that run every random program, on the real replay.

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

use crate::errand;
use crate::foreign::{self, Calls, REUSING};
use crate::program::{ATTEMPT_PAUSE, ATTEMPTS_MAX, EVENT_NAMES, Flaky, Program, Rival, Step};
use crate::program::{child_id, event_value, parent_of};
use crate::unpoisoned;

/// The orchestration that interprets programs.
pub(crate) const PROGRAM: Orchestration<Input, Vec<Seen>> = Orchestration::new("program");

/// The version of its code that only new hosts have.
pub(crate) const MODERN: &str = "2";

/// The orchestration of the other worker.
const REUSE: Orchestration<Calls, Vec<Seen>> = Orchestration::new(REUSING);

const WORK: Activity<i64, i64> = Activity::new("work");
/// What the new code calls instead; old hosts do not have it.
const WORK_MODERN: Activity<i64, i64> = Activity::new("work-2");
const FLAKY: Activity<(Flaky, u32), i64> = Activity::new("flaky");
const NEVER: Event<i64> = Event::new("never");

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
    /// The child was started.
    Detached,
}

/// One call of an activity: the task, and how many were scheduled under the same id before.
pub(crate) type Effect = (InstanceId, ExecutionId, i32, usize);

/// How often each call of an activity was executed.
pub(crate) type Effects = Arc<Mutex<BTreeMap<Effect, u32>>>;

/// What an activity makes of a value. The new code's makes something else of it.
pub(crate) fn worked(value: i64, modern: bool) -> Result<i64, String> {
    match (value < 0, modern) {
        (true, _) => Err(format!("{value} is refused")),
        (false, false) => Ok(value * 2 + 1),
        (false, true) => Ok(value * 3 + 2),
    }
}

/// Notes that an activity was executed.
pub(crate) fn note_effect(effects: &Effects, effect: Effect) {
    *unpoisoned(effects).entry(effect).or_default() += 1;
}

/// The code of every host; without the new version when it is old.
pub(crate) fn registry(effects: &Effects, modern: bool) -> Result<Registry, RegisterError> {
    let mut registry = Registry::new();
    errand::register(&mut registry)?;
    registry.orchestration(PROGRAM, run)?;
    let noted = |effects: &Effects| {
        let effects = Arc::clone(effects);
        move |context: ActivityContext| {
            note_effect(&effects, (context.instance().clone(), context.execution(), context.task_id(), 0));
        }
    };
    let note = noted(effects);
    registry.activity(WORK, move |context: ActivityContext, value: i64| {
        note(context);
        async move { worked(value, false).map_err(Error::msg) }
    })?;
    let note = noted(effects);
    registry.activity(FLAKY, move |context: ActivityContext, (flaky, earlier): (Flaky, u32)| {
        note(context);
        async move { foreign::attempt(flaky, earlier as usize).map_err(Error::msg) }
    })?;
    if modern {
        registry.orchestration(PROGRAM.version(MODERN), run)?;
        let note = noted(effects);
        registry.activity(WORK_MODERN, move |context: ActivityContext, value: i64| {
            note(context);
            async move { worked(value, true).map_err(Error::msg) }
        })?;
    }
    Ok(registry)
}

async fn run(context: OrchestrationContext, input: Input) -> Result<ControlFlow<Vec<Seen>, Input>> {
    let Input { program, round, mut seen } = input;
    if let (Some(event), 0) = (program.tells, round) {
        let (parent, its_round) =
            parent_of(context.instance()).ok_or_else(|| Error::fatal("it has nobody to tell"))?;
        context.send_event(&parent, event_name(event), &event_value(event, its_round));
    }
    for (at, step) in program.steps.iter().enumerate() {
        seen.push(take(&context, step, round, at).await?);
    }
    if round + 1 < program.rounds {
        return Ok(ControlFlow::Continue(Input { program, round: round + 1, seen }));
    }
    Ok(ControlFlow::Break(seen))
}

async fn take(context: &OrchestrationContext, step: &Step, round: u32, at: usize) -> Result<Seen> {
    let id = |number| {
        child_id(context.instance(), round, at, number)
            .ok_or_else(|| Error::fatal("the child's id is too long"))
    };
    Ok(match step {
        Step::Call(value) => called(work(context, *value).await)?,
        Step::FanOut(values) => {
            let results = join_all(values.iter().map(|value| work(context, *value))).await;
            Seen::All(results.into_iter().map(called).collect::<Result<_>>()?)
        }
        Step::Retry(flaky) => retry(context, *flaky).await?,
        Step::Reuse { calls, hunts } => {
            reuse(context, calls, (id(0)?, hunts.then(|| id(1)).transpose()?)).await?
        }
        Step::Race(millis, rival) => race(context, Duration::from_millis(*millis), rival).await?,
        Step::Children(programs) => {
            let children = programs.iter().enumerate().map(|(number, program)| {
                let id = id(number);
                async move {
                    let input = Input::first(program.clone());
                    child(context.call_orchestration(PROGRAM, &input).instance(&id?).await)
                }
            });
            Seen::All(join_all(children).await.into_iter().collect::<Result<_>>()?)
        }
        Step::Detach(program) => {
            detach(context, program, &id(0)?);
            Seen::Detached
        }
        Step::Ask(event, program) => {
            detach(context, program, &id(0)?);
            Seen::Event(context.event(event_name(*event)).await?)
        }
        Step::Sleep(timers) => {
            join_all(timers.iter().map(|millis| context.sleep(Duration::from_millis(*millis)))).await;
            Seen::Slept
        }
        Step::Wait(event) => Seen::Event(context.event(event_name(*event)).await?),
        Step::Collect(event, count) => {
            let mut all = Vec::new();
            for _ in 0..*count {
                all.push(Seen::Event(context.event(event_name(*event)).await?));
            }
            Seen::All(all)
        }
        Step::Status(status) => {
            context.set_status(status);
            Seen::Reported
        }
        Step::Fail(code) => return Err(Error::msg(failure(*code))),
        Step::Forever => Seen::Event(context.event(NEVER).await?),
    })
}

async fn work(context: &OrchestrationContext, value: i64) -> Result<i64, CallError> {
    let modern = context.version() == Some(MODERN);
    context.call(if modern { WORK_MODERN } else { WORK }, &value).await
}

fn detach(context: &OrchestrationContext, program: &Program, id: &InstanceId) {
    // Dropped at once: it goes on, and its result is ignored.
    drop(context.call_orchestration(PROGRAM, &Input::first(program.clone())).instance(id).start());
}

async fn retry(context: &OrchestrationContext, flaky: Flaky) -> Result<Seen> {
    let mut earlier = 0;
    loop {
        let answer = called(context.call(FLAKY, &(flaky, earlier)).await)?;
        earlier += 1;
        if matches!(answer, Seen::Value(_)) || earlier == ATTEMPTS_MAX {
            return Ok(answer);
        }
        context.sleep(ATTEMPT_PAUSE).await;
    }
}

async fn reuse(
    context: &OrchestrationContext,
    calls: &[Flaky],
    (id, prey): (InstanceId, Option<InstanceId>),
) -> Result<Seen> {
    if let Some(prey) = &prey {
        detach(context, &Program::once(vec![Step::Forever]), prey);
    }
    let input = Calls { calls: calls.to_vec(), prey: prey.map(|prey| prey.to_string()) };
    child(context.call_orchestration(REUSE, &input).instance(&id).await)
}

fn child(answer: std::result::Result<Vec<Seen>, CallError>) -> Result<Seen> {
    match answer {
        Ok(seen) => Ok(Seen::Child(seen)),
        Err(CallError::Failed(failure)) => Ok(Seen::Failed(failure.message)),
        Err(error) => Err(error.into()),
    }
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
        Rival::Activity(value) => match select(timer, Box::pin(work(context, *value))).await {
            Either::Left(_) => Ok(Seen::Timer),
            Either::Right((result, _)) => called(result),
        },
        Rival::Event(event) => match select(timer, context.event(event_name(*event))).await {
            Either::Left(_) => Ok(Seen::Timer),
            Either::Right((value, _)) => Ok(Seen::Event(value?)),
        },
    }
}
