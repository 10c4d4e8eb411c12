//! What an operator asks: the sessions of a hub; the holder, the waiting messages and the open tasks of an instance.

use dauer_core::model::{Class, Control, Over, QueueKey};
use dauer_core::{HostId, MessageId, SessionId, Timestamp};

/// How many messages, and how many tasks, an [`Inspection`] lists. Enough to see what an instance waits for; an inbox may
/// hold a hundred thousand.
pub const INSPECTED_MAX: usize = 100;

/// One instance from outside, as of one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inspection {
    /// The store's time.
    pub now: Timestamp,
    /// The session that holds the instance.
    pub holder: Option<Holder>,
    /// From when the next turn can be claimed; none while nothing waits that the instance admits.
    pub ready_at: Option<Timestamp>,
    /// How many messages wait, before the inbox and in it.
    pub waiting: u64,
    /// The first [`INSPECTED_MAX`] of them. Starts, rewinds and control come before ordinary messages, and each of the
    /// two parts is in the order of delivery.
    pub messages: Vec<Waiting>,
    /// How many activity tasks are open.
    pub open: u64,
    /// [`INSPECTED_MAX`] of them, by id.
    pub tasks: Vec<OpenTask>,
}

/// A session of a hub, as of one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// Its host.
    pub host: HostId,
    /// When its lease ends, by the store's clock.
    pub expires_at: Timestamp,
    /// Whether it lives: it has neither expired nor ended, and its host is not known to be dead.
    pub lives: bool,
}

/// The session that holds an instance or a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The session.
    pub session: SessionId,
    /// Its host; none when the store does not know the session any more.
    pub host: Option<HostId>,
    /// Whether the session lives: it has neither expired nor ended, and its host is not known to be dead.
    pub lives: bool,
}

/// A message that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its id.
    pub id: MessageId,
    /// Its class.
    pub class: WaitingClass,
    /// Not delivered before this time.
    pub visible_at: Timestamp,
}

/// The class of a waiting message, without what it carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitingClass {
    /// [`Class::Start`].
    Start,
    /// A start that ends a run which is there ([`Over::Terminate`]).
    Replacement,
    /// [`Class::Rewind`].
    Rewind,
    /// [`Class::Control`].
    Control(Control),
    /// [`Class::Ordinary`].
    Ordinary,
}

impl From<&Class> for WaitingClass {
    fn from(class: &Class) -> Self {
        match class {
            Class::Start(start) if start.over == Over::Terminate => Self::Replacement,
            Class::Start(_) => Self::Start,
            Class::Rewind(_) => Self::Rewind,
            Class::Control(control) => Self::Control(*control),
            Class::Ordinary => Self::Ordinary,
        }
    }
}

/// An activity task that has not been answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenTask {
    /// Its id.
    pub id: MessageId,
    /// The event id under which the instance scheduled it.
    pub event_id: i32,
    /// The activity's name and version.
    pub queue: QueueKey,
    /// The session that runs it.
    pub holder: Option<Holder>,
    /// Failed attempts.
    pub attempts: u32,
    /// Not to be claimed before.
    pub not_before: Timestamp,
    /// Whether it only waits for its holder to answer or die, and is not to run again.
    pub withdrawn: bool,
}
