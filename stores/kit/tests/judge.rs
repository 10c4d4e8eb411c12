//! The decisions of the kit, one table for each.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

use std::borrow::Cow;
use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use dauer_core::limits::{MEMORY_AGE_MAX, START_RETRY_MAX};
use dauer_store::{
    Batch, Class, Control, Create, Details, DropReason, Encoded, Epoch, ExecutionId, InstanceId, Kind,
    Message, MessageId, Opening, Origin, Over, Payload, Query, QueueKey, Record, Refused, Reuse, Revision,
    Slice, Status, StoredBatch, Times, Timestamp, Trouble, TroubleKind,
};
use dauer_store_kit::judge::{self, Creation, Facts, Recall};

const NOW: Timestamp = Timestamp(1_000_000_000);
const RUN: ExecutionId = ExecutionId(1);
const OTHER: ExecutionId = ExecutionId(2);

fn record(status: Status) -> Record {
    let record = Record::pending(QueueKey::new(Kind::Orchestration, "pay", None), RUN, MessageId([1; 16]));
    Record { status, ..record }
}

fn message(class: Class, execution: Option<ExecutionId>) -> Message {
    Message {
        id: MessageId([2; 16]),
        to: InstanceId::new("i").unwrap(),
        execution,
        class,
        origin: Origin::Client { request: None },
        answers: None,
        visible_at: NOW,
        event: Encoded::from_stored(Bytes::from_static(b"event")),
    }
}

fn start(run: ExecutionId) -> Box<Opening> {
    Box::new(Opening::new(record(Status::Pending).queue, run))
}

#[test]
fn delivery_is_dropped_for_the_first_reason() {
    let none = Facts { repeats: false, for_next_run: false };
    let (repeats, next) = (Facts { repeats: true, ..none }, Facts { for_next_run: true, ..none });
    let (open, ended) = (Status::Running, Status::Failed);
    let opening = || Class::Start(start(OTHER));
    let table = [
        (open, Class::Ordinary, None, none, None),
        (open, Class::Ordinary, Some(RUN), none, None),
        (open, Class::Ordinary, Some(OTHER), none, Some(DropReason::OtherExecution)),
        (open, Class::Ordinary, Some(OTHER), repeats, Some(DropReason::Repeat)),
        (ended, Class::Ordinary, None, none, Some(DropReason::Ended)),
        (ended, Class::Control(Control::Resume), Some(RUN), none, Some(DropReason::Ended)),
        (ended, Class::Ordinary, Some(OTHER), none, Some(DropReason::OtherExecution)),
        (ended, Class::Ordinary, Some(OTHER), next, None),
        (ended, opening(), None, none, None),
        (ended, Class::Rewind(start(OTHER)), None, none, None),
        (ended, opening(), None, repeats, Some(DropReason::Repeat)),
    ];
    for (status, class, execution, facts, expected) in table {
        let (record, message) = (record(status), message(class, execution));
        assert_eq!(
            judge::why_dropped(&record, &message, facts),
            expected,
            "{status:?} {message:?} {facts:?}"
        );
    }
}

#[test]
fn absent_instance_is_created_by_starts_and_entity_messages() {
    let created = |message: &Message| judge::created_by(message, Revision(7));
    assert_eq!(created(&message(Class::Start(start(OTHER)), None)).unwrap().execution, OTHER);
    assert_eq!(created(&message(Class::Rewind(start(OTHER)), Some(OTHER))).unwrap().execution, OTHER);
    assert_eq!(created(&message(Class::Start(start(OTHER)), Some(RUN))), None);
    assert_eq!(created(&message(Class::Ordinary, None)), None);
    let to_entity = Message { to: InstanceId::new("@counter@a").unwrap(), ..message(Class::Ordinary, None) };
    assert_eq!(created(&to_entity).unwrap().queue.kind, Kind::Entity);
}

#[test]
fn applied_ids_are_known_for_a_day_and_answers_and_starts_never() {
    assert!(judge::is_known(NOW, NOW.after(MEMORY_AGE_MAX)));
    assert!(!judge::is_known(NOW, NOW.after(MEMORY_AGE_MAX + Duration::from_millis(1))));
    let answer = Message { answers: Some(MessageId([3; 16])), ..message(Class::Ordinary, None) };
    assert!(!judge::is_remembered(&answer));
    assert!(!judge::is_remembered(&message(Class::Start(start(RUN)), None)));
    assert!(judge::is_remembered(&message(Class::Rewind(start(RUN)), None)));
    assert!(judge::is_remembered(&message(Class::Ordinary, None)));
}

#[test]
fn own_start_is_the_start_that_the_record_names() {
    let record = record(Status::Pending);
    let named = Message { id: record.start, ..message(Class::Start(start(RUN)), None) };
    assert!(judge::is_own_start(&record, &named));
    assert!(!judge::is_own_start(&record, &Message { class: Class::Rewind(start(RUN)), ..named.clone() }));
    assert!(!judge::is_own_start(&record, &Message { id: MessageId([9; 16]), ..named }));
}

#[test]
fn creation_replaces_ended_and_sends_to_living_by_policy() {
    let any = |statuses: &[Status]| Reuse { replaceable: statuses.to_vec() };
    let exists = |status| Err(status);
    let (failed, running, pending) = (Status::Failed, Status::Running, Status::Pending);
    let table = [
        (failed, false, any(&[failed]), Ok(Creation::Replace)),
        (failed, false, any(&[running]), exists(failed)),
        // A start waits: the instance counts as pending.
        (failed, true, any(&[failed]), exists(pending)),
        (failed, true, any(&[pending]), Ok(Creation::Send)),
        (running, false, any(&[failed]), exists(running)),
        (running, true, any(&[running]), Ok(Creation::Send)),
    ];
    for (status, opening, reuse, expected) in table {
        let found = judge::creation(status, opening, &reuse).map_err(|refused| match refused {
            Refused::Exists(status) => status,
            other => panic!("{other}"),
        });
        assert_eq!(found, expected, "{status:?} {opening} {reuse:?}");
    }
}

#[test]
fn only_a_start_creates_and_terminating_keeps_all_but_its_wish() {
    let create = |class| Create::new(message(class, None), Reuse::default());
    assert!(judge::start_of(&create(Class::Start(start(RUN)))).is_ok());
    for class in [Class::Rewind(start(RUN)), Class::Ordinary] {
        assert!(matches!(judge::start_of(&create(class)), Err(Refused::NotExecuted(_))));
    }
    let sent = judge::terminating(message(Class::Start(start(RUN)), None));
    let wished = Box::new(Opening { over: Over::Terminate, ..*start(RUN) });
    assert_eq!(sent, message(Class::Start(wished), None));
}

#[test]
fn likeness_is_the_first_half_of_an_id() {
    let id = |byte: u8, rest: u8| {
        let mut id = [rest; 16];
        id[..8].fill(byte);
        MessageId(id)
    };
    let alike = judge::likeness(id(7, 1));
    assert!([id(7, 0), id(7, 9), id(7, u8::MAX)].iter().all(|id| alike.contains(id)));
    assert!(![id(6, u8::MAX), id(8, 0)].iter().any(|id| alike.contains(id)));
    let late = NOW.after(START_RETRY_MAX);
    let times = Times { accepted: NOW, ..Times::default() };
    let record = Record { start: id(7, 3), times, ..record(Status::Running) };
    assert_eq!(judge::begun_alike(&record, id(7, 4), late), Some(RUN));
    assert_eq!(judge::begun_alike(&record, id(8, 3), late), None);
    assert_eq!(judge::begun_alike(&record, id(7, 4), late.after(Duration::from_millis(1))), None);
}

#[test]
fn commit_is_stamped_by_the_store() {
    let created = Timestamp(1);
    let times = Times { created, accepted: Timestamp(2), ..Times::default() };
    let (revision, attempts) = (Revision(4), 5);
    let old = Record { times, revision, attempts, ..record(Status::Running) };
    let stamped = |mut new: Record, old: &Record| {
        judge::stamp(&mut new, old, (8, 9), NOW);
        new
    };
    let trouble = Trouble {
        kind: TroubleKind::Panic,
        reason: String::new(),
        since: NOW,
        attempts: 1,
        others: Vec::new(),
        build: None,
    };
    let mut new = record(Status::Running);
    (new.attempts, new.trouble) = (6, Some(Box::new(trouble)));
    let goes_on = stamped(new, &old);
    assert_eq!((goes_on.revision, goes_on.history_len, goes_on.history_bytes), (Revision(5), 8, 9));
    assert_eq!((goes_on.attempts, goes_on.trouble), (0, None));
    let expected = Times { created, accepted: Timestamp(2), updated: NOW, scheduled: None, completed: None };
    assert_eq!(goes_on.times, expected);
    // Another start: a new instance in the same place, unless the commit names the old time of creation.
    let other = Record { start: MessageId([9; 16]), ..record(Status::Completed) };
    let begun = stamped(other.clone(), &old);
    assert_eq!((begun.times.created, begun.times.accepted, begun.times.completed), (NOW, NOW, Some(NOW)));
    let kept = Record { times: Times { created, ..Times::default() }, ..other };
    assert_eq!(stamped(kept, &old).times.created, created);
    // The end of a run stays, and is another one's for another run.
    let ended = Record { times: Times { completed: Some(Timestamp(3)), ..begun.times.clone() }, ..begun };
    assert_eq!(stamped(ended.clone(), &ended).times.completed, Some(Timestamp(3)));
    let next = Record { execution: OTHER, ..ended.clone() };
    assert_eq!(stamped(next, &ended).times.completed, Some(NOW));
}

#[test]
fn newborn_has_the_times_and_revision_of_its_creation() {
    let times = Times { scheduled: Some(Timestamp(9)), ..Times::default() };
    let sent = Record { times, ..record(Status::Pending) };
    let born = judge::newborn(sent, Revision(3), NOW);
    let scheduled = Some(Timestamp(9));
    let times = Times { created: NOW, accepted: NOW, updated: NOW, scheduled, completed: None };
    assert_eq!(born, Record { times, revision: Revision(3), ..record(Status::Pending) });
}

#[test]
fn change_is_shown_if_status_run_or_custom_status_differ() {
    let old = record(Status::Running);
    let shown = |new: Record| judge::is_shown(&old, &new);
    assert!(!shown(Record { history_len: 9, ..old.clone() }));
    assert!(shown(Record { status: Status::Suspended, ..old.clone() }));
    assert!(shown(Record { execution: OTHER, ..old.clone() }));
    let with = |change: fn(&mut Details)| {
        let mut details = old.details.clone();
        change(&mut details);
        Record { details, ..old.clone() }
    };
    assert!(shown(with(|details| details.set_custom_status(Some(Payload::from("half".to_owned()))))));
    assert!(!shown(with(|details| details.set_output(Some(Payload::from("half".to_owned()))))));
}

#[test]
fn trouble_of_the_same_kind_goes_on() {
    let trouble = |kind, since| Trouble {
        kind,
        reason: "r".to_owned(),
        since: Timestamp(since),
        attempts: 77,
        others: Vec::new(),
        build: None,
    };
    let mut record = record(Status::Running);
    judge::release_turn(&mut record, true, Some(trouble(TroubleKind::Panic, 1)));
    judge::release_turn(&mut record, false, None);
    judge::release_turn(&mut record, true, Some(trouble(TroubleKind::Panic, 2)));
    let shown = record.trouble.clone().unwrap();
    assert_eq!((record.attempts, shown.attempts, shown.since), (2, 2, Timestamp(1)));
    judge::release_turn(&mut record, true, Some(trouble(TroubleKind::Mismatch, 3)));
    assert_eq!(record.trouble.unwrap().since, Timestamp(3));
    assert_eq!(judge::not_before(Duration::ZERO, NOW), Timestamp::default());
    assert_eq!(judge::not_before(Duration::from_secs(1), NOW), NOW.after(Duration::from_secs(1)));
}

#[test]
fn query_matches_if_all_conditions_hold() {
    let id = InstanceId::new("order-1").unwrap();
    let times = Times { created: NOW, ..Times::default() };
    let tags = [("a".to_owned(), "b".to_owned())];
    let record = Record { times, tags: tags.clone().into(), ..record(Status::Running) };
    let matches = |query: Query| judge::matches(&query, &id, &record);
    let any = Query::default;
    let (before, after) = (Timestamp(NOW.0 - 1), Timestamp(NOW.0 + 1));
    assert!(matches(any()) && matches(Query { created_from: Some(NOW), created_to: Some(after), ..any() }));
    assert!(matches(Query { statuses: vec![Status::Running], tags: tags.into(), ..any() }));
    assert!(matches(Query { name: Some("pay".into()), prefix: Some("order".into()), ..any() }));
    let wrong = [
        Query { statuses: vec![Status::Failed], ..any() },
        Query { created_from: Some(after), ..any() },
        Query { created_to: Some(NOW), ..any() },
        Query { created_to: Some(before), ..any() },
        Query { name: Some("paying".into()), ..any() },
        Query { prefix: Some("order-12".into()), ..any() },
        Query { tags: [("a".to_owned(), String::new())].into(), ..any() },
        Query { stalled: true, ..any() },
        Query { entities: true, ..any() },
    ];
    for query in wrong {
        assert!(!matches(query.clone()), "{query:?}");
    }
    assert_eq!((judge::page_rows(3), judge::page_rows(0) > 1), (3, true));
}

#[test]
fn next_start_is_that_of_the_own_run_until_the_run_has_ended() {
    let new = record(Status::Pending);
    let running = Record { history_len: 1, ..record(Status::Running) };
    let ended = Record { history_len: 1, ..record(Status::Failed) };
    assert_eq!([&new, &running, &ended].map(judge::awaits_start), [true, false, true]);
    let [own, other] = [RUN, OTHER].map(|run| message(Class::Start(start(run)), None));
    assert!(judge::is_next_start(&new, &own) && !judge::is_next_start(&new, &other));
    assert!(judge::is_next_start(&ended, &own) && judge::is_next_start(&ended, &other));
    assert!(!judge::is_next_start(&ended, &message(Class::Ordinary, None)));
}

#[test]
fn slice_has_whole_batches_and_always_one() {
    let batch = |first: u32, count: u32, bytes: usize| StoredBatch {
        first,
        revision: Revision(0),
        epoch: Epoch(0),
        owner: judge::amender(),
        at: NOW,
        batch: Batch {
            count,
            events: Encoded::from_stored(vec![0; bytes].into()),
            consumed: Vec::new(),
            produced: Vec::new(),
        },
    };
    // The second has no events, and begins where the third begins.
    let all = [batch(0, 2, 10), batch(2, 0, 0), batch(2, 3, 10), batch(5, 1, 10)];
    let slice = |from, max| {
        let batches = all.iter().map(|stored| Ok::<_, Infallible>(Cow::Borrowed(stored)));
        let Slice { batches, next } = judge::slice(batches, (from, max)).unwrap();
        (batches.iter().map(|stored| (stored.first, stored.batch.count)).collect::<Vec<_>>(), next)
    };
    assert_eq!(slice(0, 100), (vec![(0, 2), (2, 0), (2, 3), (5, 1)], None));
    assert_eq!(slice(1, 0), (vec![(0, 2)], Some(2)));
    assert_eq!(slice(2, 0), (vec![(2, 0), (2, 3)], Some(5)));
    assert_eq!(slice(3, 20), (vec![(2, 3), (5, 1)], None));
    assert_eq!(slice(6, 20), (Vec::new(), None));
    let failing = [Err("broken")];
    assert_eq!(judge::slice(failing, (0, 1)).unwrap_err(), "broken");
}

#[test]
fn amendment_remembers_what_a_turn_leaves_to_the_record() {
    let record = record(Status::Running);
    let [own, amended, other] = [record.start, MessageId([8; 16]), MessageId([9; 16])];
    let start = message(Class::Start(start(OTHER)), None);
    let event = message(Class::Ordinary, None);
    let answer = Message { answers: Some(other), ..event.clone() };
    let table = [
        (own, Some(&start), None, None),
        (other, None, None, None),
        (other, Some(&event), None, Some(Recall::Applied)),
        (other, Some(&answer), None, None),
        (other, Some(&event), Some(amended), Some(Recall::Applied)),
        (other, Some(&answer), Some(amended), None),
        (other, None, Some(amended), Some(Recall::NeverWaited)),
        (other, Some(&start), None, None),
        (other, Some(&start), Some(amended), Some(Recall::Overtaken)),
        (amended, Some(&start), Some(amended), None),
        (amended, None, Some(amended), None),
        (own, Some(&start), Some(amended), None),
        (own, None, Some(amended), None),
    ];
    for (id, taken, amended, expected) in table {
        assert_eq!(judge::recall(&record, id, taken, amended), expected, "{id} {taken:?} {amended:?}");
    }
}
