//! The rules of an inbox: admission, the batch of a turn, and what outlives the end of a run.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

use std::convert::Infallible;

use bytes::Bytes;
use dauer_store::{
    Class, Control, Encoded, EntityRecord, ExecutionId, InstanceId, Kind, Lock, Message, MessageId, Opening,
    Origin, QueueKey, Record, Revision, Status, Timestamp,
};
use dauer_store_kit::inbox::{self, Admission, Candidate, OpenedRun, Ordinary, Room, TurnBatch};

const RUN: ExecutionId = ExecutionId(1);
const OTHER: ExecutionId = ExecutionId(2);
const NOW: Timestamp = Timestamp(100);

fn id(text: &str) -> InstanceId {
    InstanceId::new(text).unwrap()
}

fn record(status: Status) -> Record {
    let record = Record::pending(QueueKey::new(Kind::Orchestration, "pay", None), RUN, MessageId([1; 16]));
    Record { status, ..record }
}

/// A message with that number, and as many bytes.
fn message(number: u8, class: Class) -> Message {
    Message {
        id: MessageId([number; 16]),
        to: id("i"),
        execution: None,
        class,
        origin: Origin::Client { request: None },
        answers: None,
        visible_at: NOW,
        event: Encoded::from_stored(Bytes::from(vec![0; usize::from(number)])),
    }
}

fn start(run: ExecutionId) -> Box<Opening> {
    Box::new(Opening::new(record(Status::Pending).queue, run))
}

fn classes() -> [Class; 6] {
    [
        Class::Start(start(RUN)),
        Class::Rewind(start(RUN)),
        Class::Control(Control::Suspend),
        Class::Control(Control::Resume),
        Class::Control(Control::Terminate),
        Class::Ordinary,
    ]
}

fn of_turn(sender: &str) -> Origin {
    Origin::Turn { instance: id(sender), execution: RUN, revision: Revision(1), ordinal: Some(0) }
}

/// An index of ordinary messages selects what the hold admits.
#[test]
fn admission_of_ordinary_messages_agrees_with_the_hold() {
    let mut locked = record(Status::Running);
    let lock = Lock { section: "s".into(), owner: id("owner"), owner_execution: OTHER };
    locked.details.set_entity(Some(EntityRecord { lock: Some(lock), ..EntityRecord::default() }));
    let suspended = Record { history_len: 1, ..record(Status::Suspended) };
    let statuses = [Status::Pending, Status::Running, Status::Suspended, Status::Failed];
    let records = statuses.map(record).into_iter().chain([suspended, locked]);
    for (record, own_start_waits) in records.flat_map(|record| [(record.clone(), true), (record, false)]) {
        let (status, hold) = (record.status, record.hold());
        let admission = Admission::of(&record, own_start_waits);
        let rewinds = status == Status::Pending && !own_start_waits;
        for (class, sender) in
            classes().into_iter().flat_map(|class| [(class.clone(), "owner"), (class, "x")])
        {
            let (rewind, ordinary) = (matches!(class, Class::Rewind(_)), matches!(class, Class::Ordinary));
            let message = Message { origin: of_turn(sender), ..message(2, class) };
            let expected = hold.admits(&message) || rewind && rewinds;
            assert_eq!(
                admission.admits(&message),
                expected,
                "{hold:?} {status:?} {own_start_waits} {message:?}"
            );
            let by_index = match admission.ordinary() {
                Ordinary::All => true,
                Ordinary::Of(owner) => message.origin.sender() == Some(owner),
                Ordinary::None => false,
            };
            assert!(!ordinary || by_index == expected, "{hold:?} {status:?} {message:?}");
        }
    }
}

#[test]
fn arrival_is_never_in_the_past_and_postpones_nothing() {
    let mut message = message(1, Class::Ordinary);
    inbox::arrive(&mut message, Timestamp(90));
    assert_eq!(message.visible_at, NOW);
    inbox::arrive(&mut message, Timestamp(110));
    assert_eq!(message.visible_at, Timestamp(110));
    assert_eq!(inbox::ready_by(None, NOW), NOW);
    assert_eq!(inbox::ready_by(Some(Timestamp(90)), NOW), Timestamp(90));
    assert_eq!(inbox::ready_by(Some(Timestamp(110)), NOW), NOW);
}

#[test]
fn turn_begins_with_its_own_start_or_an_unborn_runs_opening() {
    let pending = record(Status::Pending);
    let unborn = record(Status::Suspended);
    let [own, other] = [1, 2].map(|number| message(number, Class::Start(start(RUN))));
    let next = message(1, Class::Start(start(OTHER)));
    let rewind = message(2, Class::Rewind(start(RUN)));
    assert_eq!([&own, &other, &rewind].map(|m| inbox::leads(&pending, m)), [true, false, false]);
    assert_eq!([&own, &other, &rewind, &next].map(|m| inbox::leads(&unborn, m)), [true, true, true, false]);
    assert!(inbox::begins_alone(&pending, NOW, NOW) && !inbox::begins_alone(&unborn, NOW, NOW));
    assert!(!inbox::begins_alone(&pending, Timestamp(101), NOW));
}

/// The numbers of the messages of a turn, and whether more wait.
fn turn(
    start: Option<(u8, bool)>,
    waiting: &[u8],
    (bytes, whatever_size): (usize, bool),
) -> Option<(Vec<u8>, bool)> {
    // Number 3 is a suspend.
    let read = |number| {
        message(number, if number == 3 { Class::Control(Control::Suspend) } else { Class::Ordinary })
    };
    let candidate = |number: u8| {
        let suspends = read(number).is_suspend();
        Candidate { key: number, bytes: usize::from(number), suspends, message: number }
    };
    let start = start.map(|(number, alone)| (candidate(number), alone));
    let room = Room { bytes, whatever_size };
    let found = |found: Candidate<u8, u8>| Ok::<_, Infallible>(read(found.message));
    let batch = inbox::next_turn(start, waiting.iter().copied().map(candidate), room, found).unwrap();
    batch.map(|TurnBatch { messages, bytes, more }| {
        let numbers: Vec<u8> = messages.iter().map(|message| message.id.0[0]).collect();
        assert_eq!(bytes, numbers.iter().map(|number| usize::from(*number)).sum::<usize>());
        (numbers, more)
    })
}

#[test]
fn turn_has_the_start_first_and_ends_with_the_first_suspend() {
    const ALL: (usize, bool) = (1_000, true);
    let some = |numbers: &[u8], more| Some((numbers.to_vec(), more));
    assert_eq!(turn(None, &[], ALL), None);
    assert_eq!(turn(None, &[4, 5], ALL), some(&[4, 5], false));
    assert_eq!(turn(None, &[4, 3], ALL), some(&[4, 3], false));
    assert_eq!(turn(None, &[4, 3, 5], ALL), some(&[4, 3], true));
    // A start that may not come alone waits for another message, and comes once.
    assert_eq!(turn(Some((1, true)), &[], ALL), None);
    assert_eq!(turn(Some((1, true)), &[1], ALL), some(&[1], false));
    assert_eq!(turn(Some((1, true)), &[4, 1], ALL), some(&[1, 4], false));
    assert_eq!(turn(Some((1, false)), &[1], ALL), None);
    assert_eq!(turn(Some((1, false)), &[4], ALL), some(&[1, 4], false));
}

#[test]
fn turn_keeps_to_its_bytes_but_for_the_least() {
    let some = |numbers: &[u8], more| Some((numbers.to_vec(), more));
    assert_eq!(turn(None, &[4, 5], (9, false)), some(&[4, 5], false));
    assert_eq!(turn(None, &[4, 5], (8, false)), some(&[4], true));
    assert_eq!(turn(None, &[4, 5], (3, false)), None);
    assert_eq!(turn(None, &[4, 5], (3, true)), some(&[4], true));
    assert_eq!(turn(Some((6, false)), &[4, 5], (0, true)), some(&[6, 4], true));
    assert_eq!(turn(Some((6, false)), &[4, 5], (6, false)), None);
}

#[test]
fn end_of_a_run_keeps_openings_and_what_follows_the_first() {
    let named = |number, execution| Message { execution, ..message(number, Class::Ordinary) };
    let inbox = [
        named(10, None),
        named(11, Some(OTHER)),
        message(12, Class::Start(start(OTHER))),
        named(13, None),
        named(14, Some(OTHER)),
        named(15, Some(RUN)),
        named(16, Some(ExecutionId(3))),
        message(17, Class::Rewind(start(ExecutionId(3)))),
        message(18, Class::Control(Control::Resume)),
    ];
    let openings = |inbox: &[Message]| -> Vec<OpenedRun<usize>> {
        inbox.iter().enumerate().filter_map(|(at, message)| OpenedRun::of(at, message)).collect()
    };
    let stay = |inbox: &[Message]| -> Vec<u8> {
        let openings = openings(inbox);
        let all = inbox.iter().enumerate();
        let stays = all.filter(|(at, message)| inbox::outlives_end(&openings, at, message));
        stays.map(|(_, message)| message.id.0[0]).collect()
    };
    assert_eq!(stay(&inbox), [12, 13, 14, 16, 17, 18]);
    assert_eq!(stay(&inbox[..2]), [0_u8; 0]);
    assert!(
        inbox::is_for_next_run(&openings(&inbox), Some(OTHER))
            && inbox::is_for_next_run(&openings(&inbox), None)
    );
    assert!(!inbox::is_for_next_run(&openings(&inbox), Some(RUN)));
    assert!(!inbox::is_for_next_run::<usize>(&[], None));
    assert_eq!([13, 14, 15].map(|n| inbox::is_for_run(&inbox[n - 10], RUN)), [true, false, true]);
}
