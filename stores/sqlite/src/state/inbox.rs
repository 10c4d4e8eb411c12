//! The waiting messages of one instance, as far as they are asked for. `put` changes them.
//!
//! A message that is visible on arrival stands in the order of arrival, one that is delayed in the order of its time; the
//! two are merged by time when they are read, so that a claim never walks over sleeping timers. What the hold of the
//! instance lets through is a set of classes and perhaps one sender: a condition of the query. A short inbox is held in
//! memory with its instance, and then nothing is read.

use rusqlite::{OptionalExtension, params};

use dauer_store::{Hold, InstanceId, Message, MessageId, Record, Timestamp};
use dauer_store_kit::codec::{CLASS_REWIND, CLASS_START, CLASS_SUSPEND, read_message};
use dauer_store_kit::inbox::{Admission, Candidate, Room, begins_alone, leads, next_turn};
use dauer_store_kit::judge::{awaits_start, is_next_start, is_own_start, opens};

use super::View;
use super::instance::Instance;
use crate::fail::Outcome;

pub(super) use dauer_store_kit::inbox::TurnBatch;

/// Rows of the inbox that precede the others.
pub(super) const PROLOGUE: i64 = 0;
pub(super) const PLAIN: i64 = 1;
pub(super) const DELAYED: i64 = 2;

/// In place of a key: the message lies in the row of its instance. It came before all others of its time.
pub(super) const IN_ROW: i64 = i64::MIN;

/// A waiting message that is held in memory.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) key: i64,
    pub(super) kind: i64,
    pub(super) position: i64,
    pub(super) message: Message,
}

impl Waiting {
    /// Reads key, kind, position and body.
    fn read(row: &rusqlite::Row<'_>) -> Outcome<Self> {
        let message = read_message(row.get_ref(3)?.as_blob().unwrap_or_default())?;
        Ok(Self { key: row.get(0)?, kind: row.get(1)?, position: row.get(2)?, message })
    }

    /// Where it stands.
    pub(super) fn place(&self) -> (bool, i64, i64) {
        (self.kind != PROLOGUE, self.position, self.key)
    }

    fn is_visible(&self, now: Timestamp) -> bool {
        if self.kind == DELAYED { self.position <= now.0 } else { self.message.visible_at <= now }
    }

    fn candidate(&self) -> Found<'_> {
        let (bytes, suspends) = (self.message.event.len(), self.message.is_suspend());
        Candidate { key: self.key, bytes, suspends, message: Some(&self.message) }
    }
}

/// A message that a turn may get. One that is not held in memory is read from the file.
type Found<'i> = Candidate<i64, Option<&'i Message>>;

impl View<'_> {
    /// The whole inbox, if it is short.
    pub(super) fn short_inbox(&self, instance: i64, max: usize) -> Outcome<Option<Vec<Waiting>>> {
        let mut find = self.db.prepare_cached(
            "SELECT key, kind, position, body FROM inbox WHERE instance = ?1
             ORDER BY kind <> 0, position, key LIMIT ?2",
        )?;
        let mut rows = find.query(params![instance, super::signed((max as u64).saturating_add(1))])?;
        let mut inbox = Vec::new();
        while let Some(row) = rows.next()? {
            if inbox.len() == max {
                return Ok(None);
            }
            inbox.push(Waiting::read(row)?);
        }
        Ok(Some(inbox))
    }

    /// Whether that message waits.
    pub(super) fn waits(&self, instance: &Instance, id: MessageId) -> Outcome<bool> {
        if let Some(inbox) = &instance.inbox {
            return Ok(inbox.iter().any(|waiting| waiting.message.id == id));
        }
        let mut find = self.db.prepare_cached(
            "SELECT 1 FROM inbox WHERE instance = ?1 AND kind IN (0, 1, 2) AND message = ?2",
        )?;
        Ok(find.exists(params![instance.key, id.0])?)
    }

    /// How many messages wait that open a run.
    pub(super) fn count_starts(&self, instance: &Instance) -> Outcome<u64> {
        if let Some(inbox) = &instance.inbox {
            return Ok(inbox.iter().filter(|waiting| opens(&waiting.message).is_some()).count() as u64);
        }
        let mut count =
            self.db.prepare_cached("SELECT count(*) FROM inbox WHERE instance = ?1 AND class IN (?2, ?3)")?;
        let found = count.query_row(params![instance.key, CLASS_START, CLASS_REWIND], |row| row.get(0))?;
        Ok(super::unsigned(found))
    }

    /// Whether a start or rewind waits.
    pub(super) fn start_waits(&self, instance: &Instance) -> Outcome<bool> {
        Ok(self.count_starts(instance)? > 0)
    }

    /// The record of the start or rewind that opens an ended instance. Its queue and tags are those under which claims find
    /// the instance: the code of the run that has ended may be gone.
    pub(super) fn opening_of(&self, instance: &Instance) -> Outcome<Option<Record>> {
        if !instance.is_over() {
            return Ok(None);
        }
        let record = |message: &Message| opens(message).map(|start| start.record.clone());
        match &instance.inbox {
            Some(inbox) => Ok(inbox.iter().find_map(|waiting| record(&waiting.message))),
            None => self.find_opening(instance.key, |waiting| record(&waiting.message)),
        }
    }

    /// The first start or rewind that waits in the file, in order, for which `find` returns something.
    pub(super) fn find_opening<T>(
        &self,
        instance: i64,
        mut find: impl FnMut(Waiting) -> Option<T>,
    ) -> Outcome<Option<T>> {
        let mut openings = self.db.prepare_cached(
            "SELECT key, kind, position, body FROM inbox WHERE instance = ?1 AND class IN (?2, ?3)
             ORDER BY kind <> 0, position, key",
        )?;
        let mut rows = openings.query(params![instance, CLASS_START, CLASS_REWIND])?;
        while let Some(row) = rows.next()? {
            if let Some(found) = find(Waiting::read(row)?) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Whether the start waits that the record names.
    fn own_start_waits(&self, instance: &Instance) -> Outcome<bool> {
        match &instance.inbox {
            Some(inbox) => Ok(inbox.iter().any(|waiting| is_own_start(&instance.record, &waiting.message))),
            None => Ok(self.own_start(instance)?.is_some()),
        }
    }

    /// That start in the file, and when it is visible.
    fn own_start(&self, instance: &Instance) -> Outcome<Option<(Found<'static>, Timestamp)>> {
        let mut find = self.db.prepare_cached(
            "SELECT key, class, bytes, visible FROM inbox
             WHERE instance = ?1 AND kind IN (0, 1, 2) AND message = ?2 AND class = ?3",
        )?;
        let named = params![instance.key, instance.record.start.0, CLASS_START];
        Ok(find.query_row(named, |row| Ok((read_candidate(row)?, Timestamp(row.get(3)?)))).optional()?)
    }

    /// The start or rewind of a run that is suspended before it began, in the file, and when it is visible.
    fn unborn_start(&self, instance: &Instance) -> Outcome<Option<(Found<'static>, Timestamp)>> {
        self.find_opening(instance.key, |start| {
            let found = Candidate { message: None, ..start.candidate() };
            leads(&instance.record, &start.message).then_some((found, start.message.visible_at))
        })
    }

    /// The start that leads the next turn, and whether it may come alone.
    fn leading_start<'i>(&self, instance: &'i Instance) -> Outcome<Option<(Found<'i>, bool)>> {
        let record = &instance.record;
        let start = match &instance.inbox {
            Some(inbox) => {
                let start = inbox.iter().find(|waiting| leads(record, &waiting.message));
                start.map(|start| (start.candidate(), start.message.visible_at))
            }
            None if record.hold == Hold::Unborn => self.unborn_start(instance)?,
            None => self.own_start(instance)?,
        };
        Ok(start.map(|(start, visible_at)| (start, begins_alone(record, visible_at, self.now))))
    }

    /// Which messages the instance takes.
    pub(super) fn admission<'i>(&self, instance: &'i Instance) -> Outcome<Admission<'i>> {
        let record = &instance.record;
        Ok(Admission::of(record, Admission::needs_start(record) && self.own_start_waits(instance)?))
    }

    /// The earliest time of a waiting message that the hold lets through.
    pub(super) fn earliest(&self, instance: &Instance) -> Outcome<Option<Timestamp>> {
        let admission = self.admission(instance)?;
        if let Some(inbox) = &instance.inbox {
            let admitted = inbox.iter().filter(|waiting| admission.admits(&waiting.message));
            return Ok(admitted
                .map(|waiting| match waiting.kind {
                    DELAYED => Timestamp(waiting.position),
                    _ => waiting.message.visible_at,
                })
                .min());
        }
        let (classes, sender) = in_sql(&admission);
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
        let room = Room { bytes: budget, whatever_size };
        let read = |found: Found<'_>| match found.message {
            Some(message) => Ok(message.clone()),
            None => self.message_at(found.key),
        };
        let admission = self.admission(instance)?;
        if let Some(inbox) = &instance.inbox {
            let ready = inbox.iter().filter(|w| w.is_visible(self.now) && admission.admits(&w.message));
            return next_turn(self.leading_start(instance)?, ready.map(Waiting::candidate), room, read);
        }
        let ready = self.candidates(instance, &admission)?;
        if ready.is_empty() {
            return Ok(None);
        }
        next_turn(self.leading_start(instance)?, ready, room, read)
    }

    /// The visible, admitted messages in the file, in order.
    fn candidates(&self, instance: &Instance, admission: &Admission<'_>) -> Outcome<Vec<Found<'static>>> {
        let (classes, sender) = in_sql(admission);
        let mut find = self.db.prepare_cached(
            "SELECT key, class, bytes, kind <> 0 AS later, position FROM inbox
             WHERE instance = ?1 AND kind IN (0, 1) AND visible <= ?2 AND ((?3 >> class) & 1 OR sender = ?4)
             UNION ALL
             SELECT key, class, bytes, 1 AS later, position FROM inbox
             WHERE instance = ?1 AND kind = 2 AND position <= ?2 AND ((?3 >> class) & 1 OR sender = ?4)
             ORDER BY later, position, key",
        )?;
        let rows = find.query_map(params![instance.key, self.now.0, classes, sender], read_candidate)?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn message_at(&self, key: i64) -> Outcome<Message> {
        let mut find = self.db.prepare_cached("SELECT body FROM inbox WHERE key = ?1")?;
        let body: Vec<u8> = find.query_row([key], |row| row.get(0))?;
        Ok(read_message(&body)?)
    }

    /// The start or rewind that an instance begins with next, from the file.
    pub(crate) fn read_start(&self, id: &InstanceId) -> Outcome<Option<Message>> {
        let Some(instance) = self.instance(id)? else { return Ok(None) };
        if !awaits_start(&instance.record) {
            return Ok(None);
        }
        let begins = |message: &Message| is_next_start(&instance.record, message);
        if let Some(start) = instance.read_start()?.filter(begins) {
            return Ok(Some(start));
        }
        self.find_opening(instance.key, |waiting| Some(waiting.message).filter(begins))
    }

    /// The messages before the inbox, or those in it, in order, as they lie in the file.
    pub(super) fn waiting(&self, instance: &Instance, prologue: bool) -> Outcome<Vec<Message>> {
        let mut find = self.db.prepare_cached(
            "SELECT position, body FROM inbox WHERE instance = ?1 AND (kind = 0) = ?2 ORDER BY position, key",
        )?;
        let mut rows = find.query(params![instance.key, prologue])?;
        let mut start = if prologue { None } else { instance.read_start()? };
        let mut messages = Vec::new();
        while let Some(row) = rows.next()? {
            let position = Timestamp(row.get(0)?);
            messages.extend(start.take_if(|start| start.visible_at <= position));
            messages.push(read_message(&row.get::<_, Vec<u8>>(1)?)?);
        }
        messages.extend(start);
        Ok(messages)
    }
}

/// An admission as values of a condition.
fn in_sql<'r>(admission: &Admission<'r>) -> (i64, Option<&'r str>) {
    (admission.classes(), admission.sender().map(|sender| sender.as_str()))
}

fn read_candidate(row: &rusqlite::Row<'_>) -> rusqlite::Result<Found<'static>> {
    let (class, bytes): (u32, i64) = (row.get(1)?, row.get(2)?);
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    Ok(Candidate { key: row.get(0)?, bytes, suspends: class == CLASS_SUSPEND, message: None })
}
