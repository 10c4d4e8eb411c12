//! Bringing a file of an older format to the current one, in one transaction: it is there as a whole or not at all, and
//! of several processes that open the file at once the first does it. A process that still has the older code and the
//! file open is refused at its next transaction, because every one checks the generation.

use rusqlite::{Connection, Row, Transaction, params};

use crate::schema::{FORMAT, GENERATION, TABLES};
use crate::wire::{
    Unreadable, hold_code, read_record, read_task, status_code, write_base, write_details, write_task_body,
};

/// Why a file could not be migrated; it is as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MigrateError {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// What of format 1 lies under a name that the current format has too.
const TABLES_1: [&str; 12] = [
    "meta",
    "hubs",
    "queues",
    "sessions",
    "lost",
    "instances",
    "history",
    "inbox",
    "outbox",
    "applied",
    "tasks",
    "dropped",
];
const INDEXES_1: [&str; 12] = [
    "lost_of_session",
    "instances_by_id",
    "instances_by_created",
    "instances_by_completed",
    "instances_ready",
    "instances_held",
    "history_of_instance",
    "inbox_of_instance",
    "inbox_delayed",
    "outbox_of_hub",
    "tasks_ready",
    "tasks_held",
];

/// What needs no code. Keys stay, and the counters of those that must never come again.
const COPY: &str = "
    INSERT INTO hubs SELECT key, name, pristine FROM old_hubs;
    INSERT INTO queues SELECT key, hub, kind, name, version FROM old_queues;
    INSERT INTO sessions SELECT * FROM old_sessions;
    INSERT INTO lost SELECT * FROM old_lost;
    DELETE FROM sqlite_sequence WHERE name IN ('sessions', 'lost');
    INSERT INTO sqlite_sequence (name, seq)
        SELECT substr(name, 5), seq FROM sqlite_sequence WHERE name IN ('old_sessions', 'old_lost');
    INSERT INTO hosts (name) SELECT DISTINCT owner FROM old_history;
    INSERT INTO history SELECT h.key, instance, first, revision, epoch, o.key, at, count, trail, events, NULL
        FROM old_history AS h JOIN hosts AS o ON o.name = h.owner;
    INSERT INTO inbox SELECT key, instance, kind, message, position, visible, class, sender, execution, bytes, body
        FROM old_inbox;
    INSERT INTO outbox SELECT * FROM old_outbox;
    INSERT INTO applied SELECT * FROM old_applied;
    INSERT INTO dropped SELECT * FROM old_dropped;
";

/// Brings a file of that format to the current one. The caller has looked, inside the transaction, that it is of it.
pub(crate) fn migrate(file: &Transaction<'_>, format: Older) -> Result<(), MigrateError> {
    match format {
        Older::Format1 => from_format_1(file),
        Older::Format2 => from_format_2(file),
        Older::Format3 => from_format_3(file),
        Older::Format4 => from_format_4(file),
        Older::Format5 => from_format_5(file),
    }
}

/// A format that is read, and no longer written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Older {
    Format1,
    Format2,
    Format3,
    Format4,
    Format5,
}

/// Format 3 has tasks in the rows of their instances, where there were none yet.
fn from_format_2(file: &Transaction<'_>) -> Result<(), MigrateError> {
    file.execute_batch("ALTER TABLE instances ADD COLUMN taken BLOB")?;
    from_format_3(file)
}

/// In format 4 the index of tags may be behind, and says how far it goes; until now it had all.
fn from_format_3(file: &Transaction<'_>) -> Result<(), MigrateError> {
    file.execute_batch(
        "ALTER TABLE meta ADD COLUMN tagged INTEGER NOT NULL DEFAULT 0;
         UPDATE meta SET tagged = (SELECT ifnull(max(key), 0) FROM instances)",
    )?;
    from_format_4(file)
}

/// In format 5 the last row of a history may say how its instance stands; until now the row of the instance did.
fn from_format_4(file: &Transaction<'_>) -> Result<(), MigrateError> {
    file.execute_batch("ALTER TABLE history ADD COLUMN tail BLOB")?;
    from_format_5(file)
}

/// In format 6 the message that an instance was made by may lie in its row; until now all were in the inbox.
fn from_format_5(file: &Transaction<'_>) -> Result<(), MigrateError> {
    file.execute_batch("ALTER TABLE instances ADD COLUMN start BLOB")?;
    file.execute("UPDATE meta SET format = ?1, generation = ?2", (FORMAT, GENERATION))?;
    file.pragma_update(None, "user_version", FORMAT)?;
    Ok(())
}

/// Everything lies otherwise.
fn from_format_1(file: &Transaction<'_>) -> Result<(), MigrateError> {
    for index in INDEXES_1 {
        file.execute_batch(&format!("DROP INDEX {index}"))?;
    }
    for table in TABLES_1 {
        file.execute_batch(&format!("ALTER TABLE {table} RENAME TO old_{table}"))?;
    }
    file.execute_batch(TABLES)?;
    file.execute_batch(COPY)?;
    each(file, "SELECT * FROM old_instances", instance)?;
    each(file, "SELECT key, body FROM old_tasks", task)?;
    file.execute(
        "INSERT INTO meta SELECT 1, ?1, ?2, latest, (SELECT ifnull(max(key), 0) FROM instances) FROM old_meta", (FORMAT, GENERATION))?;
    for table in TABLES_1 {
        file.execute_batch(&format!("DROP TABLE old_{table}"))?;
    }
    file.pragma_update(None, "user_version", FORMAT)?;
    Ok(())
}

fn each(
    file: &Connection,
    sql: &str,
    change: impl Fn(&Connection, &Row<'_>) -> Result<(), MigrateError>,
) -> Result<(), MigrateError> {
    let mut all = file.prepare(sql)?;
    let mut rows = all.query([])?;
    while let Some(row) = rows.next()? {
        change(file, row)?;
    }
    Ok(())
}

/// The record was one blob; what every turn changes is in columns now.
fn instance(file: &Connection, row: &Row<'_>) -> Result<(), MigrateError> {
    let record = read_record(row.get_ref("record")?.as_blob().unwrap_or_default())?;
    let (key, hub): (i64, i64) = (row.get("key")?, row.get("hub")?);
    file.prepare_cached(
        "INSERT INTO instances SELECT key, hub, id, queue, offered, ?2, ?3, revision, epoch, ?4, ?5, stalled, ?6,
            created, ?7, completed, ?8, ?9, holder, grip, ready_at, not_before, place, remembered, last, ?10, NULL, NULL
         FROM old_instances WHERE key = ?1",
    )?
    .execute(params![
        key,
        record.execution.0.to_be_bytes(),
        record.generation,
        status_code(record.status),
        hold_code(&record.hold),
        record.attempts,
        record.times.updated.0,
        record.history_len,
        i64::try_from(record.history_bytes).unwrap_or(i64::MAX),
        write_base(&record),
    ])?;
    if let Some(details) = write_details(&record) {
        file.prepare_cached("INSERT INTO details VALUES (?1, ?2)")?.execute(params![key, details])?;
    }
    for (name, value) in &record.tags {
        file.prepare_cached(
            "INSERT INTO tags (hub, name, value, created, instance) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![hub, name, value, record.times.created.0, key])?;
    }
    Ok(())
}

/// The body repeated what columns had.
fn task(file: &Connection, row: &Row<'_>) -> Result<(), MigrateError> {
    let (key, body): (i64, Vec<u8>) = (row.get(0)?, row.get(1)?);
    file.prepare_cached(
        "INSERT INTO tasks SELECT key, hub, instance, task, execution, queue, epoch, holder, attempts, ready_at,
            not_before, withdrawn, place, ?2 FROM old_tasks WHERE key = ?1",
    )?
    .execute(params![key, write_task_body(&read_task(&body)?)])?;
    Ok(())
}
