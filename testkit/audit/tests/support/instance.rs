//! One instance, built commit by commit.

use dauer_core::model::{
    Batch, Class, Encoded, Fate, Kind, Message, Opening, Origin, Over, Parent, Payload, QueueKey, Record,
    Status, StoredBatch, Task,
};
use dauer_core::{Epoch, ExecutionId, HostId, InstanceId, MessageId, Revision, SessionId, Timestamp};
use dauer_proto::{HistoryEvent, event};
use dauer_store::{InstanceDump, TaskDump};

/// The epoch of every claim in these hubs.
pub(crate) const EPOCH: Epoch = Epoch(3);

pub(crate) fn name(text: &str) -> InstanceId {
    InstanceId::new(text).unwrap()
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp(millis)
}

/// An identity that is the same for the same words.
pub(crate) fn id(words: &str) -> MessageId {
    let mut bytes = [0_u8; 16];
    for (index, byte) in words.bytes().enumerate() {
        bytes[index % 16] = bytes[index % 16].wrapping_mul(31).wrapping_add(byte);
    }
    MessageId(bytes)
}

pub(crate) fn execution(instance: &str) -> ExecutionId {
    dauer_core::identity::execution_of(id(instance))
}

pub(crate) fn host() -> HostId {
    HostId::new("host-1").unwrap()
}

pub(crate) fn session() -> SessionId {
    SessionId(7)
}

/// The message that starts an instance.
pub(crate) fn start_message(instance: &str, start: MessageId, record: &Record) -> Message {
    let begin = event::start("Order", instance, record.execution.to_string());
    let opening = Opening {
        parent: record.parent.clone(),
        tags: record.tags.clone(),
        ..Opening::new(record.queue.clone(), record.execution)
    };
    Message {
        id: start,
        to: name(instance),
        execution: None,
        class: Class::Start(Box::new(opening)),
        origin: Origin::Client { request: None },
        answers: None,
        visible_at: at(0),
        event: Encoded::new(&event::execution_started(1, begin)),
    }
}

/// The start of a child as its parent sends it.
pub(crate) fn child_start(parent: &Build, child: &str, event_id: i32) -> Message {
    let schedule = parent.identity(event_id);
    let link = Parent { instance: parent.dump.id.clone(), execution: parent.dump.record.execution, event_id };
    let queue = QueueKey::new(Kind::Orchestration, "Order", None);
    let record =
        Record { parent: Some(Box::new(link)), ..Record::pending(queue, execution(child), schedule) };
    Message { origin: parent.origin(Some(0)), ..start_message(child, schedule, &record) }
}

/// An instance under construction.
pub(crate) struct Build {
    pub(crate) dump: InstanceDump,
    pub(crate) tasks: Vec<TaskDump>,
    /// Part of the identities it produces: raise it before an event id is used again.
    pub(crate) attempt: u32,
}

impl Build {
    /// Created and not run: its start is waiting.
    pub(crate) fn pending(instance: &str) -> Self {
        let queue = QueueKey::new(Kind::Orchestration, "Order", None);
        let start = id(&format!("start {instance}"));
        let mut record = Record::pending(queue, execution(instance), start);
        record.times.created = at(100);
        let inbox = vec![start_message(instance, start, &record)];
        Self::of(instance, record, inbox)
    }

    /// Created by the start of a parent.
    pub(crate) fn child(instance: &str, start: Message) -> Self {
        let Class::Start(begin) = &start.class else { panic!("not a start") };
        let mut record = begin.record(start.id);
        record.times.created = at(1_100);
        Self::of(instance, record, vec![start])
    }

    fn of(instance: &str, record: Record, inbox: Vec<Message>) -> Self {
        let dump = InstanceDump {
            id: name(instance),
            record,
            epoch: EPOCH,
            holder: None,
            trial: false,
            ready_at: Some(at(0)),
            not_before: at(0),
            history: Vec::new(),
            prologue: Vec::new(),
            inbox,
            outbox: Vec::new(),
            memory: Vec::new(),
        };
        Self { dump, tasks: Vec::new(), attempt: 0 }
    }

    /// The turn that takes the start: every waiting message becomes an event, then come the turn's own.
    pub(crate) fn turn(&mut self, at_ms: i64, own: Vec<HistoryEvent>) -> &mut Self {
        let taken: Vec<_> = self.dump.prologue.drain(..).chain(self.dump.inbox.drain(..)).collect();
        self.commit(at_ms, taken, own)
    }

    /// Commits a turn that consumes these messages and adds these events of its own. What it schedules is produced.
    pub(crate) fn commit(&mut self, at_ms: i64, taken: Vec<Message>, own: Vec<HistoryEvent>) -> &mut Self {
        let mut events = vec![event::orchestrator_started(at_ms)];
        let mut consumed = Vec::new();
        for message in &taken {
            consumed.push((message.id, Fate::Event(events.len() as u32)));
            events.push(message.event.event().unwrap());
            self.dump.memory.push((message.id, at(at_ms)));
        }
        let produced = own.iter().filter(|e| e.event_id >= 0).map(|e| self.identity(e.event_id)).collect();
        events.extend(own);
        let encoded: Vec<_> = events.iter().map(Encoded::new).collect();
        let batch = Batch::join(&encoded, consumed, produced).unwrap();
        let record = &mut self.dump.record;
        record.revision = record.revision.next();
        record.times.updated = at(at_ms);
        let first = record.history_len;
        record.history_len += batch.count;
        record.history_bytes += batch.events.len() as u64;
        let (revision, owner) = (record.revision, host());
        self.dump.history.push(StoredBatch { first, revision, epoch: EPOCH, owner, at: at(at_ms), batch });
        self.status(Status::Running)
    }

    pub(crate) fn status(&mut self, status: Status) -> &mut Self {
        let record = &mut self.dump.record;
        record.status = status;
        record.times.completed = status.is_ended().then_some(record.times.updated);
        self.settle()
    }

    pub(crate) fn output(&mut self, output: &str) -> &mut Self {
        self.dump.record.details.set_output(Some(Payload::from(output)));
        self
    }

    /// Sets the ready time as a store does.
    pub(crate) fn settle(&mut self) -> &mut Self {
        let waiting = self.dump.prologue.iter().chain(&self.dump.inbox);
        let admitted = waiting.filter(|message| self.dump.record.hold().admits(message));
        self.dump.ready_at = admitted.map(|message| message.visible_at).min();
        self
    }

    /// The identity of what this instance schedules under an event id.
    pub(crate) fn identity(&self, event_id: i32) -> MessageId {
        id(&format!("{}/{event_id}/{}", self.dump.id, self.attempt))
    }

    pub(crate) fn origin(&self, ordinal: Option<u32>) -> Origin {
        let (instance, execution) = (self.dump.id.clone(), self.dump.record.execution);
        Origin::Turn { instance, execution, revision: self.dump.record.revision, ordinal }
    }

    /// Puts a task to run beside the instance.
    pub(crate) fn task(&mut self, event_id: i32) -> &mut Self {
        let task = Task {
            id: self.identity(event_id),
            instance: self.dump.id.clone(),
            execution: self.dump.record.execution,
            event_id,
            queue: QueueKey::new(Kind::Activity, "Pay", None),
            tags: Default::default(),
            event: Encoded::new(&event::task_scheduled(1, event_id, pay())),
        };
        let (epoch, not_before) = (Epoch(1), at(0));
        let (deaths, mark) = (Default::default(), None);
        self.tasks.push(TaskDump {
            task,
            epoch,
            holder: None,
            trial: false,
            attempts: 0,
            deaths,
            mark,
            not_before,
            withdrawn: false,
        });
        self
    }

    /// A message to this instance's current run that answers an identity of it.
    pub(crate) fn answer(&self, words: &str, answers: MessageId, event: &HistoryEvent) -> Message {
        Message {
            id: id(words),
            to: self.dump.id.clone(),
            execution: Some(self.dump.record.execution),
            class: Class::Ordinary,
            origin: self.origin(None),
            answers: Some(answers),
            visible_at: at(0),
            event: Encoded::new(event),
        }
    }

    /// The message of a timer; its identity is that of the timer.
    pub(crate) fn timer(&self, event_id: i32, fire_at: i64) -> Message {
        let fired = event::timer_fired(fire_at, event_id, dauer_proto::time::from_millis(fire_at));
        let identity = self.identity(event_id);
        Message { id: identity, visible_at: at(fire_at), ..self.answer("", identity, &fired) }
    }

    /// A message of another instance, sent by its latest commit.
    pub(crate) fn event_from(&self, sender: &Self, event_id: i32, ordinal: u32) -> Message {
        let raised = Encoded::new(&event::event_raised(1, "go", None));
        let origin = sender.origin(Some(ordinal));
        let id = sender.identity(event_id);
        Message {
            id,
            execution: None,
            origin,
            answers: None,
            event: raised,
            ..self.answer("", id, &event::orchestrator_started(1))
        }
    }

    pub(crate) fn waits(&mut self, message: Message) -> &mut Self {
        self.dump.inbox.push(message);
        self.settle()
    }

    pub(crate) fn revision(&self) -> Revision {
        self.dump.record.revision
    }
}

pub(crate) fn pay() -> dauer_proto::TaskScheduledEvent {
    dauer_proto::TaskScheduledEvent { name: "Pay".into(), ..Default::default() }
}
