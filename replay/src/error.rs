//! How orchestrations and activities fail, and how what they call fails.

use std::any::type_name;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use dauer_proto::TaskFailureDetails;
use dauer_proto::failure::failure;

use crate::failure::{Failure, chained};
use crate::payload::PayloadError;

/// The result of an orchestration or activity.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a call or an event gave no value.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The activity or child failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// It was given so much time, and was not there then.
    #[error("there was no answer within {after:?}; what was called goes on, and its result is ignored")]
    TimedOut {
        /// How long was waited.
        after: Duration,
    },
    /// What came back is not of the type the name promises.
    #[error("{what} cannot be read as {expected}; make the types of the name agree on both sides")]
    Undecodable {
        /// What came back from where.
        what: String,
        /// The type the name promises.
        expected: &'static str,
        /// Why it cannot be read.
        source: PayloadError,
    },
}

/// Why an orchestration or activity failed.
///
/// Takes any error by `?`. Like `anyhow::Error` it is no `std::error::Error` itself, because the two exclude each
/// other. What reaches the caller is the type's name, the message and the chain of sources; a [`CallError::Failed`]
/// or [`Failure`] passes through unchanged.
pub struct Error {
    error: Box<dyn StdError + Send + Sync>,
    kind: &'static str,
    fatal: bool,
}

#[derive(Debug)]
struct Message(String);

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl StdError for Message {}

impl Error {
    /// A failure that trying again may cure.
    #[must_use]
    pub fn msg(message: impl fmt::Display) -> Self {
        Self { error: Box::new(Message(message.to_string())), kind: "Error", fatal: false }
    }

    /// A failure that trying again cannot cure: retry policies stop here.
    #[must_use]
    pub fn fatal(message: impl fmt::Display) -> Self {
        Self { fatal: true, ..Self::msg(message) }
    }

    /// Whether trying again may help.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        !self.fatal && passed_through(&*self.error).is_none_or(|failure| failure.retryable)
    }

    /// The error that was given to `?`, if it was an `E`.
    #[must_use]
    pub fn downcast_ref<E: StdError + 'static>(&self) -> Option<&E> {
        self.error.downcast_ref()
    }

    /// What the caller will see.
    #[must_use]
    pub fn into_failure(self) -> Failure {
        TaskFailureDetails::from(self).into()
    }
}

impl<E: StdError + Send + Sync + 'static> From<E> for Error {
    fn from(error: E) -> Self {
        Self { error: Box::new(error), kind: type_name::<E>(), fatal: false }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Debug for Error {
    /// The message and its causes, one per line: `fn main() -> Result<()>` and `unwrap` print this.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        let mut next = self.error.source();
        while let Some(cause) = next {
            write!(f, "\ncaused by: {cause}")?;
            next = cause.source();
        }
        Ok(())
    }
}

impl From<Error> for TaskFailureDetails {
    fn from(error: Error) -> Self {
        let mut chain = Vec::new();
        let mut next: Option<&(dyn StdError + 'static)> = Some(&*error.error);
        while let Some(link) = next {
            if let Some(failure) = passed_through(link) {
                // Its causes are part of it.
                chain.push(failure.clone().into());
                break;
            }
            let kind = if chain.is_empty() { error.kind } else { kind_of(link) };
            chain.push(failure(kind, link.to_string()));
            next = link.source();
        }
        let mut details = chained(chain);
        details.is_non_retriable |= error.fatal;
        details
    }
}

/// The failure that an error only carries on.
fn passed_through<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Failure> {
    match error.downcast_ref::<CallError>() {
        Some(CallError::Failed(failure)) => Some(failure),
        _ => error.downcast_ref::<Failure>(),
    }
}

/// Behind `dyn Error` the type's name is lost; only types we know can be told.
fn kind_of(error: &(dyn StdError + 'static)) -> &'static str {
    if error.is::<CallError>() {
        type_name::<CallError>()
    } else if error.is::<serde_json::Error>() || matches!(error.downcast_ref(), Some(PayloadError::Json(_))) {
        type_name::<serde_json::Error>()
    } else if error.is::<PayloadError>() {
        type_name::<PayloadError>()
    } else if error.is::<std::io::Error>() {
        type_name::<std::io::Error>()
    } else {
        "Error"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("cannot ship")]
    struct Ship(#[source] CallError);

    #[derive(Debug, thiserror::Error)]
    #[error("no stock")]
    struct Stock(#[source] std::io::Error);

    fn details(error: Error) -> TaskFailureDetails {
        error.into()
    }

    #[test]
    fn a_failed_call_passes_through_unchanged() {
        let given = failure("ValueError", "bad")
            .with_stack("File x.py")
            .with_property("code", 3.0)
            .with_inner(failure("KeyError", "k"));
        let call = || CallError::Failed(given.clone().into());
        assert_eq!(details(call().into()), given);
        assert_eq!(details(Failure::from(given.clone()).into()), given);
        let wrapped = details(Ship(call()).into());
        assert_eq!(wrapped.error_type, type_name::<Ship>());
        assert_eq!(wrapped.error_message, "cannot ship");
        assert_eq!(wrapped.inner_failure, Some(Box::new(given)));
    }

    #[test]
    fn the_source_chain_becomes_inner_failures() {
        let error = Error::from(Stock(std::io::Error::other("disk full")));
        assert_eq!(format!("{error:?}"), "no stock\ncaused by: disk full");
        assert!(error.downcast_ref::<Stock>().is_some());
        let cause = failure("std::io::error::Error", "disk full");
        assert_eq!(details(error), failure(type_name::<Stock>(), "no stock").with_inner(cause));
    }

    /// Behind other errors the type is known by looking; of a payload's JSON it is that of serde, however it came.
    #[test]
    fn what_cannot_be_read_is_told_as_such() {
        #[derive(Debug, thiserror::Error)]
        #[error("no order")]
        struct Order(#[source] Box<dyn StdError + Send + Sync>);

        let json = || serde_json::from_str::<u32>("{").unwrap_err();
        let kind = |source: Box<dyn StdError + Send + Sync>| {
            details(Order(source).into()).inner_failure.map(|inner| inner.error_type)
        };
        let serde = Some(type_name::<serde_json::Error>().to_owned());
        assert_eq!(kind(json().into()), serde);
        assert_eq!(kind(PayloadError::Json(json()).into()), serde);
        let refused = PayloadError::Codec("no key".into());
        assert_eq!(kind(refused.into()), Some(type_name::<PayloadError>().to_owned()));
    }

    #[test]
    fn fatal_is_not_retried() {
        assert!(!Error::fatal("no").is_retryable());
        assert!(Error::msg("no").is_retryable());
        assert_eq!(details(Error::fatal("no")), failure("Error", "no").non_retriable());
        let refused = failure("Refused", "no").non_retriable();
        let error = Error::from(CallError::Failed(refused.clone().into()));
        assert!(!error.is_retryable());
        assert_eq!(details(error), refused);
    }
}
