//! Facts that no history has: the next turn of an instance, and the workers that are connected.

use dauer::{Hub, RawClientError, RemoteError, Timestamp};
use dauer_store::{Holder, Inspection};

use crate::error::Failure;

/// The next turn of an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Turn {
    /// It cannot run now, or the instance was not inspected.
    Unknown,
    /// It can run since then, and no live session holds the instance.
    Waits(Timestamp),
    /// This worker, which lives, holds the instance.
    Runs(String),
}

/// The next turn of an instance that was last committed at `updated`.
pub(super) fn turn(inspection: Option<&Inspection>, updated: Timestamp) -> Turn {
    let Some(Inspection { now, ready_at: Some(ready_at), holder, .. }) = inspection else {
        return Turn::Unknown;
    };
    match live_host(holder.as_ref()) {
        // A worker may keep an instance for its next turn while nothing waits.
        _ if ready_at > now => Turn::Unknown,
        Some(host) => Turn::Runs(host),
        // A message that is visible at once has no time of its own: the turn waits since the last commit.
        None => Turn::Waits((*ready_at).max(updated)),
    }
}

/// The worker of a holder whose session lives.
pub(crate) fn live_host(holder: Option<&Holder>) -> Option<String> {
    let holder = holder.filter(|holder| holder.lives)?;
    holder.host.as_ref().map(ToString::to_string)
}

/// How many workers are connected; `None` where the server is older than this call, or not dauer's.
pub(crate) async fn workers(hub: &Hub) -> Result<Option<usize>, Failure> {
    match hub.client().raw().sessions().await {
        Ok(sessions) => {
            let living = sessions.iter().filter(|each| each.session.lives);
            // A server runs no code itself: its session stands for the workers that are connected to it.
            Ok(Some(living.map(|each| each.workers.unwrap_or(1)).sum()))
        }
        Err(RawClientError::Remote(RemoteError::Unsupported { .. })) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use dauer_core::{HostId, SessionId};

    use super::*;

    #[test]
    fn turn_runs_on_a_live_holder_and_waits_otherwise() {
        let holder =
            |lives| Some(Holder { session: SessionId(1), host: Some(HostId::new("a").unwrap()), lives });
        let turn = |ready_at: Option<i64>, holder| {
            let (now, ready_at) = (Timestamp(10), ready_at.map(Timestamp));
            turn(Some(&Inspection { now, ready_at, holder, ..Inspection::default() }), Timestamp(5))
        };
        assert_eq!(turn(None, None), Turn::Unknown);
        assert_eq!(turn(Some(11), None), Turn::Unknown);
        assert_eq!(turn(Some(11), holder(true)), Turn::Unknown, "kept for later");
        assert_eq!(turn(Some(10), None), Turn::Waits(Timestamp(10)));
        assert_eq!(turn(Some(0), None), Turn::Waits(Timestamp(5)), "since the last commit");
        assert_eq!(turn(Some(9), holder(true)), Turn::Runs("a".to_owned()));
        assert_eq!(turn(Some(9), holder(false)), Turn::Waits(Timestamp(9)));
        assert_eq!(super::turn(None, Timestamp(5)), Turn::Unknown, "a server without the service");
    }
}
