//! Messages that wait for the instances which a session holds. Nothing here changes anything.

use rusqlite::{OptionalExtension, params};

use dauer_store::{Fence, Mail, SessionId, StoreLimits, Timestamp, WaitingMail};

use super::{View, fenced};
use crate::fail::Outcome;
use dauer_store_kit::codec::instance_id;

impl View<'_> {
    /// The instances that the session has kept and for which visible, admitted messages wait. An instance whose start lies in
    /// its row has had no turn, or one whose row is behind: nothing has come since.
    pub(crate) fn waiting_mail(&self, session: SessionId) -> Outcome<WaitingMail> {
        let session = self.acting(session)?.key;
        let mut find = self.db.prepare_cached(
            "SELECT id FROM instances WHERE holder = ?1 AND start IS NULL AND ready_at <= ?2 ORDER BY ready_at",
        )?;
        let ids = find.query_map(params![session, self.now.0], |row| row.get::<_, String>(0))?;
        let ids = ids.collect::<rusqlite::Result<Vec<_>>>()?;
        let instances = ids.into_iter().map(instance_id).collect::<Result<_, _>>()?;
        let mut later = self.db.prepare_cached(
            "SELECT ready_at FROM instances WHERE holder = ?1 AND start IS NULL AND ready_at > ?2
             ORDER BY ready_at LIMIT 1",
        )?;
        let next: Option<i64> = later.query_row(params![session, self.now.0], |row| row.get(0)).optional()?;
        Ok(WaitingMail { instances, next: next.map(|at| Timestamp(at).since(self.now)) })
    }

    /// Reads the messages that wait for an instance.
    pub(crate) fn mail(&self, session: SessionId, fence: &Fence, limits: &StoreLimits) -> Outcome<Mail> {
        let session = self.acting(session)?.key;
        let Some(mut instance) = self.instance(&fence.instance)? else { return fenced() };
        if instance.holder != Some(session) || instance.fence() != *fence {
            return fenced();
        }
        if let Some(start) = instance.read_start()? {
            // It is not among the rows of the inbox.
            let inbox = self.short_inbox(instance.key, usize::MAX)?;
            instance.know_inbox_with(start, inbox.unwrap_or_default());
        }
        let batch = self.turn_batch(&instance, limits.mail_bytes, true)?.unwrap_or_default();
        Ok(Mail { messages: batch.messages, more: batch.more, now: self.now })
    }
}
