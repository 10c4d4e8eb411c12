//! Activity tasks: scheduled by a turn, executed by a worker, answered by a message.

use crate::ids::{Epoch, ExecutionId, InstanceId, MessageId};
use crate::model::{Encoded, Message, QueueKey, Tags};

/// One scheduled activity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// The identity of its schedule; its answer names it.
    pub id: MessageId,
    /// The instance that scheduled it.
    pub instance: InstanceId,
    /// The run that scheduled it.
    pub execution: ExecutionId,
    /// The event id of its schedule.
    pub event_id: i32,
    /// What claims filter by.
    pub queue: QueueKey,
    /// Labels.
    pub tags: Tags,
    /// The TaskScheduled event, encoded once by core: name, version, input and trace context are in it.
    pub event: Encoded,
}

/// Which task is held, and since which change of hands: what every completion carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskFence {
    /// The task.
    pub task: MessageId,
    /// The instance that scheduled it.
    pub instance: InstanceId,
    /// Grows when the task changes hands.
    pub epoch: Epoch,
}

/// The result of a task that a session holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The task, as it was claimed.
    pub fence: TaskFence,
    /// The answer for the instance's inbox.
    pub answer: Message,
}
