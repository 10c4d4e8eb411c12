//! The one table of errors: for each the stable code, the gRPC code, the exit code and what to do next.
//!
//! Scripts rely on codes and exit codes, so a row may be added, but what is here does not change.

/// What errors of one kind have in common.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// The stable code, as `-o json` prints it.
    pub(super) code: &'static str,
    /// The code of gRPC that a server answers with. The command itself has no use for it.
    pub(super) grpc: &'static str,
    /// The exit code.
    pub(super) exit: u8,
    /// What to do next.
    pub(super) hint: &'static str,
    /// The errors: crate, type and variant.
    pub(super) errors: &'static [&'static str],
}

/// The exit codes, as the help explains them.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  failed, or an audit that is not clean
  2  the call makes no sense
  3  there is no such instance
  4  conflict: the id is taken, or the instance has moved on
  5  not in this state: it has ended already, or has not ended yet
  6  the instance that was waited for failed or was terminated
  7  waited too long
  8  the store cannot be used
130  interrupted by Ctrl-C";

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const NOT_FOUND: u8 = 3;
const CONFLICT: u8 = 4;
const STATE: u8 = 5;
const ENDED_BADLY: u8 = 6;
const TIMED_OUT: u8 = 7;
const NO_STORE: u8 = 8;

/// The row of an error.
pub(super) fn kind_of(error: &str) -> &'static Kind {
    TABLE.iter().find(|kind| kind.errors.contains(&error)).unwrap_or(&OTHER)
}

/// What has no row of its own. It is also the last row of the table.
const OTHER: Kind = Kind {
    code: "failed",
    grpc: "UNKNOWN",
    exit: FAILED,
    hint: "run the same again; if it fails again, report it with the output of `dauer --version`",
    errors: &[
        "cli::Failure::Bench",
        "cli::Failure::Demo",
        "cli::Failure::Output",
        "cli::Failure::Unwritable",
        "proto::JsonError::Unwritable",
    ],
};

pub(super) const TABLE: &[Kind] = &[
    Kind {
        code: "invalid_name",
        grpc: "INVALID_ARGUMENT",
        exit: USAGE,
        hint: "ids have 1 to 100 characters, names 1 to 255 bytes, neither has control characters",
        errors: &[
            "cli::Failure::Name",
            "core::InvalidName::Character",
            "core::InvalidName::Empty",
            "core::InvalidName::TooLong",
            "core::InvalidName::TooShort",
            "core::InvalidRequest::Name",
            "replay::InvalidRequest::Instance",
            "replay::RegisterError::Name",
            "replay::TurnError::Name",
            "sdk::Error::Name",
        ],
    },
    Kind {
        code: "invalid_argument",
        grpc: "INVALID_ARGUMENT",
        exit: USAGE,
        hint: "`dauer help VERB` shows what it takes, with an example",
        errors: &[
            "cli::Failure::Request",
            "cli::Failure::Usage",
            "core::InvalidRequest::Time",
            "hub::ClientError::Invalid",
            "sdk::Error::Living",
            "sdk::Error::PageSize",
            "store::Refused::Cursor",
        ],
    },
    Kind {
        code: "invalid_json",
        grpc: "INVALID_ARGUMENT",
        exit: USAGE,
        hint: "payloads are JSON: --input '{\"n\":1}', and a text needs its own quotes: --input '\"text\"'",
        errors: &["cli::Failure::Json"],
    },
    Kind {
        code: "unreadable_input",
        grpc: "INVALID_ARGUMENT",
        exit: USAGE,
        hint: "@FILE reads a file, - reads standard input, anything else is the JSON itself; all in UTF-8",
        errors: &["cli::Failure::Unreadable"],
    },
    Kind {
        code: "unwritable_folder",
        grpc: "INVALID_ARGUMENT",
        exit: USAGE,
        hint: "give a folder that is there and that this user may write",
        errors: &["cli::Failure::Folder"],
    },
    Kind {
        code: "invalid_journal",
        grpc: "INVALID_ARGUMENT",
        exit: USAGE,
        hint: "`dauer help audit` shows what a journal looks like",
        errors: &[
            "audit::JournalError::Field",
            "audit::JournalError::Head",
            "audit::JournalError::Instance",
            "audit::JournalError::Io",
            "audit::JournalError::Line",
            "audit::JournalError::TooLong",
            "audit::JournalError::Version",
            "cli::Failure::Journal",
            "cli::Unusable::Closed",
            "cli::Unusable::Nonsense",
        ],
    },
    Kind {
        code: "invalid_history",
        grpc: "INVALID_ARGUMENT",
        exit: USAGE,
        hint: "give the whole output of `dauer history -o json`, as it was printed",
        errors: &[
            "proto::JsonError::Event",
            "proto::JsonError::Invalid",
            "proto::JsonError::Shape",
            "proto::JsonError::Syntax",
        ],
    },
    Kind {
        code: "too_large",
        grpc: "RESOURCE_EXHAUSTED",
        exit: USAGE,
        hint: "put large data elsewhere, and send its address",
        errors: &["cli::Failure::TooLong", "core::InvalidRequest::Payload", "store::Refused::TooLarge"],
    },
    Kind {
        code: "not_found",
        grpc: "NOT_FOUND",
        exit: NOT_FOUND,
        hint: "`dauer list` shows what there is; --store or DAUER_STORE names another store",
        errors: &["hub::ClientError::Absent"],
    },
    Kind {
        code: "already_exists",
        grpc: "ALREADY_EXISTS",
        exit: CONFLICT,
        hint: "choose another id, or say with --reuse-policy what a start may replace",
        errors: &["store::Refused::Exists"],
    },
    Kind {
        code: "moved_on",
        grpc: "ABORTED",
        exit: CONFLICT,
        hint: "somebody was quicker: look at it with `dauer get`, then run the same again",
        errors: &["cli::Failure::Moved", "hub::ClientError::MovedOn", "store::Refused::Fenced"],
    },
    Kind {
        code: "already_ended",
        grpc: "FAILED_PRECONDITION",
        exit: STATE,
        hint: "`dauer get` shows how it ended, `dauer restart` runs it again",
        errors: &["cli::Failure::Ended"],
    },
    Kind {
        code: "not_ended",
        grpc: "FAILED_PRECONDITION",
        exit: STATE,
        hint: "wait for its end, or end it with `dauer terminate`; `dauer get` says what it waits for",
        errors: &["hub::ClientError::NotBegun", "hub::ClientError::NotEnded"],
    },
    Kind {
        code: "engaged",
        grpc: "FAILED_PRECONDITION",
        exit: STATE,
        hint: "run the same again a little later: what waits for it, or is sent by it, comes first",
        errors: &["hub::ClientError::Engaged"],
    },
    Kind {
        code: "not_failed",
        grpc: "FAILED_PRECONDITION",
        exit: STATE,
        hint: "`dauer get` shows where it stands; `dauer restart` runs an ended one from its beginning",
        errors: &["hub::ClientError::NotFailed"],
    },
    Kind {
        code: "instance_failed",
        grpc: "ABORTED",
        exit: ENDED_BADLY,
        hint: "`dauer get` shows the failure, `dauer history` what led to it",
        errors: &[
            "cli::Failure::Failed",
            "cli::Failure::Stopped",
            "replay::ActivityError::Failed",
            "replay::CallError::Failed",
            "sdk::Error::Ended",
            "sdk::Error::Failed",
        ],
    },
    Kind {
        code: "timed_out",
        grpc: "DEADLINE_EXCEEDED",
        exit: TIMED_OUT,
        hint: "it goes on; `dauer get` says what it waits for, and --timeout waits longer",
        errors: &["hub::ClientError::TimedOut", "replay::CallError::TimedOut"],
    },
    Kind {
        code: "unknown_store",
        grpc: "INVALID_ARGUMENT",
        exit: USAGE,
        hint: "give sqlite:FILE, or just the path of the file, by --store or DAUER_STORE",
        errors: &["sdk::OpenError::UnknownOption", "sdk::OpenError::UnknownStore"],
    },
    Kind {
        code: "store_missing",
        grpc: "NOT_FOUND",
        exit: NO_STORE,
        hint: "check --store and DAUER_STORE; `dauer start`, `dauer demo` or a worker makes a new one",
        errors: &["sdk::OpenError::Missing", "sqlite::OpenError::DirectoryMissing"],
    },
    Kind {
        code: "store_unusable",
        grpc: "FAILED_PRECONDITION",
        exit: NO_STORE,
        hint: "give a dauer store on a local disk, in a folder that this user may write",
        errors: &[
            "cli::Failure::Open",
            "sdk::OpenError::Sqlite",
            "sqlite::OpenError::Io",
            "sqlite::OpenError::Network",
            "sqlite::OpenError::NotADatabase",
            "sqlite::OpenError::NotAFile",
            "sqlite::OpenError::ReadOnly",
            "sqlite::OpenError::Sqlite",
        ],
    },
    Kind {
        code: "store_newer",
        grpc: "FAILED_PRECONDITION",
        exit: NO_STORE,
        hint: "use the dauer that wrote it, or a newer one; nothing was changed",
        errors: &[
            "core::BlobError::Format",
            "proto::JsonError::Newer",
            "sqlite::OpenError::Newer",
            "store::Refused::Newer",
        ],
    },
    Kind {
        code: "unavailable",
        grpc: "UNAVAILABLE",
        exit: NO_STORE,
        hint: "nothing was changed: run the same again, and see whether the disk is full or very busy",
        errors: &[
            "cli::Failure::Client",
            "cli::Failure::Refused",
            "hub::ClientError::Refused",
            "sdk::Error::Client",
            "sdk::Error::PurgeStopped",
            "store::Refused::NotExecuted",
        ],
    },
    Kind {
        code: "unknown_outcome",
        grpc: "UNKNOWN",
        exit: FAILED,
        hint: "it may have happened: look with `dauer get`, or repeat a start with the same --request-id",
        errors: &["store::Refused::Unknown"],
    },
    Kind {
        code: "damaged",
        grpc: "DATA_LOSS",
        exit: FAILED,
        hint: "`dauer audit` says what is wrong; go back to a backup, and please report this",
        errors: &[
            "cli::Failure::History",
            "core::BlobError::Content",
            "core::BlobError::Empty",
            "core::LedgerError::Blob",
            "hub::ClientError::History",
            "hub::Unusable::Ledger",
            "hub::Unusable::NoStart",
            "hub::Unusable::Stalled",
            "core::LedgerError::StillOpen",
            "core::LedgerError::Target",
            "replay::TurnError::History",
            "sqlite::OpenError::Damaged",
            "store::Refused::Corrupt",
        ],
    },
    Kind {
        code: "not_registered",
        grpc: "UNIMPLEMENTED",
        exit: FAILED,
        hint: "run a worker that has this name and version; until then the instance waits",
        errors: &[
            "replay::TurnError::Unknown",
            "replay::UnknownActivity",
            "replay::UnknownOrchestration::Name",
            "replay::UnknownOrchestration::Version",
        ],
    },
    Kind {
        code: "stalled",
        grpc: "FAILED_PRECONDITION",
        exit: FAILED,
        hint: "the instance is kept and tried again: mend the code, and it goes on; see `dauer list --stalled`",
        errors: &[
            "core::Stalled",
            "replay::TurnError::ForeignUse",
            "replay::TurnError::ForeignWake",
            "replay::TurnError::LeftOver",
            "replay::TurnError::Mismatch",
            "replay::TurnError::NotDurable",
            "replay::TurnError::Panic",
            "replay::TurnError::Poisoned",
            "replay::TurnError::PollLimit",
        ],
    },
    Kind {
        code: "cancelled",
        grpc: "CANCELLED",
        exit: FAILED,
        hint: "nobody wants the result any more; an activity that was given back is run by another host",
        errors: &[
            "core::CancelReason::Draining",
            "core::CancelReason::Ended",
            "core::CancelReason::LeaseLost",
            "core::CancelReason::Terminated",
        ],
    },
    Kind {
        code: "wrong_codec",
        grpc: "INVALID_ARGUMENT",
        exit: FAILED,
        hint: "use the payload codec, and the key, that wrote the payload in all workers and clients",
        errors: &["replay::PayloadError::Codec", "replay::PayloadError::Hidden"],
    },
    Kind {
        code: "wrong_type",
        grpc: "INVALID_ARGUMENT",
        exit: FAILED,
        hint: "make the types of the name agree on both sides",
        errors: &[
            "replay::ActivityError::Undecodable",
            "replay::ActivityError::Unencodable",
            "replay::CallError::Undecodable",
            "replay::PayloadError::Json",
            "replay::TurnError::Undecodable",
            "replay::TurnError::Unencodable",
            "sdk::Error::Undecodable",
            "sdk::Error::Unencodable",
        ],
    },
    Kind {
        code: "invalid_message",
        grpc: "INVALID_ARGUMENT",
        exit: FAILED,
        hint: "the message names the field: mend the SDK or worker that sent it",
        errors: &[
            "proto::Invalid",
            "proto::Problem::Empty",
            "proto::Problem::IdTooSmall",
            "proto::Problem::Missing",
            "proto::Problem::NotAnEnd",
            "proto::Problem::NotAnExecutionId",
            "proto::Problem::PositionOutOfRange",
            "proto::Problem::TimeOutOfRange",
            "proto::Problem::TooDeep",
            "proto::Problem::Undecodable",
            "proto::Problem::UnknownEnumValue",
            "proto::Problem::UnknownKind",
            "replay::InvalidRequest::Field",
        ],
    },
    Kind {
        code: "program",
        grpc: "FAILED_PRECONDITION",
        exit: FAILED,
        hint: "this is for the program that uses dauer to mend: the message says where",
        errors: &[
            "cli::Failure::Runtime",
            "replay::RegisterError::DuplicateActivity",
            "replay::RegisterError::DuplicateOrchestration",
            "sdk::OpenError::NoRuntime",
        ],
    },
    OTHER,
];
