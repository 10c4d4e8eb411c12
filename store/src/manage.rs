//! The client's half of the contract: one hub, for clients and operators.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use dauer_core::model::{
    Checkpoint, Deaths, DropReason, Fence, Kind, Message, Record, Status, StoredBatch, Tags, Task,
};
use dauer_core::{Epoch, ExecutionId, HostId, HubKey, InstanceId, MessageId, Revision, SessionId, Timestamp};

use crate::{Cause, Changes, Committed, Delivered, Inspection, Refused, SessionInfo, Slice, Work};

/// A start, and the policy for an existing instance (rule 18).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Create {
    /// A message of class Start.
    pub start: Message,
    /// The policy for an existing instance of that id.
    pub reuse: Reuse,
    /// Whether the transport marks the start as a retry. A retry repeats any start of the same
    /// [likeness](MessageId::likeness) that was accepted within [`dauer_core::limits::START_RETRY_MAX`].
    pub retry: bool,
}

impl Create {
    /// A start that is not marked as a retry.
    #[must_use]
    pub fn new(start: Message, reuse: Reuse) -> Self {
        Self { start, reuse, retry: false }
    }
}

/// Which existing instances a start may replace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reuse {
    /// An instance in one of these statuses is replaced. In any other the start is refused as [`Refused::Exists`].
    pub replaceable: Vec<Status>,
}

impl Default for Reuse {
    /// Ended instances are replaced, living ones are not (behaviour 46).
    fn default() -> Self {
        Self { replaceable: vec![Status::Completed, Status::Failed, Status::Terminated, Status::Canceled] }
    }
}

/// The effect of a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Created {
    /// The instance is new, or replaces an ended one.
    New(ExecutionId),
    /// The start was accepted before. The execution is that of the accepted start if it is the current one or waits; none if
    /// only its id is remembered.
    Repeat(Option<ExecutionId>),
    /// The instance is living. Its next turn ends the current run and begins this one.
    Replacing(ExecutionId),
}

/// The conditions of a query. An instance matches if all of them hold. An empty condition always holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Query {
    /// The status is one of these.
    pub statuses: Vec<Status>,
    /// Created at this time or later.
    pub created_from: Option<Timestamp>,
    /// Created before this time.
    pub created_to: Option<Timestamp>,
    /// Has this orchestration or entity name.
    pub name: Option<Arc<str>>,
    /// Has an id with this prefix.
    pub prefix: Option<Arc<str>>,
    /// Has all of these tags.
    pub tags: Tags,
    /// Its record has a trouble.
    pub stalled: bool,
    /// Is an entity; false means an orchestration.
    pub entities: bool,
    /// The end at which the query starts.
    pub order: Order,
    /// The most instances in a page; 0 means the store's page size.
    pub page: usize,
    /// The cursor of the last page, in the same order: [`Page::next`].
    pub after: Option<String>,
}

/// The order of a query: by creation time and then id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// The oldest first. Instances that are created during the query come at the end.
    #[default]
    OldestFirst,
    /// The newest first. Instances that are created during the query are not found.
    NewestFirst,
}

/// One page of a query, in its order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    /// The instances.
    pub records: Vec<(InstanceId, Record)>,
    /// The `after` of the next page; `None` at the end.
    pub next: Option<String>,
    /// The most by which the page lags behind acknowledged writes.
    pub lag: Duration,
}

/// The conditions of a list of ended instances.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct List {
    /// The status is one of these. Empty means every ended status.
    pub statuses: Vec<Status>,
    /// Ended at this time or later.
    pub completed_from: Option<Timestamp>,
    /// Ended before this time.
    pub completed_to: Option<Timestamp>,
    /// The most ids in a page; 0 means the store's page size.
    pub page: usize,
    /// The cursor of the last page: [`IdPage::next`].
    pub after: Option<String>,
}

/// One page of ids, by completion time and then id.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdPage {
    /// The ids.
    pub ids: Vec<InstanceId>,
    /// The `after` of the next page. It contains the last id. `None` at the end.
    pub next: Option<String>,
}

/// The instances to remove. Others than those of rule 21 are left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purge {
    /// These instances.
    Ids(Vec<InstanceId>),
    /// All instances that match a query, at most `budget` in one call.
    Matching {
        /// The conditions. Order and cursor are ignored: the oldest are removed first.
        query: Query,
        /// The most instances that this call removes.
        budget: usize,
    },
}

/// The effect of a purge.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Purged {
    /// The number of removed instances.
    pub count: usize,
    /// Whether more instances may match. Then the caller calls again.
    pub more: bool,
}

/// The host and the session that attach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// The name of the host, unique while the host lives.
    pub id: HostId,
    /// The session, drawn at random by the host.
    pub session: SessionId,
    /// The time that the session lives without a renewal.
    pub lease: Duration,
    /// The process executes user code. False for a server, whose workers are processes of their own (rule 9).
    pub runs_code: bool,
}

/// The amount of work. It may lag behind acknowledged writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scale {
    /// Ready, unclaimed turns and tasks, by kind.
    pub ready: BTreeMap<Kind, usize>,
    /// Claimed turns and tasks, by kind.
    pub held: BTreeMap<Kind, usize>,
}

/// The limits of a store (rule 14). Up to them the store spills, splits and re-arms by itself.
///
/// Messages, delays and checkpoints beyond the first four limits are [`Refused::TooLarge`]. The last two bound memory and
/// answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreLimits {
    /// Bytes of the event of one message or task.
    pub message_bytes: u64,
    /// Bytes of all events in one checkpoint.
    pub checkpoint_bytes: u64,
    /// Tasks, timers and messages of one checkpoint.
    pub checkpoint_items: u64,
    /// The longest delay of a message: [`Message::visible_at`] minus the store's time.
    pub delay: Duration,
    /// Ids of removed starts that a hub remembers (rule 21).
    pub removed_starts: u64,
    /// Bytes of messages in the answer to one commit or [`Work::mail`]. The first message is included whatever its size.
    pub mail_bytes: usize,
}

/// Counters of a handle since it was opened. A counter that the store does not keep is zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effort {
    /// Transactions that wrote something.
    pub commits: u64,
    /// Turns that these transactions committed.
    pub turns: u64,
    /// Instances that were claimed in a later write than the one that made them ready.
    pub claims: u64,
    /// Statements that write.
    pub statements: u64,
    /// Rows inserted, changed and deleted.
    pub rows: u64,
    /// Syncs of the disk.
    pub syncs: u64,
}

/// One item of a dump. All items together are the whole hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DumpItem {
    /// An instance, except its tasks.
    Instance(Box<InstanceDump>),
    /// An open task, waiting or held.
    Task(Box<TaskDump>),
    /// A session.
    Session(SessionDump),
    /// An instance that cannot be read, or a part of it, and the reason. The dump has all other items. A damaged item cannot be
    /// loaded.
    Damaged(InstanceId, String),
    /// The number of messages that were dropped for a reason.
    Dropped(DropReason, u64),
    /// The hub's own values.
    Hub(HubDump),
    /// The id of a start that no instance names any more, and the time it was accepted (rule 21).
    RemovedStart(MessageId, Timestamp),
    /// The store's time when the dump began.
    Now(Timestamp),
}

impl DumpItem {
    /// Checks that the item can be loaded. A store checks all items of a part before it loads the first.
    ///
    /// # Errors
    /// [`Refused::Corrupt`] if the item is [damaged](Self::Damaged).
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

/// The values of a hub that belong to no instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HubDump {
    /// The floor of new instances.
    pub floor: Floor,
    /// Ids of removed starts that were forgotten early, beyond [`StoreLimits::removed_starts`].
    pub forgotten_starts: u64,
    /// The key of the hub; none before the first [`Manage::key`].
    pub key: Option<HubKey>,
}

/// The epoch and revision of new instances in a hub. Each removal raises it above the removed instance (rule 21), so that no
/// fence of a removed instance passes for a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Floor {
    /// The first epoch of a new instance.
    pub epoch: Epoch,
    /// The first revision of a new instance.
    pub revision: Revision,
}

impl Floor {
    /// The floor after the removal of an instance with that epoch and revision.
    #[must_use]
    pub fn above(self, epoch: Epoch, revision: Revision) -> Self {
        Self { epoch: self.epoch.max(epoch.next()), revision: self.revision.max(revision.next()) }
    }
}

/// An instance in a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceDump {
    /// Its id.
    pub id: InstanceId,
    /// Its record.
    pub record: Record,
    /// Its epoch: grows with each claim.
    pub epoch: Epoch,
    /// The session that holds it.
    pub holder: Option<SessionId>,
    /// A trial of the turn is open.
    pub trial: bool,
    /// The visibility of the earliest admitted message; `None` if no admitted message waits.
    pub ready_at: Option<Timestamp>,
    /// No session claims it before this time, after a release with delay.
    pub not_before: Timestamp,
    /// The history of the current run.
    pub history: Vec<StoredBatch>,
    /// The messages before the inbox.
    pub prologue: Vec<Message>,
    /// The waiting messages, in the store's order.
    pub inbox: Vec<Message>,
    /// Messages that its commits sent and its targets have not confirmed.
    pub outbox: Vec<Message>,
    /// Ids of remembered messages (rule 10), with the time they were applied.
    pub memory: Vec<(MessageId, Timestamp)>,
}

/// An open task in a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskDump {
    /// The activity to run.
    pub task: Task,
    /// Its epoch: grows with each claim.
    pub epoch: Epoch,
    /// The session that holds it.
    pub holder: Option<SessionId>,
    /// Failed attempts.
    pub attempts: u32,
    /// Deaths of the processes that held it.
    pub deaths: Deaths,
    /// When the session of a server that held it ended.
    pub mark: Option<Timestamp>,
    /// A trial of the task is open.
    pub trial: bool,
    /// No session claims it before this time.
    pub not_before: Timestamp,
    /// Whether the task was withdrawn: it stays until its holder answers or ends, and does not run again.
    pub withdrawn: bool,
}

/// A session in a dump.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionDump {
    /// The session.
    pub id: SessionId,
    /// Its host.
    pub host: HostId,
    /// The end of its lease. From then on other sessions may win its items.
    pub expires_at: Timestamp,
    /// Its process executes user code.
    pub runs_code: bool,
}

/// A part of a dump.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Dump {
    /// The items.
    pub items: Vec<DumpItem>,
    /// The `after` of the next part; `None` at the end.
    pub next: Option<String>,
}

/// One hub, for clients and operators.
#[async_trait]
pub trait Manage: Send + Sync {
    /// Starts instances, each in one write (rule 18).
    async fn create(&self, batch: Vec<Create>) -> Vec<Result<Created, Refused>>;

    /// Sends messages to instances (rule 5).
    async fn send(&self, batch: Vec<Message>) -> Vec<Result<Delivered, Refused>>;

    /// Commits a change without a claim (rule 2): compares execution and revision, and raises the epoch.
    async fn amend(&self, checkpoint: Checkpoint) -> Result<Committed, Refused>;

    /// Returns the records of instances, in the order of `ids`, with the fence of an amendment. Sees every acknowledged write.
    async fn get(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<(Fence, Record)>>, Refused>;

    /// Returns the holders, waiting messages and open tasks of instances, in the order of `ids`. Sees every acknowledged write.
    async fn inspect(&self, ids: Vec<InstanceId>) -> Result<Vec<Option<Inspection>>, Refused>;

    /// Lists the sessions that the store remembers, by id (rule 24). Sees every acknowledged write, and writes nothing.
    async fn sessions(&self) -> Result<Vec<SessionInfo>, Refused>;

    /// Finds instances, a page at a time. The answer may lag: see [`Page::lag`].
    async fn query(&self, query: Query) -> Result<Page, Refused>;

    /// Lists ended instances by completion time, a page at a time. The answer may lag.
    async fn list(&self, list: List) -> Result<IdPage, Refused>;

    /// Reads the history of the current run, like [`Work::load_history`]. Returns an empty slice for an absent instance and for
    /// another execution.
    async fn read_history(
        &self,
        instance: &InstanceId,
        execution: Option<ExecutionId>,
        from: u32,
        max_bytes: usize,
    ) -> Result<Slice, Refused>;

    /// Returns the start, or creating rewind, of a current run that has not begun, due or not. For an ended instance, returns
    /// the first start or rewind that waits. Returns nothing for an absent instance, and for a run that has begun and not ended.
    async fn read_start(&self, instance: &InstanceId) -> Result<Option<Message>, Refused>;

    /// Removes ended instances (rule 21).
    async fn purge(&self, purge: Purge) -> Result<Purged, Refused>;

    /// Ends the delay of stalled instances, so that they are claimed at once (rule 26). Returns the number of instances whose
    /// delay it ended.
    async fn retry(&self, ids: Vec<InstanceId>) -> Result<usize, Refused>;

    /// Returns the key of the hub, which seals the tokens of work items (rule 25). The first candidate becomes the key; later
    /// candidates change nothing. The key is durable before the answer. The call makes the hub, as a session does.
    async fn key(&self, candidate: HubKey) -> Result<HubKey, Refused>;

    /// Opens a session. Attaching the same session again renews it.
    ///
    /// # Errors
    /// [`Refused::Fenced`] if the session was ended, or belongs to another host.
    async fn attach(&self, host: Host) -> Result<Arc<dyn Work>, Refused>;

    /// Ends a session. The caller guarantees that its host is dead. The deaths of its items grow when another session wins
    /// them (rule 9).
    async fn end_session(&self, session: SessionId) -> Result<(), Refused>;

    /// Counts ready and held work (rule 22).
    async fn scale(&self) -> Result<Scale, Refused>;

    /// Returns the limits of the store.
    fn limits(&self) -> StoreLimits;

    /// Returns the counters of this handle.
    fn effort(&self) -> Effort {
        Effort::default()
    }

    /// Dumps the hub, a part at a time (rule 16). An item that cannot be read is a [`DumpItem::Damaged`]; the others follow.
    async fn dump(&self, after: Option<String>) -> Result<Dump, Refused>;

    /// Loads one part of a dump into an empty hub.
    ///
    /// # Errors
    /// [`Refused::NotExecuted`] if the hub is in use, [`Refused::Corrupt`] if an item is damaged. Then no item of the part is
    /// loaded.
    async fn load(&self, items: Vec<DumpItem>) -> Result<(), Refused>;

    /// Hints about instances and sessions of the hub, for clients that wait.
    fn changes(&self) -> Changes;
}
