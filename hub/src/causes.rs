//! Errors as operators see them.

use std::error::Error;

/// An error and what lies behind it, in one line: what is recorded as trouble, logged or printed is all that they see.
///
/// ```
/// use dauer_store::{Cause, Refused};
///
/// let error = dauer_hub::ClientError::Refused(Refused::NotExecuted(Cause::new("the disk is full")));
/// assert_eq!(
///     dauer_hub::with_causes(&error),
///     "the store refused: the store did not execute the request: the disk is full"
/// );
/// ```
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
