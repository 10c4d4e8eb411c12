//! Checks of single fields.

use prost_types::Timestamp;

use crate::{Invalid, OrchestrationStatus, Problem, time};

pub(super) fn present<'a, T>(field: &str, value: Option<&'a T>) -> Result<&'a T, Invalid> {
    value.ok_or_else(|| Invalid::new(field, Problem::Missing))
}

/// A string that must have content, as names and instance ids.
pub(super) fn filled(field: &str, value: &str) -> Result<(), Invalid> {
    if value.is_empty() { Err(Invalid::new(field, Problem::Empty)) } else { Ok(()) }
}

/// A string that may be absent but not empty.
pub(super) fn filled_if_present(field: &str, value: Option<&String>) -> Result<(), Invalid> {
    value.map_or(Ok(()), |value| filled(field, value))
}

pub(super) fn present_and_filled(field: &str, value: Option<&String>) -> Result<(), Invalid> {
    filled(field, present(field, value)?)
}

pub(super) fn at_least(field: &str, id: i32, min: i32) -> Result<(), Invalid> {
    if id < min { Err(Invalid::new(field, Problem::IdTooSmall { id, min })) } else { Ok(()) }
}

pub(super) fn timestamp(field: &str, value: Option<&Timestamp>) -> Result<(), Invalid> {
    present(field, value)?;
    timestamp_if_present(field, value)
}

pub(super) fn timestamp_if_present(field: &str, value: Option<&Timestamp>) -> Result<(), Invalid> {
    let Some(value) = value else { return Ok(()) };
    time::to_millis_ceil(value).map(drop).map_err(|invalid| invalid.within(field))
}

/// 32 lowercase hexadecimal digits. JavaScript workers build child ids from it and check their form.
pub(super) fn execution_id(field: &str, value: &str) -> Result<(), Invalid> {
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if value.len() == 32 && value.bytes().all(is_hex) {
        Ok(())
    } else {
        Err(Invalid::new(field, Problem::NotAnExecutionId))
    }
}

pub(super) fn status(field: &str, value: i32) -> Result<OrchestrationStatus, Invalid> {
    OrchestrationStatus::try_from(value).map_err(|_| Invalid::new(field, Problem::UnknownEnumValue(value)))
}

/// A status that ends an execution.
pub(super) fn end(field: &str, value: i32) -> Result<(), Invalid> {
    use OrchestrationStatus as Status;
    let status = status(field, value)?;
    match status {
        Status::Completed
        | Status::ContinuedAsNew
        | Status::Failed
        | Status::Canceled
        | Status::Terminated => Ok(()),
        Status::Running | Status::Pending | Status::Suspended => {
            Err(Invalid::new(field, Problem::NotAnEnd(status.as_str_name())))
        }
    }
}

/// Runs a check on each of a list, naming the one that fails by its index.
pub(super) fn each<T>(
    field: &str,
    items: &[T],
    check: impl Fn(&T) -> Result<(), Invalid>,
) -> Result<(), Invalid> {
    for (index, item) in items.iter().enumerate() {
        check(item).map_err(|invalid| invalid.within(format_args!("{field}[{index}]")))?;
    }
    Ok(())
}
