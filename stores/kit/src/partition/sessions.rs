//! The sessions of a hub. They end by detach, by expiry on the store's clock, or by proof of death (rule 8).

use std::collections::{BTreeMap, BTreeSet};

use dauer_store::{
    DropReason, Hint, Host, HostId, HubKey, InstanceId, Item, Lost, Refused, SessionDump, SessionId,
    SessionInfo, Timestamp,
};

use super::{Partition, TaskKey};
use crate::session::{End, Fate, Life};

/// A session, and what it holds.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) life: Life,
    pub(super) turns: BTreeSet<InstanceId>,
    /// In the order in which it got them: a task goes in and out for most commits, and numbers are compared at once.
    pub(super) tasks: BTreeMap<u64, TaskKey>,
    /// The kept instances for which admitted messages wait, by the time of the earliest.
    pub(super) mail: BTreeSet<(Timestamp, InstanceId)>,
    /// What was taken from it and not yet reported.
    pub(super) lost: Vec<Item>,
}

impl Session {
    fn new(life: Life) -> Self {
        let (turns, tasks, mail) = Default::default();
        Self { life, turns, tasks, mail, lost: Vec::new() }
    }

    fn holds_nothing(&self) -> bool {
        self.turns.is_empty() && self.tasks.is_empty()
    }
}

/// The sessions of a hub by id.
#[derive(Debug, Clone, Default)]
pub(super) struct Sessions(BTreeMap<SessionId, Session>);

impl Sessions {
    pub(super) fn get(&self, session: SessionId) -> Option<&Session> {
        self.0.get(&session)
    }

    pub(super) fn get_mut(&mut self, session: SessionId) -> Option<&mut Session> {
        self.0.get_mut(&session)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SessionId, &Session)> {
        self.0.iter().map(|(id, session)| (*id, session))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the session lives, or how it ended.
    pub(super) fn fate(&self, session: SessionId, now: Timestamp) -> Fate {
        self.get(session).map_or(Fate::Over(End::FORGOTTEN), |session| session.life.fate(now))
    }

    /// Whether the session lives: no other session may take what it holds.
    pub(super) fn lives(&self, session: SessionId, now: Timestamp) -> bool {
        self.fate(session, now) == Fate::Lives
    }

    /// A session that may act. Expiry alone takes nothing from it.
    pub(super) fn acting(&self, session: SessionId) -> Result<&Session, Refused> {
        let session = self.get(session).ok_or(Refused::Fenced)?;
        session.life.may_act().map(|()| session)
    }

    /// A session that may win work.
    pub(super) fn winning(&self, session: SessionId, now: Timestamp) -> Result<&Session, Refused> {
        let session = self.acting(session)?;
        session.life.may_claim(now).map(|()| session)
    }

    pub(super) fn load(&mut self, dump: SessionDump) {
        let SessionDump { id, host, expires_at, runs_code } = dump;
        self.0.insert(id, Session::new(Life::loaded(host, expires_at, runs_code)));
    }

    /// Forgets a dead session that holds nothing.
    pub(super) fn forget_if_gone(&mut self, session: SessionId) {
        if self.get(session).is_some_and(|known| known.life.ended && known.holds_nothing()) {
            self.0.remove(&session);
        }
    }
}

impl Partition {
    /// The key of the hub. The first candidate becomes it.
    pub fn key(&mut self, candidate: HubKey) -> HubKey {
        self.pristine = false;
        let known = self.lists.hub.key.filter(|_| !planted!(Defect::KeyReplaced));
        *self.lists.hub.key.insert(known.unwrap_or(candidate))
    }

    /// Opens a session; the same again, after an unknown outcome, renews it.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if it has ended, or belongs to another host.
    pub fn attach(&mut self, host: &Host) -> Result<(), Refused> {
        self.pristine = false;
        let now = self.lists.beside.now;
        match self.lists.beside.sessions.get_mut(host.session) {
            None => {
                let session = Session::new(Life::begin(host, now));
                self.lists.beside.sessions.0.insert(host.session, session);
            }
            Some(known) => {
                let expired = known.life.attach(host, now)?;
                if expired {
                    self.settle_held(host.session);
                }
            }
        }
        // Last: the session that attaches again may be one of them.
        self.lists
            .beside
            .sessions
            .0
            .retain(|_, session| !session.holds_nothing() || !session.life.is_old(now));
        Ok(())
    }

    /// Keeps a session and all that it holds for another lease, also when it had expired: it keeps what no other session has
    /// taken.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if it has ended.
    pub fn renew(&mut self, session: SessionId) -> Result<Vec<Lost>, Refused> {
        self.lists.beside.sessions.acting(session)?;
        let now = self.lists.beside.now;
        let Some(known) = self.lists.beside.sessions.get_mut(session) else { return Ok(Vec::new()) };
        let lost = std::mem::take(&mut known.lost).into_iter().map(|item| Lost { item }).collect();
        if known.life.renew(now) {
            self.settle_held(session);
        }
        #[cfg(feature = "planted")]
        if planted!(Defect::RenewBumpsEpoch) {
            for id in self.turns_of(session) {
                self.instances.get_mut(&id).into_iter().for_each(|stored| stored.instance.raise_epoch());
            }
        }
        Ok(lost)
    }

    /// Ends a session by its own wish: all that it holds is free. A session that is gone is detached already.
    pub fn detach(&mut self, session: SessionId) {
        let now = self.lists.beside.now;
        let Ok(end) = self.lists.beside.sessions.acting(session).map(|known| known.life.end_at(now)) else {
            return;
        };
        for id in self.turns_of(session) {
            let Some(stored) = self.instances.get_mut(&id) else { continue };
            stored.instance.let_go(&mut self.lists.changes);
            self.lists.write(&id, stored);
        }
        for key in self.tasks_of_session(session) {
            self.change_task(&key, |row| row.held.let_go(end));
        }
        self.lists.beside.sessions.0.remove(&session);
        self.lists.news.hints.push(Hint::SessionEnded(session));
    }

    /// Ends a session whose host is dead. Its items keep their holder until they are taken, which counts a death.
    pub fn end_session(&mut self, session: SessionId) {
        let now = self.lists.beside.now;
        if let Some(known) = self.lists.beside.sessions.get_mut(session) {
            known.life.end(now);
            self.lapse(session);
            self.lists.beside.sessions.forget_if_gone(session);
        }
    }

    /// The leases of a host's sessions are over.
    pub fn expire_sessions_of(&mut self, host: &HostId) {
        let now = self.lists.beside.now;
        let lives = self.lists.beside.sessions.0.values_mut().map(|session| &mut session.life);
        for life in lives.filter(|life| life.host == *host) {
            life.expires_at = life.expires_at.min(now);
        }
    }

    /// A host whose session lives.
    #[must_use]
    pub fn living_host(&self) -> Option<&HostId> {
        let mut lives = self.lists.beside.sessions.iter().map(|(_, session)| &session.life);
        lives.find(|life| life.lives(self.lists.beside.now)).map(|life| &life.host)
    }

    /// All sessions by id (rule 24).
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let info = |(id, session): (SessionId, &Session)| {
            let Life { host, expires_at, runs_code, .. } = session.life.clone();
            SessionInfo { id, host, expires_at, runs_code, lives: session.life.lives(self.lists.beside.now) }
        };
        self.lists.beside.sessions.iter().map(info).collect()
    }

    /// Offers what expired sessions hold to others. Before every look: expiry is a matter of time, not of a call.
    pub(super) fn sweep(&mut self) {
        let now = self.lists.beside.now;
        let expired = self.lists.beside.sessions.iter().filter(|(_, session)| session.life.lapses(now));
        let expired: Vec<SessionId> = expired.map(|(id, _)| id).collect();
        expired.into_iter().for_each(|session| self.lapse(session));
    }

    fn lapse(&mut self, session: SessionId) {
        let Some(known) = self.lists.beside.sessions.get_mut(session) else { return };
        known.life.lapsed = true;
        self.lists.news.hints.push(Hint::SessionEnded(session));
        for key in self.tasks_of_session(session) {
            self.change_task(&key, |row| row.held.outlives_holder());
        }
        self.settle_held(session);
    }

    /// Changes a task. It goes, and counts as withdrawn, if `change` returns false.
    pub(super) fn change_task(&mut self, key: &TaskKey, change: impl FnOnce(&mut super::TaskRow) -> bool) {
        self.change_tasks(&key.0, |lists, tasks| {
            let Some(row) = tasks.get_mut(&key.1) else { return };
            if change(row) {
                lists.settle_task(row);
            } else {
                lists.remove_task(tasks, key.1);
                lists.count_dropped(DropReason::Withdrawn, 1);
            }
        });
    }

    /// Finds again where all that a session holds stands.
    pub(super) fn settle_held(&mut self, session: SessionId) {
        for id in self.turns_of(session) {
            self.settle_one(&id);
        }
        for key in self.tasks_of_session(session) {
            self.change_task(&key, |_| true);
        }
    }

    fn turns_of(&self, session: SessionId) -> Vec<InstanceId> {
        let session = self.lists.beside.sessions.get(session);
        session.map(|session| session.turns.iter().cloned().collect()).unwrap_or_default()
    }

    /// By key, whatever the order in which the session got them.
    fn tasks_of_session(&self, session: SessionId) -> Vec<TaskKey> {
        let session = self.lists.beside.sessions.get(session);
        let mut keys: Vec<TaskKey> =
            session.map(|session| session.tasks.values().cloned().collect()).unwrap_or_default();
        keys.sort();
        keys
    }
}
