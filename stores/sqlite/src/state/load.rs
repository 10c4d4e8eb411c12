//! Putting dumped items into an empty hub, in any number of parts. The same part again changes nothing.

use std::time::Duration;

use rusqlite::params;

use dauer_store::{Cause, DumpItem, InstanceDump, Refused, SessionId, TaskDump, Timestamp};

use super::instance::{Grip, Held};
use super::task::HeldTask;
use super::{Scope, signed};
use crate::fail::{Fail, Outcome};
use crate::wire::{reason_code, write_message};

/// The lease of a loaded session until its host attaches again and names its own: a dump has only its end.
const LEASE_UNKNOWN: Duration = Duration::from_secs(30);

/// The host of a session that holds something in a dump and is not in it.
const HOST_UNKNOWN: &str = "unknown";

impl Scope<'_> {
    /// Loads one part. Instances come before their tasks, as in a dump.
    pub(crate) fn load(&mut self, items: Vec<DumpItem>) -> Outcome<()> {
        let mut pristine = self.db.prepare_cached("SELECT pristine FROM hubs WHERE key = ?1")?;
        if !pristine.query_row([self.hub], |row| row.get::<_, bool>(0))? {
            return Err(refused("the hub is in use; load needs an empty one").into());
        }
        // First the file's time, by which all else is judged.
        for item in &items {
            if let DumpItem::Now(now) = item {
                self.view.now = self.view.now.max(*now);
                self.db
                    .prepare_cached("UPDATE meta SET latest = max(latest, ?1)")?
                    .execute([self.view.now.0])?;
            }
        }
        for item in items {
            match item {
                DumpItem::Now(_) => {}
                DumpItem::Dropped(reason, count) => {
                    self.db
                        .prepare_cached("INSERT OR REPLACE INTO dropped VALUES (?1, ?2, ?3)")?
                        .execute(params![self.hub, reason_code(reason), signed(count)])?;
                }
                DumpItem::Session(session) => {
                    let host = session.host.as_str();
                    self.load_session(session.id, host, (LEASE_UNKNOWN, session.expires_at))?;
                }
                DumpItem::Instance(dump) => self.load_instance(*dump)?,
                DumpItem::Task(dump) => self.load_task(*dump)?,
            }
        }
        // Some came before the session that holds them.
        for session in self.sessions()? {
            self.settle_held(session.key)?;
        }
        Ok(())
    }

    fn load_instance(&mut self, dump: InstanceDump) -> Outcome<()> {
        if let Some(old) = self.instance(&dump.id)? {
            self.unload(old.key)?;
        }
        let holder = self.load_holder(dump.holder)?;
        let mut instance = self.insert_instance(&dump.id, dump.record, dump.epoch)?;
        instance.holder = holder.map(|session| Held { session, grip: Grip::Claimed });
        instance.not_before = dump.not_before;
        for stored in &dump.history {
            self.load_batch(instance.key, stored)?;
        }
        self.renew_prologue(instance.key, &dump.prologue)?;
        for message in &dump.inbox {
            self.append_message(instance.key, message)?;
        }
        for (id, at) in dump.memory {
            self.remember(&mut instance, id, at)?;
        }
        for message in &dump.outbox {
            self.db
                .prepare_cached("INSERT INTO outbox (hub, instance, body) VALUES (?1, ?2, ?3)")?
                .execute(params![self.hub, instance.key, write_message(message)])?;
        }
        // Found again rather than believed: it follows from what waits, and other stores may count it otherwise.
        self.refresh(&mut instance)?;
        self.store_all(&mut instance)
    }

    /// Removes what an earlier load of the same part put here; nobody has seen it.
    fn unload(&mut self, key: i64) -> Outcome<()> {
        for sql in [
            "DELETE FROM inbox WHERE instance = ?1",
            "DELETE FROM history WHERE instance = ?1",
            "DELETE FROM applied WHERE instance = ?1",
            "DELETE FROM outbox WHERE instance = ?1",
            "DELETE FROM tasks WHERE instance = ?1",
            "DELETE FROM instances WHERE key = ?1",
        ] {
            self.db.prepare_cached(sql)?.execute([key])?;
        }
        Ok(())
    }

    fn load_batch(&self, instance: i64, stored: &dauer_store::StoredBatch) -> Outcome<()> {
        let mut add = self.db.prepare_cached(
            "INSERT INTO history (instance, first, revision, epoch, owner, at, count, trail, events)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        add.execute(params![
            instance,
            stored.first,
            signed(stored.revision.0),
            signed(stored.epoch.0),
            stored.owner.as_str(),
            stored.at.0,
            stored.batch.count,
            crate::wire::write_trail(&stored.batch.consumed, &stored.batch.produced),
            &**stored.batch.events.stored(),
        ])?;
        Ok(())
    }

    fn load_task(&mut self, dump: TaskDump) -> Outcome<()> {
        let Some(instance) = self.instance(&dump.task.instance)? else {
            let reason = format!("load the instance {:?} before its tasks", dump.task.instance);
            return Err(Fail::Broken(refused(reason)));
        };
        self.remove_task_of(instance.key, dump.task.id)?;
        let holder = self.load_holder(dump.holder)?;
        let mut held = HeldTask::new(dump.task, dump.not_before);
        held.epoch = dump.epoch;
        held.holder = holder;
        held.attempts = dump.attempts;
        held.not_before = dump.not_before;
        held.withdrawn = dump.withdrawn;
        self.add_task(instance.key, &mut held)
    }

    /// The session that holds something. When the dump does not have it, it has ended long ago.
    fn load_holder(&self, holder: Option<SessionId>) -> Outcome<Option<i64>> {
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
