//! Everything a hub holds, a part at a time: first sessions and counts, then instances by id, then tasks by key.

use std::sync::Arc;

use rusqlite::{OptionalExtension, params};

use dauer_store::{Cause, Dump, DumpItem, InstanceDump, InstanceId, Message, Refused, SessionDump, TaskDump};
use dauer_store_kit::codec::{instance_id, read_message, reason_of};
use dauer_store_kit::instance::{HeldTask, Place};
use dauer_store_kit::judge::PART_ITEMS;
use dauer_store_kit::session::Life;

use super::stored::Loaded;
use super::{View, unsigned};
use crate::fail::{Fail, Outcome};

impl View<'_> {
    /// One part of everything. Parts of a hub that changes meanwhile are each right for their own time. The values of the hub
    /// are in the last part: an instance that is removed between two parts is then in the dump, or its start is.
    pub(crate) fn dump(&self, after: Option<&str>) -> Outcome<Dump> {
        let unknown = |text: &str| {
            let reason =
                format!("{text:?} is no cursor of this store; give `next` of the last part, or nothing");
            Refused::NotExecuted(Cause::new(reason))
        };
        let mut dump =
            match after.map(|text| text.split_once('/').ok_or_else(|| unknown(text))).transpose()? {
                None => {
                    let mut dump = self.dump_instances("")?;
                    dump.items.splice(0..0, self.dump_small()?);
                    dump
                }
                Some(("instances", id)) => self.dump_instances(id)?,
                Some(("tasks", key)) => self.dump_tasks(key.parse().map_err(|_| unknown(key))?)?,
                Some((other, _)) => return Err(unknown(other).into()),
            };
        if dump.next.is_none() {
            dump.items.push(DumpItem::Hub(self.read_hub()?.dump));
            let starts = self.removed_starts()?;
            dump.items.extend(starts.into_iter().map(|(id, at)| DumpItem::RemovedStart(id, at)));
        }
        Ok(dump)
    }

    fn dump_small(&self) -> Outcome<Vec<DumpItem>> {
        let mut items = vec![DumpItem::Now(self.now)];
        let mut find =
            self.db.prepare_cached("SELECT reason, count FROM dropped WHERE hub = ?1 ORDER BY reason")?;
        let mut rows = find.query([self.hub])?;
        while let Some(row) = rows.next()? {
            items.push(DumpItem::Dropped(reason_of(row.get(0)?)?, unsigned(row.get(1)?)));
        }
        items.extend(self.sessions()?.into_iter().map(|session| {
            let Life { host, expires_at, runs_code, .. } = session.life;
            DumpItem::Session(SessionDump { id: session.id, host, expires_at, runs_code })
        }));
        Ok(items)
    }

    fn dump_instances(&self, after: &str) -> Outcome<Dump> {
        let mut find = self
            .db
            .prepare_cached("SELECT id FROM instances WHERE hub = ?1 AND id > ?2 ORDER BY id LIMIT ?3")?;
        let rows = find.query_map(params![self.hub, after, PART_ITEMS as i64], |row| row.get(0))?;
        let ids: Vec<String> = rows.collect::<rusqlite::Result<_>>()?;
        let mut dump = Dump::default();
        for id in &ids {
            let id = instance_id(id.as_str())?;
            match self.dump_one(&id) {
                Ok(items) => dump.items.extend(items),
                Err(fail) => dump.items.push(DumpItem::Damaged(id, fail.damage()?)),
            }
        }
        dump.next = Some(match ids.last() {
            Some(last) if ids.len() == PART_ITEMS => format!("instances/{last}"),
            _ => "tasks/0".to_owned(),
        });
        Ok(dump)
    }

    fn dump_tasks(&self, after: i64) -> Outcome<Dump> {
        let mut find = self
            .db
            .prepare_cached("SELECT key FROM tasks WHERE hub = ?1 AND key > ?2 ORDER BY key LIMIT ?3")?;
        let rows = find.query_map(params![self.hub, after, PART_ITEMS as i64], |row| row.get(0))?;
        let keys: Vec<i64> = rows.collect::<rusqlite::Result<_>>()?;
        let mut dump = Dump::default();
        for key in &keys {
            dump.items.extend(match self.task_at(*key) {
                Ok(row) => row.map(|row| dump_task(row.held)),
                Err(fail) => Some(self.damaged_task(*key, fail)?),
            });
        }
        dump.next = keys.last().filter(|_| keys.len() == PART_ITEMS).map(|last| format!("tasks/{last}"));
        Ok(dump)
    }

    /// An instance, if it is there, and the tasks that lie in its row.
    fn dump_one(&self, id: &InstanceId) -> Outcome<Vec<DumpItem>> {
        let Some(loaded) = self.instance(id)? else { return Ok(Vec::new()) };
        let instance = self.dump_instance(&loaded)?;
        let taken = loaded.stored.tasks.taken().cloned().map(dump_task);
        Ok([DumpItem::Instance(Box::new(instance))].into_iter().chain(taken).collect())
    }

    /// A task that cannot be read. Without its instance, the task cannot be named.
    fn damaged_task(&self, key: i64, fail: Fail) -> Outcome<DumpItem> {
        let sql = "SELECT i.id FROM tasks AS t JOIN instances AS i ON i.key = t.instance WHERE t.key = ?1";
        match self.db.query_row(sql, [key], |row| row.get::<_, String>(0)).optional()? {
            Some(id) => Ok(DumpItem::Damaged(instance_id(id)?, fail.damage()?)),
            None => Err(fail),
        }
    }

    fn dump_instance(&self, loaded: &Loaded) -> Outcome<InstanceDump> {
        let Loaded { instance, stored } = loaded;
        let key = stored.key;
        let mut outbox = Vec::new();
        let mut find = self
            .db
            .prepare_cached("SELECT body FROM outbox WHERE hub = ?1 AND instance = ?2 ORDER BY key")?;
        let mut rows = find.query(params![self.hub, key])?;
        while let Some(row) = rows.next()? {
            outbox.push(read_message(row.get_ref(0)?.as_blob().unwrap_or_default())?);
        }
        let read = match instance.inbox() {
            Some(_) => None,
            None => Some(self.whole_inbox(key)?),
        };
        let waiting = instance.inbox().or(read.as_ref()).into_iter().flat_map(|inbox| inbox.iter());
        let (inbox, prologue): (Vec<_>, Vec<_>) = waiting.partition(|(place, _)| place.follows);
        let messages = |waiting: Vec<(&Place, &Arc<Message>)>| -> Vec<Message> {
            waiting.into_iter().map(|(_, message)| Message::clone(message)).collect()
        };
        // Looks go by the column. Where a start lies in the row, the instance has a time found from its inbox instead.
        let ready_at = if stored.start.is_some() { stored.row.ready_at } else { instance.ready_at() };
        Ok(InstanceDump {
            id: instance.id().clone(),
            record: instance.record.clone(),
            epoch: instance.epoch,
            holder: instance.holder,
            trial: instance.trial,
            ready_at,
            not_before: instance.not_before,
            history: self.slice(key, 0, usize::MAX)?.batches,
            prologue: messages(prologue),
            inbox: messages(inbox),
            outbox,
            memory: self.applied(key)?,
        })
    }
}

fn dump_task(held: HeldTask) -> DumpItem {
    let HeldTask { task, epoch, holder, attempts, deaths, mark, trial, not_before, withdrawn, .. } = held;
    let dump = TaskDump { task, epoch, holder, attempts, deaths, mark, trial, not_before, withdrawn };
    DumpItem::Task(Box::new(dump))
}
