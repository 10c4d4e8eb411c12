//! Stored batches replayed by an orchestration, and its answer carried out.

use std::time::Duration;

use dauer_core::InstanceId;
use dauer_core::limits::TurnLimits;
use dauer_core::model::Encoded;
use dauer_core::turn::{self, Answer};
use dauer_proto::{HistoryEvent, decode};
use dauer_replay::{
    Activity, Event, Live, Orchestration, OrchestrationContext, Program, Result as Outcome, TurnError,
};
use futures::future::{Either, select};
use prost::Message as _;

use super::history::{Stored, absorb, claim, taken};
use crate::Verdict;

const ORDER: Orchestration<u32, u32> = Orchestration::new("order");
const CHILD: Orchestration<u32, u32> = Orchestration::new("child");
const STEP: Activity<u32, u32> = Activity::new("step");
const GO: Event<u32> = Event::new("go");

/// A timer of a minute: the event may come first.
const PATIENCE: Duration = Duration::from_secs(60);

/// Everything that an orchestration can ask for. It never panics, so a panic is one of dauer's.
async fn order(ctx: OrchestrationContext, count: u32) -> Outcome<u32> {
    ctx.set_status("begun");
    let mut sum = 0_u32;
    let steps: Vec<_> = (0..count.min(4)).map(|step| ctx.call(STEP, &step).start()).collect();
    for step in steps {
        sum = sum.saturating_add(step.await?);
    }
    let timer = std::pin::pin!(ctx.sleep(PATIENCE));
    let event = std::pin::pin!(ctx.event(GO));
    match select(event, timer).await {
        Either::Left((event, _)) => sum = sum.saturating_add(event?),
        Either::Right(_) => ctx.set_status(&ctx.now().0),
    }
    if let Ok(other) = InstanceId::new("other") {
        ctx.send_event(&other, GO, &sum);
    }
    match ctx.call_orchestration(CHILD, &sum).await {
        Ok(more) => sum = sum.saturating_add(more),
        Err(error) => ctx.set_status(&error.to_string()),
    }
    ctx.set_status(&ctx.uuid().to_string());
    Ok(sum)
}

pub(crate) fn program() -> Program {
    Program::new(ORDER, order)
}

/// Replays twice, which must come to the same.
pub(crate) fn replay(past: &[HistoryEvent], new: &[HistoryEvent]) -> Result<dauer_replay::Answer, TurnError> {
    let program = program();
    let once = || Live::start_program(&program, past, new);
    match (once(), once()) {
        (Ok((live, answer)), Ok((_, again))) => {
            assert_eq!(answer.custom_status, again.custom_status, "two replays have different statuses");
            // Compared by their bytes: a failure may carry a NaN, which is not equal to itself.
            let written =
                |answer: &dauer_replay::Answer| answer.actions.iter().map(Encoded::new).collect::<Vec<_>>();
            assert!(written(&answer) == written(&again), "two replays of one history answer differently");
            assert!(decode::validate_actions(&answer.actions).is_ok(), "replay answers nonsense");
            drop(live);
            Ok(answer)
        }
        (Err(error), Err(again)) => {
            assert_eq!(error.to_string(), again.to_string(), "two replays fail differently");
            Err(error)
        }
        _ => panic!("a replay of one history works once and fails once"),
    }
}

/// Never a panic: an answer, or a typed error.
pub(crate) fn run(bytes: &[u8]) -> Verdict {
    let Ok(input) = Stored::decode(bytes) else { return Verdict::refused("history") };
    let Ok(past) = absorb(&input) else { return Verdict::refused("history") };
    let claimed = claim(&input, &past);
    let Ok(plan) = turn::begin(claimed.clone(), &past.ledger) else { return Verdict::refused("history") };
    if !plan.is_run() {
        return Verdict::accepted("quiet");
    }
    let past_events = if plan.is_fresh() { &[] } else { past.events.as_slice() };
    match replay(past_events, &plan.new_events()) {
        Ok(answer) => {
            let answer = Answer { actions: answer.actions, custom_status: answer.custom_status, trace: None };
            let limits = TurnLimits::default();
            let take = |ledger| turn::finish(plan.clone(), ledger, answer.clone(), &limits);
            taken(&claimed, &past.ledger, take)
                .map_or(Verdict::refused("finish"), |_| Verdict::accepted("turn"))
        }
        Err(TurnError::Panic { message, .. }) => panic!("replay panicked: {message}"),
        Err(TurnError::Mismatch { .. } | TurnError::LeftOver { .. }) => Verdict::refused("mismatch"),
        Err(TurnError::History { .. }) => Verdict::refused("no beginning"),
        Err(TurnError::Undecodable { .. }) => Verdict::refused("input"),
        Err(error) => panic!("this code cannot come to that: {error}"),
    }
}
