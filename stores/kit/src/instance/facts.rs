//! What a decision looks up beside the instance.

use std::borrow::Cow;
use std::ops::RangeInclusive;

use dauer_store::{ExecutionId, MessageId, SessionId, Timestamp};

use crate::inbox::Admission;
use crate::instance::{HeldTask, Waiting};
use crate::session::Fate;

/// Answers what is not in the head of an instance. A store answers from its maps, or from rows in its transaction. A question
/// is asked only when the decision depends on the answer.
pub trait Facts {
    /// Why the store could not answer. This is no refusal: the whole write fails.
    type Error;

    /// Whether the session lives, or how it ended.
    fn fate(&self, session: SessionId) -> Result<Fate, Self::Error>;

    /// Whether the session lives: no other may take what it holds.
    fn lives(&self, session: SessionId) -> Result<bool, Self::Error> {
        self.fate(session).map(|fate| fate == Fate::Lives)
    }

    /// When the instance applied a message, if it remembers the id.
    fn applied_at(&self, id: MessageId) -> Result<Option<Timestamp>, Self::Error>;

    /// The latest time at which a start with an id in that range was accepted, among those that no instance names any more.
    fn removed_start(&self, ids: &RangeInclusive<MessageId>) -> Result<Option<Timestamp>, Self::Error>;

    /// An open task of the instance.
    fn task(&self, id: MessageId) -> Result<Option<Cow<'_, HeldTask>>, Self::Error>;

    /// The open tasks of one run of the instance; of all runs where none is named.
    fn tasks(&self, run: Option<ExecutionId>) -> Result<Vec<Cow<'_, HeldTask>>, Self::Error>;

    /// A part of a long inbox. A store that loads every inbox as a whole is never asked.
    fn waiting(&self, part: Part<'_>) -> Result<Vec<Waiting>, Self::Error> {
        let _ = part;
        Ok(Vec::new())
    }
}

/// A part of a long inbox.
#[derive(Debug, Clone, Copy)]
pub enum Part<'p> {
    /// All messages.
    All,
    /// The messages with these ids.
    Ids(&'p [MessageId]),
    /// The starts and rewinds.
    Openings,
    /// The messages that precede the inbox.
    Prologue,
    /// The messages that name a run.
    OfRuns,
    /// The first messages that are visible at `now` and admitted, in order: `count` of them at most, and as many as exceed
    /// `bytes` together by one message.
    Ready {
        /// What the instance takes.
        admission: Admission<'p>,
        /// The store's time.
        now: Timestamp,
        /// About as many bytes of events.
        bytes: usize,
    },
    /// The admitted messages that are visible first: the earliest of the prologue and of the inbox.
    Earliest(Admission<'p>),
}
