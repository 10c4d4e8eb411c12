//! Sessions: who lives, may act and may claim (rule 8).

use std::time::Duration;

use dauer_store::{Cause, Host, HostId, Refused, Timestamp};

/// How long an expired session that holds nothing is remembered. A host that slept longer attaches again.
pub const EXPIRED_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The lease of a loaded session until its host attaches again: a dump has only the time of expiry.
pub const LEASE_UNKNOWN: Duration = Duration::from_secs(30);

/// One host in one hub, without what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    /// The host.
    pub host: HostId,
    /// How long each renewal keeps it.
    pub lease: Duration,
    /// When it expires.
    pub expires_at: Timestamp,
    /// Its host is proven dead. It is kept only until its items are taken.
    pub ended: bool,
    /// It has expired, and its items are offered to others.
    pub lapsed: bool,
}

impl Life {
    /// The life of a session that attaches.
    #[must_use]
    pub fn begin(host: &Host, now: Timestamp) -> Self {
        Self { lease: host.lease, ..Self::loaded(host.id.clone(), now.after(host.lease)) }
    }

    /// The life of a session from a dump.
    #[must_use]
    pub fn loaded(host: HostId, expires_at: Timestamp) -> Self {
        Self { host, lease: LEASE_UNKNOWN, expires_at, ended: false, lapsed: false }
    }

    /// Whether no other session may take what this one holds.
    #[must_use]
    pub fn lives(&self, now: Timestamp) -> bool {
        !self.ended && self.expires_at > now
    }

    /// Whether the session may commit, complete, release and renew. Expiry alone takes nothing from it.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if it has ended.
    pub fn may_act(&self) -> Result<(), Refused> {
        if self.ended { Err(Refused::Fenced) } else { Ok(()) }
    }

    /// Whether the session may claim. An expired one renews first: two hosts whose leases ran out together, because the
    /// store's clock jumped, would otherwise take everything from each other.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if it has ended, [`Refused::NotExecuted`] if it has expired.
    pub fn may_claim(&self, now: Timestamp) -> Result<(), Refused> {
        self.may_act()?;
        if self.lives(now) {
            return Ok(());
        }
        Err(Refused::NotExecuted(Cause::new("the session has expired; renew it first")))
    }

    /// Attaches again, which renews. Returns what [`renew`](Self::renew) returns.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if it has ended, or belongs to another host.
    pub fn attach(&mut self, host: &Host, now: Timestamp) -> Result<bool, Refused> {
        if self.host != host.id {
            return Err(Refused::Fenced);
        }
        self.may_act()?;
        self.lease = host.lease;
        Ok(self.renew(now))
    }

    /// Keeps the session for another lease. Returns whether its items may be on offer to others, which they no longer are:
    /// it had expired, noticed or not.
    pub fn renew(&mut self, now: Timestamp) -> bool {
        let expired = self.lapsed || self.expires_at <= now;
        (self.expires_at, self.lapsed) = (now.after(self.lease), false);
        expired
    }

    /// Ends the session by proof of death.
    pub fn end(&mut self, now: Timestamp) {
        (self.ended, self.expires_at) = (true, self.expires_at.min(now));
    }

    /// Whether the session has expired unnoticed: its items are to be offered.
    #[must_use]
    pub fn lapses(&self, now: Timestamp) -> bool {
        !self.lapsed && self.expires_at <= now
    }

    /// Whether the session is forgotten if it holds nothing.
    #[must_use]
    pub fn is_old(&self, now: Timestamp) -> bool {
        now.since(self.expires_at) > EXPIRED_AGE_MAX
    }
}
