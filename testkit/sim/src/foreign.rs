//! A worker in the manner of Python's SDK, where all attempts of a call have the id of the first: orchestrations of the
//! name [`REUSING`], as a fold over their history. What an answer belongs to is then a matter of the schedule's identity,
//! and of nothing that the worker sees.

use dauer_proto::{
    ActionType, EventType, HistoryEvent, OrchestrationStatus, OrchestratorAction,
    TerminateOrchestrationAction, action, event, failure, time,
};
use serde::{Deserialize, Serialize};

use crate::interpret::Seen;
use crate::program::{ATTEMPT_PAUSE, ATTEMPTS_MAX, Flaky};

/// The name of the orchestration.
pub(crate) const REUSING: &str = "reusing";

/// The name of the activity that it calls; how often that has failed the simulator knows from the schedules.
pub(crate) const UNSTEADY: &str = "unsteady";

/// What the orchestration is started with.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Calls {
    pub(crate) calls: Vec<Flaky>,
    /// The instance to end, before anything else.
    pub(crate) prey: Option<String>,
}

/// What an attempt comes to.
pub(crate) fn attempt(flaky: Flaky, earlier: usize) -> Result<i64, String> {
    let failed = earlier < flaky.failures as usize;
    if failed { Err(format!("attempt {earlier} of {} fails", flaky.value)) } else { Ok(flaky.value + 7) }
}

/// The worker between two events.
#[derive(Default)]
struct Worker {
    calls: Vec<Flaky>,
    at: usize,
    attempts: u32,
    /// The id of the call under way, for all of its attempts.
    task: i32,
    next_id: i32,
    now: i64,
    seen: Vec<Seen>,
    ended: bool,
}

/// What the worker asks for after these events: all it ever did, and what is new of it.
pub(crate) fn turn(
    past: &[HistoryEvent],
    new: &[HistoryEvent],
) -> (Vec<OrchestratorAction>, Vec<OrchestratorAction>) {
    let mut worker = Worker::default();
    let before: Vec<_> = past.iter().flat_map(|event| worker.take(event)).collect();
    let after = new.iter().flat_map(|event| worker.take(event)).collect();
    (before, after)
}

impl Worker {
    fn take(&mut self, event: &HistoryEvent) -> Vec<OrchestratorAction> {
        let Some(kind) = event.event_type.as_ref().filter(|_| !self.ended) else { return Vec::new() };
        match kind {
            EventType::OrchestratorStarted(_) => {
                self.now =
                    event.timestamp.as_ref().and_then(|at| time::to_millis_ceil(at).ok()).unwrap_or_default();
                Vec::new()
            }
            EventType::ExecutionStarted(start) => self.begin(start.input.as_deref()),
            EventType::TaskCompleted(done) if done.task_scheduled_id == self.task => {
                let value = done.result.as_deref().and_then(|result| serde_json::from_str(result).ok());
                self.seen.push(value.map_or(Seen::Refused("no value".into()), Seen::Value));
                self.go_on()
            }
            EventType::TaskFailed(failed) if failed.task_scheduled_id == self.task => {
                self.attempts += 1;
                if self.attempts < ATTEMPTS_MAX {
                    let pause = i64::try_from(ATTEMPT_PAUSE.as_millis()).unwrap_or_default();
                    let id = self.id();
                    return vec![action::create_timer(id, time::from_millis(self.now + pause))];
                }
                let message = failed.failure_details.as_ref().map(|details| details.error_message.clone());
                self.seen.push(Seen::Refused(message.unwrap_or_default()));
                self.go_on()
            }
            EventType::TimerFired(_) => vec![self.schedule()],
            EventType::ExecutionTerminated(order) => {
                self.ended = true;
                let id = self.id();
                vec![action::complete(id, OrchestrationStatus::Terminated, order.input.clone(), None)]
            }
            _ => Vec::new(),
        }
    }

    fn id(&mut self) -> i32 {
        self.next_id += 1;
        self.next_id - 1
    }

    fn begin(&mut self, input: Option<&str>) -> Vec<OrchestratorAction> {
        let Some(Calls { calls, prey }) = input.and_then(|input| serde_json::from_str(input).ok()) else {
            self.ended = true;
            let details = failure::failure("Undecodable", "the input makes no sense").non_retriable();
            let id = self.id();
            return vec![action::complete(id, OrchestrationStatus::Failed, None, Some(details))];
        };
        self.calls = calls;
        let mut actions = Vec::new();
        if let Some(instance_id) = prey {
            let order = TerminateOrchestrationAction {
                instance_id,
                reason: Some("\"hunted\"".into()),
                recurse: true,
            };
            let id = self.id();
            actions.push(action::new(id, ActionType::TerminateOrchestration(order)));
        }
        actions.extend(self.call());
        actions
    }

    fn go_on(&mut self) -> Vec<OrchestratorAction> {
        self.at += 1;
        self.attempts = 0;
        self.call()
    }

    /// The next call, or the end.
    fn call(&mut self) -> Vec<OrchestratorAction> {
        if self.at < self.calls.len() {
            self.task = self.id();
            return vec![self.schedule()];
        }
        self.ended = true;
        let output = serde_json::to_string(&self.seen).ok();
        let id = self.id();
        vec![action::complete(id, OrchestrationStatus::Completed, output, None)]
    }

    fn schedule(&self) -> OrchestratorAction {
        let input = self.calls.get(self.at).and_then(|flaky| serde_json::to_string(flaky).ok());
        action::schedule_task(self.task, UNSTEADY, input)
    }
}

/// I9 for this worker: what it would do now on its history is what it did.
pub(crate) fn check_replay(events: &[HistoryEvent]) -> Result<(), String> {
    let (decided, _) = turn(events, &[]);
    let wanted: Vec<(i32, &str)> =
        decided.iter().filter_map(|action| Some((action.id, recorded_as(action)?))).collect();
    let is_decision = |event: &&HistoryEvent| {
        matches!(
            event.event_type,
            Some(EventType::TaskScheduled(_) | EventType::TimerCreated(_) | EventType::ExecutionCompleted(_))
        )
    };
    let recorded = events.iter().filter(is_decision);
    let found: Vec<(i32, &str)> = recorded.map(|found| (found.event_id, event::kind_name(found))).collect();
    // One that was ended from outside ends with an event that is no action's.
    let same = match found.split_last() {
        Some(((event::NO_ACTION, "ExecutionCompleted"), before)) => wanted.starts_with(before),
        _ => found == wanted,
    };
    if same { Ok(()) } else { Err(format!("the worker decides {wanted:?}, the history has {found:?}")) }
}

fn recorded_as(action: &OrchestratorAction) -> Option<&'static str> {
    match action.orchestrator_action_type.as_ref()? {
        ActionType::ScheduleTask(_) => Some("TaskScheduled"),
        ActionType::CreateTimer(_) => Some("TimerCreated"),
        ActionType::CompleteOrchestration(_) => Some("ExecutionCompleted"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_attempts_of_a_call_have_one_id() {
        let calls = vec![Flaky { value: 1, failures: 1 }, Flaky { value: 2, failures: 0 }];
        let input = serde_json::to_string(&Calls { calls, prey: None }).unwrap();
        let start =
            dauer_proto::ExecutionStartedEvent { input: Some(input), ..event::start(REUSING, "i", "1") };
        let mut history = vec![event::orchestrator_started(5), event::execution_started(5, start)];
        let ids = |history: &[HistoryEvent]| -> Vec<i32> {
            turn(&[], history).1.iter().map(|action| action.id).collect()
        };
        assert_eq!(ids(&history), [0]);
        history.push(event::task_failed(6, 0, failure::failure("E", "no")));
        assert_eq!(ids(&history), [0, 1], "a timer");
        history.push(event::timer_fired(7, 1, time::from_millis(7)));
        assert_eq!(ids(&history), [0, 1, 0], "the same call again");
        history.push(event::task_completed(8, 0, Some("8".into())));
        assert_eq!(ids(&history), [0, 1, 0, 2]);
        let (past, new) = turn(&history, &[event::task_completed(9, 2, Some("9".into()))]);
        assert_eq!((past.len(), new.len(), new[0].id), (4, 1, 3));
        assert!(check_replay(&history).is_err(), "nothing of it is recorded");
    }
}
