//! Sessions: one host in one hub. They end by detach, by expiry on the store's clock, or by proof of death.

use std::collections::BTreeSet;

use dauer_store::{Hint, Host, HostId, InstanceId, Item, Lost, Refused, SessionId, Timestamp};
use dauer_store_kit::session::Life;

use super::State;
use super::task::TaskKey;
use crate::defect::Defect;

/// A session as it lies in the store.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) life: Life,
    /// Whether it was ever renewed; only a defect looks at it.
    pub(crate) renewed: bool,
    pub(crate) turns: BTreeSet<InstanceId>,
    pub(crate) tasks: BTreeSet<TaskKey>,
    /// What was taken from it and not yet reported.
    pub(crate) lost: Vec<Item>,
}

impl Session {
    pub(crate) fn new(life: Life) -> Self {
        let (turns, tasks) = (BTreeSet::new(), BTreeSet::new());
        Self { life, renewed: false, turns, tasks, lost: Vec::new() }
    }

    pub(super) fn holds_nothing(&self) -> bool {
        self.turns.is_empty() && self.tasks.is_empty()
    }
}

impl State {
    /// Opens a session; the same again, after an unknown outcome, renews it.
    pub(crate) fn attach(&mut self, host: &Host) -> Result<(), Refused> {
        self.pristine = false;
        let now = self.now();
        if self.broken(Defect::AttachForgetsItself) {
            let known = self.sessions.contains_key(&host.session);
            self.forget_old_sessions();
            if known && !self.sessions.contains_key(&host.session) {
                return Ok(());
            }
        }
        match self.sessions.get_mut(&host.session) {
            None => {
                self.sessions.insert(host.session, Session::new(Life::begin(host, now)));
            }
            Some(known) => {
                let noticed = known.life.lapsed;
                let expired = known.life.attach(host, now)?;
                self.withdraw_offers(host.session, expired, noticed);
            }
        }
        // Last: the session that attaches again may be one of them.
        self.forget_old_sessions();
        Ok(())
    }

    fn forget_old_sessions(&mut self) {
        let now = self.now();
        self.sessions.retain(|_, s| !s.holds_nothing() || !s.life.is_old(now));
    }

    /// A host whose session lives at that time.
    pub(crate) fn living_host(&self, now: Timestamp) -> Option<&HostId> {
        self.sessions
            .values()
            .map(|session| &session.life)
            .find(|life| life.lives(now))
            .map(|life| &life.host)
    }

    /// Keeps a session and all it holds for another lease, also when it had expired: what nobody took is still its
    /// own. What was taken is told by [`State::report_lost`].
    pub(crate) fn renew(&mut self, session: SessionId) -> Result<(), Refused> {
        self.acting(session)?;
        let now = self.now();
        if let Some(known) = self.sessions.get_mut(&session)
            && !self.moment.defects.broken(Defect::RenewDoesNothing)
        {
            known.renewed = true;
            let noticed = known.life.lapsed;
            let expired = known.life.renew(now);
            self.withdraw_offers(session, expired, noticed);
        }
        if self.broken(Defect::RenewBumpsEpoch) {
            for id in self.held_turns(session) {
                if let Some(instance) = self.instances.get_mut(&id) {
                    instance.epoch = instance.epoch.next();
                }
            }
        }
        Ok(())
    }

    /// What a session has lost, once each. Apart from [`State::renew`], so that a lost answer loses no report.
    pub(crate) fn report_lost(&mut self, session: SessionId) -> Vec<Lost> {
        let lost = self.sessions.get_mut(&session).map(|s| std::mem::take(&mut s.lost)).unwrap_or_default();
        if self.broken(Defect::RenewHidesLost) {
            return Vec::new();
        }
        lost.into_iter().map(|item| Lost { item }).collect()
    }

    /// Ends a session by its own wish: all it holds is free. A session that is gone is detached already.
    pub(crate) fn detach(&mut self, session: SessionId) -> Result<(), Refused> {
        if self.broken(Defect::DetachKeeps) || self.acting(session).is_err() {
            return Ok(());
        }
        for id in self.held_turns(session) {
            if let Some(instance) = self.instances.get_mut(&id) {
                instance.holder = None;
            }
            self.reindex_turn(&id);
        }
        for key in self.held_tasks(session) {
            if self.tasks.get(&key).is_some_and(|task| task.withdrawn) {
                self.discard_task(&key);
                continue;
            }
            if let Some(task) = self.tasks.get_mut(&key) {
                task.holder = None;
            }
            self.reindex_task(&key);
        }
        self.sessions.remove(&session);
        self.hints.push(Hint::SessionEnded(session));
        Ok(())
    }

    /// Ends a session whose host is dead. Its items keep their holder until they are taken, which counts an attempt.
    pub(crate) fn end_session(&mut self, session: SessionId) {
        if self.broken(Defect::EndSessionIgnored) {
            return;
        }
        let now = self.now();
        if let Some(known) = self.sessions.get_mut(&session) {
            known.life.end(now);
            self.lapse(session);
            self.forget_if_gone(session);
        }
    }

    /// Offers what expired sessions hold to others. Before every claim: expiry is a matter of time, not of a call.
    pub(super) fn sweep(&mut self) {
        let now = self.now();
        let expired = self.sessions.iter().filter(|(_, s)| s.life.lapses(now));
        let expired: Vec<SessionId> = expired.map(|(id, _)| *id).collect();
        for session in expired {
            self.lapse(session);
        }
    }

    /// The leases of a host's sessions are over.
    pub(crate) fn expire_sessions_of(&mut self, host: &HostId, now: Timestamp) {
        let lives = self.sessions.values_mut().map(|session| &mut session.life);
        for life in lives.filter(|life| life.host == *host) {
            life.expires_at = life.expires_at.min(now);
        }
    }

    fn lapse(&mut self, session: SessionId) {
        let Some(known) = self.sessions.get_mut(&session) else { return };
        known.life.lapsed = true;
        self.hints.push(Hint::SessionEnded(session));
        for key in self.held_tasks(session) {
            if self.tasks.get(&key).is_some_and(|task| task.withdrawn) {
                self.discard_task(&key);
            }
        }
        self.reindex_held(session);
    }

    /// Takes the items of a renewed session off offer, if it had expired: also those that it has committed since, unless a
    /// defect forgets them where no claim had `noticed` the expiry.
    fn withdraw_offers(&mut self, session: SessionId, expired: bool, noticed: bool) {
        if expired && (noticed || !self.broken(Defect::RenewForgetsUnnoticed)) {
            self.reindex_held(session);
        }
    }

    pub(super) fn reindex_held(&mut self, session: SessionId) {
        for id in self.held_turns(session) {
            self.reindex_turn(&id);
        }
        for key in self.held_tasks(session) {
            self.reindex_task(&key);
        }
    }

    /// Forgets a dead session once nothing is held in its name.
    pub(super) fn forget_if_gone(&mut self, session: SessionId) {
        if self.sessions.get(&session).is_some_and(|known| known.life.ended && known.holds_nothing()) {
            self.sessions.remove(&session);
        }
    }

    fn held_turns(&self, session: SessionId) -> Vec<InstanceId> {
        self.sessions.get(&session).map(|s| s.turns.iter().cloned().collect()).unwrap_or_default()
    }

    fn held_tasks(&self, session: SessionId) -> Vec<TaskKey> {
        self.sessions.get(&session).map(|s| s.tasks.iter().cloned().collect()).unwrap_or_default()
    }
}
