//! The codec against its golden file: one line of hexadecimal bytes for each value, and every value is read back from them.
//!
//! `DAUER_GOLDEN=write cargo test -p dauer-store-kit --test codec` writes the file again, which is right only for a new format.

#![allow(clippy::expect_used, clippy::unwrap_used)] // A test fails by panicking.

use std::collections::BTreeMap;
use std::fmt::{Debug, Write};
use std::path::Path;

use bytes::Bytes;
use dauer_store::{
    Class, Control, Details, DropReason, Encoded, EntityRecord, Epoch, ExecutionId, Fate, Fence, InstanceId,
    Item, Kind, Lock, Message, MessageId, Opening, Origin, Over, Parent, Payload, QueueKey, Record, Refused,
    Revision, Status, Task, TaskFence, Times, Timestamp, Trouble, TroubleKind,
};
use dauer_store_kit::codec::{self, LastCommit, Read, Unreadable};

fn id(text: &str) -> InstanceId {
    InstanceId::new(text).unwrap()
}

fn bare() -> Record {
    Record::pending(QueueKey::new(Kind::Orchestration, "pay", None), ExecutionId(7), MessageId([1; 16]))
}

/// A record without an absent field.
fn full() -> Record {
    Record {
        queue: QueueKey::new(Kind::Entity, "counter", Some("2")),
        generation: 3,
        revision: Revision(300),
        status: Status::Running,
        times: Times {
            created: Timestamp(1),
            accepted: Timestamp(2),
            updated: Timestamp(3),
            scheduled: Some(Timestamp(-4)),
            completed: Some(Timestamp(5)),
        },
        history_len: 9,
        history_bytes: 4_000,
        attempts: 2,
        trouble: Some(Box::new(Trouble {
            kind: TroubleKind::HostDied,
            reason: "the host died".to_owned(),
            since: Timestamp(6),
            attempts: 2,
            others: Vec::new(),
            build: None,
        })),
        parent: Some(Box::new(Parent { instance: id("parent"), execution: ExecutionId(8), event_id: -1 })),
        tags: BTreeMap::from([("a".to_owned(), String::new()), ("b".to_owned(), "c".to_owned())]).into(),
        details: details(),
        ..bare()
    }
}

/// A record that had trouble of two kinds, with the build of the worker.
fn stalled() -> Record {
    let others = vec![(TroubleKind::Panic, 3)];
    let trouble = Trouble::new(TroubleKind::Mismatch, "it changed", Timestamp(7)).of_build(Some("7a".into()));
    Record { trouble: Some(Box::new(Trouble { others, ..trouble })), ..bare() }
}

fn details() -> Details {
    let mut details = Details::new();
    details.set_custom_status(Some(Payload::from("half".to_owned())));
    details.set_output(Some(Payload::from("1".to_owned())));
    details.set_failure(Some(event(b"failure")));
    details.set_trace(Some(event(b"trace")));
    details.set_entity(Some(EntityRecord {
        state: Some(Payload::from("0".to_owned())),
        lock: Some(Lock { section: "s".to_owned(), owner: id("owner"), owner_execution: ExecutionId(10) }),
        early_unlocks: vec!["t".to_owned(), String::new()],
    }));
    details
}

fn event(content: &'static [u8]) -> Encoded {
    Encoded::from_stored(Bytes::from_static(content))
}

fn message(class: Class, origin: Origin) -> Message {
    let present = matches!(class, Class::Ordinary);
    Message {
        id: MessageId([2; 16]),
        to: id("target"),
        execution: present.then_some(ExecutionId(11)),
        class,
        origin,
        answers: present.then_some(MessageId([3; 16])),
        visible_at: Timestamp(12),
        event: event(&[1, 0, 255]),
    }
}

fn messages() -> [Message; 6] {
    let client = Origin::Client { request: Some(13) };
    let turn = Origin::Turn {
        instance: id("sender"),
        execution: ExecutionId(14),
        revision: Revision(15),
        ordinal: Some(0),
    };
    let opening = |record: Record, over| {
        let Record { queue, execution, parent, tags, times, .. } = record;
        Box::new(Opening { queue, execution, parent, tags, scheduled: times.scheduled, over })
    };
    [
        message(Class::Start(opening(bare(), Over::Refuse)), Origin::Client { request: None }),
        message(Class::Rewind(opening(full(), Over::Terminate)), client.clone()),
        message(Class::Control(Control::Suspend), client.clone()),
        message(Class::Control(Control::Resume), client.clone()),
        message(Class::Control(Control::Terminate), client),
        message(Class::Ordinary, turn),
    ]
}

fn task() -> Task {
    Task {
        id: MessageId([4; 16]),
        instance: id("owner"),
        execution: ExecutionId(16),
        event_id: -2,
        queue: QueueKey::new(Kind::Activity, "mail", Some("")),
        tags: BTreeMap::from([("k".to_owned(), "v".to_owned())]).into(),
        event: event(b"scheduled"),
    }
}

fn items() -> [Item; 2] {
    let (instance, epoch) = (id("owner"), Epoch(18));
    let turn =
        Fence { instance: instance.clone(), execution: ExecutionId(17), revision: Revision(19), epoch };
    [Item::Turn(turn), Item::Task(TaskFence { task: MessageId([5; 16]), instance, epoch })]
}

fn last() -> LastCommit<i64> {
    LastCommit {
        execution: ExecutionId(20),
        revision: Revision(21),
        epoch: Epoch(22),
        by: Some(23),
        amendment: Some([6; 32]),
        taken: vec![MessageId([7; 16])],
    }
}

/// The record as it is before base and details are read.
fn emptied(record: &Record) -> Record {
    let Record { queue, execution, generation, revision, status, times, .. } = record.clone();
    let Record { history_len, history_bytes, attempts, .. } = *record;
    Record {
        generation,
        revision,
        status,
        times: Times { accepted: Timestamp::default(), scheduled: None, ..times },
        history_len,
        history_bytes,
        attempts,
        ..Record::pending(queue, execution, MessageId([0; 16]))
    }
}

/// The named bytes of all values. Each value is read back.
#[derive(Default)]
struct Golden(String);

impl Golden {
    fn add<T: PartialEq + Debug>(
        &mut self,
        name: &str,
        bytes: &[u8],
        value: T,
        read: impl Fn(&[u8]) -> Read<T>,
    ) {
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        writeln!(self.0, "{name} {hex}").unwrap();
        assert_eq!(read(bytes).unwrap(), value, "{name}");
    }
}

#[test]
fn bytes_equal_the_golden_file() {
    let mut golden = Golden::default();
    for (name, record) in [("record bare", bare()), ("record full", full()), ("record stalled", stalled())] {
        let parts = |base: &[u8], details: Option<&[u8]>| {
            let hold = codec::hold_code(record.hold());
            let mut read = emptied(&record);
            codec::read_base(base, &mut read)?;
            codec::read_details(details, hold, &mut read)?;
            Ok(read)
        };
        golden.add(name, &codec::write_record(&record), record.clone(), codec::read_record);
        let (base, details) = (codec::write_base(&record), codec::write_details(&record));
        golden.add(&format!("base of {name}"), &base, record.clone(), |base| parts(base, details.as_deref()));
        let bytes = details.as_deref().unwrap_or_default();
        golden
            .add(&format!("details of {name}"), bytes, record.clone(), |_| parts(&base, details.as_deref()));
        golden.add(&format!("tags of {name}"), &base, record.tags.to_map(), codec::read_tags);
    }
    for message in messages() {
        let name = format!("message of class {}", codec::class_code(&message.class));
        golden.add(&name, &codec::write_message(&message), message, codec::read_message);
    }
    let task = task();
    golden.add("task", &codec::write_task(&task), task.clone(), codec::read_task);
    let columns = || ((task.id, task.instance.clone()), (task.execution, task.queue.clone()));
    golden.add("task body", &codec::write_task_body(&task), task.clone(), |bytes| {
        let (named, placed) = columns();
        codec::read_task_body(bytes, named, placed)
    });
    for (name, item) in ["turn", "task"].into_iter().zip(items()) {
        golden.add(&format!("item of a {name}"), &codec::write_item(&item), item, codec::read_item);
    }
    let fates = DropReason::ALL.into_iter().map(Fate::Dropped).chain([Fate::Event(0), Fate::Event(70)]);
    let consumed: Vec<_> = fates.map(|fate| (MessageId([8; 16]), fate)).collect();
    // Lengths above 127 take two bytes.
    let many = (0..200).map(|number| (MessageId([number as u8; 16]), Fate::Event(number))).collect();
    let produced = vec![MessageId([9; 16]), MessageId([0; 16])];
    for (name, consumed, produced) in [
        ("trail", consumed, produced.clone()),
        ("trail of many", many, produced),
        ("no trail", Vec::new(), Vec::new()),
    ] {
        let trail = codec::write_trail(&consumed, &produced);
        golden.add(name, &trail, (consumed, produced), codec::read_trail);
    }
    // Zeros and nothings are left out, but for what may be absent.
    let bare = LastCommit { epoch: Epoch(0), by: None, amendment: None, taken: Vec::new(), ..last() };
    let zero = LastCommit { by: Some(0), taken: vec![MessageId([0; 16])], ..bare };
    for (name, last, current) in
        [("same", last(), 20), ("next", last(), 24), ("same, bare", bare, 20), ("same, zero", zero, 20)]
    {
        let current = ExecutionId(current);
        golden.add(&format!("last commit of the {name} run"), &last.write(last.by, current), last, |bytes| {
            LastCommit::read(bytes, current, Revision(22))
        });
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/format1.txt");
    if std::env::var_os("DAUER_GOLDEN").is_some_and(|wish| wish == "write") {
        std::fs::write(&path, &golden.0).unwrap();
    }
    assert_eq!(golden.0, std::fs::read_to_string(&path).expect("the golden file"));
}

/// A start had a whole record before format 8 of SQLite. The opening in it is read.
#[test]
fn start_with_a_record_is_read() {
    let lines = include_str!("golden/starts_with_records.txt").lines();
    let mut count = 0;
    for (line, message) in lines.zip(messages()) {
        let hex = line.rsplit(' ').next().unwrap();
        let bytes: Vec<u8> =
            (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
        assert_eq!(codec::read_message(&bytes).unwrap(), message);
        count += 1;
    }
    assert_eq!(count, 2, "a start and a rewind");
}

/// Format 1 of the trail: one message with an event, one dropped as ended, one produced.
#[test]
fn trail_of_format_1_is_read() {
    let id = |byte: u8| [[0x0a, 16].to_vec(), vec![byte; 16]].concat();
    let event = [id(1), vec![0x10, 5]].concat();
    let dropped = [id(2), vec![0x18, 2]].concat();
    let field = |tag: u8, content: &[u8]| [&[tag, content.len() as u8], content].concat();
    let bytes = [vec![1], field(0x0a, &event), field(0x0a, &dropped), field(0x12, &[3; 16])].concat();
    let consumed =
        vec![(MessageId([1; 16]), Fate::Event(5)), (MessageId([2; 16]), Fate::Dropped(DropReason::Ended))];
    assert_eq!(codec::read_trail(&bytes).unwrap(), (consumed, vec![MessageId([3; 16])]));
}

#[test]
fn bytes_of_a_newer_format_are_refused_as_newer() {
    let mut bytes = codec::write_record(&bare());
    bytes[0] = codec::FORMAT + 1;
    let refused = Refused::from(codec::read_record(&bytes).unwrap_err());
    assert!(
        matches!(refused, Refused::Newer(format) if format == u32::from(codec::FORMAT) + 1),
        "{refused:?}"
    );
}

#[test]
fn damaged_bytes_are_refused_as_corrupt() {
    let whole = codec::write_message(&messages()[0]);
    let no_class = codec::write_task(&task());
    for bytes in [&[][..], &[0, 1], &whole[..whole.len() - 1], &no_class] {
        let error = codec::read_message(bytes).unwrap_err();
        assert!(matches!(error, Unreadable::Damaged(_)), "{error}");
        assert!(matches!(Refused::from(error), Refused::Corrupt(_)));
    }
    assert!(codec::number(&[0; 15]).is_err() && codec::instance_id("").is_err());
}

#[test]
fn stored_hold_that_contradicts_the_record_is_damage() {
    let ended = Record { status: Status::Failed, ..bare() };
    for (record, wrong) in [(bare(), 5), (full(), 1), (ended, 1)] {
        let details = codec::write_details(&record);
        let read = |hold| codec::read_details(details.as_deref(), hold, &mut emptied(&record));
        assert!(read(codec::hold_code(record.hold())).is_ok());
        let error = read(wrong).unwrap_err();
        assert!(matches!(error, Unreadable::Damaged(_)), "{error}");
    }
    let unlocked = codec::read_details(None, codec::hold_code(full().hold()), &mut emptied(&full()));
    assert!(matches!(unlocked, Err(Unreadable::Damaged(_))), "a lock without its owner");
}

/// A commit that changes the status alone leaves the details as they were written, with the owner of that time.
#[test]
fn owner_of_an_earlier_hold_is_no_damage() {
    let locked = full();
    let details = codec::write_details(&locked);
    let suspended = Record { status: Status::Suspended, history_len: 3, ..locked };
    let mut read = emptied(&suspended);
    codec::read_details(details.as_deref(), codec::hold_code(suspended.hold()), &mut read).unwrap();
    assert_eq!(read.hold(), suspended.hold());
    let details = codec::write_details(&suspended);
    let mut read = emptied(&full());
    codec::read_details(details.as_deref(), codec::hold_code(full().hold()), &mut read).unwrap();
    assert_eq!(read.hold(), full().hold(), "it goes on, and is locked again");
}

#[test]
fn digest_differs_for_every_changed_field() {
    use dauer_store::{Batch, Checkpoint, Completion, History, Then};
    let batch = Batch { count: 1, events: event(b"e"), consumed: Vec::new(), produced: Vec::new() };
    let [Item::Turn(fence), Item::Task(held)] = items() else { panic!("a turn, then a task") };
    let full = full();
    let plain = Checkpoint {
        fence,
        consumed: Vec::new(),
        completions: Vec::new(),
        history: History::Append(batch.clone()),
        record: bare().since(&Details::new()),
        tasks: Vec::new(),
        timers: Vec::new(),
        messages: Vec::new(),
        take: 0,
        then: Then::Keep,
    };
    let replace =
        |prologue| History::Replace { execution: ExecutionId(0), batches: vec![batch.clone()], prologue };
    let [first, second] = [messages()[2].clone(), messages()[3].clone()];
    let changed = [
        plain.clone(),
        Checkpoint { consumed: vec![MessageId([0; 16])], ..plain.clone() },
        Checkpoint { completions: vec![Completion { fence: held, answer: first.clone() }], ..plain.clone() },
        Checkpoint { history: replace(Vec::new()), ..plain.clone() },
        Checkpoint { history: replace(vec![first.clone()]), ..plain.clone() },
        Checkpoint { record: full.clone().since(&Details::new()), ..plain.clone() },
        Checkpoint { record: full.clone().since(&full.details), ..plain.clone() },
        // Without details afterwards, where there were some.
        Checkpoint { record: bare().since(&full.details), ..plain.clone() },
        Checkpoint { tasks: vec![task()], ..plain.clone() },
        Checkpoint { timers: vec![first.clone()], ..plain.clone() },
        Checkpoint { messages: vec![first.clone()], ..plain.clone() },
        Checkpoint { timers: vec![first.clone()], messages: vec![second.clone()], ..plain.clone() },
        Checkpoint { timers: vec![first, second], ..plain.clone() },
        Checkpoint { take: 1, ..plain.clone() },
        Checkpoint { then: Then::Release { delay: std::time::Duration::ZERO }, ..plain.clone() },
    ];
    let digests: std::collections::BTreeSet<_> = changed.iter().map(codec::digest).collect();
    assert_eq!(digests.len(), changed.len());
    assert_eq!(codec::digest(&plain), codec::digest(&plain.clone()));
}
