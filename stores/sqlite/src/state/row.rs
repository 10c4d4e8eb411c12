//! Writing the row of an instance: as few columns and indexes as have changed.

use rusqlite::params;

use dauer_store::{Record, Timestamp};
use dauer_store_kit::codec::{status_code, write_base, write_details};
use dauer_store_kit::instance::{Dirty, Instance};

use super::stored::{Columns, Loaded, Standing, Stored};
use super::{Scope, signed, trials_column};
use crate::fail::Outcome;

/// What a turn always changes; the rest of the columns is added where it has changed. Numbered so that each statement has
/// the values of the one before and more: the same list is bound to all of them, as far as it is wanted.
macro_rules! update_turn {
    ($($more:literal),*) => {
        concat!(
            "UPDATE instances SET revision = ?1, updated = ?2, history_len = ?3, history_bytes = ?4, last = ?5,
                taken = ?6, start = ?7",
            $($more,)*
            " WHERE key = ?8"
        )
    };
}

macro_rules! update_standing {
    ($($more:literal),*) => {
        update_turn!(
            ", epoch = ?9, not_before = ?10, execution = ?11, generation = ?12, status = ?13, hold = ?14, stalled = ?15,
                attempts = ?16, remembered = ?17, deaths = ?18, trials = ?19"
            $(, $more)*
        )
    };
}

macro_rules! update_hold {
    ($($more:literal),*) => {
        update_standing!(
            ", ready_at = ?20, holder = ?21, place = ?22, offered = ?23"
            $(, $more)*
        )
    };
}

/// How much of the row of an instance has changed. Each is all that comes before it, and more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// What every turn changes.
    Turn,
    /// What most turns leave as it is.
    Standing,
    /// When its next message is visible.
    Ready,
    /// Who holds it, and where claims look for it.
    Hold,
    /// It has ended.
    End,
    /// It is another run.
    Run,
}

impl Change {
    pub(super) fn between(now: &Columns, stored: &Columns, dirty: Dirty) -> Self {
        let run = |columns: &Columns| (columns.queue, columns.created);
        let hold = |columns: &Columns| (columns.holder, columns.place, columns.offered);
        if run(now) != run(stored) || dirty.has(Dirty::BASE) {
            Self::Run
        } else if now.completed != stored.completed {
            Self::End
        } else if hold(now) != hold(stored) {
            Self::Hold
        } else if now.ready_at != stored.ready_at {
            Self::Ready
        } else if now.standing != stored.standing {
            Self::Standing
        } else {
            Self::Turn
        }
    }

    /// The statement that writes it, and how many values that takes.
    fn update(self) -> (&'static str, usize) {
        match self {
            Self::Turn => (update_turn!(), 8),
            Self::Standing => (update_standing!(), 19),
            Self::Ready => (update_standing!(", ready_at = ?20"), 20),
            Self::Hold => (update_hold!(), 23),
            Self::End => (update_hold!(", completed = ?24"), 24),
            Self::Run => (update_hold!(", completed = ?24, queue = ?25, created = ?26, base = ?27"), 27),
        }
    }
}

impl Scope<'_, '_> {
    /// Adds an instance that is not there.
    pub(super) fn insert_instance(&mut self, loaded: &mut Loaded) -> Outcome<()> {
        let now = self.settle(loaded)?;
        let record = &loaded.instance.record;
        let hub = self.view.hub;
        self.run(
            "INSERT INTO instances (hub, id, queue, offered, execution, generation, revision, epoch, status, hold,
                stalled, attempts, created, updated, completed, history_len, history_bytes, ready_at, not_before, place,
                base, holder, start, remembered, deaths, trials)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22,
                ?23, 0, ?24, ?25)",
            params![
                hub,
                loaded.instance.id().as_str(),
                now.queue,
                now.offered,
                record.execution.0.to_be_bytes(),
                record.generation,
                signed(record.revision.0),
                signed(now.standing.epoch.0),
                status_code(record.status),
                now.standing.hold,
                now.standing.stalled,
                record.attempts,
                now.created.0,
                record.times.updated.0,
                millis(now.completed),
                record.history_len,
                signed(record.history_bytes),
                millis(now.ready_at),
                now.standing.not_before.0,
                millis(now.place),
                write_base(record),
                now.holder,
                loaded.write_start(),
                signed(record.deaths.to_bits()),
                trials_column(record.deaths, now.standing.trial),
            ],
        )?;
        loaded.stored.key = self.db.last_insert_rowid();
        loaded.stored.row = now;
        self.add_instance_tags(&loaded.stored)?;
        if let Some(details) = write_details(&loaded.instance.record) {
            self.put_details(loaded.stored.key, &details)?;
        }
        Ok(())
    }

    /// Writes what has changed of the row of an instance, and makes rows of tasks that may not lie in it any more.
    pub(super) fn write_row(&mut self, loaded: &mut Loaded, dirty: Dirty) -> Outcome<()> {
        const OF_RECORD: Dirty = Dirty::RECORD.and(Dirty::TURN).and(Dirty::BASE).and(Dirty::DETAILS);
        self.put_out_of_others(loaded)?;
        if dirty.has(OF_RECORD) || loaded.stored.tasks.in_row_changed() {
            let now = self.settle(loaded)?;
            return self.write_columns(loaded, now, dirty);
        }
        if dirty == Dirty::default() { Ok(()) } else { self.write_hold(loaded) }
    }

    /// Writes the columns that looks search by: the holder, and from when a session may win it. All columns are written if only
    /// the tail of the history says that the run has begun.
    fn write_hold(&mut self, loaded: &mut Loaded) -> Outcome<()> {
        let now = self.settle(loaded)?;
        let stored = loaded.stored.row;
        let Standing { epoch, not_before, .. } = now.standing;
        if now.standing != (Standing { epoch, not_before, ..stored.standing }) {
            return self.write_columns(loaded, now, Dirty::default());
        }
        if (now.holder, now.place, now.offered) == (stored.holder, stored.place, stored.offered) {
            self.run(
                "UPDATE instances SET epoch = ?2, ready_at = ?3, not_before = ?4 WHERE key = ?1",
                params![loaded.stored.key, signed(epoch.0), millis(now.ready_at), not_before.0],
            )?;
        } else {
            self.run(
                "UPDATE instances SET epoch = ?2, holder = ?3, ready_at = ?4, not_before = ?5, place = ?6,
                    offered = ?7 WHERE key = ?1",
                params![
                    loaded.stored.key,
                    signed(epoch.0),
                    now.holder,
                    millis(now.ready_at),
                    not_before.0,
                    millis(now.place),
                    now.offered,
                ],
            )?;
        }
        let Columns { holder, ready_at, place, offered, standing, .. } = now;
        loaded.stored.row = Columns { holder, ready_at, place, offered, standing, ..stored };
        Ok(())
    }

    /// Writes those columns, and the fields of the record beside them. Whatever the tail of the history says, the row is right
    /// then.
    pub(super) fn write_columns(&mut self, loaded: &mut Loaded, now: Columns, dirty: Dirty) -> Outcome<()> {
        self.update_row(loaded, &now, Change::between(&now, &loaded.stored.row, dirty))?;
        let Loaded { instance, stored } = loaded;
        if dirty.has(Dirty::DETAILS) {
            match write_details(&instance.record) {
                Some(details) => self.put_details(stored.key, &details)?,
                None => _ = self.run("DELETE FROM details WHERE instance = ?1", [stored.key])?,
            }
        }
        let tags = &instance.record.tags;
        if (&stored.tags, stored.row.created) != (tags, now.created) {
            self.remove_tags(stored.key, stored.row.created, &stored.tags)?;
            self.add_tags(stored.key, now.created, tags)?;
            stored.tags = tags.clone();
        }
        stored.row = now;
        stored.tasks.are_written();
        Ok(())
    }

    fn update_row(&mut self, loaded: &Loaded, now: &Columns, change: Change) -> Outcome<()> {
        let Loaded { instance, stored } = loaded;
        let record = &instance.record;
        let base = if change == Change::Run { write_base(record) } else { Vec::new() };
        let last = self.last_commit(instance)?;
        let (update, count) = change.update();
        let values = params![
            signed(record.revision.0),
            record.times.updated.0,
            record.history_len,
            signed(record.history_bytes),
            last,
            stored.tasks.write_taken(),
            loaded.write_start(),
            stored.key,
            signed(now.standing.epoch.0),
            now.standing.not_before.0,
            record.execution.0.to_be_bytes(),
            record.generation,
            status_code(record.status),
            now.standing.hold,
            now.standing.stalled,
            record.attempts,
            now.standing.remembered,
            signed(now.standing.deaths.to_bits()),
            trials_column(now.standing.deaths, now.standing.trial),
            millis(now.ready_at),
            now.holder,
            millis(now.place),
            now.offered,
            millis(now.completed),
            now.queue,
            now.created.0,
            base,
        ];
        self.run(update, &values[..count]).map(|_| ())
    }

    fn put_details(&mut self, instance: i64, details: &[u8]) -> Outcome<()> {
        let sql = "INSERT INTO details VALUES (?1, ?2) ON CONFLICT DO UPDATE SET body = ?2";
        self.run(sql, params![instance, details]).map(|_| ())
    }

    /// The last commit, for its column. A session that is gone has a key that no session has.
    fn last_commit(&mut self, instance: &Instance) -> Outcome<Option<Vec<u8>>> {
        let Some(last) = &instance.last else { return Ok(None) };
        let by = match last.by {
            Some(session) => Some(self.session_key(session)?.unwrap_or_default()),
            None => None,
        };
        Ok(Some(last.write(by, instance.record.execution)))
    }

    /// The columns that its row is to have. Notes when the instance has become ready, or will.
    pub(super) fn settle(&mut self, loaded: &mut Loaded) -> Outcome<Columns> {
        let Loaded { instance, stored } = &*loaded;
        let facts = self.facts(Some(stored));
        let (next, place) = (instance.offered_as(&facts)?, instance.free_at(&facts)?);
        let (kind, own) = (next.queue.kind, next.queue == stored.queue.0);
        let offered = if own { None } else { Some(next.queue.clone()) };
        let holder = self.holder_key(instance.holder)?;
        if loaded.instance.record.queue != loaded.stored.queue.0 {
            let queue = loaded.instance.record.queue.clone();
            let key = self.queue_key(&queue)?;
            loaded.stored.queue = (queue, key);
        }
        let offered = offered.map_or(Ok(loaded.stored.queue.1), |queue| self.queue_key(&queue))?;
        let now = columns(&loaded.instance, &loaded.stored, (holder, place, offered));
        self.tell_place(&now, (kind, loaded.stored.row));
        Ok(now)
    }

    fn tell_place(&mut self, now: &Columns, (kind, stored): (dauer_store::Kind, Columns)) {
        if (now.place, now.offered) != (stored.place, stored.offered)
            && let Some(place) = now.place
        {
            self.ready_at(kind, place);
        } else if let Some(ready_at) = now.ready_at.filter(|ready_at| *ready_at > self.now)
            && now.holder.is_some()
        {
            // The holder looks when its time has come.
            self.due_at(ready_at);
        }
    }

    /// Removes the rows of an instance and all that belongs to it, without a word to its holders.
    pub(super) fn erase_rows(&mut self, stored: &Stored) -> Outcome<()> {
        self.remove_tags(stored.key, stored.row.created, &stored.tags)?;
        self.erase_at(stored.key)
    }

    /// The same but for its tags.
    pub(super) fn erase_at(&mut self, key: i64) -> Outcome<()> {
        for sql in [
            "DELETE FROM inbox WHERE instance = ?1",
            "DELETE FROM history WHERE instance = ?1",
            "DELETE FROM applied WHERE instance = ?1",
            "DELETE FROM details WHERE instance = ?1",
            "DELETE FROM tasks WHERE instance = ?1",
            "DELETE FROM instances WHERE key = ?1",
        ] {
            self.run(sql, [key])?;
        }
        let hub = self.view.hub;
        self.run("DELETE FROM outbox WHERE hub = ?1 AND instance = ?2", params![hub, key])?;
        Ok(())
    }
}

fn columns(
    instance: &Instance,
    stored: &Stored,
    (holder, place, offered): (Option<i64>, Option<Timestamp>, i64),
) -> Columns {
    let record: &Record = &instance.record;
    Columns {
        holder,
        ready_at: instance.ready_at(),
        place,
        offered,
        queue: stored.queue.1,
        created: record.times.created,
        completed: record.times.completed,
        standing: Standing::of(
            record,
            (instance.epoch, instance.not_before, instance.trial),
            (stored.remembered, stored.start.is_some()),
        ),
    }
}

fn millis(time: Option<Timestamp>) -> Option<i64> {
    time.map(|time| time.0)
}
