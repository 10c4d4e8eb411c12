//! Finding instances. Pages continue behind the last key given, so that inserts neither repeat nor hide a row.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::time::Duration;

use rusqlite::{Rows, named_params};

use dauer_store::{Cursor, IdPage, InstanceId, Kind, List, Order, Page, Query, Status, Timestamp};
use dauer_store_kit::codec::{instance_id, kind_code, status_code};
use dauer_store_kit::judge::{matches, page_rows};

use super::View;
use super::stored::{Image, select_instances};
use crate::fail::Outcome;

type Key = (Timestamp, InstanceId);

/// All conditions but the tags, which are inside the record, and the time and id behind which a page begins. `:mask` has a bit
/// for every wanted status; what may have begun without its row knowing is looked at then. Of the wanted times only the end is left: the begin is in where the page begins.
macro_rules! conditions {
    ($created:literal, $end:literal) => {
        concat!(
            " AND ",
            $created,
            $end,
            " AND (q.kind = :entity) = :entities
              AND ((:mask >> i.status) & 1 OR i.status = :pending AND h.tail IS NOT NULL)
              AND (:name IS NULL OR q.name = :name)
              AND (:prefix IS NULL OR substr(i.id, 1, length(:prefix)) = :prefix)
              AND (NOT :stalled OR i.stalled)
              AND :tag IS :tag AND :value IS :value AND :from IS :from AND :to IS :to "
        )
    };
}

macro_rules! by_created {
    ($beyond:literal, $end:literal, $direction:literal) => {
        select_instances!(concat!(
            "WHERE i.hub = :hub AND (i.created, i.id) ",
            $beyond,
            " (:time, :id)",
            conditions!("i.created", $end),
            "ORDER BY i.created ",
            $direction,
            ", i.id ",
            $direction
        ))
    };
}

/// The same where a tag is asked for: its index leads the way.
macro_rules! by_tag {
    ($beyond:literal, $end:literal, $direction:literal) => {
        select_instances!(
            from "tags AS t CROSS JOIN",
            concat!(
                "WHERE t.hub = :hub AND t.name = :tag AND t.value = :value AND t.created ",
                $beyond,
                "= :time AND i.key = t.instance AND (t.created, i.id) ",
                $beyond,
                " (:time, :id)",
                conditions!("t.created", $end),
                "ORDER BY t.created ",
                $direction,
                ", i.id ",
                $direction
            )
        )
    };
}

/// The same for what the index of tags does not have yet. Their keys lead the way: the index by time of creation, which
/// the order would suggest, has everything.
macro_rules! behind_tags {
    ($beyond:literal, $end:literal, $direction:literal) => {
        select_instances!(concat!(
            "WHERE i.key > (SELECT tagged FROM meta) AND +i.hub = :hub AND (+i.created, i.id) ",
            $beyond,
            " (:time, :id)",
            conditions!("+i.created", $end),
            "ORDER BY +i.created ",
            $direction,
            ", +i.id ",
            $direction
        ))
    };
}

/// What answers the queries of one order.
struct Statements {
    by_created: &'static str,
    by_tag: &'static str,
    behind_tags: &'static str,
}

const OLDEST_FIRST: Statements = Statements {
    by_created: by_created!(">", " < :to", "ASC"),
    by_tag: by_tag!(">", " < :to", "ASC"),
    behind_tags: behind_tags!(">", " < :to", "ASC"),
};

const NEWEST_FIRST: Statements = Statements {
    by_created: by_created!("<", " >= :from", "DESC"),
    by_tag: by_tag!("<", " >= :from", "DESC"),
    behind_tags: behind_tags!("<", " >= :from", "DESC"),
};

const BY_COMPLETED: &str = "
    SELECT i.completed, i.id FROM instances AS i
    WHERE i.hub = :hub AND i.completed IS NOT NULL AND (i.completed, i.id) > (:time, :id)
        AND (:mask >> i.status) & 1
        AND i.completed >= :from AND i.completed < :to
    ORDER BY i.completed, i.id LIMIT :rows";

impl View<'_> {
    /// One page of instances, by time of creation and id, from either end.
    pub(crate) fn query(&self, query: &Query) -> Outcome<Page> {
        let rows = page_rows(query.page);
        let mut page = Page { records: Vec::new(), next: None, lag: Duration::ZERO };
        self.matching(query, |image| {
            if page.records.len() == rows {
                let last = page.records.last();
                page.next = last.map(|(id, record)| write_cursor(record.times.created, id, query.order));
                return Ok(false);
            }
            page.records.push((image.id, image.record));
            Ok(true)
        })?;
        Ok(page)
    }

    /// Gives every match behind the query's cursor to `each` until it has enough, in the query's order.
    pub(super) fn matching(
        &self,
        query: &Query,
        mut each: impl FnMut(Image) -> Outcome<bool>,
    ) -> Outcome<()> {
        let after = &begin(query)?;
        let (statements, sooner) = match query.order {
            Order::OldestFirst => (OLDEST_FIRST, Ordering::Less),
            Order::NewestFirst => (NEWEST_FIRST, Ordering::Greater),
        };
        if query.tags.is_empty() {
            return self.found_by(statements.by_created, query, after, each).map(|_| ());
        }
        let mut behind = VecDeque::new();
        self.found_by(statements.behind_tags, query, after, |image| {
            behind.push_back(image);
            Ok(true)
        })?;
        let key = |image: &Image| (image.record.times.created, image.id.clone());
        let mut goes_on = self.found_by(statements.by_tag, query, after, |image| {
            while behind.front().is_some_and(|it| key(it).cmp(&key(&image)) == sooner) {
                if let Some(first) = behind.pop_front()
                    && !each(first)?
                {
                    return Ok(false);
                }
            }
            each(image)
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
        mut each: impl FnMut(Image) -> Outcome<bool>,
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
            ":pending": status_code(Status::Pending),
            ":from": query.created_from.map_or(i64::MIN, |time| time.0),
            ":to": query.created_to.map_or(i64::MAX, |time| time.0),
            ":name": query.name.as_deref(),
            ":prefix": query.prefix.as_deref(),
            ":stalled": query.stalled,
            ":tag": tag.map(|(name, _)| name),
            ":value": tag.map(|(_, value)| value),
        })?;
        while let Some(row) = rows.next()? {
            let image = Image::read(row)?;
            if matches(query, &image.id, &image.record) && !each(image)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// One page of ended instances, by the time they ended and id.
    pub(crate) fn list(&self, list: &List) -> Outcome<IdPage> {
        let (time, id) = match list.after.as_deref() {
            Some(after) => key_of(Cursor::read(after, Order::OldestFirst)?),
            None => FIRST,
        };
        let rows = page_rows(list.page);
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
        let next = keys.last().filter(|_| more).map(|(time, id)| write_cursor(*time, id, Order::OldestFirst));
        Ok(IdPage { ids: keys.into_iter().map(|(_, id)| id).collect(), next })
    }
}

fn mask(statuses: &[Status]) -> i64 {
    if statuses.is_empty() {
        return i64::MAX;
    }
    statuses.iter().fold(0, |mask, status| mask | 1 << status_code(*status))
}

/// Before everything. No instance has an empty id.
const FIRST: (i64, String) = (i64::MIN, String::new());

fn key_of(Cursor { at, id }: Cursor) -> (i64, String) {
    (at.0, id.as_str().to_owned())
}

fn write_cursor(at: Timestamp, id: &InstanceId, order: Order) -> String {
    Cursor { at, id: id.clone() }.write(order)
}

/// Where a page begins: behind the cursor, and not before the times that are asked for, so that what lies before them is not
/// read.
fn begin(query: &Query) -> Outcome<(i64, String)> {
    let cursor =
        query.after.as_deref().map(|after| Cursor::read(after, query.order)).transpose()?.map(key_of);
    Ok(match query.order {
        Order::OldestFirst => {
            let from = (query.created_from.map_or(FIRST.0, |time| time.0), FIRST.1);
            cursor.unwrap_or(FIRST).max(from)
        }
        Order::NewestFirst => {
            let to = (query.created_to.map_or(i64::MAX, |time| time.0), FIRST.1);
            cursor.map_or(to.clone(), |cursor| cursor.min(to))
        }
    })
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
        // From the cursor to the last of the times that are asked for, and no further.
        let bounds = ["(created,id)>(?,?) AND created<?", "created>? AND (created,id)<(?,?)"];
        for (statements, bounds) in [OLDEST_FIRST, NEWEST_FIRST].into_iter().zip(bounds) {
            let created = plan(statements.by_created);
            let index = format!("SEARCH i USING INDEX instances_by_created (hub=? AND {bounds}");
            assert!(created.contains(&index) && !created.contains("TEMP B-TREE"), "{index}: {created}");
            let by_tag = plan(statements.by_tag);
            let index =
                "SEARCH t USING PRIMARY KEY (hub=? AND name=? AND value=? AND created>? AND created<?)";
            assert!(by_tag.contains(index), "{by_tag}");
            assert!(by_tag.contains("SEARCH i USING INTEGER PRIMARY KEY (rowid=?)"), "{by_tag}");
            // A page is read as it is asked for, not after all that have the tag.
            assert!(by_tag.contains("USE TEMP B-TREE FOR LAST TERM OF ORDER BY"), "{by_tag}");
            let behind = plan(statements.behind_tags);
            assert!(behind.contains("SEARCH i USING INTEGER PRIMARY KEY (rowid>?)"), "{behind}");
            // The last row of a history is found, not looked for.
            let last = "SEARCH history USING COVERING INDEX history_of_instance (instance=?)";
            let row = "SEARCH h USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN";
            let found = |plan: &&String| plan.contains(last) && plan.contains(row);
            assert!([&created, &by_tag, &behind].iter().all(found), "{created}");
            assert!([created, by_tag, behind].iter().all(|plan| !plan.contains("SCAN i")));
        }
    }
}
