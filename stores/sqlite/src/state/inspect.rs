//! The sessions of a hub; who holds an instance, what waits for it, which tasks are open: as it lies in the file.

use rusqlite::{OptionalExtension, params};

use dauer_store::{
    Holder, INSPECTED_MAX, Inspection, InstanceId, Message, OpenTask, SessionId, SessionInfo, Waiting,
    WaitingClass,
};
use dauer_store_kit::codec::{CLASS_ORDINARY, host_id, number, read_message};

use super::inbox::{PLAIN, PROLOGUE};
use super::instance::Instance;
use super::sessions::Session;
use super::task::HeldTask;
use super::{View, signed, unsigned};
use crate::fail::Outcome;

impl View<'_> {
    /// Looks at one instance. Whether a process is dead is for the caller to find out.
    pub(crate) fn inspect(&self, id: &InstanceId) -> Outcome<Option<Inspection>> {
        let Some(instance) = self.instance(id)? else { return Ok(None) };
        let (waiting, messages) = self.inspect_inbox(&instance)?;
        let (open, tasks) = self.inspect_tasks(&instance)?;
        let holder = instance.holder.map(|session| self.holder(session)).transpose()?;
        let ready_at = instance.ready_at.map(|at| at.max(instance.not_before));
        Ok(Some(Inspection { now: self.now, holder, ready_at, waiting, messages, open, tasks }))
    }

    /// All sessions of the hub, by id. The caller finds out whether their processes are dead.
    pub(crate) fn list_sessions(&self) -> Outcome<Vec<SessionInfo>> {
        let listed = |session: Session| SessionInfo {
            id: session.id,
            lives: session.life.lives(self.now),
            expires_at: session.life.expires_at,
            host: session.life.host,
        };
        Ok(self.sessions()?.into_iter().map(listed).collect())
    }

    /// How many messages wait, and the first of them.
    fn inspect_inbox(&self, instance: &Instance) -> Outcome<(u64, Vec<Waiting>)> {
        let mut count = self.db.prepare_cached("SELECT count(*) FROM inbox WHERE instance = ?1")?;
        let rows: i64 = count.query_row([instance.key], |row| row.get(0))?;
        let mut find = self.db.prepare_cached(
            "SELECT kind, position, body FROM inbox WHERE instance = ?1
             ORDER BY class = ?2, kind <> 0, position, key LIMIT ?3",
        )?;
        let most = signed(INSPECTED_MAX as u64);
        let mut found = find.query(params![instance.key, CLASS_ORDINARY, most])?;
        let mut waiting = Vec::new();
        while let Some(row) = found.next()? {
            let message = read_message(row.get_ref(2)?.as_blob().unwrap_or_default())?;
            waiting.push((place(row.get(0)?, row.get(1)?, &message), listed(&message)));
        }
        let start = instance.read_start()?;
        let in_row = start.as_ref().map(|start| (place(PLAIN, start.visible_at.0, start), listed(start)));
        if let Some(start) = in_row {
            // It came before all others of its time.
            let at = waiting.partition_point(|(place, _)| *place < start.0);
            waiting.insert(at, start);
            waiting.truncate(INSPECTED_MAX);
        }
        let messages = waiting.into_iter().map(|(_, message)| message).collect();
        Ok((unsigned(rows) + u64::from(start.is_some()), messages))
    }

    /// How many tasks are open, and some of them: rows, and those that lie in the row of the instance.
    fn inspect_tasks(&self, instance: &Instance) -> Outcome<(u64, Vec<OpenTask>)> {
        let mut all: Vec<HeldTask> = instance.taken().cloned().collect();
        all.extend(self.tasks_of(instance.key)?);
        all.sort_by_key(|held| held.task.id);
        let open = all.len() as u64;
        let mut tasks = Vec::new();
        for held in all.into_iter().take(INSPECTED_MAX) {
            tasks.push(OpenTask {
                id: held.task.id,
                event_id: held.task.event_id,
                holder: held.holder.map(|session| self.holder(session)).transpose()?,
                queue: held.task.queue,
                attempts: held.attempts,
                not_before: held.not_before,
                withdrawn: held.withdrawn,
            });
        }
        Ok((open, tasks))
    }

    fn holder(&self, key: i64) -> Outcome<Holder> {
        let mut find = self
            .db
            .prepare_cached("SELECT id, host, ended = 0 AND expires_at > ?2 FROM sessions WHERE key = ?1")?;
        let found = find
            .query_row(params![key, self.now.0], |row| {
                Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?, row.get(2)?))
            })
            .optional()?;
        // A session that is not there, which must never be, is not hidden.
        let Some((id, host, lives)) = found else {
            return Ok(Holder { session: SessionId(u128::from(unsigned(key))), host: None, lives: false });
        };
        Ok(Holder { session: SessionId(number(&id)?), host: Some(host_id(host)?), lives })
    }
}

/// Where a message stands in the list.
fn place(kind: i64, position: i64, message: &Message) -> (bool, bool, i64) {
    let ordinary = WaitingClass::from(&message.class) == WaitingClass::Ordinary;
    (ordinary, kind != PROLOGUE, position)
}

fn listed(message: &Message) -> Waiting {
    Waiting { id: message.id, class: WaitingClass::from(&message.class), visible_at: message.visible_at }
}
