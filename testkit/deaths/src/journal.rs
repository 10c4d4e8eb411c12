//! The journal of a worker: one line for each fact, each by a single write, so that a kill leaves no half of a line.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

/// What the library logs when a worker has a stream of work items.
const CONNECTED: &str = "the worker is connected";

/// An open journal.
pub(crate) struct Journal(File);

impl Journal {
    /// Opens a journal for the life of the process.
    pub(crate) fn open(path: &Path) -> io::Result<&'static Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        Ok(Box::leak(Box::new(Self(file))))
    }

    /// Writes a line with the time of the machine and the id of this process.
    pub(crate) fn note(&self, kind: &str, key: &str) {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let line = format!("{time:.6} {kind} {key} {}\n", std::process::id());
        // A test without its journal fails; a worker cannot report it in another way.
        let _ = (&self.0).write_all(line.as_bytes());
    }
}

/// Notes connections, which the library only logs.
pub(crate) struct Connections(pub(crate) &'static Journal);

impl Subscriber for Connections {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("dauer")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut message = Message(false);
        event.record(&mut message);
        if message.0 {
            self.0.note("CONNECTED", "-");
        }
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// True once the message of an event is `CONNECTED`.
struct Message(bool);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 |= field.name() == "message" && format!("{value:?}") == CONNECTED;
    }
}
