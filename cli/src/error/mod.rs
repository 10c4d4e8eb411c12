//! What went wrong, in one form: a sentence for people, a code, an exit code and a hint from the one table.

mod hint;
mod key;
mod kind;
mod table;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use dauer::{HubName, InstanceId, OpenError, Refused, Status};
use dauer_core::ids::InvalidName;
use dauer_core::ledger::LedgerError;
use dauer_core::send::InvalidRequest;
use dauer_hub::{ClientError, with_causes};
use dauer_proto::json::JsonError;
use serde::Serialize;

use crate::output::{Color, Format, Paint, plain, status_name};
use crate::{dev, program};
pub(crate) use hint::Words;
pub(crate) use kind::EXIT_CODES;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The store could not be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A call of the client did not succeed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// An id breaks a rule.
    #[error(transparent)]
    Name(#[from] InvalidName),
    /// A request breaks a rule.
    #[error(transparent)]
    Request(#[from] InvalidRequest),
    /// The store refused.
    #[error("the store refused")]
    Refused(#[from] Refused),
    /// A stored history cannot be followed.
    #[error("the history of '{id}' cannot be read")]
    History {
        /// Whose.
        id: InstanceId,
        /// Why.
        source: LedgerError,
    },
    /// An event has no form in JSON.
    #[error("the history of '{id}' cannot be written as JSON")]
    Unwritable {
        /// Whose.
        id: InstanceId,
        /// Why.
        source: JsonError,
    },
    /// The instance went on to another run while it was looked at or waited for.
    #[error("the instance '{0}' has begun another run meanwhile")]
    Moved(InstanceId),
    /// The request of a start was carried out before, and there is no run of it to wait for.
    #[error("the request was carried out before, and its run of '{0}' is gone; nothing was started")]
    Repeated(InstanceId),
    /// The URL of the store names a task hub that is not there.
    #[error("there is no task hub '{name}'; {}", there(.hubs))]
    UnknownHub {
        /// The name in the URL.
        name: HubName,
        /// The task hubs that are there.
        hubs: Vec<HubName>,
    },
    /// What only a living instance takes was sent to one that has ended.
    #[error("the instance '{id}' is {}; nothing was sent", status_name(*.status))]
    Ended {
        /// Which.
        id: InstanceId,
        /// How it ended.
        status: Status,
    },
    /// The instance that was waited for failed.
    #[error("the instance '{id}' failed")]
    Failed {
        /// Which.
        id: InstanceId,
        /// With what.
        source: Box<dauer::Failure>,
    },
    /// The instance that was waited for was ended without an output.
    #[error("the instance '{id}' was ended as {}", status_name(*.status))]
    Stopped {
        /// Which.
        id: InstanceId,
        /// How.
        status: Status,
    },
    /// A payload is no JSON.
    #[error("the {what} is not JSON; nothing was sent")]
    Json {
        /// Which payload.
        what: &'static str,
        /// Where it goes wrong.
        source: serde_json::Error,
    },
    /// A payload could not be read.
    #[error("the {what} could not be read from {}; nothing was sent", .path.display())]
    Unreadable {
        /// Which payload.
        what: &'static str,
        /// From where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A payload is longer than any may be.
    #[error("the {what} has more than {limit} bytes; nothing was sent")]
    TooLong {
        /// Which payload.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Options that exclude each other, or none where one is needed.
    #[error("{0}")]
    Usage(&'static str),
    /// Output could not be written.
    #[error("the output could not be written")]
    Output(#[from] io::Error),
    /// A folder that manual pages were to be written into.
    #[error("the manual pages could not be written into {}", .path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is no runtime.
    #[error("the runtime could not be started")]
    Runtime(#[source] io::Error),
    /// A journal cannot be used.
    #[error(transparent)]
    Journal(#[from] crate::audit::Unusable),
    /// A benchmark gave no figures.
    #[error(transparent)]
    Bench(#[from] dauer_measure::Error),
    /// A server could not be started, or ended too soon.
    #[error(transparent)]
    Server(#[from] dauer_server::ServerError),
    /// The settings of a server make no sense.
    #[error(transparent)]
    Settings(#[from] crate::serve::SettingsError),
    /// The folder of a server could not be made.
    #[error("the folder {} cannot be made", .path.display())]
    DevFolder {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The demo could not go on.
    #[error(transparent)]
    Demo(Box<dyn Error>),
}

impl From<dauer::ClientError> for Failure {
    /// What the typed client says of the store is what the other says.
    fn from(error: dauer::ClientError) -> Self {
        match error {
            dauer::ClientError::Client(error) => Self::Client(error),
            dauer::ClientError::Name(error) => Self::Name(error),
            other => Self::Demo(Box::new(other)),
        }
    }
}

/// The task hubs that are there, as a part of a sentence.
fn there(hubs: &[HubName]) -> String {
    match hubs {
        [] => "there is none yet".to_owned(),
        hubs => format!("there are: {}", hubs.iter().map(HubName::as_str).collect::<Vec<_>>().join(", ")),
    }
}

/// An error as a line of JSON on stderr.
#[derive(Serialize)]
struct Wrapped<'a> {
    error: Told<'a>,
}

#[derive(Serialize)]
struct Told<'a> {
    code: &'a str,
    message: String,
    hint: &'a str,
}

/// The hint for a store that is missing where `dauer dev` has left its own.
const DEV_STORE_HINT: &str = concat!(
    "`dauer dev` keeps its instances elsewhere: `dauer hubs --store .dauer/dauer.db` lists its task hubs, and ",
    "`dauer list --store .dauer/dauer.db` their instances"
);

impl Failure {
    /// Whether nobody reads the output any more: `dauer list | head` has had enough, which is no failure.
    fn is_unread(&self) -> bool {
        let mut next: Option<&(dyn Error + 'static)> = match self {
            Self::Demo(error) => Some(&**error),
            other => Some(other),
        };
        while let Some(error) = next {
            match error.downcast_ref::<io::Error>() {
                Some(error) => return error.kind() == io::ErrorKind::BrokenPipe,
                None => next = error.source(),
            }
        }
        false
    }

    /// The instance that it is about, if it names one.
    fn id(&self) -> Option<&InstanceId> {
        match self {
            Self::Moved(id)
            | Self::Repeated(id)
            | Self::History { id, .. }
            | Self::Unwritable { id, .. }
            | Self::Ended { id, .. }
            | Self::Failed { id, .. }
            | Self::Stopped { id, .. } => Some(id),
            Self::Client(
                ClientError::Absent(id)
                | ClientError::TimedOut(id)
                | ClientError::NotFailed { instance: id, .. }
                | ClientError::NotEnded { instance: id, .. }
                | ClientError::NotStalled { instance: id, .. }
                | ClientError::Ended { instance: id, .. }
                | ClientError::Engaged(id)
                | ClientError::MovedOn(id)
                | ClientError::History { instance: id, .. },
            ) => Some(id),
            _ => None,
        }
    }

    /// What to do next, with the words of this call.
    fn hint(&self, kind: &kind::Kind, words: &Words) -> String {
        let id = self.id().map(|id| program::quoted(id.as_str())).or_else(|| words.id.clone());
        let hint = match self {
            Self::Open(OpenError::Missing { .. }) if dev::has_store_here() => DEV_STORE_HINT,
            _ => kind.hint,
        };
        hint::complete(hint, &Words { id, ..words.clone() })
    }

    /// Tells it on stderr, and gives the exit code.
    pub(crate) fn complain(&self, format: Format, color: Color, words: &Words) -> ExitCode {
        if self.is_unread() {
            return ExitCode::SUCCESS;
        }
        let kind = table::kind_of(self.key());
        let hint = self.hint(kind, words);
        let text = plain(&with_causes(self));
        let err = &mut io::stderr().lock();
        // Nothing is left to do when even stderr is gone.
        let _ = match format {
            Format::Table | Format::Wide | Format::Id => {
                let paint = Paint::of(color, err.is_terminal());
                writeln!(err, "{} {text}\n{} {}", paint.red("error:"), paint.dim("hint:"), hint)
            }
            Format::Json | Format::Jsonl => {
                let told = Told { code: kind.code, message: text, hint: &hint };
                // Text only: it can always be written.
                let line = serde_json::to_string(&Wrapped { error: told }).unwrap_or_default();
                writeln!(err, "{line}")
            }
        };
        ExitCode::from(kind.exit)
    }
}
