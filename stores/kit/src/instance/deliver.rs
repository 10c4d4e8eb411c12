//! Delivery: the one way into an inbox, for clients, turns, timers and activities (rules 1, 4, 5, 10 and 11).

use std::sync::Arc;

use dauer_store::{Class, Delivered, DropReason, Floor, Hint, Message, Record, Timestamp};

use crate::inbox::{Admission, arrive, is_for_next_run, ready_by};
use crate::instance::{Changes, Context, Dirty, Facts, Instance, Part, Place, Waiting};
use crate::judge::{self, is_known, is_recent};

/// What becomes of a message to an instance. Made by [`Instance::check_delivery`].
#[derive(Debug)]
pub struct Delivery {
    message: Message,
    dropped: Option<DropReason>,
    /// Whether the own start waits in an inbox that is not loaded.
    own_start_waits: bool,
}

impl Delivery {
    /// A start that comes to an instance in any case.
    pub(super) fn taken(message: Message) -> Self {
        Self { message, dropped: None, own_start_waits: false }
    }
}

/// What becomes of a message to an absent instance.
#[derive(Debug)]
pub enum Absent {
    /// The message has no effect.
    Dropped(DropReason),
    /// The message creates the instance.
    Born(Box<Birth>),
}

/// A new instance, and the message that creates it.
#[derive(Debug)]
pub struct Birth {
    pub(super) record: Record,
    pub(super) message: Message,
}

/// What becomes of a message to an absent instance, in a hub whose floor is at `floor`.
pub fn check_absent<F: Facts>(
    message: Message,
    floor: Floor,
    context: Context<'_>,
    facts: &F,
) -> Result<Absent, F::Error> {
    if repeats_removed_start(&message, context, facts)? {
        return Ok(Absent::Dropped(DropReason::Repeat));
    }
    if matches!(message.class, Class::Start(_)) && planted!(Defect::StartToAbsentDropped) {
        return Ok(Absent::Dropped(DropReason::Absent));
    }
    Ok(match judge::created_by(&message, floor.revision) {
        Some(record) => Absent::Born(Box::new(Birth { record, message })),
        None => Absent::Dropped(DropReason::Absent),
    })
}

/// Whether a message is a start that was accepted recently, and that no instance names any more.
pub(super) fn repeats_removed_start<F: Facts>(
    message: &Message,
    context: Context<'_>,
    facts: &F,
) -> Result<bool, F::Error> {
    if !matches!(message.class, Class::Start(_)) {
        return Ok(false);
    }
    let accepted = facts.removed_start(&(message.id..=message.id))?;
    Ok(accepted.is_some_and(|at| is_recent(at, context.now)))
}

impl Birth {
    /// The new instance, with its first message at that place in the order of arrival.
    pub fn apply(self, floor: Floor, sequence: u64, context: Context<'_>, changes: &mut Changes) -> Instance {
        let Self { record, message } = self;
        let record = judge::newborn(record, floor.revision, context.now);
        let mut instance = Instance::new(message.to.clone(), record, floor.epoch);
        changes.dirty.add(Dirty::RECORD);
        changes.hints.push(Hint::Status(message.to.clone(), instance.head.record.status));
        instance.put(Delivery::taken(message), sequence, context, changes);
        instance
    }
}

impl Instance {
    /// Whether that message waits.
    pub fn waits<F: Facts>(&self, id: dauer_store::MessageId, facts: &F) -> Result<bool, F::Error> {
        Ok(self.part(facts, &[Part::Ids(&[id])])?.get(id).is_some())
    }

    /// Whether the start that the record names waits. A rewind that has created the instance has that id, too, and is no start.
    pub(super) fn own_start_waits<F: Facts>(&self, facts: &F) -> Result<bool, F::Error> {
        let record = &self.head.record;
        Ok(self.part(facts, &[Part::Ids(&[record.start])])?.own_start(record).is_some())
    }

    /// Whether the instance remembers that it has applied that message.
    pub(super) fn has_applied<F: Facts>(
        &self,
        id: dauer_store::MessageId,
        now: Timestamp,
        facts: &F,
    ) -> Result<bool, F::Error> {
        Ok(self.head.remembers && facts.applied_at(id)?.is_some_and(|at| is_known(at, now)))
    }

    /// What becomes of a message.
    pub fn check_delivery<F: Facts>(
        &self,
        message: Message,
        context: Context<'_>,
        facts: &F,
    ) -> Result<Delivery, F::Error> {
        let record = &self.head.record;
        let repeats = self.is_repeat(&message, context, facts)?;
        let follows = !repeats && judge::follows_end(record, &message);
        let for_next_run = follows
            && !planted!(Defect::EndedDropsWhatFollowsAStart)
            && is_for_next_run(&self.part(facts, &[Part::Openings])?.opened_runs(), message.execution);
        let dropped = judge::why_dropped(record, &message, judge::Facts { repeats, for_next_run });
        let asks = dropped.is_none() && self.inbox.is_none() && Admission::needs_start(record);
        let own_start_waits = asks && self.own_start_waits(facts)?;
        Ok(Delivery { message, dropped, own_start_waits })
    }

    fn is_repeat<F: Facts>(
        &self,
        message: &Message,
        context: Context<'_>,
        facts: &F,
    ) -> Result<bool, F::Error> {
        let own = judge::is_own_start(&self.head.record, message);
        Ok(own && !planted!(Defect::RepeatedStartCreatesAgain)
            || repeats_removed_start(message, context, facts)?
            || !planted!(Defect::AcceptRepeatInInbox) && self.waits(message.id, facts)?
            || message.answers.is_none() && self.has_applied(message.id, context.now, facts)?)
    }

    /// Delivers a message. `sequence` is its place in the order of arrival.
    pub fn deliver(
        &mut self,
        delivery: Delivery,
        sequence: u64,
        context: Context<'_>,
        changes: &mut Changes,
    ) -> Delivered {
        match delivery.dropped {
            Some(reason) => {
                changes.drops(reason, 1);
                Delivered::Dropped(reason)
            }
            None => {
                self.put(delivery, sequence, context, changes);
                Delivered::Applied
            }
        }
    }

    /// The same for a message that the turn of the instance sends to itself: the answer to the commit has it.
    pub fn deliver_own(
        &mut self,
        delivery: Delivery,
        sequence: u64,
        context: Context<'_>,
        changes: &mut Changes,
    ) -> Delivered {
        let delivered = self.deliver(delivery, sequence, context, changes);
        changes.mail = changes.mail.filter(|(_, at)| *at > context.now);
        delivered
    }

    /// Puts an accepted message into the inbox. The instance becomes ready earlier by it, never later.
    pub(super) fn put(
        &mut self,
        delivery: Delivery,
        sequence: u64,
        context: Context<'_>,
        changes: &mut Changes,
    ) {
        let Delivery { mut message, own_start_waits, .. } = delivery;
        arrive(&mut message, context.now);
        let record = &self.head.record;
        let own_start = match &self.inbox {
            Some(inbox) => Admission::needs_start(record) && inbox.own_start(record).is_some(),
            None => own_start_waits,
        };
        if Admission::of(record, own_start).admits(&message) {
            let ready_at = ready_by(self.ready_at, message.visible_at);
            if self.ready_at != Some(ready_at) {
                changes.dirty.add(Dirty::READY);
            }
            self.ready_at = Some(ready_at);
            changes.mail = self.head.holder.map(|holder| (holder, message.visible_at));
            if judge::hurries(record, &message) && self.head.not_before > message.visible_at {
                self.head.not_before = message.visible_at;
                changes.dirty.add(Dirty::NOT_BEFORE);
            }
        }
        if judge::opens(&message).is_some() {
            // An ended instance is offered as the start that waits.
            changes.dirty.add(Dirty::READY);
        }
        let place = Place::arrival(&message, context.now, sequence);
        let waiting = Waiting { place, message: Arc::new(message) };
        if let Some(inbox) = &mut self.inbox {
            inbox.insert(waiting.clone());
            // The own start of an instance decides whether a rewind is admitted.
            inbox.admit_for(record);
        }
        changes.added.push(waiting);
    }
}
