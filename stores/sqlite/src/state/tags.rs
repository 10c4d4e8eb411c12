//! The index of tags. It runs behind: every start would otherwise write a page of its own for every tag, because what
//! has the same tag seldom starts one after the other. `tagged` of the file says how far it goes: what is in it are the
//! tags of all instances up to that key, and of no other. The rest are few, and a query reads them all.

use rusqlite::{Connection, params};

use dauer_store::{Tags, Timestamp};
use dauer_store_kit::codec::read_tags;

use super::stored::Stored;
use super::{Group, Scope};
use crate::fail::Outcome;

const INSERT: &str = "INSERT INTO tags (hub, name, value, created, instance) VALUES (?1, ?2, ?3, ?4, ?5)";

/// For how many instances room is made at once, however far the index is behind.
const ENTRIES_AT_ONCE: usize = 1 << 16;

/// A row of the index, in its order.
type Entry = (i64, String, String, i64, i64);

impl Scope<'_, '_> {
    /// An instance is new.
    pub(super) fn add_instance_tags(&mut self, stored: &Stored) -> Outcome<()> {
        let known = &mut self.group.known;
        known.newest = known.newest.max(stored.key);
        self.add_tags(stored.key, stored.row.created, &stored.tags)
    }

    /// Adds tags of an instance, if the index is not behind it.
    pub(super) fn add_tags(&mut self, instance: i64, created: Timestamp, tags: &Tags) -> Outcome<()> {
        if instance > self.tagged()? {
            return Ok(());
        }
        for (name, value) in tags {
            let hub = self.view.hub;
            self.run(INSERT, params![hub, name, value, created.0, instance])?;
        }
        Ok(())
    }

    /// Removes them, if the index has them.
    pub(super) fn remove_tags(&mut self, instance: i64, created: Timestamp, tags: &Tags) -> Outcome<()> {
        if instance > self.tagged()? {
            return Ok(());
        }
        for (name, value) in tags {
            let hub = self.view.hub;
            self.run(
                "DELETE FROM tags WHERE hub = ?1 AND name = ?2 AND value = ?3 AND created = ?4 AND instance = ?5",
                params![hub, name, value, created.0, instance],
            )?;
        }
        Ok(())
    }

    /// How far the index goes.
    fn tagged(&mut self) -> Outcome<i64> {
        if let Some(tagged) = self.group.known.tagged {
            return Ok(tagged);
        }
        let mut find = self.view.db.prepare_cached("SELECT tagged FROM meta")?;
        let tagged = find.query_row([], |row| row.get(0))?;
        self.group.known.tagged = Some(tagged);
        Ok(tagged)
    }
}

/// Brings the index up to date when it is far behind. At the end of a transaction: by then all rows are as they stay.
pub(crate) fn catch_up(db: &Connection, group: &mut Group) -> rusqlite::Result<()> {
    let (Some(tagged), newest) = (group.known.tagged, group.known.newest) else { return Ok(()) };
    if newest.saturating_sub(tagged) < group.tags_behind.max(1) {
        return Ok(());
    }
    let count = usize::try_from(newest - tagged).unwrap_or_default().min(ENTRIES_AT_ONCE);
    let (mut entries, newest) = behind(db, tagged, count)?;
    // One page after the other, each once.
    entries.sort_unstable();
    let mut insert = db.prepare_cached(INSERT)?;
    for (hub, name, value, created, instance) in &entries {
        insert.execute(params![hub, name, value, created, instance])?;
    }
    db.prepare_cached("UPDATE meta SET tagged = ?1")?.execute([newest])?;
    group.effort.statements += entries.len() as u64 + 1;
    group.effort.rows += entries.len() as u64 + 1;
    (group.known.tagged, group.known.newest) = (Some(newest), newest);
    Ok(())
}

/// What the index lacks, and how far it goes with it.
fn behind(db: &Connection, tagged: i64, count: usize) -> rusqlite::Result<(Vec<Entry>, i64)> {
    // At once as large as two tags each need: it grows to pages of memory that are new, and new pages cost.
    let mut entries = Vec::with_capacity(2 * count);
    let mut newest = tagged;
    let mut find = db.prepare_cached("SELECT key, hub, created, base FROM instances WHERE key > ?1")?;
    let mut rows = find.query([tagged])?;
    while let Some(row) = rows.next()? {
        let (key, hub, created): (i64, i64, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
        newest = newest.max(key);
        // A damaged instance is reported to those that read it. It must not stop the writes of others.
        let tags = row.get_ref(3)?.as_blob().ok().and_then(|base| read_tags(base).ok()).unwrap_or_default();
        entries.extend(tags.into_iter().map(|(name, value)| (hub, name, value, created, key)));
    }
    Ok((entries, newest))
}
