//! The thread that reads. Its connection sees everything that was committed before a read began.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rusqlite::Connection;

use dauer_store::{Cause, Refused, Timestamp};

use super::time::FileTime;
use super::transaction::Meta;
use crate::fail::refusal;
use crate::open::connect;
use crate::options::Durability;

/// A read that waits: gets the file and the time, or why there is none, and answers its caller.
pub(crate) type Read = Box<dyn FnOnce(Result<(&Connection, Timestamp), Refused>) + Send>;

/// The reading half of one handle.
pub(crate) struct Reader {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) db: Option<Connection>,
    pub(crate) time: Arc<FileTime>,
    pub(crate) reads: Receiver<Option<Read>>,
}

/// How many reads share a snapshot at most: a snapshot that is held long keeps the log from being emptied.
const READS_MAX: usize = 256;

impl Reader {
    /// Works until the order to end (`None`), or until all senders are gone.
    pub(crate) fn run(mut self) {
        while let Ok(Some(read)) = self.reads.recv() {
            // All that wait see what was acknowledged before they were asked: one snapshot does for them.
            let mut reads = vec![read];
            let mut closing = false;
            while reads.len() < READS_MAX
                && let Ok(next) = self.reads.try_recv()
            {
                match next {
                    Some(read) => reads.push(read),
                    None => {
                        closing = true;
                        break;
                    }
                }
            }
            self.serve(reads);
            if closing {
                return;
            }
        }
    }

    fn serve(&mut self, reads: Vec<Read>) {
        if self.db.is_none() {
            self.db = connect(&self.path, self.durability).ok();
        }
        let healthy = match &self.db {
            None => {
                reads.into_iter().for_each(|read| read(Err(not_opened())));
                return;
            }
            Some(db) => {
                in_snapshot(db, &self.time, |file| reads.into_iter().for_each(|read| read(file.clone())))
            }
        };
        if !healthy {
            self.db = None;
        }
    }
}

/// Reads in one snapshot for all statements. Returns whether the connection can be used again.
pub(super) fn in_snapshot(
    db: &Connection,
    time: &FileTime,
    read: impl FnOnce(Result<(&Connection, Timestamp), Refused>),
) -> bool {
    let begun = begin(db).and_then(|()| Meta::read(db));
    read(begun.map(|meta| (db, time.now(meta.latest))));
    db.is_autocommit() || db.prepare_cached("ROLLBACK").and_then(|mut end| end.execute([])).is_ok()
}

/// The refusal while there is no connection.
pub(super) fn not_opened() -> Refused {
    Refused::NotExecuted(Cause::new("the file could not be opened again"))
}

fn begin(db: &Connection) -> Result<(), Refused> {
    db.prepare_cached("BEGIN").and_then(|mut begin| begin.execute([])).map(|_| ()).map_err(refusal)
}
