//! What happens to an instance before its scheduled time.

use dauer_proto::{event, time};

use crate::identity;
use crate::ids::ExecutionId;
use crate::model::{Class, Control, DropReason, Encoded, Message, Record, Status};
use crate::turn::begin::{Came, Flow, Gather};
use crate::turn::{Plan, Stalled, Step};

/// The start of an instance that was woken before its scheduled time: no code runs yet.
pub(super) fn not_yet_due<'a>(record: &Record, came: Came<'a>) -> Option<&'a Message> {
    let own = |message: &&Message| match &message.class {
        Class::Start(start) => start.record.execution == record.execution,
        _ => false,
    };
    let start = came.messages.iter().find(own)?;
    (record.status == Status::Pending && start.visible_at > came.now).then_some(start)
}

/// What happens to an instance before its scheduled time: terminate ends it, suspend and resume are put off, another
/// start is refused or takes its place.
pub(super) fn before_its_time(mut gather: Gather<'_>, start: &Message) -> Result<Plan, Stalled> {
    gather.started = true;
    // Of the run that was to begin: another start may take its place.
    let (came, execution) = (gather.came, gather.record.execution);
    let mut put_off = Vec::new();
    for message in came.messages.iter().filter(|message| message.id != start.id) {
        match message.class {
            Class::Control(Control::Terminate) => {
                gather.begin_with(event::orchestrator_started(came.now.0));
                gather.accept(start)?;
                gather.accept(message)?;
                return Ok(gather.into_plan(Step::Unborn));
            }
            Class::Control(_) => {
                gather.dropped(message, DropReason::PutOff);
                put_off.push(until(start, execution, message)?);
            }
            // Events wait in the inbox until the run has begun.
            Class::Ordinary => {}
            Class::Start(_) | Class::Rewind(_) if gather.take(message)? == Flow::Stop => break,
            Class::Start(_) | Class::Rewind(_) => {}
        }
    }
    match std::mem::replace(&mut gather.step, Step::Quiet) {
        Step::Replace(by) => {
            // Left in the inbox, the old start would come up at its time and replace the new run's remains.
            gather.dropped(start, DropReason::OtherExecution);
            Ok(gather.into_plan(Step::Replace(by)))
        }
        _ => Ok(gather.into_plan(Step::Defer(put_off))),
    }
}

/// The same suspend or resume, for the time at which the run begins.
fn until(start: &Message, execution: ExecutionId, message: &Message) -> Result<Message, Stalled> {
    // A new identity: the commit that puts it off remembers the old one as applied.
    let id = identity::answer(message.id, execution);
    // By its time the ledger tells it from one that was not put off.
    let mut event = message.event.event()?;
    event.timestamp = Some(time::from_millis(start.visible_at.0));
    Ok(Message {
        id,
        visible_at: start.visible_at,
        execution: Some(execution),
        event: Encoded::new(&event),
        ..message.clone()
    })
}
