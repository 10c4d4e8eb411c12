//! Finding instances. A page goes on behind the last key, so that what is added meanwhile neither repeats nor hides a row.

use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use dauer_store::{Cursor, IdPage, InstanceId, List, Order, Page, Query, Refused, Timestamp};

use super::Partition;
use crate::judge;

/// Where an instance stands: a time, then its id.
type Key = (Timestamp, InstanceId);

fn read_cursor(text: Option<&str>, order: Order) -> Result<Option<Key>, Refused> {
    text.map(|text| Cursor::read(text, order).map(|Cursor { at, id }| (at, id))).transpose()
}

fn write_cursor((at, id): &Key, order: Order) -> String {
    Cursor { at: *at, id: id.clone() }.write(order)
}

impl Partition {
    /// One page of instances, by time of creation and id, from either end.
    ///
    /// # Errors
    /// [`Refused::Cursor`].
    pub fn query(&self, query: &Query) -> Result<Page, Refused> {
        let order = query.order;
        let after = read_cursor(query.after.as_deref(), order)?;
        let rows = judge::page_rows(query.page);
        let begin = after.as_ref().map_or(Unbounded, Excluded);
        let keys: Box<dyn Iterator<Item = &Key>> = match order {
            Order::NewestFirst => Box::new(self.lists.by_created.range((Unbounded, begin)).rev()),
            Order::OldestFirst => Box::new(self.lists.by_created.range((begin, Unbounded))),
        };
        let found = keys.filter_map(|key| Some((key, &self.instances.get(&key.1)?.instance)));
        let mut found = found.filter(|((_, id), instance)| judge::matches(query, id, &instance.record));
        let mut page = Page { records: Vec::new(), next: None, lag: Duration::ZERO };
        let mut last = None;
        for (key, instance) in found.by_ref().take(rows) {
            page.records.push((key.1.clone(), instance.record.clone()));
            last = Some(key);
        }
        page.next = found.next().and(last).map(|last| write_cursor(last, order));
        Ok(page)
    }

    /// One page of ended instances, by the time they ended and id.
    ///
    /// # Errors
    /// [`Refused::Cursor`].
    pub fn list(&self, list: &List) -> Result<IdPage, Refused> {
        let after = read_cursor(list.after.as_deref(), Order::OldestFirst)?;
        let rows = judge::page_rows(list.page);
        let begin = after.as_ref().map_or(Unbounded, Excluded);
        let mut found = self.lists.by_completed.range((begin, Unbounded)).filter(|(completed, id)| {
            let status = self.instances.get(id).map(|stored| stored.instance.record.status);
            status.is_some_and(|status| list.statuses.is_empty() || list.statuses.contains(&status))
                && list.completed_from.is_none_or(|from| *completed >= from)
                && list.completed_to.is_none_or(|to| *completed < to)
        });
        let keys: Vec<&Key> = found.by_ref().take(rows).collect();
        let next = found.next().and(keys.last()).map(|last| write_cursor(last, Order::OldestFirst));
        Ok(IdPage { ids: keys.into_iter().map(|(_, id)| id.clone()).collect(), next })
    }
}
