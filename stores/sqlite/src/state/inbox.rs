//! The waiting messages of one instance, as far as they are asked for. `put` changes them.
//!
//! A message that is visible on arrival stands in the order of arrival, one that is delayed in the order of its time. A short
//! inbox is held in memory with its instance. Of a long one a decision reads a part; what a turn gets of it is read by
//! [lanes](super::lanes).

use rusqlite::{Params, Row, params};

use dauer_store::{InstanceId, Kind, Message, MessageId, Timestamp};
use dauer_store_kit::codec::read_message;
use dauer_store_kit::instance::{Inbox, Part, Place, Waiting};
use dauer_store_kit::judge::opens;

use super::View;
use super::lanes::others;
use crate::fail::Outcome;

/// Rows of the inbox that precede the others.
pub(super) const PROLOGUE: i64 = 0;
pub(super) const PLAIN: i64 = 1;
pub(super) const DELAYED: i64 = 2;

/// Whose messages the rows of an inbox are: an instance by its key, and the kind of its queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) key: i64,
    pub(super) kind: Kind,
}

/// How many messages of an inbox are read at once into memory: of a longer one, a turn reads what it takes.
const READ_MAX: usize = 16;

/// Where a row with that key stands in the order of arrival. Keys grow; that of a [spilled](super::Scope::spill) start is
/// negative, and the message in the row of its instance came before all others of its time.
pub(super) fn sequence(key: i64) -> u64 {
    key.cast_unsigned() ^ (1 << 63)
}

/// The key of the row in that place. No row of the prologue is found by it.
pub(super) fn key_at(place: &Place) -> i64 {
    (place.sequence ^ (1 << 63)).cast_signed()
}

/// A query for messages. The order of the columns is that of [`read_waiting`].
macro_rules! select_inbox {
    ($tail:expr) => {
        concat!("SELECT key, kind, position, body FROM inbox WHERE instance = ?1 AND ", $tail)
    };
}

pub(super) fn read_waiting(row: &Row<'_>) -> Outcome<Waiting> {
    let (kind, position): (i64, i64) = (row.get(1)?, row.get(2)?);
    let place = match kind {
        PROLOGUE => Place::before(position),
        _ => Place { follows: true, at: Timestamp(position), sequence: sequence(row.get(0)?) },
    };
    Ok(Waiting { place, message: read_message(row.get_ref(3)?.as_blob().unwrap_or_default())?.into() })
}

impl View<'_> {
    /// The whole inbox, if it is short. Of a long one no message is read.
    pub(super) fn short_inbox(&self, instance: i64, max: usize) -> Outcome<Option<Inbox>> {
        let max = max.min(READ_MAX);
        let mut beyond =
            self.db.prepare_cached("SELECT 1 FROM inbox WHERE instance = ?1 LIMIT 1 OFFSET ?2")?;
        if beyond.exists(params![instance, super::signed(max as u64)])? {
            return Ok(None);
        }
        self.whole_inbox(instance).map(Some)
    }

    /// All messages in the file.
    pub(super) fn whole_inbox(&self, instance: i64) -> Outcome<Inbox> {
        self.read_inbox(select_inbox!("1"), [instance]).map(Inbox::of)
    }

    pub(super) fn read_inbox(&self, sql: &str, values: impl Params) -> Outcome<Vec<Waiting>> {
        let mut find = self.db.prepare_cached(sql)?;
        find.query_and_then(values, read_waiting)?.collect()
    }

    /// A part of a long inbox.
    pub(super) fn waiting(&self, owner: Owner, part: Part<'_>) -> Outcome<Vec<Waiting>> {
        let instance = owner.key;
        match part {
            Part::All => self.read_inbox(select_inbox!("1"), [instance]),
            Part::Ids(ids) => self.waiting_ids(instance, ids),
            Part::Openings => {
                let mut others = self.read_inbox(select_inbox!(others!()), [instance])?;
                others.retain(|waiting| opens(&waiting.message).is_some());
                Ok(others)
            }
            Part::Prologue => self.read_inbox(select_inbox!("kind = 0"), [instance]),
            Part::OfRuns => {
                self.read_inbox(select_inbox!("kind IN (1, 2) AND execution IS NOT NULL"), [instance])
            }
            Part::Ready { admission, now, bytes } => self.ready(owner, &admission, (now, bytes)),
            Part::Earliest(admission) => self.earliest(owner, &admission),
        }
    }

    fn waiting_ids(&self, instance: i64, ids: &[MessageId]) -> Outcome<Vec<Waiting>> {
        // One kind at a time: for a list of them SQLite builds a tree in memory, which costs more than all three reads.
        const OF_A_KIND: [&str; 3] = [
            select_inbox!("kind = 1 AND message = ?2"),
            select_inbox!("kind = 2 AND message = ?2"),
            select_inbox!("kind = 0 AND message = ?2"),
        ];
        let mut found = Vec::new();
        for id in ids {
            for sql in OF_A_KIND {
                let waiting = self.read_inbox(sql, params![instance, id.0])?;
                let is_found = !waiting.is_empty();
                found.extend(waiting);
                if is_found {
                    // No id waits twice.
                    break;
                }
            }
        }
        Ok(found)
    }

    /// The start or rewind that an instance begins with next.
    pub(crate) fn read_start(&self, id: &InstanceId) -> Outcome<Option<Message>> {
        match self.instance(id)? {
            Some(loaded) => loaded.instance.next_start(&self.facts(Some(&loaded.stored))),
            None => Ok(None),
        }
    }
}
