//! Everything a hub holds, a part at a time: first what is small, then instances, then tasks, each by key.

use rusqlite::{OptionalExtension, params};

use dauer_store::{
    Cause, Dump, DumpItem, InstanceDump, InstanceId, Refused, SessionDump, SessionId, TaskDump,
};
use dauer_store_kit::codec::{instance_id, read_message, reason_of};
use dauer_store_kit::judge::PART_ITEMS;

use super::instance::Instance;
use super::task::HeldTask;
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
            let (id, host, expires_at) = (session.id, session.life.host, session.life.expires_at);
            DumpItem::Session(SessionDump { id, host, expires_at })
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
                Ok(task) => task.map(|task| self.dump_task(task)).transpose()?,
                Err(fail) => Some(self.damaged_task(*key, fail)?),
            });
        }
        dump.next = keys.last().filter(|_| keys.len() == PART_ITEMS).map(|last| format!("tasks/{last}"));
        Ok(dump)
    }

    /// An instance, if it is there, and the tasks that lie in its row.
    fn dump_one(&self, id: &InstanceId) -> Outcome<Vec<DumpItem>> {
        let Some(instance) = self.instance(id)? else { return Ok(Vec::new()) };
        let taken: Vec<HeldTask> = instance.taken().cloned().collect();
        let mut items = vec![DumpItem::Instance(Box::new(self.dump_instance(instance)?))];
        for task in taken {
            items.push(self.dump_task(task)?);
        }
        Ok(items)
    }

    /// A task that cannot be read. Where its instance is not there either, nobody can be named.
    fn damaged_task(&self, key: i64, fail: Fail) -> Outcome<DumpItem> {
        let sql = "SELECT i.id FROM tasks AS t JOIN instances AS i ON i.key = t.instance WHERE t.key = ?1";
        match self.db.query_row(sql, [key], |row| row.get::<_, String>(0)).optional()? {
            Some(id) => Ok(DumpItem::Damaged(instance_id(id)?, fail.damage()?)),
            None => Err(fail),
        }
    }

    fn dump_instance(&self, instance: Box<Instance>) -> Outcome<InstanceDump> {
        let key = instance.key;
        let mut outbox = Vec::new();
        let mut find = self
            .db
            .prepare_cached("SELECT body FROM outbox WHERE hub = ?1 AND instance = ?2 ORDER BY key")?;
        let mut rows = find.query(params![self.hub, key])?;
        while let Some(row) = rows.next()? {
            outbox.push(read_message(&row.get::<_, Vec<u8>>(0)?)?);
        }
        Ok(InstanceDump {
            holder: self.holder_id(instance.holder)?,
            history: self.slice(key, 0, usize::MAX)?.batches,
            prologue: self.waiting(&instance, true)?,
            inbox: self.waiting(&instance, false)?,
            outbox,
            memory: self.applied(key)?,
            id: instance.id,
            record: instance.record,
            epoch: instance.epoch,
            ready_at: instance.ready_at,
            not_before: instance.not_before,
        })
    }

    fn dump_task(&self, task: HeldTask) -> Outcome<DumpItem> {
        Ok(DumpItem::Task(Box::new(TaskDump {
            holder: self.holder_id(task.holder)?,
            task: task.task,
            epoch: task.epoch,
            attempts: task.attempts,
            not_before: task.not_before,
            withdrawn: task.withdrawn,
        })))
    }

    fn holder_id(&self, session: Option<i64>) -> Outcome<Option<SessionId>> {
        let Some(key) = session else { return Ok(None) };
        // A session that is not there, which must never be, is not hidden: an audit shall see it.
        Ok(Some(self.session_id(key)?.unwrap_or(SessionId(u128::from(unsigned(key))))))
    }
}
