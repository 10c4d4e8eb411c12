//! What happens to an instance that does not begin yet: before its scheduled time, or suspended before it began.

use dauer_proto::event;

use crate::model::{Class, Control, DropReason, Hold, Message, Record, Status};
use crate::turn::begin::{Came, Flow, Gather};
use crate::turn::{Plan, Stalled, Step, unborn};

/// The start of an instance that was woken before its scheduled time, or while it is suspended: no code runs yet.
pub(super) fn not_yet_due<'a>(record: &Record, came: Came<'a>) -> Option<&'a Message> {
    let own = |message: &&Message| match &message.class {
        Class::Start(start) | Class::Rewind(start) => start.execution == record.execution,
        _ => false,
    };
    let start = came.messages.iter().find(own)?;
    let early = record.status == Status::Pending && start.visible_at > came.now;
    (early || record.hold() == Hold::Unborn).then_some(start)
}

/// What happens to an instance before its scheduled time, or while it is suspended before it began: terminate ends it,
/// suspend and resume change the record, another start is refused or takes its place.
pub(super) fn before_its_time(mut gather: Gather<'_>, start: &Message) -> Result<Plan, Stalled> {
    gather.started = true;
    let came = gather.came;
    for message in came.messages.iter().filter(|message| message.id != start.id) {
        match message.class {
            Class::Control(Control::Terminate) => {
                gather.begin_with(event::orchestrator_started(came.now.0));
                gather.accept(start)?;
                gather.accept(message)?;
                return Ok(gather.into_plan(Step::Terminate));
            }
            Class::Control(control) => {
                let obeyed = unborn::control(&mut gather.record, start, control);
                gather.dropped(message, if obeyed { DropReason::Obeyed } else { DropReason::NotOpen });
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
        _ => Ok(gather.into_plan(Step::Quiet)),
    }
}
