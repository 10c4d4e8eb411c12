//! Reads that change nothing (13, 22, 23).

use std::time::Duration;

use dauer_store::{
    Cursor, ExecutionId, Fence, INSPECTED_MAX, IdPage, Inspection, InstanceId, Kind, List, Message, OpenTask,
    Order, Page, Query, Record, Refused, Scale, SessionId, Slice, StoredBatch, Timestamp, Waiting,
    WaitingClass,
};

use super::State;
use super::inbox::{Instance, opens};
use crate::mistake::Mistake as M;

/// Rows of a page when none are named.
const PAGE_ROWS: usize = 100;

/// One row of a page: its place in the order.
type Row = (Timestamp, InstanceId);

fn fits(query: &Query, id: &InstanceId, record: &Record) -> bool {
    let created = record.times.created;
    let conditions = [
        query.entities == (record.queue.kind == Kind::Entity),
        query.statuses.is_empty() || query.statuses.contains(&record.status),
        query.created_from.is_none_or(|from| created >= from),
        query.created_to.is_none_or(|to| created < to),
        query.name.as_ref().is_none_or(|name| *name == record.queue.name),
        query.prefix.as_ref().is_none_or(|prefix| id.as_str().starts_with(&**prefix)),
        query.tags.iter().all(|(key, value)| record.tags.get(key) == Some(value)),
        !query.stalled || record.trouble.is_some(),
    ];
    conditions.iter().all(|holds| *holds)
}

/// The rows behind a cursor, as many as asked for, and the cursor of the next page.
fn page(
    rows: Vec<Row>,
    after: Option<Row>,
    (asked, order, repeats): (usize, Order, bool),
) -> (Vec<Row>, Option<String>) {
    let most = if asked == 0 { PAGE_ROWS } else { asked };
    let behind = |row: &Row| {
        let after = after.as_ref();
        match order {
            Order::OldestFirst if repeats => after.is_none_or(|after| row >= after),
            Order::OldestFirst => after.is_none_or(|after| row > after),
            Order::NewestFirst => after.is_none_or(|after| row < after),
        }
    };
    let mut rows: Vec<Row> = rows.into_iter().filter(behind).collect();
    let more = rows.len() > most;
    rows.truncate(most);
    let last = rows.last().filter(|_| more);
    let next = last.map(|(at, id)| Cursor { at: *at, id: id.clone() }.write(order));
    (rows, next)
}

fn read_cursor(after: Option<&String>, order: Order) -> Result<Option<Row>, Refused> {
    let cursor = after.map(|after| Cursor::read(after, order)).transpose()?;
    Ok(cursor.map(|Cursor { at, id }| (at, id)))
}

impl State {
    /// The instances that a query is about, the oldest first.
    pub(super) fn found(&self, query: &Query) -> Vec<Row> {
        let any = Query { entities: query.entities, ..Query::default() };
        let query = if self.makes(M::QueryFilterIgnored) { &any } else { query };
        let found = self.instances.iter().filter(|(id, instance)| fits(query, id, &instance.record));
        let mut rows: Vec<Row> =
            found.map(|(id, instance)| (instance.record.times.created, id.clone())).collect();
        rows.sort();
        rows
    }

    /// One page of instances.
    pub(crate) fn query(&self, query: &Query) -> Result<Page, Refused> {
        let after = read_cursor(query.after.as_ref(), query.order)?;
        let mut rows = self.found(query);
        if query.order == Order::NewestFirst && !self.makes(M::OrderIgnored) {
            rows.reverse();
        }
        let (rows, next) = page(rows, after, (query.page, query.order, self.makes(M::QueryRepeatsRow)));
        let records = rows.into_iter().filter_map(|(_, id)| {
            let record = self.instances.get(&id)?.record.clone();
            Some((id, record))
        });
        Ok(Page { records: records.collect(), next, lag: Duration::ZERO })
    }

    /// One page of ended instances.
    pub(crate) fn list(&self, list: &List) -> Result<IdPage, Refused> {
        let after = read_cursor(list.after.as_ref(), Order::OldestFirst)?;
        let living = self.makes(M::ListIncludesLiving);
        let ended = self.instances.iter().filter_map(|(id, instance)| {
            let (status, times) = (instance.record.status, &instance.record.times);
            let at = times.completed.or_else(|| living.then_some(times.updated))?;
            let wanted = (list.statuses.is_empty() || list.statuses.contains(&status))
                && list.completed_from.is_none_or(|from| at >= from)
                && list.completed_to.is_none_or(|to| at < to);
            wanted.then(|| (at, id.clone()))
        });
        let mut rows: Vec<Row> = ended.collect();
        rows.sort();
        let (rows, next) = page(rows, after, (list.page, Order::OldestFirst, false));
        Ok(IdPage { ids: rows.into_iter().map(|(_, id)| id).collect(), next })
    }

    /// Reads the history of a held instance.
    pub(crate) fn load_history(
        &self,
        session: SessionId,
        fence: &Fence,
        range: (u32, usize),
    ) -> Result<Slice, Refused> {
        let instance = self.held(session, &fence.instance, fence.epoch)?;
        let current = instance.fence(&fence.instance) == *fence;
        if current { Ok(self.slice(&instance.history, range)) } else { Err(Refused::Fenced) }
    }

    /// Reads a history, if the run is current.
    pub(crate) fn read_history(
        &self,
        id: &InstanceId,
        execution: Option<ExecutionId>,
        range: (u32, usize),
    ) -> Slice {
        let instance = self.instances.get(id);
        let current = instance.filter(|i| execution.is_none_or(|run| run == i.record.execution));
        current.map(|instance| self.slice(&instance.history, range)).unwrap_or_default()
    }

    /// Whole batches from the one with event `from`, about `max_bytes`, at least one.
    fn slice(&self, history: &[StoredBatch], (from, max_bytes): (u32, usize)) -> Slice {
        let from = from.saturating_add(u32::from(self.makes(M::HistoryOffByOne)));
        let holds = |stored: &&StoredBatch| stored.first >= from || stored.first + stored.batch.count > from;
        let (mut slice, mut bytes) = (Slice::default(), 0_usize);
        for stored in history.iter().skip_while(|stored| !holds(stored)) {
            bytes = bytes.saturating_add(stored.batch.events.len());
            // A slice that ended where it began would be read for ever.
            if bytes > max_bytes && !slice.batches.is_empty() && stored.first > from {
                slice.next = Some(stored.first);
                break;
            }
            slice.batches.push(stored.clone());
        }
        slice
    }

    /// The start or rewind that an instance begins with next.
    pub(crate) fn read_start(&self, id: &InstanceId) -> Option<Message> {
        let instance = self.instances.get(id)?;
        let record = &instance.record;
        let begins = |message: &&Message| {
            let hidden = self.makes(M::StartHiddenUntilDue) && message.visible_at > self.now();
            let own = |run: ExecutionId| record.status.is_ended() || run == record.execution;
            opens(message).is_some_and(|start| own(start.execution)) && !hidden
        };
        let awaits = record.history_len == 0 || record.status.is_ended();
        instance.waiting().find(begins).filter(|_| awaits).cloned()
    }

    /// How much work there is.
    pub(crate) fn scale(&mut self) -> Scale {
        self.relay();
        self.sweep();
        let mut scale = Scale::default();
        for instance in self.instances.values() {
            let (kind, offered) = (instance.record.queue.kind, instance.next_run().0.kind);
            let ready_at = instance.ready_at(self.moment).map(|at| at.max(instance.not_before));
            self.scale_one(&mut scale, (kind, offered), instance.holder, ready_at);
        }
        for task in self.tasks.values() {
            let ready_at = (!task.withdrawn).then(|| task.ready_at.max(task.not_before));
            self.scale_one(&mut scale, (Kind::Activity, Kind::Activity), task.holder, ready_at);
        }
        scale
    }

    fn scale_one(
        &self,
        scale: &mut Scale,
        (kind, offered): (Kind, Kind),
        holder: Option<SessionId>,
        ready_at: Option<Timestamp>,
    ) {
        let due = |at: Timestamp| at <= self.now() || self.makes(M::ScaleCountsSleeping);
        if holder.is_some_and(|holder| self.lives(holder)) {
            *scale.held.entry(kind).or_default() += 1;
        } else if ready_at.is_some_and(due) {
            *scale.ready.entry(offered).or_default() += 1;
        }
    }

    /// One instance from outside.
    pub(crate) fn inspect(&self, id: &InstanceId) -> Option<Inspection> {
        let instance = self.instances.get(id)?;
        let messages = self.inspected(instance);
        let most = if self.makes(M::InspectUnbounded) { usize::MAX } else { INSPECTED_MAX };
        let waiting = messages.len() as u64;
        let hidden = self.makes(M::InspectHidesHeldTasks);
        let tasks =
            self.tasks.iter().filter(|(key, task)| key.0 == *id && !(hidden && task.holder.is_some()));
        let tasks: Vec<OpenTask> = tasks
            .map(|(_, open)| OpenTask {
                id: open.task.id,
                event_id: open.task.event_id,
                queue: open.task.queue.clone(),
                holder: open.holder.map(|holder| self.holder(holder)),
                attempts: open.attempts,
                deaths: open.deaths,
                mark: open.mark,
                not_before: open.not_before,
                withdrawn: open.withdrawn,
            })
            .collect();
        Some(Inspection {
            now: self.shown(),
            holder: instance.holder.map(|holder| self.holder(holder)),
            ready_at: instance.ready_at(self.moment).map(|at| at.max(instance.not_before)),
            waiting,
            messages: messages.into_iter().take(most).collect(),
            open: tasks.len() as u64,
            tasks: tasks.into_iter().take(INSPECTED_MAX).collect(),
        })
    }

    /// Starts, rewinds and control first, then the rest.
    fn inspected(&self, instance: &Instance) -> Vec<Waiting> {
        let skipped = if self.makes(M::InspectHidesPrologue) { instance.prologue.len() } else { 0 };
        let all = instance.waiting().skip(skipped).map(|message| Waiting {
            id: message.id,
            class: WaitingClass::from(&message.class),
            visible_at: message.visible_at,
        });
        let (first, rest): (Vec<_>, Vec<_>) =
            all.partition(|waiting| waiting.class != WaitingClass::Ordinary);
        first.into_iter().chain(rest).collect()
    }
}
