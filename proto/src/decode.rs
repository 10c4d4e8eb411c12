//! Decoding that rejects what makes no sense, and validation of what others built.
//!
//! Protobuf accepts almost anything: a missing field is a zero, an unknown kind is an absent one. What passes here is
//! stored and replayed for years, so nonsense is stopped at the rim, with an error that names the field. The rules
//! reject only what no SDK sends on purpose: an id of 0, an empty string as a payload and two completions in one turn
//! are legal.

mod action;
mod check;
mod event;
mod failure;

use prost::Message;

use crate::{HistoryEvent, Invalid, OrchestratorAction, Problem};

pub use failure::{FAILURE_DEPTH_MAX, FAILURE_LEVELS_MAX, validate_failure};

/// Decodes one event and validates it.
///
/// # Errors
/// When the bytes are no event, or [`validate_event`] rejects it.
pub fn decode_event(bytes: &[u8]) -> Result<HistoryEvent, Invalid> {
    let event = HistoryEvent::decode(bytes)
        .map_err(|error| Invalid::new("historyEvent", Problem::Undecodable(error.to_string())))?;
    validate_event(&event)?;
    Ok(event)
}

/// The bytes of an event: always the same for equal events, because maps are ordered.
pub fn encode_event(event: &HistoryEvent) -> Vec<u8> {
    event.encode_to_vec()
}

/// Checks an event that is to be stored or replayed.
///
/// # Errors
/// When a field makes no sense; the first one found is named.
pub fn validate_event(event: &HistoryEvent) -> Result<(), Invalid> {
    check::timestamp("timestamp", event.timestamp.as_ref())?;
    event::validate_untimed(event)
}

/// Checks one action of a worker's answer.
///
/// # Errors
/// When a field makes no sense; the first one found is named.
pub fn validate_action(action: &OrchestratorAction) -> Result<(), Invalid> {
    action::validate(action)
}

/// Checks all actions of a worker's answer, in order.
///
/// Equal ids and several completions pass: .NET gives unlocks the id of the completion, and Go may complete twice.
///
/// # Errors
/// When a field makes no sense; the first one found is named, as in `actions[2].createTimer.fireAt`.
pub fn validate_actions(actions: &[OrchestratorAction]) -> Result<(), Invalid> {
    check::each("actions", actions, validate_action)
}

#[cfg(test)]
mod tests;
