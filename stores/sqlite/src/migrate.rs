//! Bringing a file of the format before to the current one, in one transaction: it is there as a whole or not at all, and
//! of several processes that open the file at once the first does it. A process that still has the older code and the
//! file open is refused at its next transaction, because every one checks the generation.
//!
//! There is one step, from the format that landed last. Files of earlier formats are refused as older.

use rusqlite::Transaction;

use crate::schema::{FORMAT, GENERATION};

/// The one format that can be migrated.
pub(crate) const MIGRATED: u32 = 7;

/// Format 8 has the order of messages by class and sender. Its starts carry openings; those of format 7 are read as they are.
/// It counts deaths apart from attempts; what format 7 has counted stays with the attempts.
const CHANGES: &str = "
    DROP INDEX inbox_delayed;
    CREATE INDEX inbox_in_order ON inbox (instance, (class = 6 AND kind <> 0), (kind <> 0), position);
    CREATE INDEX inbox_of_sender ON inbox (instance, sender, position) WHERE sender IS NOT NULL;
    ALTER TABLE sessions ADD COLUMN runs_code INTEGER NOT NULL DEFAULT 1;
    ALTER TABLE instances ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE tasks ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE tasks ADD COLUMN mark INTEGER;
";

/// Brings a file of format [`MIGRATED`] to the current one. The caller has looked, inside the transaction, that it is of it.
pub(crate) fn migrate(file: &Transaction<'_>) -> rusqlite::Result<()> {
    file.execute_batch(CHANGES)?;
    file.execute("UPDATE meta SET format = ?1, generation = ?2", (FORMAT, GENERATION))?;
    file.pragma_update(None, "user_version", FORMAT)?;
    Ok(())
}
