//! The host's half of the contract: sessions, and their credit, turns and tasks.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::Stream;

use dauer_core::model::{
    Checkpoint, Completion, Deaths, DropReason, Encoded, Fence, Message, Payload, Queues, Record, Status,
    StoredBatch, Tags, Task, TaskFence, Trouble,
};
use dauer_core::{InstanceId, MessageId, Revision, SessionId, Timestamp};

use crate::{Env, Refused, Steady};

/// How much of one kind of work a session may win.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// At most this many items.
    pub count: usize,
    /// About this many bytes of messages or tasks. The first item is won whatever its size.
    pub bytes: usize,
}

impl Amount {
    /// `count` items of any size.
    #[must_use]
    pub fn items(count: usize) -> Self {
        Self { count, bytes: usize::MAX }
    }
}

/// The work that a session may win. See [`Work::credit`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Credit {
    /// Items won with this credit have this number, and [`Work::recall`] finds them by it. The numbers of a session never fall.
    pub number: u64,
    /// The host has received every item of lower numbers and recalls none of them: the store forgets them.
    pub first: u64,
    /// Room for turns.
    pub turns: Amount,
    /// Room for activity tasks.
    pub tasks: Amount,
    /// Only items of these queues.
    pub queues: Queues,
    /// Only items that carry all of these tags.
    pub tags: Tags,
}

/// The result of [`Work::next`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Next {
    /// Turns that the session has won.
    pub turns: Vec<ClaimedTurn>,
    /// Tasks that the session has won.
    pub tasks: Vec<TaskLease>,
    /// Instances that the session has kept by a commit, and for which visible, admitted messages wait. [`Work::mail`] reads
    /// the messages. Other held instances may be among them.
    pub mail: Vec<InstanceId>,
}

impl Next {
    /// Whether it contains neither turns, nor tasks, nor mail.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty() && self.tasks.is_empty() && self.mail.is_empty()
    }
}

/// Items that a session has won and may not have received. See [`Work::recall`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Recalled {
    /// Turns that the session still holds.
    pub turns: Vec<ClaimedTurn>,
    /// Tasks that the session still holds.
    pub tasks: Vec<TaskLease>,
}

/// How long a call of [`Work::next`] waits.
#[derive(Clone, Copy)]
pub enum Until<'e> {
    /// The call looks once and returns.
    Once,
    /// Until the monotonic clock of the host reaches this time. A time in the past means one look.
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

/// Consecutive batches of a history.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Slice {
    /// Whole batches, in order, from the one that contains the requested event.
    pub batches: Vec<StoredBatch>,
    /// The event at which the next slice begins, later than the requested event. `None` at the end.
    pub next: Option<u32>,
}

/// An instance whose turn this session may run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimedTurn {
    /// The fence that the commit must carry.
    pub fence: Fence,
    /// The instance without its history.
    pub record: Record,
    /// Visible, admitted messages, in order.
    pub messages: Vec<Message>,
    /// Whether more visible, admitted messages wait.
    pub more: bool,
    /// The history, if the store had it in memory.
    pub history: Option<Slice>,
    /// The store's time.
    pub now: Timestamp,
}

/// A task that this session may execute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskLease {
    /// The fence that the completion must carry.
    pub fence: TaskFence,
    /// The activity to run.
    pub task: Task,
    /// Attempts that failed before (rule 9).
    pub attempts: u32,
    /// Deaths of the processes that held it before (rule 9).
    pub deaths: Deaths,
    /// When the session of a server that held it ended: one of its workers may still execute it (rule 9).
    pub mark: Option<Timestamp>,
    /// The store's time.
    pub now: Timestamp,
}

impl TaskLease {
    /// The number of tries before this one: failed attempts, and deaths of any kind.
    #[must_use]
    pub fn tried(&self) -> u32 {
        self.attempts.saturating_add(self.deaths.all())
    }
}

/// The answer to a commit that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// The revision of the instance after the commit.
    pub revision: Revision,
    /// For a kept instance: the visible, admitted messages, in order, up to [`crate::StoreLimits::mail_bytes`].
    pub arrived: Vec<Message>,
    /// Whether more such messages wait.
    pub more: bool,
    /// The new tasks that the commit leased to this session.
    pub taken: Vec<TaskLease>,
    /// The store's time.
    pub now: Timestamp,
}

/// Messages that wait for a held instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mail {
    /// The visible, admitted messages, in order, up to [`crate::StoreLimits::mail_bytes`].
    pub messages: Vec<Message>,
    /// Whether more such messages wait.
    pub more: bool,
    /// The store's time.
    pub now: Timestamp,
}

/// The effect of a message or completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivered {
    /// The message is durable in the inbox.
    Applied,
    /// The message or completion has no effect.
    Dropped(DropReason),
}

/// A turn or task that a session holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// The turn of an instance.
    Turn(Fence),
    /// An activity task.
    Task(TaskFence),
}

/// A request to give an item back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The item.
    pub item: Item,
    /// No session claims the item before `delay` has passed.
    pub delay: Duration,
    /// For turns: the reason, shown in the record until the next commit.
    pub trouble: Option<Trouble>,
    /// Whether the release counts as a failed attempt.
    pub failed: bool,
}

/// The name of an activity task, whichever session holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskName {
    /// The instance that scheduled the task.
    pub instance: InstanceId,
    /// The id of the task.
    pub task: MessageId,
}

/// A worker of this session died with an item, which the session goes on holding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Death {
    /// The item.
    pub item: Item,
    /// The deaths of the item before this one, as the session knows them. The store counts this death if they are still the
    /// item's, and recognises a repeat by them.
    pub known: Deaths,
}

/// The begin or end of a trial: a time in which nothing else begins in the process that executes the item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trial {
    /// The item.
    pub item: Item,
    /// True before the item begins alone, false when the trial is over.
    pub open: bool,
}

/// An item that a session no longer holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lost {
    /// The item, with the fence that no longer holds.
    pub item: Item,
}

/// A signal that an instance or session changed. Hints may be lost, late or old: a lost hint costs time, never work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// The status, custom status or execution of the instance changed. This is its status now.
    Status(InstanceId, Status),
    /// The run has ended with this record. A wait for this run need not read the record.
    Ended(InstanceId, Arc<Record>),
    /// The session has ended.
    SessionEnded(SessionId),
    /// Another handle or process has written to the store, or hints were lost. Anything may have changed.
    Elsewhere,
}

/// The most payload bytes of a hint. Thousands of hints may wait for a listener that does not read them.
const HINT_BYTES_MAX: usize = 4_096;

impl Hint {
    /// The hint for a changed record.
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

/// A stream of hints. It ends when the store closes.
pub type Changes = Pin<Box<dyn Stream<Item = Hint> + Send>>;

/// One session: one host in one hub. Batches are answered item by item, in their order (rule 11).
#[async_trait]
pub trait Work: Send + Sync {
    /// The id of the session.
    fn session(&self) -> SessionId;

    /// Replaces the credit of the session. The session wins at most `count` items and about `bytes` bytes of each kind. Items
    /// that were won and that [`Self::next`] has not returned use credit, also credit that is set later. Returned items have used
    /// up theirs: the host sets credit again when it has room for more.
    ///
    /// Credit with more room, other queues or other tags causes a look. Later calls of the session are judged by the new credit.
    /// A write or look that had begun before may still win items beyond it. Rule 12 says when the store spends credit.
    fn credit(&self, credit: Credit);

    /// Waits for items that the session wins, and for messages to instances that it holds. Returns as soon as there is one;
    /// otherwise returns nothing after a last look at `until`.
    ///
    /// Looks when work may be ready that no write has won for the session: after larger credit, after a write of another
    /// handle, and when work becomes ready by time alone. A session has one such call at a time.
    ///
    /// # Errors
    /// After [`Refused::Unknown`], or when the caller dropped the call, [`Self::recall`] returns the items that the session won.
    /// After [`Refused::NotExecuted`] the next call returns them. An expired session gets [`Refused::NotExecuted`] until it
    /// renews.
    async fn next(&self, until: Until<'_>) -> Result<Next, Refused>;

    /// Returns the turns and tasks that the session won with credit of the numbers `first` to `last` and still holds under the
    /// same epoch. Turns that it has committed are left out. Room, queues and tags do not limit the answer.
    ///
    /// From this call on, credit of any number up to `last` wins nothing, not even in a look that had begun. The same call again
    /// returns the same. [`Self::next`] does not return recalled items. The host may have received some of them already, with
    /// the same fence.
    async fn recall(&self, first: u64, last: u64) -> Result<Recalled, Refused>;

    /// Reads the messages that wait for held instances, each instance on its own. Changes nothing: the messages wait until a
    /// commit consumes them. The host must not use the answer after a later commit, or it would apply messages twice.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session does not hold the instance under that epoch, or the instance has another execution or
    /// revision.
    async fn mail(&self, fences: Vec<Fence>) -> Vec<Result<Mail, Refused>>;

    /// Reads the history from the batch that contains event `from`, about `max_bytes` and at least one batch.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session does not hold the instance with that fence.
    async fn load_history(&self, fence: &Fence, from: u32, max_bytes: usize) -> Result<Slice, Refused>;

    /// Commits turns. Each succeeds or is refused on its own, as a whole. They are shared, because a host keeps each until its
    /// outcome is known.
    async fn commit_turns(&self, batch: Vec<Arc<Checkpoint>>) -> Vec<Result<Committed, Refused>>;

    /// Answers tasks. The answer to a task that the session does not hold is dropped, which is no error.
    async fn complete_activities(&self, batch: Vec<Completion>) -> Vec<Result<Delivered, Refused>>;

    /// Renews the session, and with it all that it holds. Returns the items lost since the last renewal.
    async fn renew(&self) -> Result<Vec<Lost>, Refused>;

    /// Gives items back. An item that the session does not hold under that epoch is [`Refused::Fenced`].
    async fn release(&self, items: Vec<Release>) -> Vec<Result<(), Refused>>;

    /// Makes the session the holder of open tasks, each under a higher epoch: workers of this session execute them. It does not
    /// matter which session holds the task, or none, or this one. Delays, credit and queues are ignored (rule 25). The former
    /// holder finds the task among the lost items of its next renewal; so does this session if it was the holder. Attempts,
    /// deaths and mark stay.
    ///
    /// Returns `None` for a task that is not open or was withdrawn. The same call again adopts again, under a higher epoch.
    ///
    /// # Errors
    /// [`Refused::NotExecuted`] if the session has expired: it renews first.
    async fn adopt(&self, tasks: Vec<TaskName>) -> Vec<Result<Option<TaskLease>, Refused>>;

    /// Notes that workers of this session died with items, which the session goes on holding under the same fences (rule 9).
    /// Returns the deaths of each item after that. They are durable before the answer. The same call again changes nothing and
    /// returns the same.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session does not hold the item under that fence, has committed the turn under that epoch, or
    /// if the deaths of the item are neither [`Death::known`] nor those after this death.
    async fn died(&self, deaths: Vec<Death>) -> Vec<Result<Deaths, Refused>>;

    /// Notes that items are about to begin alone, or that their trials are over (rule 9). The same call again changes nothing.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session does not hold the item under that fence, or has committed the turn under that epoch.
    async fn trial(&self, trials: Vec<Trial>) -> Vec<Result<(), Refused>>;

    /// Ends the session. Its items can be claimed at once, and no attempt counts.
    async fn detach(&self) -> Result<(), Refused>;

    /// Hints about instances and sessions of the hub, for this host.
    fn changes(&self) -> Changes;
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_core::ExecutionId;
    use dauer_core::model::{Kind, QueueKey};

    #[test]
    fn hint_of_an_ended_run_carries_only_a_small_record() {
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
