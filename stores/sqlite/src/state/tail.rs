//! A turn in one row: its history, with how it left the instance at the tail.
//!
//! Most turns of an instance that is kept change nothing that anyone looks for: only how far the history goes, when that was,
//! and which tasks are taken. That is said where the turn is written anyway, in its row of the history, and the row of the
//! instance stays as it was. It counts while it is the last row, and of a later revision than the row of the instance says:
//! whatever writes that row, writes all of it.
//!
//! The first turn is no exception, where all that it changes beside is that the instance has begun: that it runs, that the
//! message which it was made by is taken, and that nothing else waits. Its tail says so, and so do those behind it.

use rusqlite::{Row, params};

use dauer_store::{Batch, Epoch, Hold, Revision, Status, Timestamp};
use dauer_store_kit::codec::{LastCommit, hold_code, write_trail};

use super::commit::Committer;
use super::instance::{Instance, Placement, Standing};
use super::row::Change;
use super::{Scope, signed, unsigned};
use crate::fail::Outcome;
use crate::wire::{Tail, read_tail, write_tail};

/// The last row of the history of the instance `i` as `h`, if it says how the instance stands. One that has ended is written
/// itself.
macro_rules! join_tail {
    () => {
        "LEFT JOIN history AS h ON i.completed IS NULL AND h.key =
            (SELECT key FROM history WHERE instance = i.key ORDER BY first DESC, key DESC LIMIT 1)
            AND h.revision > i.revision AND h.tail IS NOT NULL "
    };
}
pub(super) use join_tail;

/// What one turn adds to a history.
pub(super) struct HistoryRow<'b> {
    pub(super) batch: &'b Batch,
    pub(super) revision: Revision,
    pub(super) tail: Option<Vec<u8>>,
}

impl Instance {
    /// So much is added to its history.
    pub(super) fn count_history(&mut self, batch: &Batch) {
        let record = &mut self.record;
        record.history_len = record.history_len.saturating_add(batch.count);
        record.history_bytes += batch.events.len() as u64;
    }

    /// Goes on to where the tail of its history says that it stands.
    pub(super) fn read_tail(&mut self, row: &Row<'_>, tail: &[u8]) -> Outcome<()> {
        let execution = self.record.execution;
        let events = row.get_ref(33)?.as_blob().unwrap_or_default();
        let Tail { history_bytes, by, taken, begun } = read_tail(tail, (&self.id, execution), events)?;
        if begun {
            self.begin();
        }
        let (revision, at) = (Revision(unsigned(row.get(28)?)), Timestamp(row.get(30)?));
        self.last = Some(LastCommit {
            execution,
            revision: Revision(revision.0.saturating_sub(1)),
            epoch: Epoch(unsigned(row.get(29)?)),
            by: Some(by),
            amendment: None,
            taken: taken.iter().map(|task| task.id).collect(),
        });
        self.record.revision = revision;
        self.record.times.updated = at;
        (self.record.history_len, self.record.history_bytes) = (row.get(31)?, history_bytes);
        taken.into_iter().for_each(|task| self.hold_taken(task, at));
        Ok(())
    }

    /// It runs, and nothing waits: all that a first turn changes, as a rule. The row stays as it was.
    fn begin(&mut self) {
        (self.record.status, self.record.hold) = (Status::Running, Hold::Open);
        (self.start, self.start_in_row, self.ready_at) = (None, false, None);
        self.row_is_behind = true;
    }

    /// Whether all that its row does not know, but for what every turn changes, is that it [has begun](Self::begin).
    fn has_just_begun(&self) -> bool {
        let stored = self.stored;
        let begun = Placement {
            ready_at: None,
            standing: Standing {
                status: Status::Running,
                hold: hold_code(&Hold::Open),
                start_in_row: false,
                ..stored.standing
            },
            ..stored
        };
        stored.holder.is_some() && stored.standing.status == Status::Pending && self.placement() == begun
    }

    /// How its last commit has left it, if the row of that turn can say all of it.
    fn write_tail(&self, batch: &Batch, begun: bool) -> Option<Vec<u8>> {
        let LastCommit { by, taken, execution, epoch, .. } = self.last.as_ref()?;
        let by = by.filter(|by| self.is_held_by(*by))?;
        let record = &self.record;
        let here = |id| {
            let held = self.tasks.get(id)?;
            (held.is_in_instance() && held.ready_at == record.times.updated).then_some(&held.task)
        };
        let tasks: Vec<_> = taken.iter().map(here).collect::<Option<_>>()?;
        let whole =
            tasks.len() == self.taken().count() && (*execution, *epoch) == (record.execution, self.epoch);
        let turn = (record.history_bytes, by, begun);
        whole.then(|| write_tail(turn, tasks.into_iter(), (record.execution, batch)))
    }
}

impl Scope<'_, '_> {
    /// Writes a turn that adds to its history: that, and the row of the instance if there is more to say of it.
    pub(super) fn store_turn(
        &mut self,
        by: &Committer,
        instance: &mut Instance,
        batch: &Batch,
    ) -> Outcome<()> {
        let change = self.change_of(instance)?;
        let begun = change != Change::Turn && !instance.base_changed && instance.has_just_begun();
        let only_the_turn = (change == Change::Turn || begun) && !instance.details_changed;
        let tail = if only_the_turn { instance.write_tail(batch, begun) } else { None };
        let says_all = tail.is_some();
        self.insert_history(by, instance, HistoryRow { batch, revision: instance.record.revision, tail })?;
        if says_all {
            instance.row_is_behind = begun;
            return Ok(());
        }
        self.write_row(instance, change)
    }

    /// Adds a row to the history of an instance, which has counted it.
    pub(super) fn insert_history(
        &mut self,
        by: &Committer,
        instance: &Instance,
        row: HistoryRow<'_>,
    ) -> Outcome<()> {
        let HistoryRow { batch, revision, tail } = row;
        let now = self.view.now.0;
        self.run(
            "INSERT INTO history (instance, first, revision, epoch, host, at, count, trail, events, tail)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                instance.key,
                instance.record.history_len.saturating_sub(batch.count),
                signed(revision.0),
                signed(instance.epoch.0),
                by.host,
                now,
                batch.count,
                write_trail(&batch.consumed, &batch.produced),
                &**batch.events.stored(),
                tail,
            ],
        )?;
        Ok(())
    }
}
