//! Bringing a file of the format before to the current one, in one transaction: it is there as a whole or not at all, and
//! of several processes that open the file at once the first does it. A process that still has the older code and the
//! file open is refused at its next transaction, because every one checks the generation.
//!
//! There is one step, from the format that landed last. Files of earlier formats are refused as older.

use rusqlite::Transaction;

use crate::schema::{FORMAT, GENERATION};

/// The one format that can be migrated.
pub(crate) const MIGRATED: u32 = 8;

/// Format 9 has the key of a hub, deaths during trials and open trials.
const CHANGES: &str = "
    ALTER TABLE hubs ADD COLUMN token_key BLOB;
    ALTER TABLE instances ADD COLUMN trials INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE tasks ADD COLUMN trials INTEGER NOT NULL DEFAULT 0;
";

/// Brings a file of format [`MIGRATED`] to the current one. The caller has looked, inside the transaction, that it is of it.
pub(crate) fn migrate(file: &Transaction<'_>) -> rusqlite::Result<()> {
    file.execute_batch(CHANGES)?;
    file.execute("UPDATE meta SET format = ?1, generation = ?2", (FORMAT, GENERATION))?;
    file.pragma_update(None, "user_version", FORMAT)?;
    Ok(())
}
