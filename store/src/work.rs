//! The host's half of the contract.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::Stream;

use dauer_core::model::{
    Checkpoint, Completion, DropReason, Encoded, Fence, Kind, Message, Payload, Queues, Record, Status,
    StoredBatch, Tags, Task, TaskFence, Trouble,
};
use dauer_core::{InstanceId, Revision, SessionId, Timestamp};

use crate::Refused;

/// What a claim asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Want {
    /// At most so many items.
    pub count: usize,
    /// Stop after so many bytes of messages or tasks; the first item is given whatever its size.
    pub bytes: usize,
    /// Only from these queues.
    pub queues: Queues,
    /// Only items that carry all of these tags.
    pub tags: Tags,
}

/// A part of a history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Slice {
    /// Whole batches, in order, from the one that holds the first event asked for.
    pub batches: Vec<StoredBatch>,
    /// Where the next slice begins; `None` at the end.
    pub next: Option<u32>,
}

/// An instance whose turn this session may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedTurn {
    /// What the commit must carry.
    pub fence: Fence,
    /// The instance without its history.
    pub record: Record,
    /// Visible, admitted messages, in order.
    pub messages: Vec<Message>,
    /// Whether more are waiting than were given.
    pub more: bool,
    /// The history, if the store had it at hand anyway.
    pub history: Option<Slice>,
    /// The store's time.
    pub now: Timestamp,
}

/// A task that this session may execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLease {
    /// What the completion must carry.
    pub fence: TaskFence,
    /// What to do.
    pub task: Task,
    /// How many attempts failed before.
    pub attempts: u32,
    /// The store's time.
    pub now: Timestamp,
}

/// A commit that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The revision it made.
    pub revision: Revision,
    /// Kept instances: the visible, admitted messages, in order, up to [`crate::StoreLimits::mail_bytes`].
    pub arrived: Vec<Message>,
    /// Whether more such messages wait than `arrived` has.
    pub more: bool,
    /// The new tasks that were leased to this session.
    pub taken: Vec<TaskLease>,
    /// The store's time.
    pub now: Timestamp,
}

/// Which held instances have messages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WaitingMail {
    /// The instances that the session has kept by a commit and for which visible, admitted messages wait. It may have others
    /// that the session holds.
    pub instances: Vec<InstanceId>,
    /// How long until the next such message becomes visible by time alone; `None` if none waits for its time.
    pub next: Option<Duration>,
}

/// Messages that wait for an instance which the session holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// The visible, admitted messages, in order, up to [`crate::StoreLimits::mail_bytes`]; the first whatever its size.
    pub messages: Vec<Message>,
    /// Whether more such messages wait.
    pub more: bool,
    /// The store's time.
    pub now: Timestamp,
}

/// What became of a message or completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// It is in the inbox, durable.
    Applied,
    /// It had no effect and never will.
    Dropped(DropReason),
}

/// Something a session holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// An instance's turn.
    Turn(Fence),
    /// A task.
    Task(TaskFence),
}

/// Gives an item back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// What is given back.
    pub item: Item,
    /// Not to be claimed before so long.
    pub delay: Duration,
    /// For turns: what went wrong; shown in the record until the next commit.
    pub trouble: Option<Trouble>,
    /// Whether it counts as an attempt.
    pub failed: bool,
}

/// An item that a session no longer holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// Which.
    pub item: Item,
}

/// A lossy signal. Losing it costs time, never work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// Work of that kind may be ready.
    Ready(Kind),
    /// Work of that kind is ready after so long, by time alone, and may not have been there when its host last asked
    /// [`Work::next_due`].
    Due(Kind, Duration),
    /// Visible, admitted messages wait for an instance that a session holds. Its holder reads them with [`Work::mail`].
    Mail(InstanceId),
    /// The instance changed its status, its custom status or its execution; it is in this status now.
    Status(InstanceId, Status),
    /// The run has ended with this record: whoever waits for just this run need not look.
    Ended(InstanceId, Arc<Record>),
    /// The session has ended.
    SessionEnded(SessionId),
    /// Somebody else has written to the store: anything may have changed.
    Elsewhere,
}

/// What has become ready so shortly before [`Work::next_due`] may have come after the claim that found nothing: as long as
/// a host may take from the one to the other, and not so long that what no claim takes keeps it awake.
pub const DUE_OVERLAP: Duration = Duration::from_millis(50);

/// Bytes of payloads that a hint carries at most: a listener that does not listen keeps thousands of hints waiting.
const HINT_BYTES_MAX: usize = 4_096;

impl Hint {
    /// That the record of an instance has changed.
    #[must_use]
    pub fn changed(instance: &InstanceId, record: &Record) -> Self {
        let text = |payload: &Option<Payload>| payload.as_ref().map_or(0, |text| text.as_str().len());
        let bytes = |blob: &Option<Encoded>| blob.as_ref().map_or(0, Encoded::len);
        let size = text(&record.output) + text(&record.custom_status) + bytes(&record.failure);
        if record.status.is_ended() && record.entity.is_none() && size <= HINT_BYTES_MAX {
            Self::Ended(instance.clone(), Arc::new(record.clone()))
        } else {
            Self::Status(instance.clone(), record.status)
        }
    }
}

/// A stream of hints that ends with the store.
pub type Changes = Pin<Box<dyn Stream<Item = Hint> + Send>>;

/// One session: one host in one hub. Batches are answered in their order, each item on its own.
#[async_trait]
pub trait Work: Send + Sync {
    /// Which session this is.
    fn session(&self) -> SessionId;

    /// Takes ready instances, and none that this session holds. Cost does not depend on history, sleeping instances or other
    /// queues' work.
    async fn claim_turns(&self, want: Want) -> Result<Vec<ClaimedTurn>, Refused>;

    /// Takes instances that become ready from now on: where the store can, in the very write that makes them ready, so that
    /// nobody has to be told of them and ask. Answered when it has won something, or was refused; otherwise it waits until the
    /// caller drops it. What it won before without an answer, and what was ready already, is left to [`Self::claim_turns`].
    ///
    /// A store that cannot do this waits for ever.
    async fn await_turns(&self, want: Want) -> Result<Vec<ClaimedTurn>, Refused> {
        drop(want);
        std::future::pending().await
    }

    /// Looks over all that the session holds for messages; changes nothing.
    async fn waiting_mail(&self) -> Result<WaitingMail, Refused>;

    /// Reads the messages that wait for held instances, each on its own; changes nothing. An answer counts only at the revision
    /// of its fence: after a later commit it would apply messages twice. [`Refused::Fenced`] when the session does not hold the
    /// instance under that epoch, or the instance has another execution or revision.
    async fn mail(&self, fences: Vec<Fence>) -> Vec<Result<Mail, Refused>>;

    /// Reads history from event `from` on, at most about `max_bytes`, at least one batch.
    async fn load_history(&self, fence: &Fence, from: u32, max_bytes: usize) -> Result<Slice, Refused>;

    /// Commits turns. Each succeeds or is refused on its own, as a whole. They are shared, because a host keeps each until
    /// it knows what became of it.
    async fn commit_turns(&self, batch: Vec<Arc<Checkpoint>>) -> Vec<Result<Committed, Refused>>;

    /// Takes ready tasks.
    async fn claim_activities(&self, want: Want) -> Result<Vec<TaskLease>, Refused>;

    /// Answers tasks. A task that is no longer held is dropped, which is no error.
    async fn complete_activities(&self, batch: Vec<Completion>) -> Vec<Result<Delivered, Refused>>;

    /// Keeps the session and all it holds alive for another lease; tells what it has lost.
    async fn renew(&self) -> Result<Vec<Lost>, Refused>;

    /// Gives items back.
    async fn release(&self, items: Vec<Release>) -> Vec<Result<(), Refused>>;

    /// How long until something in these queues that is not ready now becomes ready by time alone; `None` when
    /// nothing is waiting for time, or the store cannot tell cheaply. What has become ready within [`DUE_OVERLAP`] is due at
    /// once. Lets a host sleep instead of polling.
    async fn next_due(&self, queues: &Queues) -> Result<Option<Duration>, Refused>;

    /// Ends the session: all it holds may be claimed at once, without counting an attempt.
    async fn detach(&self) -> Result<(), Refused>;

    /// Hints for this host.
    fn changes(&self) -> Changes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_core::model::QueueKey;
    use dauer_core::{ExecutionId, MessageId};

    #[test]
    fn a_hint_carries_the_end_of_a_run_and_nothing_large() {
        let id = InstanceId::new("order").unwrap();
        let queue = QueueKey::new(Kind::Orchestration, "code", None);
        let mut record = Record::pending(queue, ExecutionId(1), MessageId([0; 16]));
        assert_eq!(Hint::changed(&id, &record), Hint::Status(id.clone(), Status::Pending));
        record.status = Status::Completed;
        record.output = Some("x".repeat(HINT_BYTES_MAX).into());
        assert_eq!(Hint::changed(&id, &record), Hint::Ended(id.clone(), Arc::new(record.clone())));
        record.custom_status = Some("x".into());
        assert_eq!(Hint::changed(&id, &record), Hint::Status(id.clone(), Status::Completed));
    }
}
