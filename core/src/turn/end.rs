//! The end of a run: the parent is answered, children are told, entity locks are given back.

use dauer_proto::{
    EntityMessageType, EntityUnlockSentEvent, OrchestrationStatus, TaskFailureDetails, event, failure,
};

use crate::identity;
use crate::ledger::Ledger;
use crate::limits::TurnLimits;
use crate::model::{Class, Control, Encoded, Payload, Record, Status};
use crate::planted::{self, Bug};
use crate::turn::act::{Effects, Outgoing};
use crate::turn::finish::close;
use crate::turn::{Finished, Plan, Stalled};

/// How a run ends.
pub(crate) struct Ending {
    pub(crate) event_id: i32,
    pub(crate) status: Status,
    pub(crate) result: Option<String>,
    pub(crate) failure: Option<TaskFailureDetails>,
}

/// Ends a run as Failed without asking the worker, after trouble that a setting says is final.
///
/// # Errors
/// [`Stalled`] when not even that can be recorded, because the history does not fit together.
pub fn fail(plan: Plan, ledger: Ledger, details: TaskFailureDetails) -> Result<Finished, Stalled> {
    let limits = room_to_end();
    let mut effects = Effects::new(plan, ledger, &limits)?;
    let record = effects.plan.record.clone();
    let ending =
        Ending { event_id: event::NO_ACTION, status: Status::Failed, result: None, failure: Some(details) };
    let record = end(&mut effects, record, ending)?;
    close(effects, record)
}

/// A run at the limit of its history must still be able to end, or it could neither go on nor be removed.
pub(crate) fn room_to_end() -> TurnLimits {
    TurnLimits { history_events: u32::MAX, history_bytes: u64::MAX, ..TurnLimits::default() }
}

/// Writes the end into the history and the record, and tells those who wait.
pub(crate) fn end(effects: &mut Effects<'_>, mut record: Record, ending: Ending) -> Result<Record, Stalled> {
    let now = effects.now().0;
    let status = OrchestrationStatus::from(ending.status);
    let (result, details) = (ending.result.clone(), ending.failure.clone());
    tell_parent(effects, &record, &ending);
    let recursive = effects.ledger.is_ending_recursively() && !planted::is_on(Bug::ChildForgotten);
    if ending.status == Status::Terminated && recursive {
        terminate_children(effects, "the parent was terminated");
    }
    release_locks(effects);
    effects.append(event::execution_completed(now, ending.event_id, status, result, details))?;
    record.status = ending.status;
    record.details.set_output(ending.result.map(Payload::from));
    record.details.set_failure(ending.failure.as_ref().map(Encoded::new));
    Ok(record)
}

/// Answers the parent, with the failure as it is (behaviour 27).
pub(crate) fn tell_parent(effects: &mut Effects<'_>, record: &Record, ending: &Ending) {
    let Some(parent) = &record.parent else { return };
    let (now, instance) = (effects.now().0, &effects.plan.fence.instance);
    let failed = |kind: &str, what: &str| {
        let details = failure::failure(kind, format!("The sub-orchestration '{instance}' {what}."));
        event::sub_orchestration_failed(now, parent.event_id, details)
    };
    let event = match (ending.status, &ending.failure) {
        (Status::Completed, _) => {
            event::sub_orchestration_completed(now, parent.event_id, ending.result.clone())
        }
        (_, Some(details)) => event::sub_orchestration_failed(now, parent.event_id, details.clone()),
        (Status::Terminated, None) => failed("OrchestrationTerminated", "was terminated"),
        (Status::Canceled, None) => failed("OrchestrationCanceled", "was canceled"),
        (_, None) => failed("OrchestrationFailed", "failed without saying why"),
    };
    let id = identity::answer(record.start, record.execution);
    let to = parent.instance.clone();
    let answers = Some(record.start);
    effects.send(Outgoing { id, to, class: Class::Ordinary, answers, visible_at: None, event });
    if let Some(sent) = effects.messages.last_mut() {
        sent.execution = Some(parent.execution);
    }
}

/// Terminates every child that has not answered, and theirs (behaviour 31).
pub(crate) fn terminate_children(effects: &mut Effects<'_>, reason: &str) {
    let children: Vec<_> = effects.ledger.open_children().cloned().collect();
    for child in children {
        // The reason becomes the child's output, which is JSON wherever an SDK reads it.
        let event = event::execution_terminated(effects.now().0, Some(format!("{reason:?}")), true);
        effects.send_control(child, Control::Terminate, event);
    }
}

/// Gives back every entity lock that is held or asked for.
pub(crate) fn release_locks(effects: &mut Effects<'_>) {
    let locked: Vec<_> = effects.ledger.locked().map(|(s, e)| (s.to_owned(), e.clone())).collect();
    let own = effects.plan.fence.instance.to_string();
    for (section, entity) in locked {
        let unlock = EntityMessageType::EntityUnlockSent(EntityUnlockSentEvent {
            critical_section_id: section,
            parent_instance_id: Some(own.clone()),
            target_instance_id: Some(entity.to_string()),
        });
        let event = event::entity_message(effects.now().0, event::NO_ACTION, unlock);
        let id = effects.derived_id();
        effects.send(Outgoing {
            id,
            to: entity,
            class: Class::Ordinary,
            answers: None,
            visible_at: None,
            event,
        });
    }
}
