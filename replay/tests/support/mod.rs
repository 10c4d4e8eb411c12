//! A server for one execution: it writes histories as the hub does, and checks every turn two ways.
//!
//! Each batch goes to a live orchestration that is never replayed and to one that is replayed from scratch; both must
//! answer the same. After that the whole history is replayed with nothing new, and must not ask for anything.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::panic::Location;

use dauer_proto::{
    ActionType, CompleteOrchestrationAction, EventType, ExecutionStartedEvent, HistoryEvent,
    OrchestrationStatus, OrchestratorAction, TaskFailureDetails, decode, event,
};
use dauer_replay::{Answer, Handler, Live, Orchestration, Program, Registry, TurnError};
use serde::{Serialize, de::DeserializeOwned};

pub const INSTANCE: &str = "order-1";
pub const EXECUTION: &str = "0123456789abcdef0123456789abcdef";

/// A start of `name` with `input`, as the hub writes it.
pub fn started(name: &str, input: &impl Serialize) -> HistoryEvent {
    let input = Some(serde_json::to_string(input).unwrap());
    let start = event::start(name, INSTANCE, EXECUTION);
    event::execution_started(0, ExecutionStartedEvent { input, ..start })
}

/// The first batch of an execution.
pub fn first(name: &str, input: &impl Serialize) -> Vec<HistoryEvent> {
    vec![event::orchestrator_started(1_000), started(name, input)]
}

pub fn registry<I: 'static, O: 'static, S: 'static>(
    orchestration: Orchestration<I, O>,
    handler: impl Handler<I, O, S>,
) -> Registry {
    let mut registry = Registry::new();
    registry.orchestration(orchestration, handler).unwrap();
    registry
}

/// The first turn of a program that is expected to go wrong.
pub fn first_error<I: Serialize + 'static, O: 'static, S: 'static>(
    orchestration: Orchestration<I, O>,
    handler: impl Handler<I, O, S>,
    input: &I,
) -> TurnError {
    let program = Program::new(orchestration, handler);
    Live::start_program(&program, &[], &first(orchestration.name(), input)).unwrap_err()
}

/// What the hub writes for an action.
pub fn recorded(at_ms: i64, action: &OrchestratorAction) -> HistoryEvent {
    let id = action.id;
    match action.orchestrator_action_type.clone().unwrap() {
        ActionType::ScheduleTask(task) => event::task_scheduled(at_ms, id, task),
        ActionType::CreateTimer(timer) => event::timer_created(at_ms, id, timer.fire_at.unwrap()),
        ActionType::CreateSubOrchestration(child) => event::sub_orchestration_created(at_ms, id, child),
        ActionType::SendEvent(send) => {
            event::event_sent(at_ms, id, send.instance.unwrap().instance_id, send.name, send.data)
        }
        ActionType::CompleteOrchestration(done) => event::execution_completed(
            at_ms,
            id,
            done.orchestration_status(),
            done.result,
            done.failure_details,
        ),
        other => panic!("no orchestration of ours asks for {other:?}"),
    }
}

pub struct Server {
    registry: Registry,
    pub live: Option<Live>,
    pub history: Vec<HistoryEvent>,
    pub now_ms: i64,
    /// Tasks, timers and children that are not answered.
    pub open: Vec<OrchestratorAction>,
    pub end: Option<CompleteOrchestrationAction>,
    pub turns: usize,
}

impl Server {
    pub fn new(registry: Registry) -> Self {
        let (history, open) = (Vec::new(), Vec::new());
        Self { registry, live: None, history, now_ms: 1_000, open, end: None, turns: 0 }
    }

    /// Runs the first turn.
    pub fn start<I: Serialize + 'static, O: 'static, S: 'static>(
        orchestration: Orchestration<I, O>,
        handler: impl Handler<I, O, S>,
        input: &I,
    ) -> Self {
        let mut server = Self::new(registry(orchestration, handler));
        server.deliver(vec![started(orchestration.name(), input)]);
        server
    }

    /// One turn, which must succeed.
    pub fn deliver(&mut self, events: Vec<HistoryEvent>) -> Answer {
        self.try_deliver(events).unwrap()
    }

    /// One turn, a second after the last.
    pub fn try_deliver(&mut self, events: Vec<HistoryEvent>) -> Result<Answer, TurnError> {
        self.turns += 1;
        let mut new = vec![event::orchestrator_started(self.now_ms)];
        new.extend(events);
        let (_, replayed) = Live::start(&self.registry, &self.history, &new)?;
        let answer = match &mut self.live {
            Some(live) => live.turn(&new)?,
            None => {
                let (live, answer) = Live::start(&self.registry, &[], &new)?;
                self.live = Some(live);
                answer
            }
        };
        assert_eq!(answer, replayed, "turn {}: live and replayed differ", self.turns);
        decode::validate_actions(&answer.actions).unwrap();
        self.commit(new, &answer);
        Ok(answer)
    }

    fn commit(&mut self, new: Vec<HistoryEvent>, answer: &Answer) {
        self.history.extend(new);
        for action in &answer.actions {
            self.history.push(recorded(self.now_ms, action));
            match action.orchestrator_action_type.as_ref().unwrap() {
                ActionType::CompleteOrchestration(end) => {
                    assert!(self.end.replace(end.clone()).is_none(), "two ends");
                }
                ActionType::SendEvent(_) => {}
                _ => self.open.push(action.clone()),
            }
        }
        let (_, again) = Live::start(&self.registry, &self.history, &[]).unwrap();
        let rest: Vec<_> = again.actions.iter().filter(|action| end_of(action).is_none()).collect();
        assert!(rest.is_empty(), "a replay of the whole history asks for {rest:?}");
        assert_eq!(again.actions.iter().find_map(end_of), self.end.as_ref());
        self.now_ms += 1_000;
    }

    /// Takes an open task and answers it: activities and children give their input back.
    pub fn answer_of(&mut self, id: i32) -> HistoryEvent {
        let position = self.open.iter().position(|action| action.id == id);
        let action = self.open.remove(position.unwrap_or_else(|| panic!("#{id} is not open")));
        answered(self.now_ms, &action)
    }

    /// Answers one open task in a turn of its own.
    pub fn complete(&mut self, id: i32) -> Answer {
        let answer = self.answer_of(id);
        self.deliver(vec![answer])
    }

    pub fn output<T: DeserializeOwned>(&self) -> T {
        let end = self.end.as_ref().expect("the orchestration has not ended");
        assert_eq!(end.orchestration_status(), OrchestrationStatus::Completed, "{end:?}");
        serde_json::from_str(end.result.as_deref().unwrap()).unwrap()
    }

    pub fn failure(&self) -> TaskFailureDetails {
        let end = self.end.as_ref().expect("the orchestration has not ended");
        assert_eq!(end.orchestration_status(), OrchestrationStatus::Failed, "{end:?}");
        end.failure_details.clone().unwrap()
    }
}

pub fn answered(at_ms: i64, action: &OrchestratorAction) -> HistoryEvent {
    match action.orchestrator_action_type.clone().unwrap() {
        ActionType::ScheduleTask(task) => event::task_completed(at_ms, action.id, task.input),
        ActionType::CreateTimer(timer) => event::timer_fired(at_ms, action.id, timer.fire_at.unwrap()),
        ActionType::CreateSubOrchestration(child) => {
            event::sub_orchestration_completed(at_ms, action.id, child.input)
        }
        other => panic!("{other:?} is not answered"),
    }
}

pub fn raised(name: &str, data: &impl Serialize) -> HistoryEvent {
    event::event_raised(7, name, Some(serde_json::to_string(data).unwrap()))
}

pub fn end_of(action: &OrchestratorAction) -> Option<&CompleteOrchestrationAction> {
    match action.orchestrator_action_type.as_ref()? {
        ActionType::CompleteOrchestration(end) => Some(end),
        _ => None,
    }
}

/// Names of scheduled activities, in the order of the answer.
pub fn activities(answer: &Answer) -> Vec<(i32, String)> {
    let named = answer.actions.iter().filter_map(|action| match action.orchestrator_action_type.as_ref() {
        Some(ActionType::ScheduleTask(task)) => Some((action.id, task.name.clone())),
        _ => None,
    });
    named.collect()
}

/// What the history recorded as answered, in order: the inputs that came back.
pub fn results(history: &[HistoryEvent]) -> Vec<u32> {
    let results = history.iter().filter_map(|event| match event.event_type.as_ref()? {
        EventType::TaskCompleted(done) => serde_json::from_str(done.result.as_deref()?).ok(),
        _ => None,
    });
    results.collect()
}

/// Random choices from a seed (splitmix64), so that a failing case can be run again.
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % limit as u64).unwrap()
    }
}

/// The place is that line of the file that is asking.
#[track_caller]
pub fn assert_place(place: &Location<'_>, line: u32) {
    assert_eq!((place.file(), place.line()), (Location::caller().file(), line));
}
