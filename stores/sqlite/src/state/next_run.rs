//! Starts and rewinds that wait for an instance, and what waits behind them for the runs they will begin.

use rusqlite::params;

use dauer_store::{ExecutionId, Message};
use dauer_store_kit::codec::{CLASS_REWIND, CLASS_START};
use dauer_store_kit::inbox;

use super::inbox::Waiting;
use super::instance::Instance;
use super::{Scope, View};
use crate::fail::Outcome;

/// A start or rewind that waits.
type Opening = inbox::Opening<(bool, i64, i64)>;

impl View<'_> {
    /// Whether a message is for the run that a waiting start or rewind will begin: it stays behind that one, however the
    /// run before has ended.
    pub(super) fn is_for_next_run(&self, instance: &Instance, message: &Message) -> Outcome<bool> {
        Ok(inbox::is_for_next_run(&self.openings(instance)?, message.execution))
    }

    /// In order.
    fn openings(&self, instance: &Instance) -> Outcome<Vec<Opening>> {
        if let Some(waiting) = &instance.inbox {
            return Ok(waiting.iter().filter_map(|w| Opening::of(w.place(), &w.message)).collect());
        }
        let mut openings = Vec::new();
        self.find_opening(instance.key, |waiting| {
            openings.extend(Opening::of(waiting.place(), &waiting.message));
            None::<()>
        })?;
        Ok(openings)
    }
}

impl Scope<'_, '_> {
    /// Takes out all messages that an ended instance does not keep: all but starts and rewinds, and what waits behind the
    /// first of them for the run it will begin. Answers how many.
    pub(super) fn drop_of_ended(&mut self, instance: &mut Instance) -> Outcome<u64> {
        let openings = self.openings(instance)?;
        let stays = |waiting: &Waiting| inbox::outlives_end(&openings, &waiting.place(), &waiting.message);
        if let Some(dropped) = self.retain(instance, stays)? {
            return Ok(dropped);
        }
        // All are before the first when there is none.
        let first = openings.first().map_or((true, i64::MAX, i64::MAX), |first| first.place);
        let before = self.run(
            "DELETE FROM inbox WHERE instance = ?1 AND class NOT IN (?2, ?3)
             AND (kind <> 0, position, key) <= (?4, ?5, ?6)",
            params![instance.key, CLASS_START, CLASS_REWIND, first.0, first.1, first.2],
        )?;
        let others = self.behind_for_others(instance.key, &openings)?;
        for key in &others {
            self.run("DELETE FROM inbox WHERE key = ?1", [key])?;
        }
        Ok((before + others.len()) as u64)
    }

    /// The rows of those messages that are for a run which none of the openings begins.
    fn behind_for_others(&self, instance: i64, openings: &[Opening]) -> Outcome<Vec<i64>> {
        if openings.is_empty() {
            return Ok(Vec::new());
        }
        let mut find = self.view.db.prepare_cached(
            "SELECT key, execution FROM inbox
             WHERE instance = ?1 AND class NOT IN (?2, ?3) AND execution IS NOT NULL",
        )?;
        let mut rows = find.query(params![instance, CLASS_START, CLASS_REWIND])?;
        let mut others = Vec::new();
        while let Some(row) = rows.next()? {
            let execution = ExecutionId(u128::from_be_bytes(row.get(1)?));
            if !inbox::is_for_next_run(openings, Some(execution)) {
                others.push(row.get(0)?);
            }
        }
        Ok(others)
    }
}
