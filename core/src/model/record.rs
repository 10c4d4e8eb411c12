//! The record of an instance: everything but its history.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use dauer_proto::OrchestrationStatus;

use crate::ids::{ExecutionId, InstanceId, MessageId, Revision, Timestamp};
use crate::model::{Class, Control, Deaths, Details, Kind, Message, Payload, QueueKey, Tags};

/// Where an instance stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Created, not yet run.
    Pending,
    /// Has run and not ended.
    Running,
    /// Takes only control messages.
    Suspended,
    /// Ended with an output.
    Completed,
    /// Ended with a failure.
    Failed,
    /// Ended from outside.
    Terminated,
    /// Ended by its own decision to cancel; only some SDKs use it.
    Canceled,
}

impl Status {
    /// Whether the run has ended.
    #[must_use]
    pub fn is_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Terminated | Self::Canceled)
    }
}

impl From<Status> for OrchestrationStatus {
    /// The protocol's word for it.
    fn from(status: Status) -> Self {
        match status {
            Status::Pending => Self::Pending,
            Status::Running => Self::Running,
            Status::Suspended => Self::Suspended,
            Status::Completed => Self::Completed,
            Status::Failed => Self::Failed,
            Status::Terminated => Self::Terminated,
            Status::Canceled => Self::Canceled,
        }
    }
}

impl From<OrchestrationStatus> for Status {
    /// Where an instance stands, by the word of the protocol.
    fn from(status: OrchestrationStatus) -> Self {
        match status {
            // Never seen from outside (behaviour 28); what continues, runs.
            OrchestrationStatus::Running | OrchestrationStatus::ContinuedAsNew => Self::Running,
            OrchestrationStatus::Completed => Self::Completed,
            OrchestrationStatus::Failed => Self::Failed,
            OrchestrationStatus::Canceled => Self::Canceled,
            OrchestrationStatus::Terminated => Self::Terminated,
            OrchestrationStatus::Pending => Self::Pending,
            OrchestrationStatus::Suspended => Self::Suspended,
        }
    }
}

/// Which waiting messages an instance takes: [`Record::hold`] finds it. `O` is the instance that has locked an entity, or a
/// reference to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold<O = InstanceId> {
    /// All.
    Open,
    /// Start and control: not started, or suspended.
    Control,
    /// Control only: suspended before it began. Its own start waits with everything else.
    Unborn,
    /// Control, and messages of that instance: an entity locked by it.
    From(O),
    /// Start and rewind: the run has ended. Others are dropped and counted.
    Ended,
}

impl<O: Borrow<InstanceId>> Hold<O> {
    /// Whether a message of that class and sender is delivered.
    #[must_use]
    pub fn admits(&self, message: &Message) -> bool {
        match (self, &message.class) {
            (Self::Open, _)
            | (Self::Control, Class::Start(_) | Class::Control(_))
            | (Self::Unborn | Self::From(_), Class::Control(_))
            | (Self::Ended, Class::Start(_) | Class::Rewind(_)) => true,
            (Self::From(owner), _) => message.origin.sender() == Some(owner.borrow()),
            (Self::Control | Self::Unborn | Self::Ended, _) => false,
        }
    }

    /// The same without the owner.
    #[must_use]
    pub fn as_ref(&self) -> Hold<&InstanceId> {
        match self {
            Self::Open => Hold::Open,
            Self::Control => Hold::Control,
            Self::Unborn => Hold::Unborn,
            Self::From(owner) => Hold::From(owner.borrow()),
            Self::Ended => Hold::Ended,
        }
    }

    /// The same with an owner of its own.
    #[must_use]
    pub fn to_owned(&self) -> Hold {
        match self {
            Self::Open => Hold::Open,
            Self::Control => Hold::Control,
            Self::Unborn => Hold::Unborn,
            Self::From(owner) => Hold::From(owner.borrow().clone()),
            Self::Ended => Hold::Ended,
        }
    }
}

/// When things happened, by the store's clock.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Times {
    /// When the instance was created; kept by continue-as-new.
    pub created: Timestamp,
    /// When the store accepted the start that the record names.
    pub accepted: Timestamp,
    /// When it last changed.
    pub updated: Timestamp,
    /// Not to run before this time.
    pub scheduled: Option<Timestamp>,
    /// When the run ended.
    pub completed: Option<Timestamp>,
}

/// The instance that waits for this one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parent {
    /// Its id.
    pub instance: InstanceId,
    /// The run that waits.
    pub execution: ExecutionId,
    /// The event id under which it scheduled this instance.
    pub event_id: i32,
}

/// Why an instance's turn cannot run now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What kind of trouble.
    pub kind: TroubleKind,
    /// What happened and what to do, in a sentence.
    pub reason: String,
    /// Since when.
    pub since: Timestamp,
    /// How many turns have failed in this way since the last commit; set by the store.
    pub attempts: u32,
    /// The same for the other kinds of trouble that the instance has had since the last commit; set by the store.
    pub others: Vec<(TroubleKind, u32)>,
    /// The build id of the worker that had the trouble, if it is known.
    pub build: Option<Arc<str>>,
}

impl Trouble {
    /// A trouble of an instance that had none since its last commit.
    #[must_use]
    pub fn new(kind: TroubleKind, reason: impl Into<String>, since: Timestamp) -> Self {
        Self { kind, reason: reason.into(), since, attempts: 1, others: Vec::new(), build: None }
    }

    /// The same trouble, of a worker with that build id.
    #[must_use]
    pub fn of_build(self, build: Option<Arc<str>>) -> Self {
        Self { build, ..self }
    }

    /// How many turns have failed in that way since the last commit.
    #[must_use]
    pub fn attempts_of(&self, kind: TroubleKind) -> u32 {
        if kind == self.kind {
            return self.attempts;
        }
        self.others.iter().find(|(other, _)| *other == kind).map_or(0, |(_, attempts)| *attempts)
    }

    /// This trouble as that of an instance that had `earlier` before: each kind has a count of its own, and a trouble that goes on
    /// began with its first attempt.
    #[must_use]
    pub fn behind(self, earlier: Option<&Self>) -> Self {
        let Some(earlier) = earlier else { return Self { attempts: 1, others: Vec::new(), ..self } };
        let attempts = earlier.attempts_of(self.kind).saturating_add(1);
        let since = if earlier.kind == self.kind { earlier.since } else { self.since };
        let mut others = earlier.others.clone();
        others.push((earlier.kind, earlier.attempts));
        others.retain(|(kind, _)| *kind != self.kind);
        others.sort_unstable();
        Self { since, attempts, others, ..self }
    }
}

/// The kinds of trouble. Each has a count of its own, and a setting for whether it ever becomes Failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum TroubleKind {
    /// The code does not match the history.
    Mismatch,
    /// The code panicked.
    Panic,
    /// No code of that name or version is registered.
    UnknownName,
    /// Input, history or message cannot be decoded.
    Undecodable,
    /// The code waits for something that is not durable, or never stops.
    NotDurable,
    /// The worker's answer makes no sense.
    InvalidAnswer,
    /// A limit was passed.
    TooLarge,
    /// The processes that ran the turn died with it.
    HostDied,
}

/// An entity's part of a record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntityRecord {
    /// Its state; `None` when it has none.
    pub state: Option<Payload>,
    /// Who has locked it.
    pub lock: Option<Lock>,
    /// Critical sections that were unlocked before their lock request arrived.
    pub early_unlocks: Vec<String>,
}

/// A lock on an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    /// The critical section.
    pub section: String,
    /// The orchestration that holds it.
    pub owner: InstanceId,
    /// The run of it.
    pub owner_execution: ExecutionId,
}

/// An instance without its history: enough to claim, get, list and route it, and to check a cache. A small head, whose fields
/// most turns change, and shared [`Details`]. What most instances do not have is boxed: every turn moves a record through many
/// hands.
#[derive(Clone, PartialEq, Eq)]
pub struct Record<D = Details> {
    /// What claims filter by.
    pub queue: QueueKey,
    /// The current run.
    pub execution: ExecutionId,
    /// The ordinal of the current run, from 0.
    pub generation: u32,
    /// Where the instance stands in the order of its commits, from the floor of its hub on; set by the store.
    pub revision: Revision,
    /// Where it stands.
    pub status: Status,
    /// When things happened; set by the store.
    pub times: Times,
    /// Events in the history of the current run.
    pub history_len: u32,
    /// Bytes in the history of the current run.
    pub history_bytes: u64,
    /// Attempts at the next turn that failed.
    pub attempts: u32,
    /// Deaths of the processes that had the next turn; set by the store.
    pub deaths: Deaths,
    /// Why the next turn cannot run.
    pub trouble: Option<Box<Trouble>>,
    /// The start message that began this instance: the same again is a repeat, and a child's answer names it.
    pub start: MessageId,
    /// The instance that waits for this one.
    pub parent: Option<Box<Parent>>,
    /// Labels.
    pub tags: Tags,
    /// Output, custom status, failure, trace and the entity's part.
    pub details: D,
}

/// A record as a checkpoint leaves it: its details are those that replace the instance's. None if those stay as they are.
pub type NextRecord = Record<Option<Details>>;

impl<D> Record<D> {
    fn map<E>(self, change: impl FnOnce(D) -> E) -> Record<E> {
        Record {
            queue: self.queue,
            execution: self.execution,
            generation: self.generation,
            revision: self.revision,
            status: self.status,
            times: self.times,
            history_len: self.history_len,
            history_bytes: self.history_bytes,
            attempts: self.attempts,
            deaths: self.deaths,
            trouble: self.trouble,
            start: self.start,
            parent: self.parent,
            tags: self.tags,
            details: change(self.details),
        }
    }
}

impl<D> Record<D> {
    fn show_head<'f, 'a>(
        &self,
        f: &'f mut fmt::Formatter<'a>,
        hold: Option<Hold<&InstanceId>>,
    ) -> fmt::DebugStruct<'f, 'a> {
        let mut shown = f.debug_struct("Record");
        shown
            .field("queue", &self.queue)
            .field("execution", &self.execution)
            .field("generation", &self.generation)
            .field("revision", &self.revision)
            .field("status", &self.status);
        if let Some(hold) = hold {
            shown.field("hold", &hold);
        }
        shown
            .field("times", &self.times)
            .field("history_len", &self.history_len)
            .field("history_bytes", &self.history_bytes)
            .field("attempts", &self.attempts)
            .field("deaths", &self.deaths)
            .field("trouble", &self.trouble)
            .field("start", &self.start)
            .field("parent", &self.parent)
            .field("tags", &self.tags);
        shown
    }
}

/// Shown as one: where the fields of a record lie is of no interest to a reader of a log.
impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details = &self.details;
        self.show_head(f, Some(self.hold()))
            .field("custom_status", &details.custom_status())
            .field("output", &details.output())
            .field("failure", &details.failure())
            .field("trace", &details.trace())
            .field("entity", &details.entity())
            .finish()
    }
}

impl fmt::Debug for NextRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.show_head(f, None).field("details", &self.details).finish()
    }
}

impl NextRecord {
    /// The record after the checkpoint, of an instance that had these details.
    #[must_use]
    pub fn after(self, before: &Details) -> Record {
        self.map(|details| details.unwrap_or_else(|| before.clone()))
    }
}

impl Record {
    /// The record of an instance that has not run: Pending, held for its start.
    #[must_use]
    pub fn pending(queue: QueueKey, execution: ExecutionId, start: MessageId) -> Self {
        Self {
            queue,
            execution,
            generation: 0,
            revision: Revision::default(),
            status: Status::Pending,
            times: Times::default(),
            history_len: 0,
            history_bytes: 0,
            attempts: 0,
            deaths: Deaths::default(),
            trouble: None,
            start,
            parent: None,
            tags: Tags::new(),
            details: Details::new(),
        }
    }

    /// What a checkpoint carries that leaves the instance with this record, where it had these details.
    #[must_use]
    pub fn since(self, before: &Details) -> NextRecord {
        self.map(|details| (!details.is_shared_with(before)).then_some(details))
    }

    /// Which messages it takes.
    ///
    /// A suspended run has begun when its history has an event: its start is the first. A run that is suspended before it began
    /// has no event that says so, and its history stays empty until it is resumed. So the length of the history is the bit by
    /// which [`Hold::Unborn`] differs from [`Hold::Control`], and nothing else is stored for it.
    #[must_use]
    pub fn hold(&self) -> Hold<&InstanceId> {
        match self.status {
            Status::Pending => Hold::Control,
            Status::Suspended if self.history_len == 0 => Hold::Unborn,
            Status::Suspended => Hold::Control,
            Status::Running => self.locked_by().map_or(Hold::Open, Hold::From),
            Status::Completed | Status::Failed | Status::Terminated | Status::Canceled => Hold::Ended,
        }
    }

    /// The orchestration that has locked the entity.
    fn locked_by(&self) -> Option<&InstanceId> {
        self.details.entity()?.lock.as_ref().map(|lock| &lock.owner)
    }

    /// Whether the instance waits for its first turn: pending, or suspended before it began.
    #[must_use]
    pub fn is_unborn(&self) -> bool {
        self.status == Status::Pending || self.hold() == Hold::Unborn
    }

    /// The record of an entity that a message creates, in a hub whose floor is at `floor`. Entities are always open for
    /// messages.
    #[must_use]
    pub fn entity(name: &str, first: &Message, floor: Revision) -> Self {
        let queue = QueueKey::new(Kind::Entity, name, None);
        let execution = crate::identity::entity_execution(first.id, floor);
        let record = Self::pending(queue, execution, first.id);
        let mut details = Details::new();
        details.set_entity(Some(EntityRecord::default()));
        Self { status: Status::Running, details, ..record }
    }
}

impl Message {
    /// Whether this is a suspend: a turn's batch ends with the first of them.
    #[must_use]
    pub fn is_suspend(&self) -> bool {
        matches!(self.class, Class::Control(Control::Suspend))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_trouble_counts_for_itself() {
        use TroubleKind::{Panic, UnknownName};
        let mut trouble: Option<Trouble> = None;
        for (at, kind) in (0..).zip([UnknownName, UnknownName, Panic, UnknownName, Panic, Panic]) {
            trouble = Some(Trouble::new(kind, "why", Timestamp(at)).behind(trouble.as_ref()));
        }
        let trouble = trouble.unwrap();
        assert_eq!((trouble.kind, trouble.attempts, trouble.since), (Panic, 3, Timestamp(4)));
        assert_eq!(trouble.others, [(UnknownName, 3)]);
        assert_eq!(trouble.attempts_of(UnknownName), 3);
        assert_eq!(trouble.attempts_of(TroubleKind::Mismatch), 0);
    }

    use crate::model::{Encoded, Opening, Origin};

    fn id(text: &str) -> InstanceId {
        InstanceId::new(text).unwrap()
    }

    #[test]
    fn every_status_has_a_word_and_the_word_has_the_status() {
        for status in [
            Status::Pending,
            Status::Running,
            Status::Suspended,
            Status::Completed,
            Status::Failed,
            Status::Terminated,
            Status::Canceled,
        ] {
            assert_eq!(Status::from(OrchestrationStatus::from(status)), status);
        }
        assert_eq!(Status::from(OrchestrationStatus::ContinuedAsNew), Status::Running);
    }

    fn record() -> Record {
        let queue = QueueKey::new(Kind::Orchestration, "order", None);
        Record::pending(queue, ExecutionId(1), MessageId([1; 16]))
    }

    fn message(class: Class, sender: Option<&str>) -> Message {
        let origin = sender.map_or(Origin::Client { request: None }, |sender| Origin::Turn {
            instance: id(sender),
            execution: ExecutionId(2),
            revision: Revision(1),
            ordinal: Some(0),
        });
        let event = Encoded::new(&dauer_proto::event::event_raised(0, "go", None));
        let (execution, answers, visible_at) = (None, None, Timestamp::default());
        Message {
            id: MessageId([2; 16]),
            to: id("@lamp@1"),
            execution,
            class,
            origin,
            answers,
            visible_at,
            event,
        }
    }

    /// Rule 4 of the store contract, as a table.
    #[test]
    fn a_hold_admits_what_rule_4_says() {
        let start = || Box::new(Opening::new(record().queue, ExecutionId(1)));
        let messages = [
            message(Class::Start(start()), None),
            message(Class::Rewind(start()), None),
            message(Class::Control(Control::Suspend), None),
            message(Class::Control(Control::Resume), None),
            message(Class::Control(Control::Terminate), None),
            message(Class::Ordinary, None),
            message(Class::Ordinary, Some("owner")),
            message(Class::Ordinary, Some("other")),
        ];
        let admitted = |hold: Hold| messages.each_ref().map(|message| u8::from(hold.admits(message)));
        assert_eq!(admitted(Hold::Open), [1, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(admitted(Hold::Control), [1, 0, 1, 1, 1, 0, 0, 0]);
        assert_eq!(admitted(Hold::Unborn), [0, 0, 1, 1, 1, 0, 0, 0]);
        assert_eq!(admitted(Hold::From(id("owner"))), [0, 0, 1, 1, 1, 0, 1, 0]);
        assert_eq!(admitted(Hold::Ended), [1, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn hold_follows_from_status_history_and_lock() {
        let of = |status, history_len| Record { status, history_len, ..record() };
        assert_eq!(of(Status::Pending, 0).hold(), Hold::Control);
        assert_eq!(of(Status::Suspended, 0).hold(), Hold::Unborn);
        assert_eq!(of(Status::Suspended, 1).hold(), Hold::Control);
        for ended in [Status::Completed, Status::Failed, Status::Terminated, Status::Canceled] {
            assert_eq!(of(ended, 3).hold(), Hold::Ended);
        }
        let mut locked = of(Status::Running, 3);
        assert_eq!(locked.hold(), Hold::Open);
        let lock = Lock { section: "s".into(), owner: id("owner"), owner_execution: ExecutionId(2) };
        locked.details.set_entity(Some(EntityRecord { lock: Some(lock), ..EntityRecord::default() }));
        assert_eq!(locked.hold(), Hold::From(&id("owner")));
        assert_eq!(locked.hold().to_owned().as_ref(), locked.hold());
    }

    /// A message to an absent entity brings it into being (rule 5): it is there at once, and takes messages.
    #[test]
    fn an_entity_is_open_for_messages_from_the_first() {
        let first = message(Class::Ordinary, Some("owner"));
        let entity = Record::entity("lamp", &first, Revision(3));
        assert_eq!(entity.queue, QueueKey::new(Kind::Entity, "lamp", None));
        assert_eq!((entity.status, entity.hold()), (Status::Running, Hold::Open));
        assert_eq!(entity.details.entity(), Some(&EntityRecord::default()));
        assert_eq!(
            (entity.start, entity.execution),
            (first.id, crate::identity::entity_execution(first.id, Revision(3)))
        );
    }
}
