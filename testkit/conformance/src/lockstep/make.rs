//! Random messages, credit and checkpoints. Few instances, names and texts, so that calls meet.

use std::sync::Arc;
use std::time::Duration;

use dauer_core::identity::{alike, requested};
use dauer_store::{
    Amount, Batch, Checkpoint, ClaimedTurn, Class, Completion, Control, Create, Credit, Details, Encoded,
    EntityRecord, ExecutionId, Fate, Filter, History, InstanceId, Kind, Lock, Message, MessageId, Opening,
    Origin, Parent, QueueKey, Queues, Record, Reuse, Status, Tags, Task, TaskLease, Then, VersionRule,
};

use super::Both;
use crate::step::unlock;
use crate::world::instance;

/// The instances that clients start.
pub(super) const ORDERS: u64 = 10;

/// Entities that get long inboxes. Each is alone in its queue.
pub(super) const LONE: [&str; 4] = ["bag", "box", "jar", "tin"];

/// An instance that clients start.
pub(super) fn order(number: u64) -> InstanceId {
    instance(&format!("order{number}"))
}

/// The entity of that name.
pub(super) fn lone(name: &str) -> InstanceId {
    instance(&format!("@{name}@1"))
}

/// The entity that is locked now and then.
const LAMP: &str = "@lamp@1";

/// The names and versions of orchestrations.
const NAMES: [(&str, Option<&str>); 3] = [("Orders", None), ("Orders", Some("2")), ("Refunds", None)];

/// Bytes that say what they belong to.
pub(super) fn event(text: &str) -> Encoded {
    let bytes: Vec<u8> = std::iter::once(1).chain(text.bytes()).collect();
    Encoded::from_stored(bytes.into())
}

/// An identity that is the same for the same text.
fn id_of(text: &str) -> MessageId {
    requested(&instance(text), 7)
}

pub(super) fn message(to: &InstanceId, text: &str) -> Message {
    Message {
        id: id_of(text),
        to: to.clone(),
        execution: None,
        class: Class::Ordinary,
        origin: Origin::Client { request: Some(7) },
        answers: None,
        visible_at: Default::default(),
        event: event(text),
    }
}

/// The result of a task.
pub(super) fn answer(lease: &TaskLease) -> Completion {
    let mut answer = message(&lease.fence.instance, "answer");
    (answer.id, answer.answers) = (lease.task.id, Some(lease.task.id));
    answer.execution = Some(lease.task.execution);
    Completion { fence: lease.fence.clone(), answer }
}

/// The next turn of an instance that a commit has kept.
pub(super) fn goes_on(
    step: &Checkpoint,
    before: &Details,
    committed: &dauer_store::Committed,
) -> Option<ClaimedTurn> {
    let dauer_store::Committed { revision, arrived, now, more, .. } = committed.clone();
    let record = Record { revision, ..step.record.clone().after(before) };
    let fence = dauer_store::Fence { execution: record.execution, revision, ..step.fence.clone() };
    let kept = step.then == Then::Keep && !record.status.is_ended();
    kept.then_some(ClaimedTurn { fence, record, messages: arrived, more, history: None, now })
}

impl Both {
    /// A number that was not given before.
    fn fresh(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn some_order(&mut self) -> InstanceId {
        order(self.draw.below(ORDERS))
    }

    pub(super) fn some_lone(&mut self) -> InstanceId {
        lone(self.draw.of(&LONE))
    }

    /// None, one or two of a few.
    fn some_tags(&mut self) -> Tags {
        let zone = self.draw.of(&["north", "south"]).to_owned();
        let size = self.draw.below(2).to_string();
        match self.draw.below(4) {
            0 => Tags::new(),
            1 => [("zone".to_owned(), zone), ("size".to_owned(), size)].into(),
            _ => [("zone".to_owned(), zone)].into(),
        }
    }

    /// A start, often one that was made before: by its id, or by its likeness where the client named no request.
    pub(super) fn some_start(&mut self, to: &InstanceId) -> Message {
        let draw = self.draw.below(6);
        let id = match self.draw.below(3) {
            0 => alike(to, b"equal", draw),
            1 => requested(to, u128::from(draw)),
            _ => requested(to, 1_000 + u128::from(self.fresh())),
        };
        let opening = self.some_opening();
        let mut start = message(to, "start");
        start.id = id;
        start.class = Class::Start(Box::new(opening));
        if self.draw.one_in(6) {
            start.visible_at = self.clock_now().after(Duration::from_secs(self.draw.below(40)));
        }
        start
    }

    /// The record of a run that has not begun.
    fn some_opening(&mut self) -> Opening {
        let (name, version) = self.draw.of(&NAMES);
        let queue = QueueKey::new(Kind::Orchestration, name, version);
        let execution = ExecutionId(u128::from(self.fresh()));
        Opening { tags: self.some_tags(), ..Opening::new(queue, execution) }
    }

    pub(super) fn some_create(&mut self) -> Create {
        let rewound = self.rewound.take().filter(|_| self.draw.one_in(3));
        let to = rewound.unwrap_or_else(|| self.some_order());
        let start = self.some_start(&to);
        self.started.push((to, start.id));
        let beyond = self.started.len().saturating_sub(60);
        self.started.drain(..beyond);
        let mut reuse = Reuse::default();
        match self.draw.below(5) {
            0 => reuse.replaceable.push(Status::Running),
            1 => reuse.replaceable.extend([Status::Pending, Status::Suspended]),
            2 => reuse.replaceable.clear(),
            _ => {}
        }
        Create { start, reuse, retry: self.draw.one_in(3) }
    }

    /// A message of any class, for now or for later, for an order or an entity.
    pub(super) fn some_message(&mut self) -> Message {
        let some_order = self.some_order();
        if self.draw.one_in(10) {
            return self.some_start(&some_order);
        }
        let to = match self.draw.below(8) {
            0 => self.some_lone(),
            1 => instance(LAMP),
            _ => some_order,
        };
        let text = format!("message {}", self.draw.below(400));
        let mut message = message(&to, &text);
        message.class = match self.draw.below(14) {
            0 => Class::Control(Control::Suspend),
            1 => Class::Control(Control::Resume),
            2 => Class::Control(Control::Terminate),
            3 => {
                let opening = self.some_opening();
                if self.draw.one_in(2) {
                    self.rewound = Some(message.to.clone());
                    message.id = alike(&message.to, b"equal", 10 + self.draw.below(6));
                }
                Class::Rewind(Box::new(opening))
            }
            _ => Class::Ordinary,
        };
        if self.draw.one_in(3) {
            message.visible_at = self.clock_now().after(Duration::from_secs(self.draw.below(50)));
        }
        if self.draw.one_in(6) {
            let (instance, execution) = (self.some_order(), ExecutionId(1));
            let (revision, ordinal) = (Default::default(), Some(0));
            message.origin = Origin::Turn { instance, execution, revision, ordinal };
        }
        message
    }

    /// Credit for everything, or for what one queue or one tag has.
    pub(super) fn some_credit(&mut self) -> (Credit, bool) {
        let all = Amount::items(1_000);
        let mut credit = Credit { turns: all, tasks: all, ..Credit::default() };
        let names = |name: &str| Filter::from_iter([(Arc::from(name), VersionRule::Any)]);
        match self.draw.below(8) {
            0 | 1 => {
                credit.queues.orchestrations = names(self.draw.of(&["Orders", "Refunds"]));
                credit.queues.activities = names(self.draw.of(&["work0", "work1"]));
            }
            2 => credit.tags = self.some_tags(),
            3 => credit.turns = Amount::default(),
            4 => credit.tasks = Amount::default(),
            _ => return (credit, false),
        }
        (credit, true)
    }

    /// Credit for a part of what waits for the one entity of a queue.
    pub(super) fn narrow_credit(&mut self, name: &str) -> Credit {
        let entities = Filter::from_iter([(Arc::from(name), VersionRule::Any)]);
        let queues = Queues { orchestrations: Filter::none(), entities, activities: Filter::none() };
        let turns = Amount { count: 1, bytes: self.draw.index(400) };
        Credit { turns, queues, ..Credit::default() }
    }

    /// Credit for the oldest turn of one queue.
    pub(super) fn single_credit(&mut self) -> Credit {
        let (name, version) = self.draw.of(&NAMES);
        let versions = VersionRule::Listed(vec![version.unwrap_or("").into()]);
        let orchestrations = Filter::from_iter([(Arc::from(name), versions)]);
        let queues = Queues { orchestrations, entities: Filter::none(), activities: Filter::none() };
        Credit { turns: Amount::items(1), queues, ..Credit::default() }
    }

    fn task(&mut self, turn: &ClaimedTurn, name: &str) -> Task {
        Task {
            id: id_of(&format!("{name} {}", self.fresh())),
            instance: turn.fence.instance.clone(),
            execution: turn.fence.execution,
            event_id: 3,
            queue: QueueKey::new(Kind::Activity, name, None),
            tags: self.some_tags(),
            event: event(&name.repeat(if self.draw.one_in(20) { 400 } else { 1 })),
        }
    }

    /// The plain next step of a turn: it consumes all it was given, and lets go.
    pub(super) fn plain_step(&self, turn: &ClaimedTurn) -> Checkpoint {
        let consumed: Vec<MessageId> = turn.messages.iter().map(|message| message.id).collect();
        let batch = Batch {
            count: 1,
            events: event(&format!("turn {} of {}", turn.fence.revision.0, turn.fence.instance)),
            consumed: consumed.iter().map(|id| (*id, Fate::Event(0))).collect(),
            produced: Vec::new(),
        };
        let opens = turn.messages.iter().find_map(|message| match &message.class {
            Class::Start(opening) | Class::Rewind(opening) => Some(opening.record(message.id)),
            Class::Control(_) | Class::Ordinary => None,
        });
        let mut record = Record { status: Status::Running, ..turn.record.clone() };
        unlock(&mut record.details);
        let (history, record) = match opens.filter(|_| turn.record.status.is_ended()) {
            None => (History::Append(batch), record),
            // The start that waited begins the next run.
            Some(next) => {
                let (execution, batches) = (next.execution, vec![batch]);
                let history = History::Replace { execution, batches, prologue: Vec::new() };
                (history, Record { status: Status::Running, ..next })
            }
        };
        Checkpoint {
            fence: turn.fence.clone(),
            consumed,
            completions: Vec::new(),
            history,
            record: record.since(&turn.record.details),
            tasks: Vec::new(),
            timers: Vec::new(),
            messages: Vec::new(),
            take: 0,
            then: Then::Release { delay: Duration::ZERO },
        }
    }

    /// A step of any kind, perhaps with results of tasks that the session has.
    pub(super) fn some_step(&mut self, turn: &ClaimedTurn, tasks: &mut Vec<TaskLease>) -> Checkpoint {
        let mut step = self.plain_step(turn);
        if self.draw.one_in(2) {
            let of_this_run = |lease: &mut TaskLease| {
                lease.fence.instance == turn.fence.instance && lease.task.execution == turn.fence.execution
            };
            step.completions = tasks.extract_if(.., of_this_run).map(|lease| answer(&lease)).collect();
            self.met.fused_results += step.completions.len();
        }
        self.vary(&mut step, turn);
        step.tasks = (0..self.draw.below(5)).map(|n| self.task(turn, &format!("work{n}"))).collect();
        step.take = self.draw.index(4);
        for _ in 0..self.draw.below(4) {
            let (to, execution) = (turn.fence.instance.clone(), Some(step.record.execution));
            step.timers.push(Message { to, execution, ..self.some_message() });
        }
        step.messages = (0..self.draw.below(4)).map(|_| self.some_message()).collect();
        if self.draw.one_in(5) {
            let child = self.some_child(turn);
            step.messages.push(child);
            self.met.children += 1;
        }
        self.spoil(&mut step);
        step
    }

    /// The start of a child of that turn.
    fn some_child(&mut self, turn: &ClaimedTurn) -> Message {
        let to = instance(&format!("child{}", self.draw.below(4)));
        let mut child = self.some_start(&to);
        let (parent, execution) = (turn.fence.instance.clone(), turn.fence.execution);
        if let Class::Start(start) = &mut child.class {
            let parent = Parent { instance: parent.clone(), execution, event_id: 5 };
            start.parent = Some(Box::new(parent));
        }
        let revision = turn.fence.revision.next();
        child.origin = Origin::Turn { instance: parent, execution, revision, ordinal: Some(9) };
        child
    }

    /// What a host may not do: a fence of another run, revision or epoch; a result of a task that it does not have; too much.
    pub(super) fn spoil(&mut self, step: &mut Checkpoint) {
        match self.draw.below(24) {
            0 => step.fence.execution = ExecutionId(step.fence.execution.0 ^ 1),
            1 => step.fence.revision = step.fence.revision.next(),
            2 => step.fence.epoch = step.fence.epoch.next(),
            3 => {
                let task = id_of(&format!("work0 {}", self.draw.below(self.next)));
                let (instance, epoch) = (step.fence.instance.clone(), dauer_store::Epoch(1));
                let answer = message(&instance, "answer");
                let fence = dauer_store::TaskFence { task, instance, epoch };
                step.completions.push(Completion { fence, answer });
            }
            4 => step.messages.push(self.large_message()),
            _ => {}
        }
    }

    /// A message that no store of a run takes.
    pub(super) fn large_message(&mut self) -> Message {
        Message { event: event(&"x".repeat(20_000)), ..self.some_message() }
    }

    /// What becomes of the instance, and of the run.
    fn vary(&mut self, step: &mut Checkpoint, turn: &ClaimedTurn) {
        let ends = [Status::Completed, Status::Failed, Status::Terminated];
        match self.draw.below(18) {
            0..=4 => step.then = Then::Keep,
            5 | 16 | 17 => step.record.status = self.draw.of(&ends),
            6 => step.record.status = Status::Terminated,
            7 => step.record.status = Status::Suspended,
            8 => step.consumed.truncate(1),
            9 => {
                let execution = ExecutionId(u128::from(self.fresh()));
                let carried = Message { to: turn.fence.instance.clone(), ..self.some_message() };
                step.record.execution = execution;
                step.history = History::Replace { execution, batches: Vec::new(), prologue: vec![carried] };
            }
            10 => {
                let owner = self.some_order();
                let lock = Lock { section: "section".to_owned(), owner, owner_execution: ExecutionId(1) };
                let mut details = turn.record.details.clone();
                let entity = details.entity().cloned().unwrap_or_default();
                details.set_entity(Some(EntityRecord { lock: Some(lock), ..entity }));
                step.record.details = Some(details);
            }
            11 if turn.record.is_unborn() => {
                // Suspended before it began: its start waits.
                let controls = turn.messages.iter().filter(|m| matches!(m.class, Class::Control(_)));
                step.consumed = controls.map(|message| message.id).collect();
                step.record.status = Status::Suspended;
                // No event says so.
                let nothing =
                    Batch { count: 0, events: event(""), consumed: Vec::new(), produced: Vec::new() };
                step.history = History::Append(nothing);
            }
            _ => step.then = Then::Release { delay: Duration::from_secs(self.draw.below(20)) },
        }
        let mut details = step.record.clone().after(&turn.record.details).details;
        if let Some(entity) = details.entity().cloned() {
            let early_unlocks = vec!["section".to_owned()];
            details.set_entity(Some(EntityRecord { early_unlocks, ..entity }));
            step.record.details = Some(details.clone());
        }
        if self.draw.one_in(8) {
            details.set_custom_status(Some(format!("status {}", self.draw.below(3)).into()));
            // Perhaps as they are: a checkpoint may carry details that do not change.
            step.record.details = Some(details);
        }
    }
}
