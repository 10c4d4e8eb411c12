//! Random events of every kind survive encoding, and random bytes survive decoding without a panic.
//!
//! The strategies make every field of every kind, each absent as well as present and empty, so that a field lost on
//! the way or a rule that rejects something legal shows up here.

#![allow(clippy::unwrap_used, reason = "clippy knows only #[test] functions as tests, not their helpers")]

#[cfg(feature = "json")]
mod json;
mod kinds;

use std::cell::Cell;
use std::collections::BTreeSet;

use dauer_proto::decode::{decode_event, encode_event, validate_actions, validate_event};
use dauer_proto::{ActionType, CompleteOrchestrationAction, HistoryEvent, Timestamp, action, event, time};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use kinds::{all_kinds, any_event, event_of};

/// Each kind on its own, so that none is left to chance, and the names show that none is left out.
#[test]
fn every_kind_round_trips() {
    let mut names = BTreeSet::new();
    for kind in all_kinds() {
        let mut runner = TestRunner::new(ProptestConfig { cases: 64, ..ProptestConfig::default() });
        let seen = Cell::new("");
        let outcome = runner.run(&event_of(kind), |event| {
            seen.set(event::kind_name(&event));
            prop_assert_eq!(validate_event(&event), Ok(()));
            let bytes = encode_event(&event);
            let decoded = decode_event(&bytes);
            prop_assert_eq!(decoded.as_ref(), Ok(&event));
            prop_assert_eq!(encode_event(&decoded.unwrap()), bytes);
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
        names.insert(seen.get());
    }
    assert_eq!(names.len(), 28, "HistoryEvent has 28 kinds, these were made: {names:?}");
}

/// What was accepted once is accepted again. Compared as bytes, because damage can make a number that is not equal to
/// itself.
fn assert_stable(event: &HistoryEvent) -> Result<(), TestCaseError> {
    let bytes = encode_event(event);
    let again = decode_event(&bytes);
    prop_assert!(again.is_ok(), "{:?}", again);
    prop_assert_eq!(encode_event(&again.unwrap()), bytes);
    Ok(())
}

proptest! {
    #[test]
    fn random_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..256)) {
        if let Ok(event) = decode_event(&bytes) {
            assert_stable(&event)?;
        }
    }

    /// Damage to a valid event reaches further into the decoder than noise does.
    #[test]
    fn damaged_events_do_not_panic(event in any_event(), at: prop::sample::Index, byte: u8, cut: bool) {
        let mut bytes = encode_event(&event);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if cut {
            bytes.truncate(at);
        }
        if let Ok(event) = decode_event(&bytes) {
            assert_stable(&event)?;
        }
    }

    /// Whatever a worker sends, validation answers, and rightly.
    #[test]
    fn actions_are_judged_by_their_parts(
        id in -2..3i32,
        status in -1..9i32,
        nanos in prop_oneof![0..1_000_000_000, any::<i32>()],
        seconds in prop_oneof![-1_000..1_000i64, any::<i64>()],
        events in vec(any_event(), 0..3),
    ) {
        let completion = CompleteOrchestrationAction {
            orchestration_status: status,
            carryover_events: events,
            ..Default::default()
        };
        let actions = [
            action::create_timer(id, Timestamp { seconds, nanos }),
            action::new(id, ActionType::CompleteOrchestration(completion)),
        ];
        let is_time = time::to_millis_ceil(&Timestamp { seconds, nanos }).is_ok();
        let valid = id >= 0 && (1..=5).contains(&status) && is_time;
        prop_assert_eq!(validate_actions(&actions).is_ok(), valid);
    }
}
