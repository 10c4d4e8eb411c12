//! Histories as dauer itself writes them: an orchestration runs, turn by turn, and every state of it is an input.

use std::sync::OnceLock;

use dauer_core::limits::TurnLimits;
use dauer_core::model::{Encoded, Fate, History};
use dauer_core::turn::{self, Answer, Finished};
use dauer_proto::{EventType, HistoryEvent, OrchestratorResponse, action, event, failure, time};
use prost::Message as _;

use crate::corpus;
use crate::targets::{Stored, StoredBatch, absorb, claim, own_start, replay};

/// When the instance begins.
const BEGIN: i64 = 1_700_000_000_000;

/// How far the store's clock moves from turn to turn.
const STEP_MS: i64 = 61_000;

/// No life of the orchestration has more turns.
const TURNS_MAX: usize = 16;

/// The choices that a life makes, one bit for each: whether steps and children fail, whether the event comes before
/// the timer, whether answers come one by one, whether it is suspended for a while.
const LIVES: u8 = 1 << 5;

fn bit(life: u8, number: u8) -> bool {
    life >> number & 1 == 1
}

/// What comes back for what a turn scheduled.
fn answers(life: u8, now: i64, events: &[HistoryEvent]) -> Vec<HistoryEvent> {
    let boom = || failure::failure("Boom", "bad").with_inner(failure::failure("Root", "worse"));
    let answer = |scheduled: &HistoryEvent| match &scheduled.event_type {
        Some(EventType::TaskScheduled(_)) if bit(life, 0) => {
            Some(event::task_failed(now, scheduled.event_id, boom()))
        }
        Some(EventType::TaskScheduled(_)) => {
            Some(event::task_completed(now, scheduled.event_id, Some("5".into())))
        }
        Some(EventType::TimerCreated(_)) if bit(life, 1) => {
            Some(event::event_raised(now, "Go", Some("8".into())))
        }
        Some(EventType::TimerCreated(timer)) => {
            timer.fire_at.map(|at| event::timer_fired(now, scheduled.event_id, at))
        }
        Some(EventType::SubOrchestrationInstanceCreated(_)) if bit(life, 2) => {
            Some(event::sub_orchestration_failed(now, scheduled.event_id, boom()))
        }
        Some(EventType::SubOrchestrationInstanceCreated(_)) => {
            Some(event::sub_orchestration_completed(now, scheduled.event_id, Some("13".into())))
        }
        _ => None,
    };
    events.iter().filter_map(answer).collect()
}

/// Every state of one life, each with what the worker answers there.
fn live(life: u8) -> Vec<Stored> {
    let mut states = Vec::new();
    let mut state = Stored { now: BEGIN, ..Stored::default() };
    let mut coming: Vec<HistoryEvent> = Vec::new();
    for turn in 0..TURNS_MAX {
        let Some((answer, finished)) = step(&state) else { break };
        state.answer = answer.encode_to_vec();
        states.push(state.clone());
        keep(&mut state, &finished);
        coming.extend(answers(life, state.now, &finished.events));
        if bit(life, 4) && turn == 0 {
            let (from, until) =
                (event::execution_suspended(BEGIN, None), event::execution_resumed(BEGIN, None));
            coming.splice(0..0, [from, until]);
        }
        let count = if bit(life, 3) { coming.len() } else { coming.len().min(1) };
        state.messages = coming.drain(..count).map(|event| stored_event(&event)).collect();
        state.now += STEP_MS;
    }
    states
}

/// One turn of the orchestration; `None` when there is nothing to run.
fn step(state: &Stored) -> Option<(OrchestratorResponse, Finished)> {
    let past = absorb(state).ok()?;
    let plan = turn::begin(claim(state, &past), &past.ledger).ok().filter(|plan| plan.is_run())?;
    let replayed = replay(&past.events, &plan.new_events()).ok()?;
    let response = OrchestratorResponse {
        actions: replayed.actions.clone(),
        custom_status: replayed.custom_status.clone(),
        ..OrchestratorResponse::default()
    };
    let answer = Answer { actions: replayed.actions, custom_status: replayed.custom_status, trace: None };
    let finished = turn::finish(plan, past.ledger, answer, &TurnLimits::default()).ok()?;
    Some((response, finished))
}

/// What the store does with a checkpoint.
fn keep(state: &mut Stored, finished: &Finished) {
    if let History::Append(batch) = &finished.checkpoint.history {
        let fate = |(_, fate): &(_, Fate)| if let Fate::Event(index) = fate { Some(*index) } else { None };
        state.batches.push(StoredBatch {
            count: batch.count,
            fates: batch.consumed.iter().filter_map(fate).collect(),
            blob: batch.events.stored().to_vec(),
        });
    }
}

fn stored_event(event: &HistoryEvent) -> Vec<u8> {
    Encoded::new(event).stored().to_vec()
}

fn batch(events: &[HistoryEvent], fates: Vec<u32>) -> StoredBatch {
    let encoded: Vec<_> = events.iter().map(Encoded::new).collect();
    let joined = dauer_core::model::Batch::join(&encoded, Vec::new(), Vec::new());
    let joined = joined.unwrap_or_else(|error| panic!("events just encoded cannot be joined: {error}"));
    StoredBatch { count: joined.count, fates, blob: joined.events.stored().to_vec() }
}

/// An instance that waits for one of everything, with an event to take a turn for.
pub(crate) fn middle() -> Stored {
    static MIDDLE: OnceLock<Stored> = OnceLock::new();
    MIDDLE.get_or_init(make_middle).clone()
}

fn make_middle() -> Stored {
    let Ok(start) = own_start().0.event.event() else { panic!("a start that cannot be read") };
    let schedule = [
        event::task_scheduled(
            BEGIN,
            0,
            dauer_proto::TaskScheduledEvent { name: "step".into(), ..Default::default() },
        ),
        event::timer_created(BEGIN, 1, time::from_millis(BEGIN + STEP_MS)),
        event::sub_orchestration_created(
            BEGIN,
            2,
            dauer_proto::SubOrchestrationInstanceCreatedEvent {
                instance_id: "child-2".into(),
                name: "child".into(),
                ..Default::default()
            },
        ),
        event::entity_message(BEGIN, 3, corpus::call("request-3")),
        event::entity_message(BEGIN, 4, corpus::lock("section-4")),
    ];
    let raised = event::event_raised(BEGIN, "Go", Some("1".into()));
    let mut events = vec![event::orchestrator_started(BEGIN), start, raised];
    events.extend(schedule);
    let message = stored_event(&event::event_raised(BEGIN, "Go", Some("2".into())));
    let now = BEGIN + STEP_MS;
    Stored { batches: vec![batch(&events, vec![1, 2])], messages: vec![message], now, answer: Vec::new() }
}

/// All states of all lives, and the middle of one with every kind of event as a message.
pub(crate) fn stored() -> Vec<Vec<u8>> {
    let mut inputs: Vec<Stored> = (0..LIVES).flat_map(live).collect();
    let answers = corpus::answers();
    for (index, event) in corpus::events().into_iter().enumerate() {
        let message = [&[dauer_core::model::FORMAT], event.as_slice()].concat();
        let answer = answers[index % answers.len()].clone();
        inputs.push(Stored { messages: vec![message], answer, ..middle() });
    }
    // An end that the middle's waiting event came too late for.
    let complete = action::complete(5, dauer_proto::OrchestrationStatus::Completed, None, None);
    let response = OrchestratorResponse { actions: vec![complete], ..OrchestratorResponse::default() };
    inputs.push(Stored { answer: response.encode_to_vec(), ..middle() });
    let mut ended = middle();
    let done = dauer_proto::OrchestrationStatus::Completed;
    ended.batches.push(batch(&[event::execution_completed(BEGIN, 5, done, None, None)], Vec::new()));
    inputs.push(ended);
    inputs.iter().map(prost::Message::encode_to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lives_run_to_their_end_and_differ() {
        let lives: Vec<_> = (0..LIVES).map(live).collect();
        assert!(lives.iter().all(|states| states.len() >= 2), "a life ends at once");
        assert!(lives.iter().any(|states| states.len() >= 7), "no life has one answer a turn");
        let past = absorb(lives[8].last().unwrap()).ok().unwrap();
        let kinds: Vec<_> = past.events.iter().map(event::kind_name).collect();
        for kind in ["TaskCompleted", "TimerFired", "EventSent", "SubOrchestrationInstanceCreated"] {
            assert!(kinds.contains(&kind), "{kind} is missing in {kinds:?}");
        }
    }
}
