//! Opening and creating the file: safe when several processes do it at once.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use crate::gate::Gate;
use crate::migrate::{MIGRATED, migrate};
use crate::options::{Durability, OpenError};
use crate::schema::{APPLICATION_ID, FORMAT, GENERATION, TABLES};

/// How long a statement waits for a lock that another program than dauer holds: dauer's own processes queue at the gate.
const BUSY_WAIT: Duration = Duration::from_secs(10);

/// Statements that a connection keeps prepared: more than this crate has.
const STATEMENTS_KEPT: usize = 256;

/// Pages in the write-ahead log from which a commit moves them into the file (16 MB): larger makes long stalls, smaller more
/// writes. With half of it a busy hub takes a tenth more processor time, with twice as much no less.
const CHECKPOINT_PAGES: u32 = 4_000;

/// The path of a file that belongs to the database.
pub(crate) fn side_path(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    PathBuf::from(name)
}

/// Opens or creates a file that only this user may touch.
pub(crate) fn private_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Creates the database file, empty, for this user alone; does nothing when it is there. A file that is there must not
/// be opened except by SQLite: when any descriptor of it is closed, the system forgets all locks that other handles of
/// this process have on it.
fn create_private(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.map(|_| ()),
    }
}

/// Checks the place, creates what is missing, and gives the gate of this handle.
pub(crate) fn prepare(path: &Path, durability: Durability) -> Result<Gate, OpenError> {
    let failed = |source: io::Error| failure(path, source);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(OpenError::DirectoryMissing(path.into()));
    }
    if path.exists() && !path.is_file() {
        return Err(OpenError::NotAFile(path.into()));
    }
    refuse_network(path, folder)?;
    let gate = Gate::open(path).map_err(failed)?;
    {
        // Creation and migration are a write like any other: one process at a time.
        let _passage = gate.pass().map_err(failed)?;
        create_private(path).map_err(failed)?;
        let (first, content) = look(path)?;
        let failed = |error| sqlite_failure(path, error);
        match content {
            Content::OurTables => {}
            Content::Nothing => {
                // Both only have an effect before the first table; later they would be a write of their own.
                let set = first.pragma_update(None, "page_size", 4096);
                set.and_then(|()| first.pragma_update(None, "auto_vacuum", "INCREMENTAL")).map_err(failed)?;
                settings(&first, durability).map_err(failed)?;
                create(path, first)?;
            }
            Content::Migrated => {
                settings(&first, durability).map_err(failed)?;
                create(path, first)?;
            }
        }
    }
    Ok(gate)
}

fn failure(path: &Path, source: io::Error) -> OpenError {
    match source.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            OpenError::ReadOnly { path: path.into(), source: source.into() }
        }
        _ => OpenError::Io { path: path.into(), source },
    }
}

/// A connection with all settings.
pub(crate) fn connect(path: &Path, durability: Durability) -> Result<Connection, OpenError> {
    configure(path, durability).map_err(|error| sqlite_failure(path, error))
}

fn configure(path: &Path, durability: Durability) -> rusqlite::Result<Connection> {
    let connection = plain(path)?;
    settings(&connection, durability)?;
    Ok(connection)
}

/// A connection that has changed nothing.
fn plain(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(BUSY_WAIT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    // Otherwise every statement whose plan a value could influence is compiled again for each value.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

fn settings(connection: &Connection, durability: Durability) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(()))?;
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update_and_check(None, "wal_autocheckpoint", CHECKPOINT_PAGES, |_| Ok(()))
}

fn sqlite_failure(path: &Path, error: rusqlite::Error) -> OpenError {
    use rusqlite::ErrorCode::{CannotOpen, NotADatabase, PermissionDenied, ReadOnly};
    match error.sqlite_error_code() {
        Some(NotADatabase) => OpenError::NotADatabase(path.into()),
        Some(ReadOnly | CannotOpen | PermissionDenied) => {
            OpenError::ReadOnly { path: path.into(), source: error.into() }
        }
        _ => OpenError::Sqlite { path: path.into(), source: error },
    }
}

/// The content of a file.
enum Content {
    Nothing,
    /// Tables of the one format that can be migrated.
    Migrated,
    OurTables,
}

/// Looks before anything is changed: the settings of a connection would change the database of another program.
fn look(path: &Path) -> Result<(Connection, Content), OpenError> {
    let connection = plain(path).map_err(|error| sqlite_failure(path, error))?;
    let content = content(path, &connection)?;
    make_log_durable(path, &connection).map_err(|source| failure(path, source))?;
    Ok((connection, content))
}

/// Makes the log durable that a dead process may have left, before anything of it gets into the file. After a sync that
/// failed the system takes what it could not write for written: it is still read, but no further sync writes it. SQLite
/// believes what it reads, moves it into the file, and a loss of power meanwhile would leave half of it there and no log.
/// Written again, it is durable.
fn make_log_durable(path: &Path, connection: &Connection) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    let mut log = match OpenOptions::new().read(true).write(true).open(PathBuf::from(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        log => log?,
    };
    // So that no process writes to the log meanwhile. A process that does is alive, and knows where the log ends. SQLite has no
    // locks on the log itself that closing it could release.
    if connection.execute_batch("BEGIN IMMEDIATE").is_err() {
        return Ok(());
    }
    let written = write_again(&mut log);
    // What was not begun need not be ended; the connection is not used for anything that would mind.
    let _ = connection.execute_batch("ROLLBACK");
    written
}

/// Bytes of the log that are held at a time: a long read makes it large.
const LOG_PART_BYTES: usize = 1 << 20;

/// Writes the content of a file over itself, and makes it durable.
fn write_again(file: &mut File) -> io::Result<()> {
    let mut part = vec![0; LOG_PART_BYTES];
    let mut position = 0;
    loop {
        file.seek(SeekFrom::Start(position))?;
        let count = file.read(&mut part)?;
        if count == 0 {
            return file.sync_data();
        }
        file.seek(SeekFrom::Start(position))?;
        file.write_all(&part[..count])?;
        position += count as u64;
    }
}

/// Whether a file is empty or ours; everything else is refused.
fn content(path: &Path, connection: &Connection) -> Result<Content, OpenError> {
    let failed = |error: rusqlite::Error| sqlite_failure(path, error);
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(failed);
    let newer = |format: i64| OpenError::Newer {
        path: path.into(),
        format: u32::try_from(format).unwrap_or(u32::MAX),
    };
    if number("SELECT count(*) FROM sqlite_schema")? == 0 {
        return Ok(Content::Nothing);
    }
    if number("PRAGMA application_id")? != APPLICATION_ID {
        return Err(OpenError::NotADatabase(path.into()));
    }
    let format = number("PRAGMA user_version")?;
    match u32::try_from(format) {
        Ok(FORMAT) => {}
        Ok(MIGRATED) => return Ok(Content::Migrated),
        Ok(older) if older < MIGRATED => return Err(OpenError::Older { path: path.into(), format: older }),
        _ => return Err(newer(format)),
    }
    // The tables have changed since: a newer dauer of the same format was here.
    match number("SELECT generation FROM meta")? {
        GENERATION => Ok(Content::OurTables),
        _ => Err(newer(format + 1)),
    }
}

/// Makes the tables in an empty file, or brings an older one to the current format.
fn create(path: &Path, mut connection: Connection) -> Result<(), OpenError> {
    let failed = |error: rusqlite::Error| sqlite_failure(path, error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    // Another process may have been quicker.
    match content(path, &transaction)? {
        Content::OurTables => return Ok(()),
        Content::Migrated => migrate(&transaction).map_err(failed)?,
        Content::Nothing => {
            transaction.execute_batch(TABLES).map_err(failed)?;
            transaction
                .execute("INSERT INTO meta VALUES (1, ?1, ?2, 0, 0)", (FORMAT, GENERATION))
                .map_err(failed)?;
            transaction.pragma_update(None, "application_id", APPLICATION_ID).map_err(failed)?;
            transaction.pragma_update(None, "user_version", FORMAT).map_err(failed)?;
        }
    }
    transaction.commit().map_err(failed)
}

/// Locks on network file systems are not kept, or not by everyone: SQLite then destroys its file.
#[cfg(target_os = "linux")]
fn refuse_network(path: &Path, folder: &Path) -> Result<(), OpenError> {
    // A system that does not tell is taken at its word: the file opens as on any disk.
    let Ok(found) = rustix::fs::statfs(folder) else { return Ok(()) };
    // The field is signed on some systems; the numbers have 32 bits.
    match network(found.f_type as u64 & 0xFFFF_FFFF) {
        Some(kind) => Err(OpenError::Network { path: path.into(), kind }),
        None => Ok(()),
    }
}

/// The network file system that the system has this number for, if it is one.
#[cfg(target_os = "linux")]
fn network(magic: u64) -> Option<&'static str> {
    const NETWORK: [(u64, &str); 7] = [
        (0x6969, "NFS"),
        (0xFF53_4D42, "CIFS"),
        (0xFE53_4D42, "SMB2"),
        (0x517B, "SMB"),
        (0x0102_1997, "9P"),
        (0x5346_414F, "AFS"),
        (0x00C3_6400, "Ceph"),
    ];
    NETWORK.into_iter().find(|(number, _)| *number == magic).map(|(_, kind)| kind)
}

#[cfg(not(target_os = "linux"))]
fn refuse_network(_path: &Path, _folder: &Path) -> Result<(), OpenError> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_numbers() {
        // From the kernel's list: NFS, SMB2, and for comparison ext4 and tmpfs.
        assert_eq!(network(0x6969), Some("NFS"));
        assert_eq!(network(0xFE53_4D42), Some("SMB2"));
        assert_eq!(network(0xEF53), None);
        assert_eq!(network(0x0102_1994), None);
    }

    #[test]
    fn what_cannot_be_written_is_refused_as_such() {
        // The system's own tree takes no files from anyone.
        let refused = prepare(Path::new("/sys/dauer.db"), Durability::Full);
        assert!(matches!(refused, Err(OpenError::ReadOnly { .. })));
    }
}
