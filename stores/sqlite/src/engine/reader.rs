//! The thread that reads. Its connection sees everything that was committed before a read began.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use rusqlite::Connection;

use dauer_store::{Refused, Timestamp};

use super::transaction::Meta;
use crate::fail::refusal;
use crate::open::connect;
use crate::options::Durability;
use dauer_store::Clock;

/// A read that waits: gets the file and the time, or why there is none, and answers its caller.
pub(crate) type Read = Box<dyn FnOnce(Result<(&Connection, Timestamp), Refused>) + Send>;

/// The reading half of one handle.
pub(crate) struct Reader {
    pub(crate) path: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) db: Option<Connection>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) reads: Receiver<Option<Read>>,
}

/// How many reads share a snapshot at most: a snapshot that is held long keeps the log from being emptied.
const READS_MAX: usize = 256;

impl Reader {
    /// Works until it is told to end (`None`), or nobody is left to tell it anything.
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
        let begun = match &self.db {
            None => {
                let reason = "the file could not be opened again";
                Err(Refused::NotExecuted(dauer_store::Cause::new(reason)))
            }
            // One snapshot for all statements.
            Some(db) => {
                begin(db).and_then(|()| Meta::read(db)).map(|meta| (db, meta.now(self.clock.as_ref())))
            }
        };
        for read in reads {
            read(begun.clone());
        }
        if let Some(db) = &self.db
            && !db.is_autocommit()
            && db.prepare_cached("ROLLBACK").and_then(|mut end| end.execute([])).is_err()
        {
            self.db = None;
        }
    }
}

fn begin(db: &Connection) -> Result<(), Refused> {
    db.prepare_cached("BEGIN").and_then(|mut begin| begin.execute([])).map(|_| ()).map_err(refusal)
}
