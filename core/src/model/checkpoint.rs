//! The checkpoint: everything one turn changes, as one value.

use std::time::Duration;

use crate::ids::{Epoch, ExecutionId, InstanceId, MessageId, Revision};
use crate::model::{Batch, Completion, Message, NextRecord, Task};

/// What every commit carries and the store compares in the same write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The instance.
    pub instance: InstanceId,
    /// The run it was claimed in.
    pub execution: ExecutionId,
    /// How many commits it had.
    pub revision: Revision,
    /// Whose turn it is.
    pub epoch: Epoch,
}

/// What a commit does to the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum History {
    /// Adds events to the current run.
    Append(Batch),
    /// Puts a new run in place of the current one.
    Replace {
        /// The new run.
        execution: ExecutionId,
        /// Its history so far.
        batches: Vec<Batch>,
        /// Messages that precede the inbox: the start and what is carried over.
        prologue: Vec<Message>,
    },
}

/// What becomes of the claim after the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The session keeps the instance; the commit answers with what has arrived meanwhile.
    Keep,
    /// Anyone may claim it, after this delay.
    Release {
        /// Not before so long.
        delay: Duration,
    },
}

/// Everything one turn changes. It is there as a whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// What was claimed.
    pub fence: Fence,
    /// Exactly these messages are taken from the inbox; what is not named stays, in its place.
    pub consumed: Vec<MessageId>,
    /// Results of tasks this session holds, used by this turn without ever having been in the inbox.
    pub completions: Vec<Completion>,
    /// What happens to the history.
    pub history: History,
    /// The record as it is afterwards; the store sets revision and times. Its details are there only if they change: those
    /// that it does not carry stay.
    pub record: NextRecord,
    /// New activity tasks.
    pub tasks: Vec<Task>,
    /// Messages to itself: timers.
    pub timers: Vec<Message>,
    /// Messages to instances.
    pub messages: Vec<Message>,
    /// So many of the new tasks are leased to this session in the same write.
    pub take: usize,
    /// What becomes of the claim.
    pub then: Then,
}
