//! The inbox of an instance: which waiting messages a turn gets, and which the end of a run drops (rules 4, 5 and 6).
//!
//! The functions take one message at a time, so that a store may hold messages in memory or read them from an index.

use dauer_store::{Class, ExecutionId, Hold, InstanceId, Message, Record, Status, Timestamp};

use crate::judge::{is_own_start, opens};

/// Which waiting messages an instance takes.
#[derive(Debug, Clone, Copy)]
pub struct Admission<'r> {
    hold: Hold<&'r InstanceId>,
    /// Whether a rewind created the instance, so that the instance begins with it.
    rewinds: bool,
}

impl<'r> Admission<'r> {
    /// The admission of a hold. `rewinds` says whether a rewind created the instance.
    pub(crate) fn new(hold: Hold<&'r InstanceId>, rewinds: bool) -> Self {
        Self { hold, rewinds }
    }

    pub(crate) fn rewinds(&self) -> bool {
        self.rewinds
    }

    /// The admission of an instance. `own_start_waits` says whether its [own start](crate::judge::is_own_start) waits; only
    /// an instance that [needs](Self::needs_start) it is asked for it.
    #[must_use]
    pub fn of(record: &'r Record, own_start_waits: bool) -> Self {
        Self { hold: record.hold(), rewinds: Self::needs_start(record) && !own_start_waits }
    }

    /// Whether the admission depends on the own start: no start ever comes to an instance that a rewind created.
    #[must_use]
    pub fn needs_start(record: &Record) -> bool {
        record.status == Status::Pending
    }

    /// Whether a turn gets that message once it is visible.
    #[must_use]
    pub fn admits(&self, message: &Message) -> bool {
        if self.hold == Hold::Ended && planted!(Defect::EndedHidesStart) {
            return false;
        }
        self.hold.admits(message) || self.rewinds && matches!(message.class, Class::Rewind(_))
    }

    /// Which ordinary messages are admitted: for stores that have them in an index of their own.
    #[must_use]
    pub fn ordinary(&self) -> Ordinary<'r> {
        match self.hold {
            Hold::Open => Ordinary::All,
            Hold::From(owner) => Ordinary::Of(owner),
            Hold::Control | Hold::Unborn | Hold::Ended => Ordinary::None,
        }
    }
}

/// The ordinary messages that an instance takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordinary<'r> {
    /// Those of every sender.
    All,
    /// Those of one sender.
    Of(&'r InstanceId),
    /// None.
    None,
}

/// Sets the arrival of a message: a time in the past becomes `now`, because clocks of senders must not decide the order.
pub fn arrive(message: &mut Message, now: Timestamp) {
    message.visible_at = message.visible_at.max(now);
}

/// When an instance is ready after an admitted message arrived: earlier, never later (rule 11).
#[must_use]
pub fn ready_by(ready_at: Option<Timestamp>, visible_at: Timestamp) -> Timestamp {
    ready_at.map_or(visible_at, |ready| ready.min(visible_at))
}

/// Whether the current run begins with that start or rewind. Another one waits for the end of this run.
fn begins(record: &Record, message: &Message) -> bool {
    opens(message).is_some_and(|start| start.execution == record.execution)
}

/// Whether a turn begins with that waiting message, even if it is not due.
#[must_use]
pub fn leads(record: &Record, message: &Message) -> bool {
    if record.hold() == Hold::Unborn { begins(record, message) } else { is_own_start(record, message) }
}

/// Whether a turn may consist of the start that leads it. Otherwise the start waits for another message: it is not due, or
/// its run is suspended before it began.
#[must_use]
pub fn begins_alone(record: &Record, visible_at: Timestamp, now: Timestamp) -> bool {
    visible_at <= now && record.hold() != Hold::Unborn
}

/// A waiting message that a turn may get.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<K, M> {
    /// The key of the message in its inbox.
    pub key: K,
    /// The bytes of its event.
    pub bytes: usize,
    /// Whether it is a suspend, which ends the batch.
    pub suspends: bool,
    /// The message, or where to read it.
    pub message: M,
}

/// How much a turn gets.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// About as many bytes of events.
    pub bytes: usize,
    /// Whether the least that makes a turn is taken whatever its size.
    pub whatever_size: bool,
}

/// The messages of one turn.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct TurnBatch {
    /// The messages in order.
    pub messages: Vec<Message>,
    /// The bytes of their events.
    pub bytes: usize,
    /// Whether more are visible and admitted.
    pub more: bool,
}

/// The batch of the next turn, up to the first suspend. `None` if nothing is ready, or the least that makes a turn is too
/// large.
///
/// `start` leads the turn, whether it is visible or not; the flag says whether it [may come alone](begins_alone). `waiting`
/// are the visible, admitted messages in order, perhaps with the start among them. `read` returns the message of a candidate.
///
/// # Errors
/// The first error of `read`.
pub fn next_turn<K: Copy + PartialEq, M, E>(
    start: Option<(Candidate<K, M>, bool)>,
    waiting: impl IntoIterator<Item = Candidate<K, M>>,
    room: Room,
    mut read: impl FnMut(Candidate<K, M>) -> Result<Message, E>,
) -> Result<Option<TurnBatch>, E> {
    let mut waiting = waiting.into_iter().peekable();
    if waiting.peek().is_none() {
        return Ok(None);
    }
    let least = if start.as_ref().is_some_and(|(_, alone)| !alone) { 2 } else { 1 };
    let first = start.as_ref().map(|(start, _)| start.key);
    let rest = waiting.filter(|candidate| Some(candidate.key) != first);
    let mut batch = TurnBatch::default();
    let mut cut = false;
    for candidate in start.map(|(start, _)| start).into_iter().chain(rest) {
        let bytes = batch.bytes.saturating_add(candidate.bytes);
        let fits = bytes <= room.bytes || batch.messages.len() < least && room.whatever_size;
        if cut || !fits {
            batch.more = true;
            break;
        }
        cut = candidate.suspends;
        batch.bytes = bytes;
        batch.messages.push(read(candidate)?);
    }
    Ok((batch.messages.len() >= least).then_some(batch))
}

/// A start or rewind that waits: its place in the inbox, and the run that it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenedRun<P> {
    /// Places are in the order of the inbox.
    pub place: P,
    /// The run.
    pub execution: ExecutionId,
}

impl<P> OpenedRun<P> {
    /// The run that a message at that place begins.
    pub fn of(place: P, message: &Message) -> Option<Self> {
        opens(message).map(|opening| Self { place, execution: opening.execution })
    }
}

/// Whether a message for `execution`, or for whichever run is current, is for a run that a waiting start or rewind begins.
#[must_use]
pub fn is_for_next_run<P>(openings: &[OpenedRun<P>], execution: Option<ExecutionId>) -> bool {
    openings.iter().any(|opening| execution.is_none_or(|execution| execution == opening.execution))
}

/// Whether a message stays when the run ends. Starts and rewinds stay. So do messages behind the first of them, if they are for
/// a run that one of them begins. `openings` are those of the instance, in order.
#[must_use]
pub fn outlives_end<P: PartialOrd>(openings: &[OpenedRun<P>], place: &P, message: &Message) -> bool {
    let behind = || openings.first().is_some_and(|first| first.place < *place);
    opens(message).is_some() || behind() && is_for_next_run(openings, message.execution)
}

/// Whether a message stays in the inbox when `execution` becomes the current run.
#[must_use]
pub fn is_for_run(message: &Message, execution: ExecutionId) -> bool {
    message.execution.is_none_or(|named| named == execution)
}
