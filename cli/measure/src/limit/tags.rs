//! The index of tags, which the store fills in parts, each in the order of the index.

use rusqlite::{Connection, params};

use super::schedule::{Schedule, Step, is_start};
use crate::Error;

/// What the index lacks.
pub(super) struct IndexOfTags {
    hub: i64,
    /// How many instances the store lets it be behind.
    behind_max: usize,
    /// Instances, by place, that have started since.
    behind: Vec<usize>,
}

impl IndexOfTags {
    pub(super) fn new(db: &Connection) -> Result<Self, Error> {
        let hub = db.query_row("SELECT ifnull(min(key), 1) FROM hubs", [], |row| row.get(0))?;
        Ok(Self { hub, behind_max: dauer_sqlite::Options::default().tags_behind, behind: Vec::new() })
    }

    /// At the end of a transaction of these steps: writes the index when it is far behind; gives the rows of that.
    pub(super) fn catch_up(
        &mut self,
        db: &Connection,
        (schedule, created): (&Schedule, &[i64]),
        steps: &[Step],
    ) -> Result<u64, Error> {
        self.behind.extend(steps.iter().filter(|(_, phase)| is_start(*phase)).map(|(place, _)| *place));
        if self.behind.len() < self.behind_max {
            return Ok(0);
        }
        let key = |place: usize| (place as u64).cast_signed() + 1;
        let mut entries: Vec<(&str, &str, i64, i64)> = Vec::new();
        for place in self.behind.drain(..) {
            let tags = &schedule.tags[place];
            entries.extend(tags.iter().map(|(name, value)| (*name, &**value, created[place], key(place))));
        }
        entries.sort_unstable();
        let mut insert = db.prepare_cached(
            "INSERT INTO tags (hub, name, value, created, instance) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?;
        for (name, value, created, instance) in &entries {
            insert.execute(params![self.hub, name, value, created, instance])?;
        }
        let newest = entries.iter().map(|entry| entry.3).max();
        db.prepare_cached("UPDATE meta SET tagged = ?1")?.execute([newest])?;
        Ok(entries.len() as u64 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::super::schedule::{CLAIM, START, TAKEN};
    use super::*;

    #[test]
    fn the_index_is_written_in_its_order_once_it_is_far_behind() {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE hubs (key INTEGER PRIMARY KEY); CREATE TABLE meta (tagged INTEGER); INSERT INTO meta VALUES (0);
             CREATE TABLE tags (hub INTEGER, name TEXT, value TEXT, created INTEGER, instance INTEGER)",
        )
        .unwrap();
        let count = 50;
        let tags = |place: usize| [("customer", (place % 3).to_string()), ("region", "north".to_owned())];
        let schedule =
            Schedule { ids: Vec::new(), tags: (0..count).map(tags).collect(), batches: Vec::new() };
        let created = vec![7; count];
        let mut index = IndexOfTags { behind_max: count, ..IndexOfTags::new(&db).unwrap() };
        let first: Vec<Step> =
            (0..count - 1).map(|place| (place, if place < 9 { START } else { TAKEN })).collect();
        assert_eq!(index.catch_up(&db, (&schedule, &created), &first).unwrap(), 0);
        // A step that is no start changes nothing.
        assert_eq!(index.catch_up(&db, (&schedule, &created), &[(count - 1, CLAIM)]).unwrap(), 0);
        let rows = index.catch_up(&db, (&schedule, &created), &[(count - 1, START)]).unwrap();
        assert_eq!(rows, 2 * count as u64 + 1);
        let number = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(number("SELECT tagged FROM meta"), 50);
        assert_eq!(number("SELECT count(*) FROM tags"), 100);
        let disorder = "SELECT count(*) FROM tags AS a JOIN tags AS b ON b.rowid = a.rowid + 1
            WHERE (a.name, a.value, a.created, a.instance) > (b.name, b.value, b.created, b.instance)";
        assert_eq!(number(disorder), 0);
        assert_eq!(
            number("SELECT CAST(value AS INTEGER) FROM tags WHERE name = 'customer' AND instance = 5"),
            1
        );
    }
}
