//! What stops a turn, said so that the author of the code can act on it.
//!
//! None of these fails the instance: the turn is not committed, and a corrected deployment goes on from the history.

use std::fmt;
use std::panic::Location;

use dauer_core::ids::InvalidName;
use dauer_core::limits::POLLS_PER_EVENT_MAX;
use dauer_core::{InstanceId, Timestamp};
use dauer_proto::{ActionType, EventType};

use crate::payload::PayloadError;
use crate::registry::UnknownOrchestration;

/// Where in the code: file, line and column.
pub(crate) type Place = &'static Location<'static>;

/// Why a turn could not be carried out. The [`Live`](crate::Live) it happened in is of no further use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TurnError {
    /// The code does something else than the history recorded.
    #[error(
        "{location}: task #{id} is {found}, but the history recorded {expected} (#{id}); run the code that made this \
         history, or register the changed code as a new version"
    )]
    Mismatch {
        /// Where the code asked for it.
        location: Place,
        /// Which task it is, counted from 0.
        id: i32,
        /// What the code asked for.
        found: Decision,
        /// What the history recorded.
        expected: Decision,
    },
    /// The history recorded something that the code, at that point, had not asked for.
    #[error(
        "{state}, but the history recorded {expected} (#{id}); run the code that made this history, or register the \
         changed code as a new version"
    )]
    LeftOver {
        /// What the code did instead.
        state: Halt,
        /// Which task it is, counted from 0.
        id: i32,
        /// What the history recorded.
        expected: Decision,
    },
    /// The code waits for something that no history can ever bring.
    #[error(
        "instance '{instance}' awaits something that is not durable, {}: await only what the OrchestrationContext \
         gives, and move I/O, timers, locks and channels to other tasks into activities", after_place(*.after)
    )]
    NotDurable {
        /// Whose code it is.
        instance: InstanceId,
        /// The last durable step the code took: the await is behind it.
        after: Option<Place>,
    },
    /// The code was woken by something other than the history.
    #[error(
        "instance '{instance}' was woken by another thread, task or timer, {}: results must come from the history, so \
         move such work into activities", after_place(*.after)
    )]
    ForeignWake {
        /// Whose code it is.
        instance: InstanceId,
        /// The last durable step the code took.
        after: Option<Place>,
    },
    /// The context was used where the code of its orchestration was not running.
    #[error(
        "{location}: the OrchestrationContext was used outside its orchestration; do not hand it to threads or \
         spawned tasks, join futures instead"
    )]
    ForeignUse {
        /// Where it was used.
        location: Place,
    },
    /// The code wakes itself over and over.
    #[error(
        "instance '{instance}' was polled {POLLS_PER_EVENT_MAX} times for one event, {}: the code wakes itself without \
         end, so await something durable in the loop", after_place(*.after)
    )]
    PollLimit {
        /// Whose code it is.
        instance: InstanceId,
        /// The last durable step the code took.
        after: Option<Place>,
    },
    /// The code panicked.
    #[error("instance '{instance}' panicked, {}: {message}", after_place(*.after))]
    Panic {
        /// Whose code it is.
        instance: InstanceId,
        /// The last durable step the code took.
        after: Option<Place>,
        /// The message of the panic.
        message: String,
    },
    /// The name or version is not registered.
    #[error(transparent)]
    Unknown(#[from] UnknownOrchestration),
    /// The input is not what the code takes.
    #[error("the input of orchestration '{name}' cannot be read; register code that takes what was given")]
    Undecodable {
        /// The orchestration.
        name: String,
        /// Why it cannot be read.
        source: PayloadError,
    },
    /// A value cannot be written as JSON.
    #[error("{what} cannot be written as JSON; change its type or its Serialize")]
    Unencodable {
        /// Which value, and where.
        what: String,
        /// Why it cannot be written.
        source: PayloadError,
    },
    /// A name that the store would refuse.
    #[error("{location}: a name is not allowed")]
    Name {
        /// Where it is used.
        location: Place,
        /// What is wrong with it.
        source: InvalidName,
    },
    /// The history does not begin an execution, or not one of ours.
    #[error("the history cannot be replayed: {reason}")]
    History {
        /// What is missing or wrong.
        reason: String,
    },
    /// An earlier turn failed. The state of the code is unknown since.
    #[error("an earlier turn of this live orchestration failed; drop it and start again from the history")]
    Poisoned,
}

fn after_place(place: Option<Place>) -> String {
    match place {
        Some(place) => format!("after its durable step at {place}"),
        None => "before its first durable step".to_owned(),
    }
}

/// Something the code waits for, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiting {
    /// What would let it go on.
    pub what: Awaited,
    /// The place that waits.
    pub location: Place,
}

/// What code waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Awaited {
    /// The answer to the activity, child or timer with this id.
    Task(i32),
    /// An event of this name, in lower case.
    Event(String),
}

/// What the code was doing when the history had more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Halt {
    /// It had ended.
    Finished,
    /// It was waiting here, and maybe in other places too.
    Blocked(Place),
    /// It had not begun.
    NotBegun,
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finished => f.write_str("the code finished"),
            Self::Blocked(place) => write!(f, "{place}: the code is blocked here"),
            Self::NotBegun => f.write_str("the code had not begun"),
        }
    }
}

/// Something the code asked for, or the history recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// An activity.
    Activity(String),
    /// A child orchestration.
    Orchestration(String),
    /// A timer.
    Timer,
    /// An event sent to another instance.
    Event {
        /// The event.
        name: String,
        /// The instance it is sent to.
        target: String,
    },
    /// Something this version does not know.
    Other,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Activity(name) => write!(f, "activity '{name}'"),
            Self::Orchestration(name) => write!(f, "orchestration '{name}'"),
            Self::Timer => f.write_str("timer"),
            Self::Event { name, target } => write!(f, "event '{name}' to '{target}'"),
            Self::Other => f.write_str("something unknown"),
        }
    }
}

impl Decision {
    pub(crate) fn made(action: &ActionType) -> Self {
        match action {
            ActionType::ScheduleTask(task) => Self::Activity(task.name.clone()),
            ActionType::CreateSubOrchestration(child) => Self::Orchestration(child.name.clone()),
            ActionType::CreateTimer(_) => Self::Timer,
            ActionType::SendEvent(send) => {
                let target = send.instance.as_ref().map(|target| target.instance_id.clone());
                Self::Event { name: send.name.clone(), target: target.unwrap_or_default() }
            }
            _ => Self::Other,
        }
    }

    pub(crate) fn recorded(event: &EventType) -> Self {
        match event {
            EventType::TaskScheduled(task) => Self::Activity(task.name.clone()),
            EventType::SubOrchestrationInstanceCreated(child) => Self::Orchestration(child.name.clone()),
            EventType::TimerCreated(_) => Self::Timer,
            EventType::EventSent(sent) => {
                Self::Event { name: sent.name.clone(), target: sent.instance_id.clone() }
            }
            _ => Self::Other,
        }
    }
}

/// Whether the history recorded what the code asks for: the same kind and name, for events also the same target. Not
/// compared are inputs and times, which may change with the code without changing its course.
pub(crate) fn agrees(action: &ActionType, event: &EventType) -> bool {
    match (action, event) {
        (ActionType::ScheduleTask(task), EventType::TaskScheduled(scheduled)) => task.name == scheduled.name,
        (ActionType::CreateSubOrchestration(child), EventType::SubOrchestrationInstanceCreated(created)) => {
            child.name == created.name
        }
        (ActionType::CreateTimer(_), EventType::TimerCreated(_)) => true,
        (ActionType::SendEvent(send), EventType::EventSent(sent)) => {
            let target = send.instance.as_ref().map_or("", |target| &target.instance_id);
            send.name == sent.name && target == sent.instance_id
        }
        _ => false,
    }
}

/// The time of an event that says what time it is.
pub(crate) fn time_of(event: &dauer_proto::HistoryEvent) -> Result<Timestamp, TurnError> {
    let invalid = |reason: String| TurnError::History { reason };
    let timestamp =
        event.timestamp.as_ref().ok_or_else(|| invalid("an OrchestratorStarted has no timestamp".into()))?;
    let millis = dauer_proto::time::to_millis_ceil(timestamp)
        .map_err(|error| invalid(error.within("orchestratorStarted.timestamp").to_string()))?;
    Ok(Timestamp(millis))
}
