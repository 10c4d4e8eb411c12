//! Delivery: the one way into an inbox, for clients, turns, timers and activities.

use dauer_store::{Delivered, DropReason, ExecutionId, Message};
use dauer_store_kit::codec::read_message;
use dauer_store_kit::instance::{Absent, Birth, check_absent};

use super::Scope;
use super::inbox::sequence;
use super::put::IN_ROW;
use super::stored::{Loaded, Stored};
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
        if let Some(loaded) = self.fetch(&message.to)? {
            return self.deliver_to(loaded, message);
        }
        let floor = self.floor()?;
        match check_absent(message, floor, self.context(), &self.facts(None))? {
            Absent::Born(birth) => self.bear(*birth).map(|_| Delivered::Applied),
            Absent::Dropped(reason) => self.drop_message(reason),
        }
    }

    /// The same for an instance that was fetched, and is written and put back here.
    pub(super) fn deliver_to(&mut self, mut loaded: Box<Loaded>, message: Message) -> Outcome<Delivered> {
        let (context, facts) = (self.context(), self.facts(Some(&loaded.stored)));
        let delivery = loaded.instance.check_delivery(message, context, &facts)?;
        let (sequence, mut changes) = (sequence(self.next_inbox_key()?), self.changes());
        let delivered = loaded.instance.deliver(delivery, sequence, context, &mut changes);
        self.finish(loaded, changes)?;
        Ok(delivered)
    }

    pub(super) fn drop_message(&mut self, reason: DropReason) -> Outcome<Delivered> {
        self.count_dropped(reason, 1)?;
        Ok(Delivered::Dropped(reason))
    }

    /// Adds a new instance with its first message, which lies in its row, where it fits into memory too. A session with credit
    /// for the instance has it from the beginning.
    pub(super) fn bear(&mut self, birth: Birth) -> Outcome<ExecutionId> {
        let in_row = self.group.hot.messages_max() > 0;
        let key = if in_row { IN_ROW } else { self.next_inbox_key()? };
        let (floor, mut changes) = (self.floor()?, self.changes());
        let mut instance = birth.apply(floor, sequence(key), self.context(), &mut changes);
        let first = if in_row { changes.added.pop() } else { None };
        let start = first.map(|first| first.message.id);
        let won = self.promise_turn(&mut instance, &mut changes)?;
        let queue = self.queue_key(&instance.record.queue)?;
        let run = instance.record.execution;
        let stored = Stored::new(&instance, queue, start);
        let mut loaded = Box::new(Loaded { instance, stored });
        self.insert_instance(&mut loaded)?;
        self.write_entries(&mut loaded, &mut changes)?;
        self.done_with(changes);
        won.into_iter().for_each(|(bid, turn)| self.hand_over_turn(bid, &loaded.instance, turn));
        self.put_back(loaded);
        Ok(run)
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
