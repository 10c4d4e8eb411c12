//! Everything a hub holds, a part at a time: first what is small, then instances, then tasks, each by key.

use rusqlite::params;

use dauer_store::{Cause, Dump, DumpItem, InstanceDump, Refused, SessionDump, SessionId, TaskDump};

use super::instance::Instance;
use super::task::HeldTask;
use super::{View, unsigned};
use crate::fail::{Fail, Outcome};
use crate::wire::{instance_id, read_message, reason_of};

/// Instances or tasks of one part.
const PART_ITEMS: usize = 100;

impl View<'_> {
    /// One part of everything. Parts of a hub that changes meanwhile are each right for their own time.
    pub(crate) fn dump(&self, after: Option<&str>) -> Outcome<Dump> {
        let unknown = |text: &str| {
            let reason =
                format!("{text:?} is no cursor of this store; give `next` of the last part, or nothing");
            Refused::NotExecuted(Cause::new(reason))
        };
        match after.map(|text| text.split_once('/').ok_or_else(|| unknown(text))).transpose()? {
            None => {
                let mut dump = self.dump_instances("")?;
                dump.items.splice(0..0, self.dump_small()?);
                Ok(dump)
            }
            Some(("instances", id)) => self.dump_instances(id),
            Some(("tasks", key)) => self.dump_tasks(key.parse().map_err(|_| unknown(key))?),
            Some((other, _)) => Err(unknown(other).into()),
        }
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
            let (id, host, expires_at) = (session.id, session.host, session.expires_at);
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
            if let Some(instance) = self.instance(&instance_id(id.as_str())?)? {
                let taken: Vec<HeldTask> = instance.taken().cloned().collect();
                let instance = self.dump_instance(instance).map_err(|fail| fail.in_instance(id))?;
                dump.items.push(DumpItem::Instance(Box::new(instance)));
                for task in taken {
                    dump.items.push(DumpItem::Task(Box::new(self.dump_task(task)?)));
                }
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
            if let Some(task) = self.task_at(*key).map_err(|fail| self.of_task(fail, *key))? {
                dump.items.push(DumpItem::Task(Box::new(self.dump_task(task)?)));
            }
        }
        dump.next = keys.last().filter(|_| keys.len() == PART_ITEMS).map(|last| format!("tasks/{last}"));
        Ok(dump)
    }

    /// A task that cannot be read, with the instance that it is of.
    fn of_task(&self, fail: Fail, key: i64) -> Fail {
        let sql = "SELECT i.id FROM tasks AS t JOIN instances AS i ON i.key = t.instance WHERE t.key = ?1";
        let id = self.db.query_row(sql, [key], |row| row.get::<_, String>(0));
        id.map_or_else(Fail::from, |id| fail.in_instance(&id))
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
            holder: self.holder_id(instance.holder.map(|held| held.session))?,
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

    fn dump_task(&self, task: HeldTask) -> Outcome<TaskDump> {
        Ok(TaskDump {
            holder: self.holder_id(task.holder)?,
            task: task.task,
            epoch: task.epoch,
            attempts: task.attempts,
            not_before: task.not_before,
            withdrawn: task.withdrawn,
        })
    }

    fn holder_id(&self, session: Option<i64>) -> Outcome<Option<SessionId>> {
        let Some(key) = session else { return Ok(None) };
        // A session that is not there, which must never be, is not hidden: an audit shall see it.
        Ok(Some(self.session_id(key)?.unwrap_or(SessionId(u128::from(unsigned(key))))))
    }
}
