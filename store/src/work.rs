//! The host's half of the contract.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::Stream;

use dauer_core::model::{
    Checkpoint, Completion, DropReason, Encoded, Fence, Message, Payload, Queues, Record, Status,
    StoredBatch, Tags, Task, TaskFence, Trouble,
};
use dauer_core::{InstanceId, Revision, SessionId, Timestamp};

use crate::{Env, Refused, Steady};

/// How much of one kind of work a session may win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// At most this many items.
    pub count: usize,
    /// No further item after this many bytes of messages or tasks. The first item is won whatever its size.
    pub bytes: usize,
}

impl Amount {
    /// That many items of any size.
    #[must_use]
    pub fn items(count: usize) -> Self {
        Self { count, bytes: usize::MAX }
    }
}

/// What a session may win. See [`Work::credit`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Credit {
    /// What is won with this credit has this number. [`Work::recall`] names it. It never falls from one credit of a session to
    /// the next.
    pub number: u64,
    /// Turns.
    pub turns: Amount,
    /// Activity tasks.
    pub tasks: Amount,
    /// Only from these queues.
    pub queues: Queues,
    /// Only items that carry all of these tags.
    pub tags: Tags,
}

/// What [`Work::next`] waited for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Next {
    /// Turns that the session has won.
    pub turns: Vec<ClaimedTurn>,
    /// Tasks that the session has won.
    pub tasks: Vec<TaskLease>,
    /// Instances that the session has kept by a commit, and for which visible, admitted messages wait: read them with
    /// [`Work::mail`]. Others that the session holds may be among them.
    pub mail: Vec<InstanceId>,
}

impl Next {
    /// Whether it contains nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.tasks.is_empty() && self.mail.is_empty()
    }
}

/// What a session has won and does not know of. See [`Work::recall`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recalled {
    /// Turns.
    pub turns: Vec<ClaimedTurn>,
    /// Tasks.
    pub tasks: Vec<TaskLease>,
}

/// How long a call of [`Work::next`] waits.
#[derive(Clone, Copy)]
pub enum Until<'e> {
    /// It looks once.
    Once,
    /// Until the monotonic clock of the host shows this time. A time that has passed means one look.
    At(&'e dyn Env, Steady),
}

impl std::fmt::Debug for Until<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Once => f.write_str("Once"),
            Self::At(_, at) => f.debug_tuple("At").field(at).finish(),
        }
    }
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

/// A lossy signal to those who wait for changes of instances and sessions. Losing it costs time, never work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// The instance changed its status, its custom status or its execution; it is in this status now.
    Status(InstanceId, Status),
    /// The run has ended with this record. A wait for just this run need not read it.
    Ended(InstanceId, Arc<Record>),
    /// The session has ended.
    SessionEnded(SessionId),
    /// Another handle or process has written to the store, or hints were lost: anything may have changed.
    Elsewhere,
}

/// Bytes of payloads that a hint carries at most: a listener that does not listen keeps thousands of hints waiting.
const HINT_BYTES_MAX: usize = 4_096;

impl Hint {
    /// That the record of an instance has changed.
    #[must_use]
    pub fn changed(instance: &InstanceId, record: &Record) -> Self {
        let details = &record.details;
        let text = |payload: Option<&Payload>| payload.map_or(0, |text| text.as_str().len());
        let failure = details.failure().map_or(0, Encoded::len);
        let size = text(details.output()) + text(details.custom_status()) + failure;
        if record.status.is_ended() && details.entity().is_none() && size <= HINT_BYTES_MAX {
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

    /// Sets what the session may win, in place of the credit before. What it has won and [`Self::next`] has not returned counts
    /// against the credit. The store spends credit in the write that makes work ready, where it can, and when it looks, also
    /// while no `next` waits. Credit with more room, or for more queues, looks again. A call of the session that follows is
    /// judged by the new credit. What the store had begun to win by then comes on top of it.
    fn credit(&self, credit: Credit);

    /// Waits for what the session wins, and for messages to instances that it holds. Returns as soon as there is something;
    /// otherwise with nothing, after a last look at `until`. It looks, and wakes up, when work may be ready that no write has
    /// given to the session: at a larger credit, at a write of another handle, and when something becomes ready by time alone.
    /// A session has one such call at a time.
    ///
    /// # Errors
    /// After [`Refused::Unknown`], or when the call was dropped, what it would have returned comes back by [`Self::recall`].
    /// After [`Refused::NotExecuted`] the next call returns it.
    async fn next(&self, until: Until<'_>) -> Result<Next, Refused>;

    /// Gets back what was won and never received: turns and tasks that the session won with credit of the numbers from `first`
    /// to `last`, still holds under the epoch of then, and has neither committed, nor released, nor answered. Room, queues and
    /// tags do not limit the answer. Credit up to `last` wins nothing from then on, also where its look had begun before. An
    /// item that the host has received already may be among them, under the fence that the host knows. The same call again
    /// returns the same.
    async fn recall(&self, first: u64, last: u64) -> Result<Recalled, Refused>;

    /// Reads the messages that wait for held instances, each on its own; changes nothing. An answer counts only at the revision
    /// of its fence: after a later commit it would apply messages twice. [`Refused::Fenced`] when the session does not hold the
    /// instance under that epoch, or the instance has another execution or revision.
    async fn mail(&self, fences: Vec<Fence>) -> Vec<Result<Mail, Refused>>;

    /// Reads history from event `from` on, at most about `max_bytes`, at least one batch.
    async fn load_history(&self, fence: &Fence, from: u32, max_bytes: usize) -> Result<Slice, Refused>;

    /// Commits turns. Each succeeds or is refused on its own, as a whole. They are shared, because a host keeps each until
    /// it knows what became of it.
    async fn commit_turns(&self, batch: Vec<Arc<Checkpoint>>) -> Vec<Result<Committed, Refused>>;

    /// Answers tasks. A task that is no longer held is dropped, which is no error.
    async fn complete_activities(&self, batch: Vec<Completion>) -> Vec<Result<Delivered, Refused>>;

    /// Keeps the session and all it holds alive for another lease; tells what it has lost.
    async fn renew(&self) -> Result<Vec<Lost>, Refused>;

    /// Gives items back.
    async fn release(&self, items: Vec<Release>) -> Vec<Result<(), Refused>>;

    /// Ends the session: all it holds may be claimed at once, without counting an attempt.
    async fn detach(&self) -> Result<(), Refused>;

    /// Hints about instances and sessions of the hub, for this host.
    fn changes(&self) -> Changes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_core::model::{Kind, QueueKey};
    use dauer_core::{ExecutionId, MessageId};

    #[test]
    fn a_hint_carries_the_end_of_a_run_and_nothing_large() {
        let id = InstanceId::new("order").unwrap();
        let queue = QueueKey::new(Kind::Orchestration, "code", None);
        let mut record = Record::pending(queue, ExecutionId(1), MessageId([0; 16]));
        assert_eq!(Hint::changed(&id, &record), Hint::Status(id.clone(), Status::Pending));
        record.status = Status::Completed;
        record.details.set_output(Some("x".repeat(HINT_BYTES_MAX).into()));
        assert_eq!(Hint::changed(&id, &record), Hint::Ended(id.clone(), Arc::new(record.clone())));
        record.details.set_custom_status(Some("x".into()));
        assert_eq!(Hint::changed(&id, &record), Hint::Status(id.clone(), Status::Completed));
    }
}
