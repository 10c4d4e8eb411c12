//! Rewind: a failed run goes on from where it failed, as a new run with the part of the history that still holds.
//!
//! What failed is done again, what succeeded is not. The end is taken out of the history, and so are the failures that led to
//! it: those that came after the last thing the code asked for. A failure that the code went on from stays, because what it
//! asked for afterwards (another attempt, or work that undid the first) follows from it and has happened. When no failure is
//! left to take out, the code itself failed: it runs again from its last event, for better or worse.
//!
//! The new run has another execution, so that answers to the old one are dropped. Hence everything that is open is
//! issued again: activities, timers and entity calls as they were, and children as a [`Class::Rewind`], which each child
//! obeys according to where it stands.

use std::sync::Arc;

use dauer_proto::{EventType, ExecutionRewoundEvent, HistoryEvent, event};

use crate::identity;
use crate::ids::{MessageId, Timestamp};
use crate::ledger::{self, Ledger};
use crate::model::{
    Batch, Checkpoint, Class, Encoded, Fate, Fence, History, Message, Record, Status, TroubleKind,
};
use crate::turn::act::{Effects, Outgoing, entity, invalid};
use crate::turn::end::room_to_end;
use crate::turn::finish::{checkpoint, consumed};
use crate::turn::{Finished, NewEvent, Plan, Stalled, Step};

/// Rewinds a failed run from outside, for `Manage::amend`. `ledger` and `past` are those of its history.
///
/// # Errors
/// [`Stalled`] when the run has not failed, or its history does not fit together.
pub fn rewind(
    fence: Fence,
    record: Record,
    (ledger, past): (&Ledger, &[HistoryEvent]),
    now: Timestamp,
    reason: Option<String>,
) -> Result<Finished, Stalled> {
    let plan = Plan {
        fence,
        before: record.details.clone(),
        record,
        completions: Vec::new(),
        now,
        events: Arc::default(),
        origins: Vec::new(),
        fates: Vec::new(),
        refusals: Vec::new(),
        step: Step::Rewind(reason),
    };
    obey(plan, ledger, past)
}

/// Makes the checkpoint of a plan that [`Plan::is_rewind`].
///
/// # Errors
/// As [`rewind`].
pub fn obey(plan: Plan, ledger: &Ledger, past: &[HistoryEvent]) -> Result<Finished, Stalled> {
    let Step::Rewind(reason) = &plan.step else { return Err(invalid("there is nothing to rewind")) };
    if plan.record.status != Status::Failed {
        let text = format!("a run that is {:?} cannot be rewound, only a failed one", plan.record.status);
        return Err(Stalled::new(TroubleKind::InvalidAnswer, text));
    }
    let reason = reason.clone();
    let execution =
        identity::next_execution(&plan.fence.instance, plan.record.execution, plan.fence.revision);
    let mut record = Record { execution, generation: plan.record.generation + 1, ..plan.record.clone() };
    record.details.set_output(None);
    record.details.set_failure(None);
    record.details.set_trace(None);
    let mut raised = ledger.raised();
    let (events, origins): (Vec<_>, Vec<_>) = kept(past)
        .into_iter()
        .map(|event| {
            let is_raised = matches!(event.event_type, Some(EventType::EventRaised(_)));
            let source = if is_raised { raised.next() } else { None };
            (event.clone(), NewEvent { encoded: Encoded::new(event), source })
        })
        .unzip();
    let now = plan.now.max(ledger.now());
    // Counted from the first event of the history, which is one batch now.
    let carried = (0..).zip(&origins).filter_map(|(index, new)| Some((new.source?, Fate::Event(index))));
    let carried: Vec<_> = carried.chain(plan.fates.iter().copied()).collect();
    let limits = room_to_end();
    let plan = Plan { record, now, events: Arc::new(events), origins, ..plan };
    let mut effects = Effects::new(plan, Ledger::new(ledger.instance().clone(), execution), &limits)?;
    issue_again(&mut effects)?;
    close(effects, carried, reason)
}

/// The events that still hold, in their order.
fn kept(past: &[HistoryEvent]) -> Vec<&HistoryEvent> {
    let asked = past.iter().rposition(ledger::is_schedule).unwrap_or_default();
    // Whoever rewinds wants it to run: a suspension that was in force at the end, when a resume could not be delivered any
    // more, is over.
    let suspended = past.iter().rposition(is_control).filter(|at| is_suspend(&past[*at]));
    let gone = |at: usize, event: &HistoryEvent| {
        is_end(event) || at > asked && is_failure(event) || Some(at) == suspended
    };
    past.iter().enumerate().filter(|(at, event)| !gone(*at, event)).map(|(_, event)| event).collect()
}

fn is_end(event: &HistoryEvent) -> bool {
    matches!(event.event_type, Some(EventType::ExecutionCompleted(_)))
}

fn is_control(event: &HistoryEvent) -> bool {
    is_suspend(event) || matches!(event.event_type, Some(EventType::ExecutionResumed(_)))
}

fn is_suspend(event: &HistoryEvent) -> bool {
    matches!(event.event_type, Some(EventType::ExecutionSuspended(_)))
}

/// Failures of entities are not here: an entity remembers its answer and would give it again.
fn is_failure(event: &HistoryEvent) -> bool {
    matches!(event.event_type, Some(EventType::TaskFailed(_) | EventType::SubOrchestrationInstanceFailed(_)))
}

/// Whatever waits for an answer is asked for again, under the identity it has in the new run.
fn issue_again(effects: &mut Effects<'_>) -> Result<(), Stalled> {
    let asked: Vec<HistoryEvent> = effects.decoded.clone();
    for event in asked {
        let Some(kind) = &event.event_type else { continue };
        let Some(id) =
            ledger::ticket(event.event_id, kind).and_then(|ticket| effects.ledger.identity(&ticket))
        else {
            continue;
        };
        // Under an id that is used again, only the last is open.
        if effects.produced.contains(&id) {
            continue;
        }
        match event.event_type.clone() {
            Some(EventType::TaskScheduled(task)) => effects.issue_task(id, &event, &task),
            Some(EventType::TimerCreated(timer)) => effects.issue_timer(id, event.event_id, timer.fire_at)?,
            Some(EventType::SubOrchestrationInstanceCreated(child)) => {
                effects.start_child(id, event.event_id, child, Class::Rewind)?;
            }
            Some(EventType::EntityOperationCalled(_) | EventType::EntityLockRequested(_)) => {
                ask_entity(effects, id, event)?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Sends an entity call or lock request again, under its own request id: the entity answers as before.
fn ask_entity(effects: &mut Effects<'_>, id: MessageId, mut event: HistoryEvent) -> Result<(), Stalled> {
    let target = match &mut event.event_type {
        Some(EventType::EntityOperationCalled(call)) => {
            call.parent_execution_id = Some(effects.plan.record.execution.to_string());
            call.target_instance_id.clone()
        }
        Some(EventType::EntityLockRequested(request)) => request.lock_set.first().cloned(),
        _ => None,
    };
    let to = entity(&target.unwrap_or_default())?;
    event.event_id = event::NO_ACTION;
    effects.send(Outgoing { id, to, class: Class::Ordinary, answers: None, visible_at: None, event });
    Ok(())
}

fn close(
    mut effects: Effects<'_>,
    carried: Vec<(MessageId, Fate)>,
    reason: Option<String>,
) -> Result<Finished, Stalled> {
    let rewound = ExecutionRewoundEvent { reason, ..ExecutionRewoundEvent::default() };
    let rewound = event::execution_rewound(effects.now().0, rewound);
    effects.append(rewound.clone())?;
    let produced = std::mem::take(&mut effects.produced);
    let batch = Batch::join(&effects.encoded, carried, produced)?;
    let record = Record {
        status: Status::Running,
        history_len: effects.ledger.events(),
        history_bytes: batch.events.len() as u64,
        ..effects.plan.record.clone()
    };
    // So that the code is run even when nothing is open: it may have failed by itself.
    let wake = Message {
        id: effects.derived_id(),
        to: effects.plan.fence.instance.clone(),
        execution: None,
        class: Class::Ordinary,
        origin: effects.origin(None),
        answers: None,
        visible_at: Timestamp::default(),
        event: Encoded::new(&rewound),
    };
    let history =
        History::Replace { execution: record.execution, batches: vec![batch], prologue: vec![wake] };
    let events = std::mem::take(&mut effects.decoded);
    let consumed = consumed(&effects.plan);
    let details = record.details.clone();
    let (checkpoint, ledger): (Checkpoint, Ledger) = checkpoint(effects, record, (consumed, history));
    Ok(Finished { checkpoint, details, ledger, events })
}
