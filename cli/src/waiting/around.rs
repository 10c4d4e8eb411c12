//! What a store tells of an instance beyond its record: who is there, who has it, who has its activities.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dauer::{Hub, InstanceId, Refused, Timestamp};
use dauer_core::{MessageId, SessionId};
use dauer_store::DumpItem;

/// Parts of the dump that are always looked at: with them a small store is seen as a whole, also on a busy machine.
const PARTS_MIN: u32 = 4;

/// For how long more parts are read: somebody waits for the answer, which is only less exact without them.
const LOOK_TIME: Duration = Duration::from_millis(500);

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Around {
    now: Option<Timestamp>,
    /// Host and end of each session.
    sessions: BTreeMap<SessionId, (String, Timestamp)>,
    /// Since when the instance's next turn can be taken, and by whom it is, if the instance was found.
    turn: Option<(Option<Timestamp>, Option<SessionId>)>,
    /// Its activities that were not answered, with how often they were begun in vain and who has them.
    tasks: BTreeMap<MessageId, (u32, Option<SessionId>)>,
}

/// Who has a turn.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing is there to be done, or nobody looked far enough to know.
    Unknown,
    /// It could run since then, and nobody has it.
    Waits(Timestamp),
    /// A worker that lives has it.
    Runs(String),
}

impl Around {
    /// How many workers are connected, if the store can tell.
    pub(super) fn workers(&self) -> Option<usize> {
        let now = self.now?;
        Some(self.sessions.values().filter(|(_, expires_at)| *expires_at > now).count())
    }

    /// The worker of a session that lives.
    fn host(&self, session: Option<SessionId>) -> Option<String> {
        let (host, expires_at) = self.sessions.get(&session?)?;
        (*expires_at > self.now?).then(|| host.clone())
    }

    pub(super) fn turn(&self) -> Turn {
        let (Some((Some(ready_at), holder)), Some(now)) = (self.turn, self.now) else { return Turn::Unknown };
        match self.host(holder) {
            // A worker may keep an instance for its next turn, while there is nothing to do.
            _ if ready_at > now => Turn::Unknown,
            Some(host) => Turn::Runs(host),
            None => Turn::Waits(ready_at),
        }
    }

    /// How often an activity was begun in vain, and the worker that has it now.
    pub(super) fn task(&self, id: MessageId) -> Option<(u32, Option<String>)> {
        let (attempts, holder) = *self.tasks.get(&id)?;
        Some((attempts, self.host(holder)))
    }

    fn take(&mut self, id: Option<&InstanceId>, item: DumpItem) {
        match item {
            DumpItem::Now(at) => self.now = self.now.or(Some(at)),
            DumpItem::Session(session) => {
                _ = self.sessions.insert(session.id, (session.host.to_string(), session.expires_at));
            }
            DumpItem::Instance(dump) if Some(&dump.id) == id => {
                let ready_at = dump.ready_at.map(|at| at.max(dump.not_before));
                self.turn = Some((ready_at, dump.holder));
            }
            DumpItem::Task(dump) if Some(&dump.task.instance) == id => {
                _ = self.tasks.insert(dump.task.id, (dump.attempts, dump.holder));
            }
            _ => {}
        }
    }
}

/// Looks who is there, and around an instance, if one is given. A server does not let anybody look.
pub(super) async fn around(hub: &Hub, id: Option<&InstanceId>) -> Result<Around, Refused> {
    if hub.is_remote() {
        return Ok(Around::default());
    }
    let hub = hub.manage();
    // A store that knows by more than time whether a host is dead finds the dead ones while it counts the work.
    hub.scale().await?;
    let mut around = Around::default();
    let (began, mut after, mut parts) = (Instant::now(), None, 0);
    loop {
        let part = hub.dump(after.clone()).await?;
        part.items.into_iter().for_each(|item| around.take(id, item));
        parts += 1;
        // Sessions are few, and all in the first part.
        let enough = id.is_none() || (parts >= PARTS_MIN && began.elapsed() > LOOK_TIME);
        match part.next {
            Some(next) if !enough && Some(&next) != after.as_ref() => after = Some(next),
            _ => return Ok(around),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_of_whoever_lives_and_has_it() {
        let (alive, dead) = (SessionId(1), SessionId(2));
        let sessions = [(alive, ("a".to_owned(), Timestamp(11))), (dead, ("d".to_owned(), Timestamp(10)))];
        let turn = |ready_at: Option<i64>, holder| {
            let turn = Some((ready_at.map(Timestamp), holder));
            let (now, sessions) = (Some(Timestamp(10)), sessions.clone().into());
            let around = Around { now, sessions, turn, ..Around::default() };
            assert_eq!(around.workers(), Some(1));
            around.turn()
        };
        assert_eq!(turn(None, None), Turn::Unknown);
        assert_eq!(turn(Some(11), None), Turn::Unknown);
        assert_eq!(turn(Some(11), Some(alive)), Turn::Unknown, "kept for later");
        assert_eq!(turn(Some(10), None), Turn::Waits(Timestamp(10)));
        assert_eq!(turn(Some(9), Some(alive)), Turn::Runs("a".to_owned()));
        assert_eq!(turn(Some(9), Some(dead)), Turn::Waits(Timestamp(9)));
        assert_eq!(Around::default().turn(), Turn::Unknown, "nobody looked");
    }
}
