//! The ledger: what a history leaves open. Built from the history once, then carried along by each turn, so that the
//! cost of a turn does not grow with the history behind it.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauer_proto::{EventType, ExecutionStartedEvent, HistoryEvent};

use crate::identity::{self, Subject};
use crate::ids::{ExecutionId, InstanceId, MessageId, Timestamp};
use crate::model::{BlobError, Fate, StoredBatch};
use crate::planted::{self, Bug};

/// What an answer names in its event, where the schedule's identity is not written down.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ticket {
    /// The event id of a task.
    Task(i32),
    /// The event id of a timer.
    Timer(i32),
    /// The event id of a child.
    Child(i32),
    /// The request id of an entity call.
    Request(String),
    /// The id of a critical section.
    Section(String),
}

/// Something that was scheduled and not yet answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Open {
    /// What its answer will name.
    pub ticket: Ticket,
    /// The instance it was sent to, for children and entities.
    pub target: Option<InstanceId>,
}

/// A history that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LedgerError {
    /// Two things wait under one name: an answer could not be told apart.
    #[error("{0:?} is scheduled again while it is still open; a retry must wait for the answer")]
    StillOpen(Ticket),
    /// An instance id that no instance can have.
    #[error("event {event_id} names an impossible instance: {reason}")]
    Target {
        /// The event.
        event_id: i32,
        /// What is wrong with the id.
        reason: String,
    },
    /// A stored batch cannot be read.
    #[error("the stored history cannot be read")]
    Blob(#[from] BlobError),
}

/// What the history of one execution leaves open.
#[derive(Debug, Clone, PartialEq)]
pub struct Ledger {
    instance: InstanceId,
    execution: ExecutionId,
    events: u32,
    started: Option<Arc<ExecutionStartedEvent>>,
    ended: bool,
    suspended: bool,
    recursive: bool,
    now: Timestamp,
    open: BTreeMap<MessageId, Open>,
    tickets: BTreeMap<Ticket, MessageId>,
    schedules: BTreeMap<i32, u32>,
    raised: Vec<(MessageId, [u8; 16])>,
    sections: BTreeMap<String, Vec<InstanceId>>,
}

impl Ledger {
    /// The ledger of an execution that has no history yet.
    #[must_use]
    pub fn new(instance: InstanceId, execution: ExecutionId) -> Self {
        Self {
            instance,
            execution,
            events: 0,
            started: None,
            ended: false,
            suspended: false,
            recursive: false,
            now: Timestamp::default(),
            open: BTreeMap::new(),
            tickets: BTreeMap::new(),
            schedules: BTreeMap::new(),
            raised: Vec::new(),
            sections: BTreeMap::new(),
        }
    }

    /// Adds a stored batch and gives back its events, for the worker.
    ///
    /// # Errors
    /// [`LedgerError`] when the batch cannot be read or does not follow from what went before.
    pub fn absorb(&mut self, stored: &StoredBatch) -> Result<Vec<HistoryEvent>, LedgerError> {
        let events = stored.batch.decode()?;
        let mut sources = BTreeMap::new();
        for (message, fate) in &stored.batch.consumed {
            if let Fate::Event(index) = fate {
                sources.insert(*index, *message);
            }
        }
        for (index, event) in (0..).zip(&events) {
            self.record(event, sources.get(&index).copied())?;
        }
        Ok(events)
    }

    /// Adds one event. `source` is the message it came from, if it did. Answers with the identity of what the event
    /// schedules or sends, if it does.
    ///
    /// # Errors
    /// [`LedgerError`] when it does not follow from what went before.
    pub fn record(
        &mut self,
        event: &HistoryEvent,
        source: Option<MessageId>,
    ) -> Result<Option<MessageId>, LedgerError> {
        self.events += 1;
        let Some(kind) = &event.event_type else { return Ok(None) };
        if let Some(ticket) = answered(kind) {
            self.close(&ticket);
        }
        match kind {
            EventType::OrchestratorStarted(_) => self.now = self.now.max(time_of(event)),
            EventType::ExecutionStarted(start) => {
                // The input is in the history; keeping it here would hold every large input twice.
                self.started = Some(Arc::new(ExecutionStartedEvent { input: None, ..start.clone() }));
            }
            EventType::ExecutionCompleted(_) => self.ended = true,
            EventType::ExecutionSuspended(_) => self.suspended = true,
            EventType::ExecutionResumed(_) => self.suspended = false,
            EventType::ExecutionTerminated(terminated) => self.recursive |= terminated.recurse,
            EventType::EventRaised(raised) => {
                let digest = identity::event_digest(&raised.name, raised.input.as_deref());
                self.raised.extend(source.map(|source| (source, digest)));
            }
            EventType::EntityUnlockSent(unlock) => self.unlock(unlock),
            EventType::EntityLockRequested(request) => {
                let held = request.lock_set.iter().filter_map(|id| InstanceId::new(id.as_str()).ok());
                self.sections.insert(request.critical_section_id.clone(), held.collect());
            }
            _ => {}
        }
        self.schedule(event, kind)
    }

    fn schedule(&mut self, event: &HistoryEvent, kind: &EventType) -> Result<Option<MessageId>, LedgerError> {
        let moment;
        let subject = match kind {
            EventType::TimerCreated(timer) => {
                let at = timer.fire_at.unwrap_or_default();
                moment = format!("{}.{:09}", at.seconds, at.nanos);
                Subject { kind: "timer", target: "", name: &moment, version: None, input: None }
            }
            kind => match subject(kind) {
                Some(subject) => subject,
                None => return Ok(None),
            },
        };
        let earlier = self.schedules.entry(event.event_id).or_default();
        let id = identity::scheduled(&self.instance, self.execution, event.event_id, *earlier, &subject);
        *earlier += u32::from(!planted::is_on(Bug::RetryDeduplicated));
        if let Some(ticket) = ticket(event.event_id, kind) {
            if self.tickets.contains_key(&ticket) {
                return Err(LedgerError::StillOpen(ticket));
            }
            let target = match subject.target {
                "" => None,
                target => Some(InstanceId::new(target).map_err(|reason| LedgerError::Target {
                    event_id: event.event_id,
                    reason: reason.to_string(),
                })?),
            };
            self.tickets.insert(ticket.clone(), id);
            self.open.insert(id, Open { ticket, target });
        }
        Ok(Some(id))
    }

    fn close(&mut self, ticket: &Ticket) {
        if let Some(id) = self.tickets.remove(ticket) {
            self.open.remove(&id);
        }
    }

    fn unlock(&mut self, unlock: &dauer_proto::EntityUnlockSentEvent) {
        if let Some(held) = self.sections.get_mut(&unlock.critical_section_id) {
            held.retain(|entity| unlock.target_instance_id.as_deref() != Some(entity.as_str()));
            if held.is_empty() {
                self.sections.remove(&unlock.critical_section_id);
            }
        }
    }

    /// Whose ledger it is.
    #[must_use]
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Of which run.
    #[must_use]
    pub fn execution(&self) -> ExecutionId {
        self.execution
    }

    /// How many events the history has.
    #[must_use]
    pub fn events(&self) -> u32 {
        self.events
    }

    /// The start, without its input, once the run has begun.
    #[must_use]
    pub fn started(&self) -> Option<&Arc<ExecutionStartedEvent>> {
        self.started.as_ref()
    }

    /// Whether the run has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.ended
    }

    /// Whether the last word was to suspend.
    #[must_use]
    pub fn is_suspended(&self) -> bool {
        self.suspended
    }

    /// Whether the run was told to end together with its children; the worker may obey in a later turn.
    #[must_use]
    pub fn is_ending_recursively(&self) -> bool {
        self.recursive
    }

    /// The time of the last turn.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// What is open under that identity.
    #[must_use]
    pub fn open(&self, id: MessageId) -> Option<&Open> {
        self.open.get(&id)
    }

    /// The identity of what is open under that name.
    pub(crate) fn identity(&self, ticket: &Ticket) -> Option<MessageId> {
        self.tickets.get(ticket).copied()
    }

    /// The messages that brought the events from outside, in order.
    pub(crate) fn raised(&self) -> impl Iterator<Item = MessageId> {
        self.raised.iter().map(|(message, _)| *message)
    }

    /// How much is open.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// The children that have not answered, in the order of their schedules' identities.
    pub fn open_children(&self) -> impl Iterator<Item = &InstanceId> {
        self.open
            .values()
            .filter(|open| matches!(open.ticket, Ticket::Child(_)))
            .filter_map(|o| o.target.as_ref())
    }

    /// The entities that are locked, or asked for, by critical section.
    pub fn locked(&self) -> impl Iterator<Item = (&str, &InstanceId)> {
        self.sections
            .iter()
            .flat_map(|(section, held)| held.iter().map(move |entity| (section.as_str(), entity)))
    }

    /// The messages that brought these events, in order; `None` for an event that no message brought.
    ///
    /// A worker hands unconsumed events back by value when it continues as new. Their old ids let a client's repeat
    /// of the same raise be recognised in the next run too.
    pub(crate) fn sources(&self, carried: &[HistoryEvent]) -> Vec<Option<MessageId>> {
        let mut by_digest: BTreeMap<[u8; 16], std::collections::VecDeque<MessageId>> = BTreeMap::new();
        for (message, digest) in &self.raised {
            by_digest.entry(*digest).or_default().push_back(*message);
        }
        let find = |event: &HistoryEvent| match &event.event_type {
            Some(EventType::EventRaised(raised)) => {
                let digest = identity::event_digest(&raised.name, raised.input.as_deref());
                // The worker keeps the latest ones when several are equal: it consumed the earlier.
                by_digest.get_mut(&digest).and_then(std::collections::VecDeque::pop_back)
            }
            _ => None,
        };
        let mut found: Vec<_> = carried.iter().rev().map(find).collect();
        found.reverse();
        found
    }
}

fn time_of(event: &HistoryEvent) -> Timestamp {
    let at = event.timestamp.as_ref().and_then(|at| dauer_proto::time::to_millis_ceil(at).ok());
    Timestamp(at.unwrap_or_default())
}

/// What the answer to an event will name, if it wants one.
pub(crate) fn ticket(event_id: i32, kind: &EventType) -> Option<Ticket> {
    Some(match kind {
        EventType::TaskScheduled(_) => Ticket::Task(event_id),
        EventType::TimerCreated(_) => Ticket::Timer(event_id),
        EventType::SubOrchestrationInstanceCreated(_) => Ticket::Child(event_id),
        EventType::EntityOperationCalled(call) => Ticket::Request(call.request_id.clone()),
        EventType::EntityLockRequested(request) => Ticket::Section(request.critical_section_id.clone()),
        _ => return None,
    })
}

/// Whether an event records something that the code asked for.
pub(crate) fn is_schedule(event: &HistoryEvent) -> bool {
    let kind = event.event_type.as_ref();
    kind.is_some_and(|kind| matches!(kind, EventType::TimerCreated(_)) || subject(kind).is_some())
}

/// What an event answers, if it is an answer.
pub(crate) fn answered(kind: &EventType) -> Option<Ticket> {
    Some(match kind {
        EventType::TaskCompleted(answer) => Ticket::Task(answer.task_scheduled_id),
        EventType::TaskFailed(answer) => Ticket::Task(answer.task_scheduled_id),
        EventType::TimerFired(answer) => Ticket::Timer(answer.timer_id),
        EventType::SubOrchestrationInstanceCompleted(answer) => Ticket::Child(answer.task_scheduled_id),
        EventType::SubOrchestrationInstanceFailed(answer) => Ticket::Child(answer.task_scheduled_id),
        EventType::EntityOperationCompleted(answer) => Ticket::Request(answer.request_id.clone()),
        EventType::EntityOperationFailed(answer) => Ticket::Request(answer.request_id.clone()),
        EventType::EntityLockGranted(answer) => Ticket::Section(answer.critical_section_id.clone()),
        _ => return None,
    })
}

/// What an event is about, if it schedules or sends something. Timers have their time as a name, made by the caller.
fn subject(kind: &EventType) -> Option<Subject<'_>> {
    let (kind, target, name, version, input) = match kind {
        EventType::TaskScheduled(task) => ("task", "", &task.name, &task.version, &task.input),
        EventType::SubOrchestrationInstanceCreated(child) => {
            ("child", child.instance_id.as_str(), &child.name, &child.version, &child.input)
        }
        EventType::EventSent(sent) => ("event", sent.instance_id.as_str(), &sent.name, &None, &sent.input),
        EventType::EntityOperationCalled(call) => {
            ("call", call.target_instance_id.as_deref().unwrap_or(""), &call.operation, &None, &call.input)
        }
        EventType::EntityOperationSignaled(signal) => (
            "signal",
            signal.target_instance_id.as_deref().unwrap_or(""),
            &signal.operation,
            &None,
            &signal.input,
        ),
        EventType::EntityLockRequested(lock) => (
            "lock",
            lock.lock_set.first().map_or("", String::as_str),
            &lock.critical_section_id,
            &None,
            &None,
        ),
        EventType::EntityUnlockSent(unlock) => {
            let target = unlock.target_instance_id.as_deref().unwrap_or("");
            ("unlock", target, &unlock.critical_section_id, &None, &None)
        }
        _ => return None,
    };
    Some(Subject { kind, target, name, version: version.as_deref(), input: input.as_deref() })
}
