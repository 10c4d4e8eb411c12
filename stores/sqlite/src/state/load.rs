//! Putting dumped items into an empty hub, in any number of parts. The same part again changes nothing.

use std::sync::Arc;

use rusqlite::params;

use dauer_store::{
    Cause, DumpItem, Hint, InstanceDump, Message, Refused, SessionDump, SessionId, TaskDump, Timestamp,
};
use dauer_store_kit::codec::{host_id, reason_code, write_message};
use dauer_store_kit::instance::{Dirty, Head, HeldTask, Inbox, Instance, Place, Waiting};

use super::inbox::sequence;
use super::stored::{Loaded, Stored};
use super::{ABSENT, Scope, signed};
use crate::fail::{Fail, Outcome};

/// The host of a session that holds something in a dump and is not in it.
const HOST_UNKNOWN: &str = "unknown";

impl Scope<'_, '_> {
    /// Loads one part. Instances come before their tasks, as in a dump.
    pub(crate) fn load(&mut self, items: &[DumpItem]) -> Outcome<()> {
        let mut pristine = self.view.db.prepare_cached("SELECT pristine FROM hubs WHERE key = ?1")?;
        if self.hub != ABSENT && !pristine.query_row([self.hub], |row| row.get::<_, bool>(0))? {
            return Err(refused("the hub is in use; load needs an empty one").into());
        }
        items.iter().try_for_each(DumpItem::loadable)?;
        self.make()?;
        // First the file's time, by which all else is judged.
        for item in items {
            if let DumpItem::Now(now) = item {
                self.view.now = self.view.now.max(*now);
                self.group.raised = self.view.now;
            }
        }
        for item in items {
            match item.clone() {
                DumpItem::Now(_) => {}
                DumpItem::Dropped(reason, count) => {
                    let hub = self.view.hub;
                    self.run(
                        "INSERT OR REPLACE INTO dropped VALUES (?1, ?2, ?3)",
                        params![hub, reason_code(reason), signed(count)],
                    )?;
                }
                DumpItem::Session(session) => {
                    self.load_session(&session)?;
                }
                DumpItem::Hub(hub) => self.load_hub(hub)?,
                DumpItem::RemovedStart(id, at) => {
                    self.put_removed_start(id, at)?;
                }
                DumpItem::Instance(dump) => self.load_instance(*dump)?,
                DumpItem::Task(dump) => self.load_task(*dump)?,
                // Refused above.
                DumpItem::Damaged(..) => {}
            }
        }
        self.store_hub()?;
        // Some came before the session that holds them.
        for session in self.sessions()? {
            self.settle_held(&session)?;
        }
        Ok(())
    }

    fn load_instance(&mut self, dump: InstanceDump) -> Outcome<()> {
        if let Some(old) = self.fetch(&dump.id)? {
            // An earlier load of the same part put it here; no session has seen it.
            self.erase_rows(&old.stored)?;
        }
        self.load_holder(dump.holder)?;
        let queue = self.queue_key(&dump.record.queue)?;
        let inbox = self.load_inbox(dump.prologue, dump.inbox)?;
        let head = Head {
            record: dump.record,
            epoch: dump.epoch,
            holder: dump.holder,
            trial: dump.trial,
            not_before: dump.not_before,
            last: None,
            remembers: !dump.memory.is_empty(),
        };
        // When it is ready follows from what waits. The dump of another store may count it otherwise.
        let instance = Instance::stored(dump.id, head, None, Some(inbox));
        let stored = Stored::new(&instance, queue, None);
        let mut loaded = Loaded { instance, stored };
        self.insert_instance(&mut loaded)?;
        let Loaded { instance, stored } = &mut loaded;
        self.hint(Hint::Status(instance.id().clone(), instance.record.status));
        for (place, message) in instance.inbox().into_iter().flat_map(|inbox| inbox.iter()) {
            self.add_message(stored.owner(), &Waiting { place: *place, message: Arc::clone(message) })?;
        }
        for (id, at) in dump.memory {
            self.remember(stored, id, at)?;
        }
        for batch in dump.history {
            self.load_batch(stored.key, &batch)?;
        }
        for message in &dump.outbox {
            let hub = self.view.hub;
            self.run(
                "INSERT INTO outbox (hub, instance, body) VALUES (?1, ?2, ?3)",
                params![hub, stored.key, write_message(message)],
            )?;
        }
        self.write_row(&mut loaded, Dirty::RECORD)
    }

    /// The messages of a dump in their places.
    fn load_inbox(&mut self, prologue: Vec<Message>, inbox: Vec<Message>) -> Outcome<Inbox> {
        let before = (0..).zip(prologue).map(|(position, message)| (Place::before(position), message));
        let waiting = |(place, message)| Waiting { place, message: Arc::new(message) };
        let mut loaded = Inbox::of(before.map(waiting));
        for message in inbox {
            let place = loaded.place_behind(&message, sequence(self.next_inbox_key()?));
            loaded.insert(waiting((place, message)));
        }
        Ok(loaded)
    }

    fn load_task(&mut self, dump: TaskDump) -> Outcome<()> {
        let Some(mut loaded) = self.fetch(&dump.task.instance)? else {
            let reason = format!("load the instance {:?} before its tasks", dump.task.instance);
            return Err(Fail::Broken(refused(reason)));
        };
        self.remove_task_of(&mut loaded, dump.task.id)?;
        self.write_row(&mut loaded, Dirty::default())?;
        self.load_holder(dump.holder)?;
        let TaskDump { task, epoch, holder, attempts, deaths, mark, trial, not_before, withdrawn } = dump;
        let new = HeldTask::new(task, not_before);
        let held = HeldTask { epoch, holder, attempts, deaths, mark, trial, not_before, withdrawn, ..new };
        self.add_task(loaded.stored.key, held).map(|_| ())
    }

    /// The session that holds something. When the dump does not have it, it has ended long ago.
    fn load_holder(&mut self, holder: Option<SessionId>) -> Outcome<()> {
        match holder {
            Some(id) if self.session(id)?.is_none() => {
                let (host, expires_at) = (host_id(HOST_UNKNOWN)?, Timestamp::default());
                self.load_session(&SessionDump { id, host, expires_at, runs_code: true })
            }
            _ => Ok(()),
        }
    }
}

fn refused(reason: impl Into<String>) -> Refused {
    Refused::NotExecuted(Cause::new(reason.into()))
}
