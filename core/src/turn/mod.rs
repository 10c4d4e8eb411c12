//! The turn: history, inbox and a worker's actions become one checkpoint.
//!
//! ```text
//! claimed instance ──▶ begin ──▶ Plan ──▶ worker ──▶ Answer ──▶ finish ──▶ Checkpoint
//!                                  ├──── nothing to run ───────▶ settle ──┤
//!                                  └──── a rewind ─────────────▶ obey ────┘
//! ```
//!
//! [`begin`] decides what each message is worth: an event for the worker, or nothing. The worker turns events into
//! actions. [`finish`] carries the actions out: each becomes a history event and, where it has an effect, a task, a
//! timer or a message, all in one [`Checkpoint`].

mod act;
mod amend;
mod among;
mod begin;
mod early;
mod end;
mod finish;
mod rewind;
mod unborn;

use std::sync::Arc;

use dauer_proto::{HistoryEvent, OrchestrationTraceContext, OrchestratorAction};

use crate::ids::{InstanceId, MessageId, Timestamp};
use crate::ledger::{Ledger, LedgerError};
use crate::model::{
    BlobError, Checkpoint, Completion, Details, Encoded, Fate, Fence, Message, Record, TroubleKind,
};

pub use amend::{Found, amend, promote};
pub use begin::begin;
pub use end::fail;
pub use finish::{finish, settle};
pub use rewind::{obey, rewind};

/// What a host claimed: the arguments of [`begin`].
#[derive(Debug, Clone)]
pub struct Input {
    /// What the commit must carry.
    pub fence: Fence,
    /// The instance without its history.
    pub record: Record,
    /// The messages, in the store's order.
    pub messages: Vec<Message>,
    /// Results of tasks that this host holds, which were never in the inbox. Those that the turn cannot use now,
    /// because it is suspended, are missing in the checkpoint's completions: deliver them as messages.
    pub completions: Vec<Completion>,
    /// The store's time.
    pub now: Timestamp,
}

/// What a worker answered.
#[derive(Debug, Clone, Default)]
pub struct Answer {
    /// What it wants done.
    pub actions: Vec<OrchestratorAction>,
    /// Overwrites the custom status: absent or empty clears it (behaviour 26).
    pub custom_status: Option<String>,
    /// To be sent back with the next work item (behaviour 16).
    pub trace: Option<OrchestrationTraceContext>,
}

/// What a turn is going to do.
#[derive(Debug, Clone)]
pub struct Plan {
    pub(crate) fence: Fence,
    /// The details that the instance has before the turn, by which the checkpoint knows whether they change. The record may be
    /// that of another run already.
    pub(crate) before: Details,
    pub(crate) record: Record,
    pub(crate) completions: Vec<Completion>,
    pub(crate) now: Timestamp,
    /// The events that the turn adds to the history before the worker's actions. Shared with the worker.
    pub(crate) events: Arc<Vec<HistoryEvent>>,
    /// Where each of them is from.
    pub(crate) origins: Vec<NewEvent>,
    pub(crate) fates: Vec<(MessageId, Fate)>,
    pub(crate) refusals: Vec<Message>,
    pub(crate) step: Step,
}

/// One of the events that the turn adds to the history before the worker's actions.
#[derive(Debug, Clone)]
pub(crate) struct NewEvent {
    pub(crate) encoded: Encoded,
    /// The message that brought it.
    pub(crate) source: Option<MessageId>,
}

/// How a plan goes on.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// The worker has to run; on a history that is empty when `fresh`.
    Run { fresh: bool },
    /// Nothing for the worker: messages are only taken off.
    Quiet,
    /// A terminate is among the events: the run ends without running code.
    Terminate,
    /// The run is ended and this start takes its place.
    Replace(Box<Message>),
    /// The run has ended, and its parent, which was rewound, asks for the answer again.
    AnswerAgain,
    /// The failed run is rewound, for this reason.
    Rewind(Option<String>),
}

impl Plan {
    /// The events for the worker; empty when there is nothing to run, and [`settle`] makes the checkpoint. Not copied: a
    /// worker that lets go of them before [`finish`] is called saves copying them there.
    #[must_use]
    pub fn new_events(&self) -> Arc<Vec<HistoryEvent>> {
        if self.is_run() { Arc::clone(&self.events) } else { Arc::default() }
    }

    /// Whether the worker has to run.
    #[must_use]
    pub fn is_run(&self) -> bool {
        matches!(self.step, Step::Run { .. })
    }

    /// Whether the run begins here, in place of one that has ended: history and ledger start empty.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        matches!(self.step, Step::Run { fresh: true })
    }

    /// Whether the run is to be rewound, for which [`obey`] makes the checkpoint from the whole history.
    #[must_use]
    pub fn is_rewind(&self) -> bool {
        matches!(self.step, Step::Rewind(_))
    }

    /// The record the worker runs under: that of the new run, if it is fresh.
    #[must_use]
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The fence of the commit.
    #[must_use]
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Whose turn it is.
    #[must_use]
    pub fn instance(&self) -> &InstanceId {
        &self.fence.instance
    }

    /// The time of the turn: never backwards, never before a timer that it delivers.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }
}

/// A checkpoint, and the ledger as it is once that has been committed.
#[derive(Debug, Clone)]
pub struct Finished {
    /// What to commit.
    pub checkpoint: Checkpoint,
    /// The details afterwards, also where the checkpoint does not carry them.
    pub details: Details,
    /// The ledger afterwards; worthless if the commit is refused.
    pub ledger: Ledger,
    /// The events of the batch, for a cache of decoded history.
    pub events: Vec<HistoryEvent>,
}

/// Why a turn cannot be taken. The instance is stalled, not lost: it is tried again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Stalled {
    /// What kind of trouble.
    pub kind: TroubleKind,
    /// What happened and what to do.
    pub reason: String,
    /// The build id of the worker that had the trouble, where it is another process than the host.
    pub build: Option<Arc<str>>,
}

impl Stalled {
    /// A stall of that kind.
    pub fn new(kind: TroubleKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), build: None }
    }

    /// The same stall, of a worker with that build id.
    #[must_use]
    pub fn of_build(self, build: Option<Arc<str>>) -> Self {
        Self { build, ..self }
    }

    pub(crate) fn too_large(what: &str, found: u64, allowed: u64) -> Self {
        let hint = "split the work, continue as new, or raise the limit";
        Self::new(TroubleKind::TooLarge, format!("{what}: {found}, at most {allowed} are allowed; {hint}"))
    }
}

impl From<BlobError> for Stalled {
    fn from(error: BlobError) -> Self {
        Self::new(TroubleKind::Undecodable, error.to_string())
    }
}

impl From<LedgerError> for Stalled {
    fn from(error: LedgerError) -> Self {
        let kind = match error {
            LedgerError::Blob(_) => TroubleKind::Undecodable,
            _ => TroubleKind::InvalidAnswer,
        };
        Self::new(kind, error.to_string())
    }
}
