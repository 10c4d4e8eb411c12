//! Where new instances begin, and the ids of recently accepted starts that no instance names any more.
//!
//! Both lie in the file: the floor in the hub's row, the ids in `starts`. The hub's row is read once for as long as no other
//! process writes, so that a start costs no statement for either while no instance was removed lately.

use std::ops::RangeInclusive;

use rusqlite::{OptionalExtension, params};

use dauer_core::limits::START_RETRY_MAX;
use dauer_store::{Epoch, Floor, HubDump, HubKey, MessageId, Revision, Timestamp};
use dauer_store_kit::instance::Instance;

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

impl HubValues {
    pub(super) fn has_no_removed_starts(&self) -> bool {
        self.removed_starts == 0
    }
}

impl View<'_> {
    /// Reads the hub's own values; those of a hub that is not there are the first ones.
    pub(super) fn read_hub(&self) -> Outcome<HubValues> {
        let mut find = self.db.prepare_cached(
            "SELECT floor_epoch, floor_revision, removed_starts, forgotten_starts, token_key FROM hubs WHERE key = ?1",
        )?;
        let found = find.query_row([self.hub], |row| {
            let floor =
                Floor { epoch: Epoch(unsigned(row.get(0)?)), revision: Revision(unsigned(row.get(1)?)) };
            let dump = HubDump {
                floor,
                forgotten_starts: unsigned(row.get(3)?),
                key: row.get::<_, Option<[u8; 32]>>(4)?.map(HubKey),
            };
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
    pub(super) fn removed_at(&self, ids: &RangeInclusive<MessageId>) -> Outcome<Option<Timestamp>> {
        let mut find =
            self.db.prepare_cached("SELECT max(at) FROM starts WHERE hub = ?1 AND id BETWEEN ?2 AND ?3")?;
        let at: Option<i64> =
            find.query_row(params![self.hub, ids.start().0, ids.end().0], |row| row.get(0))?;
        Ok(at.map(Timestamp))
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

    /// Raises the floor above an instance that is removed. The caller ends with [`Scope::store_hub`].
    pub(super) fn raise_floor(&mut self, instance: &Instance) -> Outcome<()> {
        let values = self.hub_values()?;
        let floor = instance.floor_above(values.dump.floor);
        values.changed |= floor != values.dump.floor;
        values.dump.floor = floor;
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

    /// The key of the hub, which is made. The first candidate becomes it.
    pub(crate) fn key(&mut self, candidate: HubKey) -> Outcome<HubKey> {
        self.touch()?;
        let values = self.hub_values()?;
        values.changed |= values.dump.key.is_none();
        let key = *values.dump.key.get_or_insert(candidate);
        self.store_hub()?;
        Ok(key)
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
                "UPDATE hubs SET floor_epoch = ?2, floor_revision = ?3, removed_starts = ?4, forgotten_starts = ?5,
                    token_key = ?6
                 WHERE key = ?1",
                params![
                    hub,
                    signed(dump.floor.epoch.0),
                    signed(dump.floor.revision.0),
                    signed(removed_starts),
                    signed(dump.forgotten_starts),
                    dump.key.map(|key| key.0),
                ],
            )?;
            self.hub_values()?.changed = false;
        }
        Ok(())
    }
}
