//! Bounds on failures: the only part of the protocol that nests without end.

use prost_types::{ListValue, Struct, Value, value::Kind};

use crate::{Invalid, Problem, TaskFailureDetails};

/// How many failures may be chained by `innerFailure`, the outermost included. Real chains have a handful; beyond
/// this a program is wrapping its own wrapper, and a failure that travels up through generations of parents must
/// leave room below [`FAILURE_LEVELS_MAX`].
pub const FAILURE_DEPTH_MAX: usize = 64;

/// How many messages deep a failure may be, properties included. Decoders, ours and those of most SDKs, give up at
/// 100 levels; ten are left for what a failure travels in. Without this bound an event could be written that nobody,
/// dauer included, can read again.
pub const FAILURE_LEVELS_MAX: usize = 90;

/// Checks that a failure, with its causes and properties, is shallow enough for every reader.
///
/// # Errors
/// When it is nested beyond [`FAILURE_DEPTH_MAX`] or [`FAILURE_LEVELS_MAX`].
pub fn validate_failure(failure: &TaskFailureDetails) -> Result<(), Invalid> {
    let mut next = Some(failure);
    let mut depth = 0;
    while let Some(failure) = next {
        depth += 1;
        if depth > FAILURE_DEPTH_MAX {
            return Err(Invalid::new("innerFailure", Problem::TooDeep));
        }
        // A map entry is a message of its own around the value.
        let left = FAILURE_LEVELS_MAX - depth - 1;
        if !failure.properties.values().all(|value| fits(value, left)) {
            return Err(Invalid::new("properties", Problem::TooDeep));
        }
        next = failure.inner_failure.as_deref();
    }
    Ok(())
}

/// Whether a value needs at most `levels` levels of messages. Recursion ends with the levels, so depth is no danger.
fn fits(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return false };
    // A list costs itself and the value; a struct itself, the entry of its map, and the value.
    match &value.kind {
        Some(Kind::ListValue(ListValue { values })) => {
            below >= 1 && values.iter().all(|value| fits(value, below.saturating_sub(1)))
        }
        Some(Kind::StructValue(Struct { fields })) => {
            below >= 1 && fields.values().all(|value| fits(value, below.saturating_sub(2)))
        }
        _ => true,
    }
}
