//! Where a stopped process stands. One that stands inside a write keeps everyone else from writing, for as long as it is
//! stopped; the kernel says at once which locks it holds, where trying to write would only time out.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// Whoever has a lock on one of these is in the queue of writers, before the others.
const GATES: [&str; 2] = [".turnstile", ".gate"];

/// SQLite's own locks are bytes of this file.
const SHARED_MEMORY: &str = "-shm";

/// The bytes of it that keep others from writing: one to write, one to read the log anew.
const WRITE_BYTES: [u64; 2] = [120, 122];

/// One lock that is held, as the kernel tells it.
#[derive(Debug, PartialEq, Eq)]
struct Lock {
    process: u32,
    inode: u64,
    exclusive: bool,
    first: u64,
    /// To the end of the file when absent.
    last: Option<u64>,
}

impl Lock {
    /// Reads `12: FLOCK  ADVISORY  WRITE 417 fe:00:13213697 0 EOF`; `None` for one that is only waited for.
    fn parse(line: &str) -> Option<Self> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, _, _, access, process, file, first, last] = words[..] else { return None };
        Some(Self {
            process: process.parse().ok()?,
            inode: file.rsplit(':').next()?.parse().ok()?,
            exclusive: access == "WRITE",
            first: first.parse().ok()?,
            last: last.parse().ok(),
        })
    }

    fn covers(&self, byte: u64) -> bool {
        self.first <= byte && self.last.is_none_or(|last| byte <= last)
    }
}

fn beside(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Whether a process that is stopped keeps everyone else from writing to a database.
pub(crate) fn is_inside_a_write(process: u32, database: &Path) -> Result<bool, Error> {
    let inode = |suffix: &str| fs::metadata(beside(database, suffix)).map(|found| found.ino());
    let gates = [inode(GATES[0])?, inode(GATES[1])?];
    let shared = inode(SHARED_MEMORY)?;
    let blocks = |lock: &Lock| {
        let own = lock.inode == shared && WRITE_BYTES.into_iter().any(|byte| lock.covers(byte));
        lock.process == process && lock.exclusive && (gates.contains(&lock.inode) || own)
    };
    Ok(held_by(process)?.iter().any(blocks))
}

/// The locks that a process holds, by its open files. The list of all locks of the machine is told page by page, and whatever
/// moves from one to another while others lock and unlock is not in it.
fn held_by(process: u32) -> Result<Vec<Lock>, Error> {
    let mut held = Vec::new();
    for file in fs::read_dir(format!("/proc/{process}/fdinfo"))? {
        match fs::read_to_string(file?.path()) {
            Ok(told) => held
                .extend(told.lines().filter_map(|line| line.strip_prefix("lock:")).filter_map(Lock::parse)),
            // Closed meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_told_from_what_is_waited_for() {
        let held = Lock::parse("5: FLOCK  ADVISORY  WRITE 417 fe:00:132 0 EOF");
        assert_eq!(held, Some(Lock { process: 417, inode: 132, exclusive: true, first: 0, last: None }));
        assert_eq!(Lock::parse("5: -> FLOCK  ADVISORY  WRITE 417 fe:00:132 0 EOF"), None);
        let bytes = Lock::parse("7: POSIX  ADVISORY  READ 9 fe:00:132 123 126").unwrap();
        assert!(!bytes.exclusive && bytes.covers(123) && !bytes.covers(122) && !bytes.covers(127));
    }

    #[test]
    fn a_process_in_the_gate_is_seen_and_one_that_has_left_it_is_not() {
        let folder = std::env::temp_dir().join(format!("dauer-locks-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let database = folder.join("hub.db");
        for suffix in GATES.into_iter().chain([SHARED_MEMORY]) {
            fs::write(beside(&database, suffix), "").unwrap();
        }
        let gate = fs::File::open(beside(&database, ".gate")).unwrap();
        let inside = || is_inside_a_write(std::process::id(), &database).unwrap();
        assert!(!inside());
        gate.lock().unwrap();
        assert!(inside());
        let other = std::os::unix::process::parent_id();
        assert!(!is_inside_a_write(other, &database).unwrap(), "it is another one");
        gate.unlock().unwrap();
        assert!(!inside());
        fs::remove_dir_all(folder).unwrap();
    }
}
