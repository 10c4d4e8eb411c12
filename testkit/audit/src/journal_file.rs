//! The journal of a client as a file, so that one process can write down what it was told and another can audit.
//!
//! UTF-8, one JSON object a line. The first line is the version, `{"dauer_journal":1}`. Every other line is one
//! operation that was answered, in the order of the answers:
//!
//! ```json
//! {"at":1700000000000,"instance":"order-1","did":"start","message":"00112233445566778899aabbccddeeff"}
//! {"at":1700000000250,"instance":"order-1","did":"ended","status":"completed","output":"42"}
//! ```
//!
//! | `did` | also | says |
//! |---|---|---|
//! | `start` | `message` or `request`, or neither | it was started; with neither only that it exists can be checked |
//! | | `execution`, if it does not follow from the message | |
//! | `found` | | it was there when the client looked |
//! | `ended` | `status`; `execution` and `output` if known | the client was told that it ended so |
//! | `raise` | `message` or `request` | an event was accepted |
//! | `terminate` | `message` or `request` | a terminate was accepted |
//! | `answer` | `execution` and `message` | the answer of a task of that run was accepted |
//! | `purge` | `execution` | that run was removed |
//!
//! `at` is milliseconds since 1970, UTC. `message`, `request` and `execution` are 32 hex digits: the message's id, or the
//! request id that a client chose and from which the message's id follows. `output` is the JSON text that the store holds.
//! `"outcome":"unknown"` marks an operation that may or may not have happened; refused ones are left out. Purges must be
//! in the journal: what is missing without one is reported as lost.

use std::io::{self, BufRead, Read, Write};

use serde::{Deserialize, Serialize};

use dauer_core::ids::InvalidName;
use dauer_core::model::Status;
use dauer_core::{ExecutionId, InstanceId, MessageId, Timestamp, identity, limits};

use crate::{Action, ClientJournal, Operation, Outcome};

/// The version of the file's format that is written, and the only one that is read.
pub const JOURNAL_VERSION: u32 = 1;

/// Bytes of a line: the largest output with every byte escaped, and room for the rest. Beyond it the file is no journal.
const LINE_BYTES_MAX: usize = 6 * limits::PAYLOAD_BYTES_MAX + 64 * 1024;

/// Why a file could not be read as a journal. Lines are counted from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file could not be read.
    #[error("line {line} of the journal could not be read")]
    Io {
        /// Where.
        line: u64,
        /// Why.
        source: io::Error,
    },
    /// The first line does not say which version this is.
    #[error("line 1 is no head of a journal; it must be {{\"dauer_journal\":{JOURNAL_VERSION}}}")]
    Head(#[source] Option<serde_json::Error>),
    /// Another version than this auditor knows.
    #[error(
        "line 1 says version {0} of the journal, this dauer reads {JOURNAL_VERSION}; use the dauer that wrote it"
    )]
    Version(u32),
    /// A line is longer than any operation.
    #[error("line {line} of the journal is longer than {LINE_BYTES_MAX} bytes, so it is no operation")]
    TooLong {
        /// Where.
        line: u64,
    },
    /// A line is no operation.
    #[error("line {line} of the journal is no operation")]
    Line {
        /// Where.
        line: u64,
        /// Why.
        source: serde_json::Error,
    },
    /// An instance id breaks a rule.
    #[error("line {line} of the journal names no instance")]
    Instance {
        /// Where.
        line: u64,
        /// Which rule.
        source: InvalidName,
    },
    /// A field is missing, makes no sense or does not belong there.
    #[error("line {line} of the journal: {what}")]
    Field {
        /// Where.
        line: u64,
        /// What is wrong, as a sentence.
        what: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    dauer_journal: u32,
}

/// A line as it is written. Which fields belong to which `did` is checked by hand: serde cannot at once refuse unknown
/// fields and choose by one of them.
#[derive(Serialize, Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Line {
    at: i64,
    instance: String,
    did: Did,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    execution: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<Word>,
}

#[derive(Serialize, Deserialize, Debug, Clone, Copy, PartialEq, Eq, Default)]
#[serde(rename_all = "lowercase")]
enum Did {
    #[default]
    Found,
    Start,
    Ended,
    Raise,
    Terminate,
    Answer,
    Purge,
}

#[derive(Serialize, Deserialize, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Word {
    Acknowledged,
    Unknown,
}

/// The ended statuses, as the file names them.
const STATUSES: [(&str, Status); 4] = [
    ("completed", Status::Completed),
    ("failed", Status::Failed),
    ("terminated", Status::Terminated),
    ("canceled", Status::Canceled),
];

impl ClientJournal {
    /// Reads a journal, a line at a time.
    ///
    /// # Errors
    /// [`JournalError`] names the line and what is wrong with it.
    pub fn read(mut from: impl BufRead) -> Result<Self, JournalError> {
        let mut text = Vec::new();
        let mut operations = Vec::new();
        for line in 1.. {
            text.clear();
            let mut limited = from.by_ref().take(LINE_BYTES_MAX as u64 + 1);
            let bytes =
                limited.read_until(b'\n', &mut text).map_err(|source| JournalError::Io { line, source })?;
            match (line, bytes) {
                (1, 0) => return Err(JournalError::Head(None)),
                (_, 0) => break,
                _ if text.len() > LINE_BYTES_MAX => return Err(JournalError::TooLong { line }),
                (1, _) => head(&text)?,
                _ => operations.push(operation(line, &text)?),
            }
        }
        Ok(Self { operations })
    }
}

fn head(text: &[u8]) -> Result<(), JournalError> {
    let head: Head = serde_json::from_slice(text).map_err(|source| JournalError::Head(Some(source)))?;
    if head.dauer_journal == JOURNAL_VERSION {
        Ok(())
    } else {
        Err(JournalError::Version(head.dauer_journal))
    }
}

fn operation(line: u64, text: &[u8]) -> Result<Operation, JournalError> {
    let found: Line = serde_json::from_slice(text).map_err(|source| JournalError::Line { line, source })?;
    let instance = InstanceId::new(found.instance.as_str());
    let instance = instance.map_err(|source| JournalError::Instance { line, source })?;
    let outcome = match found.outcome {
        None | Some(Word::Acknowledged) => Outcome::Acknowledged,
        Some(Word::Unknown) => Outcome::Unknown,
    };
    let at = Timestamp(found.at);
    let action = action(found, &instance).map_err(|what| JournalError::Field { line, what })?;
    Ok(Operation { instance, action, outcome, at })
}

/// The action of a line; every field is taken out, and what is left over does not belong there.
fn action(mut line: Line, instance: &InstanceId) -> Result<Action, String> {
    let did = line.did;
    let action = match did {
        Did::Found => Action::Found,
        Did::Start => match line.take_message(instance)? {
            Some(start) => {
                let execution = hex("execution", line.execution.take())?.map(ExecutionId);
                Action::Started { execution: execution.unwrap_or(identity::execution_of(start)), start }
            }
            None => Action::Found,
        },
        Did::Ended => {
            let execution = hex("execution", line.execution.take())?.map(ExecutionId);
            let status = needed("status", line.status.take())?;
            let known = STATUSES.into_iter().find(|(word, _)| *word == status);
            let (_, status) =
                known.ok_or("'status' must be completed, failed, terminated or canceled".to_owned())?;
            Action::Ended { execution, status, output: line.output.take() }
        }
        Did::Raise => Action::Raised { message: needed("message", line.take_message(instance)?)? },
        Did::Terminate => Action::Terminated { message: needed("message", line.take_message(instance)?)? },
        Did::Answer => {
            let execution = ExecutionId(needed("execution", hex("execution", line.execution.take())?)?);
            let answer = needed("message", hex("message", line.message.take())?)?;
            Action::Answered { execution, answer: MessageId(answer.to_be_bytes()) }
        }
        Did::Purge => {
            let execution = needed("execution", hex("execution", line.execution.take())?)?;
            Action::Purged { execution: ExecutionId(execution) }
        }
    };
    match line.left_over() {
        None => Ok(action),
        Some(field) => Err(format!("'{field}' does not belong to this 'did'")),
    }
}

impl Line {
    /// The id of the message, by itself or from the request that made it.
    fn take_message(&mut self, instance: &InstanceId) -> Result<Option<MessageId>, String> {
        let message = hex("message", self.message.take())?;
        let request = hex("request", self.request.take())?;
        match (message, request) {
            (Some(_), Some(_)) => Err("give 'message' or 'request', not both".to_owned()),
            (Some(message), None) => Ok(Some(MessageId(message.to_be_bytes()))),
            (None, Some(request)) => Ok(Some(identity::requested(instance, request))),
            (None, None) => Ok(None),
        }
    }

    fn left_over(&self) -> Option<&'static str> {
        let fields = [
            ("message", &self.message),
            ("request", &self.request),
            ("execution", &self.execution),
            ("status", &self.status),
            ("output", &self.output),
        ];
        fields.into_iter().find(|(_, value)| value.is_some()).map(|(name, _)| name)
    }
}

fn needed<T>(field: &str, value: Option<T>) -> Result<T, String> {
    value.ok_or_else(|| format!("'{field}' is missing"))
}

fn hex(field: &str, text: Option<String>) -> Result<Option<u128>, String> {
    let Some(text) = text else { return Ok(None) };
    // A sign would be read, too.
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let value = u128::from_str_radix(&text, 16).ok().filter(|_| digits);
    value.map(Some).ok_or_else(|| format!("'{field}' must be 32 hex digits"))
}

/// Writes a journal. Every operation is handed to the system at once, so that it is there when this process dies.
pub struct JournalWriter<W: Write> {
    to: W,
}

impl<W: Write> JournalWriter<W> {
    /// Begins a journal.
    ///
    /// # Errors
    /// What the system says.
    pub fn new(to: W) -> io::Result<Self> {
        let mut writer = Self { to };
        writer.line(&Head { dauer_journal: JOURNAL_VERSION })?;
        Ok(writer)
    }

    /// Adds an operation.
    ///
    /// # Errors
    /// What the system says.
    pub fn note(&mut self, operation: &Operation) -> io::Result<()> {
        self.line(&written(operation))
    }

    fn line(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        // One write: lines of several threads or processes that append do not mix.
        self.to.write_all(&text)?;
        self.to.flush()
    }
}

fn written(operation: &Operation) -> Line {
    let Operation { instance, action, outcome, at } = operation;
    let outcome = (*outcome == Outcome::Unknown).then_some(Word::Unknown);
    let mut line = Line { at: at.0, instance: instance.as_str().to_owned(), outcome, ..Line::default() };
    line.did = match action {
        Action::Found => Did::Found,
        Action::Started { .. } => Did::Start,
        Action::Ended { .. } => Did::Ended,
        Action::Raised { .. } => Did::Raise,
        Action::Terminated { .. } => Did::Terminate,
        Action::Answered { .. } => Did::Answer,
        Action::Purged { .. } => Did::Purge,
    };
    match action {
        Action::Found => {}
        Action::Started { execution, start } => {
            line.message = Some(start.to_string());
            line.execution = (*execution != identity::execution_of(*start)).then(|| execution.to_string());
        }
        Action::Ended { execution, status, output } => {
            line.execution = execution.map(|execution| execution.to_string());
            line.status =
                STATUSES.into_iter().find(|(_, each)| each == status).map(|(word, _)| word.to_owned());
            line.output = output.clone();
        }
        Action::Raised { message } | Action::Terminated { message } => {
            line.message = Some(message.to_string())
        }
        Action::Answered { execution, answer } => {
            line.execution = Some(execution.to_string());
            line.message = Some(answer.to_string());
        }
        Action::Purged { execution } => line.execution = Some(execution.to_string()),
    }
    line
}
