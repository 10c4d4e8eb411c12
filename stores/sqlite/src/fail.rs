//! Why an operation inside a transaction did not end well, and whether it may have written before.

use dauer_store::{Cause, Refused};
use dauer_store_kit::codec::Unreadable;

/// Two kinds, because a group of operations shares one transaction.
#[derive(Debug)]
pub(crate) enum Fail {
    /// The contract says no. Checks come before the first write, so that nothing has to be undone.
    Refused(Refused),
    /// Something broke, perhaps between two writes: the transaction must be rolled back.
    Broken(Refused),
}

pub(crate) type Outcome<T> = Result<T, Fail>;

/// In which instance something cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("in the instance '{id}'")]
struct InInstance {
    id: String,
    source: Cause,
}

impl Fail {
    /// The same with the id of the damaged instance.
    pub(crate) fn in_instance(self, id: &str) -> Self {
        match self {
            Self::Broken(Refused::Corrupt(source)) => {
                Self::Broken(Refused::Corrupt(Cause::new(InInstance { id: id.to_owned(), source })))
            }
            other => other,
        }
    }

    /// The innermost cause of damage. Every other failure is returned as the error.
    pub(crate) fn damage(self) -> Outcome<String> {
        let Self::Broken(Refused::Corrupt(cause)) = &self else { return Err(self) };
        let mut bottom: &dyn std::error::Error = cause;
        while let Some(source) = bottom.source() {
            bottom = source;
        }
        Ok(bottom.to_string())
    }

    pub(crate) fn into_refused(self) -> Refused {
        match self {
            Self::Refused(refused) | Self::Broken(refused) => refused,
        }
    }
}

impl From<Refused> for Fail {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

impl From<rusqlite::Error> for Fail {
    fn from(error: rusqlite::Error) -> Self {
        Self::Broken(refusal(error))
    }
}

impl From<Unreadable> for Fail {
    fn from(unreadable: Unreadable) -> Self {
        Self::Broken(unreadable.into())
    }
}

/// What an error of SQLite means for a caller whose transaction is rolled back.
pub(crate) fn refusal(error: rusqlite::Error) -> Refused {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    match error.sqlite_error_code() {
        Some(DatabaseCorrupt | NotADatabase) => Refused::Corrupt(Cause::new(error)),
        _ => Refused::NotExecuted(Cause::new(error)),
    }
}
