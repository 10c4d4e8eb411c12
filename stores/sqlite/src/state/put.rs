//! Changing the waiting messages of one instance, in the file and in what is known of it in memory.

use rusqlite::params;

use dauer_store::{ExecutionId, Message, MessageId, Timestamp};
use dauer_store_kit::codec::{class_code, read_message, write_message};
use dauer_store_kit::inbox;

use super::Scope;
use super::inbox::{DELAYED, IN_ROW, PLAIN, PROLOGUE, Waiting};
use super::instance::Instance;
use crate::fail::Outcome;

/// Puts a message where it belongs.
fn enter(inbox: &mut Vec<Waiting>, waiting: Waiting) {
    let at = inbox.partition_point(|other| other.place() < waiting.place());
    inbox.insert(at, waiting);
}

impl Waiting {
    /// The message that an instance was made by at that time, in the row of that.
    fn in_row(message: Message, created: Timestamp) -> Self {
        let kind = if message.visible_at > created { DELAYED } else { PLAIN };
        Self { key: IN_ROW, kind, position: message.visible_at.0, message }
    }
}

impl Instance {
    /// The message that lies in its row, while the inbox is not known.
    pub(super) fn read_start(&self) -> Outcome<Option<Message>> {
        Ok(self.start.as_deref().map(read_message).transpose()?)
    }

    /// All that waits: that message, and what is in the inbox.
    pub(super) fn know_inbox_with(&mut self, start: Message, mut inbox: Vec<Waiting>) {
        enter(&mut inbox, Waiting::in_row(start, self.record.times.created));
        self.inbox = Some(inbox);
    }

    /// That message, for its row.
    pub(super) fn write_start(&self) -> Option<Vec<u8>> {
        let held = self.inbox.iter().flatten().find(|waiting| waiting.key == IN_ROW);
        let start = held.map(|waiting| write_message(&waiting.message));
        // Where the inbox is not known it lies there as it was read.
        start.or_else(|| self.start.as_deref().map(<[u8]>::to_vec))
    }
}

impl Scope<'_, '_> {
    /// Reads the inbox into the instance, if it is short.
    pub(super) fn know_inbox(&mut self, instance: &mut Instance) -> Outcome<()> {
        if instance.inbox.is_none() {
            let start = instance.read_start()?;
            let most = self.group.hot.messages_max();
            instance.inbox = self.short_inbox(instance.key, most)?;
            instance.start = None;
            match (start, &mut instance.inbox) {
                (None, _) => {}
                (Some(start), Some(inbox)) if inbox.len() < most => {
                    enter(inbox, Waiting::in_row(start, instance.record.times.created));
                }
                (Some(start), _) => self.spill(instance, start)?,
            }
        }
        Ok(())
    }

    /// What waits is no longer held in memory, and read from the file when it is needed: all of it is in the inbox there.
    pub(super) fn forget_inbox(&mut self, instance: &mut Instance) -> Outcome<()> {
        let inbox = instance.inbox.take().unwrap_or_default();
        match inbox.into_iter().find(|waiting| waiting.key == IN_ROW) {
            Some(start) => self.spill(instance, start.message),
            None => Ok(()),
        }
    }

    /// Moves the message that lies in the row of the instance into the inbox. Its key is one that nobody else has, and less than
    /// all others: it stays before those that came at the same time.
    fn spill(&mut self, instance: &mut Instance, start: Message) -> Outcome<()> {
        self.run("UPDATE instances SET start = NULL WHERE key = ?1", [instance.key])?;
        (instance.start_in_row, instance.stored.standing.start_in_row) = (false, false);
        instance.inbox = None;
        let waiting = Waiting::in_row(start, instance.record.times.created);
        self.insert_row(
            instance.key,
            (Some(-instance.key), waiting.kind, waiting.position),
            &waiting.message,
        )?;
        Ok(())
    }

    /// The message that an instance is made by: in its row, which is not written yet, where it fits into memory too.
    pub(super) fn put_first(&mut self, instance: &mut Instance, message: Message) -> Outcome<()> {
        let Some(inbox) = instance.inbox.as_mut().filter(|_| self.group.hot.messages_max() > 0) else {
            self.insert_instance(instance)?;
            return self.put_arrived(instance, message);
        };
        enter(inbox, Waiting::in_row(message, self.view.now));
        instance.start_in_row = true;
        self.insert_instance(instance)
    }

    /// Finds again when an instance is ready, after messages went or the hold changed.
    pub(super) fn refresh(&mut self, instance: &mut Instance) -> Outcome<()> {
        instance.ready_at = self.earliest(instance)?;
        Ok(())
    }

    /// A message arrives: the instance becomes ready earlier by it, never later. A time that has passed is the time of
    /// arrival: senders' clocks must not decide who waits longest.
    pub(super) fn arrive(&mut self, instance: &mut Instance, message: &mut Message) -> Outcome<()> {
        inbox::arrive(message, self.now);
        if !self.admission(instance)?.admits(message) {
            return Ok(());
        }
        let earliest = inbox::ready_by(instance.ready_at, message.visible_at);
        instance.ready_at = Some(earliest);
        if instance.holder.is_some() {
            self.hint_mail(instance, message.visible_at);
        }
        Ok(())
    }

    /// Puts an accepted message into the inbox; the caller stores the instance.
    pub(super) fn put(&mut self, instance: &mut Instance, mut message: Message) -> Outcome<()> {
        self.arrive(instance, &mut message)?;
        self.put_arrived(instance, message)
    }

    /// Adds the row of a message that has arrived.
    pub(super) fn put_arrived(&mut self, instance: &mut Instance, message: Message) -> Outcome<()> {
        let kind = if message.visible_at > self.now { DELAYED } else { PLAIN };
        let position = message.visible_at.0;
        self.insert_message(instance, (kind, position), message)
    }

    /// Adds a row at a position of one's own choice.
    fn insert_message(
        &mut self,
        instance: &mut Instance,
        (kind, position): (i64, i64),
        message: Message,
    ) -> Outcome<()> {
        let key = self.insert_row(instance.key, (None, kind, position), &message)?;
        if let Some(inbox) = &mut instance.inbox {
            enter(inbox, Waiting { key, kind, position, message });
        }
        if instance.inbox.as_ref().is_some_and(|inbox| inbox.len() > self.group.hot.messages_max()) {
            self.forget_inbox(instance)?;
        }
        Ok(())
    }

    /// The row of a message, under that key or the next; answers which.
    fn insert_row(
        &mut self,
        instance: i64,
        (key, kind, position): (Option<i64>, i64, i64),
        message: &Message,
    ) -> Outcome<i64> {
        self.run(
            "INSERT INTO inbox (key, instance, kind, message, position, visible, class, sender, execution, bytes, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            params![
                key,
                instance,
                kind,
                message.id.0,
                position,
                message.visible_at.0,
                class_code(&message.class),
                message.origin.sender().map(|sender| sender.as_str()),
                message.execution.map(|execution| execution.0.to_be_bytes()),
                super::signed(message.event.len() as u64),
                write_message(message),
            ],
        )?;
        Ok(self.db.last_insert_rowid())
    }

    /// Adds a message behind all others: for loading, in the order of the dump.
    pub(super) fn append_message(&mut self, instance: &mut Instance, message: Message) -> Outcome<()> {
        let mut last = self
            .view
            .db
            .prepare_cached("SELECT max(position) FROM inbox WHERE instance = ?1 AND kind IN (1, 2)")?;
        let last: Option<i64> = last.query_row([instance.key], |row| row.get(0))?;
        let position = message.visible_at.0.max(last.unwrap_or(i64::MIN));
        let kind = if position > self.now.0 { DELAYED } else { PLAIN };
        self.insert_message(instance, (kind, position), message)
    }

    /// Takes one message out, if it is there.
    pub(super) fn take_message(
        &mut self,
        instance: &mut Instance,
        id: MessageId,
    ) -> Outcome<Option<Message>> {
        let Some(inbox) = &mut instance.inbox else { return self.take_unknown(instance.key, id) };
        let Some(at) = inbox.iter().position(|waiting| waiting.message.id == id) else { return Ok(None) };
        let Waiting { key, message, .. } = inbox.remove(at);
        self.remove_row(&mut instance.start_in_row, key)?;
        Ok(Some(message))
    }

    /// The same where the inbox is not known.
    fn take_unknown(&mut self, instance: i64, id: MessageId) -> Outcome<Option<Message>> {
        let mut take = self.view.db.prepare_cached(
            "DELETE FROM inbox WHERE instance = ?1 AND kind IN (0, 1, 2) AND message = ?2 RETURNING body",
        )?;
        let mut rows = take.query(params![instance, id.0])?;
        let mut taken = None;
        while let Some(row) = rows.next()? {
            taken = Some(read_message(row.get_ref(0)?.as_blob().unwrap_or_default())?);
        }
        Ok(taken)
    }

    /// Keeps the messages for which `stays` holds. Returns the number of the others, or `None` if the inbox is not known.
    pub(super) fn retain(
        &mut self,
        instance: &mut Instance,
        stays: impl Fn(&Waiting) -> bool,
    ) -> Outcome<Option<u64>> {
        let Some(inbox) = &mut instance.inbox else { return Ok(None) };
        let mut dropped = 0;
        for Waiting { key, .. } in inbox.extract_if(.., |waiting| !stays(waiting)) {
            self.remove_row(&mut instance.start_in_row, key)?;
            dropped += 1;
        }
        Ok(Some(dropped))
    }

    /// Removes a message that is held in memory from the file. One that lies in the row of its instance goes when the caller
    /// stores that.
    fn remove_row(&mut self, start_in_row: &mut bool, key: i64) -> Outcome<()> {
        if key == IN_ROW {
            *start_in_row = false;
        } else {
            self.run("DELETE FROM inbox WHERE key = ?1", [key])?;
        }
        Ok(())
    }

    /// Puts messages before those that are left of the prologue.
    pub(super) fn renew_prologue(&mut self, instance: &mut Instance, prologue: &[Message]) -> Outcome<()> {
        if prologue.is_empty() {
            return Ok(());
        }
        let added = super::signed(prologue.len() as u64);
        // What moves is read again when it is needed.
        self.forget_inbox(instance)?;
        self.run(
            "UPDATE inbox SET position = position + ?2 WHERE instance = ?1 AND kind = 0",
            params![instance.key, added],
        )?;
        for (position, message) in (0..).zip(prologue) {
            // Named anew, it stands where it is named.
            self.take_message(instance, message.id)?;
            self.insert_message(instance, (PROLOGUE, position), message.clone())?;
        }
        Ok(())
    }

    /// Takes out of the inbox all messages that are for a run other than `execution`; answers how many.
    pub(super) fn drop_other_executions(
        &mut self,
        instance: &mut Instance,
        execution: ExecutionId,
    ) -> Outcome<u64> {
        let stays =
            |waiting: &Waiting| waiting.kind == PROLOGUE || inbox::is_for_run(&waiting.message, execution);
        if let Some(dropped) = self.retain(instance, stays)? {
            return Ok(dropped);
        }
        let dropped = self.run(
            "DELETE FROM inbox WHERE instance = ?1 AND kind IN (1, 2) AND execution IS NOT NULL AND execution <> ?2",
            params![instance.key, execution.0.to_be_bytes()],
        )?;
        Ok(dropped as u64)
    }
}
