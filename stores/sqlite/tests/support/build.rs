//! Messages, tasks and checkpoints made by hand: a store never looks into their events.

#![allow(dead_code, reason = "every test file uses a part of it")]

use std::time::Duration;

use dauer_store::{
    Batch, Checkpoint, ClaimedTurn, Class, Create, Details, Encoded, EntityRecord, ExecutionId, Fate,
    History, Host, HostId, InstanceId, Kind, Lock, Message, MessageId, Opening, Origin, QueueKey, Record,
    Reuse, SessionId, Status, Tags, Task, Then, Timestamp,
};

pub(crate) fn instance(id: &str) -> InstanceId {
    InstanceId::new(id).expect("tests use short, printable ids")
}

/// Bytes that say what they belong to.
pub(crate) fn event(text: &str) -> Encoded {
    let bytes: Vec<u8> = std::iter::once(1).chain(text.bytes()).collect();
    Encoded::from_stored(bytes.into())
}

/// An identity that is the same for the same text.
pub(crate) fn message_id(text: &str) -> MessageId {
    dauer_core::identity::requested(&instance(text), 7)
}

pub(crate) fn message(to: &str, text: &str) -> Message {
    Message {
        id: message_id(text),
        to: instance(to),
        execution: None,
        class: Class::Ordinary,
        origin: Origin::Client { request: Some(7) },
        answers: None,
        visible_at: Timestamp(0),
        event: event(text),
    }
}

pub(crate) fn start(id: &str) -> Create {
    let mut start = message(id, &format!("start {id}"));
    let queue = QueueKey::new(Kind::Orchestration, "Orders", Some("1"));
    let execution = ExecutionId(u128::from_be_bytes(start.id.0));
    start.class = Class::Start(Box::new(Opening::new(queue, execution)));
    Create::new(start, Reuse::default())
}

pub(crate) fn host(number: u128, lease: Duration) -> Host {
    let id = HostId::new(format!("host {number}")).expect("short and printable");
    Host { id, session: SessionId(number), lease, runs_code: true }
}

/// A step that consumes everything and lets go.
pub(crate) fn step(turn: &ClaimedTurn) -> Checkpoint {
    let consumed: Vec<MessageId> = turn.messages.iter().map(|message| message.id).collect();
    let batch = Batch {
        count: 1,
        events: event(&format!("turn {} of {}", turn.fence.revision.0, turn.fence.instance)),
        consumed: consumed.iter().map(|id| (*id, Fate::Event(0))).collect(),
        produced: Vec::new(),
    };
    let record = Record { status: Status::Running, ..turn.record.clone() };
    Checkpoint {
        fence: turn.fence.clone(),
        consumed,
        completions: Vec::new(),
        history: History::Append(batch),
        record: record.since(&turn.record.details),
        tasks: Vec::new(),
        timers: Vec::new(),
        messages: Vec::new(),
        take: 0,
        then: Then::Release { delay: Duration::ZERO },
    }
}

/// The details of an instance that has been locked.
pub(crate) fn locked_by(owner: &str) -> Details {
    let lock = Lock { section: "s".into(), owner: instance(owner), owner_execution: ExecutionId(1) };
    let mut details = Details::new();
    details.set_entity(Some(EntityRecord { lock: Some(lock), ..EntityRecord::default() }));
    details
}

/// Changes the details that a step of that turn leaves.
pub(crate) fn detail(step: &mut Checkpoint, turn: &ClaimedTurn, change: impl FnOnce(&mut Details)) {
    let mut details = step.record.details.clone().unwrap_or_else(|| turn.record.details.clone());
    change(&mut details);
    step.record.details = Some(details);
}

pub(crate) fn task(turn: &ClaimedTurn, name: &str) -> Task {
    Task {
        id: message_id(&format!("task {name} {}", turn.fence.revision.0)),
        instance: turn.fence.instance.clone(),
        execution: turn.fence.execution,
        event_id: 3,
        queue: QueueKey::new(Kind::Activity, name, None),
        tags: Tags::from([("zone".to_owned(), "north".to_owned())]),
        event: event(name),
    }
}
