//! SQLite's write-ahead log as bytes: which of them are commits, so that one knows what a tear may take.
//!
//! The log is a header and frames, each a page with a checksum that goes on from the frame before. Whoever reads it stops
//! at the first frame that does not fit, and takes nothing behind the last frame that ends a commit. (The format is
//! described at sqlite.org/fileformat2.html#walformat.)

use std::ops::Range;

/// Bytes before the first frame.
const HEADER: usize = 32;

/// Bytes before the page in a frame.
const FRAME_HEADER: usize = 24;

/// What a log begins with; the last bit says that the checksums are those of a big-endian machine.
const MAGIC: u32 = 0x377f_0682;

/// Where in the shared memory it is noted how many frames may have been moved into the file.
const MOVED_AT: usize = 128;

/// What is in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Log {
    /// Where each commit ends, in bytes from the start.
    pub(crate) commits: Vec<usize>,
    /// Where the frames that fit end.
    pub(crate) fits: usize,
    frame: usize,
}

/// Numbers of the format are big-endian.
fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The running checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sum(u32, u32);

impl Sum {
    fn add(mut self, bytes: &[u8], big: bool) -> Self {
        let word = |four: &[u8]| match <[u8; 4]>::try_from(four) {
            Ok(four) if big => u32::from_be_bytes(four),
            Ok(four) => u32::from_le_bytes(four),
            // Headers and pages are multiples of eight bytes.
            Err(_) => 0,
        };
        for eight in bytes.chunks_exact(8) {
            self.0 = self.0.wrapping_add(word(&eight[..4])).wrapping_add(self.1);
            self.1 = self.1.wrapping_add(word(&eight[4..])).wrapping_add(self.0);
        }
        self
    }
}

impl Log {
    /// Reads a log; `None` when there is none, or nothing that fits.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let magic = number(bytes, 0)?;
        let big = magic == MAGIC | 1;
        let page = usize::try_from(number(bytes, 8)?).ok()?;
        let mut sum = Sum(0, 0).add(&bytes[..HEADER - 8], big);
        if magic & !1 != MAGIC || Some(sum.0) != number(bytes, 24) || Some(sum.1) != number(bytes, 28) {
            return None;
        }
        let (salts, frame) = (bytes.get(16..24)?, FRAME_HEADER + page);
        let (mut commits, mut at) = (Vec::new(), HEADER);
        while let Some(next) = bytes.get(at..at + frame) {
            sum = sum.add(&next[..8], big).add(&next[FRAME_HEADER..], big);
            let stored = (number(next, 16)?, number(next, 20)?);
            if next.get(8..16) != Some(salts) || (sum.0, sum.1) != stored {
                break;
            }
            at += frame;
            // The size of the file after a commit; zero in every other frame.
            if number(next, 4)? != 0 {
                commits.push(at);
            }
        }
        Some(Self { commits, fits: at, frame })
    }

    /// Where the last commit ends: all that was ever acknowledged is before.
    pub(crate) fn end(&self) -> usize {
        self.commits.last().copied().unwrap_or(HEADER)
    }

    /// Where a tear takes commits, and nothing that has been moved into the file: in front of that, pages of later
    /// commits lie in the file already, and it would be no state at all. `shared` is the memory that the processes had.
    pub(crate) fn tearable(&self, shared: &[u8]) -> Range<usize> {
        let moved = shared.get(MOVED_AT..MOVED_AT + 4).and_then(|four| four.try_into().ok());
        let moved = moved.map_or(0, u32::from_ne_bytes) as usize;
        HEADER + moved * self.frame..self.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    #[test]
    fn a_log_of_sqlite_has_a_commit_for_each_transaction_up_to_where_it_is_damaged() {
        let folder = std::env::temp_dir().join(format!("dauer-wal-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = folder.join("a.db");
        let database = Connection::open(&file).unwrap();
        database.pragma_update_and_check(None, "journal_mode", "WAL", |_| Ok(())).unwrap();
        database.execute_batch("CREATE TABLE t (x)").unwrap();
        for number in 0..9 {
            database.execute("INSERT INTO t VALUES (?1)", [number]).unwrap();
        }
        let mut bytes = std::fs::read(folder.join("a.db-wal")).unwrap();
        let log = Log::read(&bytes).unwrap();
        assert_eq!((log.commits.len(), log.end(), log.fits), (10, bytes.len(), bytes.len()));
        let shared = std::fs::read(folder.join("a.db-shm")).unwrap();
        assert_eq!(log.tearable(&shared), HEADER..bytes.len(), "nothing was moved yet");
        database.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
        let shared = std::fs::read(folder.join("a.db-shm")).unwrap();
        assert!(log.tearable(&shared).is_empty(), "all of it was moved");
        // A byte in the seventh commit: six are left.
        bytes[log.commits[6] - 1] ^= 1;
        let torn = Log::read(&bytes).unwrap();
        assert_eq!(torn.commits, log.commits[..6]);
        bytes[3] ^= 4;
        assert_eq!(Log::read(&bytes), None);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
