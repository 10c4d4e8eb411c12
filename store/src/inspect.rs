//! Values for operators: the sessions of a hub; the holder, waiting messages and open tasks of an instance.

use dauer_core::model::{Class, Control, Deaths, Over, QueueKey};
use dauer_core::{HostId, MessageId, SessionId, Timestamp};

/// The most messages, and the most tasks, that an [`Inspection`] lists. Enough to see why an instance waits; an inbox may
/// hold a hundred thousand.
pub const INSPECTED_MAX: usize = 100;

/// The state of one instance at one time (rule 23).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inspection {
    /// The store's time of the inspection.
    pub now: Timestamp,
    /// The session that holds the instance, even an expired one from which no session has won it.
    pub holder: Option<Holder>,
    /// The time from which the next turn can be claimed. None if no admitted message waits.
    pub ready_at: Option<Timestamp>,
    /// The number of messages in prologue and inbox.
    pub waiting: u64,
    /// The first [`INSPECTED_MAX`] of these messages. Starts, rewinds and control come before ordinary messages. Each of the two
    /// parts is in the order of delivery.
    pub messages: Vec<Waiting>,
    /// The number of open activity tasks: not answered, taken ones (rule 20) included.
    pub open: u64,
    /// The first [`INSPECTED_MAX`] of these tasks, by id.
    pub tasks: Vec<OpenTask>,
}

/// A session of a hub at one time (rule 24).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub id: SessionId,
    /// Its host.
    pub host: HostId,
    /// The end of its lease, by the store's clock.
    pub expires_at: Timestamp,
    /// Its process executes user code.
    pub runs_code: bool,
    /// Whether it lives: it has neither expired nor ended, and the store cannot prove its host dead.
    pub lives: bool,
}

/// The session that holds an instance or a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The session.
    pub session: SessionId,
    /// Its host; none if the store has forgotten the session.
    pub host: Option<HostId>,
    /// See [`SessionInfo::lives`].
    pub lives: bool,
}

/// A message that waits for an instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its id.
    pub id: MessageId,
    /// Its class.
    pub class: WaitingClass,
    /// The message is not delivered before this time.
    pub visible_at: Timestamp,
}

/// The class of a waiting message, without its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitingClass {
    /// [`Class::Start`].
    Start,
    /// A start that ends the current run ([`Over::Terminate`]).
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
    /// The session that holds it.
    pub holder: Option<Holder>,
    /// Failed attempts (rule 9).
    pub attempts: u32,
    /// Deaths of the processes that held it (rule 9).
    pub deaths: Deaths,
    /// When the session of a server that held it ended: a worker may still execute it (rule 9).
    pub mark: Option<Timestamp>,
    /// No session claims it before this time.
    pub not_before: Timestamp,
    /// Whether the task was withdrawn: it stays until its holder answers or ends, and does not run again.
    pub withdrawn: bool,
}

impl OpenTask {
    /// The number of tries before this one: failed attempts, and deaths of any kind.
    #[must_use]
    pub fn tried(&self) -> u32 {
        self.attempts.saturating_add(self.deaths.all())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_core::model::Kind;

    #[test]
    fn task_was_tried_by_failed_attempts_and_by_deaths() {
        let task = OpenTask {
            id: MessageId([1; 16]),
            event_id: 1,
            queue: QueueKey::new(Kind::Activity, "pay", None),
            holder: None,
            attempts: 1,
            deaths: Deaths { workers: 2, servers: 3, trials: 1 },
            mark: None,
            not_before: Timestamp::default(),
            withdrawn: false,
        };
        assert_eq!(task.tried(), 6);
    }
}
