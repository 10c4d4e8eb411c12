//! Bringing a file of the format before to the current one, in one transaction: it is there as a whole or not at all, and
//! of several processes that open the file at once the first does it. A process that still has the older code and the
//! file open is refused at its next transaction, because every one checks the generation.
//!
//! There is one step, from the format that landed last. Files of earlier formats are refused as older.

use rusqlite::{Transaction, params};

use dauer_store::{ExecutionId, Kind, MessageId, QueueKey, Record, Timestamp};
use dauer_store_kit::codec::{Read, read_base, write_base};

use crate::schema::{FORMAT, GENERATION};

/// The one format that can be migrated.
pub(crate) const MIGRATED: u32 = 6;

/// Format 7 has a floor for new instances, ids of removed starts, and the time at which each start was accepted.
const CHANGES: &str = "
    ALTER TABLE hubs ADD COLUMN floor_epoch INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE hubs ADD COLUMN floor_revision INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE hubs ADD COLUMN removed_starts INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE hubs ADD COLUMN forgotten_starts INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE starts (hub INTEGER NOT NULL, id BLOB NOT NULL, at INTEGER NOT NULL, PRIMARY KEY (hub, id)) WITHOUT ROWID;
    CREATE INDEX starts_by_time ON starts (hub, at);
    DROP INDEX instances_kept;
    ALTER TABLE instances DROP COLUMN grip;
    CREATE INDEX instances_mail ON instances (holder, ready_at)
        WHERE holder IS NOT NULL AND start IS NULL AND ready_at IS NOT NULL;
";

/// Brings a file of format [`MIGRATED`] to the current one. The caller has looked, inside the transaction, that it is of it.
///
/// An instance whose record cannot be read stays as it is: one damaged row must not keep the rest of the file from being
/// opened. Reads report it, as they did before.
pub(crate) fn migrate(file: &Transaction<'_>) -> rusqlite::Result<()> {
    file.execute_batch(CHANGES)?;
    let mut all = file.prepare("SELECT key, created, base FROM instances")?;
    let mut write = file.prepare("UPDATE instances SET base = ?2 WHERE key = ?1")?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        let key = row.get::<_, i64>(0)?;
        let Ok(created) = row.get(1).map(Timestamp) else { continue };
        // Until now a start was accepted when its instance was created.
        if let Ok(base) = accepted_base(row.get_ref(2)?.as_blob().unwrap_or_default(), created) {
            write.execute(params![key, base])?;
        }
    }
    file.execute("UPDATE meta SET format = ?1, generation = ?2", (FORMAT, GENERATION))?;
    file.pragma_update(None, "user_version", FORMAT)?;
    Ok(())
}

/// The base of a record with the time at which its start was accepted.
fn accepted_base(base: &[u8], accepted: Timestamp) -> Read<Vec<u8>> {
    let queue = QueueKey::new(Kind::Orchestration, "", None);
    let mut record = Record::pending(queue, ExecutionId(0), MessageId([0; 16]));
    read_base(base, &mut record)?;
    record.times.accepted = accepted;
    Ok(write_base(&record))
}
