//! Reading histories.

use std::borrow::Cow;

use bytes::Bytes;
use rusqlite::{Row, params};

use dauer_store::{
    Batch, Encoded, Epoch, ExecutionId, Fence, InstanceId, Revision, SessionId, Slice, StoredBatch, Timestamp,
};
use dauer_store_kit::codec::{host_id, read_trail};
use dauer_store_kit::judge;

use super::stored::{Image, Loaded};
use super::{View, fenced, unsigned};
use crate::fail::Outcome;

impl View<'_> {
    /// Reads for a host that holds the instance.
    pub(crate) fn load_history(
        &self,
        session: SessionId,
        fence: &Fence,
        (from, max_bytes): (u32, usize),
    ) -> Outcome<Slice> {
        self.acting(session)?;
        let Some(Loaded { instance, stored }) = self.instance(&fence.instance)? else { return fenced() };
        instance.check_holder(session, fence)?;
        self.slice(stored.key, from, max_bytes)
    }

    /// Reads for a client. An absent instance has no history.
    pub(crate) fn read_history(
        &self,
        id: &InstanceId,
        execution: Option<ExecutionId>,
        (from, max_bytes): (u32, usize),
    ) -> Outcome<Slice> {
        let current = |image: &Image| execution.is_none_or(|execution| execution == image.record.execution);
        let image = self.image(id)?.filter(current);
        image.map_or(Ok(Slice::default()), |image| self.slice(image.key, from, max_bytes))
    }

    /// Whole batches from the one that holds event `from`, at most about `max_bytes`, at least one.
    pub(super) fn slice(&self, instance: i64, from: u32, max_bytes: usize) -> Outcome<Slice> {
        let mut find = self.db.prepare_cached(
            "SELECT first, revision, epoch, o.name, at, count, trail, events
             FROM history AS h JOIN hosts AS o ON o.key = h.host
             WHERE instance = ?1 AND first >= coalesce(
                (SELECT first FROM history WHERE instance = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1), 0)
             ORDER BY first, h.key",
        )?;
        let batches = find.query_and_then(params![instance, from], |row| read_batch(row).map(Cow::Owned))?;
        judge::slice(batches, (from, max_bytes))
    }
}

fn read_batch(row: &Row<'_>) -> Outcome<StoredBatch> {
    let (consumed, produced) = read_trail(row.get_ref(6)?.as_blob().unwrap_or_default())?;
    let events: Vec<u8> = row.get(7)?;
    Ok(StoredBatch {
        first: row.get(0)?,
        revision: Revision(unsigned(row.get(1)?)),
        epoch: Epoch(unsigned(row.get(2)?)),
        owner: host_id(row.get::<_, String>(3)?)?,
        at: Timestamp(row.get(4)?),
        batch: Batch {
            count: row.get(5)?,
            events: Encoded::from_stored(Bytes::from(events)),
            consumed,
            produced,
        },
    })
}
