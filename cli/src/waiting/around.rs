//! Facts about an instance beyond its record: its holder, its tasks, and the workers that are connected.

use dauer::{Hub, Refused, Timestamp};
use dauer_core::MessageId;
use dauer_store::{DumpItem, Holder, Inspection};

/// The surroundings of one instance.
#[derive(Debug, Default)]
pub(super) struct Around {
    /// Connected workers; `None` where the hub is behind a server, which does not list them.
    workers: Option<usize>,
    /// `None` where a server has no management service.
    inspection: Option<Inspection>,
}

/// The state of the next turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// No turn can run now, or the store was not asked.
    Unknown,
    /// It can run since then, and no live session holds the instance.
    Waits(Timestamp),
    /// This worker, which lives, holds the instance.
    Runs(String),
}

/// The worker of a holder whose session lives.
pub(crate) fn live_host(holder: Option<&Holder>) -> Option<String> {
    let holder = holder.filter(|holder| holder.lives)?;
    holder.host.as_ref().map(ToString::to_string)
}

impl Around {
    pub(super) fn workers(&self) -> Option<usize> {
        self.workers
    }

    /// The next turn of an instance that was last committed at `updated`.
    pub(super) fn turn(&self, updated: Timestamp) -> Turn {
        let Some(Inspection { now, ready_at: Some(ready_at), holder, .. }) = &self.inspection else {
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

    /// Failed attempts of an open activity task, and the worker that runs it.
    pub(super) fn task(&self, id: MessageId) -> Option<(u32, Option<String>)> {
        let task = self.inspection.as_ref()?.tasks.iter().find(|task| task.id == id)?;
        Some((task.attempts, live_host(task.holder.as_ref())))
    }
}

/// The surroundings of an instance that was inspected.
pub(super) async fn around(hub: &Hub, inspection: Option<Inspection>) -> Result<Around, Refused> {
    Ok(Around { workers: workers(hub).await?, inspection })
}

/// How many workers are connected. A server does not tell.
pub(super) async fn workers(hub: &Hub) -> Result<Option<usize>, Refused> {
    if hub.is_remote() {
        return Ok(None);
    }
    let hub = hub.manage();
    // Sessions are few, and all in the first part.
    let mut part = hub.dump(None).await?;
    // A store that knows by more than time whether a host is dead finds the dead ones while it counts the work. That is a
    // write, and would create a hub that is not there: without a session there is nothing to find.
    if part.items.iter().any(|item| matches!(item, DumpItem::Session(_))) {
        hub.scale().await?;
        part = hub.dump(None).await?;
    }
    let now = part.items.iter().find_map(|item| match item {
        DumpItem::Now(at) => Some(*at),
        _ => None,
    });
    let lives = |item: &&DumpItem| match item {
        DumpItem::Session(session) => now.is_some_and(|now| session.expires_at > now),
        _ => false,
    };
    Ok(now.map(|_| part.items.iter().filter(lives).count()))
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
            let inspection = Some(Inspection { now, ready_at, holder, ..Inspection::default() });
            Around { inspection, ..Around::default() }.turn(Timestamp(5))
        };
        assert_eq!(turn(None, None), Turn::Unknown);
        assert_eq!(turn(Some(11), None), Turn::Unknown);
        assert_eq!(turn(Some(11), holder(true)), Turn::Unknown, "kept for later");
        assert_eq!(turn(Some(10), None), Turn::Waits(Timestamp(10)));
        assert_eq!(turn(Some(0), None), Turn::Waits(Timestamp(5)), "since the last commit");
        assert_eq!(turn(Some(9), holder(true)), Turn::Runs("a".to_owned()));
        assert_eq!(turn(Some(9), holder(false)), Turn::Waits(Timestamp(9)));
        assert_eq!(Around::default().turn(Timestamp(5)), Turn::Unknown, "a server without the service");
    }
}
