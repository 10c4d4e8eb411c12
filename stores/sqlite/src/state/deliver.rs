//! Delivery: the one way into an inbox, for clients, turns, timers and activities.

use dauer_store::{Class, Delivered, DropReason, Hold, Message, Record, Revision, Start, Times};
use dauer_store_kit::codec::read_message;

use super::Scope;
use super::instance::Instance;
use crate::fail::Outcome;

/// What a start or rewind carries; both create and reopen instances.
pub(super) fn opens(message: &Message) -> Option<&Start> {
    match &message.class {
        Class::Start(start) | Class::Rewind(start) => Some(start),
        Class::Control(_) | Class::Ordinary => None,
    }
}

impl Scope<'_, '_> {
    /// A client's message.
    pub(crate) fn send(&mut self, message: &Message) -> Outcome<Delivered> {
        self.check_message(message)?;
        self.touch()?;
        self.deliver(message.clone())
    }

    /// Puts a message into the inbox of its instance, or counts why not.
    pub(super) fn deliver(&mut self, message: Message) -> Outcome<Delivered> {
        match self.fetch(&message.to)? {
            Some(instance) => self.deliver_and_store(instance, message),
            None if self.repeats_removed_start(&message)? => self.drop_message(DropReason::Repeat),
            None => match self.created_by(&message)? {
                Some(record) => {
                    self.found(record, message)?;
                    Ok(Delivered::Applied)
                }
                None => self.drop_message(DropReason::Absent),
            },
        }
    }

    /// The same for an instance that was fetched, and is stored and put back here.
    pub(super) fn deliver_and_store(
        &mut self,
        mut instance: Box<Instance>,
        message: Message,
    ) -> Outcome<Delivered> {
        let before = instance.ready_at;
        let delivered = self.deliver_to(&mut instance, message)?;
        // A message that changes nothing about readiness costs one row, not two.
        if instance.ready_at != before || instance.is_over() {
            self.store_hold(&mut instance)?;
        }
        self.put_back(instance);
        Ok(delivered)
    }

    /// The same for an instance at hand, which the caller stores.
    pub(super) fn deliver_to(&mut self, instance: &mut Instance, message: Message) -> Outcome<Delivered> {
        match self.judge(instance, &message)? {
            None => {
                self.put(instance, message)?;
                Ok(Delivered::Applied)
            }
            Some(reason) => self.drop_message(reason),
        }
    }

    pub(super) fn drop_message(&mut self, reason: DropReason) -> Outcome<Delivered> {
        self.count_dropped(reason, 1)?;
        Ok(Delivered::Dropped(reason))
    }

    /// Why an instance does not take a message at all; when it does, is a matter of its hold.
    fn judge(&mut self, instance: &Instance, message: &Message) -> Outcome<Option<DropReason>> {
        let record = &instance.record;
        let started = matches!(message.class, Class::Start(_)) && message.id == record.start;
        let repeats = started
            || self.repeats_removed_start(message)?
            || self.waits(instance, message.id)?
            || message.answers.is_none()
                && instance.remembered > 0
                && self.is_applied(instance.key, message.id)?;
        let other_run = message.execution.is_some_and(|execution| execution != record.execution);
        let ended = record.hold == Hold::Ended && opens(message).is_none();
        Ok(if repeats {
            Some(DropReason::Repeat)
        } else if ended && self.is_for_next_run(instance, message)? {
            // What comes behind a start that waits for an ended instance is for the run that the start will begin.
            None
        } else if other_run {
            Some(DropReason::OtherExecution)
        } else if ended {
            Some(DropReason::Ended)
        } else {
            None
        })
    }

    /// Adds a new instance with the message that brings it into being.
    pub(super) fn found(&mut self, record: Record, message: Message) -> Outcome<()> {
        let floor = self.floor()?;
        let record = self.newborn(record, floor.revision);
        let queue = self.queue_key(&record.queue)?;
        let instance = Instance::new(message.to.clone(), record, (queue, floor.epoch));
        self.insert_offered(instance, message)
    }

    /// Adds an instance that is not there, and its first message. Where a claim waits for such, it has it from the beginning.
    fn insert_offered(&mut self, mut instance: Box<Instance>, mut message: Message) -> Outcome<()> {
        self.arrive(&mut instance, &mut message)?;
        let promised = self.promise(&mut instance, &message)?;
        let first = promised.map(|_| message.clone());
        self.put_first(&mut instance, message)?;
        if let (Some(offer), Some(first)) = (promised, first) {
            self.hand_over(offer, &instance, first);
        }
        self.put_back(instance);
        Ok(())
    }

    /// Adds an instance that is not there and nobody's, and its first message.
    pub(super) fn inserted(
        &mut self,
        mut instance: Box<Instance>,
        mut message: Message,
    ) -> Outcome<Box<Instance>> {
        self.arrive(&mut instance, &mut message)?;
        self.put_first(&mut instance, message)?;
        Ok(instance)
    }

    /// A record from a start, with what the store sets.
    pub(super) fn newborn(&self, record: Record, revision: Revision) -> Record {
        let now = self.now;
        let (scheduled, completed) = (record.times.scheduled, None);
        let times = Times { created: now, accepted: now, updated: now, scheduled, completed };
        Record { revision, times, history_len: 0, history_bytes: 0, attempts: 0, trouble: None, ..record }
    }

    /// Delivers what loaded instances still had in their outbox; this store itself never has one.
    pub(super) fn relay(&mut self) -> Outcome<()> {
        let mut find = self
            .view
            .db
            .prepare_cached("SELECT key, body FROM outbox WHERE hub = ?1 ORDER BY instance, key")?;
        let rows =
            find.query_map([self.hub], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?)))?;
        let waiting = rows.collect::<rusqlite::Result<Vec<_>>>()?;
        for (key, body) in waiting {
            self.deliver(read_message(&body)?)?;
            self.run("DELETE FROM outbox WHERE key = ?1", [key])?;
        }
        Ok(())
    }

    /// The record of the instance that a message to an absent one creates.
    fn created_by(&mut self, message: &Message) -> Outcome<Option<Record>> {
        let record = match (opens(message), message.to.entity_name()) {
            (Some(start), _) => start.record.clone(),
            (None, Some(name)) => Record::entity(name, message, self.floor()?.revision),
            (None, None) => return Ok(None),
        };
        // A message for one run of an instance cannot begin another.
        Ok(message.execution.is_none_or(|execution| execution == record.execution).then_some(record))
    }
}
