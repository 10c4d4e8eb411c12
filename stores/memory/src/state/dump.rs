//! Everything a hub holds, a part at a time: first what is small, then instances, then tasks, each by key.

use std::ops::Bound::{Excluded, Unbounded};

use dauer_store::{
    Cause, Dump, DumpItem, InstanceDump, InstanceId, MessageId, Refused, SessionDump, TaskDump,
};
use dauer_store_kit::judge::PART_ITEMS;
use dauer_store_kit::session::Life;

use super::State;
use super::instance::Instance;
use super::task::{HeldTask, TaskKey};
use crate::defect::Defect;

/// Where a part ended.
enum Cursor {
    /// With that instance; `None` before the first.
    Instance(Option<InstanceId>),
    /// With that task; `None` before the first.
    Task(Option<TaskKey>),
}

impl State {
    /// One part of everything. Parts of a hub that changes meanwhile are each right for their own time. The values of the hub
    /// are in the last part: an instance that is removed between two parts is then in the dump, or its start is.
    pub(crate) fn dump(&self, after: Option<&str>) -> Result<Dump, Refused> {
        let mut dump = match after.map(read_cursor).transpose()? {
            None => {
                let mut dump = self.dump_instances(None);
                dump.items.splice(0..0, self.dump_small());
                dump
            }
            Some(Cursor::Instance(after)) => self.dump_instances(after.as_ref()),
            Some(Cursor::Task(after)) => self.dump_tasks(after.as_ref()),
        };
        if dump.next.is_none() {
            dump.items.push(DumpItem::Hub(self.hub_dump()));
            let forgets = self.broken(Defect::DumpForgetsRemovedStarts);
            let starts = self.removed_starts.iter().filter(|_| !forgets);
            dump.items.extend(starts.map(|(id, at)| DumpItem::RemovedStart(id, at)));
        }
        Ok(dump)
    }

    fn dump_small(&self) -> Vec<DumpItem> {
        let mut items = vec![DumpItem::Now(self.now())];
        items.extend(self.dropped.iter().map(|(reason, count)| DumpItem::Dropped(*reason, *count)));
        items.extend(self.sessions.iter().map(|(id, session)| {
            let Life { host, expires_at, .. } = session.life.clone();
            DumpItem::Session(SessionDump { id: *id, host, expires_at })
        }));
        items
    }

    fn dump_instances(&self, after: Option<&InstanceId>) -> Dump {
        let mut found = self.instances.range((after.map_or(Unbounded, Excluded), Unbounded));
        let mut last = None;
        let mut items = Vec::new();
        for (id, instance) in found.by_ref().take(PART_ITEMS) {
            items.push(DumpItem::Instance(Box::new(self.dump_instance(id, instance))));
            last = Some(id.clone());
        }
        let next = if found.next().is_some() {
            Some(Cursor::Instance(last))
        } else {
            (!self.tasks.is_empty()).then_some(Cursor::Task(None))
        };
        Dump { items, next: next.map(|cursor| write_cursor(&cursor)) }
    }

    fn dump_tasks(&self, after: Option<&TaskKey>) -> Dump {
        let mut found = self.tasks.range((after.map_or(Unbounded, Excluded), Unbounded));
        let mut last = None;
        let mut items = Vec::new();
        for (key, task) in found.by_ref().take(PART_ITEMS) {
            items.push(DumpItem::Task(Box::new(dump_task(task))));
            last = Some(key.clone());
        }
        let next = found.next().map(|_| write_cursor(&Cursor::Task(last)));
        Dump { items, next }
    }

    fn dump_instance(&self, id: &InstanceId, instance: &Instance) -> InstanceDump {
        let forgets = self.broken(Defect::DumpForgetsMemory);
        InstanceDump {
            id: id.clone(),
            record: instance.record.clone(),
            epoch: instance.epoch,
            holder: instance.holder.map(|held| held.session),
            ready_at: instance.ready_at,
            not_before: instance.not_before,
            history: instance.history.clone(),
            prologue: instance.prologue.clone(),
            inbox: instance.inbox.iter().cloned().collect(),
            outbox: instance.outbox.clone(),
            memory: instance.applied.iter().filter(|_| !forgets).collect(),
        }
    }
}

fn dump_task(task: &HeldTask) -> TaskDump {
    TaskDump {
        task: task.task.clone(),
        epoch: task.epoch,
        holder: task.holder.map(|held| held.session),
        attempts: task.attempts,
        not_before: task.not_before,
        withdrawn: task.withdrawn,
    }
}

fn write_cursor(cursor: &Cursor) -> String {
    match cursor {
        Cursor::Instance(None) => "instances".into(),
        Cursor::Instance(Some(id)) => format!("instances/{id}"),
        Cursor::Task(None) => "tasks".into(),
        Cursor::Task(Some((instance, task))) => format!("tasks/{task}/{instance}"),
    }
}

fn read_cursor(text: &str) -> Result<Cursor, Refused> {
    let parse = || match text.split_once('/') {
        None if text == "instances" => Some(Cursor::Instance(None)),
        None if text == "tasks" => Some(Cursor::Task(None)),
        Some(("instances", id)) => Some(Cursor::Instance(Some(InstanceId::new(id).ok()?))),
        Some(("tasks", key)) => {
            let (task, instance) = key.split_once('/')?;
            let task = u128::from_str_radix(task, 16).ok()?;
            Some(Cursor::Task(Some((InstanceId::new(instance).ok()?, MessageId(task.to_be_bytes())))))
        }
        _ => None,
    };
    parse().ok_or_else(|| {
        let reason = format!("{text:?} is no cursor of this store; give `next` of the last part, or nothing");
        Refused::NotExecuted(Cause::new(reason))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_as_it_was_written() {
        for text in ["instances", "instances/a/b", "tasks", "tasks/00000000000000000000000000000007/a/b"]
            .iter()
            .copied()
        {
            let cursor = read_cursor(text).unwrap();
            assert_eq!(write_cursor(&cursor), text);
        }
    }

    #[test]
    fn what_is_no_cursor_is_refused_by_name() {
        for text in ["", "x", "instance", "instances/", "tasks/", "tasks/7", "tasks/x/a", "sessions/a"] {
            match read_cursor(text) {
                Err(Refused::NotExecuted(cause)) => {
                    assert!(cause.to_string().contains(&format!("{text:?}")), "{cause}");
                }
                other => panic!("{text:?} was read: {:?}", other.map(|cursor| write_cursor(&cursor))),
            }
        }
    }
}
