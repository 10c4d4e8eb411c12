//! The stored bytes of events and batches. The files in `golden/` must never change: what was written by the first
//! dauer must be readable by every later one. A new format is a new format byte and new files beside these.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests say what they expect by failing")]

use bytes::Bytes;
use dauer_core::MessageId;
use dauer_core::model::{Batch, BlobError, DropReason, Encoded, FORMAT, Fate};
use dauer_proto::{
    EventType, ExecutionStartedEvent, HistoryEvent, OrchestrationStatus, TraceContext, event, failure, time,
};
use proptest::prelude::*;

/// The bytes of a golden file: hexadecimal digits, white space between them as the reader likes.
fn golden(text: &str) -> Bytes {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect::<Vec<_>>().into()
}

fn hex(bytes: &[u8]) -> String {
    let lines =
        bytes.chunks(32).map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
    lines.map(|line| line + "\n").collect()
}

/// A start with everything that core ever writes into one.
fn started() -> HistoryEvent {
    let execution = "000102030405060708090a0b0c0d0e0f";
    let start = ExecutionStartedEvent {
        version: Some("1.0".into()),
        input: Some("{\"amount\":7}".into()),
        scheduled_start_timestamp: Some(time::from_millis(1_700_000_000_123)),
        parent_trace_context: Some(Box::new(TraceContext {
            trace_parent: "00-ab-cd-01".into(),
            ..TraceContext::default()
        })),
        tags: [("b".to_owned(), "2".to_owned()), ("a".to_owned(), "1".to_owned())].into(),
        ..event::start("Order", "order-7", execution)
    };
    event::execution_started(1_700_000_000_456, start)
}

fn events() -> Vec<HistoryEvent> {
    let at = 1_700_000_000_456;
    vec![
        event::orchestrator_started(at),
        started(),
        event::timer_created(at, 1, time::from_millis(1_700_000_060_000)),
        event::task_failed(
            at,
            0,
            failure::failure("Boom", "bad").with_inner(failure::failure("Root", "")).non_retriable(),
        ),
        event::event_raised(at, "Paid", Some(String::new())),
        event::execution_completed(at, 2, OrchestrationStatus::Completed, None, None),
    ]
}

fn batch() -> Batch {
    let encoded: Vec<_> = events().iter().map(Encoded::new).collect();
    let consumed =
        vec![(MessageId([1; 16]), Fate::Event(1)), (MessageId([2; 16]), Fate::Dropped(DropReason::NotOpen))];
    Batch::join(&encoded, consumed, vec![MessageId([3; 16])]).unwrap()
}

#[test]
fn an_encoded_event_has_the_bytes_it_always_had() {
    let stored = golden(include_str!("golden/execution_started.hex"));
    assert_eq!(hex(Encoded::new(&started()).stored()), hex(&stored));
    assert_eq!(stored[0], FORMAT);
    assert_eq!(Encoded::from_stored(stored).event().unwrap(), started());
}

#[test]
fn a_batch_has_the_bytes_it_always_had() {
    let stored = golden(include_str!("golden/batch.hex"));
    assert_eq!(hex(batch().events.stored()), hex(&stored));
    assert_eq!(stored[0], FORMAT);
    let read =
        Batch { count: 6, events: Encoded::from_stored(stored), consumed: Vec::new(), produced: Vec::new() };
    assert_eq!(read.decode().unwrap(), events());
}

#[test]
fn the_events_of_a_batch_come_apart_as_they_were_joined() {
    let contents: [&[u8]; 3] = [b"one", b"", &[7; 300]];
    let events = contents.map(Encoded::of_content);
    let batch = Batch::join(&events, Vec::new(), Vec::new()).unwrap();
    let found: Vec<_> = batch.contents().collect::<Result<_, _>>().unwrap();
    assert_eq!(found, contents);
    assert!(found.iter().zip(&events).all(|(found, event)| Ok(*found) == event.content()));
    // What is cut off ends with what is wrong, and so does what is not ours.
    let stored = batch.events.stored();
    let contents = |bytes: Bytes| -> Vec<_> {
        let batch = Batch { events: Encoded::from_stored(bytes), ..batch.clone() };
        batch.contents().map(|found| found.map(<[u8]>::len)).collect()
    };
    let cut_off = || Err(BlobError::Content("an event is cut off".into()));
    assert_eq!(contents(stored.slice(..stored.len() - 1)), [Ok(3), Ok(0), cut_off()]);
    assert_eq!(contents(Bytes::from_static(&[2, 1, 1])), [Err(BlobError::Format(2))]);
    assert_eq!(contents(Bytes::new()), [Err(BlobError::Empty)]);
}

#[test]
fn an_empty_batch_is_a_format_byte() {
    let batch = Batch::join(&[], Vec::new(), Vec::new()).unwrap();
    assert_eq!(batch.events.stored().as_ref(), [FORMAT]);
    assert!(!batch.events.is_empty(), "a format byte is not nothing");
    assert!(Encoded::from_stored(Bytes::new()).is_empty());
    assert_eq!(batch.decode(), Ok(Vec::new()));
}

/// Events are joined as they are: a field that a newer process added survives an older one.
#[test]
fn unknown_fields_survive_in_a_batch() {
    let mut bytes = Encoded::new(&started()).stored().to_vec();
    let unknown = [0xba, 0x3e, 0x03, b'n', b'e', b'w']; // field 999, three bytes
    bytes.extend(unknown);
    let batch = Batch::join(&[Encoded::from_stored(bytes.into())], Vec::new(), Vec::new()).unwrap();
    assert!(batch.events.stored().windows(unknown.len()).any(|window| window == unknown));
    assert_eq!(batch.decode().unwrap(), [started()]);
}

#[test]
fn another_format_byte_is_refused_and_named() {
    for format in (0..=u8::MAX).filter(|format| *format != FORMAT) {
        let mut bytes = Encoded::new(&started()).stored().to_vec();
        bytes[0] = format;
        let foreign = Encoded::from_stored(bytes.into());
        assert_eq!(foreign.event(), Err(BlobError::Format(format)));
        assert_eq!(Batch::join(&[foreign], Vec::new(), Vec::new()), Err(BlobError::Format(format)));
        let mut bytes = batch().events.stored().to_vec();
        bytes[0] = format;
        let foreign = Batch { events: Encoded::from_stored(bytes.into()), ..batch() };
        assert_eq!(foreign.decode(), Err(BlobError::Format(format)));
    }
    let error = BlobError::Format(2).to_string();
    assert_eq!(error, "the blob has format 2, this dauer reads 1; use a newer dauer");
    assert_eq!(Encoded::from_stored(Bytes::new()).event(), Err(BlobError::Empty));
}

#[test]
fn a_truncated_batch_is_refused_wherever_it_is_cut() {
    let whole = batch().events.stored().clone();
    for length in 0..whole.len() {
        let cut = Batch { events: Encoded::from_stored(whole.slice(..length)), ..batch() };
        assert!(cut.decode().is_err(), "{length} of {} bytes", whole.len());
    }
}

#[test]
fn a_wrong_count_is_refused() {
    for count in [0, 1, 5, 7, u32::MAX] {
        let error = Batch { count, ..batch() }.decode().unwrap_err();
        let expected = BlobError::Content(format!("6 events where {count} were stored"));
        assert_eq!(error, expected);
    }
}

#[test]
fn an_event_that_makes_no_sense_is_refused_by_field() {
    let untimed = Encoded::new(&HistoryEvent { timestamp: None, ..started() });
    let error = untimed.event().unwrap_err().to_string();
    assert!(error.contains("timestamp"), "{error}");
    let kindless = Encoded::new(&HistoryEvent { event_type: None, ..started() });
    assert!(kindless.event().is_err());
    assert!(matches!(started().event_type, Some(EventType::ExecutionStarted(_))));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// No bytes make a batch panic or ask for more memory than they are worth.
    #[test]
    fn any_bytes_are_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..200), count: u32) {
        if let Some(first) = bytes.first_mut() {
            *first = FORMAT;
        }
        let events = Encoded::from_stored(bytes.into());
        let _ = Batch { count, events, consumed: Vec::new(), produced: Vec::new() }.decode();
    }

    /// One flipped bit never makes a batch of another length pass for this one.
    #[test]
    fn a_flipped_bit_is_refused_or_keeps_the_count(index in 0_usize..10_000, bit in 0_u8..8) {
        let mut bytes = batch().events.stored().to_vec();
        let index = index % bytes.len();
        bytes[index] ^= 1 << bit;
        if let Ok(events) = (Batch { events: Encoded::from_stored(bytes.into()), ..batch() }).decode() {
            prop_assert_eq!(events.len(), 6);
        }
    }
}
