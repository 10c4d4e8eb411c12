//! What a client does to an instance that no host runs, for `Manage::amend`: it ends, suspends, resumes or replaces the
//! run as a turn would, without the run's code.

use std::sync::Arc;

use crate::ids::{MessageId, Timestamp};
use crate::ledger::Ledger;
use crate::model::{
    Class, Control, DropReason, Fate, Fence, Message, Opening, Over, Record, Times, TroubleKind,
};
use crate::turn::act::{Effects, invalid};
use crate::turn::begin::begin;
use crate::turn::end::room_to_end;
use crate::turn::finish::{close, next_run, settle, stand};
use crate::turn::{Finished, Input, Plan, Stalled, Step, unborn};

/// An instance as a client reads it.
#[derive(Debug, Clone)]
pub struct Found {
    /// What the amendment carries.
    pub fence: Fence,
    /// The instance without its history.
    pub record: Record,
    /// The ledger of its history.
    pub ledger: Ledger,
    /// The start or rewind that the run has not begun with yet, or that waits for an ended instance. None for a run that has
    /// begun and goes on.
    pub start: Option<Message>,
    /// Messages that wait and that this one overtakes: they would change what it has changed. The amendment drops them.
    pub overtaken: Vec<MessageId>,
    /// The store's time, of which the client has read: the turn is not later than its commit.
    pub now: Timestamp,
}

/// Carries out a client's message in place of a host. `message` is a control message, or a start that replaces the run.
/// Whether it waits in the inbox does not matter: the checkpoint consumes it if it does.
///
/// `None` when the message changes nothing: the run is suspended already, or was begun by that very start.
///
/// # Errors
/// [`Stalled`] when the run has ended, has neither begun nor a start, or its history does not fit together.
pub fn amend(found: Found, message: &Message) -> Result<Option<Finished>, Stalled> {
    if found.record.status.is_ended() {
        let text = "the run has ended; there is nothing to change";
        return Err(Stalled::new(TroubleKind::InvalidAnswer, text));
    }
    if found.ledger.started().is_none() && found.start.is_none() {
        let text = "the run has not begun, and its start does not wait; read the instance again";
        return Err(Stalled::new(TroubleKind::Undecodable, text));
    }
    match &message.class {
        Class::Control(Control::Terminate) => terminate(found, message).map(Some),
        Class::Control(control) => match found.start.clone() {
            Some(start) => suspend_unborn(found, &start, (message, *control)),
            None => suspend(found, message),
        },
        Class::Start(start) => replace(found, message, start),
        Class::Rewind(_) | Class::Ordinary => Err(invalid("only a start or a control message amends a run")),
    }
}

/// Ends the run as Terminated. One that has not begun gets its start into the history first, as a turn writes it.
fn terminate(found: Found, message: &Message) -> Result<Finished, Stalled> {
    let (mut plan, ledger) = plan(found, message.clone())?;
    plan.step = Step::Terminate;
    settle(plan, ledger)
}

fn suspend(found: Found, message: &Message) -> Result<Option<Finished>, Stalled> {
    let alone = found.overtaken.is_empty();
    let (plan, ledger) = plan(found, message.clone())?;
    if !plan.is_run() {
        return if alone { Ok(None) } else { settle(plan, ledger).map(Some) };
    }
    let limits = room_to_end();
    let effects = Effects::new(plan, ledger, &limits)?;
    let mut record = effects.plan.record.clone();
    stand(&mut record, &effects.ledger);
    close(effects, record).map(Some)
}

fn suspend_unborn(
    found: Found,
    start: &Message,
    (message, control): (&Message, Control),
) -> Result<Option<Finished>, Stalled> {
    let Found { fence, mut record, ledger, now, overtaken, .. } = found;
    let before = record.details.clone();
    let changed = unborn::control(&mut record, start, control);
    if !changed && overtaken.is_empty() {
        return Ok(None);
    }
    let fate = if changed { DropReason::Obeyed } else { DropReason::NotOpen };
    let fates = dropped(overtaken).chain([(message.id, Fate::Dropped(fate))]).collect();
    let plan = Plan {
        fence,
        before,
        record,
        completions: Vec::new(),
        now: now.max(ledger.now()),
        events: Arc::default(),
        origins: Vec::new(),
        fates,
        refusals: Vec::new(),
        step: Step::Quiet,
    };
    settle(plan, ledger).map(Some)
}

/// Ends the run and puts the start in its place, before the inbox.
fn replace(found: Found, message: &Message, start: &Opening) -> Result<Option<Finished>, Stalled> {
    let class = Class::Start(Box::new(Opening { over: Over::Terminate, ..start.clone() }));
    let (plan, ledger) = plan(found, Message { class, ..message.clone() })?;
    match plan.step {
        Step::Replace(_) => settle(plan, ledger).map(Some),
        _ => Ok(None),
    }
}

/// Makes the start that waits for an ended instance its current run, which has not begun. Then a client can carry out a
/// message for that run, although no host knows its code. The history of the ended run goes, as it does when a host begins
/// the next one.
///
/// A start of the ended run itself is dropped instead: a dauer before format 7 left it when it ended a pending run by force.
///
/// # Errors
/// [`Stalled`] when the run has not ended, or no start waits for it.
pub fn promote(found: Found) -> Result<Finished, Stalled> {
    let Found { fence, record, ledger, start, now, .. } = found;
    let Some(message) = start.filter(|_| record.status.is_ended()) else {
        return Err(invalid("only a start that waits for an ended instance is promoted"));
    };
    let (Class::Start(start) | Class::Rewind(start)) = &message.class else {
        return Err(invalid("only a start or rewind waits for an ended instance"));
    };
    let leftover = start.execution == record.execution;
    if !leftover && matches!(message.class, Class::Rewind(_)) {
        return Err(invalid("only a start is promoted; a rewind needs a host"));
    }
    let next =
        Record { generation: record.generation + 1, revision: record.revision, ..start.record(message.id) };
    let next = Record { times: Times { created: now, ..next.times }, ..next };
    // A promoted start is taken from the inbox and put before it, in the same commit.
    let fate = Fate::Dropped(if leftover { DropReason::Repeat } else { DropReason::PutOff });
    let (ended, before) = (record.clone(), record.details.clone());
    let plan = Plan {
        fence,
        before,
        record,
        completions: Vec::new(),
        now,
        events: Arc::default(),
        origins: Vec::new(),
        fates: vec![(message.id, fate)],
        refusals: Vec::new(),
        step: Step::Quiet,
    };
    let limits = room_to_end();
    let effects = Effects::new(plan, ledger, &limits)?;
    if leftover { close(effects, ended) } else { next_run(effects, next, vec![message]) }
}

/// The plan of a turn that gets this message alone, behind the start of a run that has not begun.
fn plan(found: Found, message: Message) -> Result<(Plan, Ledger), Stalled> {
    let Found { fence, record, ledger, start, overtaken, now } = found;
    let start = start.filter(|start| start.id != message.id);
    let messages = start.into_iter().chain([message]).collect();
    let mut plan = begin(Input { fence, record, messages, completions: Vec::new(), now }, &ledger)?;
    plan.fates.extend(dropped(overtaken));
    Ok((plan, ledger))
}

/// The fates of messages that another one has overtaken.
fn dropped(overtaken: Vec<MessageId>) -> impl Iterator<Item = (MessageId, Fate)> {
    overtaken.into_iter().map(|id| (id, Fate::Dropped(DropReason::Overtaken)))
}
