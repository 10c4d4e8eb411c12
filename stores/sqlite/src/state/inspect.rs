//! The sessions of a hub; the holder, the waiting messages and the open tasks of an instance.

use rusqlite::params;

use dauer_store::{Holder, INSPECTED_MAX, Inspection, InstanceId, OpenTask, SessionId, SessionInfo, Waiting};
use dauer_store_kit::codec::CLASS_ORDINARY;
use dauer_store_kit::instance::{HeldTask, Inbox};

use super::sessions::Session;
use super::stored::Loaded;
use super::{View, signed, unsigned};
use crate::fail::Outcome;

impl View<'_> {
    /// Looks at one instance. Whether a process is dead is for the caller to find out.
    pub(crate) fn inspect(&self, id: &InstanceId) -> Outcome<Option<Inspection>> {
        let Some(loaded) = self.instance(id)? else { return Ok(None) };
        let Loaded { instance, stored } = &loaded;
        let (waiting, messages) = self.inspect_inbox(&loaded)?;
        let all = self.tasks_of(stored, None)?;
        let open = all.len() as u64;
        let tasks = all.into_iter().take(INSPECTED_MAX).map(|held| self.open_task(held));
        let tasks = tasks.collect::<Outcome<_>>()?;
        let holder = instance.holder.map(|session| self.holder(session)).transpose()?;
        let ready_at = instance.offered_at();
        Ok(Some(Inspection { now: self.now, holder, ready_at, waiting, messages, open, tasks }))
    }

    /// All sessions of the hub, by id. The caller finds out whether their processes are dead.
    pub(crate) fn list_sessions(&self) -> Outcome<Vec<SessionInfo>> {
        let listed = |session: Session| SessionInfo {
            id: session.id,
            lives: session.life.lives(self.now),
            expires_at: session.life.expires_at,
            runs_code: session.life.runs_code,
            host: session.life.host,
        };
        Ok(self.sessions()?.into_iter().map(listed).collect())
    }

    /// How many messages wait, and the first of them: starts, rewinds and control before ordinary ones.
    fn inspect_inbox(&self, loaded: &Loaded) -> Outcome<(u64, Vec<Waiting>)> {
        if let Some(inbox) = loaded.instance.inbox() {
            return Ok((inbox.len() as u64, inbox.inspected()));
        }
        let instance = loaded.stored.key;
        let mut count = self.db.prepare_cached("SELECT count(*) FROM inbox WHERE instance = ?1")?;
        let rows = count.query_row([instance], |row| row.get(0))?;
        let sql = "SELECT key, kind, position, body FROM inbox WHERE instance = ?1
            ORDER BY class = ?2, kind <> 0, position, key LIMIT ?3";
        let most = signed(INSPECTED_MAX as u64);
        let first = self.read_inbox(sql, params![instance, CLASS_ORDINARY, most])?;
        Ok((unsigned(rows), Inbox::of(first).inspected()))
    }

    fn open_task(&self, held: HeldTask) -> Outcome<OpenTask> {
        Ok(OpenTask {
            id: held.id(),
            event_id: held.task.event_id,
            holder: held.holder.map(|session| self.holder(session)).transpose()?,
            queue: held.task.queue,
            attempts: held.attempts,
            deaths: held.deaths,
            mark: held.mark,
            not_before: held.not_before,
            withdrawn: held.withdrawn,
        })
    }

    /// A holder without a row must never be there; it is not hidden.
    fn holder(&self, session: SessionId) -> Outcome<Holder> {
        let life = self.session(session)?.map(|session| session.life);
        let lives = life.as_ref().is_some_and(|life| life.lives(self.now));
        Ok(Holder { session, host: life.map(|life| life.host), lives })
    }
}
