//! Messages that wait for the instances which a session holds. Nothing here changes anything.

use dauer_store::{Fence, InstanceId, Mail, Refused, SessionId, Timestamp};

use super::State;
use crate::defect::Defect;

impl State {
    /// The instances that the session has kept and for which visible, admitted messages wait.
    pub(crate) fn waiting_mail(&self, session: SessionId) -> Result<Vec<InstanceId>, Refused> {
        self.acting(session)?;
        if self.broken(Defect::MailForgotten) {
            return Ok(Vec::new());
        }
        let visible = self.held_mail(session).filter(|(_, ready_at)| *ready_at <= self.now());
        Ok(visible.map(|(id, _)| id.clone()).collect())
    }

    /// The instances that the session has kept and for which admitted messages wait, with the earliest time of each.
    pub(super) fn held_mail(&self, session: SessionId) -> impl Iterator<Item = (&InstanceId, Timestamp)> {
        let held = self.sessions.get(&session).into_iter().flat_map(|session| &session.turns);
        held.filter_map(|id| {
            let instance = self.instances.get(id).filter(|instance| instance.has_committed())?;
            Some((id, instance.ready_at?))
        })
    }

    /// Reads the messages that wait for an instance.
    pub(crate) fn mail(&self, session: SessionId, fence: &Fence) -> Result<Mail, Refused> {
        self.acting(session)?;
        let instance = self.instances.get(&fence.instance).ok_or(Refused::Fenced)?;
        let holds = instance.holder.is_some_and(|held| held.session == session);
        let current = *fence == instance.fence(&fence.instance) || self.broken(Defect::MailUnfenced);
        if !holds || !current {
            return Err(Refused::Fenced);
        }
        let most = if self.broken(Defect::MailUnbounded) { usize::MAX } else { self.limits.mail_bytes };
        let batch = instance.turn_batch(self.moment, most, true).unwrap_or_default();
        Ok(Mail { messages: batch.messages, more: batch.more, now: self.shown_now() })
    }
}
