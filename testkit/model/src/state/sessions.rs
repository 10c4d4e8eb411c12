//! Sessions (8, 24).

use std::time::Duration;

use dauer_store::{
    Cause, Holder, Host, HostId, InstanceId, Item, Lost, Refused, SessionId, SessionInfo, Timestamp,
};

use super::{State, TaskKey};
use crate::mistake::Mistake as M;

/// How long an expired session that holds nothing is listed.
const EXPIRED_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The lease of a loaded session until it attaches again: a dump has only the time of its end.
const LEASE_UNKNOWN: Duration = Duration::from_secs(30);

/// A session.
#[derive(Debug, Clone)]
pub(super) struct Session {
    pub(super) host: HostId,
    lease: Duration,
    pub(super) expires_at: Timestamp,
    pub(super) runs_code: bool,
    /// Its host is dead.
    ended: bool,
    /// It has expired, and a look has seen that.
    lapsed: bool,
    renewed: bool,
    /// What was taken from it and not told.
    pub(super) lost: Vec<Item>,
}

impl Session {
    pub(super) fn loaded(host: HostId, expires_at: Timestamp, runs_code: bool) -> Self {
        let (lease, lost) = (LEASE_UNKNOWN, Vec::new());
        Self { host, lease, expires_at, runs_code, ended: false, lapsed: false, renewed: false, lost }
    }
}

impl State {
    /// Opens a session, or renews it.
    pub(crate) fn attach(&mut self, host: &Host) -> Result<(), Refused> {
        self.used = true;
        let expires_at = self.now().after(host.lease);
        if self.makes(M::AttachForgetsItself) {
            let known = self.sessions.contains_key(&host.session);
            self.forget_old();
            if known && !self.sessions.contains_key(&host.session) {
                return Ok(());
            }
        }
        let new =
            || Session { lease: host.lease, ..Session::loaded(host.id.clone(), expires_at, host.runs_code) };
        let session = self.sessions.entry(host.session).or_insert_with(new);
        if session.host != host.id || session.ended {
            return Err(Refused::Fenced);
        }
        (session.lease, session.expires_at, session.lapsed) = (host.lease, expires_at, false);
        session.runs_code = host.runs_code;
        self.forget_old();
        Ok(())
    }

    /// Forgets sessions that expired long ago and hold nothing.
    fn forget_old(&mut self) {
        let now = self.now();
        let old = |session: &Session| now.since(session.expires_at) > EXPIRED_AGE_MAX;
        self.forget(old);
    }

    /// Forgets sessions that were ended and hold nothing.
    pub(super) fn forget_ended(&mut self) {
        self.forget(|session| session.ended);
    }

    fn forget(&mut self, may_go: impl Fn(&Session) -> bool) {
        let gone: Vec<SessionId> =
            self.sessions.iter().filter(|(_, s)| may_go(s)).map(|(id, _)| *id).collect();
        for id in gone {
            if self.turns_of(id).is_empty() && self.tasks_held(id).is_empty() {
                self.sessions.remove(&id);
            }
        }
    }

    /// Whether no other session may take what this one holds.
    pub(super) fn lives(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|s| !s.ended && s.expires_at > self.now())
    }

    /// The host of a session that lives.
    pub(crate) fn living_host(&self) -> Option<HostId> {
        let mut living = self.sessions.iter().filter(|(id, _)| self.lives(**id));
        living.next().map(|(_, session)| session.host.clone())
    }

    pub(super) fn is_proven_dead(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_some_and(|session| session.ended)
    }

    /// Whether the process of the session executes code. One that is forgotten did.
    pub(super) fn runs_code(&self, session: SessionId) -> bool {
        self.sessions.get(&session).is_none_or(|session| session.runs_code)
    }

    /// When the session ended, or is to end.
    pub(super) fn end_of(&self, session: SessionId) -> Timestamp {
        self.sessions.get(&session).map(|session| session.expires_at).unwrap_or_default()
    }

    /// Whether others may take what the session holds, as far as a mistake does not say otherwise.
    pub(super) fn may_be_robbed(&self, session: SessionId) -> bool {
        let renewed = self.sessions.get(&session).is_some_and(|session| session.renewed);
        !self.lives(session) || !renewed && self.makes(M::ClaimHeld)
    }

    /// Expiry alone refuses nothing.
    pub(super) fn may_act(&self, session: SessionId) -> Result<(), Refused> {
        let acts = self.sessions.get(&session).is_some_and(|session| !session.ended);
        if acts { Ok(()) } else { Err(Refused::Fenced) }
    }

    /// A session that has expired renews before it claims.
    pub(crate) fn may_claim(&self, session: SessionId) -> Result<(), Refused> {
        self.may_act(session)?;
        if self.lives(session) || self.makes(M::ExpiredClaims) {
            return Ok(());
        }
        Err(Refused::NotExecuted(Cause::new("the session has expired; renew it first")))
    }

    /// The instances that a session holds.
    pub(super) fn turns_of(&self, session: SessionId) -> Vec<InstanceId> {
        let held = self.instances.iter().filter(|(_, instance)| instance.holder == Some(session));
        held.map(|(id, _)| id.clone()).collect()
    }

    /// The tasks that a session holds.
    pub(super) fn tasks_held(&self, session: SessionId) -> Vec<TaskKey> {
        let held = self.tasks.iter().filter(|(_, task)| task.holder == Some(session));
        held.map(|(key, _)| key.clone()).collect()
    }

    /// Keeps a session and all it holds, and tells what it has lost.
    pub(crate) fn renew(&mut self, session: SessionId) -> Result<Vec<Lost>, Refused> {
        self.may_act(session)?;
        let moment = self.moment;
        let Some(known) = self.sessions.get_mut(&session) else { return Err(Refused::Fenced) };
        if !moment.makes(M::RenewDoesNothing) {
            (known.expires_at, known.lapsed) = (moment.now.after(known.lease), false);
            known.renewed = true;
        }
        let mut lost = std::mem::take(&mut known.lost);
        if moment.makes(M::RenewHidesLost) {
            lost.clear();
        }
        for id in self.turns_of(session) {
            if let Some(instance) = self.instances.get_mut(&id).filter(|_| moment.makes(M::RenewBumpsEpoch)) {
                instance.epoch = instance.epoch.next();
            }
        }
        Ok(lost.into_iter().map(|item| Lost { item }).collect())
    }

    /// Ends a session by its own wish.
    pub(crate) fn detach(&mut self, session: SessionId) {
        if self.makes(M::DetachKeeps) || self.may_act(session).is_err() {
            return;
        }
        self.discard_withdrawn(session);
        let mark =
            Some(self.now()).filter(|_| !self.runs_code(session) && !self.makes(M::DetachLeavesNoMark));
        let held = self.tasks.values_mut().filter(|task| task.holder == Some(session));
        held.for_each(|task| task.mark = task.mark.max(mark));
        let keeps_trial = self.makes(M::DetachKeepsTrial);
        let turns = self.instances.values_mut().map(|instance| (&mut instance.holder, &mut instance.trial));
        let tasks = self.tasks.values_mut().map(|task| (&mut task.holder, &mut task.trial));
        for (holder, trial) in turns.chain(tasks).filter(|(holder, _)| **holder == Some(session)) {
            *holder = None;
            *trial &= keeps_trial;
        }
        self.sessions.remove(&session);
    }

    /// Ends a session whose host is dead. Its items keep their holder until they are taken.
    pub(crate) fn end_session(&mut self, session: SessionId) {
        let now = self.now();
        if self.makes(M::EndSessionIgnored) {
            return;
        }
        if let Some(known) = self.sessions.get_mut(&session) {
            (known.ended, known.lapsed, known.expires_at) = (true, true, known.expires_at.min(now));
            self.discard_withdrawn(session);
            self.forget_ended();
        }
    }

    /// Sees which sessions have expired: what they would only have answered is not run again.
    pub(super) fn sweep(&mut self) {
        let now = self.now();
        let expired = self.sessions.iter_mut().filter(|(_, s)| !s.lapsed && s.expires_at <= now);
        let expired: Vec<SessionId> = expired
            .map(|(id, session)| {
                session.lapsed = true;
                *id
            })
            .collect();
        expired.into_iter().for_each(|session| self.discard_withdrawn(session));
    }

    fn discard_withdrawn(&mut self, session: SessionId) {
        for key in self.tasks_held(session) {
            if self.tasks.get(&key).is_some_and(|task| task.withdrawn) {
                self.discard(&key);
            }
        }
    }

    /// All sessions (24).
    pub(crate) fn sessions(&self) -> Vec<SessionInfo> {
        let idle = |id| self.turns_of(id).is_empty() && self.tasks_held(id).is_empty();
        let shown = self.sessions.iter().filter(|(id, _)| !self.makes(M::SessionsHideIdle) || !idle(**id));
        let listed = shown.map(|(id, session)| SessionInfo {
            id: *id,
            host: session.host.clone(),
            expires_at: session.expires_at,
            runs_code: session.runs_code,
            lives: self.lives(*id) || self.makes(M::SessionsExpiredLive),
        });
        listed.collect()
    }

    /// A holder as an inspection names it (23).
    pub(super) fn holder(&self, session: SessionId) -> Holder {
        let host = self.sessions.get(&session).map(|session| session.host.clone());
        let lives = self.lives(session) || self.makes(M::InspectExpiredLives);
        Holder { session, host, lives }
    }
}
