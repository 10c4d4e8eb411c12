//! The second half of a turn: the worker's answer becomes a checkpoint.

use std::time::Duration;

use dauer_proto::{
    CompleteOrchestrationAction, EventType, ExecutionStartedEvent, HistoryEvent, OrchestrationInstance,
    OrchestrationStatus, TaskFailureDetails, decode, event, time,
};

use crate::identity;
use crate::ids::{MessageId, Timestamp};
use crate::ledger::Ledger;
use crate::limits::TurnLimits;
use crate::model::{
    Batch, Checkpoint, Class, Control, Deaths, Encoded, History, Kind, Message, Opening, Payload, QueueKey,
    Record, Status, Then,
};
use crate::planted::{self, Bug};
use crate::turn::act::{Effects, check_labels, invalid, split};
use crate::turn::among::Ids;
use crate::turn::end::{self, Ending};
use crate::turn::{Answer, Finished, Plan, Stalled, Step};

/// Carries a worker's answer out. All actions beside a completion are carried out too (behaviour 25).
///
/// # Errors
/// [`Stalled`] when the answer makes no sense or passes a limit. Nothing has happened then.
pub fn finish(plan: Plan, ledger: Ledger, answer: Answer, limits: &TurnLimits) -> Result<Finished, Stalled> {
    let Answer { actions, custom_status, trace } = answer;
    if actions.len() > limits.actions_per_turn {
        let (found, allowed) = (actions.len() as u64, limits.actions_per_turn as u64);
        return Err(Stalled::too_large("actions of one turn", found, allowed));
    }
    decode::validate_actions(&actions).map_err(|error| invalid(error.to_string()))?;
    let mut effects = Effects::new(plan, ledger, limits)?;
    effects.payload("custom status", custom_status.as_deref())?;
    let (others, completion) = split(actions);
    for action in others {
        effects.act(action)?;
    }
    let mut record = effects.plan.record.clone();
    let custom_status = custom_status.filter(|status| !status.is_empty());
    record.details.set_custom_status(custom_status.map(Payload::from));
    record.details.set_trace(trace.as_ref().map(Encoded::new));
    match (completion, terminated(&effects.decoded)) {
        (None, None) => {
            stand(&mut record, &effects.ledger);
            close(effects, record)
        }
        // Go's worker does not obey a terminate while it is suspended (behaviour 30).
        (None, Some(output)) => end_terminated(effects, record, output),
        (Some((id, completion)), _) => complete(effects, record, id, completion),
    }
}

/// Sets the status of a run that has begun and goes on.
pub(crate) fn stand(record: &mut Record, ledger: &Ledger) {
    record.status = if ledger.is_suspended() { Status::Suspended } else { Status::Running };
}

/// The output that a terminate among these events asks for, if there is one.
fn terminated(events: &[HistoryEvent]) -> Option<Option<String>> {
    events.iter().find_map(|event| match &event.event_type {
        Some(EventType::ExecutionTerminated(terminated)) => Some(terminated.input.clone()),
        _ => None,
    })
}

fn end_terminated(
    mut effects: Effects<'_>,
    record: Record,
    result: Option<String>,
) -> Result<Finished, Stalled> {
    let ending = Ending { event_id: event::NO_ACTION, status: Status::Terminated, result, failure: None };
    let record = end::end(&mut effects, record, ending)?;
    close(effects, record)
}

fn complete(
    mut effects: Effects<'_>,
    record: Record,
    event_id: i32,
    completion: CompleteOrchestrationAction,
) -> Result<Finished, Stalled> {
    effects.payload("result", completion.result.as_deref())?;
    let status = match completion.orchestration_status() {
        OrchestrationStatus::ContinuedAsNew => return continue_as_new(effects, record, completion),
        OrchestrationStatus::Completed => Status::Completed,
        OrchestrationStatus::Failed => Status::Failed,
        OrchestrationStatus::Terminated => Status::Terminated,
        OrchestrationStatus::Canceled => Status::Canceled,
        other => return Err(invalid(format!("a run cannot end as {other:?}"))),
    };
    let CompleteOrchestrationAction { result, failure_details, .. } = completion;
    let ending = Ending { event_id, status, result, failure: failure_details };
    let record = end::end(&mut effects, record, ending)?;
    close(effects, record)
}

/// Makes the checkpoint of a plan that has nothing for the worker.
///
/// # Errors
/// [`Stalled`] when the plan's own events do not follow from the history.
pub fn settle(plan: Plan, ledger: Ledger) -> Result<Finished, Stalled> {
    let limits = end::room_to_end();
    let mut effects = Effects::new(plan, ledger, &limits)?;
    let record = effects.plan.record.clone();
    match std::mem::replace(&mut effects.plan.step, Step::Quiet) {
        Step::Terminate => {
            let output = terminated(&effects.decoded).flatten();
            end_terminated(effects, record, output)
        }
        Step::Replace(start) => replace(effects, *start),
        Step::AnswerAgain => {
            let failure = record.details.failure().map(Encoded::decode::<TaskFailureDetails>).transpose()?;
            let result = record.details.output().map(|output| output.as_str().to_owned());
            let ending = Ending { event_id: event::NO_ACTION, status: record.status, result, failure };
            end::tell_parent(&mut effects, &record, &ending);
            close(effects, record)
        }
        Step::Rewind(_) => Err(invalid("a rewind needs the history; `obey` makes its checkpoint")),
        Step::Quiet | Step::Run { .. } => close(effects, record),
    }
}

/// Ends a living run as Terminated and puts a start in its place, in one commit.
fn replace(mut effects: Effects<'_>, start: Message) -> Result<Finished, Stalled> {
    let old = effects.plan.record.clone();
    let Class::Start(new) = &start.class else { return Err(invalid("only a start replaces a run")) };
    let ending =
        Ending { event_id: event::NO_ACTION, status: Status::Terminated, result: None, failure: None };
    end::tell_parent(&mut effects, &old, &ending);
    end::terminate_children(&mut effects, "replaced by a new start");
    end::release_locks(&mut effects);
    let (generation, revision) = (old.generation + 1, old.revision);
    let mut record = Record { generation, revision, ..new.record(start.id) };
    record.times.created = effects.now();
    next_run(effects, record, vec![start])
}

/// The next run of the same orchestration (behaviour 28).
fn continue_as_new(
    mut effects: Effects<'_>,
    record: Record,
    completion: CompleteOrchestrationAction,
) -> Result<Finished, Stalled> {
    let Some(old) = effects.ledger.started().cloned() else { return Err(invalid("a run that never began")) };
    end::release_locks(&mut effects);
    let instance = effects.plan.fence.instance.clone();
    let execution = identity::next_execution(&instance, record.execution, effects.plan.fence.revision);
    let CompleteOrchestrationAction { result, new_version, carryover_events, tags, .. } = completion;
    let version = new_version.filter(|version| !version.is_empty()).or_else(|| old.version.clone());
    let tags = if tags.is_empty() { old.tags.clone() } else { tags };
    check_labels(version.as_deref(), &tags)?;
    let start = ExecutionStartedEvent {
        version: version.clone(),
        input: result,
        tags: tags.clone(),
        scheduled_start_timestamp: None,
        orchestration_instance: Some(OrchestrationInstance {
            instance_id: instance.to_string(),
            execution_id: Some(execution.to_string()),
        }),
        ..(*old).clone()
    };
    let queue = QueueKey::new(Kind::Orchestration, old.name.as_str(), version.as_deref());
    let mut next = Record {
        queue,
        execution,
        generation: record.generation + 1,
        status: Status::Running,
        tags: tags.into(),
        ..record
    };
    next.details.set_custom_status(None);
    next.details.set_trace(None);
    let mut prologue = vec![start_message(&mut effects, &next, start)];
    carry_control(&mut effects, &mut prologue);
    carry_events(&mut effects, carryover_events, &mut prologue)?;
    next_run(effects, next, prologue)
}

fn start_message(effects: &mut Effects<'_>, next: &Record, start: ExecutionStartedEvent) -> Message {
    let opening = Opening {
        tags: next.tags.clone(),
        parent: next.parent.clone(),
        ..Opening::new(next.queue.clone(), next.execution)
    };
    let class = Class::Start(Box::new(opening));
    let event = Encoded::new(&event::execution_started(effects.now().0, start));
    let id = effects.derived_id();
    prologue_message(effects, id, class, event)
}

/// A suspend or terminate that came in the same batch as the end of the old run holds for the next one too: the
/// worker was done before it saw them.
fn carry_control(effects: &mut Effects<'_>, prologue: &mut Vec<Message>) {
    let suspended = effects.ledger.is_suspended();
    let mut carried = Vec::new();
    for (event, encoded) in effects.decoded.iter().zip(&effects.encoded) {
        match &event.event_type {
            Some(EventType::ExecutionTerminated(_)) => carried.push((Control::Terminate, encoded.clone())),
            Some(EventType::ExecutionSuspended(_)) if suspended => {
                carried.retain(|(control, _)| *control != Control::Suspend);
                carried.push((Control::Suspend, encoded.clone()));
            }
            _ => {}
        }
    }
    for (control, event) in carried {
        let id = effects.derived_id();
        prologue.push(prologue_message(effects, id, Class::Control(control), event));
    }
}

fn carry_events(
    effects: &mut Effects<'_>,
    events: Vec<HistoryEvent>,
    prologue: &mut Vec<Message>,
) -> Result<(), Stalled> {
    let sources = effects.ledger.sources(&events);
    let lost = planted::is_on(Bug::LostCarryOver);
    for (mut event, source) in events.into_iter().zip(sources).filter(|_| !lost) {
        if !matches!(event.event_type, Some(EventType::EventRaised(_))) {
            let kind = event::kind_name(&event);
            return Err(invalid(format!("a {kind} event cannot be carried over, only an EventRaised can")));
        }
        // Some SDKs leave the time out, or send an empty one, but every stored event has one (behaviour 13).
        let told = event.timestamp.take().filter(|at| (at.seconds, at.nanos) != (0, 0));
        event.timestamp = Some(told.unwrap_or_else(|| time::from_millis(effects.now().0)));
        let id = source.unwrap_or_else(|| effects.derived_id());
        prologue.push(prologue_message(effects, id, Class::Ordinary, Encoded::new(&event)));
    }
    Ok(())
}

fn prologue_message(effects: &Effects<'_>, id: MessageId, class: Class, event: Encoded) -> Message {
    // At once, whatever the turn's time is: a run whose start cannot be seen yet would begin without it.
    let (to, visible_at) = (effects.plan.fence.instance.clone(), Timestamp::default());
    Message { id, to, execution: None, class, origin: effects.origin(None), answers: None, visible_at, event }
}

/// The checkpoint that puts a new run, not begun yet, in place of the current one.
pub(crate) fn next_run(
    effects: Effects<'_>,
    mut record: Record,
    prologue: Vec<Message>,
) -> Result<Finished, Stalled> {
    (record.history_len, record.history_bytes) = (0, 0);
    let execution = record.execution;
    let ledger = Ledger::new(effects.plan.fence.instance.clone(), execution);
    let history = History::Replace { execution, batches: Vec::new(), prologue };
    let consumed = consumed(&effects.plan);
    let details = record.details.clone();
    let (checkpoint, _ended) = checkpoint(effects, record, (consumed, history));
    Ok(Finished { checkpoint, details, ledger, events: Vec::new() })
}

/// The checkpoint of a turn that adds to its history.
pub(crate) fn close(mut effects: Effects<'_>, mut record: Record) -> Result<Finished, Stalled> {
    let consumed = consumed(&effects.plan);
    let (fates, produced) = (std::mem::take(&mut effects.plan.fates), std::mem::take(&mut effects.produced));
    let batch = Batch::join(&effects.encoded, fates, produced)?;
    (record.history_len, record.history_bytes) = check_history(&effects, &batch)?;
    let history = if effects.plan.is_fresh() {
        History::Replace { execution: record.execution, batches: vec![batch], prologue: Vec::new() }
    } else {
        History::Append(batch)
    };
    let events = std::mem::take(&mut effects.decoded);
    let details = record.details.clone();
    let (checkpoint, ledger) = checkpoint(effects, record, (consumed, history));
    Ok(Finished { checkpoint, details, ledger, events })
}

/// The length and size of the history with that batch, unless they pass a limit.
fn check_history(effects: &Effects<'_>, batch: &Batch) -> Result<(u32, u64), Stalled> {
    let events = effects.ledger.events();
    if events > effects.limits.history_events {
        let allowed = u64::from(effects.limits.history_events);
        return Err(Stalled::too_large("events in the history", u64::from(events), allowed));
    }
    let before = if effects.plan.is_fresh() { 0 } else { effects.plan.record.history_bytes };
    let bytes = before + batch.events.len() as u64;
    if bytes > effects.limits.history_bytes {
        return Err(Stalled::too_large("bytes in the history", bytes, effects.limits.history_bytes));
    }
    Ok((events, bytes))
}

/// The messages that a turn takes out of the inbox: all that have a fate, but the answers that never were in there.
pub(crate) fn consumed(plan: &Plan) -> Vec<MessageId> {
    let fused = Ids::of(plan.completions.iter().map(|done| done.answer.id));
    plan.fates.iter().map(|(id, _)| *id).filter(|id| !fused.has(*id)).collect()
}

pub(crate) fn checkpoint(
    effects: Effects<'_>,
    mut record: Record,
    (consumed, history): (Vec<MessageId>, History),
) -> (Checkpoint, Ledger) {
    record.attempts = 0;
    record.deaths = Deaths::default();
    record.trouble = None;
    let Effects { plan, ledger, tasks, timers, messages, .. } = effects;
    let Plan { fence, before, completions, .. } = plan;
    let record = record.since(&before);
    let then = Then::Release { delay: Duration::ZERO };
    (
        Checkpoint { fence, consumed, completions, history, record, tasks, timers, messages, take: 0, then },
        ledger,
    )
}
