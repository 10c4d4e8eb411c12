//! Which messages an instance has applied: the same again is a repeat, also after continue-as-new.

use rusqlite::{OptionalExtension, params};

use dauer_core::limits::MEMORY_IDS_MAX;
use dauer_store::{MessageId, Timestamp};
use dauer_store_kit::judge::is_known;

use super::instance::Instance;
use super::{Scope, View, signed};
use crate::fail::Outcome;

/// How many ids beyond the limit are kept until they are removed together: one statement instead of so many.
const SLACK: i64 = 256;

impl View<'_> {
    /// Whether that message was applied and is not forgotten.
    pub(super) fn is_applied(&self, instance: i64, id: MessageId) -> Outcome<bool> {
        let mut find =
            self.db.prepare_cached("SELECT at FROM applied WHERE instance = ?1 AND message = ?2")?;
        let at: Option<i64> = find.query_row(params![instance, id.0], |row| row.get(0)).optional()?;
        Ok(at.is_some_and(|at| is_known(Timestamp(at), self.now)))
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
    /// Remembers that a message was applied. The caller stores the instance.
    pub(super) fn remember(&mut self, instance: &mut Instance, id: MessageId, at: Timestamp) -> Outcome<()> {
        let again = if instance.remembered == 0 {
            0
        } else {
            self.run("DELETE FROM applied WHERE instance = ?1 AND message = ?2", params![instance.key, id.0])?
        };
        self.run(
            "INSERT INTO applied (instance, message, at) VALUES (?1, ?2, ?3)",
            params![instance.key, id.0, at.0],
        )?;
        instance.remembered += 1 - signed(again as u64);
        let allowed = signed(MEMORY_IDS_MAX as u64);
        if instance.remembered > allowed + SLACK {
            self.run(
                "DELETE FROM applied WHERE key IN
                    (SELECT key FROM applied WHERE instance = ?1 ORDER BY key LIMIT ?2)",
                params![instance.key, instance.remembered - allowed],
            )?;
            instance.remembered = allowed;
        }
        Ok(())
    }
}
