//! Which row of the table an error has. What only wraps another error has the row of that one.

use std::error::Error;

use dauer::{OpenError, Refused};
use dauer_audit::JournalError;
use dauer_core::ids::InvalidName;
use dauer_core::ledger::LedgerError;
use dauer_core::model::BlobError;
use dauer_core::send::InvalidRequest;
use dauer_hub::{ClientError, RemoteError, Unusable as Broken};
use dauer_measure::Error as Unmeasured;
use dauer_proto::json::JsonError;
use dauer_server::ServerError as ServeError;

use super::Failure;
use crate::audit::Unusable;

/// The row of what a newer crate may add to its errors: see the test that finds it.
const UNKNOWN: &str = "cli::Failure::Demo";

impl Failure {
    /// Crate, type and variant of the innermost error that says something of its own.
    pub(super) fn key(&self) -> &'static str {
        match self {
            Self::Open(error) => open(error),
            Self::Client(error) => client(error),
            Self::Name(error) => name(error),
            Self::Request(error) => request(error),
            Self::Refused(error) => refused(error),
            Self::History { source, .. } => ledger(source),
            Self::Unwritable { source, .. } => document(source),
            Self::Moved(_) => "cli::Failure::Moved",
            Self::Repeated(_) => "cli::Failure::Repeated",
            Self::UnknownHub { .. } => "cli::Failure::UnknownHub",
            Self::Ended { .. } => "cli::Failure::Ended",
            Self::Failed { .. } => "cli::Failure::Failed",
            Self::Stopped { .. } => "cli::Failure::Stopped",
            Self::Json { .. } => "cli::Failure::Json",
            Self::Unreadable { .. } => "cli::Failure::Unreadable",
            Self::TooLong { .. } => "cli::Failure::TooLong",
            Self::Usage(_) => "cli::Failure::Usage",
            Self::Output(_) => "cli::Failure::Output",
            Self::Folder { .. } => "cli::Failure::Folder",
            Self::Runtime(_) => "cli::Failure::Runtime",
            Self::Journal(error) => journal(error),
            Self::Bench(error) => bench(error),
            Self::Server(error) => serve(error),
            Self::Settings(_) => "cli::Failure::Settings",
            Self::DevFolder { .. } => "cli::Failure::DevFolder",
            Self::Demo(error) => boxed(&**error),
        }
    }
}

fn serve(error: &ServeError) -> &'static str {
    match error {
        ServeError::InUse { .. } => "server::ServerError::InUse",
        ServeError::Address { .. } => "server::ServerError::Address",
        ServeError::Unprotected { .. } => "server::ServerError::Unprotected",
        ServeError::TlsFile { .. } => "server::ServerError::TlsFile",
        ServeError::Tls(_) => "server::ServerError::Tls",
        ServeError::Tokens(_) => "server::ServerError::Tokens",
        ServeError::Store(error) => open(error),
        ServeError::Opening(_) => "server::ServerError::Opening",
        ServeError::Description(_) => "server::ServerError::Description",
        ServeError::Grpc(_) => "server::ServerError::Grpc",
        _ => UNKNOWN,
    }
}

fn boxed(error: &(dyn Error + 'static)) -> &'static str {
    if let Some(error) = error.downcast_ref::<OpenError>() {
        open(error)
    } else if let Some(error) = error.downcast_ref::<dauer::ClientError>() {
        sdk(error)
    } else if let Some(error) = error.downcast_ref::<ClientError>() {
        client(error)
    } else if let Some(error) = error.downcast_ref::<Refused>() {
        refused(error)
    } else {
        UNKNOWN
    }
}

fn bench(error: &Unmeasured) -> &'static str {
    match error {
        Unmeasured::Open(error) => open(error),
        Unmeasured::Client(error) => sdk(error),
        Unmeasured::Refused(error) => refused(error),
        Unmeasured::NotEmpty { .. } => "measure::Error::NotEmpty",
        Unmeasured::Running { .. } => "measure::Error::Running",
        Unmeasured::Foreign { .. } => "measure::Error::Foreign",
        _ => "cli::Failure::Bench",
    }
}

fn journal(error: &Unusable) -> &'static str {
    match error {
        Unusable::Closed { .. } => "cli::Unusable::Closed",
        Unusable::Nonsense { source, .. } => match source {
            JournalError::Io { .. } => "audit::JournalError::Io",
            JournalError::Head(_) => "audit::JournalError::Head",
            JournalError::Version(_) => "audit::JournalError::Version",
            JournalError::TooLong { .. } => "audit::JournalError::TooLong",
            JournalError::Line { .. } => "audit::JournalError::Line",
            JournalError::Instance { .. } => "audit::JournalError::Instance",
            JournalError::Field { .. } => "audit::JournalError::Field",
            _ => UNKNOWN,
        },
    }
}

fn open(error: &OpenError) -> &'static str {
    use dauer_sqlite::OpenError as Sqlite;
    match error {
        OpenError::UnknownStore { .. } => "sdk::OpenError::UnknownStore",
        OpenError::UnknownOption { .. } => "sdk::OpenError::UnknownOption",
        OpenError::Missing { .. } => "sdk::OpenError::Missing",
        OpenError::Address { .. } => "sdk::OpenError::Address",
        OpenError::NoRuntime => "sdk::OpenError::NoRuntime",
        OpenError::Sqlite { source, .. } => match source {
            Sqlite::DirectoryMissing(_) => "sqlite::OpenError::DirectoryMissing",
            Sqlite::NotAFile(_) => "sqlite::OpenError::NotAFile",
            Sqlite::NotADatabase(_) => "sqlite::OpenError::NotADatabase",
            Sqlite::Newer { .. } => "sqlite::OpenError::Newer",
            Sqlite::Older { .. } => "sqlite::OpenError::Older",
            Sqlite::Damaged { .. } => "sqlite::OpenError::Damaged",
            Sqlite::ReadOnly { .. } => "sqlite::OpenError::ReadOnly",
            Sqlite::Network { .. } => "sqlite::OpenError::Network",
            Sqlite::Sqlite { .. } => "sqlite::OpenError::Sqlite",
            Sqlite::Io { .. } => "sqlite::OpenError::Io",
            _ => "sdk::OpenError::Sqlite",
        },
        _ => UNKNOWN,
    }
}

fn sdk(error: &dauer::ClientError) -> &'static str {
    use dauer::ClientError as Sdk;
    match error {
        Sdk::Name(error) => name(error),
        Sdk::Client(error) => client(error),
        Sdk::Unencodable { .. } => "sdk::Error::Unencodable",
        Sdk::Undecodable { .. } => "sdk::Error::Undecodable",
        Sdk::Failed { .. } => "sdk::Error::Failed",
        Sdk::Ended { .. } => "sdk::Error::Ended",
        Sdk::PageSize { .. } => "sdk::Error::PageSize",
        Sdk::Living { .. } => "sdk::Error::Living",
        Sdk::PurgeStopped { source, .. } => client(source),
        _ => UNKNOWN,
    }
}

fn client(error: &ClientError) -> &'static str {
    match error {
        ClientError::Invalid(error) => request(error),
        ClientError::Refused(error) => refused(error),
        ClientError::Absent(_) => "hub::ClientError::Absent",
        ClientError::TimedOut(_) => "hub::ClientError::TimedOut",
        ClientError::NotFailed { .. } => "hub::ClientError::NotFailed",
        ClientError::NotEnded { .. } => "hub::ClientError::NotEnded",
        ClientError::NotStalled { .. } => "hub::ClientError::NotStalled",
        ClientError::Ended { .. } => "hub::ClientError::Ended",
        ClientError::Engaged(_) => "hub::ClientError::Engaged",
        ClientError::MovedOn(_) => "hub::ClientError::MovedOn",
        ClientError::History { source: Broken::Ledger(error), .. } => ledger(error),
        ClientError::History { source: Broken::Stalled(_), .. } => "hub::Unusable::Stalled",
        ClientError::History { source: Broken::NoStart, .. } => "hub::Unusable::NoStart",
        ClientError::Remote(error) => remote(error),
        _ => UNKNOWN,
    }
}

fn remote(error: &RemoteError) -> &'static str {
    match error {
        RemoteError::Unreachable { .. } => "hub::RemoteError::Unreachable",
        RemoteError::Denied { .. } => "hub::RemoteError::Denied",
        RemoteError::Unsupported { .. } => "hub::RemoteError::Unsupported",
        RemoteError::Failed { .. } => "hub::RemoteError::Failed",
        _ => UNKNOWN,
    }
}

fn request(error: &InvalidRequest) -> &'static str {
    match error {
        InvalidRequest::Name(error) => name(error),
        InvalidRequest::Payload { .. } => "core::InvalidRequest::Payload",
        InvalidRequest::Time { .. } => "core::InvalidRequest::Time",
        _ => UNKNOWN,
    }
}

fn name(error: &InvalidName) -> &'static str {
    match error {
        InvalidName::Empty { .. } => "core::InvalidName::Empty",
        InvalidName::TooLong { .. } => "core::InvalidName::TooLong",
        InvalidName::TooShort { .. } => "core::InvalidName::TooShort",
        InvalidName::Character { .. } => "core::InvalidName::Character",
        _ => UNKNOWN,
    }
}

fn refused(error: &Refused) -> &'static str {
    match error {
        Refused::Fenced => "store::Refused::Fenced",
        Refused::NotExecuted(_) => "store::Refused::NotExecuted",
        Refused::Unknown(_) => "store::Refused::Unknown",
        Refused::TooLarge(_) => "store::Refused::TooLarge",
        Refused::Exists(_) => "store::Refused::Exists",
        Refused::Repeat => "store::Refused::Repeat",
        Refused::Cursor(_) => "store::Refused::Cursor",
        Refused::Newer(_) => "store::Refused::Newer",
        Refused::Corrupt(_) => "store::Refused::Corrupt",
        _ => UNKNOWN,
    }
}

fn ledger(error: &LedgerError) -> &'static str {
    match error {
        LedgerError::StillOpen(_) => "core::LedgerError::StillOpen",
        LedgerError::Target { .. } => "core::LedgerError::Target",
        LedgerError::Blob(BlobError::Empty) => "core::BlobError::Empty",
        LedgerError::Blob(BlobError::Format(_)) => "core::BlobError::Format",
        LedgerError::Blob(BlobError::Content(_)) => "core::BlobError::Content",
        _ => UNKNOWN,
    }
}

fn document(error: &JsonError) -> &'static str {
    match error {
        JsonError::Syntax(_) => "proto::JsonError::Syntax",
        JsonError::Newer { .. } => "proto::JsonError::Newer",
        JsonError::Shape { .. } => "proto::JsonError::Shape",
        JsonError::Event { .. } => "proto::JsonError::Event",
        JsonError::Invalid(_) => "proto::JsonError::Invalid",
        JsonError::Unwritable { .. } => "proto::JsonError::Unwritable",
        _ => UNKNOWN,
    }
}
