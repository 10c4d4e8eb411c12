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
                    self.dropped.insert(reason, count);
                }
                DumpItem::Session(session) => {
                    self.beside.sessions.load(session.id, session.host, session.expires_at);
                }
                DumpItem::Hub(hub) => self.hub = hub,
                DumpItem::RemovedStart(id, at) => {
                    let bounds = (self.beside.now, self.limits.removed_starts);
                    self.beside.starts.insert(id, at, bounds);
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
        self.take_out(&dump.id);
        let before = (0..).zip(dump.prologue).map(|(position, message)| (Place::before(position), message));
        let waiting = |(place, message)| Waiting { place, message: Arc::new(message) };
        let mut inbox = Inbox::of(before.map(waiting));
        for message in dump.inbox {
            let place = inbox.place_behind(&message, self.next_sequence());
            inbox.insert(waiting((place, message)));
        }
        let head = Head {
            record: dump.record,
            epoch: dump.epoch,
            holder: dump.holder,
            not_before: dump.not_before,
            last: None,
            remembers: !dump.memory.is_empty(),
        };
        // When it is ready follows from what waits. The dump of another store may count it otherwise.
        self.insert(Instance::stored(dump.id.clone(), head, None, Some(inbox)));
        if !dump.outbox.is_empty() {
            self.to_relay.insert(dump.id.clone());
        }
        let Some(stored) = self.instances.get_mut(&dump.id) else { return };
        (stored.history, stored.outbox) = (dump.history, dump.outbox);
        dump.memory.into_iter().for_each(|(id, at)| stored.applied.insert(id, at));
    }

    fn load_task(&mut self, dump: TaskDump) {
        let mut held = HeldTask::new(dump.task, dump.not_before);
        (held.epoch, held.holder) = (dump.epoch, dump.holder);
        (held.attempts, held.not_before) = (dump.attempts, dump.not_before);
        held.withdrawn = dump.withdrawn;
        self.put_task(held);
    }

    /// Gives every session what it holds, whichever of them was loaded first.
    fn join_sessions(&mut self) {
        let turns: Vec<_> = self.instances.keys().cloned().collect();
        for id in turns {
            let Some(stored) = self.instances.get_mut(&id) else { continue };
            if stored.instance.holder.is_some() {
                stored.indexed.holder = None;
                self.settle(&id);
            }
        }
        let tasks: Vec<_> = self.beside.tasks.keys().cloned().collect();
        for key in tasks {
            let Some(row) = self.beside.tasks.get_mut(&key) else { continue };
            if row.held.holder.is_some() {
                row.holder = None;
                self.settle_task(&key);
            }
        }
    }
}
