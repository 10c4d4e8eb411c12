//! The client's half of the contract, opened for one hub.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use dauer_core::model::{
    Checkpoint, DropReason, Fence, Kind, Message, Record, Status, StoredBatch, Tags, Task,
};
use dauer_core::{Epoch, ExecutionId, HostId, InstanceId, MessageId, Revision, SessionId, Timestamp};

use crate::{Cause, Changes, Committed, Delivered, Inspection, Refused, SessionInfo, Slice, Work};

/// A start, and what it may replace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    /// A message of class Start.
    pub start: Message,
    /// When an instance of that id exists.
    pub reuse: Reuse,
    /// The transport marks it as a retry. It is a repeat of any start of the same [likeness](MessageId::likeness) that was
    /// accepted within [`dauer_core::limits::START_RETRY_MAX`].
    pub retry: bool,
}

impl Create {
    /// A start that its transport does not mark as a retry.
    #[must_use]
    pub fn new(start: Message, reuse: Reuse) -> Self {
        Self { start, reuse, retry: false }
    }
}

/// Which existing instances a start may replace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reuse {
    /// An instance in one of these is replaced; in any other the start is refused with [`Refused::Exists`].
    pub replaceable: Vec<Status>,
}

impl Default for Reuse {
    /// Ended instances are replaced, living ones are not (behaviour 46).
    fn default() -> Self {
        Self { replaceable: vec![Status::Completed, Status::Failed, Status::Terminated, Status::Canceled] }
    }
}

/// What a start did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The instance is new, or replaces an ended one.
    New(ExecutionId),
    /// The same start was accepted before. The execution is that of the start that is there or waits; none when only the
    /// start's id is remembered.
    Repeat(Option<ExecutionId>),
    /// The instance is running; its next turn ends that run and begins this one.
    Replacing(ExecutionId),
}

/// Which instances a query is about. All conditions hold together; empty ones hold always.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// One of these.
    pub statuses: Vec<Status>,
    /// Created at this time or later.
    pub created_from: Option<Timestamp>,
    /// Created before this time.
    pub created_to: Option<Timestamp>,
    /// With this name.
    pub name: Option<Arc<str>>,
    /// With an id that begins so.
    pub prefix: Option<Arc<str>>,
    /// With all of these tags.
    pub tags: Tags,
    /// Only instances in trouble.
    pub stalled: bool,
    /// Entities instead of orchestrations.
    pub entities: bool,
    /// Which come first.
    pub order: Order,
    /// At most so many a page; 0 is the store's own page size.
    pub page: usize,
    /// Where the last page ended, in the same order.
    pub after: Option<String>,
}

/// Which instances a query finds first: by the time of their creation, and among those of one moment by their id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// Those that were created first. What is started meanwhile comes at the end.
    #[default]
    OldestFirst,
    /// Those that were created last. What is started meanwhile is not seen any more.
    NewestFirst,
}

/// One page of a query, by creation time and then id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The instances.
    pub records: Vec<(InstanceId, Record)>,
    /// Give this as `after` for the next page; `None` at the end.
    pub next: Option<String>,
    /// By how much the answer may lag behind acknowledged writes.
    pub lag: Duration,
}

/// Which ended instances to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct List {
    /// One of these ended statuses; empty is all of them.
    pub statuses: Vec<Status>,
    /// Ended at this time or later.
    pub completed_from: Option<Timestamp>,
    /// Ended before this time.
    pub completed_to: Option<Timestamp>,
    /// At most so many a page; 0 is the store's own page size.
    pub page: usize,
    /// Where the last page ended.
    pub after: Option<String>,
}

/// One page of ids, by time of completion and then id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdPage {
    /// The ids.
    pub ids: Vec<InstanceId>,
    /// Give this as `after` for the next page; it contains the last id. `None` at the end.
    pub next: Option<String>,
}

/// What to remove. Only ended instances are, and none whose inbox holds a start or rewind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    /// These instances.
    Ids(Vec<InstanceId>),
    /// All that match, at most `budget` of them in one call.
    Matching {
        /// Its conditions. Order and cursor mean nothing: the oldest go first.
        query: Query,
        /// At most so many.
        budget: usize,
    },
}

/// What a purge did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Purged {
    /// Instances removed.
    pub count: usize,
    /// Whether more may match: call again.
    pub more: bool,
}

/// Who attaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Its name, unique while it lives.
    pub id: HostId,
    /// The session, chosen by the host at random.
    pub session: SessionId,
    /// How long the session lives without a renewal.
    pub lease: Duration,
}

/// How much work there is; may lag.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scale {
    /// Ready, unclaimed turns and tasks, by kind.
    pub ready: BTreeMap<Kind, usize>,
    /// Claimed turns and tasks, by kind.
    pub held: BTreeMap<Kind, usize>,
}

/// The largest things a store takes. Below them it spills, splits and re-arms by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of one message's event.
    pub message_bytes: u64,
    /// Bytes of one checkpoint.
    pub checkpoint_bytes: u64,
    /// Tasks, timers and messages of one checkpoint.
    pub checkpoint_items: u64,
    /// How far ahead a message may be made visible.
    pub delay: Duration,
    /// Ids of removed starts that a hub remembers. Beyond it the oldest are forgotten and counted.
    pub removed_starts: u64,
    /// Bytes of messages that a commit or [`Work::mail`] hands out at once; the first message whatever its size.
    pub mail_bytes: usize,
}

/// What a store has done for this handle since it was opened. Zero where a store does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effort {
    /// Transactions that wrote something.
    pub commits: u64,
    /// Turns committed by them.
    pub turns: u64,
    /// Instances that were claimed by a write of their own, after the one that had made them ready.
    pub claims: u64,
    /// Statements that write.
    pub statements: u64,
    /// Rows inserted, changed and deleted.
    pub rows: u64,
    /// Times the disk was asked to make writes durable.
    pub syncs: u64,
}

/// One thing that a store holds; together they are everything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DumpItem {
    /// An instance with all that belongs to it.
    Instance(Box<InstanceDump>),
    /// A task that is waiting or held.
    Task(Box<TaskDump>),
    /// A session.
    Session(SessionDump),
    /// An instance, or something that belongs to it, that cannot be read, and why. What else the store holds is dumped all the
    /// same; this cannot be loaded.
    Damaged(InstanceId, String),
    /// How many messages were dropped for a reason.
    Dropped(DropReason, u64),
    /// The hub's own values.
    Hub(HubDump),
    /// The id of a start whose instance was removed or begins another start, and the time it was accepted.
    RemovedStart(MessageId, Timestamp),
    /// The store's time when the dump began.
    Now(Timestamp),
}

impl DumpItem {
    /// Whether it can be loaded into another store. Whoever loads asks before the first item is.
    ///
    /// # Errors
    /// [`Refused::Corrupt`] when it is [damaged](Self::Damaged).
    pub fn loadable(&self) -> Result<(), Refused> {
        match self {
            Self::Damaged(instance, why) => {
                let reason = format!("the instance '{instance}' cannot be loaded: {why}");
                Err(Refused::Corrupt(Cause::new(reason)))
            }
            Self::Instance(_)
            | Self::Task(_)
            | Self::Session(_)
            | Self::Dropped(..)
            | Self::Hub(_)
            | Self::RemovedStart(..)
            | Self::Now(_) => Ok(()),
        }
    }
}

/// The hub's own values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HubDump {
    /// Where new instances begin.
    pub floor: Floor,
    /// How many ids of removed starts were forgotten before their time, because there were too many.
    pub forgotten_starts: u64,
}

/// Where the instances of a hub begin. Every removal raises it above the removed instance, so that no fence of a removed
/// instance passes for a later one of the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Floor {
    /// The first epoch of a new instance.
    pub epoch: Epoch,
    /// The first revision of a new instance.
    pub revision: Revision,
}

impl Floor {
    /// The floor after the removal of an instance that stood at that epoch and revision.
    #[must_use]
    pub fn above(self, epoch: Epoch, revision: Revision) -> Self {
        Self { epoch: self.epoch.max(epoch.next()), revision: self.revision.max(revision.next()) }
    }
}

/// An instance as it lies in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceDump {
    /// Its id.
    pub id: InstanceId,
    /// Its record.
    pub record: Record,
    /// Whose turn it is.
    pub epoch: Epoch,
    /// Who holds it.
    pub holder: Option<SessionId>,
    /// From when a claim may take it; `None` when nothing is waiting for it.
    pub ready_at: Option<Timestamp>,
    /// Not to be claimed before, after a release with delay.
    pub not_before: Timestamp,
    /// The history of the current run.
    pub history: Vec<StoredBatch>,
    /// What precedes the inbox.
    pub prologue: Vec<Message>,
    /// The waiting messages, in the store's order.
    pub inbox: Vec<Message>,
    /// Messages sent by commits and not yet confirmed by their targets.
    pub outbox: Vec<Message>,
    /// Ids of applied messages that are still remembered, with the time they were applied.
    pub memory: Vec<(MessageId, Timestamp)>,
}

/// A task as it lies in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskDump {
    /// What to do.
    pub task: Task,
    /// Changes of hands.
    pub epoch: Epoch,
    /// Who holds it.
    pub holder: Option<SessionId>,
    /// Failed attempts.
    pub attempts: u32,
    /// Not to be claimed before.
    pub not_before: Timestamp,
    /// Whether it only waits for its holder to answer or die, and is not to run again.
    pub withdrawn: bool,
}

/// A session as it lies in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionDump {
    /// Which.
    pub id: SessionId,
    /// Of which host.
    pub host: HostId,
    /// When its items may be taken over.
    pub expires_at: Timestamp,
}

/// A part of a dump.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dump {
    /// The items.
    pub items: Vec<DumpItem>,
    /// Give this for the next part; `None` at the end.
    pub next: Option<String>,
}

/// One hub, for clients and operators.
#[async_trait]
pub trait Manage: Send + Sync {
    /// Starts instances, each in one write.
    async fn create(&self, batch: Vec<Create>) -> Vec<Result<Created, Refused>>;

    /// Sends messages to instances.
    async fn send(&self, batch: Vec<Message>) -> Vec<Result<Delivered, Refused>>;

    /// Commits a change from outside: compares execution and revision, not the epoch, and raises the epoch.
    async fn amend(&self, checkpoint: Checkpoint) -> Result<Committed, Refused>;

    /// The records of instances, in the order asked for, with the epoch an amendment would supersede.
    async fn get(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<(Fence, Record)>>, Refused>;

    /// Who holds instances, what waits for them and which tasks are open, in the order asked for. Sees every acknowledged
    /// write.
    async fn inspect(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<Inspection>>, Refused>;

    /// The sessions that the store remembers, by id (rule 24). Sees every acknowledged write, and writes nothing.
    async fn sessions(&self) -> Result<Vec<SessionInfo>, Refused>;

    /// Finds instances, a page at a time. May lag, and says by how much.
    async fn query(&self, query: Query) -> Result<Page, Refused>;

    /// Lists ended instances by the time they ended.
    async fn list(&self, list: List) -> Result<IdPage, Refused>;

    /// Reads the history of the current run. An absent instance, or another execution, has an empty one.
    async fn read_history(
        &self,
        instance: &InstanceId,
        execution: Option<ExecutionId>,
        from: u32,
        max_bytes: usize,
    ) -> Result<Slice, Refused>;

    /// The start, or the rewind that creates it, that the current run of an instance has not begun with yet, whether it is
    /// due or not. For an ended instance, the first start or rewind that waits. Nothing for a run that has begun and goes on,
    /// and for an absent instance.
    async fn read_start(&self, instance: &InstanceId) -> Result<Option<Message>, Refused>;

    /// Removes ended instances for good.
    async fn purge(&self, purge: Purge) -> Result<Purged, Refused>;

    /// Opens a session.
    async fn attach(&self, host: Host) -> Result<Arc<dyn Work>, Refused>;

    /// Ends a session whose host is known to be dead; the caller vouches for it. Its items count an attempt when
    /// they are taken.
    async fn end_session(&self, session: SessionId) -> Result<(), Refused>;

    /// How much work there is.
    async fn scale(&self) -> Result<Scale, Refused>;

    /// The largest things it takes.
    fn limits(&self) -> StoreLimits;

    /// What it has done since it was opened.
    fn effort(&self) -> Effort {
        Effort::default()
    }

    /// Everything it holds, a part at a time. What cannot be read is told as [`DumpItem::Damaged`], and all else comes.
    async fn dump(&self, after: Option<String>) -> Result<Dump, Refused>;

    /// Puts dumped items into an empty hub.
    async fn load(&self, items: Vec<DumpItem>) -> Result<(), Refused>;

    /// Hints for clients that wait.
    fn changes(&self) -> Changes;
}
