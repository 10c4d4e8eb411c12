//! Where new instances begin, and the ids of recently accepted starts that no instance names any more.
//!
//! Both lie in the file: the floor in the hub's row, the ids in `starts`. The hub's row is read once for as long as no other
//! process writes, so that a start costs no statement for either while no instance was removed lately.

use std::ops::RangeInclusive;

use rusqlite::{OptionalExtension, params};

use dauer_core::limits::START_RETRY_MAX;
use dauer_store::{
    Class, Epoch, ExecutionId, Floor, HubDump, Message, MessageId, Record, Revision, Start, Timestamp,
};
use dauer_store_kit::codec::{CLASS_START, read_message};
use dauer_store_kit::judge::{begun_alike, is_recent, likeness};

use super::instance::Instance;
use super::{Scope, View, signed, unsigned};
use crate::fail::Outcome;

/// The hub's own values as they lie in its row.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HubValues {
    pub(crate) dump: HubDump,
    /// Rows in `starts`.
    removed_starts: u64,
    /// Whether the row in the file is older.
    changed: bool,
}

impl View<'_> {
    /// Reads the hub's own values; those of a hub that is not there are the first ones.
    pub(super) fn read_hub(&self) -> Outcome<HubValues> {
        let mut find = self.db.prepare_cached(
            "SELECT floor_epoch, floor_revision, removed_starts, forgotten_starts FROM hubs WHERE key = ?1",
        )?;
        let found = find.query_row([self.hub], |row| {
            let floor =
                Floor { epoch: Epoch(unsigned(row.get(0)?)), revision: Revision(unsigned(row.get(1)?)) };
            let dump = HubDump { floor, forgotten_starts: unsigned(row.get(3)?) };
            Ok(HubValues { dump, removed_starts: unsigned(row.get(2)?), changed: false })
        });
        Ok(found.optional()?.unwrap_or_default())
    }

    /// The ids of removed starts, with the time each was accepted.
    pub(super) fn removed_starts(&self) -> Outcome<Vec<(MessageId, Timestamp)>> {
        let mut find = self.db.prepare_cached("SELECT id, at FROM starts WHERE hub = ?1 ORDER BY id")?;
        let rows = find.query_map([self.hub], |row| Ok((MessageId(row.get(0)?), Timestamp(row.get(1)?))))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// The latest time at which a start with an id in that range was accepted, among those of removed instances.
    fn removed_at(&self, ids: &RangeInclusive<MessageId>) -> Outcome<Option<Timestamp>> {
        let mut find =
            self.db.prepare_cached("SELECT max(at) FROM starts WHERE hub = ?1 AND id BETWEEN ?2 AND ?3")?;
        let at: Option<i64> =
            find.query_row(params![self.hub, ids.start().0, ids.end().0], |row| row.get(0))?;
        Ok(at.map(Timestamp))
    }

    /// The start of that id that waits for an instance.
    pub(super) fn start_that_waits(&self, instance: &Instance, id: MessageId) -> Outcome<Option<Box<Start>>> {
        let found = self.starts_in(instance, &(id..=id))?;
        Ok(found.into_iter().next().map(|(start, _)| start))
    }

    /// The waiting starts with an id in that range, and when each became visible.
    fn starts_in(
        &self,
        instance: &Instance,
        ids: &RangeInclusive<MessageId>,
    ) -> Outcome<Vec<(Box<Start>, Timestamp)>> {
        let start = |message: Message| match message.class {
            Class::Start(start) => Some((start, message.visible_at)),
            Class::Rewind(_) | Class::Control(_) | Class::Ordinary => None,
        };
        if let Some(inbox) = &instance.inbox {
            let found = inbox.iter().map(|waiting| &waiting.message);
            let found = found.filter(|message| ids.contains(&message.id));
            return Ok(found.cloned().filter_map(start).collect());
        }
        let mut find = self.db.prepare_cached(
            "SELECT body FROM inbox WHERE instance = ?1 AND class = ?2 AND message BETWEEN ?3 AND ?4",
        )?;
        let mut rows = find.query(params![instance.key, CLASS_START, ids.start().0, ids.end().0])?;
        let mut starts = Vec::new();
        while let Some(row) = rows.next()? {
            starts.extend(start(read_message(row.get_ref(0)?.as_blob().unwrap_or_default())?));
        }
        Ok(starts)
    }
}

impl Scope<'_, '_> {
    /// The hub's own values, as this transaction has left them so far.
    pub(super) fn hub_values(&mut self) -> Outcome<&mut HubValues> {
        let hub = self.view.hub;
        if !self.group.known.values.contains_key(&hub) {
            let values = self.view.read_hub()?;
            self.group.known.values.insert(hub, values);
        }
        Ok(self.group.known.values.entry(hub).or_default())
    }

    /// Where a new instance begins.
    pub(super) fn floor(&mut self) -> Outcome<Floor> {
        Ok(self.hub_values()?.dump.floor)
    }

    /// An instance is removed: the floor rises above it, and its start is remembered. The caller ends with
    /// [`Scope::store_hub`].
    pub(super) fn removed(&mut self, instance: &Instance) -> Outcome<()> {
        let values = self.hub_values()?;
        let floor = values.dump.floor.above(instance.epoch, instance.record.revision);
        values.changed |= floor != values.dump.floor;
        values.dump.floor = floor;
        self.start_is_gone(&instance.record)
    }

    /// No instance names the start of that record any more: a retry of it must still be recognised. The caller ends with
    /// [`Scope::store_hub`].
    pub(super) fn start_is_gone(&mut self, record: &Record) -> Outcome<()> {
        let accepted = record.times.accepted;
        if is_recent(accepted, self.now) {
            self.put_removed_start(record.start, accepted)?;
        }
        Ok(())
    }

    /// Remembers the start of a removed instance, and forgets those whose time is over, or that are too many.
    pub(super) fn put_removed_start(&mut self, id: MessageId, at: Timestamp) -> Outcome<()> {
        let (hub, now) = (self.view.hub, self.view.now);
        let most = self.limits.removed_starts;
        let expired = self.run(
            "DELETE FROM starts WHERE hub = ?1 AND at < ?2",
            params![hub, now.before(START_RETRY_MAX).0],
        )?;
        let known = self.removed_at(&(id..=id))?.is_some();
        self.run(
            "INSERT OR REPLACE INTO starts (hub, id, at) VALUES (?1, ?2, ?3)",
            params![hub, id.0, at.0],
        )?;
        let values = self.hub_values()?;
        let count = values.removed_starts.saturating_sub(expired as u64) + u64::from(!known);
        let beyond = count.saturating_sub(most);
        values.removed_starts = count - beyond;
        values.dump.forgotten_starts += beyond;
        values.changed = true;
        if beyond > 0 {
            self.run(
                "DELETE FROM starts WHERE (hub, id) IN
                    (SELECT hub, id FROM starts WHERE hub = ?1 ORDER BY at, id LIMIT ?2)",
                params![hub, signed(beyond)],
            )?;
        }
        Ok(())
    }

    /// Puts dumped values in the place of the hub's own. The caller ends with [`Scope::store_hub`].
    pub(super) fn load_hub(&mut self, dump: HubDump) -> Outcome<()> {
        let values = self.hub_values()?;
        values.dump = dump;
        values.changed = true;
        Ok(())
    }

    /// Writes the hub's own values, if they have changed.
    pub(super) fn store_hub(&mut self) -> Outcome<()> {
        let hub = self.view.hub;
        let HubValues { dump, removed_starts, changed } = *self.hub_values()?;
        if changed {
            self.run(
                "UPDATE hubs SET floor_epoch = ?2, floor_revision = ?3, removed_starts = ?4, forgotten_starts = ?5
                 WHERE key = ?1",
                params![
                    hub,
                    signed(dump.floor.epoch.0),
                    signed(dump.floor.revision.0),
                    signed(removed_starts),
                    signed(dump.forgotten_starts),
                ],
            )?;
            self.hub_values()?.changed = false;
        }
        Ok(())
    }

    /// Whether a message is a start that was accepted recently, and that no instance names any more.
    pub(super) fn repeats_removed_start(&mut self, message: &Message) -> Outcome<bool> {
        if !matches!(message.class, Class::Start(_)) || self.hub_values()?.removed_starts == 0 {
            return Ok(false);
        }
        let at = self.removed_at(&(message.id..=message.id))?;
        Ok(at.is_some_and(|at| is_recent(at, self.now)))
    }

    /// The run of an equal start that was accepted recently; `Some(None)` when only its id is remembered.
    pub(super) fn alike(
        &mut self,
        instance: Option<&Instance>,
        message: &Message,
    ) -> Outcome<Option<Option<ExecutionId>>> {
        let (now, alike) = (self.now, likeness(message.id));
        if let Some(instance) = instance {
            if let Some(run) = begun_alike(&instance.record, message.id, now) {
                return Ok(Some(Some(run)));
            }
            let waiting = self.starts_in(instance, &alike)?;
            if let Some((start, _)) = waiting.into_iter().find(|(_, visible)| is_recent(*visible, now)) {
                return Ok(Some(Some(start.record.execution)));
            }
        }
        let removed = match self.hub_values()?.removed_starts {
            0 => None,
            _ => self.removed_at(&alike)?,
        };
        Ok(removed.filter(|at| is_recent(*at, now)).map(|_| None))
    }
}
