//! The waiting messages of an inbox that is too long to be held in memory: read from the file in order, as far as a turn needs.
//!
//! Invariant: what a turn reads does not depend on how many ordinary messages wait. An index has them in their order, and apart
//! from them all others: the prologue, starts, rewinds and control. Another index has those of one sender to an entity. Each
//! is a lane; a decision merges those that the hold admits.

use rusqlite::ToSql;

use dauer_store::{Kind, Timestamp};
use dauer_store_kit::codec::CLASS_ORDINARY;
use dauer_store_kit::inbox::{Admission, Ordinary};
use dauer_store_kit::instance::Waiting;

use super::View;
use super::inbox::{Owner, read_waiting};
use crate::fail::Outcome;

// The index of the file names the class by its code, and so do the statements that it serves.
const _: () = assert!(CLASS_ORDINARY == 6);

/// The condition for rows of the index that are not ordinary messages behind the prologue.
macro_rules! others {
    () => {
        "(class = 6 AND kind <> 0) = 0"
    };
}
pub(super) use others;

/// The statements of one lane. Their values are the instance, the time and the sender.
struct Lane {
    /// The visible messages, in order.
    visible: &'static str,
    /// The messages by the time at which each is visible.
    by_time: &'static str,
}

macro_rules! lane {
    ($of:expr, $visible:literal, $by_time:literal) => {
        Lane {
            visible: concat!(
                "SELECT key, kind, position, body FROM inbox WHERE instance = ?1 AND ",
                $of,
                " AND ",
                $visible
            ),
            by_time: concat!(
                "SELECT key, kind, position, body FROM inbox WHERE instance = ?1 AND ",
                $of,
                " ORDER BY ",
                $by_time
            ),
        }
    };
}

/// Ordinary messages behind the prologue.
const ORDINARY: Lane = lane!(
    "(class = 6 AND kind <> 0) = 1 AND (kind <> 0) = 1",
    "position <= ?2 ORDER BY position, key",
    "position, key"
);

/// All others.
const OTHERS: Lane = lane!(
    others!(),
    "CASE kind WHEN 0 THEN visible ELSE position END <= ?2 ORDER BY (kind <> 0), position, key",
    "CASE kind WHEN 0 THEN visible ELSE position END"
);

/// Ordinary messages of one sender behind the prologue.
const OF_SENDER: Lane = lane!(
    "sender = ?3 AND (class = 6 AND kind <> 0) = 1",
    "position <= ?2 ORDER BY position, key",
    "position, key"
);

/// The lanes of what an instance of that kind admits. Only entities have senders in their rows: only they are locked, and any
/// other is searched whole.
fn lanes_of(admission: &Admission<'_>, kind: Kind) -> impl Iterator<Item = &'static Lane> {
    let ordinary = match admission.ordinary() {
        Ordinary::All => Some(&ORDINARY),
        Ordinary::Of(_) if kind == Kind::Entity => Some(&OF_SENDER),
        Ordinary::Of(_) => Some(&ORDINARY),
        Ordinary::None => None,
    };
    ordinary.into_iter().chain([&OTHERS])
}

impl View<'_> {
    /// The messages in the file that the hold admits and that are visible first, one of each lane.
    pub(super) fn earliest(&self, owner: Owner, admission: &Admission<'_>) -> Outcome<Vec<Waiting>> {
        let mut earliest = Vec::new();
        for lane in lanes_of(admission, owner.kind) {
            self.read_lane(lane.by_time, owner, (admission, Timestamp::default()), |waiting| {
                earliest.push(waiting);
                false
            })?;
        }
        Ok(earliest)
    }

    /// The first visible, admitted messages in the file: of each lane as many as exceed `bytes` together by one message, and the
    /// next, which says that more waits.
    pub(super) fn ready(
        &self,
        owner: Owner,
        admission: &Admission<'_>,
        (now, bytes): (Timestamp, usize),
    ) -> Outcome<Vec<Waiting>> {
        let mut ready = Vec::new();
        for lane in lanes_of(admission, owner.kind) {
            let (mut read, mut exceeds) = (0usize, false);
            self.read_lane(lane.visible, owner, (admission, now), |waiting| {
                let goes_on = !exceeds;
                read = read.saturating_add(waiting.message.event.len());
                exceeds = read > bytes;
                ready.push(waiting);
                goes_on
            })?;
        }
        Ok(ready)
    }

    /// Passes the admitted messages of a lane to `each` until it has enough.
    fn read_lane(
        &self,
        sql: &str,
        owner: Owner,
        (admission, now): (&Admission<'_>, Timestamp),
        mut each: impl FnMut(Waiting) -> bool,
    ) -> Outcome<()> {
        let sender = match admission.ordinary() {
            Ordinary::Of(sender) => Some(sender.as_str()),
            Ordinary::All | Ordinary::None => None,
        };
        let values: [&dyn ToSql; 3] = [&owner.key, &now.0, &sender];
        let mut find = self.db.prepare_cached(sql)?;
        let count = find.parameter_count();
        let mut rows = find.query(&values[..count])?;
        while let Some(row) = rows.next()? {
            let waiting = read_waiting(row)?;
            if admission.admits(&waiting.message) && !each(waiting) {
                break;
            }
        }
        Ok(())
    }
}
