//! Every setting of a host, with its default and the reason for it; and the numbers nobody needs to change.

use std::time::Duration;

use dauer_core::limits::TurnLimits;
use dauer_core::model::TroubleKind;

/// How often a client's wait looks for itself when no hint comes: hints may be lost, and this bounds what that costs.
pub(crate) const WAIT_POLL: Duration = Duration::from_secs(2);

/// How often a client's call is sent again when the store did not execute it or its outcome is unknown: with the delays
/// between, about ten seconds, which outlasts a store that is restarted.
pub(crate) const CALL_ATTEMPTS: u32 = 8;

/// The delay before the first of these: a store that was merely busy is free again.
pub(crate) const CALL_RETRY_DELAY: Duration = Duration::from_millis(50);

/// How many times in a row a host that found nothing still believes the time it was told something is due at. More than
/// other hosts that were quicker explain; beyond it the store's clock does not move as this host's does.
pub(crate) const DUE_TRUSTED: u32 = 8;

/// How many hints pass between two looks at who still waits: rare enough to cost nothing, often enough that waits that
/// were given up do not pile up.
pub(crate) const LOOK_EVERY: u32 = 256;

/// The settings of a host.
#[derive(Debug, Clone)]
pub struct HostOptions {
    /// How long the session lives without a renewal. Long enough to sit out a slow disk or a paused machine, short
    /// enough that a dead host's work is not missed for long. Renewed at half.
    pub lease: Duration,
    /// Turns in flight at once. A turn is short; this bounds memory, not cores.
    pub turns_max: usize,
    /// Activities in flight at once. They mostly wait for others.
    pub activities_max: usize,
    /// Bytes of messages one claim may bring.
    pub claim_bytes_max: usize,
    /// Bytes of history read in one call.
    pub history_page_bytes: usize,
    /// Instances whose ledger and live future are kept between turns.
    pub cache_instances_max: usize,
    /// The longest a host sleeps when no hint comes. Hints can be lost; this bounds what that costs.
    pub poll_max: Duration,
    /// The first delay after a failed attempt; doubled with each further one.
    pub retry_delay_min: Duration,
    /// The longest delay after failed attempts.
    pub retry_delay_max: Duration,
    /// An activity that took its host down so often is answered as failed: it would do it again.
    pub task_attempts_max: u32,
    /// An item that failed so often runs alone among its like, so that the next crash blames the right one.
    pub suspect_attempts: u32,
    /// How long a stopping host waits for what it has in flight.
    pub drain_max: Duration,
    /// When trouble becomes Failed.
    pub trouble: TroublePolicy,
    /// The limits of one turn.
    pub limits: TurnLimits,
}

impl Default for HostOptions {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            turns_max: 256,
            activities_max: 256,
            claim_bytes_max: 8 * 1024 * 1024,
            history_page_bytes: 4 * 1024 * 1024,
            cache_instances_max: 4096,
            poll_max: Duration::from_secs(5),
            retry_delay_min: Duration::from_millis(100),
            retry_delay_max: Duration::from_secs(60),
            task_attempts_max: 10,
            suspect_attempts: 2,
            drain_max: Duration::from_secs(10),
            trouble: TroublePolicy::default(),
            limits: TurnLimits::default(),
        }
    }
}

/// After how many attempts each kind of trouble ends the instance as Failed; `None` is never.
#[derive(Debug, Clone)]
pub struct TroublePolicy {
    /// The code does not match the history: never by default, a fixed deployment can go on.
    pub mismatch: Option<u32>,
    /// The name or version is unknown: never by default, the right worker may come.
    pub unknown_name: Option<u32>,
    /// All else: after ten attempts by default; trying for ever helps nobody.
    pub other: Option<u32>,
}

impl Default for TroublePolicy {
    fn default() -> Self {
        Self { mismatch: None, unknown_name: None, other: Some(10) }
    }
}

impl TroublePolicy {
    /// After how many attempts that kind is final.
    #[must_use]
    pub fn attempts_max(&self, kind: TroubleKind) -> Option<u32> {
        match kind {
            TroubleKind::Mismatch => self.mismatch,
            TroubleKind::UnknownName => self.unknown_name,
            _ => self.other,
        }
    }
}
