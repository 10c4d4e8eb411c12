//! The code that every worker of a storm runs. Each orchestration says where it is, so that work done twice is seen.

use std::ops::ControlFlow;
use std::time::Duration;

use dauer::{
    Activity, ActivityContext, Error, Event, InstanceId, Orchestration, OrchestrationContext, Result,
    WorkerBuilder,
};
use futures::future::{Either, join_all, select};
use serde::{Deserialize, Serialize};

use crate::voice::{self, Fact, passed};

/// Keeps the values small enough to be read by people.
const MODULUS: i64 = 1_000_003;

/// How long the turn of a thinker takes: time for its parent to hear of it and to stop the process in its middle.
const THINKING: Duration = Duration::from_millis(300);

/// What an activity is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) value: i64,
    /// How long it takes.
    pub(crate) millis: u64,
}

/// A timer against an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Race {
    pub(crate) timer_millis: u64,
    pub(crate) work_millis: u64,
}

/// Events to be taken one by one, each in an execution of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rounds {
    pub(crate) left: u32,
    pub(crate) seen: Vec<i64>,
}

pub(crate) const CHAIN: Orchestration<Vec<Job>, i64> = Orchestration::new("chain");
pub(crate) const FAN: Orchestration<Vec<Job>, i64> = Orchestration::new("fan");
pub(crate) const RACE: Orchestration<Race, Option<i64>> = Orchestration::new("race");
pub(crate) const FAMILY: Orchestration<Vec<Vec<Job>>, i64> = Orchestration::new("family");
pub(crate) const ROUNDS: Orchestration<Rounds, Vec<i64>> = Orchestration::new("rounds");
pub(crate) const PATIENT: Orchestration<bool, i64> = Orchestration::new("patient");
pub(crate) const THINKER: Orchestration<i64, i64> = Orchestration::new("thinker");
pub(crate) const BROKEN: Orchestration<Job, i64> = Orchestration::new("broken");
const WORK: Activity<Job, i64> = Activity::new("work");
const REFUSE: Activity<Job, i64> = Activity::new("refuse");
/// Carries a number to a race or a round.
pub(crate) const NUMBER: Event<i64> = Event::new("number");
/// Never raised.
const NEVER: Event<i64> = Event::new("never");

/// What an activity makes of a value.
pub(crate) fn worked(value: i64) -> i64 {
    (value * 3 + 1) % MODULUS
}

/// What a chain makes of its jobs.
pub(crate) fn chained(jobs: &[Job]) -> i64 {
    jobs.iter().fold(0, |total, job| worked(total + job.value))
}

/// With what message a broken orchestration fails.
pub(crate) fn refusal(value: i64) -> String {
    format!("{value} is refused")
}

/// The id of a child.
pub(crate) fn child_id(parent: &str, number: usize) -> String {
    format!("{parent}.child{number}")
}

/// Which part of the code a worker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Code {
    /// All of it.
    All,
    /// Only the orchestrations.
    Orchestrations,
    /// Only the activities.
    Activities,
    /// Nothing that anybody asks for.
    Bystander,
}

impl Code {
    /// Gives a worker its code. With `attempts_show` an activity gives another value when it is tried again: a fault
    /// that storms must find, because no activity may be sure to run once.
    pub(crate) fn register(self, worker: WorkerBuilder, attempts_show: bool) -> WorkerBuilder {
        match self {
            Self::All => activities(orchestrations(worker), attempts_show),
            Self::Orchestrations => orchestrations(worker),
            Self::Activities => activities(worker, attempts_show),
            Self::Bystander => worker.orchestration(Orchestration::<i64, i64>::new("bystander"), bystand),
        }
    }
}

fn orchestrations(worker: WorkerBuilder) -> WorkerBuilder {
    worker
        .orchestration(CHAIN, chain)
        .orchestration(FAN, fan)
        .orchestration(RACE, race)
        .orchestration(FAMILY, family)
        .orchestration(ROUNDS, rounds)
        .orchestration(PATIENT, patient)
        .orchestration(THINKER, think)
        .orchestration(BROKEN, broken)
}

fn activities(worker: WorkerBuilder, attempts_show: bool) -> WorkerBuilder {
    let work = move |context: ActivityContext, job: Job| async move {
        voice::say(Fact::Begun(voice::call(&context)));
        tokio::time::sleep(Duration::from_millis(job.millis)).await;
        voice::say(Fact::Finished(voice::call(&context)));
        let error = if attempts_show && context.attempt() > 1 { 1 } else { 0 };
        Ok(worked(job.value) + error)
    };
    worker.activity(WORK, work).activity(REFUSE, refuse)
}

async fn refuse(context: ActivityContext, job: Job) -> Result<i64> {
    voice::say(Fact::Begun(voice::call(&context)));
    tokio::time::sleep(Duration::from_millis(job.millis)).await;
    voice::say(Fact::Finished(voice::call(&context)));
    Err(Error::fatal(refusal(job.value)))
}

async fn bystand(_: OrchestrationContext, value: i64) -> Result<i64> {
    Ok(value)
}

async fn chain(context: OrchestrationContext, jobs: Vec<Job>) -> Result<i64> {
    let mut total = 0;
    for (step, job) in (0..).zip(jobs) {
        passed(&context, step);
        total = context.call(WORK, &Job { value: total + job.value, ..job }).await?;
    }
    passed(&context, u32::MAX);
    Ok(total)
}

async fn fan(context: OrchestrationContext, jobs: Vec<Job>) -> Result<i64> {
    passed(&context, 0);
    let results = join_all(jobs.iter().map(|job| context.call(WORK, job))).await;
    passed(&context, 1);
    let mut sum = 0;
    for result in results {
        sum += result?;
    }
    Ok(sum)
}

async fn race(context: OrchestrationContext, race: Race) -> Result<Option<i64>> {
    passed(&context, 0);
    let timer = context.sleep(Duration::from_millis(race.timer_millis));
    let value = match select(timer, context.event(NUMBER)).await {
        Either::Left(_) => None,
        Either::Right((value, _)) => Some(value?),
    };
    passed(&context, 1);
    let Some(value) = value else { return Ok(None) };
    let done = context.call(WORK, &Job { value, millis: race.work_millis }).await?;
    passed(&context, 2);
    Ok(Some(done))
}

async fn family(context: OrchestrationContext, children: Vec<Vec<Job>>) -> Result<i64> {
    passed(&context, 0);
    let calls = children.iter().enumerate().map(|(number, jobs)| {
        let id = InstanceId::new(child_id(context.instance().as_str(), number));
        let call = context.call_orchestration(CHAIN, jobs);
        async move { Ok::<i64, Error>(call.instance(&id?).await?) }
    });
    let results = join_all(calls).await;
    passed(&context, 1);
    let mut sum = 0;
    for result in results {
        sum += result?;
    }
    Ok(sum)
}

async fn rounds(context: OrchestrationContext, state: Rounds) -> Result<ControlFlow<Vec<i64>, Rounds>> {
    let Rounds { left, mut seen } = state;
    if left == 0 {
        passed(&context, 0);
        return Ok(ControlFlow::Break(seen));
    }
    passed(&context, 0);
    let value = context.event(NUMBER).await?;
    passed(&context, 1);
    seen.push(context.call(WORK, &Job { value, millis: 1 }).await?);
    passed(&context, 2);
    Ok(ControlFlow::Continue(Rounds { left: left - 1, seen }))
}

/// Waits for what never comes, and has a child that does the same when `has_child`.
async fn patient(context: OrchestrationContext, has_child: bool) -> Result<i64> {
    passed(&context, 0);
    if has_child {
        let id = InstanceId::new(child_id(context.instance().as_str(), 0))?;
        return Ok(context.call_orchestration(PATIENT, &false).instance(&id).await?);
    }
    Ok(context.event(NEVER).await?)
}

async fn broken(context: OrchestrationContext, job: Job) -> Result<i64> {
    passed(&context, 0);
    let value = context.call(WORK, &job).await?;
    passed(&context, 1);
    Ok(context.call(REFUSE, &Job { value, ..job }).await?)
}

/// Takes its time between two awaits, as no orchestration should: whoever stops the process then has stopped it between
/// a claim and its commit.
async fn think(context: OrchestrationContext, value: i64) -> Result<i64> {
    passed(&context, 0);
    if !context.is_replaying() {
        std::thread::sleep(THINKING);
    }
    let value = context.call(WORK, &Job { value, millis: 1 }).await?;
    passed(&context, 1);
    Ok(value)
}
