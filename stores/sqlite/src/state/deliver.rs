//! Delivery: the one way into an inbox, for clients, turns, timers and activities.

use dauer_store::{Delivered, DropReason, Message, Record};
use dauer_store_kit::codec::read_message;
use dauer_store_kit::judge::{self, Facts};

use super::Scope;
use super::instance::Instance;
use crate::fail::Outcome;

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
            None => match judge::created_by(&message, self.floor()?.revision) {
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
        let repeats = judge::is_own_start(record, message)
            || self.repeats_removed_start(message)?
            || self.waits(instance, message.id)?
            || message.answers.is_none()
                && instance.remembered > 0
                && self.is_applied(instance.key, message.id)?;
        let for_next_run =
            !repeats && judge::follows_end(record, message) && self.is_for_next_run(instance, message)?;
        Ok(judge::why_dropped(record, message, Facts { repeats, for_next_run }))
    }

    /// Adds a new instance with the message that brings it into being.
    pub(super) fn found(&mut self, record: Record, message: Message) -> Outcome<()> {
        let floor = self.floor()?;
        let record = judge::newborn(record, floor.revision, self.now);
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
}
