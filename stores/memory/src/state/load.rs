//! Putting dumped items into an empty hub, in any number of parts. The same part again changes nothing.

use dauer_store::{Cause, DumpItem, InstanceDump, InstanceId, Refused, SessionId, TaskDump};
use dauer_store_kit::session::Life;

use super::instance::Instance;
use super::sessions::Session;
use super::task::{HeldTask, TaskKey};
use super::{Held, State};

impl State {
    /// Loads one part.
    pub(crate) fn load(&mut self, items: Vec<DumpItem>) -> Result<(), Refused> {
        if !self.pristine {
            return Err(Refused::NotExecuted(Cause::new("the hub is in use; load needs an empty one")));
        }
        items.iter().try_for_each(DumpItem::loadable)?;
        for item in items {
            match item {
                DumpItem::Now(now) => self.moment.now = self.moment.now.max(now),
                DumpItem::Dropped(reason, count) => {
                    self.dropped.insert(reason, count);
                }
                DumpItem::Session(session) => {
                    let life = Life::loaded(session.host, session.expires_at);
                    self.sessions.insert(session.id, Session::new(life));
                }
                DumpItem::Hub(hub) => self.hub = hub,
                DumpItem::RemovedStart(id, at) => {
                    let (now, most) = (self.now(), self.limits.removed_starts);
                    self.removed_starts.insert(id, at, now, most);
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
        self.remove_instance(&dump.id);
        let mut instance = Instance::new(dump.record, dump.epoch);
        instance.holder = dump.holder.map(handed_out);
        instance.last_holder = dump.holder;
        instance.not_before = dump.not_before;
        for stored in dump.history {
            instance.push_history(stored);
        }
        instance.prologue = dump.prologue;
        for message in dump.inbox {
            let sequence = self.next_sequence();
            instance.inbox.push(message, sequence);
        }
        for (id, at) in dump.memory {
            instance.applied.insert(id, at);
        }
        if !dump.outbox.is_empty() {
            self.to_relay.insert(dump.id.clone());
        }
        instance.outbox = dump.outbox;
        // Found again rather than believed: it follows from what waits, and other stores may count it otherwise.
        instance.refresh(self.moment);
        self.insert_instance(dump.id, instance);
    }

    fn load_task(&mut self, dump: TaskDump) {
        let key = (dump.task.instance.clone(), dump.task.id);
        self.remove_task(&key);
        let mut task = HeldTask::new(dump.task, dump.not_before);
        task.epoch = dump.epoch;
        task.holder = dump.holder.map(handed_out);
        task.last_holder = dump.holder;
        task.attempts = dump.attempts;
        task.not_before = dump.not_before;
        task.withdrawn = dump.withdrawn;
        self.tasks.insert(key.clone(), task);
        self.reindex_task(&key);
    }

    /// Tells every session what it holds, whichever of them was loaded first.
    fn join_sessions(&mut self) {
        let turns = self.instances.iter().filter_map(|(id, i)| Some((i.holder?.session, id.clone())));
        let turns: Vec<(SessionId, InstanceId)> = turns.collect();
        let tasks = self.tasks.iter().filter_map(|(key, task)| Some((task.holder?.session, key.clone())));
        let tasks: Vec<(SessionId, TaskKey)> = tasks.collect();
        for (session, id) in turns {
            if let Some(session) = self.sessions.get_mut(&session) {
                session.turns.insert(id);
            }
        }
        for (session, key) in tasks {
            if let Some(session) = self.sessions.get_mut(&session) {
                session.tasks.insert(key);
            }
        }
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for session in sessions {
            self.reindex_held(session);
        }
    }
}

fn handed_out(session: SessionId) -> Held {
    Held::by(session)
}
