//! Why a test hub gives no output.

use std::error::Error;
use std::fmt;
use std::panic::Location;
use std::time::Duration;

use dauer_core::InstanceId;
use dauer_core::model::BlobError;
use dauer_core::send::InvalidRequest;
use dauer_core::turn::Stalled;
#[cfg(feature = "json")]
use dauer_proto::json::JsonError;
use dauer_replay::{Decision, Failure, PayloadError, RegisterError, TurnError, UnknownOrchestration};

use crate::explore::Injected;

/// Why a run in a [`TestHub`](crate::TestHub) gave no output.
///
/// [`Failed`](Self::Failed) and [`Terminated`](Self::Terminated) are ends that an orchestration may have; everything else
/// is a mistake in the orchestration or in the test. `unwrap` prints the message and its causes, line by line.
///
/// ```
/// use dauer_replay::{Event, Orchestration, OrchestrationContext, Result};
/// use dauer_testhub::{TestError, TestHub};
///
/// const APPROVED: Event<bool> = Event::new("approved");
/// const APPROVAL: Orchestration<(), bool> = Orchestration::new("approval");
///
/// async fn approval(ctx: OrchestrationContext, _: ()) -> Result<bool> {
///     Ok(ctx.event(APPROVED).await?)
/// }
///
/// let error = TestHub::new().run(APPROVAL, approval, ()).unwrap_err();
/// assert!(matches!(error, TestError::Stuck { .. }));
/// assert!(error.to_string().contains("waits for an event that the test never raises: 'approved' ("));
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum TestError {
    /// The orchestration failed.
    #[error("the orchestration failed")]
    Failed(#[source] Failure),
    /// The orchestration was terminated.
    #[error("the orchestration was terminated")]
    Terminated {
        /// What it was terminated with, as JSON.
        output: Option<String>,
    },
    /// The output is not of the type that the name promises.
    #[error(
        "the output of the orchestration cannot be read; make the types of the name and of the code agree"
    )]
    Output(#[source] PayloadError),
    /// A turn could not be carried out: the code does not fit its history, panicked, or awaits what is not durable.
    #[error("a turn of instance '{instance}' failed")]
    Turn {
        /// Whose turn.
        instance: InstanceId,
        /// What is wrong, and in which line.
        source: Box<TurnError>,
    },
    /// Two runs of the same turn, on the same history, asked for different things.
    #[error(
        "the code of instance '{instance}' is not deterministic: replayed on the same history it asked once for {first} \
         and once for {second}; take time, chance and the outside world from the context or from activities"
    )]
    NotDeterministic {
        /// Whose code.
        instance: InstanceId,
        /// What it asked for first.
        first: String,
        /// What it asked for when it was replayed.
        second: String,
    },
    /// What a turn asks for cannot be carried out, because it passes a limit or makes no sense.
    #[error("what instance '{instance}' asks for is refused")]
    Refused {
        /// Whose turn.
        instance: InstanceId,
        /// Why.
        source: Stalled,
    },
    /// An activity was called that the test knows nothing of.
    #[error(
        "activity '{name}' is called by instance '{instance}'{}, but the test has no answer for it; add it with \
         .activity(..), .script(..) or .activity_code(..)", at(*.location)
    )]
    NoActivity {
        /// The activity.
        name: String,
        /// Who calls it.
        instance: InstanceId,
        /// Where it is awaited.
        location: Option<&'static Location<'static>>,
    },
    /// A script has fewer answers than there are calls.
    #[error(
        "the script of activity '{name}' ends after {answers} calls, and this is call {call}; add an answer, or .always()"
    )]
    ScriptOver {
        /// The activity.
        name: String,
        /// How many calls the script answers.
        answers: usize,
        /// Which call this is.
        call: usize,
    },
    /// The code of an activity waits, and nobody is there whom it could wait for.
    #[error(
        "the code of activity '{name}' waits for I/O or a runtime, which a test hub has not; give it a closure or a script instead"
    )]
    ActivityWaits {
        /// The activity.
        name: String,
    },
    /// An orchestration was started that the test knows nothing of.
    #[error("instance '{instance}' cannot run; add its code with .orchestration(..)")]
    NoOrchestration {
        /// The instance that was started.
        instance: InstanceId,
        /// Which name or version is missing.
        source: UnknownOrchestration,
    },
    /// Nothing can happen any more, and the orchestration has not ended.
    #[error("{}", blocked(.waits))]
    Stuck {
        /// What is waited for, events first.
        waits: Vec<Blocked>,
    },
    /// The orchestration takes turn after turn.
    #[error(
        "orchestration '{name}' (instance '{instance}') has not ended after {turns} turns and {time:?} of virtual time; \
         let the test end it, or allow more with .turns_max(..)"
    )]
    Endless {
        /// The orchestration whose turn was one too many.
        name: String,
        /// Its instance.
        instance: InstanceId,
        /// How many turns were allowed.
        turns: usize,
        /// How much time has passed for the orchestration.
        time: Duration,
    },
    /// Something happened in one of many runs.
    #[error("{injected}: the run gave no outcome")]
    Case {
        /// In which one.
        injected: Injected,
        /// What happened.
        source: Box<TestError>,
    },
    /// A crash changed how the orchestration ends.
    #[error(
        "{injected}: it ended with {found} instead of {expected}; these activities ran more than once and must give the \
         same answer when they do: {}", .repeated.join(", ")
    )]
    CrashMattered {
        /// When the crash was.
        injected: Injected,
        /// The end without a crash.
        expected: String,
        /// The end with it.
        found: String,
        /// The activities that ran more than once for one call.
        repeated: Vec<String>,
    },
    /// An exported history that cannot be read.
    #[cfg(feature = "json")]
    #[error("the exported history cannot be read")]
    History(#[from] JsonError),
    /// An exported history of another orchestration.
    #[error("the history is of orchestration '{found}', not of '{expected}'; give the code of that one")]
    OtherOrchestration {
        /// Whose code was given.
        expected: String,
        /// Whose history it is.
        found: String,
    },
    /// The code, replayed on a whole history, goes on where the history shows that it did not.
    #[error(
        "the code asks for {found} (#{id}){}, where the history recorded that it waited or ended; run the code that made \
         this history, or register the changed code as a new version", at(*.location)
    )]
    Beyond {
        /// What the code asks for.
        found: Decision,
        /// Under which id.
        id: i32,
        /// Where it is awaited.
        location: Option<&'static Location<'static>>,
    },
    /// The code ends otherwise than the history recorded.
    #[error(
        "the code {found}, but the history recorded that it {expected}; run the code that made this history, or register the changed code as a new version"
    )]
    OtherEnd {
        /// How the code ends.
        found: String,
        /// How the history says that it ended.
        expected: String,
    },
    /// A name was registered twice or breaks a rule.
    #[error("the test cannot be set up")]
    Register(#[from] RegisterError),
    /// A start or event passes a limit.
    #[error("the test asks for something that no hub would accept")]
    Request(#[from] InvalidRequest),
    /// A value of the test cannot be written as JSON.
    #[error("{what} cannot be written as JSON; change its type or its Serialize")]
    Unencodable {
        /// Which value.
        what: String,
        /// Why.
        source: PayloadError,
    },
    /// Nothing was run yet.
    #[error("nothing was run in this hub yet; run an orchestration before you ask for its history")]
    NothingRun,
    /// The hub contradicts itself. This is a mistake in dauer.
    #[error("the test hub contradicts itself; this is a mistake in dauer, please report it")]
    Internal(#[source] Box<dyn Error + Send + Sync>),
}

impl fmt::Debug for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")?;
        let mut next = self.source();
        while let Some(cause) = next {
            write!(f, "\ncaused by: {cause}")?;
            next = cause.source();
        }
        Ok(())
    }
}

impl From<BlobError> for TestError {
    fn from(error: BlobError) -> Self {
        Self::Internal(error.into())
    }
}

impl From<dauer_replay::InvalidRequest> for TestError {
    fn from(error: dauer_replay::InvalidRequest) -> Self {
        Self::Internal(error.into())
    }
}

/// Something that an instance waits for in vain.
///
/// ```
/// use dauer_replay::{Event, Orchestration, OrchestrationContext, Result};
/// use dauer_testhub::{BlockedOn, TestError, TestHub};
///
/// const PAID: Event<u32> = Event::new("paid");
/// const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
///
/// async fn shop(ctx: OrchestrationContext, _: u32) -> Result<u32> {
///     Ok(ctx.event(PAID).await?)
/// }
///
/// let TestError::Stuck { waits } = TestHub::new().run(SHOP, shop, 7).unwrap_err() else { panic!() };
/// assert_eq!(waits[0].what, BlockedOn::Event("paid".to_owned()));
/// println!("{}", waits[0]); // with the line of the code that waits
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Blocked {
    /// Who waits.
    pub instance: InstanceId,
    /// For what.
    pub what: BlockedOn,
    /// Where in its code.
    pub location: Option<&'static Location<'static>>,
}

/// What can be waited for in vain.
///
/// ```
/// use dauer_replay::{Event, Orchestration, OrchestrationContext, Result};
/// use dauer_testhub::{BlockedOn, TestError, TestHub};
///
/// const PAID: Event<u32> = Event::new("paid");
/// const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
///
/// async fn shop(ctx: OrchestrationContext, _: u32) -> Result<u32> {
///     Ok(ctx.event(PAID).await?)
/// }
///
/// let TestError::Stuck { waits } = TestHub::new().run(SHOP, shop, 7).unwrap_err() else { panic!() };
/// assert_eq!(waits[0].what, BlockedOn::Event("paid".to_owned()));
/// println!("{}", waits[0]); // with the line of the code that waits
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum BlockedOn {
    /// An event that is never raised.
    Event(String),
    /// To be resumed.
    Resume,
    /// A child that never ends.
    Child(String),
    /// The answer to a task.
    Task(i32),
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "instance '{}' ", self.instance)?;
        match &self.what {
            BlockedOn::Event(name) => write!(f, "waits for an event that the test never raises: '{name}'")?,
            BlockedOn::Resume => f.write_str("is suspended, and the test never resumes it")?,
            BlockedOn::Child(name) => write!(f, "waits for orchestration '{name}', which never ends")?,
            BlockedOn::Task(id) => write!(f, "waits for task #{id}, which is never answered")?,
        }
        match self.location {
            Some(location) => write!(f, " ({location})"),
            None => Ok(()),
        }
    }
}

fn blocked(waits: &[Blocked]) -> String {
    let waits: Vec<_> = waits.iter().map(ToString::to_string).collect();
    format!(
        "{}; add what is missing with .raise_at(..) or .resume_at(..), or let the code time out",
        waits.join("; ")
    )
}

fn at(location: Option<&'static Location<'static>>) -> String {
    location.map(|location| format!(" ({location})")).unwrap_or_default()
}
