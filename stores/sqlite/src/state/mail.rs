//! Messages that wait for the instances which a session holds. Nothing here changes anything.

use rusqlite::params;

use dauer_store::{Fence, InstanceId, Mail, SessionId, StoreLimits, Timestamp};

use dauer_store_kit::codec::instance_id;
use dauer_store_kit::instance::Context;

use super::stored::Loaded;
use super::{View, fenced};
use crate::fail::Outcome;

impl View<'_> {
    /// The instances that the session has kept and for which visible, admitted messages wait; and when the next such message becomes
    /// visible. An instance whose start lies in its row has had no turn, or one whose row is behind: nothing has
    /// come since.
    pub(super) fn waiting_mail(&self, session: i64) -> Outcome<(Vec<InstanceId>, Option<Timestamp>)> {
        let mut find = self.db.prepare_cached(
            "SELECT id FROM instances WHERE holder = ?1 AND start IS NULL AND ready_at <= ?2 ORDER BY ready_at",
        )?;
        let ids = find.query_map(params![session, self.now.0], |row| row.get::<_, String>(0))?;
        let ids = ids.collect::<rusqlite::Result<Vec<_>>>()?;
        let instances = ids.into_iter().map(instance_id).collect::<Result<_, _>>()?;
        let mut later = self.db.prepare_cached(
            "SELECT min(ready_at) FROM instances WHERE holder = ?1 AND start IS NULL AND ready_at > ?2",
        )?;
        let next: Option<i64> = later.query_row(params![session, self.now.0], |row| row.get(0))?;
        Ok((instances, next.map(Timestamp)))
    }

    /// Reads the messages that wait for an instance.
    pub(crate) fn mail(&self, session: SessionId, fence: &Fence, limits: &StoreLimits) -> Outcome<Mail> {
        self.acting(session)?;
        let Some(Loaded { instance, stored }) = self.instance(&fence.instance)? else { return fenced() };
        instance.check_holder(session, fence)?;
        let context = Context { now: self.now, limits };
        let batch = instance.mail(context, &self.facts(Some(&stored)))?;
        Ok(Mail { messages: batch.messages, more: batch.more, now: self.now })
    }
}
