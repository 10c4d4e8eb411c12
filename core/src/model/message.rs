//! Messages: what one instance, client or worker sends to an instance.

use crate::ids::{ExecutionId, InstanceId, MessageId, Revision, Timestamp};
use crate::model::{Encoded, Parent, QueueKey, Record, Tags, Times};

/// One message, from the moment it is sent until a turn has consumed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Its identity: the same message sent again has the same.
    pub id: MessageId,
    /// The instance it is for.
    pub to: InstanceId,
    /// Answers and timers are for that run only; `None` is for the run that is current when it arrives.
    pub execution: Option<ExecutionId>,
    /// How it is treated while the instance is held.
    pub class: Class,
    /// Who sent it.
    pub origin: Origin,
    /// An answer names the task, timer, child start or entity call it belongs to.
    pub answers: Option<MessageId>,
    /// Not delivered before this time.
    pub visible_at: Timestamp,
    /// The history event it becomes, encoded once by core.
    pub event: Encoded,
}

/// The classes of messages; a [`crate::model::Hold`] admits some of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// Begins a run, and creates the instance when it is absent.
    Start(Box<Opening>),
    /// Continues a failed run, and creates the instance when it is absent.
    Rewind(Box<Opening>),
    /// Suspend, resume, terminate: also for an instance that is suspended or not started.
    Control(Control),
    /// All else.
    Ordinary,
}

/// The control messages. Stores must know them apart: a turn's batch ends with the first suspend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// Stop delivering.
    Suspend,
    /// Deliver again.
    Resume,
    /// End the run.
    Terminate,
}

/// What a start or rewind tells the store, which never looks into the event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opening {
    /// Whose code the run is.
    pub queue: QueueKey,
    /// The run that it begins.
    pub execution: ExecutionId,
    /// The instance that waits for the run.
    pub parent: Option<Box<Parent>>,
    /// Labels.
    pub tags: Tags,
    /// Not to run before this time.
    pub scheduled: Option<Timestamp>,
    /// What to do when the instance is running.
    pub over: Over,
}

impl Opening {
    /// A run without parent, tags and delay, which replaces no other.
    #[must_use]
    pub fn new(queue: QueueKey, execution: ExecutionId) -> Self {
        Self { queue, execution, parent: None, tags: Tags::new(), scheduled: None, over: Over::Refuse }
    }

    /// The record of an instance that the message `start` creates with this: Pending, held for its start.
    #[must_use]
    pub fn record(&self, start: MessageId) -> Record {
        Record {
            parent: self.parent.clone(),
            tags: self.tags.clone(),
            times: Times { scheduled: self.scheduled, ..Times::default() },
            ..Record::pending(self.queue.clone(), self.execution, start)
        }
    }
}

/// What a start does to an instance that is running another start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Nothing: the sender is told.
    Refuse,
    /// End that run as Terminated and begin anew; the client's reuse policy asked for it.
    Terminate,
}

/// Who sent a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A client, with its request id if it gave one.
    Client {
        /// The id under which the client may send the same again.
        request: Option<u128>,
    },
    /// A turn, or a worker on behalf of one.
    Turn {
        /// The sending instance.
        instance: InstanceId,
        /// Its execution.
        execution: ExecutionId,
        /// The revision its commit makes: everything of one commit shares it.
        revision: Revision,
        /// Its place among the messages of that commit; `None` when it is delayed and so outside the order.
        ordinal: Option<u32>,
    },
}

impl Origin {
    /// The instance that sent it, unless a client did.
    #[must_use]
    pub fn sender(&self) -> Option<&InstanceId> {
        match self {
            Self::Client { .. } => None,
            Self::Turn { instance, .. } => Some(instance),
        }
    }
}

/// Why a message had no effect. Counted, never silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DropReason {
    /// There is no such instance, and the message does not create one.
    Absent,
    /// The instance has ended.
    Ended,
    /// It was for another run of the instance.
    OtherExecution,
    /// It answers nothing that is open.
    NotOpen,
    /// It was applied before.
    Repeat,
    /// A start for an instance that runs another start.
    Running,
    /// The sender no longer holds the task it answers.
    NotHeld,
    /// The task was withdrawn.
    Withdrawn,
    /// A start that was taken from the inbox and put before it, in the same commit.
    PutOff,
    /// It waited when a client changed the run without a host, by a message that came later.
    Overtaken,
    /// A rewind, or a suspend or resume of a run that had not begun. It was carried out, and no event stands for it.
    Obeyed,
}

impl DropReason {
    /// All reasons, for counters and reports.
    pub const ALL: [Self; 11] = [
        Self::Absent,
        Self::Ended,
        Self::OtherExecution,
        Self::NotOpen,
        Self::Repeat,
        Self::Running,
        Self::NotHeld,
        Self::Withdrawn,
        Self::PutOff,
        Self::Overtaken,
        Self::Obeyed,
    ];
}
