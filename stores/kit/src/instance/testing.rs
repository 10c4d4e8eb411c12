//! A small world for the tests of this module.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::RangeInclusive;

use dauer_store::{
    Amount, Class, Clock, Control, Credit, Encoded, ExecutionId, Floor, InstanceId, Kind, ManualClock,
    Message, MessageId, Opening, Origin, QueueKey, Record, SessionId, StoreLimits, Tags, Task, Timestamp,
    Trouble, TroubleKind,
};

use crate::calls::{Desk, Offer};
use crate::instance::{Birth, Changes, Context, Facts, HeldTask, Inbox, Instance, Part, Waiting, Win};
use crate::judge::default_limits;
use crate::session::{End, Fate};

pub(crate) const NOW: Timestamp = Timestamp(1_000);
pub(crate) const ONE: SessionId = SessionId(1);
pub(crate) const TWO: SessionId = SessionId(2);
pub(crate) const RUN: ExecutionId = ExecutionId(7);

static LIMITS: std::sync::LazyLock<StoreLimits> = std::sync::LazyLock::new(default_limits);

pub(crate) fn context() -> Context<'static> {
    Context { now: NOW, limits: &LIMITS }
}

pub(crate) fn id() -> InstanceId {
    InstanceId::new("order").unwrap()
}

pub(crate) fn record() -> Record {
    record_of("code", RUN)
}

pub(crate) fn record_of(queue: &str, run: ExecutionId) -> Record {
    Record::pending(QueueKey::new(Kind::Orchestration, queue, None), run, MessageId([100; 16]))
}

/// A message with that number; its event has ten bytes.
pub(crate) fn message(number: u8, class: Class) -> Message {
    Message {
        id: MessageId([number; 16]),
        to: id(),
        execution: None,
        class,
        origin: Origin::Client { request: None },
        answers: None,
        visible_at: NOW,
        event: Encoded::from_stored(vec![0; 10].into()),
    }
}

pub(crate) fn event(number: u8) -> Message {
    message(number, Class::Ordinary)
}

pub(crate) fn suspend(number: u8) -> Message {
    message(number, Class::Control(Control::Suspend))
}

/// The start of another run, of the queue `next`.
pub(crate) fn start(number: u8) -> Message {
    let run = ExecutionId(u128::from(number));
    message(number, Class::Start(Box::new(Opening::new(record_of("next", run).queue, run))))
}

/// An instance for which the start with number 3 waits, which creates it.
pub(crate) fn started() -> Instance {
    let start = start(3);
    let record = crate::judge::created_by(&start, Floor::default().revision).unwrap();
    let birth = Birth { record, message: start };
    birth.apply(Floor::default(), 1, context(), &mut Changes::default())
}

pub(crate) fn held_by(session: SessionId) -> Instance {
    let mut instance = started();
    let Ok(Win::Wins(winning)) = instance.check_win(session, &offer(), context(), &Known::default()) else {
        panic!("it is ready")
    };
    instance.win(winning, context(), &mut Changes::default());
    instance
}

pub(crate) fn task(number: u8) -> HeldTask {
    let task = Task {
        id: MessageId([number; 16]),
        instance: id(),
        execution: ExecutionId(3),
        event_id: i32::from(number),
        queue: QueueKey::new(Kind::Activity, "pay", None),
        tags: Tags::new(),
        event: Encoded::from_stored(vec![0; 10].into()),
    };
    HeldTask::new(task, NOW)
}

pub(crate) fn offer() -> Offer {
    offer_of(100, usize::MAX)
}

pub(crate) fn offer_of(count: usize, bytes: usize) -> Offer {
    let desk = Desk::new(std::sync::Arc::new(ManualClock::new(NOW)) as std::sync::Arc<dyn Clock>);
    let amount = Amount { count, bytes };
    desk.credit(Credit { number: 1, turns: amount, tasks: amount, ..Credit::default() });
    desk.offer().unwrap()
}

pub(crate) fn trouble() -> Trouble {
    Trouble {
        kind: TroubleKind::Panic,
        reason: "it panicked".into(),
        since: NOW,
        attempts: 0,
        others: Vec::new(),
        build: None,
    }
}

/// What the tests of one instance know. Every session but one lives.
#[derive(Default)]
pub(crate) struct Known {
    pub(crate) dead: Cell<Option<SessionId>>,
    /// The dead one was that of a server.
    pub(crate) is_server: Cell<bool>,
    pub(crate) applied: RefCell<BTreeMap<MessageId, Timestamp>>,
    pub(crate) removed: RefCell<BTreeMap<MessageId, Timestamp>>,
    pub(crate) tasks: RefCell<BTreeMap<MessageId, HeldTask>>,
    /// The rows of a long inbox.
    pub(crate) rows: RefCell<Inbox>,
    /// How many rows of it were read.
    pub(crate) read: Cell<usize>,
}

impl Known {
    /// Writes changes as a store does.
    pub(crate) fn write(&self, changes: &mut Changes) {
        let changes = std::mem::take(changes);
        let mut rows = self.rows.borrow_mut();
        changes.removed.iter().for_each(|waiting| drop(rows.remove(waiting.message.id)));
        changes.added.into_iter().for_each(|waiting| rows.insert(waiting));
        let mut tasks = self.tasks.borrow_mut();
        changes.tasks_gone.iter().for_each(|id| drop(tasks.remove(id)));
        tasks.extend(changes.tasks.into_iter().map(|task| (task.id(), task)));
        self.applied.borrow_mut().extend(changes.remembered);
        self.removed.borrow_mut().extend(changes.gone_starts);
    }
}

impl Facts for Known {
    type Error = Infallible;

    fn fate(&self, session: SessionId) -> Result<Fate, Infallible> {
        let end = End { runs_code: !self.is_server.get(), at: NOW };
        Ok(if self.dead.get() == Some(session) { Fate::Over(end) } else { Fate::Lives })
    }

    fn applied_at(&self, id: MessageId) -> Result<Option<Timestamp>, Infallible> {
        Ok(self.applied.borrow().get(&id).copied())
    }

    fn removed_start(&self, ids: &RangeInclusive<MessageId>) -> Result<Option<Timestamp>, Infallible> {
        Ok(self.removed.borrow().range(ids.clone()).map(|(_, at)| *at).max())
    }

    fn task(&self, id: MessageId) -> Result<Option<Cow<'_, HeldTask>>, Infallible> {
        Ok(self.tasks.borrow().get(&id).cloned().map(Cow::Owned))
    }

    fn tasks(&self, run: Option<ExecutionId>) -> Result<Vec<Cow<'_, HeldTask>>, Infallible> {
        let tasks = self.tasks.borrow();
        let of_run = tasks.values().filter(|task| run.is_none_or(|run| task.is_of(run)));
        Ok(of_run.cloned().map(Cow::Owned).collect())
    }

    fn waiting(&self, part: Part<'_>) -> Result<Vec<Waiting>, Infallible> {
        let rows = self.rows.borrow();
        let all = || rows.iter().map(|(place, m)| Waiting { place: *place, message: m.clone() });
        let found: Vec<Waiting> = match part {
            Part::All => all().collect(),
            Part::Ids(ids) => all().filter(|w| ids.contains(&w.message.id)).collect(),
            Part::Openings => all().filter(|w| crate::judge::opens(&w.message).is_some()).collect(),
            Part::Prologue => all().filter(|w| !w.place.follows).collect(),
            Part::OfRuns => all().filter(|w| w.message.execution.is_some()).collect(),
            Part::Ready { admission, now, bytes } => {
                let mut room = bytes;
                let mut open = true;
                let ready = all().filter(|w| w.message.visible_at <= now && admission.admits(&w.message));
                let fits = |waiting: &Waiting| {
                    let taken = std::mem::replace(&mut open, waiting.message.event.len() <= room);
                    room = room.saturating_sub(waiting.message.event.len());
                    taken
                };
                ready.take_while(fits).collect()
            }
            Part::Earliest(admission) => {
                let admitted = || all().filter(|w| admission.admits(&w.message));
                let before = admitted().filter(|w| !w.place.follows).min_by_key(|w| w.message.visible_at);
                before.into_iter().chain(admitted().find(|w| w.place.follows)).collect()
            }
        };
        self.read.set(self.read.get() + found.len());
        Ok(found)
    }
}
