//! A turn in one row: the row of the history has the state of the instance in its tail.
//!
//! Most turns of a kept instance change no column that a look or query searches by: only the length of the history, the time
//! of change, and the taken tasks. The tail of the history row has these fields, and the row of the instance stays as it was.
//! A tail is valid while it is in the last history row and its revision is higher than the instance row's. A write of the
//! instance row writes all its columns.
//!
//! The first turn may be such a turn too, if it only begins the run: the status is Running, the start is consumed, and no
//! message waits. Its tail has a flag for that, and so do the tails behind it.

use rusqlite::params;

use dauer_store::{Batch, Hold, Record, Status, StoredBatch};
use dauer_store_kit::codec::{hold_code, write_trail};
use dauer_store_kit::instance::{Dirty, LastCommit};

use super::row::Change;
use super::stored::{Columns, Loaded, Standing};
use super::{Scope, signed};
use crate::fail::Outcome;
use crate::wire::write_tail;

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

/// A run that has begun, and for which no message waits.
pub(super) fn begin(record: &mut Record) {
    record.status = Status::Running;
}

impl Columns {
    /// Whether all that the row does not know, but for what every turn changes, is that the run [has begun](begin). A look for
    /// mail passes over the row only while it has the start.
    fn have_just_begun(&self, stored: &Self) -> bool {
        let begun = Self {
            ready_at: None,
            standing: Standing {
                status: Status::Running,
                hold: hold_code(Hold::Open),
                start_in_row: false,
                ..stored.standing
            },
            ..*stored
        };
        let waits = stored.holder.is_some() && stored.standing.start_in_row;
        waits && stored.standing.status == Status::Pending && *self == begun
    }
}

impl Loaded {
    /// The tail after its last commit, by the session with that key. None if the tail cannot have all that has changed.
    fn write_tail(&self, by: i64, batch: &Batch, begun: bool) -> Option<Vec<u8>> {
        let Self { instance, stored } = self;
        let LastCommit { by: session, taken, execution, epoch, .. } = instance.last.as_ref()?;
        session.filter(|session| instance.holder == Some(*session))?;
        let record = &instance.record;
        let here = |id: &_| {
            let held = stored.tasks.in_row(*id)?;
            (held.ready_at == record.times.updated).then_some(&held.task)
        };
        let tasks: Vec<_> = taken.iter().map(here).collect::<Option<_>>()?;
        let whole = tasks.len() == stored.tasks.taken().count()
            && (*execution, *epoch) == (record.execution, instance.epoch);
        let turn = (record.history_bytes, by, begun);
        whole.then(|| write_tail(turn, tasks.into_iter(), (record.execution, batch)))
    }
}

impl Scope<'_, '_> {
    /// Writes a turn that appends to the history: its row there, and the row of the instance unless the tail has all changes.
    pub(super) fn write_turn(
        &mut self,
        (loaded, dirty): (&mut Loaded, Dirty),
        host: i64,
        (first, batch): (u32, &Batch),
    ) -> Outcome<()> {
        self.put_out_of_others(loaded)?;
        let now = self.settle(loaded)?;
        let change = Change::between(&now, &loaded.stored.row, dirty);
        let begun =
            change != Change::Turn && !dirty.has(Dirty::BASE) && now.have_just_begun(&loaded.stored.row);
        let only_the_turn = (change == Change::Turn || begun) && !dirty.has(Dirty::DETAILS);
        let by = now.holder.filter(|_| only_the_turn);
        let tail = by.and_then(|by| loaded.write_tail(by, batch, begun));
        let says_all = tail.is_some();
        self.insert_history((loaded, host), (first, batch), tail)?;
        if says_all {
            loaded.stored.tasks.are_written();
            return Ok(());
        }
        self.write_columns(loaded, now, dirty)
    }

    /// Puts batches in the place of a history.
    pub(super) fn replace_history(&mut self, loaded: &Loaded, host: i64, batches: &[Batch]) -> Outcome<()> {
        self.remove_history(loaded.stored.key)?;
        let mut first = 0u32;
        for batch in batches {
            self.insert_history((loaded, host), (first, batch), None)?;
            first = first.saturating_add(batch.count);
        }
        Ok(())
    }

    pub(super) fn remove_history(&mut self, instance: i64) -> Outcome<()> {
        self.run("DELETE FROM history WHERE instance = ?1", [instance]).map(|_| ())
    }

    /// Adds a row to the history of an instance, as its current revision.
    fn insert_history(
        &mut self,
        (loaded, host): (&Loaded, i64),
        (first, batch): (u32, &Batch),
        tail: Option<Vec<u8>>,
    ) -> Outcome<()> {
        let Loaded { instance, stored } = loaded;
        let now = self.view.now.0;
        self.run(
            "INSERT INTO history (instance, first, revision, epoch, host, at, count, trail, events, tail)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            params![
                stored.key,
                first,
                signed(instance.record.revision.0),
                signed(instance.epoch.0),
                host,
                now,
                batch.count,
                write_trail(&batch.consumed, &batch.produced),
                &**batch.events.stored(),
                tail,
            ],
        )?;
        Ok(())
    }

    /// Adds a batch of a dump.
    pub(super) fn load_batch(&mut self, instance: i64, stored: &StoredBatch) -> Outcome<()> {
        let host = self.host_key(&stored.owner)?;
        self.run(
            "INSERT INTO history (instance, first, revision, epoch, host, at, count, trail, events)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                instance,
                stored.first,
                signed(stored.revision.0),
                signed(stored.epoch.0),
                host,
                stored.at.0,
                stored.batch.count,
                write_trail(&stored.batch.consumed, &stored.batch.produced),
                &**stored.batch.events.stored(),
            ],
        )?;
        Ok(())
    }
}
