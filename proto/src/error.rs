//! The one error of this crate: which field makes no sense, and what to do about it.

use crate::decode::{FAILURE_DEPTH_MAX, FAILURE_LEVELS_MAX};

/// A message that decodes but makes no sense, or does not decode at all.
///
/// The field is a path in the spelling of the `.proto`, as in `actions[2].createTimer.fireAt`, so that an SDK author
/// finds it without knowing dauer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
#[non_exhaustive]
pub struct Invalid {
    /// Path of the offending field.
    pub field: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The bytes are no message of this type.
    #[error("the bytes are no such message ({0}); check that they are whole and of the right type")]
    Undecodable(String),
    /// A field that must be set is not.
    #[error("is missing; set it")]
    Missing,
    /// No known member of a oneof is set.
    #[error("no known kind is set; set one, or upgrade dauer if the sender is newer")]
    UnknownKind,
    /// A string or list that must have content has none.
    #[error("is empty; give it content")]
    Empty,
    /// An id below the smallest that means something here.
    #[error("is {id}, below {min}; use the id of the action concerned")]
    IdTooSmall {
        /// The id found.
        id: i32,
        /// The smallest legal one.
        min: i32,
    },
    /// A number of an enum that this version does not know.
    #[error("{0} is no known value; use one from the .proto, or upgrade dauer if the sender is newer")]
    UnknownEnumValue(i32),
    /// A status that does not end an execution, where one that does is needed.
    #[error("{0} does not end an execution; use COMPLETED, FAILED, CANCELED, TERMINATED or CONTINUED_AS_NEW")]
    NotAnEnd(&'static str),
    /// An execution id of another form.
    #[error("is no execution id; use 32 lowercase hexadecimal digits")]
    NotAnExecutionId,
    /// A timestamp outside 0001-01-01 to 9999-12-31, or nanoseconds outside a second.
    #[error("{seconds} s and {nanos} ns is no time from year 1 to 9999; use 0 to 999999999 ns")]
    TimeOutOfRange {
        /// Seconds since the epoch.
        seconds: i64,
        /// Nanoseconds within the second.
        nanos: i32,
    },
    /// A place in a list that does not exist.
    #[error("is {position}, but the list has {len} entries; use 0 to the last")]
    PositionOutOfRange {
        /// The position found.
        position: i32,
        /// Length of the list.
        len: usize,
    },
    /// A failure nested beyond what every reader can decode.
    #[error(
        "is nested too deeply; keep to {FAILURE_DEPTH_MAX} inner failures and {FAILURE_LEVELS_MAX} message levels"
    )]
    TooDeep,
}

impl Invalid {
    /// An error about `field`.
    pub fn new(field: impl Into<String>, problem: Problem) -> Self {
        Self { field: field.into(), problem }
    }

    /// The same error seen from the message around it: `fireAt` within `createTimer` is `createTimer.fireAt`.
    #[must_use]
    pub fn within(self, outer: impl std::fmt::Display) -> Self {
        let field = if self.field.is_empty() { outer.to_string() } else { format!("{outer}.{}", self.field) };
        Self { field, problem: self.problem }
    }
}
