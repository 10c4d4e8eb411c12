//! Putting dumped items into an empty hub, in any number of parts. The same part again changes nothing.

use rusqlite::params;

use dauer_store::{Cause, DumpItem, InstanceDump, Refused, SessionId, TaskDump, Timestamp};
use dauer_store_kit::codec::{reason_code, write_message};
use dauer_store_kit::session::LEASE_UNKNOWN;

use super::instance::Instance;
use super::task::HeldTask;
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
                    let host = session.host.as_str();
                    self.load_session(session.id, host, (LEASE_UNKNOWN, session.expires_at))?;
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
            self.settle_held(session.key)?;
        }
        Ok(())
    }

    fn load_instance(&mut self, dump: InstanceDump) -> Outcome<()> {
        if let Some(old) = self.fetch(&dump.id)? {
            // An earlier load of the same part put it here; nobody has seen it.
            self.run("DELETE FROM tasks WHERE instance = ?1", [old.key])?;
            self.erase_rows(&old)?;
        }
        let holder = self.load_holder(dump.holder)?;
        let queue = self.queue_key(&dump.record.queue)?;
        let mut instance = Instance::new(dump.id, dump.record, (queue, dump.epoch));
        self.insert_instance(&mut instance)?;
        instance.holder = holder;
        instance.not_before = dump.not_before;
        for stored in dump.history {
            self.load_batch(instance.key, &stored)?;
        }
        self.renew_prologue(&mut instance, &dump.prologue)?;
        for message in dump.inbox {
            self.append_message(&mut instance, message)?;
        }
        for (id, at) in dump.memory {
            self.remember(&mut instance, id, at)?;
        }
        for message in &dump.outbox {
            let hub = self.view.hub;
            self.run(
                "INSERT INTO outbox (hub, instance, body) VALUES (?1, ?2, ?3)",
                params![hub, instance.key, write_message(message)],
            )?;
        }
        // Found again rather than believed: it follows from what waits, and other stores may count it otherwise.
        self.refresh(&mut instance)?;
        self.store_all(&mut instance)
    }

    fn load_batch(&mut self, instance: i64, stored: &dauer_store::StoredBatch) -> Outcome<()> {
        let host = self.host_key(&stored.owner)?;
        self.run(
            "INSERT INTO history (instance, first, revision, epoch, host, at, count, trail, events)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                instance,
                stored.first,
                signed(stored.revision.0),
                signed(stored.epoch.0),
                host,
                stored.at.0,
                stored.batch.count,
                dauer_store_kit::codec::write_trail(&stored.batch.consumed, &stored.batch.produced),
                &**stored.batch.events.stored(),
            ],
        )?;
        Ok(())
    }

    fn load_task(&mut self, dump: TaskDump) -> Outcome<()> {
        let Some(mut instance) = self.fetch(&dump.task.instance)? else {
            let reason = format!("load the instance {:?} before its tasks", dump.task.instance);
            return Err(Fail::Broken(refused(reason)));
        };
        self.remove_task_of(&mut instance, dump.task.id)?;
        let holder = self.load_holder(dump.holder)?;
        let mut held = HeldTask::new(dump.task, dump.not_before);
        held.epoch = dump.epoch;
        held.holder = holder;
        held.attempts = dump.attempts;
        held.not_before = dump.not_before;
        held.withdrawn = dump.withdrawn;
        self.add_task(&mut instance, &mut held).map(|_| ())
    }

    /// The session that holds something. When the dump does not have it, it has ended long ago.
    fn load_holder(&mut self, holder: Option<SessionId>) -> Outcome<Option<i64>> {
        let Some(id) = holder else { return Ok(None) };
        match self.session(id)? {
            Some(session) => Ok(Some(session.key)),
            None => {
                let over = (LEASE_UNKNOWN, Timestamp::default());
                self.load_session(id, HOST_UNKNOWN, over).map(Some)
            }
        }
    }
}

fn refused(reason: impl Into<String>) -> Refused {
    Refused::NotExecuted(Cause::new(reason.into()))
}
