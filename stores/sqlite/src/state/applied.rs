//! Which messages an instance has applied: the same again is a repeat, also after continue-as-new.

use rusqlite::{OptionalExtension, params};

use dauer_core::limits::MEMORY_IDS_MAX;
use dauer_store::{MessageId, Timestamp};

use super::stored::Stored;
use super::{Scope, View, signed};
use crate::fail::Outcome;

/// How many ids beyond the limit are kept until they are removed together, by one statement.
const SLACK: i64 = 256;

impl View<'_> {
    /// When that message was applied, if it is remembered.
    pub(super) fn applied_at(&self, instance: i64, id: MessageId) -> Outcome<Option<Timestamp>> {
        let mut find =
            self.db.prepare_cached("SELECT at FROM applied WHERE instance = ?1 AND message = ?2")?;
        let at: Option<i64> = find.query_row(params![instance, id.0], |row| row.get(0)).optional()?;
        Ok(at.map(Timestamp))
    }

    /// All that is remembered, oldest first.
    pub(super) fn applied(&self, instance: i64) -> Outcome<Vec<(MessageId, Timestamp)>> {
        let mut find =
            self.db.prepare_cached("SELECT message, at FROM applied WHERE instance = ?1 ORDER BY key")?;
        let rows = find.query_map([instance], |row| Ok((MessageId(row.get(0)?), Timestamp(row.get(1)?))))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

impl Scope<'_, '_> {
    /// Remembers that a message was applied. The caller writes the row of the instance.
    pub(super) fn remember(&mut self, stored: &mut Stored, id: MessageId, at: Timestamp) -> Outcome<()> {
        let again = if stored.remembered == 0 {
            0
        } else {
            self.run("DELETE FROM applied WHERE instance = ?1 AND message = ?2", params![stored.key, id.0])?
        };
        self.run(
            "INSERT INTO applied (instance, message, at) VALUES (?1, ?2, ?3)",
            params![stored.key, id.0, at.0],
        )?;
        stored.remembered += 1 - signed(again as u64);
        let allowed = signed(MEMORY_IDS_MAX as u64);
        if stored.remembered > allowed + SLACK {
            self.run(
                "DELETE FROM applied WHERE key IN
                    (SELECT key FROM applied WHERE instance = ?1 ORDER BY key LIMIT ?2)",
                params![stored.key, stored.remembered - allowed],
            )?;
            stored.remembered = allowed;
        }
        Ok(())
    }
}
