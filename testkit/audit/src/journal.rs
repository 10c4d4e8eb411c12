//! What others saw: the journal of a client, and the journal of every commit that a simulator keeps. Both are
//! optional; without them some invariants are not checked.

use std::collections::{BTreeMap, BTreeSet};

use dauer_core::model::{Checkpoint, Class, Fence, History, Message, Origin, Status};
use dauer_core::{ExecutionId, InstanceId, MessageId, Revision, Timestamp};

/// What an audit may use besides the dump.
#[derive(Debug, Clone, Copy, Default)]
pub struct Evidence<'a> {
    /// What clients and workers were told.
    pub client: Option<&'a ClientJournal>,
    /// Every commit since the hub was empty.
    pub commits: Option<&'a CommitJournal>,
}

/// What clients and workers did and were told, in the order of the answers. Refused operations are left out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientJournal {
    /// The operations.
    pub operations: Vec<Operation>,
}

impl ClientJournal {
    /// The operations of each instance, in their order.
    pub(crate) fn by_instance(&self) -> BTreeMap<&InstanceId, Vec<&Operation>> {
        let mut by_instance: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for operation in &self.operations {
            by_instance.entry(&operation.instance).or_default().push(operation);
        }
        by_instance
    }
}

/// One operation of a client or worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// The instance it was about.
    pub instance: InstanceId,
    /// What it was.
    pub action: Action,
    /// What the caller was told.
    pub outcome: Outcome,
    /// When, by the store's clock or one that is near.
    pub at: Timestamp,
}

/// What a caller was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is done, whatever happens now.
    Acknowledged,
    /// It may or may not have happened. Proves nothing, but explains what is found.
    Unknown,
}

/// What a caller did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Started the instance.
    Started {
        /// The run it begins.
        execution: ExecutionId,
        /// The id of the start message.
        start: MessageId,
    },
    /// Was told that the instance exists: by a start whose ids it does not know, or by a look.
    Found,
    /// Was told how the instance ended.
    Ended {
        /// Which run of it, if the caller knows.
        execution: Option<ExecutionId>,
        /// How.
        status: Status,
        /// With which output or text, if the caller looked at it.
        output: Option<String>,
    },
    /// Raised an event.
    Raised {
        /// The id of the message.
        message: MessageId,
    },
    /// Asked for its end.
    Terminated {
        /// The id of the message.
        message: MessageId,
    },
    /// Answered a task of the instance.
    Answered {
        /// The run that scheduled the task.
        execution: ExecutionId,
        /// The id of the answer.
        answer: MessageId,
    },
    /// Purged the instance.
    Purged {
        /// The run that was removed.
        execution: ExecutionId,
    },
}

/// Every successful commit of a hub, in the order the store took them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommitJournal {
    /// The commits.
    pub commits: Vec<Commit>,
}

/// One successful commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// What it carried.
    pub fence: Fence,
    /// The revision it made.
    pub revision: Revision,
    /// The run that is current after it.
    pub execution: ExecutionId,
    /// The messages it consumed, answers that were never in an inbox included, in the order of the turn.
    pub consumed: Vec<MessageId>,
    /// The identities it produced.
    pub produced: Vec<MessageId>,
    /// The messages it sent, to itself included.
    pub sent: Vec<Sent>,
}

/// One message that a commit sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sent {
    /// Its id.
    pub id: MessageId,
    /// The instance it is for.
    pub to: InstanceId,
    /// The run it is for, if only for one.
    pub execution: Option<ExecutionId>,
    /// Its place among the ordinary messages of the commit; `None` when it is outside the order: delayed, or of a
    /// class that passes others.
    pub ordinal: Option<u32>,
}

impl Commit {
    /// The entry for a checkpoint that was committed as `revision`.
    #[must_use]
    pub fn of(checkpoint: &Checkpoint, revision: Revision) -> Self {
        let (execution, batches) = match &checkpoint.history {
            History::Append(batch) => (checkpoint.fence.execution, std::slice::from_ref(batch)),
            History::Replace { execution, batches, .. } => (*execution, batches.as_slice()),
        };
        // The batches know the order of the turn; a run that replaces another does not list what ended the old one.
        let mut consumed: Vec<_> = match &checkpoint.history {
            History::Append(batch) => batch.consumed.iter().map(|(id, _)| *id).collect(),
            History::Replace { .. } => Vec::new(),
        };
        let fused = checkpoint.completions.iter().map(|completion| completion.answer.id);
        let known: BTreeSet<_> = consumed.iter().copied().collect();
        consumed.extend(checkpoint.consumed.iter().copied().chain(fused).filter(|id| !known.contains(id)));
        Self {
            fence: checkpoint.fence.clone(),
            revision,
            execution,
            consumed,
            produced: batches.iter().flat_map(|batch| batch.produced.iter().copied()).collect(),
            sent: checkpoint.timers.iter().chain(&checkpoint.messages).map(Sent::of).collect(),
        }
    }
}

impl Sent {
    /// The entry for a message.
    #[must_use]
    pub fn of(message: &Message) -> Self {
        let ordinal = match (&message.class, &message.origin) {
            (Class::Ordinary, Origin::Turn { ordinal, .. }) => *ordinal,
            _ => None,
        };
        Self { id: message.id, to: message.to.clone(), execution: message.execution, ordinal }
    }
}
