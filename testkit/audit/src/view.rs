//! One instance, decoded once for all checks: its events, what they schedule, what they answer, what is waiting.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use dauer_core::model::{Kind, Message};
use dauer_core::{InstanceId, MessageId};
use dauer_proto::event::{ScheduledKind, answer, schedules};
use dauer_proto::{EventType, HistoryEvent};
use dauer_store::InstanceDump;

use crate::Snapshot;

/// What connects a schedule with its answer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    Action(ScheduledKind, i32),
    Call(String),
    Lock(String),
}

impl Key {
    /// What the event sets going.
    pub(crate) fn scheduled(event: &HistoryEvent) -> Option<Self> {
        match event.event_type.as_ref()? {
            EventType::EntityOperationCalled(call) => Some(Self::Call(call.request_id.clone())),
            EventType::EntityLockRequested(lock) => Some(Self::Lock(lock.critical_section_id.clone())),
            _ => schedules(event).map(|scheduled| Self::Action(scheduled.kind, scheduled.id)),
        }
    }

    /// What the event answers.
    pub(crate) fn answered(event: &HistoryEvent) -> Option<Self> {
        match event.event_type.as_ref()? {
            EventType::EntityOperationCompleted(done) => Some(Self::Call(done.request_id.clone())),
            EventType::EntityOperationFailed(failed) => Some(Self::Call(failed.request_id.clone())),
            EventType::EntityLockGranted(granted) => Some(Self::Lock(granted.critical_section_id.clone())),
            _ => answer(event).map(|answer| Self::Action(answer.kind, answer.id)),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Action(ScheduledKind::Task, id) => write!(f, "activity {id}"),
            Self::Action(ScheduledKind::Child, id) => write!(f, "child {id}"),
            Self::Action(ScheduledKind::Timer, id) => write!(f, "timer {id}"),
            Self::Call(request) => write!(f, "entity call {request:?}"),
            Self::Lock(section) => write!(f, "lock {section:?}"),
        }
    }
}

/// One event of a history.
pub(crate) struct Entry {
    /// Which batch of the history it is in.
    pub(crate) batch: usize,
    pub(crate) event: HistoryEvent,
}

/// One schedule, and the event that answered it. Numbers are indices into [`View::events`].
pub(crate) struct Schedule {
    pub(crate) key: Key,
    pub(crate) index: usize,
    pub(crate) answered: Option<usize>,
}

/// How an answer in a history relates to its schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relation {
    /// It answers this schedule.
    Answers(usize),
    /// All schedules it could answer were answered before.
    Again,
    /// Nothing of that kind and id was scheduled before it.
    Nothing,
}

/// One answer in a history.
pub(crate) struct Answer {
    pub(crate) key: Key,
    pub(crate) index: usize,
    pub(crate) relation: Relation,
}

/// A message that waits at an instance, in its prologue or inbox.
pub(crate) struct Waiting<'a> {
    pub(crate) message: &'a Message,
    /// `None` when it cannot be read.
    pub(crate) event: Option<HistoryEvent>,
}

impl<'a> Waiting<'a> {
    fn new(message: &'a Message) -> Self {
        Self { message, event: message.event.event().ok() }
    }
}

fn by_answer(waiting: &[Waiting<'_>]) -> BTreeMap<Key, Vec<usize>> {
    let mut answering: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (index, waiting) in waiting.iter().enumerate() {
        if let Some(key) = waiting.event.as_ref().and_then(Key::answered) {
            answering.entry(key).or_default().push(index);
        }
    }
    answering
}

/// One instance, decoded.
pub(crate) struct View<'a> {
    pub(crate) id: &'a InstanceId,
    pub(crate) dump: &'a InstanceDump,
    /// The history; empty when a part of it cannot be read, so that one damage is reported once.
    pub(crate) events: Vec<Entry>,
    /// Which batch cannot be read, and why.
    pub(crate) damage: Option<(usize, String)>,
    /// Whether the history was put together by a rewind: it then holds events of runs before.
    pub(crate) rewound: bool,
    pub(crate) schedules: Vec<Schedule>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) waiting: Vec<Waiting<'a>>,
    /// The latest schedule of each key: earlier ones are answered before it.
    latest: BTreeMap<Key, usize>,
    /// The waiting answers, by what they answer; indices into `waiting`.
    answering: BTreeMap<Key, Vec<usize>>,
    /// The batch that last produced an identity.
    produced: BTreeMap<MessageId, usize>,
    /// Everything the history consumed, whatever became of it.
    pub(crate) consumed_ids: BTreeSet<MessageId>,
}

impl<'a> View<'a> {
    pub(crate) fn new(dump: &'a InstanceDump) -> Self {
        let (events, damage) = decode(dump);
        let rewound =
            events.iter().any(|e| matches!(e.event.event_type, Some(EventType::ExecutionRewound(_))));
        // In an entity's history a call is something to do, not something to wait for.
        let (schedules, answers) =
            if dump.record.queue.kind == Kind::Entity { Default::default() } else { relate(&events) };
        let waiting: Vec<_> = dump.prologue.iter().chain(&dump.inbox).map(Waiting::new).collect();
        let batches = || dump.history.iter().map(|stored| &stored.batch).enumerate();
        Self {
            id: &dump.id,
            dump,
            events,
            damage,
            rewound,
            latest: schedules.iter().enumerate().map(|(at, each)| (each.key.clone(), at)).collect(),
            schedules,
            answers,
            answering: by_answer(&waiting),
            waiting,
            produced: batches()
                .flat_map(|(at, batch)| batch.produced.iter().map(move |id| (*id, at)))
                .collect(),
            consumed_ids: batches().flat_map(|(_, batch)| batch.consumed.iter().map(|(id, _)| *id)).collect(),
        }
    }

    pub(crate) fn is_entity(&self) -> bool {
        self.dump.record.queue.kind == Kind::Entity
    }

    pub(crate) fn is_live(&self) -> bool {
        !self.dump.record.status.is_ended()
    }

    /// The schedules that wait for an answer.
    pub(crate) fn open(&self) -> impl Iterator<Item = &Schedule> {
        self.schedules.iter().filter(|schedule| schedule.answered.is_none())
    }

    /// Whether something waits for an answer to that key.
    pub(crate) fn is_open(&self, key: &Key) -> bool {
        self.latest.get(key).is_some_and(|&schedule| self.schedules[schedule].answered.is_none())
    }

    pub(crate) fn event(&self, index: usize) -> Option<&EventType> {
        self.events.get(index)?.event.event_type.as_ref()
    }

    /// Whether `id` can be the identity of that schedule: the commit that scheduled it, or a later one, produced it.
    /// Later, because a rewind issues again what was open; and an answer in a rewound history may still name the
    /// identity of a run before, which no batch of it knows.
    pub(crate) fn may_be(&self, schedule: &Schedule, id: MessageId) -> bool {
        let batch = self.events.get(schedule.index).map_or(0, |entry| entry.batch);
        self.rewound || self.produced_in(id).is_some_and(|produced| produced >= batch)
    }

    /// The batch that produced an identity.
    pub(crate) fn produced_in(&self, id: MessageId) -> Option<usize> {
        self.produced.get(&id).copied()
    }

    /// Whether a message that answers this key is for that schedule, in this run.
    fn is_for(&self, schedule: &Schedule, message: &Message) -> bool {
        let current = message.execution == Some(self.dump.record.execution);
        current && message.answers.is_none_or(|id| self.may_be(schedule, id))
    }

    /// The waiting answer to that schedule.
    pub(crate) fn waiting_answer(&self, schedule: &Schedule) -> Option<&'a Message> {
        let mut answering =
            self.answering.get(&schedule.key)?.iter().map(|&index| self.waiting[index].message);
        answering.find(|message| self.is_for(schedule, message))
    }

    /// All ids that the history consumed, with the batch and what became of them.
    pub(crate) fn consumed(&self) -> impl Iterator<Item = (usize, MessageId, dauer_core::model::Fate)> {
        let batches = self.dump.history.iter().enumerate();
        batches.flat_map(|(batch, stored)| {
            stored.batch.consumed.iter().map(move |&(id, fate)| (batch, id, fate))
        })
    }
}

fn decode(dump: &InstanceDump) -> (Vec<Entry>, Option<(usize, String)>) {
    let mut entries = Vec::new();
    for (batch, stored) in dump.history.iter().enumerate() {
        match stored.batch.decode() {
            Ok(events) => entries.extend(events.into_iter().map(|event| Entry { batch, event })),
            Err(error) => return (Vec::new(), Some((batch, error.to_string()))),
        }
    }
    // Decoded events are most of what an audit holds in memory: no room is kept for more of them.
    entries.shrink_to_fit();
    (entries, None)
}

/// Pairs answers with schedules. An event id may be scheduled again once it is answered, so each answer belongs to
/// the oldest schedule of its key that is still open.
fn relate(events: &[Entry]) -> (Vec<Schedule>, Vec<Answer>) {
    let mut schedules: Vec<Schedule> = Vec::new();
    let mut answers = Vec::new();
    let mut by_key: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    for (index, entry) in events.iter().enumerate() {
        if let Some(key) = Key::scheduled(&entry.event) {
            by_key.entry(key.clone()).or_default().push(schedules.len());
            schedules.push(Schedule { key, index, answered: None });
        } else if let Some(key) = Key::answered(&entry.event) {
            let known = by_key.get(&key).map_or(&[][..], Vec::as_slice);
            let open = known.iter().copied().find(|&schedule| schedules[schedule].answered.is_none());
            let relation = match open {
                Some(schedule) => {
                    schedules[schedule].answered = Some(index);
                    Relation::Answers(schedule)
                }
                None if known.is_empty() => Relation::Nothing,
                None => Relation::Again,
            };
            answers.push(Answer { key, index, relation });
        }
    }
    (schedules, answers)
}

/// All instances decoded, with what lies between them.
pub(crate) struct Views<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) by_id: BTreeMap<&'a InstanceId, View<'a>>,
    outbound: BTreeMap<&'a InstanceId, Outbound<'a>>,
    waiting: BTreeMap<&'a InstanceId, BTreeSet<MessageId>>,
}

/// What is in any outbox for one instance.
#[derive(Default)]
struct Outbound<'a> {
    waiting: Vec<Waiting<'a>>,
    answering: BTreeMap<Key, Vec<usize>>,
}

impl<'a> Views<'a> {
    pub(crate) fn new(snapshot: &'a Snapshot) -> Self {
        let by_id: BTreeMap<_, _> =
            snapshot.instances.iter().map(|(id, dump)| (id, View::new(dump))).collect();
        let mut outbound: BTreeMap<_, Outbound<'a>> = BTreeMap::new();
        let mut waiting: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
        for message in snapshot.instances.values().flat_map(|dump| &dump.outbox) {
            outbound.entry(&message.to).or_default().waiting.push(Waiting::new(message));
            waiting.entry(&message.to).or_default().insert(message.id);
        }
        for there in outbound.values_mut() {
            there.answering = by_answer(&there.waiting);
        }
        for (id, view) in &by_id {
            waiting.entry(*id).or_default().extend(view.waiting.iter().map(|waiting| waiting.message.id));
        }
        Self { snapshot, by_id, outbound, waiting }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &View<'a>> {
        self.by_id.values()
    }

    pub(crate) fn orchestrations(&self) -> impl Iterator<Item = &View<'a>> {
        self.iter().filter(|view| !view.is_entity())
    }

    /// What is in an outbox on its way to that instance.
    pub(crate) fn outbound(&self, to: &InstanceId) -> impl Iterator<Item = &'a Message> {
        self.outbound
            .get(to)
            .into_iter()
            .flat_map(|there| there.waiting.iter().map(|waiting| waiting.message))
    }

    /// Whether the answer to that schedule is waiting, or in an outbox on its way.
    pub(crate) fn has_answer(&self, view: &View<'a>, schedule: &Schedule) -> bool {
        let on_its_way = || {
            let there = self.outbound.get(view.id)?;
            let answering = there.answering.get(&schedule.key)?;
            answering.iter().find(|&&index| view.is_for(schedule, there.waiting[index].message))
        };
        view.waiting_answer(schedule).is_some() || on_its_way().is_some()
    }

    /// Whether a message is waiting for that instance: there, or in an outbox on its way.
    pub(crate) fn waits(&self, to: &InstanceId, id: MessageId) -> bool {
        self.waiting.get(to).is_some_and(|waiting| waiting.contains(&id))
    }
}
