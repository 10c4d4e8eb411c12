//! Starting instances (rules 18 and 21).

use dauer_store::{
    Create, Created, Delivered, DropReason, ExecutionId, Hint, Message, MessageId, Record, Refused, Reuse,
    Revision,
};

use crate::instance::deliver::repeats_removed_start;
use crate::instance::remove::{discard_tasks, start_is_gone};
use crate::instance::{
    Birth, Changes, Context, Delivery, Dirty, Facts, HeldTask, Inbox, Instance, Part, Written,
};
use crate::judge::{self, Creation, begun_alike, is_recent, likeness, opens};

/// What a start does to an absent instance.
#[derive(Debug)]
pub enum Beginning {
    /// Nothing: it was accepted before. It counts as [`REPEATED`].
    Repeat(Option<ExecutionId>),
    /// It creates the instance.
    Born(Box<Birth>),
}

/// What a start does to an instance.
#[derive(Debug)]
pub enum Creating {
    /// Nothing: it was accepted before.
    Repeat(Option<ExecutionId>),
    /// It takes the place of the ended instance.
    Replace(Box<Replacement>),
    /// It is delivered to the living instance, as the start of that run.
    Send(Box<Delivery>, ExecutionId),
}

/// A start that [`Instance::check_create`] puts in the place of an ended instance.
#[derive(Debug)]
pub struct Replacement {
    message: Message,
    record: Record,
    tasks: Vec<HeldTask>,
    /// All that waits in a long inbox.
    part: Option<Inbox>,
}

/// The reason under which a start counts that was accepted before.
pub const REPEATED: DropReason = DropReason::Repeat;

/// The run that a repeat is answered with.
fn repeated_run(known: Option<ExecutionId>, own: ExecutionId) -> Option<ExecutionId> {
    if planted!(Defect::RepeatNamesOwnExecution) { Some(own) } else { known }
}

/// A start that [`check_start`] has allowed.
#[derive(Debug)]
pub struct Starting {
    message: Message,
    record: Record,
    reuse: Reuse,
    retry: bool,
}

/// Checks the start itself.
///
/// # Errors
/// [`Refused`] if it is too large, or no start.
pub fn check_start(create: Create, context: Context<'_>) -> Result<Starting, Refused> {
    judge::check_message(context.limits, context.now, &create.start)?;
    let record = judge::start_of(&create)?.record(create.start.id);
    let Create { start: message, reuse, retry } = create;
    Ok(Starting { message, record, reuse, retry })
}

/// What a start does to an absent instance.
pub fn check_absent_create<F: Facts>(
    starting: Starting,
    context: Context<'_>,
    facts: &F,
) -> Result<Beginning, F::Error> {
    let Starting { message, record, retry, .. } = starting;
    let removed = repeats_removed_start(&message, context, facts)?;
    if removed || retry && is_removed_alike(message.id, context, facts)? {
        return Ok(Beginning::Repeat(repeated_run(None, record.execution)));
    }
    Ok(Beginning::Born(Box::new(Birth { record, message })))
}

/// Whether a start of the same likeness was accepted recently, and no instance names it any more.
fn is_removed_alike<F: Facts>(id: MessageId, context: Context<'_>, facts: &F) -> Result<bool, F::Error> {
    Ok(facts.removed_start(&likeness(id))?.is_some_and(|at| is_recent(at, context.now)))
}

impl Instance {
    /// What a start does to the instance.
    ///
    /// The outer error is the store's; the inner one refuses the start.
    pub fn check_create<F: Facts>(
        &self,
        starting: Starting,
        context: Context<'_>,
        facts: &F,
    ) -> Result<Result<Creating, Refused>, F::Error> {
        let Starting { message, record, reuse, retry } = starting;
        let own = record.execution;
        if let Some(known) = self.repeated(&message, retry, context, facts)? {
            return Ok(Ok(Creating::Repeat(repeated_run(known, own))));
        }
        let status = self.head.record.status;
        let opening = status.is_ended()
            && !planted!(Defect::ReplaceKeepsInbox)
            && self.part(facts, &[Part::Openings])?.has_opening();
        let reuse = if planted!(Defect::ExistsIgnored) { any_status() } else { reuse };
        match judge::creation(status, opening, &reuse) {
            Err(refused) => Ok(Err(refused)),
            Ok(Creation::Send) => {
                let delivery = self.check_delivery(judge::terminating(message), context, facts)?;
                Ok(Ok(Creating::Send(Box::new(delivery), own)))
            }
            Ok(Creation::Replace) => {
                let tasks = facts.tasks(None)?.into_iter().map(std::borrow::Cow::into_owned).collect();
                let part = match &self.inbox {
                    Some(_) => None,
                    None => Some(self.read_parts(facts, &[Part::All])?),
                };
                Ok(Ok(Creating::Replace(Box::new(Replacement { message, record, tasks, part }))))
            }
        }
    }

    /// The run of the same start, if that was accepted before; `Some(None)` when only its id is remembered.
    fn repeated<F: Facts>(
        &self,
        message: &Message,
        retry: bool,
        context: Context<'_>,
        facts: &F,
    ) -> Result<Option<Option<ExecutionId>>, F::Error> {
        let (record, now) = (&self.head.record, context.now);
        if record.start == message.id && !planted!(Defect::RepeatedStartCreatesAgain) {
            return Ok(Some(Some(record.execution)));
        }
        let named = self.part(facts, &[Part::Ids(&[message.id])])?;
        if let Some(waiting) = named.get(message.id).filter(|_| record.start != message.id) {
            return Ok(Some(opens(waiting).map(|start| start.execution)));
        }
        // Another start has replaced its run, or its instance is removed.
        if self.has_applied(message.id, now, facts)? || repeats_removed_start(message, context, facts)? {
            return Ok(Some(None));
        }
        if !retry {
            return Ok(None);
        }
        if let Some(run) = begun_alike(record, message.id, now) {
            return Ok(Some(Some(run)));
        }
        let openings = self.part(facts, &[Part::Openings])?;
        let alike = likeness(message.id);
        if let Some(start) = openings.starts_in(&alike).find(|start| is_recent(start.visible_at, now)) {
            return Ok(Some(opens(start).map(|start| start.execution)));
        }
        Ok(is_removed_alike(message.id, context, facts)?.then_some(None))
    }

    /// Does what a start does. `sequence` is its place in the order of arrival.
    pub fn create(
        &mut self,
        creating: Creating,
        sequence: u64,
        context: Context<'_>,
        changes: &mut Changes,
    ) -> Created {
        match creating {
            Creating::Repeat(known) => {
                changes.drops(REPEATED, 1);
                Created::Repeat(known)
            }
            Creating::Replace(replacement) => self.replace(*replacement, sequence, context, changes),
            Creating::Send(delivery, run) => self.send_start((*delivery, run), sequence, context, changes),
        }
    }

    /// Delivers a start that waits for the end of the run, and begins `run` then.
    fn send_start(
        &mut self,
        (delivery, run): (Delivery, ExecutionId),
        sequence: u64,
        context: Context<'_>,
        changes: &mut Changes,
    ) -> Created {
        match self.deliver(delivery, sequence, context, changes) {
            Delivered::Dropped(DropReason::Repeat) => Created::Repeat(None),
            Delivered::Applied | Delivered::Dropped(_) => Created::Replacing(run),
        }
    }

    /// Puts a new instance in the place of the ended one: record, inbox, history and tasks. The epoch rises, so that no fence
    /// on the old one passes; the revision goes on, and so does the memory of what was applied.
    fn replace(
        &mut self,
        replacement: Replacement,
        sequence: u64,
        context: Context<'_>,
        changes: &mut Changes,
    ) -> Created {
        let Replacement { message, record, tasks, mut part } = replacement;
        let execution = record.execution;
        discard_tasks(tasks, changes);
        self.take_from_holder(changes);
        let old = self.head.record.clone();
        start_is_gone(&old, context.now, changes);
        if !planted!(Defect::ReplaceKeepsInbox) {
            let waiting = self.inbox.as_mut().or(part.as_mut()).map(Inbox::clear).unwrap_or_default();
            // Only starts and rewinds count: another start has run before them now.
            let openings = waiting.iter().filter(|waiting| opens(&waiting.message).is_some()).count();
            changes.drops(DropReason::Running, openings);
            changes.removed.extend(waiting);
        }
        let resets = planted!(Defect::ReplaceResetsRevision);
        let revision = if resets { Revision::default() } else { old.revision.next() };
        self.head.record = judge::newborn(record, revision, context.now);
        (self.head.epoch, self.head.last) = (self.head.epoch.next(), None);
        (self.head.not_before, self.ready_at) = (Default::default(), None);
        if planted!(Defect::MemoryClearedByReplace) {
            changes.forgets = true;
        }
        self.remember(old.start, context.now, changes);
        let inbox = self.inbox.get_or_insert_default();
        inbox.admit_for(&self.head.record);
        self.ready_at = inbox.earliest();
        changes.dirty.add(Dirty::ALL);
        changes.history = Some(Written::Replaced);
        changes.hints.push(Hint::Status(self.id.clone(), self.head.record.status));
        self.put(Delivery::taken(message), sequence, context, changes);
        Created::New(execution)
    }
}

/// The policy that replaces every instance.
fn any_status() -> Reuse {
    use dauer_store::Status;
    let living = [Status::Pending, Status::Running, Status::Suspended];
    Reuse { replaceable: Reuse::default().replaceable.into_iter().chain(living).collect() }
}
