//! One write transaction.

use rusqlite::Connection;

use dauer_store::{Cause, HubName, Refused, StoreLimits, Timestamp};

use crate::fail::{Outcome, refusal};
use crate::schema::{FORMAT, GENERATION};
use crate::state::{Group, Scope};
use dauer_store::Clock;

/// What every transaction begins with: the format of the file, and its time.
pub(crate) struct Meta {
    pub(crate) latest: Timestamp,
}

impl Meta {
    /// Reads and checks it. A file that a newer dauer has changed since it was opened is refused politely.
    pub(crate) fn read(db: &Connection) -> Result<Self, Refused> {
        let read = || {
            let mut find = db.prepare_cached("SELECT format, generation, latest FROM meta")?;
            find.query_row([], |row| Ok((row.get::<_, u32>(0)?, row.get::<_, i64>(1)?, row.get(2)?)))
        };
        match read().map_err(refusal)? {
            (FORMAT, GENERATION, latest) => Ok(Self { latest: Timestamp(latest) }),
            (FORMAT, _, _) => Err(Refused::Newer(FORMAT + 1)),
            (format, _, _) => Err(Refused::Newer(format)),
        }
    }

    /// The time: never before the latest that anyone has written into the file.
    pub(crate) fn now(&self, clock: &dyn Clock) -> Timestamp {
        clock.now().max(self.latest)
    }
}

/// A transaction that has begun.
pub(crate) struct Transaction<'w> {
    db: &'w Connection,
    group: &'w mut Group,
    limits: &'w StoreLimits,
    now: Timestamp,
    latest: Timestamp,
    changes: i64,
}

impl<'w> Transaction<'w> {
    /// Begins. Nothing has happened when it fails.
    pub(crate) fn begin(
        db: &'w Connection,
        clock: &dyn Clock,
        (limits, group): (&'w StoreLimits, &'w mut Group),
    ) -> Result<Self, Refused> {
        group.begin();
        execute(db, "BEGIN IMMEDIATE").map_err(|error| Refused::NotExecuted(Cause::new(error)))?;
        let begun = || -> Result<(Timestamp, Timestamp, i64), Refused> {
            let meta = Meta::read(db)?;
            Ok((meta.now(clock), meta.latest, total_changes(db).map_err(refusal)?))
        };
        match begun() {
            Ok((now, latest, changes)) => Ok(Self { db, group, limits, now, latest, changes }),
            Err(refused) => {
                // When even that fails, the writer finds the transaction open and opens the file anew.
                let _ = execute(db, "ROLLBACK");
                Err(refused)
            }
        }
    }

    /// One hub in it.
    pub(crate) fn scope<'s>(&'s mut self, hub: &'s HubName) -> Outcome<Scope<'s>> {
        Scope::of(self.db, hub, self.now, (self.limits, self.group))
    }

    /// Writes the time, if anything was written at all: a claim that found nothing costs no disk access.
    pub(crate) fn stamp(&self) -> rusqlite::Result<()> {
        if self.now > self.latest && total_changes(self.db)? != self.changes {
            self.db.prepare_cached("UPDATE meta SET latest = max(latest, ?1)")?.execute([self.now.0])?;
        }
        Ok(())
    }

    /// Makes it durable. When it fails, nobody knows whether it is.
    pub(crate) fn commit(self) -> rusqlite::Result<()> {
        execute(self.db, "COMMIT")?;
        self.group.settle();
        Ok(())
    }

    /// Undoes everything.
    pub(crate) fn rollback(self) {
        // When it fails, the writer finds the transaction open and opens the file anew.
        let _ = execute(self.db, "ROLLBACK");
        self.group.forget();
    }
}

fn execute(db: &Connection, sql: &str) -> rusqlite::Result<()> {
    db.prepare_cached(sql)?.execute([]).map(|_| ())
}

fn total_changes(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("SELECT total_changes()")?.query_row([], |row| row.get(0))
}
