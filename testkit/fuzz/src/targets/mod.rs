//! The targets: what is read, and what is claimed of it.

mod answer;
mod check;
mod event;
mod history;
mod id;
mod replay;
mod url;

use crate::{Verdict, corpus, life};

pub use history::{Stored, StoredBatch};
pub(crate) use history::{absorb, claim, own_start};
pub(crate) use id::KINDS;
pub(crate) use replay::replay;

/// One kind of input.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it reads and what must hold.
    pub about: &'static str,
    /// The function. It panics when a claim is broken, and for nothing else.
    pub run: fn(&[u8]) -> Verdict,
    /// The ends that a run of some thousand inputs has to reach, else it tests less than it says: accepted or not, and
    /// the [`Verdict::what`].
    pub ends: &'static [(bool, &'static str)],
    /// Valid inputs to begin with.
    pub corpus: fn() -> Vec<Vec<u8>>,
}

/// All targets.
pub const ALL: &[Target] = &[
    Target {
        name: "history",
        about: "stored batches and messages: decoded, absorbed, and a whole turn taken from them",
        run: history::run,
        ends: &[
            (true, "turn"),
            (true, "settled"),
            (false, "container"),
            (false, "blob"),
            (false, "still open"),
            (false, "begin"),
            (false, "finish"),
        ],
        corpus: life::stored,
    },
    Target {
        name: "replay",
        about: "stored batches replayed by an orchestration, and its answer carried out",
        run: replay::run,
        ends: &[(true, "turn"), (true, "quiet"), (false, "history"), (false, "mismatch")],
        corpus: life::stored,
    },
    Target {
        name: "event",
        about: "one history event from the wire",
        run: event::run,
        ends: &[(true, "event"), (false, "bytes"), (false, "field")],
        corpus: corpus::events,
    },
    Target {
        name: "answer",
        about: "a worker's responses from the wire, put together and carried out",
        run: answer::run,
        ends: &[
            (true, "append"),
            (true, "end"),
            (true, "next run"),
            (false, "bytes"),
            (false, "assembly"),
            (false, "answer"),
        ],
        corpus: corpus::answers,
    },
    Target {
        name: "url",
        about: "URLs of stores",
        run: url::run,
        ends: &[(true, "sqlite"), (true, "memory"), (false, "unknown store"), (false, "not text")],
        corpus: corpus::urls,
    },
    Target {
        name: "id",
        about: "ids and names that users choose, and the ids that dauer prints",
        run: id::run,
        ends: &[
            (true, "instance id"),
            (false, "instance id"),
            (true, "hub name"),
            (false, "hub name"),
            (true, "host id"),
            (false, "host id"),
            (true, "name"),
            (false, "name"),
            (true, "execution id"),
            (false, "execution id"),
            (false, "not text"),
        ],
        corpus: corpus::ids,
    },
];

/// The target of that name.
#[must_use]
pub fn by_name(name: &str) -> Option<Target> {
    ALL.iter().find(|target| target.name == name).copied()
}
