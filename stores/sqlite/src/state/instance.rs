//! The row of one instance: read as a value, changed, and written back.

use rusqlite::{OptionalExtension, Row, params};

use dauer_store::{Checkpoint, Epoch, Fence, Hint, Hold, InstanceId, Item, Record, Revision, Timestamp};

use super::{Scope, View, signed, unsigned};
use crate::fail::Outcome;
use crate::wire::{LastCommit, digest, instance_id, read_record, status_code, write_item, write_record};

/// How firmly a session holds an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Grip {
    /// By a claim.
    Claimed,
    /// Kept by a commit, with nothing to do.
    Idle,
    /// Kept by a commit, which answered with what had arrived.
    Kept,
}

/// Who holds an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) session: i64,
    pub(super) grip: Grip,
}

/// An instance without its history and its messages.
#[derive(Debug, Clone)]
pub(super) struct Instance {
    pub(super) key: i64,
    pub(super) id: InstanceId,
    pub(super) record: Record,
    pub(super) epoch: Epoch,
    pub(super) holder: Option<Held>,
    /// The earliest time of a waiting, admitted message.
    pub(super) ready_at: Option<Timestamp>,
    pub(super) not_before: Timestamp,
    /// How many ids of applied messages are stored.
    pub(super) remembered: i64,
    pub(super) last: Option<LastCommit>,
    /// From when a claim may take it, and under which queue.
    pub(super) place: Option<Timestamp>,
    pub(super) offered: i64,
}

/// The order of the columns is that of [`Instance::read`].
const BY_ID: &str = "SELECT key, id, epoch, holder, grip, ready_at, not_before, remembered, last, record,
    place, offered FROM instances WHERE hub = ?1 AND id = ?2";
const BY_KEY: &str = "SELECT key, id, epoch, holder, grip, ready_at, not_before, remembered, last, record,
    place, offered FROM instances WHERE key = ?1";

impl Instance {
    fn read(row: &Row<'_>) -> Outcome<Self> {
        let id: String = row.get(1)?;
        let grip: i64 = row.get(4)?;
        let holder: Option<i64> = row.get(3)?;
        let last: Option<Vec<u8>> = row.get(8)?;
        let grip = match grip {
            2 => Grip::Idle,
            3 => Grip::Kept,
            _ => Grip::Claimed,
        };
        Ok(Self {
            key: row.get(0)?,
            id: instance_id(id)?,
            epoch: Epoch(unsigned(row.get(2)?)),
            holder: holder.map(|session| Held { session, grip }),
            ready_at: row.get::<_, Option<i64>>(5)?.map(Timestamp),
            not_before: Timestamp(row.get(6)?),
            remembered: row.get(7)?,
            last: last.map(|last| LastCommit::read(&last)).transpose()?,
            record: read_record(&row.get::<_, Vec<u8>>(9)?)?,
            place: row.get::<_, Option<i64>>(10)?.map(Timestamp),
            offered: row.get(11)?,
        })
    }

    pub(super) fn fence(&self) -> Fence {
        Fence {
            instance: self.id.clone(),
            execution: self.record.execution,
            revision: self.record.revision,
            epoch: self.epoch,
        }
    }

    pub(super) fn is_held_by(&self, session: i64) -> bool {
        self.holder.is_some_and(|held| held.session == session)
    }

    pub(super) fn is_over(&self) -> bool {
        self.record.hold == Hold::Ended
    }

    /// Whether that commit did happen as the last one.
    pub(super) fn repeats(&self, checkpoint: &Checkpoint, by: Option<i64>) -> bool {
        let Some(last) = &self.last else { return false };
        let fence = &checkpoint.fence;
        self.record.revision == Revision(fence.revision.0.saturating_add(1))
            && last.revision == fence.revision
            && last.execution == fence.execution
            && last.epoch == fence.epoch
            && last.by == by
            && last.amendment.is_none_or(|amendment| amendment == digest(checkpoint))
    }
}

impl View<'_> {
    /// An instance by its id.
    pub(super) fn instance(&self, id: &InstanceId) -> Outcome<Option<Instance>> {
        let mut find = self.db.prepare_cached(BY_ID)?;
        let found = find.query_row(params![self.hub, id.as_str()], |row| Ok(Instance::read(row)));
        found.optional()?.transpose()
    }

    /// An instance by its key.
    pub(super) fn instance_at(&self, key: i64) -> Outcome<Option<Instance>> {
        let mut find = self.db.prepare_cached(BY_KEY)?;
        find.query_row([key], |row| Ok(Instance::read(row))).optional()?.transpose()
    }
}

impl Scope<'_> {
    /// Adds an instance that is not there: nobody has it, and nothing waits for it.
    pub(super) fn insert_instance(
        &mut self,
        id: &InstanceId,
        record: Record,
        epoch: Epoch,
    ) -> Outcome<Instance> {
        let queue = self.queue_key(&record.queue)?;
        let mut add = self.db.prepare_cached(
            "INSERT INTO instances (hub, id, queue, offered, revision, epoch, status, stalled, created, completed,
                grip, not_before, remembered, record)
             VALUES (?1, ?2, ?3, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 0, 0, 0, ?10)",
        )?;
        add.execute(params![
            self.hub,
            id.as_str(),
            queue,
            signed(record.revision.0),
            signed(epoch.0),
            status_code(record.status),
            record.trouble.is_some(),
            record.times.created.0,
            record.times.completed.map(|time| time.0),
            write_record(&record),
        ])?;
        self.hint(Hint::Status(id.clone(), record.status));
        Ok(Instance {
            key: self.db.last_insert_rowid(),
            id: id.clone(),
            record,
            epoch,
            holder: None,
            ready_at: None,
            not_before: Timestamp::default(),
            remembered: 0,
            last: None,
            place: None,
            offered: queue,
        })
    }

    /// Writes what claims look at: who holds it, and from when it may be taken.
    pub(super) fn store_hold(&mut self, instance: &mut Instance) -> Outcome<()> {
        self.settle(instance)?;
        let (holder, grip) = held_columns(instance);
        let mut change = self.db.prepare_cached(
            "UPDATE instances SET epoch = ?2, holder = ?3, grip = ?4, ready_at = ?5, not_before = ?6, place = ?7,
                offered = ?8 WHERE key = ?1",
        )?;
        change.execute(params![
            instance.key,
            signed(instance.epoch.0),
            holder,
            grip,
            instance.ready_at.map(|time| time.0),
            instance.not_before.0,
            instance.place.map(|time| time.0),
            instance.offered,
        ])?;
        Ok(())
    }

    /// Writes the record too.
    pub(super) fn store_all(&mut self, instance: &mut Instance) -> Outcome<()> {
        self.store_hold(instance)?;
        let record = &instance.record;
        let queue = self.queue_key(&record.queue)?;
        let mut change = self.db.prepare_cached(
            "UPDATE instances SET queue = ?2, revision = ?3, status = ?4, stalled = ?5, created = ?6, completed = ?7,
                remembered = ?8, last = ?9, record = ?10 WHERE key = ?1",
        )?;
        change.execute(params![
            instance.key,
            queue,
            signed(record.revision.0),
            status_code(record.status),
            record.trouble.is_some(),
            record.times.created.0,
            record.times.completed.map(|time| time.0),
            instance.remembered,
            instance.last.as_ref().map(LastCommit::write),
            write_record(record),
        ])?;
        Ok(())
    }

    /// Finds where claims look for it. An ended instance is opened by the code of the waiting start: the code of the
    /// run that has ended may be gone.
    fn settle(&mut self, instance: &mut Instance) -> Outcome<()> {
        let waiting = if instance.is_over() { self.first_opening(instance.key)? } else { None };
        let queue = waiting.unwrap_or_else(|| instance.record.queue.clone());
        let offered = self.queue_key(&queue)?;
        let free = match instance.holder {
            None => true,
            Some(held) => !self.is_live(held.session)?,
        };
        let place = instance.ready_at.filter(|_| free).map(|ready_at| ready_at.max(instance.not_before));
        if (place, offered) != (instance.place, instance.offered)
            && place.is_some_and(|place| place <= self.now)
        {
            self.hint(Hint::Ready(queue.kind));
        }
        (instance.place, instance.offered) = (place, offered);
        Ok(())
    }

    /// Takes an instance from whoever holds it; its host is told at the next renewal. The caller stores the instance.
    pub(super) fn take_from_holder(&mut self, instance: &mut Instance) -> Outcome<()> {
        let Some(held) = instance.holder.take() else { return Ok(()) };
        self.tell_lost(held.session, &write_item(&Item::Turn(instance.fence())))?;
        self.db
            .prepare_cached("UPDATE instances SET holder = NULL, grip = 0 WHERE key = ?1")?
            .execute([instance.key])?;
        self.forget_if_gone(held.session)
    }

    /// Removes an instance and all that belongs to it but the tasks; whoever holds it has lost it.
    pub(super) fn remove_instance(&mut self, mut instance: Instance) -> Outcome<()> {
        self.take_from_holder(&mut instance)?;
        for sql in [
            "DELETE FROM inbox WHERE instance = ?1",
            "DELETE FROM history WHERE instance = ?1",
            "DELETE FROM applied WHERE instance = ?1",
            "DELETE FROM instances WHERE key = ?1",
        ] {
            self.db.prepare_cached(sql)?.execute([instance.key])?;
        }
        self.db
            .prepare_cached("DELETE FROM outbox WHERE hub = ?1 AND instance = ?2")?
            .execute(params![self.hub, instance.key])?;
        Ok(())
    }

    /// Clients that wait are told when what they see has changed.
    pub(super) fn hint_status(&mut self, old: &Record, new: &Record, id: &InstanceId) {
        let shown = |record: &Record| (record.status, record.execution, record.custom_status.clone());
        if shown(old) != shown(new) {
            self.hint(Hint::Status(id.clone(), new.status));
        }
    }
}

fn held_columns(instance: &Instance) -> (Option<i64>, i64) {
    match instance.holder {
        None => (None, 0),
        Some(Held { session, grip: Grip::Claimed }) => (Some(session), 1),
        Some(Held { session, grip: Grip::Idle }) => (Some(session), 2),
        Some(Held { session, grip: Grip::Kept }) => (Some(session), 3),
    }
}
