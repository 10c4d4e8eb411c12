//! The code that workers run: one orchestration that calls activities in stages, as a fold over its history.

use dauer_proto::{
    EventType, HistoryEvent, OrchestrationStatus, OrchestratorAction, OrchestratorRequest, action,
};
use dauer_store::Encoded;
use serde::{Deserialize, Serialize};

use crate::trace::hash;

/// The name of the orchestration.
pub(super) const PROGRAM: &str = "staged";

/// The name of its activities.
pub(super) const JOB: &str = "job";

/// What an answered job comes to that was recognised as what kills its workers.
pub(super) const CRASHED: &str = "ActivityCrashed";

/// One call of an activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Job {
    /// How long it takes.
    pub(super) ms: u64,
    /// It kills its worker after that many milliseconds.
    pub(super) kills: Option<u64>,
}

/// What an instance does: all jobs of a stage at once, one stage after the other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Program {
    pub(super) rounds: u32,
    pub(super) stages: Vec<Vec<Job>>,
    /// A turn of it kills its worker after that many milliseconds: the first, or the second.
    pub(super) kills: Option<(u64, bool)>,
}

impl Program {
    /// How long it takes at most where nothing goes wrong.
    pub(super) fn longest_ms(&self) -> u64 {
        let stage = |jobs: &Vec<Job>| jobs.iter().map(|job| job.ms).sum::<u64>();
        self.stages.iter().map(stage).sum::<u64>() * u64::from(self.rounds)
    }

    /// How many of its items kill their workers.
    pub(super) fn killers(&self) -> u32 {
        let jobs = self.stages.iter().flatten().filter(|job| job.kills.is_some()).count();
        u32::try_from(jobs).unwrap_or(u32::MAX) + u32::from(self.kills.is_some())
    }
}

/// The input of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Input {
    pub(super) instance: String,
    pub(super) life: usize,
    pub(super) round: u32,
    pub(super) program: Program,
}

/// The input of an activity.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Call {
    /// Names the call among all of a seed.
    pub(super) key: String,
    pub(super) job: Job,
}

impl Input {
    fn key(&self, number: usize) -> String {
        format!("{}/{}/{}/{number}", self.instance, self.life, self.round)
    }

    /// The output of the last run, if no healthy job is taken for poison.
    pub(super) fn expected(&self) -> Vec<String> {
        let last = Self { round: self.program.rounds, ..self.clone() };
        let jobs = self.program.stages.iter().flatten().enumerate();
        jobs.map(|(number, job)| match job.kills {
            Some(_) => CRASHED.to_owned(),
            None => result(&last.key(number)),
        })
        .collect()
    }
}

/// The result of an activity.
pub(super) fn result(key: &str) -> String {
    format!("done {key}")
}

/// What the worker does with a turn.
pub(super) struct Decided {
    pub(super) actions: Vec<OrchestratorAction>,
    /// What it has seen, which the commit must agree with.
    pub(super) seen: String,
    /// It kills its worker after that many milliseconds instead.
    pub(super) kills: Option<u64>,
}

/// Whether an event comes from outside of the turn that records it.
pub(super) fn is_incoming(event: &HistoryEvent) -> bool {
    !matches!(
        event.event_type,
        Some(
            EventType::TaskScheduled(_)
                | EventType::TimerCreated(_)
                | EventType::SubOrchestrationInstanceCreated(_)
                | EventType::EventSent(_)
                | EventType::ExecutionCompleted(_)
                | EventType::OrchestratorCompleted(_)
                | EventType::ContinueAsNew(_)
        )
    )
}

/// Names the events of a turn.
pub(super) fn seen<'e>(events: impl Iterator<Item = &'e HistoryEvent>) -> String {
    let mut count = 0;
    let sum = events.fold(0_u64, |sum, event| {
        count += 1;
        let encoded = Encoded::new(event);
        sum.rotate_left(9) ^ hash(encoded.content().unwrap_or_default())
    });
    format!("{count}:{sum:016x}")
}

/// Runs one turn.
pub(super) fn turn(request: &OrchestratorRequest) -> Option<Decided> {
    let (past, new) = (&request.past_events, &request.new_events);
    let events = || past.iter().chain(new);
    let started = events().find_map(|event| match &event.event_type {
        Some(EventType::ExecutionStarted(started)) => started.input.as_deref(),
        _ => None,
    });
    let input: Input = serde_json::from_str(started?).ok()?;
    let seen = seen(new.iter());
    let kills = input.program.kills.filter(|(_, second)| past.is_empty() != *second).map(|(ms, _)| ms);
    let scheduled =
        past.iter().filter(|event| matches!(event.event_type, Some(EventType::TaskScheduled(_)))).count();
    let mut outcomes = std::collections::BTreeMap::new();
    for event in events() {
        match &event.event_type {
            Some(EventType::TaskCompleted(done)) => {
                outcomes.insert(done.task_scheduled_id, done.result.clone().unwrap_or_default());
            }
            Some(EventType::TaskFailed(failed)) => {
                let kind = failed.failure_details.as_ref().map(|details| details.error_type.clone());
                outcomes.insert(failed.task_scheduled_id, kind.unwrap_or_default());
            }
            _ => {}
        }
    }
    let actions = decide(&input, scheduled, &outcomes);
    Some(Decided { actions, seen, kills })
}

fn decide(
    input: &Input,
    scheduled: usize,
    outcomes: &std::collections::BTreeMap<i32, String>,
) -> Vec<OrchestratorAction> {
    let id = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let mut before = 0;
    for stage in &input.program.stages {
        if before == scheduled {
            let call = |(number, job): (usize, &Job)| {
                let call = Call { key: input.key(number), job: *job };
                action::schedule_task(id(number), JOB, serde_json::to_string(&call).ok())
            };
            let jobs = stage.iter().enumerate().map(|(at, job)| (before + at, job));
            return jobs.map(call).collect();
        }
        before += stage.len();
        if (0..before).any(|number| !outcomes.contains_key(&id(number))) {
            return Vec::new();
        }
    }
    if input.round < input.program.rounds {
        let next = Input { round: input.round + 1, ..input.clone() };
        let next = serde_json::to_string(&next).ok();
        return vec![action::complete(id(before), OrchestrationStatus::ContinuedAsNew, next, None)];
    }
    let output: Vec<&String> = outcomes.values().collect();
    let output = serde_json::to_string(&output).ok();
    vec![action::complete(id(before), OrchestrationStatus::Completed, output, None)]
}
