//! Finding instances. Pages continue behind the last key given, so that inserts neither repeat nor hide a row.

use std::collections::VecDeque;
use std::time::Duration;

use rusqlite::{Rows, named_params};

use dauer_store::{Cursor, IdPage, InstanceId, Kind, List, Page, Query, Status, Timestamp};

use super::View;
use super::instance::{Instance, select_instances};
use crate::fail::Outcome;
use crate::wire::{instance_id, kind_code, status_code};

/// Rows of a page when the caller names no number: one screen of a dashboard, twice over.
const PAGE_ROWS: usize = 100;

type Key = (Timestamp, InstanceId);

/// All conditions but the tags, which are inside the record. `:mask` has a bit for every wanted status.
const BY_CREATED: &str = select_instances!(
    "WHERE i.hub = :hub AND (i.created, i.id) > (:time, :id)
        AND (q.kind = :entity) = :entities
        AND (:mask >> i.status) & 1
        AND i.created >= :from AND i.created < :to
        AND (:name IS NULL OR q.name = :name)
        AND (:prefix IS NULL OR substr(i.id, 1, length(:prefix)) = :prefix)
        AND (NOT :stalled OR i.stalled)
        AND :tag IS :tag AND :value IS :value
    ORDER BY i.created, i.id"
);

/// The same where a tag is asked for: its index leads the way.
const BY_TAG: &str = select_instances!(
    from "tags AS t CROSS JOIN",
    "WHERE t.hub = :hub AND t.name = :tag AND t.value = :value AND t.created >= :time AND i.key = t.instance
        AND (t.created, i.id) > (:time, :id)
        AND (q.kind = :entity) = :entities
        AND (:mask >> i.status) & 1
        AND t.created >= :from AND t.created < :to
        AND (:name IS NULL OR q.name = :name)
        AND (:prefix IS NULL OR substr(i.id, 1, length(:prefix)) = :prefix)
        AND (NOT :stalled OR i.stalled)
    ORDER BY t.created, i.id"
);

/// The same for what the index of tags does not have yet. Their keys lead the way: the index by time of creation, which
/// the order would suggest, has everything.
const BEHIND_TAGS: &str = select_instances!(
    "WHERE i.key > (SELECT tagged FROM meta) AND +i.hub = :hub AND (+i.created, i.id) > (:time, :id)
        AND (q.kind = :entity) = :entities
        AND (:mask >> i.status) & 1
        AND +i.created >= :from AND +i.created < :to
        AND (:name IS NULL OR q.name = :name)
        AND (:prefix IS NULL OR substr(i.id, 1, length(:prefix)) = :prefix)
        AND (NOT :stalled OR i.stalled)
        AND :tag IS :tag AND :value IS :value
    ORDER BY +i.created, +i.id"
);

const BY_COMPLETED: &str = "
    SELECT i.completed, i.id FROM instances AS i
    WHERE i.hub = :hub AND i.completed IS NOT NULL AND (i.completed, i.id) > (:time, :id)
        AND (:mask >> i.status) & 1
        AND i.completed >= :from AND i.completed < :to
    ORDER BY i.completed, i.id LIMIT :rows";

impl View<'_> {
    /// One page of instances, by time of creation and id.
    pub(crate) fn query(&self, query: &Query) -> Outcome<Page> {
        let after = read_cursor(query.after.as_deref())?;
        let rows = if query.page == 0 { PAGE_ROWS } else { query.page };
        let mut page = Page { records: Vec::new(), next: None, lag: Duration::ZERO };
        self.matching(query, &after, |instance| {
            if page.records.len() == rows {
                page.next = page.records.last().map(|(id, record)| write_cursor(record.times.created, id));
                return Ok(false);
            }
            page.records.push((instance.id, instance.record));
            Ok(true)
        })?;
        Ok(page)
    }

    /// Gives every match behind that key to `each` until it has enough, by time of creation and id.
    pub(super) fn matching(
        &self,
        query: &Query,
        after: &(i64, String),
        mut each: impl FnMut(Instance) -> Outcome<bool>,
    ) -> Outcome<()> {
        if query.tags.is_empty() {
            return self.found_by(BY_CREATED, query, after, each).map(|_| ());
        }
        let mut behind = VecDeque::new();
        self.found_by(BEHIND_TAGS, query, after, |instance| {
            behind.push_back(instance);
            Ok(true)
        })?;
        let key = |instance: &Instance| (instance.record.times.created, instance.id.clone());
        let mut goes_on = self.found_by(BY_TAG, query, after, |instance| {
            while behind.front().is_some_and(|first| key(first) < key(&instance)) {
                if let Some(first) = behind.pop_front()
                    && !each(first)?
                {
                    return Ok(false);
                }
            }
            each(instance)
        })?;
        while goes_on && let Some(first) = behind.pop_front() {
            goes_on = each(first)?;
        }
        Ok(())
    }

    /// What one of the statements above finds; whether there was room for all of it.
    fn found_by(
        &self,
        sql: &str,
        query: &Query,
        (time, id): &(i64, String),
        mut each: impl FnMut(Instance) -> Outcome<bool>,
    ) -> Outcome<bool> {
        let tag = query.tags.first_key_value();
        let mut find = self.db.prepare_cached(sql)?;
        let mut rows: Rows<'_> = find.query(named_params! {
            ":hub": self.hub,
            ":time": time,
            ":id": id,
            ":entity": kind_code(Kind::Entity),
            ":entities": query.entities,
            ":mask": mask(&query.statuses),
            ":from": query.created_from.map_or(i64::MIN, |time| time.0),
            ":to": query.created_to.map_or(i64::MAX, |time| time.0),
            ":name": query.name.as_deref(),
            ":prefix": query.prefix.as_deref(),
            ":stalled": query.stalled,
            ":tag": tag.map(|(name, _)| name),
            ":value": tag.map(|(_, value)| value),
        })?;
        while let Some(row) = rows.next()? {
            let instance = Instance::read(row)?;
            let tags = &instance.record.tags;
            let tagged = query.tags.iter().all(|(key, value)| tags.get(key) == Some(value));
            if tagged && !each(instance)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One page of ended instances, by the time they ended and id.
    pub(crate) fn list(&self, list: &List) -> Outcome<IdPage> {
        let (time, id) = read_cursor(list.after.as_deref())?;
        let rows = if list.page == 0 { PAGE_ROWS } else { list.page };
        let mut find = self.db.prepare_cached(BY_COMPLETED)?;
        let mut found = find.query(named_params! {
            ":hub": self.hub,
            ":time": time,
            ":id": id,
            ":mask": mask(&list.statuses),
            ":from": list.completed_from.map_or(i64::MIN, |time| time.0),
            ":to": list.completed_to.map_or(i64::MAX, |time| time.0),
            // One more than the page, to know whether there is a next one.
            ":rows": super::signed(rows as u64).saturating_add(1),
        })?;
        let mut keys: Vec<Key> = Vec::new();
        let mut more = false;
        while let Some(row) = found.next()? {
            more = keys.len() == rows;
            if !more {
                keys.push((Timestamp(row.get(0)?), instance_id(row.get::<_, String>(1)?)?));
            }
        }
        let next = keys.last().filter(|_| more).map(|(time, id)| write_cursor(*time, id));
        Ok(IdPage { ids: keys.into_iter().map(|(_, id)| id).collect(), next })
    }
}

fn mask(statuses: &[Status]) -> i64 {
    if statuses.is_empty() {
        return i64::MAX;
    }
    statuses.iter().fold(0, |mask, status| mask | 1 << status_code(*status))
}

fn write_cursor(at: Timestamp, id: &InstanceId) -> String {
    Cursor { at, id: id.clone() }.write()
}

/// Where a page begins: before everything without a cursor.
pub(super) fn read_cursor(cursor: Option<&str>) -> Outcome<(i64, String)> {
    let Some(cursor) = cursor else { return Ok((i64::MIN, String::new())) };
    let Cursor { at, id } = Cursor::read(cursor)?;
    Ok((at.0, id.as_str().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What SQLite says that it does for a query.
    fn plan(sql: &str) -> String {
        let db = rusqlite::Connection::open_in_memory().unwrap();
        db.execute_batch(crate::schema::TABLES).unwrap();
        let mut explain = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        let mut rows = explain.raw_query();
        let mut plan = String::new();
        while let Some(row) = rows.next().unwrap() {
            plan += &row.get::<_, String>(3).unwrap();
            plan += "\n";
        }
        plan
    }

    #[test]
    fn a_query_reads_what_it_finds_and_what_the_index_of_tags_lacks() {
        let created = plan(BY_CREATED);
        assert!(created.contains("SEARCH i USING INDEX instances_by_created"), "{created}");
        let by_tag = plan(BY_TAG);
        assert!(by_tag.contains("SEARCH t USING PRIMARY KEY (hub=? AND name=? AND value=?"), "{by_tag}");
        assert!(by_tag.contains("SEARCH i USING INTEGER PRIMARY KEY (rowid=?)"), "{by_tag}");
        // A page is read as it is asked for, not after all that have the tag.
        assert!(by_tag.contains("USE TEMP B-TREE FOR LAST TERM OF ORDER BY"), "{by_tag}");
        let behind = plan(BEHIND_TAGS);
        assert!(behind.contains("SEARCH i USING INTEGER PRIMARY KEY (rowid>?)"), "{behind}");
        assert!([created, by_tag, behind].iter().all(|plan| !plan.contains("SCAN i")));
    }
}
