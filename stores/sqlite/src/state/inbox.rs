//! The waiting messages of one instance, as far as they are asked for. `put` changes them.
//!
//! A message that is visible on arrival stands in the order of arrival, one that is delayed in the order of its time; the
//! two are merged by time when they are read, so that a claim never walks over sleeping timers. What the hold of the
//! instance lets through is a set of classes and perhaps one sender: a condition of the query. A short inbox is held in
//! memory with its instance, and then nothing is read.

use rusqlite::{OptionalExtension, params};

use dauer_store::{Class, Hold, InstanceId, Message, MessageId, Record, Status, Timestamp};
use dauer_store_kit::codec::{
    CLASS_ORDINARY, CLASS_RESUME, CLASS_REWIND, CLASS_START, CLASS_SUSPEND, CLASS_TERMINATE, class_code,
    read_message,
};
use dauer_store_kit::judge::{awaits_start, is_next_start, is_own_start, opens};

use super::View;
use super::instance::Instance;
use crate::fail::Outcome;

/// Rows of the inbox that precede the others.
pub(super) const PROLOGUE: i64 = 0;
pub(super) const PLAIN: i64 = 1;
pub(super) const DELAYED: i64 = 2;

/// In place of a key: the message lies in the row of its instance. It came before all others of its time.
pub(super) const IN_ROW: i64 = i64::MIN;

/// The messages of one turn.
#[derive(Debug, Default)]
pub(super) struct TurnBatch {
    pub(super) messages: Vec<Message>,
    pub(super) bytes: usize,
    pub(super) more: bool,
}

/// A waiting message that is held in memory.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) key: i64,
    pub(super) kind: i64,
    pub(super) position: i64,
    pub(super) message: Message,
}

impl Waiting {
    /// Where it stands.
    pub(super) fn place(&self) -> (bool, i64, i64) {
        (self.kind != PROLOGUE, self.position, self.key)
    }

    fn is_visible(&self, now: Timestamp) -> bool {
        if self.kind == DELAYED { self.position <= now.0 } else { self.message.visible_at <= now }
    }

    fn candidate(&self) -> Candidate<'_> {
        Candidate {
            key: self.key,
            class: class_code(&self.message.class),
            bytes: self.message.event.len(),
            visible: self.message.visible_at,
            message: Some(&self.message),
        }
    }
}

/// Which messages an instance takes.
pub(super) struct Admission {
    classes: i64,
    sender: Option<String>,
}

impl Admission {
    pub(super) fn admits(&self, message: &Message) -> bool {
        self.classes >> class_code(&message.class) & 1 == 1
            || self.sender.is_some()
                && message.origin.sender().map(|by| by.as_str()) == self.sender.as_deref()
    }
}

/// A message that a turn may take; its body is copied or read when it does.
struct Candidate<'i> {
    key: i64,
    class: u32,
    bytes: usize,
    visible: Timestamp,
    message: Option<&'i Message>,
}

fn classes(codes: &[u32]) -> i64 {
    codes.iter().fold(0, |mask, code| mask | 1 << code)
}

/// Whether the current run of an instance begins with that message. Another start waits for the end of this run.
fn begins(message: &Message, instance: &Instance) -> bool {
    match &message.class {
        Class::Start(start) | Class::Rewind(start) => start.record.execution == instance.record.execution,
        Class::Control(_) | Class::Ordinary => false,
    }
}

impl View<'_> {
    /// The whole inbox, if it is short.
    pub(super) fn short_inbox(&self, instance: i64, max: usize) -> Outcome<Option<Vec<Waiting>>> {
        let mut find = self.db.prepare_cached(
            "SELECT key, kind, position, body FROM inbox WHERE instance = ?1
             ORDER BY kind <> 0, position, key LIMIT ?2",
        )?;
        let mut rows = find.query(params![instance, super::signed(max as u64 + 1)])?;
        let mut inbox = Vec::new();
        while let Some(row) = rows.next()? {
            if inbox.len() == max {
                return Ok(None);
            }
            let message = read_message(row.get_ref(3)?.as_blob().unwrap_or_default())?;
            inbox.push(Waiting { key: row.get(0)?, kind: row.get(1)?, position: row.get(2)?, message });
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
        let message = match &instance.inbox {
            Some(inbox) => {
                inbox.iter().map(|waiting| &waiting.message).find(|message| opens(message).is_some()).cloned()
            }
            None => {
                let mut find = self.db.prepare_cached(
                    "SELECT body FROM inbox WHERE instance = ?1 AND class IN (?2, ?3)
                     ORDER BY kind <> 0, position, key LIMIT 1",
                )?;
                let keys = params![instance.key, CLASS_START, CLASS_REWIND];
                let body: Option<Vec<u8>> = find.query_row(keys, |row| row.get(0)).optional()?;
                body.map(|body| read_message(&body)).transpose()?
            }
        };
        Ok(message.and_then(|message| match message.class {
            Class::Start(start) | Class::Rewind(start) => Some(start.record),
            Class::Control(_) | Class::Ordinary => None,
        }))
    }

    /// The start of the current run, while it has not been consumed.
    fn waiting_start<'i>(&self, instance: &'i Instance) -> Outcome<Option<Candidate<'i>>> {
        if let Some(inbox) = &instance.inbox {
            let start = inbox.iter().find(|waiting| is_own_start(&instance.record, &waiting.message));
            return Ok(start.map(Waiting::candidate));
        }
        let mut find = self.db.prepare_cached(
            "SELECT key, class, bytes, visible FROM inbox
             WHERE instance = ?1 AND kind IN (0, 1, 2) AND message = ?2 AND class = ?3",
        )?;
        let found =
            find.query_row(params![instance.key, instance.record.start.0, CLASS_START], read_candidate);
        Ok(found.optional()?)
    }

    /// The start or rewind that a run begins with which is suspended before it began.
    fn unborn_start<'i>(&self, instance: &'i Instance) -> Outcome<Option<Candidate<'i>>> {
        if let Some(inbox) = &instance.inbox {
            let start = inbox.iter().find(|waiting| begins(&waiting.message, instance));
            return Ok(start.map(Waiting::candidate));
        }
        let mut find = self.db.prepare_cached(
            "SELECT key, class, bytes, visible, body FROM inbox WHERE instance = ?1 AND class IN (?2, ?3)
             ORDER BY kind <> 0, position, key",
        )?;
        let mut rows = find.query(params![instance.key, CLASS_START, CLASS_REWIND])?;
        while let Some(row) = rows.next()? {
            if begins(&read_message(row.get_ref(4)?.as_blob().unwrap_or_default())?, instance) {
                return Ok(Some(read_candidate(row)?));
            }
        }
        Ok(None)
    }

    /// What the hold lets through. A rewind that created its instance begins it, as no start ever comes.
    pub(super) fn admission(&self, instance: &Instance) -> Outcome<Admission> {
        let control = classes(&[CLASS_SUSPEND, CLASS_RESUME, CLASS_TERMINATE]);
        let (mut admitted, sender) = match &instance.record.hold {
            Hold::Open => (control | classes(&[CLASS_START, CLASS_REWIND, CLASS_ORDINARY]), None),
            Hold::Control => (control | classes(&[CLASS_START]), None),
            Hold::Unborn => (control, None),
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
        let Admission { classes, sender } = admission;
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
        let unborn = instance.record.hold == Hold::Unborn;
        let start = if unborn { self.unborn_start(instance)? } else { self.waiting_start(instance)? };
        let due = start.as_ref().is_some_and(|start| start.visible <= self.now);
        // A start that is not due, or whose run is suspended, comes only with what woke the instance: alone it would begin.
        let least = if start.is_some() && (!due || unborn) { 2 } else { 1 };
        let first = start.as_ref().map(|start| start.key);
        let rest = candidates.into_iter().filter(|candidate| Some(candidate.key) != first);
        let mut batch = TurnBatch::default();
        let mut cut = false;
        for candidate in start.into_iter().chain(rest) {
            let bytes = batch.bytes.saturating_add(candidate.bytes);
            let fits = bytes <= budget || batch.messages.len() < least && whatever_size;
            if cut || !fits {
                batch.more = true;
                break;
            }
            cut = candidate.class == CLASS_SUSPEND;
            batch.bytes = bytes;
            batch.messages.push(match candidate.message {
                Some(message) => message.clone(),
                None => self.message_at(candidate.key)?,
            });
        }
        Ok((batch.messages.len() >= least).then_some(batch))
    }

    /// The visible, admitted messages, in order.
    fn candidates<'i>(&self, instance: &'i Instance) -> Outcome<Vec<Candidate<'i>>> {
        let admission = self.admission(instance)?;
        if let Some(inbox) = &instance.inbox {
            let ready = inbox.iter().filter(|w| w.is_visible(self.now) && admission.admits(&w.message));
            return Ok(ready.map(Waiting::candidate).collect());
        }
        let Admission { classes, sender } = admission;
        let mut find = self.db.prepare_cached(
            "SELECT key, class, bytes, visible, kind <> 0 AS later, position FROM inbox
             WHERE instance = ?1 AND kind IN (0, 1) AND visible <= ?2 AND ((?3 >> class) & 1 OR sender = ?4)
             UNION ALL
             SELECT key, class, bytes, visible, 1 AS later, position FROM inbox
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
        let mut find = self.db.prepare_cached(
            "SELECT body FROM inbox WHERE instance = ?1 AND class IN (?2, ?3) ORDER BY kind <> 0, position, key",
        )?;
        let mut rows = find.query(params![instance.key, CLASS_START, CLASS_REWIND])?;
        while let Some(row) = rows.next()? {
            let message = read_message(&row.get::<_, Vec<u8>>(0)?)?;
            if begins(&message) {
                return Ok(Some(message));
            }
        }
        Ok(None)
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

fn read_candidate(row: &rusqlite::Row<'_>) -> rusqlite::Result<Candidate<'static>> {
    let bytes: i64 = row.get(2)?;
    Ok(Candidate {
        key: row.get(0)?,
        class: row.get(1)?,
        bytes: usize::try_from(bytes).unwrap_or(usize::MAX),
        visible: Timestamp(row.get(3)?),
        message: None,
    })
}
