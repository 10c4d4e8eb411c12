//! Finding instances. Pages continue behind the last key given, so that inserts neither repeat nor hide a row.

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::time::Duration;

use dauer_store::{Cursor, IdPage, InstanceId, List, Order, Page, Query, Record, Refused, Timestamp};
use dauer_store_kit::judge;

use super::State;
use crate::defect::Defect;

/// Where an instance stands: a time, then its id.
type Key = (Timestamp, InstanceId);

fn read_cursor(text: &str, order: Order) -> Result<Key, Refused> {
    Cursor::read(text, order).map(|Cursor { at, id }| (at, id))
}

fn write_cursor((at, id): &Key, order: Order) -> String {
    Cursor { at: *at, id: id.clone() }.write(order)
}

impl State {
    /// One page of instances, by time of creation and id, from either end.
    pub(crate) fn query(&self, query: &Query) -> Result<Page, Refused> {
        let order = query.order;
        let after = query.after.as_deref().map(|after| read_cursor(after, order)).transpose()?;
        let rows = judge::page_rows(query.page);
        let begin = match &after {
            None => Unbounded,
            Some(key) if self.broken(Defect::QueryRepeatsRow) && order == Order::OldestFirst => Included(key),
            Some(key) => Excluded(key),
        };
        let ignored = self.broken(Defect::OrderIgnored);
        let keys: Box<dyn Iterator<Item = &Key>> = match order {
            Order::NewestFirst if !ignored => Box::new(self.by_created.range((Unbounded, begin)).rev()),
            Order::OldestFirst | Order::NewestFirst => Box::new(self.by_created.range((begin, Unbounded))),
        };
        let found = keys.filter_map(|key| Some((key, self.instances.get(&key.1)?)));
        let mut found = found.filter(|((_, id), instance)| self.matches(query, id, &instance.record));
        let mut page = Page { records: Vec::new(), next: None, lag: Duration::ZERO };
        let mut last = None;
        for (key, instance) in found.by_ref().take(rows) {
            page.records.push((key.1.clone(), instance.record.clone()));
            last = Some(key);
        }
        page.next = found.next().and(last).map(|last| write_cursor(last, order));
        Ok(page)
    }

    /// Whether an instance fulfils all conditions of a query.
    pub(super) fn matches(&self, query: &Query, id: &InstanceId, record: &Record) -> bool {
        if self.broken(Defect::QueryFilterIgnored) {
            let any = Query { entities: query.entities, ..Query::default() };
            return judge::matches(&any, id, record);
        }
        judge::matches(query, id, record)
    }

    /// One page of ended instances, by the time they ended and id.
    pub(crate) fn list(&self, list: &List) -> Result<IdPage, Refused> {
        let after = list.after.as_deref().map(|after| read_cursor(after, Order::OldestFirst)).transpose()?;
        let rows = judge::page_rows(list.page);
        let everyone;
        let keys = if self.broken(Defect::ListIncludesLiving) {
            everyone = self.instances.iter().map(|(id, i)| (i.record.times.updated, id.clone())).collect();
            &everyone
        } else {
            &self.by_completed
        };
        let begin = after.as_ref().map_or(Unbounded, Excluded);
        let mut found = keys.range((begin, Unbounded)).filter(|(completed, id)| {
            let status = self.instances.get(id).map(|instance| instance.record.status);
            status.is_some_and(|status| list.statuses.is_empty() || list.statuses.contains(&status))
                && list.completed_from.is_none_or(|from| *completed >= from)
                && list.completed_to.is_none_or(|to| *completed < to)
        });
        let keys: Vec<&Key> = found.by_ref().take(rows).collect();
        let next = found.next().and(keys.last()).map(|last| write_cursor(last, Order::OldestFirst));
        Ok(IdPage { ids: keys.into_iter().map(|(_, id)| id.clone()).collect(), next })
    }
}
