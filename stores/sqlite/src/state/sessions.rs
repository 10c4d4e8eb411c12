//! Sessions: one host in one hub. They end by detach, by expiry on the file's clock, or by proof of death.

use std::time::Duration;

use rusqlite::{OptionalExtension, params};

use dauer_store::{Cause, Hint, Host, Lost, Refused, SessionDump, SessionId, Timestamp};
use dauer_store_kit::codec::{host_id, number, read_item};
use dauer_store_kit::instance::{Dirty, Facts};
use dauer_store_kit::judge::millis;
use dauer_store_kit::session::{EXPIRED_AGE_MAX, End, Fate, Life};

use super::{Scope, View, fenced, signed, unsigned};
use crate::fail::{Fail, Outcome};

/// A session as it lies in the store.
#[derive(Clone)]
pub(super) struct Session {
    pub(super) key: i64,
    pub(super) id: SessionId,
    pub(super) life: Life,
}

impl View<'_> {
    pub(super) fn session(&self, id: SessionId) -> Outcome<Option<Session>> {
        let mut find = self.db.prepare_cached(
            "SELECT key, host, lease, expires_at, ended, lapsed, runs_code FROM sessions
             WHERE hub = ?1 AND id = ?2",
        )?;
        let mut rows = find.query(params![self.hub, id.0.to_be_bytes()])?;
        let Some(row) = rows.next()? else { return Ok(None) };
        let life = Life {
            host: host_id(row.get::<_, String>(1)?)?,
            lease: Duration::from_millis(unsigned(row.get(2)?)),
            expires_at: Timestamp(row.get(3)?),
            ended: row.get(4)?,
            lapsed: row.get(5)?,
            runs_code: row.get(6)?,
        };
        Ok(Some(Session { key: row.get(0)?, id, life }))
    }

    /// All sessions of the hub, by id.
    pub(super) fn sessions(&self) -> Outcome<Vec<Session>> {
        let mut all = self.db.prepare_cached("SELECT id FROM sessions WHERE hub = ?1 ORDER BY id")?;
        let ids = all.query_map([self.hub], |row| row.get::<_, Vec<u8>>(0))?;
        let mut sessions = Vec::new();
        for id in ids {
            sessions.extend(self.session(SessionId(number(&id?)?))?);
        }
        Ok(sessions)
    }

    /// The id of a session by its key.
    pub(super) fn session_id(&self, key: i64) -> Outcome<Option<SessionId>> {
        let mut find = self.db.prepare_cached("SELECT id FROM sessions WHERE key = ?1")?;
        let id: Option<Vec<u8>> = find.query_row([key], |row| row.get(0)).optional()?;
        Ok(id.map(|id| number(&id)).transpose()?.map(SessionId))
    }

    pub(super) fn session_fate(&self, id: SessionId) -> Outcome<Fate> {
        let session = self.session(id)?;
        Ok(session.map_or(Fate::Over(End::FORGOTTEN), |session| session.life.fate(self.now)))
    }

    /// A session that may still act. Expiry alone takes nothing from it.
    pub(super) fn acting(&self, id: SessionId) -> Outcome<Session> {
        let Some(session) = self.session(id)? else { return fenced() };
        session.life.may_act()?;
        Ok(session)
    }
}

impl Scope<'_, '_> {
    /// Checks that a session may still act, out of memory or the file. Returns the key of its host.
    pub(super) fn actor(&mut self, id: SessionId) -> Outcome<i64> {
        let session = self.known_session(id)?;
        self.host_key(&session.life.host)
    }

    /// The key of a session that may claim.
    pub(super) fn claimer(&mut self, id: SessionId) -> Outcome<i64> {
        let session = self.known_session(id)?;
        session.life.may_claim(self.now)?;
        Ok(session.key)
    }

    fn known_session(&mut self, id: SessionId) -> Outcome<Session> {
        if let Some(session) = self.group.hot.session(self.view.hub, id) {
            session.life.may_act()?;
            return Ok(session.clone());
        }
        let session = self.view.acting(id)?;
        self.group.hot.put_session(self.view.hub, session.clone());
        Ok(session)
    }

    /// The key of a session, out of memory or the file; nothing for one that has no row any more.
    pub(super) fn session_key(&mut self, id: SessionId) -> Outcome<Option<i64>> {
        if let Some(key) = key_of_gone(id) {
            return Ok(Some(key));
        }
        let hub = self.view.hub;
        if let Some(session) = self.group.hot.session(hub, id) {
            return Ok(Some(session.key));
        }
        if let Some(key) = self.group.known.session_keys.get(&(hub, id)) {
            return Ok(Some(*key));
        }
        let key = self.session(id)?.map(|session| session.key);
        self.group.known.session_keys.extend(key.map(|key| ((hub, id), key)));
        Ok(key)
    }

    /// The key of a holder, for a column.
    pub(super) fn holder_key(&mut self, holder: Option<SessionId>) -> Outcome<Option<i64>> {
        let Some(id) = holder else { return Ok(None) };
        match self.session_key(id)? {
            Some(key) => Ok(Some(key)),
            None => Err(Fail::Broken(Refused::Corrupt(Cause::new("a session that holds something is gone")))),
        }
    }

    /// Whether a session is there, unexpired and not ended: no other may take what it holds.
    pub(super) fn lives(&self, id: SessionId) -> Outcome<bool> {
        self.facts(None).lives(id)
    }

    /// Opens a session; the same again, after an unknown outcome, renews it.
    pub(crate) fn attach(&mut self, host: &Host) -> Outcome<()> {
        match self.session(host.session)? {
            Some(mut known) => {
                let expired = known.life.attach(host, self.now)?;
                self.touch()?;
                self.extend(&known, expired)?;
            }
            None => {
                self.touch()?;
                let (hub, life) = (self.view.hub, Life::begin(host, self.now));
                self.run(
                    "INSERT INTO sessions (hub, id, host, lease, expires_at, ended, lapsed, runs_code)
                     VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, ?6)",
                    params![
                        hub,
                        host.session.0.to_be_bytes(),
                        life.host.as_str(),
                        signed(millis(life.lease)),
                        life.expires_at.0,
                        life.runs_code
                    ],
                )?;
            }
        }
        // Last: the session that attaches again may be one of them.
        self.forget_old_sessions()
    }

    /// Keeps a session and all it holds for another lease, also after it has expired: items that no other session took are still its own.
    /// Answers with what was taken from it beyond what it `has_heard` of, and up to where that goes.
    pub(crate) fn renew(&mut self, id: SessionId, has_heard: i64) -> Outcome<(Vec<Lost>, i64)> {
        let mut session = self.acting(id)?;
        let expired = session.life.renew(self.now);
        self.extend(&session, expired)?;
        self.run("DELETE FROM lost WHERE session = ?1 AND key <= ?2", params![session.key, has_heard])?;
        let mut find =
            self.db.prepare_cached("SELECT key, item FROM lost WHERE session = ?1 ORDER BY key")?;
        let mut rows = find.query([session.key])?;
        let (mut lost, mut until) = (Vec::new(), has_heard);
        while let Some(row) = rows.next()? {
            until = row.get(0)?;
            lost.push(Lost { item: read_item(&row.get::<_, Vec<u8>>(1)?)? });
        }
        Ok((lost, until))
    }

    /// Writes that a session goes on. If it had expired, its items may have been on offer.
    fn extend(&mut self, session: &Session, expired: bool) -> Outcome<()> {
        self.group.hot.forget_sessions();
        self.run(
            "UPDATE sessions SET lease = ?2, expires_at = ?3, lapsed = 0, runs_code = ?4 WHERE key = ?1",
            params![
                session.key,
                signed(millis(session.life.lease)),
                session.life.expires_at.0,
                session.life.runs_code
            ],
        )?;
        if expired {
            self.group.hot.clear();
            for sql in [
                "UPDATE instances SET place = NULL WHERE holder = ?1",
                "UPDATE tasks SET place = NULL WHERE holder = ?1",
            ] {
                self.run(sql, [session.key])?;
            }
        }
        Ok(())
    }

    /// Ends a session by its own wish: all it holds is free. A session that is gone is detached already.
    pub(crate) fn detach(&mut self, id: SessionId) -> Outcome<()> {
        let Some(session) = self.session(id)?.filter(|session| session.life.may_act().is_ok()) else {
            return Ok(());
        };
        let end = session.life.end_at(self.now);
        for key in self.held_turns(session.key)? {
            if let Some(mut loaded) = self.fetch_at(key)? {
                let mut changes = self.changes();
                loaded.instance.let_go(&mut changes);
                self.finish(loaded, changes)?;
            }
        }
        for key in self.held_tasks(session.key)? {
            if let Some(mut row) = self.task_at(key)? {
                let stays = row.held.let_go(end);
                self.let_task_go(row, stays)?;
            }
        }
        self.remove_session(session.key)?;
        self.hint(Hint::SessionEnded(id));
        Ok(())
    }

    /// Ends a session whose host is dead. Its items keep their holder until they are taken, which counts a death.
    pub(crate) fn end_session(&mut self, id: SessionId) -> Outcome<()> {
        let Some(mut session) = self.session(id)? else { return Ok(()) };
        session.life.end(self.now);
        self.group.hot.forget_sessions();
        self.run(
            "UPDATE sessions SET ended = 1, expires_at = ?2 WHERE key = ?1",
            params![session.key, session.life.expires_at.0],
        )?;
        self.lapse(&session)?;
        self.forget_if_gone(session.key)
    }

    /// Ends the sessions of hosts that are dead, as far as there is proof.
    fn bury_the_dead(&mut self) -> Outcome<()> {
        if !self.group.lives.is_time_for_claim(self.view.now) {
            return Ok(());
        }
        for session in self.sessions()? {
            if !session.life.ended && self.group.lives.is_dead(session.id) {
                self.end_session(session.id)?;
                self.group.buried.push(session.id);
            }
        }
        Ok(())
    }

    /// Offers what expired sessions hold to others. Before every claim: expiry is a matter of time, not of a call.
    pub(super) fn sweep(&mut self) -> Outcome<()> {
        self.bury_the_dead()?;
        let mut find = self
            .view
            .db
            .prepare_cached("SELECT id FROM sessions WHERE hub = ?1 AND lapsed = 0 AND expires_at <= ?2")?;
        let rows = find.query_and_then(params![self.hub, self.now.0], |row| {
            session_of(row.get_ref(0)?.as_blob().unwrap_or_default())
        })?;
        for id in rows.collect::<Outcome<Vec<_>>>()? {
            if let Some(session) = self.session(id)? {
                self.lapse(&session)?;
            }
        }
        Ok(())
    }

    fn lapse(&mut self, session: &Session) -> Outcome<()> {
        self.group.hot.forget_sessions();
        self.run("UPDATE sessions SET lapsed = 1 WHERE key = ?1", [session.key])?;
        self.hint(Hint::SessionEnded(session.id));
        self.settle_held(session)
    }

    /// Finds again whether others may take what a session holds. Withdrawn tasks of one that does not live go with it.
    pub(super) fn settle_held(&mut self, session: &Session) -> Outcome<()> {
        for key in self.held_turns(session.key)? {
            let Some(mut loaded) = self.fetch_at(key)? else { continue };
            self.put_out(&mut loaded)?;
            self.write_row(&mut loaded, Dirty::HOLDER)?;
            self.put_back(loaded);
        }
        let lives = self.lives(session.id)?;
        for key in self.held_tasks(session.key)? {
            if let Some(row) = self.task_at(key)? {
                let stays = lives || row.held.outlives_holder();
                self.let_task_go(row, stays)?;
            }
        }
        Ok(())
    }

    /// Notes that something was taken from a session.
    pub(super) fn tell_lost(&mut self, session: i64, item: &[u8]) -> Outcome<()> {
        self.run("INSERT INTO lost (session, item) VALUES (?1, ?2)", params![session, item])?;
        Ok(())
    }

    /// Forgets a dead session once nothing is held in its name.
    pub(super) fn forget_if_gone(&mut self, key: i64) -> Outcome<()> {
        let mut gone = self.view.db.prepare_cached(
            "SELECT 1 FROM sessions WHERE key = ?1 AND ended = 1
                AND NOT EXISTS (SELECT 1 FROM instances WHERE holder = ?1)
                AND NOT EXISTS (SELECT 1 FROM tasks WHERE holder = ?1)",
        )?;
        if gone.exists([key])? {
            self.remove_session(key)?;
        }
        Ok(())
    }

    fn forget_old_sessions(&mut self) -> Outcome<()> {
        let before = self.now.before(EXPIRED_AGE_MAX).0;
        let mut find = self.view.db.prepare_cached(
            "SELECT key FROM sessions AS s WHERE hub = ?1 AND expires_at < ?2
                AND NOT EXISTS (SELECT 1 FROM instances WHERE holder = s.key)
                AND NOT EXISTS (SELECT 1 FROM tasks WHERE holder = s.key)",
        )?;
        let old = find.query_map(params![self.hub, before], |row| row.get::<_, i64>(0))?;
        for key in old.collect::<rusqlite::Result<Vec<_>>>()? {
            self.remove_session(key)?;
        }
        Ok(())
    }

    fn remove_session(&mut self, key: i64) -> Outcome<()> {
        self.group.hot.forget_sessions();
        self.group.known.session_keys.retain(|_, known| *known != key);
        self.run("DELETE FROM lost WHERE session = ?1", [key])?;
        self.run("DELETE FROM sessions WHERE key = ?1", [key])?;
        Ok(())
    }

    fn held_turns(&self, session: i64) -> Outcome<Vec<i64>> {
        let mut find = self.db.prepare_cached("SELECT key FROM instances WHERE holder = ?1")?;
        let rows = find.query_map([session], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    fn held_tasks(&self, session: i64) -> Outcome<Vec<i64>> {
        let mut find = self.db.prepare_cached("SELECT key FROM tasks WHERE holder = ?1")?;
        let rows = find.query_map([session], |row| row.get(0))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }

    /// Puts a session of a dump into its place.
    pub(super) fn load_session(&mut self, dump: &SessionDump) -> Outcome<()> {
        let (hub, life) = (self.view.hub, Life::loaded(dump.host.clone(), dump.expires_at, dump.runs_code));
        self.run(
            "INSERT INTO sessions (hub, id, host, lease, expires_at, ended, lapsed, runs_code)
             VALUES (?1, ?2, ?3, ?4, ?5, 0, 0, ?6)
             ON CONFLICT DO UPDATE SET host = ?3, lease = ?4, expires_at = ?5, runs_code = ?6",
            params![
                hub,
                dump.id.0.to_be_bytes(),
                life.host.as_str(),
                signed(millis(life.lease)),
                life.expires_at.0,
                life.runs_code
            ],
        )?;
        Ok(())
    }
}

/// The high half of the id of a session that has no row any more. No host draws it.
const GONE: u128 = u128::MAX << 64;

/// The id under which a session is known of which only the key is left.
pub(super) fn gone(key: i64) -> SessionId {
    SessionId(GONE | u128::from(key.cast_unsigned()))
}

/// The key that is left of such a session.
fn key_of_gone(id: SessionId) -> Option<i64> {
    let low = u64::try_from(id.0 & !GONE).ok()?;
    (id.0 & GONE == GONE).then_some(low.cast_signed())
}

/// The id of a session in a column.
pub(super) fn session_of(bytes: &[u8]) -> Outcome<SessionId> {
    Ok(SessionId(number(bytes)?))
}
