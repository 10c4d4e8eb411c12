//! One write transaction.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use dauer_store::{Cause, HubName, Kind, Refused, StoreLimits, Timestamp};

use super::time::FileTime;
use crate::fail::{Fail, Outcome, refusal};
use crate::schema::{FORMAT, GENERATION};
use crate::state::{Group, Scope, Statements, catch_up_tags};

/// What every transaction begins with: the format of the file, and its time.
#[derive(Debug, Clone, Copy)]
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
}

/// What a connection knew of the file when it last looked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    version: i64,
    meta: Meta,
}

impl Seen {
    /// The same for a connection that has not looked yet.
    pub(crate) fn of_another_connection(self) -> Self {
        Self { version: i64::MIN, ..self }
    }
}

/// Changes when another connection has written, never by this one's writes.
pub(crate) fn data_version(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))
}

/// A transaction that has begun.
pub(crate) struct Transaction<'w> {
    db: &'w Connection,
    statements: Statements<'w>,
    group: &'w mut Group,
    limits: &'w StoreLimits,
    now: Timestamp,
    seen: &'w mut Option<Seen>,
}

impl<'w> Transaction<'w> {
    /// Begins. Nothing has happened when it fails. The cache is cleared if another connection has written.
    pub(crate) fn begin(
        db: &'w Connection,
        time: &FileTime,
        limits: &'w StoreLimits,
        (group, seen): (&'w mut Group, &'w mut Option<Seen>),
    ) -> Result<Self, Refused> {
        group.begin();
        execute(db, "BEGIN IMMEDIATE").map_err(|error| Refused::NotExecuted(Cause::new(error)))?;
        match look(db, *seen) {
            Ok(now_seen) => {
                if seen.is_none_or(|before| before.version != now_seen.version) {
                    group.forget();
                }
                *seen = Some(now_seen);
                let (statements, now) = (Statements::default(), time.now(now_seen.meta.latest));
                Ok(Self { db, statements, now, group, limits, seen })
            }
            Err(refused) => {
                // When even that fails, the writer finds the transaction open and reopens the file.
                let _ = execute(db, "ROLLBACK");
                Err(refused)
            }
        }
    }

    /// One hub in it.
    pub(crate) fn scope<'s>(&'s mut self, hub: &'s HubName) -> Outcome<Scope<'s, 'w>> {
        Scope::of((self.db, &mut self.statements), hub, self.now, (self.limits, self.group))
    }

    /// Gives what it has made ready to the sessions with credit.
    pub(crate) fn serve(&mut self) -> Result<(), Refused> {
        if !self.group.bids.spends || self.group.ready.is_empty() {
            return Ok(());
        }
        let mut ready: BTreeMap<HubName, Vec<Kind>> = BTreeMap::new();
        for (hub, kind) in &self.group.ready {
            ready.entry(hub.clone()).or_default().push(*kind);
        }
        for (hub, kinds) in ready {
            self.scope(&hub).and_then(|mut scope| scope.serve(&kinds)).map_err(Fail::into_refused)?;
        }
        Ok(())
    }

    /// Writes the time, if anything was written at all: a claim that found nothing costs no disk access.
    fn stamp(&mut self) -> rusqlite::Result<()> {
        let latest = self.seen.map_or(Timestamp::default(), |seen| seen.meta.latest);
        let now = self.now.max(self.group.raised);
        if now > latest && self.group.effort.statements > 0 {
            self.db.prepare_cached("UPDATE meta SET latest = ?1")?.execute([now.0])?;
            self.group.effort.statements += 1;
            self.group.effort.rows += 1;
        }
        Ok(())
    }

    /// The hubs it has written to, if it has written anything.
    pub(crate) fn touched(&self) -> Option<&BTreeSet<i64>> {
        (self.group.effort.statements > 0).then_some(&self.group.touched)
    }

    /// Makes it durable, with the time. After a failure the outcome is unknown.
    pub(crate) fn commit(mut self) -> Result<(), CommitFailed> {
        if let Err(error) = catch_up_tags(self.db, self.group).and_then(|()| self.stamp()) {
            self.rollback();
            return Err(CommitFailed::Before(error));
        }
        execute(self.db, "COMMIT").map_err(CommitFailed::During)?;
        if self.group.effort.statements > 0
            && let Some(seen) = self.seen
        {
            self.group.effort.commits += 1;
            seen.meta.latest = seen.meta.latest.max(self.now).max(self.group.raised);
        }
        self.group.settle();
        Ok(())
    }

    /// Undoes everything.
    pub(crate) fn rollback(self) {
        // When it fails, the writer finds the transaction open and reopens the file.
        let _ = execute(self.db, "ROLLBACK");
        self.group.forget();
    }
}

/// Why a commit did not happen, or may not have.
pub(crate) enum CommitFailed {
    /// It had not begun, and everything was undone.
    Before(rusqlite::Error),
    /// The outcome is unknown.
    During(rusqlite::Error),
}

/// The state of the file. It is read only if another connection has written since.
fn look(db: &Connection, before: Option<Seen>) -> Result<Seen, Refused> {
    let version = data_version(db).map_err(refusal)?;
    match before {
        Some(before) if before.version == version => Ok(before),
        _ => {
            let meta = Meta::read(db)?;
            Ok(Seen { version, meta })
        }
    }
}

fn execute(db: &Connection, sql: &str) -> rusqlite::Result<()> {
    db.prepare_cached(sql)?.execute([]).map(|_| ())
}
