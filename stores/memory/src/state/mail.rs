//! Messages that wait for the instances which a session holds. Nothing here changes anything.

use dauer_store::{Fence, InstanceId, Mail, Refused, SessionId, Timestamp, WaitingMail};

use super::State;
use crate::defect::Defect;

impl State {
    /// The instances that the session has kept and for which visible, admitted messages wait.
    pub(crate) fn waiting_mail(&self, session: SessionId) -> Result<WaitingMail, Refused> {
        self.acting(session)?;
        let (now, mut waiting) = (self.now(), WaitingMail::default());
        for (id, ready_at) in self.held_mail(session) {
            if ready_at > now {
                waiting.next = waiting.next.into_iter().chain([ready_at.since(now)]).min();
            } else if !self.broken(Defect::MailForgotten) {
                waiting.instances.push(id.clone());
            }
        }
        waiting.next = waiting.next.filter(|_| !self.broken(Defect::MailNeverDue));
        Ok(waiting)
    }

    /// The instances that the session has kept and for which admitted messages wait, with the earliest time of each.
    fn held_mail(&self, session: SessionId) -> impl Iterator<Item = (&InstanceId, Timestamp)> {
        let held = self.sessions.get(&session).into_iter().flat_map(|session| &session.turns);
        held.filter_map(|id| {
            let instance = self.instances.get(id)?;
            // A dump does not say who committed last.
            let loaded = instance.last.is_none() && !instance.history.is_empty();
            instance.ready_at.filter(|_| loaded || instance.has_committed()).map(|ready_at| (id, ready_at))
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
