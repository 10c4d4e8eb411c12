//! L1, as far as two dumps of one hub can show it: instances that were ready all the time between them, and did not move.
//!
//! One dump cannot tell a turn that runs from one that a host has lost. Two can: an instance that is ready, held by a session
//! that was renewed in between, and stands at the same epoch and revision, belongs to a host that lives and does nothing with
//! it. It may be a turn that takes long, so that it is suspicious and no violation. What the host itself says decides.

use std::fmt;
use std::time::Duration;

use dauer_core::{Epoch, HostId, InstanceId, Revision, SessionId, Timestamp};
use dauer_store::InstanceDump;

use crate::Snapshot;

/// How many leases two dumps must be apart: within one every living session renews, and begins what it has claimed.
pub const LEASES_APART: u32 = 2;

/// What two dumps of one hub show.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Progress {
    /// How many instances were ready in both.
    pub checked: u64,
    /// Ready, and held by a session that was renewed in between.
    pub suspicious: Vec<Standstill>,
    /// Ready, and held by no session: none asks for them.
    pub unclaimed: Vec<Standstill>,
}

/// An instance that was ready in two dumps and did not move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standstill {
    /// Which.
    pub instance: InstanceId,
    /// The name of the code that it waits for.
    pub code: String,
    /// The session that holds it, and its host.
    pub holder: Option<(SessionId, HostId)>,
    /// Its epoch in both dumps.
    pub epoch: Epoch,
    /// Its revision in both dumps.
    pub revision: Revision,
    /// For how long it had been ready when the second dump began.
    pub ready_for: Duration,
}

/// Two dumps that prove nothing about each other.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Incomparable {
    /// The second dump began too early.
    #[error(
        "the second dump began {} ms after the first, and a host has up to {} ms to begin a turn; wait longer between the two",
        .apart.as_millis(), .needed.as_millis()
    )]
    TooClose {
        /// The time between the two.
        apart: Duration,
        /// The time that there must be.
        needed: Duration,
    },
    /// The second dump began before the first.
    #[error("the second dump began before the first; give the earlier one first")]
    WrongOrder,
}

impl fmt::Display for Standstill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { instance, code, holder, epoch, revision, ready_for } = self;
        let seconds = ready_for.as_secs();
        match holder {
            Some((_, host)) => write!(
                f,
                "{instance}: ready for {seconds} s, held by the living host {host} without a commit \
                 (epoch {}, revision {}); if no turn of it takes that long, restart the host",
                epoch.0, revision.0
            ),
            None => write!(
                f,
                "{instance}: ready for {seconds} s, and no session claims it; start a worker that has '{code}'"
            ),
        }
    }
}

/// Compares two dumps of one hub whose hosts have that lease.
///
/// # Errors
/// [`Incomparable`] when the dumps are in the wrong order, or less than [`LEASES_APART`] leases apart.
pub fn progress(first: &Snapshot, second: &Snapshot, lease: Duration) -> Result<Progress, Incomparable> {
    if second.now < first.now {
        return Err(Incomparable::WrongOrder);
    }
    let (apart, needed) = (second.now.since(first.now), lease * LEASES_APART);
    if apart < needed {
        return Err(Incomparable::TooClose { apart, needed });
    }
    let mut progress = Progress::default();
    for (id, after) in &second.instances {
        let Some(before) = first.instances.get(id) else { continue };
        let (Some(since), Some(_)) = (ready(before, first.now), ready(after, second.now)) else { continue };
        progress.checked += 1;
        if !is_same(before, after) {
            continue;
        }
        let standstill = Standstill {
            instance: id.clone(),
            code: after.record.queue.name.to_string(),
            holder: after
                .holder
                .and_then(|holder| Some((holder, second.sessions.get(&holder)?.host.clone()))),
            epoch: after.epoch,
            revision: after.record.revision,
            ready_for: second.now.since(since),
        };
        match after.holder {
            Some(holder) if was_renewed(first, second, holder) => progress.suspicious.push(standstill),
            // The lease of a dead session runs out, and another session takes what it held.
            Some(_) => {}
            None => progress.unclaimed.push(standstill),
        }
    }
    Ok(progress)
}

/// Since when an instance could be claimed, if it can.
fn ready(dump: &InstanceDump, now: Timestamp) -> Option<Timestamp> {
    dump.ready_at.map(|at| at.max(dump.not_before)).filter(|at| *at <= now)
}

fn is_same(before: &InstanceDump, after: &InstanceDump) -> bool {
    let facts = |dump: &InstanceDump| (dump.record.execution, dump.record.revision, dump.epoch, dump.holder);
    facts(before) == facts(after)
}

fn was_renewed(first: &Snapshot, second: &Snapshot, session: SessionId) -> bool {
    let expiry = |snapshot: &Snapshot| snapshot.sessions.get(&session).map(|session| session.expires_at);
    matches!((expiry(first), expiry(second)), (Some(before), Some(after)) if after > before)
}
