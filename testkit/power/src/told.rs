//! What a child tells its parent, one line of JSON each: every answer that the store gave, at the moment it gave it.

use std::hash::{DefaultHasher, Hasher as _};
use std::io::Write as _;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use dauer::{ExecutionId, InstanceId, Record, Status, Timestamp};
use dauer_audit::{Action, ClientJournal, Operation, Outcome};
use dauer_store::{Checkpoint, Committed, History, MessageId};
use serde::{Deserialize, Serialize};

/// One thing that a store told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Told {
    /// A start was acknowledged.
    Started { instance: String, execution: u128, start: u128 },
    /// An event was acknowledged.
    Raised { instance: String, message: u128 },
    /// The answer of an activity was acknowledged.
    Answered { instance: String, execution: u128, answer: u128 },
    /// A commit was acknowledged. The digest is that of its events; a commit that replaces the history has none.
    Committed { instance: String, revision: u64, execution: u128, digest: Option<u64> },
    /// A client saw the end of an instance.
    Ended { instance: String, execution: u128, completed: bool, output: Option<String> },
    /// An instance is about to be purged.
    Purging { instance: String, execution: u128 },
    /// It was.
    Purged { instance: String, execution: u128 },
    /// A call was refused in a way that is allowed when the disk fails.
    Refused { call: String, how: String },
    /// A store could not be opened, in a way that is allowed when the disk fails.
    NotOpened(String),
    /// Something that must not happen, whatever the disk does.
    Complaint(String),
    /// All work is done.
    Done,
}

/// Where it is told.
pub(crate) type Tell = Arc<dyn Fn(Told) + Send + Sync>;

/// The identity of a message as a number.
pub(crate) fn number(id: MessageId) -> u128 {
    u128::from_be_bytes(id.0)
}

/// A digest of bytes, the same in every process of one build.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

impl Told {
    /// The commit of a checkpoint.
    pub(crate) fn committed(checkpoint: &Checkpoint, committed: &Committed) -> Self {
        let (execution, digest) = match &checkpoint.history {
            History::Append(batch) => (checkpoint.fence.execution, Some(digest(batch.events.stored()))),
            History::Replace { execution, .. } => (*execution, None),
        };
        let (instance, revision) = (checkpoint.fence.instance.to_string(), committed.revision.0);
        Self::Committed { instance, revision, execution: execution.0, digest }
    }

    /// The end of an instance.
    pub(crate) fn ended(instance: &InstanceId, record: &Record) -> Self {
        Self::Ended {
            instance: instance.to_string(),
            execution: record.execution.0,
            completed: record.status == Status::Completed,
            output: record.details.output().map(|output| output.as_str().to_owned()),
        }
    }

    /// Tells the parent. Without one there is nobody to work for.
    pub(crate) fn say(&self) {
        let Ok(mut line) = serde_json::to_string(self) else { std::process::abort() };
        line.push('\n');
        if std::io::stdout().lock().write_all(line.as_bytes()).is_err() {
            std::process::abort();
        }
    }

    /// The same for the auditor, if it is something that a client was told.
    fn operation(&self, at: Timestamp) -> Option<Operation> {
        let message = |number: &u128| MessageId(number.to_be_bytes());
        let (instance, action, outcome) = match self {
            Self::Started { instance, execution, start } => {
                let action = Action::Started { execution: ExecutionId(*execution), start: message(start) };
                (instance, action, Outcome::Acknowledged)
            }
            Self::Raised { instance, message: id } => {
                (instance, Action::Raised { message: message(id) }, Outcome::Acknowledged)
            }
            Self::Answered { instance, execution, answer } => {
                let action = Action::Answered { execution: ExecutionId(*execution), answer: message(answer) };
                (instance, action, Outcome::Acknowledged)
            }
            Self::Ended { instance, execution, completed, output } => {
                let status = if *completed { Status::Completed } else { Status::Failed };
                let execution = Some(ExecutionId(*execution));
                (instance, Action::Ended { execution, status, output: output.clone() }, Outcome::Acknowledged)
            }
            Self::Purging { instance, execution } => {
                (instance, Action::Purged { execution: ExecutionId(*execution) }, Outcome::Unknown)
            }
            Self::Purged { instance, execution } => {
                (instance, Action::Purged { execution: ExecutionId(*execution) }, Outcome::Acknowledged)
            }
            Self::Committed { .. }
            | Self::Refused { .. }
            | Self::NotOpened(_)
            | Self::Complaint(_)
            | Self::Done => return None,
        };
        let instance = InstanceId::new(instance.as_str()).ok()?;
        Some(Operation { instance, action, outcome, at })
    }
}

/// The journal of what was told.
pub(crate) fn journal(told: &[Told]) -> ClientJournal {
    let at = now();
    ClientJournal { operations: told.iter().filter_map(|told| told.operation(at)).collect() }
}

/// The time of this machine.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
