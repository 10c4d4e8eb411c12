//! One history event from the wire.

use dauer_proto::decode::{decode_event, encode_event, validate_event};
use dauer_proto::{HistoryEvent, Invalid, Problem, event};

use crate::Verdict;

/// What decodes is written back to something that decodes to the same; what does not names the field.
pub(crate) fn run(bytes: &[u8]) -> Verdict {
    match decode_event(bytes) {
        Ok(event) => {
            round_trip(&event);
            let (scheduled, answer) = (event::schedules(&event), event::answer(&event));
            assert!(scheduled.is_none() || answer.is_none(), "an event that schedules and answers");
            assert_eq!(event::answers(&event), answer.map(|answer| answer.id));
            Verdict::accepted("event")
        }
        Err(error) => {
            names_the_field(&error);
            match error.problem {
                Problem::Undecodable(_) => Verdict::refused("bytes"),
                _ => Verdict::refused("field"),
            }
        }
    }
}

/// Compared by their bytes: a failure may carry a NaN, which is not equal to itself.
pub(crate) fn round_trip(event: &HistoryEvent) {
    assert_eq!(validate_event(event), Ok(()), "what was decoded is valid");
    assert_ne!(event::kind_name(event), "None");
    let written = encode_event(event);
    match decode_event(&written) {
        Ok(again) => assert!(encode_event(&again) == written, "an event changes when it is written and read"),
        Err(error) => panic!("an event that was read cannot be written and read again: {error}"),
    }
}

pub(crate) fn names_the_field(error: &Invalid) {
    assert!(!error.field.is_empty(), "an error without a field: {error}");
    assert!(error.to_string().starts_with(&error.field), "{error}");
}
