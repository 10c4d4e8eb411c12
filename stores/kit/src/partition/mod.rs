//! A set of instances in memory, with its indexes: one hub of the memory store.
//!
//! Every operation checks and applies by [`crate::instance`], then writes the changes (`write.rs`): entries go into their maps,
//! and the instance or task is put where looks find it. The place is derived from the instance, its holder, and the holder's
//! life. No operation goes through all instances, all tasks of an instance, or all messages that wait, except those that are
//! about all of them.
//!
//! An instance has its tasks with it: a commit finds it once, and all that it changes from there. What is not of one instance
//! stands in `Lists`, so that both are changed together. A task that is loaded before its instance is an orphan until then.
//! So a task is with its instance, or an orphan of none, and never both.
//!
//! An operation leaves [`News`] for those who wait. The caller takes them when it has let go of its lock.

mod dump;
mod held;
mod index;
mod load;
mod look;
mod memory;
mod purge;
mod query;
mod reads;
mod retry;
mod sessions;
mod starts;
mod turns;
mod write;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::ops::RangeInclusive;
use std::time::Duration;

use dauer_store::{
    DropReason, ExecutionId, Floor, Hint, HubDump, InstanceId, Kind, Message, MessageId, SessionId,
    StoreLimits, StoredBatch, Timestamp,
};

use crate::few::Few;
use crate::instance::{Changes, Context, Facts, HeldTask, Instance};
use crate::session::Fate;
use index::{Index, Spot};
use memory::Applied;
use sessions::Sessions;
use starts::RemovedStarts;

/// A task is found by its instance first: the tasks of one instance stand together.
type TaskKey = (InstanceId, MessageId);

/// The tasks of one instance.
type Tasks = Few<MessageId, Box<TaskRow>>;

/// What an operation has changed for those who wait.
#[derive(Debug, Default)]
pub struct News {
    /// For those who watch instances and sessions.
    pub hints: Vec<Hint>,
    /// Kinds of work of which some has become ready.
    pub ready: Vec<Kind>,
    /// Held instances for which a message is visible, with their holders.
    pub mail: Vec<(SessionId, InstanceId)>,
    /// How long until the first of what is not ready yet.
    pub due: Option<Duration>,
}

impl News {
    /// Work stands where looks find it, now or later.
    fn stands(&mut self, spot: &Spot, now: Timestamp) {
        let kind = spot.queue.kind;
        if spot.time > now {
            self.due_at(spot.time, now);
        } else if !self.ready.contains(&kind) {
            self.ready.push(kind);
        }
    }

    fn due_at(&mut self, time: Timestamp, now: Timestamp) {
        self.due = self.due.into_iter().chain([time.since(now)]).min();
    }
}

/// An instance with all that belongs to it.
#[derive(Debug, Clone)]
struct Stored {
    instance: Instance,
    history: Vec<StoredBatch>,
    applied: Applied,
    tasks: Tasks,
    /// Messages of a loaded instance that its targets do not have yet.
    outbox: Vec<Message>,
    indexed: Indexed,
    /// The record before the last commit: a planted mistake.
    #[cfg(feature = "planted")]
    stale: Option<Box<dauer_store::Record>>,
}

/// How the indexes have an instance.
#[derive(Debug, Clone, Default)]
struct Indexed {
    holder: Option<SessionId>,
    created: Option<Timestamp>,
    completed: Option<Timestamp>,
    spot: Option<Spot>,
    mail: Option<Timestamp>,
}

/// A task, and where the index has it.
#[derive(Debug, Clone)]
struct TaskRow {
    held: HeldTask,
    /// The session that has it in its list, and where.
    holder: Option<(SessionId, u64)>,
    spot: Option<Spot>,
}

/// What decisions look up beside an instance.
#[derive(Debug, Default)]
struct Beside {
    now: Timestamp,
    sessions: Sessions,
    starts: RemovedStarts,
}

/// What a decision about one instance looks up.
struct Known<'p> {
    applied: Option<&'p Applied>,
    tasks: Option<&'p Tasks>,
    beside: &'p Beside,
}

/// All of a hub but its instances and their tasks.
#[derive(Debug)]
struct Lists {
    beside: Beside,
    limits: StoreLimits,
    /// Grows with everything that has a place in an order.
    sequence: u64,
    /// Grows with every task that a session gets.
    listed: u64,
    hub: HubDump,
    dropped: BTreeMap<DropReason, u64>,
    ready_turns: Index<InstanceId>,
    ready_tasks: Index<TaskKey>,
    by_created: BTreeSet<(Timestamp, InstanceId)>,
    by_completed: BTreeSet<(Timestamp, InstanceId)>,
    /// Instances with messages in their outbox, which are delivered before the next look.
    to_relay: BTreeSet<InstanceId>,
    changes: Changes,
    news: News,
}

/// One hub.
#[derive(Debug)]
pub struct Partition {
    /// Whether nothing but loads has happened, so that another part may be loaded.
    pristine: bool,
    instances: BTreeMap<InstanceId, Box<Stored>>,
    /// The tasks of instances that are not there. Only a load leaves them: a purge takes the tasks too.
    orphans: BTreeMap<InstanceId, Tasks>,
    lists: Lists,
}

impl Facts for Known<'_> {
    type Error = Infallible;

    fn fate(&self, session: SessionId) -> Result<Fate, Infallible> {
        Ok(self.beside.sessions.fate(session, self.beside.now))
    }

    fn applied_at(&self, id: MessageId) -> Result<Option<Timestamp>, Infallible> {
        Ok(self.applied.and_then(|applied| applied.at(id)))
    }

    fn removed_start(&self, ids: &RangeInclusive<MessageId>) -> Result<Option<Timestamp>, Infallible> {
        Ok(self.beside.starts.latest(ids))
    }

    fn task(&self, id: MessageId) -> Result<Option<Cow<'_, HeldTask>>, Infallible> {
        Ok(self.tasks.and_then(|tasks| tasks.get(&id)).map(|row| Cow::Borrowed(&row.held)))
    }

    fn tasks(&self, run: Option<ExecutionId>) -> Result<Vec<Cow<'_, HeldTask>>, Infallible> {
        let held = self.tasks.into_iter().flat_map(Tasks::iter).map(|(_, row)| &row.held);
        let of_run = held.filter(|held| run.is_none_or(|run| held.task.execution == run));
        Ok(of_run.map(Cow::Borrowed).collect())
    }
}

impl Stored {
    fn new(instance: Instance, tasks: Tasks) -> Self {
        Self {
            instance,
            history: Vec::new(),
            applied: Applied::default(),
            tasks,
            outbox: Vec::new(),
            indexed: Indexed::default(),
            #[cfg(feature = "planted")]
            stale: None,
        }
    }
}

impl Beside {
    /// What decisions about an instance that is there look up.
    fn known<'p>(&'p self, stored: &'p Stored) -> Known<'p> {
        Known { applied: Some(&stored.applied), tasks: Some(&stored.tasks), beside: self }
    }

    /// What decisions about an absent instance look up.
    fn known_absent<'p>(&'p self, orphans: Option<&'p Tasks>) -> Known<'p> {
        Known { applied: None, tasks: orphans, beside: self }
    }
}

impl Lists {
    fn new(limits: StoreLimits) -> Self {
        Self {
            beside: Beside::default(),
            limits,
            sequence: 0,
            listed: 0,
            hub: HubDump::default(),
            dropped: BTreeMap::new(),
            ready_turns: Index::default(),
            ready_tasks: Index::default(),
            by_created: BTreeSet::new(),
            by_completed: BTreeSet::new(),
            to_relay: BTreeSet::new(),
            changes: Changes::default(),
            news: News::default(),
        }
    }

    fn count_dropped(&mut self, reason: DropReason, count: u64) {
        if count > 0 {
            *self.dropped.entry(reason).or_default() += count;
        }
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Where a new instance begins.
    fn floor(&self) -> Floor {
        if planted!(Bug::PurgeResetsEpoch) { Floor::default() } else { self.hub.floor }
    }

    fn context(&self) -> Context<'_> {
        Context { now: self.beside.now, limits: &self.limits }
    }

    /// Changes an instance. The caller writes the changes.
    fn apply<T>(
        &mut self,
        instance: &mut Instance,
        change: impl FnOnce(&mut Instance, u64, Context<'_>, &mut Changes) -> T,
    ) -> T {
        let sequence = self.next_sequence();
        let context = Context { now: self.beside.now, limits: &self.limits };
        change(instance, sequence, context, &mut self.changes)
    }
}

impl Partition {
    /// An empty hub.
    #[must_use]
    pub fn new(limits: StoreLimits) -> Self {
        let (instances, orphans) = Default::default();
        Self { pristine: true, instances, orphans, lists: Lists::new(limits) }
    }

    /// Begins an operation at that time. A hub that was loaded from a store whose clock was ahead waits for this one to catch
    /// up.
    pub fn enter(&mut self, now: Timestamp) {
        self.lists.beside.now = self.lists.beside.now.max(now);
    }

    /// The store's time of the current operation.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.lists.beside.now
    }

    /// What the operations since the last call have changed for those who wait.
    #[must_use]
    pub fn take_news(&mut self) -> News {
        std::mem::take(&mut self.lists.news)
    }

    /// The kinds of work of which some has become ready since then.
    #[must_use]
    pub fn ready(&self) -> &[Kind] {
        &self.lists.news.ready
    }

    /// Changes the limits.
    pub fn set_limits(&mut self, limits: StoreLimits) {
        self.lists.limits = limits;
    }

    /// Whether the hub exists: something was ever put into it. Reads and purges put nothing into it.
    #[must_use]
    pub fn exists(&self) -> bool {
        let empty = self.instances.is_empty()
            && self.lists.beside.sessions.is_empty()
            && self.lists.dropped.is_empty();
        !self.pristine || !empty
    }

    /// The tasks of an instance that is there or not.
    fn tasks_of(&self, id: &InstanceId) -> Option<&Tasks> {
        self.instances.get(id).map(|stored| &stored.tasks).or_else(|| self.orphans.get(id))
    }

    fn task(&self, (instance, task): &TaskKey) -> Option<&TaskRow> {
        self.tasks_of(instance)?.get(task).map(|row| &**row)
    }
}
