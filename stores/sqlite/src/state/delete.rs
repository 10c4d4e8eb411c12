//! Deleting a whole hub, a part at a time, so that no transaction is long. An interrupted call is repeated.

use rusqlite::params;

use dauer_store::{Cause, Refused};

use super::{ABSENT, Scope};
use crate::fail::Outcome;

/// Instances that one transaction deletes.
const PART_INSTANCES: i64 = 500;

/// Rows that belong to the hub.
const OF_HUB: [&str; 7] = [
    "DELETE FROM tags WHERE hub = ?1",
    "DELETE FROM lost WHERE session IN (SELECT key FROM sessions WHERE hub = ?1)",
    "DELETE FROM sessions WHERE hub = ?1",
    "DELETE FROM queues WHERE hub = ?1",
    "DELETE FROM dropped WHERE hub = ?1",
    "DELETE FROM starts WHERE hub = ?1",
    "DELETE FROM hubs WHERE key = ?1",
];

impl Scope<'_, '_> {
    /// Deletes a part; whether there is more. A hub that a living host works in is left alone.
    pub(crate) fn delete(&mut self) -> Outcome<bool> {
        if self.hub == ABSENT {
            return Ok(false);
        }
        for session in self.sessions()? {
            if session.life.lives(self.now) && !self.group.lives.is_dead(session.id) {
                let reason =
                    format!("the host '{}' works in this hub; stop it first", session.life.host.as_str());
                return Err(Refused::NotExecuted(Cause::new(reason)).into());
            }
        }
        let hub = self.hub;
        let keys: Vec<i64> = {
            let mut find = self.db.prepare_cached("SELECT key FROM instances WHERE hub = ?1 LIMIT ?2")?;
            find.query_map(params![hub, PART_INSTANCES], |row| row.get(0))?
                .collect::<rusqlite::Result<_>>()?
        };
        // The cache may have some of these instances.
        self.group.hot.clear();
        for key in &keys {
            self.erase_at(*key)?;
        }
        if !keys.is_empty() {
            self.give_back_pages()?;
            return Ok(true);
        }
        for sql in OF_HUB {
            self.run(sql, [hub])?;
        }
        self.group.unlearn();
        Ok(false)
    }
}
