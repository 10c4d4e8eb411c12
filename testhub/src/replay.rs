//! Histories of production against the code of today.

use std::sync::Arc;

use dauer_core::InstanceId;
use dauer_proto::json::HistoryDocument;
use dauer_proto::{
    ActionType, CompleteOrchestrationAction, EventType, ExecutionCompletedEvent, HistoryEvent,
    OrchestrationStatus, OrchestratorAction, event,
};
use dauer_replay::{
    Answer, Awaited, Handler, Live, Orchestration, PayloadCodec, Payloads, Program, Registry, TurnError,
};

use crate::error::TestError;
use crate::hub::TestHub;
use crate::text::decision;

impl TestHub<'_> {
    /// Replays an exported history, as `dauer history -o json` or [`TestHub::export`] writes it, with the code of today, and
    /// reports where the two part. Histories of instances that still run can be replayed too: the test of a change before
    /// it is deployed.
    ///
    /// Compared are the decisions (which activities, children, timers and events, in which order) and the end. An instance
    /// that was ended from outside is compared up to then.
    ///
    /// ```
    /// use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
    /// use dauer_testhub::{TestError, TestHub};
    ///
    /// const PRICE: Activity<u32, u32> = Activity::new("price");
    /// const TAX: Activity<u32, u32> = Activity::new("tax");
    /// const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
    ///
    /// async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    ///     Ok(ctx.call(PRICE, &item).await?)
    /// }
    ///
    /// async fn changed(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    ///     let tax = ctx.call(TAX, &item).await?;
    ///     Ok(tax + ctx.call(PRICE, &item).await?)
    /// }
    ///
    /// let mut hub = TestHub::new().activity(PRICE, |item| Ok(item * 10));
    /// hub.run(SHOP, shop, 7).unwrap();
    /// let history = hub.export().unwrap(); // or include_str!("history.json")
    ///
    /// TestHub::replay(SHOP, shop, &history).unwrap();
    /// let error = TestHub::replay(SHOP, changed, &history).unwrap_err();
    /// // "...: task #0 is activity 'tax', but the history recorded activity 'price' (#0); ..."
    /// assert!(matches!(error, TestError::Turn { .. }));
    /// ```
    ///
    /// # Errors
    /// [`TestError::Turn`], [`TestError::Beyond`] or [`TestError::OtherEnd`] when the code and the history part;
    /// [`TestError::History`] or [`TestError::OtherOrchestration`] when it is no such history.
    pub fn replay<I: 'static, O: 'static, S: 'static>(
        orchestration: Orchestration<I, O>,
        handler: impl Handler<I, O, S>,
        json: &str,
    ) -> Result<(), TestError> {
        replay(&Program::new(orchestration, handler), json)
    }

    /// As [`TestHub::replay`], for a history whose payloads were written through a codec.
    ///
    /// ```
    /// use dauer_replay::{CodecError, Orchestration, OrchestrationContext, PayloadCodec, Result};
    /// use dauer_testhub::TestHub;
    ///
    /// const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
    ///
    /// async fn shop(_: OrchestrationContext, item: u32) -> Result<u32> {
    ///     Ok(item * 10)
    /// }
    ///
    /// struct Reversed;
    ///
    /// impl PayloadCodec for Reversed {
    ///     fn encode(&self, json: &str) -> Result<String, CodecError> {
    ///         Ok(json.chars().rev().collect())
    ///     }
    ///
    ///     fn decode(&self, stored: &str) -> Result<String, CodecError> {
    ///         Ok(stored.chars().rev().collect())
    ///     }
    /// }
    ///
    /// let mut hub = TestHub::new().codec(Reversed);
    /// hub.run(SHOP, shop, 12).unwrap();
    /// let history = hub.export().unwrap();
    ///
    /// TestHub::replay_through(Reversed, SHOP, shop, &history).unwrap();
    /// // Without it the output is read as another number.
    /// assert!(TestHub::replay(SHOP, shop, &history).is_err());
    /// ```
    ///
    /// # Errors
    /// As [`TestHub::replay`]; [`TestError::Turn`] also when the codec cannot read a payload.
    pub fn replay_through<I: 'static, O: 'static, S: 'static>(
        codec: impl PayloadCodec,
        orchestration: Orchestration<I, O>,
        handler: impl Handler<I, O, S>,
        json: &str,
    ) -> Result<(), TestError> {
        let payloads = Payloads::through(Arc::new(codec));
        let mut registry = Registry::new().with_payloads(payloads.clone());
        registry.orchestration(orchestration, handler)?;
        let version = orchestration.version_name();
        let History { instance, mut events } = read(orchestration.name(), json)?;
        // The code that is given is meant, whatever version the history asked for.
        for event in &mut events {
            if let Some(EventType::ExecutionStarted(started)) = &mut event.event_type {
                started.version = version.map(str::to_owned);
            }
        }
        let Some(events) = decided_by_code(&events) else { return Ok(()) };
        follow(instance, Live::start(&registry, events, &[]), (events, &payloads))
    }

    /// The history of the tested orchestration as `dauer history -o json` writes it, for [`TestHub::replay`].
    ///
    /// ```
    /// # use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
    /// # use dauer_testhub::TestHub;
    /// # const PRICE: Activity<u32, u32> = Activity::new("price");
    /// # const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
    /// # async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    /// #     ctx.set_status("pricing");
    /// #     Ok(ctx.call(PRICE, &item).await?)
    /// # }
    /// let mut hub = TestHub::new().activity(PRICE, |item| Ok(item * 10));
    /// assert_eq!(hub.run(SHOP, shop, 7).unwrap(), 70);
    /// let history = hub.export().unwrap();
    /// assert!(history.starts_with("{\n  \"dauer_history\": 1,"));
    /// ```
    ///
    /// # Errors
    /// [`TestError::NothingRun`], or [`TestError::History`] when a failure has a property that JSON cannot say.
    pub fn export(&self) -> Result<String, TestError> {
        let main = self.main().ok_or(TestError::NothingRun)?;
        let document = HistoryDocument {
            instance_id: main.id.to_string(),
            execution_id: main.record.execution.to_string(),
            events: main.history.clone(),
        };
        Ok(document.to_text()?)
    }
}

/// An exported history.
struct History {
    instance: InstanceId,
    events: Vec<HistoryEvent>,
}

/// Reads a history that must be of that orchestration.
fn read(expected: &str, json: &str) -> Result<History, TestError> {
    let HistoryDocument { instance_id, events, .. } = HistoryDocument::parse(json)?;
    let instance = InstanceId::new(instance_id).map_err(|error| TestError::Internal(error.into()))?;
    if let Some(found) = name_in(&events).filter(|name| *name != expected) {
        let (expected, found) = (expected.to_owned(), found.to_owned());
        return Err(TestError::OtherOrchestration { expected, found });
    }
    Ok(History { instance, events })
}

fn replay(program: &Program, json: &str) -> Result<(), TestError> {
    let History { instance, events } = read(program.name(), json)?;
    let Some(events) = decided_by_code(&events) else { return Ok(()) };
    follow(instance, Live::start_program(program, events, &[]), (events, &Payloads::default()))
}

/// Compares what the code did with what it had done.
fn follow(
    instance: InstanceId,
    replayed: Result<(Live, Answer), TurnError>,
    (events, payloads): (&[HistoryEvent], &Payloads),
) -> Result<(), TestError> {
    let (live, answer) = replayed.map_err(|source| TestError::Turn { instance, source: Box::new(source) })?;
    compare(&live, &answer.actions, (events, payloads))
}

fn name_in(events: &[HistoryEvent]) -> Option<&str> {
    events.iter().find_map(|event| match &event.event_type {
        Some(EventType::ExecutionStarted(started)) => Some(started.name.as_str()),
        _ => None,
    })
}

/// The history up to the turn in which someone else ended the run: that turn ran no code, or what it did was not kept.
/// Nothing, if it was the first.
fn decided_by_code(events: &[HistoryEvent]) -> Option<&[HistoryEvent]> {
    let from_outside = |event: &HistoryEvent| match &event.event_type {
        Some(EventType::ExecutionTerminated(_)) => true,
        Some(EventType::ExecutionCompleted(_)) => event.event_id == event::NO_ACTION,
        _ => false,
    };
    let Some(end) = events.iter().position(from_outside) else { return Some(events) };
    let is_turn = |event: &HistoryEvent| matches!(event.event_type, Some(EventType::OrchestratorStarted(_)));
    let turn = events[..end].iter().rposition(is_turn).unwrap_or(end);
    Some(&events[..turn]).filter(|before| name_in(before).is_some())
}

/// A whole history has all that its code asked for, and its end.
fn compare(
    live: &Live,
    actions: &[OrchestratorAction],
    (events, payloads): (&[HistoryEvent], &Payloads),
) -> Result<(), TestError> {
    let end = actions.iter().find_map(end_of);
    let recorded = events.iter().find_map(|event| match &event.event_type {
        Some(EventType::ExecutionCompleted(completed)) => Some(completed),
        _ => None,
    });
    // A rewind takes failed calls out of the history; the turn after it, which asks for them again, may be still to come.
    let last = events.iter().rev().find_map(|event| event.event_type.as_ref());
    let rewound = matches!(last, Some(EventType::ExecutionRewound(_)));
    if let Some(action) = actions.iter().find(|action| end_of(action).is_none() && !rewound) {
        let waiting = live.awaits().into_iter().find(|waiting| waiting.what == Awaited::Task(action.id));
        let location = waiting.map(|waiting| waiting.location);
        return Err(TestError::Beyond { found: decision(action), id: action.id, location });
    }
    let ended = |status: OrchestrationStatus| format!("ended as {}", status.as_str_name());
    let other = |found: String, expected: String| Err(TestError::OtherEnd { found, expected });
    match (end, recorded) {
        (None, None) => Ok(()),
        (Some(end), None) => other(ended(end.orchestration_status()), "waited".to_owned()),
        (None, Some(recorded)) => {
            let place = live.awaits().first().map(|waiting| format!(" ({})", waiting.location));
            other(format!("waits{}", place.unwrap_or_default()), ended(recorded.orchestration_status()))
        }
        (Some(end), Some(recorded)) if end.orchestration_status() != recorded.orchestration_status() => {
            other(ended(end.orchestration_status()), ended(recorded.orchestration_status()))
        }
        // Payloads of production are not for a test's output.
        (Some(end), Some(recorded)) if !same_result(end, recorded, payloads) => {
            other("ended with one output".to_owned(), "ended with another".to_owned())
        }
        (Some(_), Some(_)) => Ok(()),
    }
}

fn end_of(action: &OrchestratorAction) -> Option<&CompleteOrchestrationAction> {
    match &action.orchestrator_action_type {
        Some(ActionType::CompleteOrchestration(end)) => Some(end),
        _ => None,
    }
}

/// Whether the outputs are the same JSON, however it is written: a codec may write it differently each time. Failures are compared by their status alone: their
/// messages change with the code without changing its course.
fn same_result(
    end: &CompleteOrchestrationAction,
    recorded: &ExecutionCompletedEvent,
    payloads: &Payloads,
) -> bool {
    let value =
        |text: &Option<String>| text.as_deref().map(|text| payloads.decode::<serde_json::Value>(Some(text)));
    match (value(&end.result), value(&recorded.result)) {
        (Some(Ok(one)), Some(Ok(other))) => one == other,
        _ => end.result == recorded.result,
    }
}
