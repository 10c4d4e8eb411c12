//! The file's time, shared by the threads of a handle.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dauer_store::{Clock, Timestamp};

/// Goes on from the latest time that a transaction has written, or that this handle has read.
///
/// Invariant: it never goes backwards and never stands still. When a clock was ahead for a while and is put back, it goes on
/// as fast as time passes; otherwise nothing would be due and no lease would end until the clocks have caught up. The steady
/// clock tells how much has passed: a clock that was behind and is put right leaps, and would end the lease of every session.
pub(crate) struct FileTime {
    clock: Arc<dyn Clock>,
    /// The time that was read last, and what the steady clock showed then.
    last: Mutex<Option<(Timestamp, Timestamp)>>,
}

impl FileTime {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, last: Mutex::default() }
    }

    /// The time now. `latest` is the latest time that the file has.
    pub(crate) fn now(&self, latest: Timestamp) -> Timestamp {
        let (now, steady) = (self.clock.now(), self.clock.steady());
        // A panic while the lock was held leaves a pair that was read together.
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let flown = last.map_or(now, |(time, before)| time.after(steady.since(before)));
        let time = now.max(flown).max(latest);
        *last = Some((time, steady));
        time
    }

    /// How long it is until that time.
    pub(crate) fn until(&self, at: Timestamp) -> Duration {
        at.since(self.now(Timestamp::default()))
    }

    /// The clock of the handle, for what does not concern the file.
    pub(crate) fn of_handle(&self) -> Timestamp {
        self.clock.now()
    }
}
