//! Putting dumped items into an empty hub, in any number of parts. The same part again changes nothing (rule 16).

use std::sync::Arc;

use dauer_store::{Cause, DumpItem, InstanceDump, Refused, TaskDump};

use super::Partition;
use crate::instance::{Head, HeldTask, Inbox, Instance, Place, Waiting};

impl Partition {
    /// Loads one part.
    ///
    /// # Errors
    /// If the hub is in use, or an item is damaged.
    pub fn load(&mut self, items: Vec<DumpItem>) -> Result<(), Refused> {
        if !self.pristine {
            return Err(Refused::NotExecuted(Cause::new("the hub is in use; load needs an empty one")));
        }
        items.iter().try_for_each(DumpItem::loadable)?;
        for item in items {
            match item {
                DumpItem::Now(now) => self.enter(now),
                DumpItem::Dropped(reason, count) => {
                    self.lists.dropped.insert(reason, count);
                }
                DumpItem::Session(session) => {
                    self.lists.beside.sessions.load(session);
                }
                DumpItem::Hub(hub) => self.lists.hub = hub,
                DumpItem::RemovedStart(id, at) => {
                    let bounds = (self.lists.beside.now, self.lists.limits.removed_starts);
                    self.lists.beside.starts.insert(id, at, bounds);
                }
                DumpItem::Instance(dump) => self.load_instance(*dump),
                DumpItem::Task(dump) => self.load_task(*dump),
                // Refused above.
                DumpItem::Damaged(..) => {}
            }
        }
        self.join_sessions();
        Ok(())
    }

    fn load_instance(&mut self, dump: InstanceDump) {
        let before = self.take_out(&dump.id).map(|stored| stored.tasks);
        let tasks = before.or_else(|| self.orphans.remove(&dump.id)).unwrap_or_default();
        let before = (0..).zip(dump.prologue).map(|(position, message)| (Place::before(position), message));
        let waiting = |(place, message)| Waiting { place, message: Arc::new(message) };
        let mut inbox = Inbox::of(before.map(waiting));
        for message in dump.inbox {
            let place = inbox.place_behind(&message, self.lists.next_sequence());
            inbox.insert(waiting((place, message)));
        }
        let head = Head {
            record: dump.record,
            epoch: dump.epoch,
            holder: dump.holder,
            trial: dump.trial,
            not_before: dump.not_before,
            last: None,
            remembers: !dump.memory.is_empty(),
        };
        if !dump.outbox.is_empty() {
            self.lists.to_relay.insert(dump.id.clone());
        }
        // When it is ready follows from what waits. The dump of another store may count it otherwise.
        let stored = self.insert(Instance::stored(dump.id, head, None, Some(inbox)), tasks);
        (stored.history, stored.outbox) = (dump.history, dump.outbox);
        dump.memory.into_iter().for_each(|(id, at)| stored.applied.insert(id, at));
    }

    fn load_task(&mut self, dump: TaskDump) {
        let mut held = HeldTask::new(dump.task, dump.not_before);
        (held.epoch, held.holder) = (dump.epoch, dump.holder);
        (held.attempts, held.not_before) = (dump.attempts, dump.not_before);
        (held.deaths, held.mark, held.trial) = (dump.deaths, dump.mark, dump.trial);
        held.withdrawn = dump.withdrawn;
        let id = held.task.instance.clone();
        self.change_tasks(&id, |lists, tasks| lists.put_task(tasks, held));
    }

    /// Gives every session what it holds, whichever of them was loaded first.
    fn join_sessions(&mut self) {
        let Self { instances, orphans, lists, .. } = self;
        for (id, stored) in instances.iter_mut() {
            if stored.instance.holder.is_some() {
                stored.indexed.holder = None;
                lists.settle(id, stored);
            }
        }
        let tasks = instances.values_mut().map(|stored| &mut stored.tasks);
        for row in tasks.chain(orphans.values_mut()).flat_map(|tasks| tasks.values_mut()) {
            if let Some((session, place)) = row.holder.take() {
                lists.beside.sessions.get_mut(session).map(|session| session.tasks.remove(&place));
            }
            lists.settle_task(row);
        }
    }
}
