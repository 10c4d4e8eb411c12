//! Sessions: who lives, may act and may claim (rule 8).

use std::time::Duration;

use dauer_store::{Cause, Host, HostId, Refused, Timestamp};

/// How long an expired session that holds nothing is remembered. A host that slept longer attaches again.
pub const EXPIRED_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The lease of a loaded session until its host attaches again: a dump has only the time of expiry.
pub const LEASE_UNKNOWN: Duration = Duration::from_secs(30);

/// Whether others may take what a session holds, and how that counts (rule 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// No other session may take it.
    Lives,
    /// The session is over.
    Over(End),
}

impl Fate {
    /// The end of a session; none while it lives.
    #[must_use]
    pub fn end(self) -> Option<End> {
        match self {
            Self::Lives => None,
            Self::Over(end) => Some(end),
        }
    }
}

/// The end of a session: by detach, by expiry or by proof of death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// Its process executes user code. Otherwise its workers may live on.
    pub runs_code: bool,
    /// When it ended.
    pub at: Timestamp,
}

impl End {
    /// The end of a session that the store does not know any more: of the kind that leaves no mark.
    pub const FORGOTTEN: Self = Self { runs_code: true, at: Timestamp(0) };
}

/// One host in one hub, without what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Life {
    /// The host.
    pub host: HostId,
    /// How long each renewal keeps it.
    pub lease: Duration,
    /// When it expires.
    pub expires_at: Timestamp,
    /// Its process executes user code.
    pub runs_code: bool,
    /// Its host is proven dead. It is kept only until its items are taken.
    pub ended: bool,
    /// It has expired, and its items are offered to others.
    pub lapsed: bool,
}

impl Life {
    /// The life of a session that attaches.
    #[must_use]
    pub fn begin(host: &Host, now: Timestamp) -> Self {
        let expires_at = now.after(host.lease);
        Self { lease: host.lease, ..Self::loaded(host.id.clone(), expires_at, host.runs_code) }
    }

    /// The life of a session from a dump.
    #[must_use]
    pub fn loaded(host: HostId, expires_at: Timestamp, runs_code: bool) -> Self {
        Self { host, lease: LEASE_UNKNOWN, expires_at, runs_code, ended: false, lapsed: false }
    }

    /// Whether no other session may take what this one holds.
    #[must_use]
    pub fn lives(&self, now: Timestamp) -> bool {
        !self.ended && self.expires_at > now
    }

    /// What becomes of the items of the session.
    #[must_use]
    pub fn fate(&self, now: Timestamp) -> Fate {
        if self.lives(now) { Fate::Lives } else { Fate::Over(self.end_at(self.expires_at)) }
    }

    /// The end of the session at a time.
    #[must_use]
    pub fn end_at(&self, at: Timestamp) -> End {
        End { runs_code: self.runs_code, at }
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
        (self.lease, self.runs_code) = (host.lease, host.runs_code);
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
