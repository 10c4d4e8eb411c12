//! The messages and tasks that rules send: real history events under the identities that core gives them.

use std::sync::Arc;
use std::time::Duration;

use dauer_core::identity::{self, Subject};
use dauer_core::{MessageId, Revision, Timestamp};
use dauer_proto::{ExecutionRewoundEvent, TaskScheduledEvent, event, time};
use dauer_store::{
    ClaimedTurn, Class, Completion, Control, Encoded, ExecutionId, Kind, Message, Opening, Origin, QueueKey,
    Task, TaskLease, TaskName, Trouble, TroubleKind,
};

use crate::world::{World, instance};

impl World<'_> {
    /// A client's message with an identity of its own.
    fn client(&self, to: &str, class: Class, event: &dauer_proto::HistoryEvent) -> Message {
        let request = u128::from(self.number());
        Message {
            id: identity::requested(&instance(to), request),
            to: instance(to),
            execution: None,
            class,
            origin: Origin::Client { request: Some(request) },
            answers: None,
            visible_at: self.began,
            event: Encoded::new(event),
        }
    }

    /// A client raises an event.
    #[must_use]
    pub fn event_to(&self, to: &str) -> Message {
        let name = format!("event {}", self.number());
        self.client(
            to,
            Class::Ordinary,
            &event::event_raised(self.began.0, name, Some("{\"ok\":true}".into())),
        )
    }

    /// A client's control message.
    #[must_use]
    pub fn control_to(&self, to: &str, control: Control) -> Message {
        let at = self.began.0;
        let event = match control {
            Control::Suspend => event::execution_suspended(at, None),
            Control::Resume => event::execution_resumed(at, None),
            Control::Terminate => event::execution_terminated(at, None, false),
        };
        self.client(to, Class::Control(control), &event)
    }

    /// A client's start of the orchestration "Orders".
    #[must_use]
    pub fn start_message(&self, to: &str) -> Message {
        self.start_in(to, "Orders", |_| {})
    }

    /// A client's start of an orchestration of that name, with changes to what it begins.
    #[must_use]
    pub fn start_in(&self, to: &str, name: &str, change: impl FnOnce(&mut Opening)) -> Message {
        let mut message = self.client(to, Class::Ordinary, &event::orchestrator_started(self.began.0));
        let execution = identity::execution_of(message.id);
        let mut opening = Opening::new(QueueKey::new(Kind::Orchestration, name, None), execution);
        change(&mut opening);
        let started = event::start(name, to, execution.to_string());
        message.event = Encoded::new(&event::execution_started(self.began.0, started));
        message.class = Class::Start(Box::new(opening));
        message
    }

    /// A client's start without a request id: all of one instance are equal, and each has a draw of its own.
    #[must_use]
    pub fn alike_start(&self, to: &str, draw: u64) -> Message {
        let id = identity::alike(&instance(to), b"Orders", draw);
        let execution = ExecutionId(u128::from(draw) << 64);
        let start = self.start_in(to, "Orders", |opening| opening.execution = execution);
        Message { id, origin: Origin::Client { request: None }, ..start }
    }

    /// A rewind, which carries all that is needed to create the instance.
    #[must_use]
    pub fn rewind_message(&self, to: &str) -> Message {
        let Class::Start(carried) = self.start_message(to).class else { unreachable!("a start was made") };
        let rewound = event::execution_rewound(self.began.0, ExecutionRewoundEvent::default());
        self.client(to, Class::Rewind(carried), &rewound)
    }

    /// A client's start that is not due before so long.
    #[must_use]
    pub fn scheduled_start(&self, to: &str, after: Duration) -> Message {
        let at = self.at(after);
        let start = self.start_in(to, "Orders", |opening| opening.scheduled = Some(at));
        Message { visible_at: at, ..start }
    }

    /// Events that the instance `from` sent with one commit, in order.
    #[must_use]
    pub fn events_from(&self, from: &str, to: &str, revision: u64, count: u32) -> Vec<Message> {
        let (sender, revision) = (instance(from), Revision(revision));
        let execution = ExecutionId(u128::from(revision.0) << 64 | 7);
        let sent = (0..count).map(|ordinal| Message {
            id: identity::derived(&sender, execution, revision, ordinal),
            origin: Origin::Turn { instance: sender.clone(), execution, revision, ordinal: Some(ordinal) },
            ..self.event_to(to)
        });
        sent.collect()
    }

    /// A timer of the claimed turn.
    #[must_use]
    pub fn timer(&self, turn: &ClaimedTurn, at: Timestamp) -> Message {
        let event_id = self.event_id();
        let fires = event::timer_fired(at.0, event_id, time::from_millis(at.0));
        let id = self.scheduled(turn, event_id, "timer", "");
        let origin = self.origin(turn, None);
        let execution = Some(turn.fence.execution);
        let to = turn.fence.instance.clone();
        let event = Encoded::new(&fires);
        Message {
            id,
            to,
            execution,
            class: Class::Ordinary,
            origin,
            answers: Some(id),
            visible_at: at,
            event,
        }
    }

    /// An event that the claimed turn sends as the `ordinal`-th of its commit.
    #[must_use]
    pub fn event_of(&self, turn: &ClaimedTurn, to: &str, ordinal: u32) -> Message {
        let id = self.scheduled(turn, self.event_id(), "event", to);
        Message { id, origin: self.origin(turn, Some(ordinal)), ..self.event_to(to) }
    }

    /// An activity that the claimed turn schedules.
    #[must_use]
    pub fn task(&self, turn: &ClaimedTurn, name: &str) -> Task {
        let event_id = self.event_id();
        let scheduled = TaskScheduledEvent { name: name.into(), ..TaskScheduledEvent::default() };
        Task {
            id: self.scheduled(turn, event_id, "task", name),
            instance: turn.fence.instance.clone(),
            execution: turn.fence.execution,
            event_id,
            queue: QueueKey::new(Kind::Activity, name, None),
            tags: turn.record.tags.clone(),
            event: Encoded::new(&event::task_scheduled(turn.now.0, event_id, scheduled)),
        }
    }

    /// The answer to a leased task.
    #[must_use]
    pub fn answer(&self, lease: &TaskLease) -> Completion {
        let Task { id, instance, execution, event_id, .. } = lease.task.clone();
        let completed = event::task_completed(lease.now.0, event_id, Some("42".into()));
        // A worker answers on behalf of the turn that scheduled the task; the revision of that turn is not its
        // business, so that it is left at the first.
        let origin =
            Origin::Turn { instance: instance.clone(), execution, revision: Revision(1), ordinal: None };
        let answer = Message {
            id: identity::answer(id, execution),
            to: instance,
            execution: Some(execution),
            class: Class::Ordinary,
            origin,
            answers: Some(id),
            visible_at: self.began,
            event: Encoded::new(&completed),
        };
        Completion { fence: lease.fence.clone(), answer }
    }

    fn event_id(&self) -> i32 {
        i32::try_from(self.number()).expect("a rule sends few messages")
    }

    fn scheduled(&self, turn: &ClaimedTurn, event_id: i32, kind: &'static str, name: &str) -> MessageId {
        let subject = Subject { kind, target: "", name, version: None, input: None };
        identity::scheduled(&turn.fence.instance, turn.fence.execution, event_id, 0, &subject)
    }

    fn origin(&self, turn: &ClaimedTurn, ordinal: Option<u32>) -> Origin {
        let (instance, execution) = (turn.fence.instance.clone(), turn.fence.execution);
        Origin::Turn { instance, execution, revision: turn.fence.revision.next(), ordinal }
    }

    /// Trouble, as a host reports it.
    #[must_use]
    pub fn trouble(&self, reason: &str) -> Trouble {
        Trouble {
            kind: TroubleKind::Panic,
            reason: reason.into(),
            since: self.began,
            attempts: 1,
            others: Vec::new(),
        }
    }
}

/// The run that a start begins.
///
/// # Panics
/// When it is no start.
#[must_use]
pub(crate) fn execution(start: &Message) -> ExecutionId {
    match &start.class {
        Class::Start(start) => start.execution,
        other => panic!("{other:?} is no start"),
    }
}

/// The ids of messages, in order.
#[must_use]
pub(crate) fn ids(messages: &[Message]) -> Vec<MessageId> {
    messages.iter().map(|message| message.id).collect()
}

/// The ids of messages, sorted: for rules that are not about order.
#[must_use]
pub(crate) fn sorted(messages: &[Message]) -> Vec<MessageId> {
    let mut ids = ids(messages);
    ids.sort();
    ids
}

/// The names of the instances whose turns were claimed, in order.
#[must_use]
pub(crate) fn names(turns: &[ClaimedTurn]) -> Vec<&str> {
    turns.iter().map(|turn| turn.fence.instance.as_str()).collect()
}

/// A filter for one orchestration.
#[must_use]
pub(crate) fn only(name: &str) -> dauer_store::Queues {
    let names = [(Arc::from(name), dauer_store::VersionRule::Any)];
    let filter = dauer_store::Filter::from_iter(names);
    dauer_store::Queues {
        orchestrations: filter.clone(),
        entities: dauer_store::Filter::none(),
        activities: filter,
    }
}

/// The name of a leased task.
#[must_use]
pub(crate) fn task_name(lease: &TaskLease) -> TaskName {
    TaskName { instance: lease.fence.instance.clone(), task: lease.fence.task }
}
