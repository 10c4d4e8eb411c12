//! The waiting messages of one instance.
//!
//! A message that is visible on arrival stands in the order of arrival, one that is delayed in the order of its time; the
//! two are merged by time when they are read, so that a claim never walks over sleeping timers. What the hold of the
//! instance lets through is a set of classes and perhaps one sender: a condition of the query.

use rusqlite::{OptionalExtension, params};

use dauer_store::{Class, Hold, Message, MessageId, QueueKey, Status, Timestamp};

use super::instance::{Grip, Instance};
use super::{Scope, View};
use crate::fail::Outcome;
use crate::wire::{
    CLASS_ORDINARY, CLASS_RESUME, CLASS_REWIND, CLASS_START, CLASS_SUSPEND, CLASS_TERMINATE, class_code,
    read_message, write_message,
};

/// Rows of the inbox that precede the others.
pub(super) const PROLOGUE: i64 = 0;
const PLAIN: i64 = 1;
const DELAYED: i64 = 2;

/// The messages of one turn.
#[derive(Debug, Default)]
pub(super) struct TurnBatch {
    pub(super) messages: Vec<Message>,
    pub(super) bytes: usize,
    pub(super) more: bool,
}

/// Which messages an instance takes.
struct Admission {
    classes: i64,
    sender: Option<String>,
}

/// A waiting message, without its body.
struct Waiting {
    key: i64,
    class: u32,
    bytes: usize,
    visible: Timestamp,
}

fn classes(codes: &[u32]) -> i64 {
    codes.iter().fold(0, |mask, code| mask | 1 << code)
}

/// Whether the id of a message is remembered once it is applied. An answer is applied once because its schedule is
/// open only once, and a start because the record names it.
pub(super) fn is_remembered(message: &Message) -> bool {
    message.answers.is_none() && !matches!(message.class, Class::Start(_))
}

impl View<'_> {
    /// Whether that message waits.
    pub(super) fn waits(&self, instance: i64, id: MessageId) -> Outcome<bool> {
        let mut find = self.db.prepare_cached(
            "SELECT 1 FROM inbox WHERE instance = ?1 AND kind IN (0, 1, 2) AND message = ?2",
        )?;
        Ok(find.exists(params![instance, id.0])?)
    }

    /// Whether a start or rewind waits.
    pub(super) fn start_waits(&self, instance: i64) -> Outcome<bool> {
        let mut find = self
            .db
            .prepare_cached("SELECT 1 FROM inbox WHERE instance = ?1 AND class IN (?2, ?3) LIMIT 1")?;
        Ok(find.exists(params![instance, CLASS_START, CLASS_REWIND])?)
    }

    /// How many messages wait that open a run.
    pub(super) fn count_starts(&self, instance: i64) -> Outcome<u64> {
        let mut count =
            self.db.prepare_cached("SELECT count(*) FROM inbox WHERE instance = ?1 AND class IN (?2, ?3)")?;
        Ok(super::unsigned(count.query_row(params![instance, CLASS_START, CLASS_REWIND], |row| row.get(0))?))
    }

    /// The queue of the first waiting start or rewind.
    pub(super) fn first_opening(&self, instance: i64) -> Outcome<Option<QueueKey>> {
        let mut find = self.db.prepare_cached(
            "SELECT body FROM inbox WHERE instance = ?1 AND class IN (?2, ?3)
             ORDER BY kind <> 0, position, key LIMIT 1",
        )?;
        let body: Option<Vec<u8>> =
            find.query_row(params![instance, CLASS_START, CLASS_REWIND], |row| row.get(0)).optional()?;
        let message = body.map(|body| read_message(&body)).transpose()?;
        Ok(message.and_then(|message| match message.class {
            Class::Start(start) | Class::Rewind(start) => Some(start.record.queue),
            Class::Control(_) | Class::Ordinary => None,
        }))
    }

    /// The start of the current run, while it has not been consumed.
    fn waiting_start(&self, instance: &Instance) -> Outcome<Option<Waiting>> {
        let mut find = self.db.prepare_cached(
            "SELECT key, class, bytes, visible FROM inbox
             WHERE instance = ?1 AND kind IN (0, 1, 2) AND message = ?2 AND class = ?3",
        )?;
        let found = find.query_row(params![instance.key, instance.record.start.0, CLASS_START], read_waiting);
        Ok(found.optional()?)
    }

    /// What the hold lets through. A rewind that created its instance begins it, as no start ever comes.
    fn admission(&self, instance: &Instance) -> Outcome<Admission> {
        let control = classes(&[CLASS_SUSPEND, CLASS_RESUME, CLASS_TERMINATE]);
        let (mut admitted, sender) = match &instance.record.hold {
            Hold::Open => (control | classes(&[CLASS_START, CLASS_REWIND, CLASS_ORDINARY]), None),
            Hold::Control => (control | classes(&[CLASS_START]), None),
            Hold::From(owner) => (control, Some(owner.to_string())),
            Hold::Ended => (classes(&[CLASS_START, CLASS_REWIND]), None),
        };
        let rewind = classes(&[CLASS_REWIND]);
        if admitted & rewind == 0
            && instance.record.status == Status::Pending
            && self.waiting_start(instance)?.is_none()
        {
            admitted |= rewind;
        }
        Ok(Admission { classes: admitted, sender })
    }

    /// The earliest time of a waiting message that the hold lets through.
    pub(super) fn earliest(&self, instance: &Instance) -> Outcome<Option<Timestamp>> {
        let Admission { classes, sender } = self.admission(instance)?;
        let mut arrived = self.db.prepare_cached(
            "SELECT min(visible) FROM inbox
             WHERE instance = ?1 AND kind IN (0, 1) AND ((?2 >> class) & 1 OR sender = ?3)",
        )?;
        let arrived: Option<i64> =
            arrived.query_row(params![instance.key, classes, sender], |row| row.get(0))?;
        let mut delayed = self.db.prepare_cached(
            "SELECT position FROM inbox
             WHERE instance = ?1 AND kind = 2 AND ((?2 >> class) & 1 OR sender = ?3) ORDER BY position LIMIT 1",
        )?;
        let delayed: Option<i64> =
            delayed.query_row(params![instance.key, classes, sender], |row| row.get(0)).optional()?;
        Ok([arrived, delayed].into_iter().flatten().min().map(Timestamp))
    }

    /// The messages of the next turn: visible, admitted, in order, up to the first suspend and about `budget` bytes;
    /// `None` when nothing is ready, or when not even the least that makes a turn fits.
    pub(super) fn turn_batch(
        &self,
        instance: &Instance,
        budget: usize,
        whatever_size: bool,
    ) -> Outcome<Option<TurnBatch>> {
        let candidates = self.candidates(instance)?;
        if candidates.is_empty() {
            return Ok(None);
        }
        let start = self.waiting_start(instance)?;
        let due = start.as_ref().is_some_and(|start| start.visible <= self.now);
        // A start that is not due comes only with what woke the instance: alone it would run before its time.
        let least = if start.is_some() && !due { 2 } else { 1 };
        let first = start.as_ref().map(|start| start.key);
        let rest = candidates.into_iter().filter(|waiting| Some(waiting.key) != first);
        let mut batch = TurnBatch::default();
        let mut cut = false;
        for waiting in start.into_iter().chain(rest) {
            let bytes = batch.bytes.saturating_add(waiting.bytes);
            let fits = bytes <= budget || batch.messages.len() < least && whatever_size;
            if cut || !fits {
                batch.more = true;
                break;
            }
            cut = waiting.class == CLASS_SUSPEND;
            batch.bytes = bytes;
            batch.messages.push(self.message_at(waiting.key)?);
        }
        Ok((batch.messages.len() >= least).then_some(batch))
    }

    /// The visible, admitted messages, in order.
    fn candidates(&self, instance: &Instance) -> Outcome<Vec<Waiting>> {
        let Admission { classes, sender } = self.admission(instance)?;
        let mut find = self.db.prepare_cached(
            "SELECT key, class, bytes, visible, kind <> 0 AS later, position FROM inbox
             WHERE instance = ?1 AND kind IN (0, 1) AND visible <= ?2 AND ((?3 >> class) & 1 OR sender = ?4)
             UNION ALL
             SELECT key, class, bytes, visible, 1 AS later, position FROM inbox
             WHERE instance = ?1 AND kind = 2 AND position <= ?2 AND ((?3 >> class) & 1 OR sender = ?4)
             ORDER BY later, position, key",
        )?;
        let rows = find.query_map(params![instance.key, self.now.0, classes, sender], read_waiting)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn message_at(&self, key: i64) -> Outcome<Message> {
        let mut find = self.db.prepare_cached("SELECT body FROM inbox WHERE key = ?1")?;
        let body: Vec<u8> = find.query_row([key], |row| row.get(0))?;
        Ok(read_message(&body)?)
    }

    /// The messages before the inbox, or those in it, in order.
    pub(super) fn waiting(&self, instance: i64, prologue: bool) -> Outcome<Vec<Message>> {
        let mut find = self.db.prepare_cached(
            "SELECT body FROM inbox WHERE instance = ?1 AND (kind = 0) = ?2 ORDER BY position, key",
        )?;
        let mut rows = find.query(params![instance, prologue])?;
        let mut messages = Vec::new();
        while let Some(row) = rows.next()? {
            messages.push(read_message(&row.get::<_, Vec<u8>>(0)?)?);
        }
        Ok(messages)
    }
}

fn read_waiting(row: &rusqlite::Row<'_>) -> rusqlite::Result<Waiting> {
    let bytes: i64 = row.get(2)?;
    Ok(Waiting {
        key: row.get(0)?,
        class: row.get(1)?,
        bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        visible: Timestamp(row.get(3)?),
    })
}

impl Scope<'_> {
    /// Finds again when an instance is ready, after messages went or the hold changed.
    pub(super) fn refresh(&self, instance: &mut Instance) -> Outcome<()> {
        instance.ready_at = self.earliest(instance)?;
        Ok(())
    }

    /// Puts an accepted message into the inbox. The instance becomes ready earlier by it, never later; the caller stores
    /// it. A time that has passed is the time of arrival: senders' clocks must not decide who waits longest.
    pub(super) fn put(&mut self, instance: &mut Instance, mut message: Message) -> Outcome<()> {
        message.visible_at = message.visible_at.max(self.now);
        let kind = if message.visible_at > self.now { DELAYED } else { PLAIN };
        self.insert_message(instance.key, kind, message.visible_at.0, &message)?;
        let Admission { classes, sender } = self.admission(instance)?;
        let admitted = classes >> class_code(&message.class) & 1 == 1
            || sender.is_some_and(|sender| message.origin.sender().is_some_and(|by| by.as_str() == sender));
        if admitted {
            let earliest =
                instance.ready_at.map_or(message.visible_at, |ready| ready.min(message.visible_at));
            instance.ready_at = Some(earliest);
            let idle = instance.holder.is_some_and(|held| held.grip == Grip::Idle);
            if idle && earliest <= self.now {
                self.hint(dauer_store::Hint::Ready(instance.record.queue.kind));
            }
        }
        Ok(())
    }

    /// Adds a row at a position of one's own choice.
    pub(super) fn insert_message(
        &self,
        instance: i64,
        kind: i64,
        position: i64,
        message: &Message,
    ) -> Outcome<()> {
        let mut add = self.db.prepare_cached(
            "INSERT INTO inbox (instance, kind, message, position, visible, class, sender, execution, bytes, remember,
                body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?;
        add.execute(params![
            instance,
            kind,
            message.id.0,
            position,
            message.visible_at.0,
            class_code(&message.class),
            message.origin.sender().map(|sender| sender.as_str()),
            message.execution.map(|execution| execution.0.to_be_bytes()),
            super::signed(message.event.len() as u64),
            is_remembered(message),
            write_message(message),
        ])?;
        Ok(())
    }

    /// Adds a message behind all others: for loading, in the order of the dump.
    pub(super) fn append_message(&self, instance: i64, message: &Message) -> Outcome<()> {
        let mut last = self
            .db
            .prepare_cached("SELECT max(position) FROM inbox WHERE instance = ?1 AND kind IN (1, 2)")?;
        let last: Option<i64> = last.query_row([instance], |row| row.get(0))?;
        let position = message.visible_at.0.max(last.unwrap_or(i64::MIN));
        let kind = if position > self.now.0 { DELAYED } else { PLAIN };
        self.insert_message(instance, kind, position, message)
    }

    /// Takes one message out; answers whether it was there and its id is to be remembered.
    pub(super) fn take_message(&self, instance: i64, id: MessageId) -> Outcome<bool> {
        let mut take = self.db.prepare_cached(
            "DELETE FROM inbox WHERE instance = ?1 AND kind IN (0, 1, 2) AND message = ?2 RETURNING remember",
        )?;
        let remembered = take.query_row(params![instance, id.0], |row| row.get(0)).optional()?;
        Ok(remembered.unwrap_or(false))
    }

    /// Puts messages before those that are left of the prologue.
    pub(super) fn renew_prologue(&self, instance: i64, prologue: &[Message]) -> Outcome<()> {
        let added = super::signed(prologue.len() as u64);
        self.db
            .prepare_cached("UPDATE inbox SET position = position + ?2 WHERE instance = ?1 AND kind = 0")?
            .execute(params![instance, added])?;
        for (position, message) in (0..).zip(prologue) {
            // Named anew, it stands where it is named.
            self.take_message(instance, message.id)?;
            self.insert_message(instance, PROLOGUE, position, message)?;
        }
        Ok(())
    }

    /// Takes out of the inbox all messages that are for a run other than `execution`; answers how many.
    pub(super) fn drop_other_executions(
        &self,
        instance: i64,
        execution: dauer_store::ExecutionId,
    ) -> Outcome<u64> {
        let mut drop = self.db.prepare_cached(
            "DELETE FROM inbox WHERE instance = ?1 AND kind IN (1, 2) AND execution IS NOT NULL AND execution <> ?2",
        )?;
        Ok(drop.execute(params![instance, execution.0.to_be_bytes()])? as u64)
    }

    /// Takes out all messages that an ended instance does not keep; answers how many.
    pub(super) fn drop_all_but_starts(&self, instance: i64) -> Outcome<u64> {
        let mut drop =
            self.db.prepare_cached("DELETE FROM inbox WHERE instance = ?1 AND class NOT IN (?2, ?3)")?;
        Ok(drop.execute(params![instance, CLASS_START, CLASS_REWIND])? as u64)
    }
}
