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

impl Reader {
    /// Works until it is told to end (`None`), or nobody is left to tell it anything.
    pub(crate) fn run(mut self) {
        while let Ok(Some(read)) = self.reads.recv() {
            self.serve(read);
        }
    }

    fn serve(&mut self, read: Read) {
        if self.db.is_none() {
            self.db = connect(&self.path, self.durability).ok();
        }
        let Some(db) = &self.db else {
            let reason = "the file could not be opened again";
            return read(Err(Refused::NotExecuted(dauer_store::Cause::new(reason))));
        };
        // One snapshot for all statements of a read.
        match db.execute_batch("BEGIN").map_err(refusal).and_then(|()| Meta::read(db)) {
            Ok(meta) => read(Ok((db, meta.now(self.clock.as_ref())))),
            Err(refused) => read(Err(refused)),
        }
        if !db.is_autocommit() && db.execute_batch("ROLLBACK").is_err() {
            self.db = None;
        }
    }
}
