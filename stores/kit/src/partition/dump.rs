//! All that a hub contains, a part at a time: first what is small, then instances, then tasks, each by key (rule 16).

use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use dauer_store::{
    Cause, Dump, DumpItem, InstanceDump, InstanceId, Message, MessageId, Refused, SessionDump, TaskDump,
};

use super::{Partition, Stored, TaskKey, TaskRow};
use crate::instance::{HeldTask, Place};
use crate::judge::PART_ITEMS;
use crate::session::Life;

/// Where a part ended.
enum Cursor {
    /// With that instance; none before the first.
    Instance(Option<InstanceId>),
    /// With that task; none before the first.
    Task(Option<TaskKey>),
}

impl Partition {
    /// One part. Parts of a hub that changes meanwhile are each right for their own time. The values of the hub are in the last
    /// part: an instance that is removed between two parts is then in the dump, or its start is.
    ///
    /// # Errors
    /// [`Refused::NotExecuted`] if `after` is no cursor.
    pub fn dump(&self, after: Option<&str>) -> Result<Dump, Refused> {
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
            dump.items.push(DumpItem::Hub(self.lists.hub));
            dump.items.extend(self.lists.beside.starts.iter().map(|(id, at)| DumpItem::RemovedStart(id, at)));
        }
        Ok(dump)
    }

    fn dump_small(&self) -> Vec<DumpItem> {
        let mut items = vec![DumpItem::Now(self.lists.beside.now)];
        items.extend(self.lists.dropped.iter().map(|(reason, count)| DumpItem::Dropped(*reason, *count)));
        items.extend(self.lists.beside.sessions.iter().map(|(id, session)| {
            let Life { host, expires_at, runs_code, .. } = session.life.clone();
            DumpItem::Session(SessionDump { id, host, expires_at, runs_code })
        }));
        items
    }

    fn dump_instances(&self, after: Option<&InstanceId>) -> Dump {
        let mut found = self.instances.range((after.map_or(Unbounded, Excluded), Unbounded));
        let mut last = None;
        let mut items = Vec::new();
        for (id, stored) in found.by_ref().take(PART_ITEMS) {
            items.push(DumpItem::Instance(Box::new(dump_instance(id, stored))));
            last = Some(id.clone());
        }
        let next = if found.next().is_some() {
            Some(Cursor::Instance(last))
        } else {
            self.tasks_from(None).next().map(|_| Cursor::Task(None))
        };
        Dump { items, next: next.map(|cursor| write_cursor(&cursor)) }
    }

    fn dump_tasks(&self, after: Option<&TaskKey>) -> Dump {
        let mut found = self.tasks_from(after.map(|(instance, _)| instance)).filter(|row| {
            after.is_none_or(|(instance, task)| row.held.task.instance != *instance || row.held.id() > *task)
        });
        let mut last = None;
        let mut items = Vec::new();
        for row in found.by_ref().take(PART_ITEMS) {
            items.push(DumpItem::Task(Box::new(dump_task(&row.held))));
            last = Some((row.held.task.instance.clone(), row.held.id()));
        }
        let next = found.next().map(|_| write_cursor(&Cursor::Task(last)));
        Dump { items, next }
    }

    /// All tasks by key, from those of that instance on.
    fn tasks_from(&self, first: Option<&InstanceId>) -> impl Iterator<Item = &TaskRow> {
        let keys = (first.map_or(Unbounded, Included), Unbounded);
        let mut present =
            self.instances.range::<InstanceId, _>(keys).map(|(id, stored)| (id, &stored.tasks)).peekable();
        let mut orphans = self.orphans.range::<InstanceId, _>(keys).peekable();
        let by_instance = std::iter::from_fn(move || match (present.peek(), orphans.peek()) {
            (Some((id, _)), Some((other, _))) if other < id => orphans.next(),
            (None, _) => orphans.next(),
            _ => present.next(),
        });
        by_instance.flat_map(|(_, tasks)| tasks.iter()).map(|(_, row)| &**row)
    }
}

fn dump_instance(id: &InstanceId, stored: &Stored) -> InstanceDump {
    let instance = &stored.instance;
    let waiting = instance.inbox().into_iter().flat_map(|inbox| inbox.iter());
    let (inbox, prologue): (Vec<_>, Vec<_>) = waiting.partition(|(place, _)| place.follows);
    let messages = |waiting: Vec<(&Place, &Arc<Message>)>| -> Vec<Message> {
        waiting.into_iter().map(|(_, message)| Message::clone(message)).collect()
    };
    InstanceDump {
        id: id.clone(),
        record: instance.record.clone(),
        epoch: instance.epoch,
        holder: instance.holder,
        trial: instance.trial,
        ready_at: instance.ready_at(),
        not_before: instance.not_before,
        history: stored.history.clone(),
        prologue: messages(prologue),
        inbox: messages(inbox),
        outbox: stored.outbox.clone(),
        memory: stored.applied.iter().collect(),
    }
}

fn dump_task(held: &HeldTask) -> TaskDump {
    TaskDump {
        task: held.task.clone(),
        epoch: held.epoch,
        holder: held.holder,
        attempts: held.attempts,
        deaths: held.deaths,
        mark: held.mark,
        trial: held.trial,
        not_before: held.not_before,
        withdrawn: held.withdrawn,
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
    fn cursor_is_read_as_it_was_written() {
        for text in ["instances", "instances/a/b", "tasks", "tasks/00000000000000000000000000000007/a/b"] {
            let cursor = read_cursor(text).unwrap();
            assert_eq!(write_cursor(&cursor), text);
        }
    }

    #[test]
    fn other_text_is_refused_by_name() {
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
