//! Random events of every kind survive JSON, and so does whatever a damaged event decodes to.

use dauer_proto::decode::{decode_event, encode_event};
use dauer_proto::json::{event_from_value, event_to_value};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::kinds::{all_kinds, any_event, event_of};

/// Each kind on its own, so that none is left to chance.
#[test]
fn every_kind_survives_json() {
    for kind in all_kinds() {
        let mut runner = TestRunner::new(ProptestConfig { cases: 64, ..ProptestConfig::default() });
        let outcome = runner.run(&event_of(kind), |event| {
            let value = event_to_value(&event).unwrap();
            let text = value.to_string();
            prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&text).unwrap(), &value);
            let read = event_from_value(value).unwrap();
            prop_assert_eq!(&read, &event);
            prop_assert_eq!(event_to_value(&read).unwrap().to_string(), text);
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
    }
}

proptest! {
    #[test]
    fn damaged_events_do_not_panic_on_their_way_to_json(event in any_event(), at: prop::sample::Index, byte: u8) {
        let mut bytes = encode_event(&event);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        if let Ok(event) = decode_event(&bytes)
            && let Ok(value) = event_to_value(&event)
        {
            prop_assert!(event_from_value(value).is_ok());
        }
    }
}
