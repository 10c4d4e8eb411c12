//! Carrying out actions: each becomes a history event and, where it has an effect, a task, a timer or a message.

use std::collections::BTreeMap;
use std::sync::Arc;

use dauer_proto::{
    ActionType, CompleteOrchestrationAction, CreateSubOrchestrationAction, CreateTimerAction,
    EntityMessageType, EventType, ExecutionStartedEvent, HistoryEvent, OrchestrationInstance,
    OrchestratorAction, ParentInstanceInfo, ScheduleTaskAction, SendEntityMessageAction, SendEventAction,
    SubOrchestrationInstanceCreatedEvent, TaskScheduledEvent, TerminateOrchestrationAction, event, time,
};

use crate::identity;
use crate::ids::{InstanceId, MessageId, Timestamp, check_name};
use crate::ledger::Ledger;
use crate::limits::TurnLimits;
use crate::model::{
    Class, Control, Encoded, Kind, Message, Opening, Origin, Parent, QueueKey, Tags, Task, TroubleKind,
};
use crate::send::distinct;
use crate::turn::{Plan, Stalled};

/// What a turn has brought about so far.
pub(crate) struct Effects<'a> {
    pub(crate) limits: &'a TurnLimits,
    pub(crate) plan: Plan,
    pub(crate) ledger: Ledger,
    pub(crate) decoded: Vec<HistoryEvent>,
    pub(crate) encoded: Vec<Encoded>,
    pub(crate) produced: Vec<MessageId>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) timers: Vec<Message>,
    pub(crate) messages: Vec<Message>,
    derived: u32,
}

/// Where a message goes, and what it carries.
pub(crate) struct Outgoing {
    pub(crate) id: MessageId,
    pub(crate) to: InstanceId,
    pub(crate) class: Class,
    pub(crate) answers: Option<MessageId>,
    pub(crate) visible_at: Option<Timestamp>,
    pub(crate) event: HistoryEvent,
}

impl<'a> Effects<'a> {
    /// Begins with the plan's own events, already in the history's order.
    pub(crate) fn new(mut plan: Plan, mut ledger: Ledger, limits: &'a TurnLimits) -> Result<Self, Stalled> {
        if plan.is_fresh() {
            ledger = Ledger::new(plan.fence.instance.clone(), plan.record.execution);
        }
        // The worker is done with them, as a rule: nothing is copied.
        let decoded = Arc::unwrap_or_clone(std::mem::take(&mut plan.events));
        let mut encoded = Vec::with_capacity(decoded.capacity());
        for (event, new) in decoded.iter().zip(std::mem::take(&mut plan.origins)) {
            ledger.record(event, new.source)?;
            encoded.push(new.encoded);
        }
        let messages = std::mem::take(&mut plan.refusals);
        let produced = messages.iter().map(|message| message.id).collect();
        let (tasks, timers) = (Vec::new(), Vec::new());
        Ok(Self { limits, plan, ledger, decoded, encoded, produced, tasks, timers, messages, derived: 0 })
    }

    /// Adds an event of this turn's own making to the history.
    pub(crate) fn append(&mut self, event: HistoryEvent) -> Result<Option<MessageId>, Stalled> {
        let encoded = Encoded::new(&event);
        self.append_encoded(event, encoded)
    }

    /// The same with the event's bytes at hand.
    fn append_encoded(
        &mut self,
        event: HistoryEvent,
        encoded: Encoded,
    ) -> Result<Option<MessageId>, Stalled> {
        let id = self.ledger.record(&event, None)?;
        self.encoded.push(encoded);
        self.decoded.push(event);
        Ok(id)
    }

    /// Carries out one action that is not a completion.
    pub(crate) fn act(&mut self, action: OrchestratorAction) -> Result<(), Stalled> {
        let id = action.id;
        match action.orchestrator_action_type {
            Some(ActionType::ScheduleTask(task)) => self.schedule_task(id, task),
            Some(ActionType::CreateTimer(timer)) => self.create_timer(id, &timer),
            Some(ActionType::CreateSubOrchestration(child)) => self.create_child(id, child),
            Some(ActionType::SendEvent(sent)) => self.send_event(id, sent),
            Some(ActionType::SendEntityMessage(message)) => self.send_entity_message(id, message),
            Some(ActionType::TerminateOrchestration(terminate)) => self.terminate_other(terminate),
            Some(ActionType::RewindOrchestration(_)) => {
                Err(invalid("a worker cannot rewind; the server does"))
            }
            Some(ActionType::CompleteOrchestration(_)) | None => Err(invalid("an action has no kind")),
        }
    }

    fn schedule_task(&mut self, event_id: i32, action: ScheduleTaskAction) -> Result<(), Stalled> {
        check("activity name", &action.name)?;
        self.payload("activity input", action.input.as_deref())?;
        // An empty version is none: a worker that lists versions would never be given it.
        let version = action.version.as_deref().filter(|version| !version.is_empty());
        check_labels(version, &action.tags)?;
        let queue = QueueKey::new(Kind::Activity, action.name.as_str(), version);
        let tags = Tags::from(action.tags.clone());
        let event = event::task_scheduled(self.now().0, event_id, action);
        let encoded = Encoded::new(&event);
        let id = self.scheduled_encoded(event, encoded.clone())?;
        self.push_task(id, event_id, (queue, tags, encoded));
        Ok(())
    }

    fn push_task(&mut self, id: MessageId, event_id: i32, (queue, tags, event): (QueueKey, Tags, Encoded)) {
        self.produced.push(id);
        let (instance, execution) = (self.plan.fence.instance.clone(), self.plan.record.execution);
        self.tasks.push(Task { id, instance, execution, event_id, queue, tags, event });
    }

    /// The task of an event that is in the history.
    pub(crate) fn issue_task(&mut self, id: MessageId, event: &HistoryEvent, task: &TaskScheduledEvent) {
        let version = task.version.as_deref().filter(|version| !version.is_empty());
        let queue = QueueKey::new(Kind::Activity, task.name.as_str(), version);
        self.push_task(id, event.event_id, (queue, Tags::from(task.tags.clone()), Encoded::new(event)));
    }

    fn create_timer(&mut self, event_id: i32, action: &CreateTimerAction) -> Result<(), Stalled> {
        let fire_at = action.fire_at.ok_or_else(|| invalid("a timer has no time"))?;
        self.due("seconds until a timer fires", &fire_at)?;
        let id = self.scheduled(event::timer_created(self.now().0, event_id, fire_at))?;
        self.issue_timer(id, event_id, Some(fire_at))
    }

    /// The message of a timer that is in the history.
    pub(crate) fn issue_timer(
        &mut self,
        id: MessageId,
        event_id: i32,
        fire_at: Option<dauer_proto::Timestamp>,
    ) -> Result<(), Stalled> {
        let fire_at = fire_at.ok_or_else(|| invalid("a timer has no time"))?;
        let due = Timestamp(time::to_millis_ceil(&fire_at).map_err(|e| invalid(e.to_string()))?);
        self.produced.push(id);
        let (to, execution) = (self.plan.fence.instance.clone(), self.plan.record.execution);
        self.timers.push(Message {
            id,
            to,
            execution: Some(execution),
            class: Class::Ordinary,
            origin: self.origin(None),
            answers: Some(id),
            visible_at: due,
            event: Encoded::new(&event::timer_fired(due.0, event_id, fire_at)),
        });
        Ok(())
    }

    fn due(&self, what: &str, at: &dauer_proto::Timestamp) -> Result<Timestamp, Stalled> {
        let due = Timestamp(time::to_millis_ceil(at).map_err(|e| invalid(e.to_string()))?);
        if due > self.now().after(self.limits.timer) {
            let found = due.since(self.now()).as_secs();
            return Err(Stalled::too_large(what, found, self.limits.timer.as_secs()));
        }
        Ok(due)
    }

    fn create_child(
        &mut self,
        event_id: i32,
        mut action: CreateSubOrchestrationAction,
    ) -> Result<(), Stalled> {
        check("orchestration name", &action.name)?;
        self.payload("child input", action.input.as_deref())?;
        check_labels(action.version.as_deref().filter(|version| !version.is_empty()), &action.tags)?;
        if action.instance_id.is_empty() {
            action.instance_id = format!("{}:{event_id:04x}", self.plan.record.execution);
        }
        let to = instance("child instance id", &action.instance_id)?;
        to.check_orchestration().map_err(|error| invalid(format!("child instance id: {error}")))?;
        let created = event::sub_orchestration_created(self.now().0, event_id, action);
        let Some(EventType::SubOrchestrationInstanceCreated(child)) = created.event_type.clone() else {
            return Err(invalid("a child was not created"));
        };
        let id = self.scheduled(created)?;
        self.start_child(id, event_id, child, Class::Start)
    }

    /// Sends the start of a child whose creation is in the history.
    pub(crate) fn start_child(
        &mut self,
        id: MessageId,
        event_id: i32,
        child: SubOrchestrationInstanceCreatedEvent,
        class: fn(Box<Opening>) -> Class,
    ) -> Result<(), Stalled> {
        let to = instance("child instance id", &child.instance_id)?;
        let execution = identity::execution_of(id);
        let started = self.ledger.started().cloned();
        let (name, own_version) =
            started.map_or((None, None), |own| (Some(own.name.clone()), own.version.clone()));
        // A child is of the parent's version unless another is asked for, or none: Java and .NET say so by an empty one.
        let version =
            child.version.map_or_else(|| own_version.clone(), Some).filter(|version| !version.is_empty());
        let parent = Parent {
            instance: self.plan.fence.instance.clone(),
            execution: self.plan.record.execution,
            event_id,
        };
        let start = ExecutionStartedEvent {
            version: version.clone(),
            input: child.input,
            parent_instance: Some(Box::new(ParentInstanceInfo {
                task_scheduled_id: event_id,
                name,
                version: own_version,
                orchestration_instance: Some(OrchestrationInstance {
                    instance_id: parent.instance.to_string(),
                    execution_id: Some(parent.execution.to_string()),
                }),
            })),
            parent_trace_context: child.parent_trace_context.map(Box::new),
            tags: child.tags.clone(),
            ..event::start(child.name.as_str(), to.as_str(), execution.to_string())
        };
        let queue = QueueKey::new(Kind::Orchestration, child.name, version.as_deref());
        let opening = Opening {
            parent: Some(Box::new(parent)),
            tags: child.tags.into(),
            ..Opening::new(queue, execution)
        };
        let class = class(Box::new(opening));
        let event = event::execution_started(self.now().0, start);
        self.send(Outgoing { id, to, class, answers: None, visible_at: None, event });
        Ok(())
    }

    fn send_event(&mut self, event_id: i32, action: SendEventAction) -> Result<(), Stalled> {
        check("event name", &action.name)?;
        self.payload("event data", action.data.as_deref())?;
        let target = action.instance.map(|instance| instance.instance_id).unwrap_or_default();
        let to = instance("event target", &target)?;
        let now = self.now().0;
        let sent = event::event_sent(now, event_id, target, action.name.as_str(), action.data.clone());
        let id = self.scheduled(sent)?;
        // The target gets an EventRaised, not the sender's EventSent (behaviour 32).
        let event = distinct(event::event_raised(now, action.name, action.data), id);
        self.send(Outgoing { id, to, class: Class::Ordinary, answers: None, visible_at: None, event });
        Ok(())
    }

    fn send_entity_message(&mut self, event_id: i32, action: SendEntityMessageAction) -> Result<(), Stalled> {
        let mut message =
            action.entity_message_type.ok_or_else(|| invalid("an entity message has no kind"))?;
        let own = Some(self.plan.fence.instance.to_string());
        let mut scheduled = None;
        let target = match &mut message {
            EntityMessageType::EntityOperationSignaled(signal) => {
                self.payload("signal input", signal.input.as_deref())?;
                scheduled = signal.scheduled_time;
                signal.target_instance_id.clone()
            }
            EntityMessageType::EntityOperationCalled(call) => {
                self.payload("call input", call.input.as_deref())?;
                // Python and .NET never say who calls; the reply needs it (behaviour 40).
                call.parent_instance_id = own;
                call.parent_execution_id = Some(self.plan.record.execution.to_string());
                scheduled = call.scheduled_time;
                call.target_instance_id.clone()
            }
            EntityMessageType::EntityLockRequested(request) => {
                request.parent_instance_id = own;
                for id in &request.lock_set {
                    entity(id)?;
                }
                request.lock_set.first().cloned()
            }
            EntityMessageType::EntityUnlockSent(unlock) => {
                unlock.parent_instance_id = own;
                unlock.target_instance_id.clone()
            }
        };
        let to = entity(&target.unwrap_or_default())?;
        let visible_at =
            scheduled.map(|at| self.due("seconds until an entity operation", &at)).transpose()?;
        let now = self.now().0;
        let id = self.scheduled(event::entity_message(now, event_id, message.clone()))?;
        let event = event::entity_message(now, event::NO_ACTION, message);
        self.send(Outgoing { id, to, class: Class::Ordinary, answers: None, visible_at, event });
        Ok(())
    }

    fn terminate_other(&mut self, action: TerminateOrchestrationAction) -> Result<(), Stalled> {
        let to = instance("instance to terminate", &action.instance_id)?;
        self.payload("terminate reason", action.reason.as_deref())?;
        let event = event::execution_terminated(self.now().0, action.reason, action.recurse);
        self.send_control(to, Control::Terminate, event);
        Ok(())
    }

    /// Sends a control message that no history event stands for.
    pub(crate) fn send_control(&mut self, to: InstanceId, control: Control, event: HistoryEvent) {
        let id = self.derived_id();
        self.send(Outgoing {
            id,
            to,
            class: Class::Control(control),
            answers: None,
            visible_at: None,
            event,
        });
    }

    pub(crate) fn derived_id(&mut self) -> MessageId {
        self.derived += 1;
        let Plan { fence, record, .. } = &self.plan;
        identity::derived(&fence.instance, record.execution, fence.revision.next(), self.derived - 1)
    }

    pub(crate) fn send(&mut self, outgoing: Outgoing) {
        let Outgoing { id, to, class, answers, visible_at, event } = outgoing;
        let delayed = visible_at.is_some_and(|at| at > self.now());
        let ordinal = u32::try_from(self.messages.len()).ok().filter(|_| !delayed);
        self.produced.push(id);
        self.messages.push(Message {
            id,
            to,
            // Only an answer is for one run of its target; the caller of `answer_parent` fills it in.
            execution: None,
            class,
            origin: self.origin(ordinal),
            answers,
            // At once: a turn's time may be ahead of the store's, and then nobody would see it for a while.
            visible_at: visible_at.unwrap_or_default(),
            event: Encoded::new(&event),
        });
    }

    fn scheduled(&mut self, event: HistoryEvent) -> Result<MessageId, Stalled> {
        let encoded = Encoded::new(&event);
        self.scheduled_encoded(event, encoded)
    }

    fn scheduled_encoded(&mut self, event: HistoryEvent, encoded: Encoded) -> Result<MessageId, Stalled> {
        let id = self.append_encoded(event, encoded)?;
        let id = id.ok_or_else(|| invalid("an action schedules nothing"))?;
        if self.ledger.open_count() > self.limits.open_tasks {
            let found = self.ledger.open_count() as u64;
            return Err(Stalled::too_large(
                "open tasks, timers and children",
                found,
                self.limits.open_tasks as u64,
            ));
        }
        Ok(id)
    }

    pub(crate) fn origin(&self, ordinal: Option<u32>) -> Origin {
        let Plan { fence, record, .. } = &self.plan;
        Origin::Turn {
            instance: fence.instance.clone(),
            execution: record.execution,
            revision: fence.revision.next(),
            ordinal,
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.plan.now
    }

    pub(crate) fn payload(&self, what: &str, payload: Option<&str>) -> Result<(), Stalled> {
        let found = payload.map_or(0, str::len);
        if found > self.limits.payload_bytes {
            let what = format!("bytes of {what}");
            return Err(Stalled::too_large(&what, found as u64, self.limits.payload_bytes as u64));
        }
        Ok(())
    }
}

fn instance(what: &str, id: &str) -> Result<InstanceId, Stalled> {
    InstanceId::new(id).map_err(|error| invalid(format!("{what}: {error}")))
}

/// A call to what is no entity would be dropped as a message to an absent instance, and its caller wait for ever.
pub(crate) fn entity(id: &str) -> Result<InstanceId, Stalled> {
    let entity = instance("entity id", id)?;
    match entity.entity_name() {
        Some(_) => Ok(entity),
        None => Err(invalid(format!("entity id: {id:?} has not the form @name@key"))),
    }
}

fn check(what: &'static str, name: &str) -> Result<(), Stalled> {
    check_name(what, name).map_err(|error| invalid(error.to_string()))
}

pub(crate) fn check_labels(version: Option<&str>, tags: &BTreeMap<String, String>) -> Result<(), Stalled> {
    version.map_or(Ok(()), |version| check("version", version))?;
    tags.keys().try_for_each(|key| check("tag key", key))
}

pub(crate) fn invalid(reason: impl Into<String>) -> Stalled {
    Stalled::new(TroubleKind::InvalidAnswer, reason)
}

/// The completion among the actions: the first by id wins (behaviour 23); the rest, in the order of their ids.
pub(crate) fn split(
    mut actions: Vec<OrchestratorAction>,
) -> (Vec<OrchestratorAction>, Option<(i32, CompleteOrchestrationAction)>) {
    // Stable: .NET sends unlocks under the id of the completion, in the order they must happen.
    actions.sort_by_key(|action| action.id);
    let mut completion = None;
    actions.retain_mut(|action| match action.orchestrator_action_type.take_if(is_completion) {
        Some(ActionType::CompleteOrchestration(complete)) => {
            completion.get_or_insert((action.id, complete));
            false
        }
        _ => true,
    });
    (actions, completion)
}

fn is_completion(kind: &mut ActionType) -> bool {
    matches!(kind, ActionType::CompleteOrchestration(_))
}
