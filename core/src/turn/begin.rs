//! The first half of a turn: what each message is worth.

use std::collections::BTreeSet;
use std::sync::Arc;

use dauer_proto::{EventType, HistoryEvent, event, failure, time};

use crate::identity;
use crate::ids::{MessageId, Timestamp};
use crate::ledger::Ledger;
use crate::model::{
    Class, Completion, Control, Details, DropReason, Encoded, Fate, Fence, Message, Opening, Origin, Over,
    Parent, Record, Status, TroubleKind,
};
use crate::planted::{self, Bug};
use crate::turn::among::Ids;
use crate::turn::{Input, NewEvent, Plan, Stalled, Step, early};

/// Decides what a claimed instance's messages are worth.
///
/// `ledger` is that of the record's execution. A plan that [`Plan::is_run`] goes to the worker and then to
/// [`super::finish`]; any other goes to [`super::settle`] at once.
///
/// # Errors
/// [`Stalled`] when a message cannot be read.
pub fn begin(input: Input, ledger: &Ledger) -> Result<Plan, Stalled> {
    let Input { fence, record, messages, mut completions, now } = input;
    let came = Came { messages: &messages, completions: &completions, now };
    let not_yet_due = early::not_yet_due(&record, came);
    let gather = Gather::new((fence, record), came, ledger);
    let mut plan = match not_yet_due {
        Some(start) => early::before_its_time(gather, start)?,
        None => in_its_time(gather)?,
    };
    // Those that the turn has used: they have a fate.
    let used = Ids::of(plan.fates.iter().map(|(id, _)| *id));
    completions.retain(|done| used.has(done.answer.id));
    plan.completions = completions;
    Ok(plan)
}

fn in_its_time(mut gather: Gather<'_>) -> Result<Plan, Stalled> {
    for message in gather.came.messages {
        if gather.take(message)? == Flow::Stop {
            break;
        }
    }
    gather.take_completions()?;
    if !gather.started && !gather.events.is_empty() {
        let text =
            "a turn of an instance that has not begun came without its start; the store must put it first";
        return Err(Stalled::new(TroubleKind::Undecodable, text));
    }
    let step = match std::mem::replace(&mut gather.step, Step::Quiet) {
        Step::Run { .. } if gather.events.is_empty() && !gather.woken => Step::Quiet,
        step => step,
    };
    if matches!(step, Step::Run { .. } | Step::Terminate) {
        gather.precede_with_time();
    }
    Ok(gather.into_plan(step))
}

/// Whether the loop over the messages goes on.
#[derive(PartialEq)]
pub(super) enum Flow {
    Next,
    /// What follows stays in the inbox for the next turn.
    Stop,
}

/// What has come for the instance, and when.
#[derive(Clone, Copy)]
pub(super) struct Came<'a> {
    pub(super) messages: &'a [Message],
    pub(super) completions: &'a [Completion],
    pub(super) now: Timestamp,
}

pub(super) struct Gather<'a> {
    pub(super) came: Came<'a>,
    ledger: &'a Ledger,
    fence: Fence,
    before: Details,
    pub(super) record: Record,
    pub(super) started: bool,
    suspended: bool,
    /// Whether the code is to be run although no event may have come: it was rewound.
    woken: bool,
    /// What messages of this turn have answered; nothing is kept of the answer that comes alone.
    closed: BTreeSet<MessageId>,
    events: Vec<HistoryEvent>,
    origins: Vec<NewEvent>,
    fates: Vec<(MessageId, Fate)>,
    refusals: Vec<Message>,
    now: Timestamp,
    pub(super) step: Step,
}

impl<'a> Gather<'a> {
    fn new((fence, record): (Fence, Record), came: Came<'a>, ledger: &'a Ledger) -> Self {
        let count = came.messages.len() + came.completions.len();
        Self {
            came,
            ledger,
            fence,
            before: record.details.clone(),
            record,
            started: ledger.started().is_some(),
            suspended: ledger.is_suspended(),
            woken: false,
            closed: BTreeSet::new(),
            // Events are large: room for all of them, the time before them and what most turns ask for, and no more.
            events: Vec::with_capacity(count + 2),
            origins: Vec::with_capacity(count + 1),
            fates: Vec::with_capacity(count),
            refusals: Vec::new(),
            now: came.now.max(ledger.now()),
            step: Step::Run { fresh: false },
        }
    }

    pub(super) fn take(&mut self, message: &Message) -> Result<Flow, Stalled> {
        match &message.class {
            Class::Start(start) => return self.start(message, start),
            Class::Rewind(start) => return self.rewind(message, start),
            Class::Control(control) => return self.control(message, *control),
            Class::Ordinary => self.ordinary(message)?,
        }
        Ok(Flow::Next)
    }

    fn control(&mut self, message: &Message, control: Control) -> Result<Flow, Stalled> {
        if let Some(reason) = self.useless(message) {
            self.dropped(message, reason);
            return Ok(Flow::Next);
        }
        let moot = match control {
            Control::Suspend => self.suspended,
            Control::Resume => !self.suspended,
            Control::Terminate => false,
        };
        // It changes nothing, and Python's worker fails on such a resume and never comes to an end with such a suspend.
        if moot {
            check_class(message, &message.event.event()?)?;
            self.dropped(message, DropReason::NotOpen);
            return Ok(Flow::Next);
        }
        if control == Control::Terminate {
            return self.terminate(message);
        }
        self.accept(message)?;
        self.suspended = control == Control::Suspend;
        Ok(if self.suspended { Flow::Stop } else { Flow::Next })
    }

    /// A terminate comes alone: Java's worker dies of one that comes with whatever ends the run. A run that has not begun
    /// ends without its code, or one that continues as new in every turn could never be terminated.
    fn terminate(&mut self, message: &Message) -> Result<Flow, Stalled> {
        if self.events.is_empty() {
            self.accept(message)?;
        } else if self.ledger.started().is_none() && !self.is_fresh() {
            self.accept(message)?;
            self.step = Step::Terminate;
        }
        Ok(Flow::Stop)
    }

    /// Results that were never in the inbox come after what was. A suspended run takes none: they stay out of the
    /// checkpoint, and the hub delivers them as messages.
    fn take_completions(&mut self) -> Result<(), Stalled> {
        for completion in self.came.completions {
            match self.step {
                Step::Replace(_) => self.dropped(&completion.answer, DropReason::OtherExecution),
                _ if self.suspended && planted::is_on(Bug::SuspendLoses) => {
                    self.dropped(&completion.answer, DropReason::NotOpen);
                }
                _ if self.suspended => {}
                _ => self.ordinary(&completion.answer)?,
            }
        }
        Ok(())
    }

    /// Why a message can have no effect, whatever it says.
    fn useless(&self, message: &Message) -> Option<DropReason> {
        let other = message.execution.is_some_and(|execution| execution != self.record.execution);
        if other && !planted::is_on(Bug::StaleExecution) {
            Some(DropReason::OtherExecution)
        } else if self.record.status.is_ended() {
            Some(DropReason::Ended)
        } else {
            None
        }
    }

    fn start(&mut self, message: &Message, start: &Opening) -> Result<Flow, Stalled> {
        let own = start.execution == self.record.execution;
        let ended = self.record.status.is_ended();
        if own && !self.started && !ended {
            self.started = true;
            self.accept(message)?;
        } else if own || message.id == self.record.start {
            self.dropped(message, DropReason::Repeat);
        } else if ended {
            self.replace_ended(message, start)?;
        } else if start.over == Over::Terminate {
            self.replace_living(message);
            return Ok(Flow::Stop);
        } else {
            self.refuse(message, start);
        }
        Ok(Flow::Next)
    }

    /// The parent was rewound, and asks for this child again: whatever it has become, the parent is to get its answer.
    fn rewind(&mut self, message: &Message, start: &Opening) -> Result<Flow, Stalled> {
        let own = start.execution == self.record.execution;
        let ended = self.record.status.is_ended();
        let called_by =
            |parent: &Option<Box<Parent>>| parent.as_ref().map(|p| (p.instance.clone(), p.event_id));
        let same_call = called_by(&start.parent) == called_by(&self.record.parent);
        if own && !self.started && !ended {
            // There was none any more, and this message has made it.
            self.started = true;
            self.accept(message)?;
        } else if own || message.id == self.record.start {
            self.dropped(message, DropReason::Repeat);
        } else if !same_call && ended {
            self.replace_ended(message, start)?;
        } else if !same_call {
            self.refuse(message, start);
        } else {
            // From now on it is the child of the parent's new run.
            self.record.start = message.id;
            self.record.parent.clone_from(&start.parent);
            self.dropped(message, DropReason::Obeyed);
            match self.record.status {
                Status::Failed => self.step = Step::Rewind(Some("the parent was rewound".into())),
                _ if ended => self.step = Step::AnswerAgain,
                _ => return Ok(Flow::Next),
            }
            return Ok(Flow::Stop);
        }
        Ok(Flow::Next)
    }

    fn is_fresh(&self) -> bool {
        matches!(self.step, Step::Run { fresh: true })
    }

    /// Ends a living run in favour of a start. After events of a run that has begun the start waits for the next
    /// turn: those events were there first. A run that has not begun gives way at once, or one that continues as new
    /// in every turn could never be replaced.
    fn replace_living(&mut self, message: &Message) {
        let begun = self.ledger.started().is_some();
        if self.is_fresh() || begun && !self.events.is_empty() {
            return;
        }
        self.events.clear();
        self.origins.clear();
        for (_, fate) in &mut self.fates {
            if let Fate::Event(_) = fate {
                *fate = Fate::Dropped(DropReason::OtherExecution);
            }
        }
        // Taken from the inbox and put before it, in the same commit.
        self.dropped(message, DropReason::PutOff);
        self.step = Step::Replace(Box::new(message.clone()));
    }

    /// An ended instance is replaced by the first start that is not its own (behaviour 24).
    fn replace_ended(&mut self, message: &Message, start: &Opening) -> Result<(), Stalled> {
        let generation = self.record.generation + 1;
        let revision = self.record.revision;
        self.record = Record { generation, revision, ..start.record(message.id) };
        self.record.times.created = self.came.now;
        self.now = self.came.now;
        self.started = true;
        self.step = Step::Run { fresh: true };
        self.accept(message)
    }

    /// A child cannot be started over a running instance: its parent is told instead of waiting for ever.
    fn refuse(&mut self, message: &Message, start: &Opening) {
        if let Some(parent) = &start.parent {
            let id = &message.to;
            let text = format!("The instance '{id}' is running already; choose another id for the child.");
            let details = failure::failure("InstanceAlreadyExists", text).non_retriable();
            let failed = event::sub_orchestration_failed(self.came.now.0, parent.event_id, details);
            self.refusals.push(Message {
                id: identity::answer(message.id, self.record.execution),
                to: parent.instance.clone(),
                execution: Some(parent.execution),
                class: Class::Ordinary,
                origin: Origin::Turn {
                    instance: message.to.clone(),
                    execution: self.record.execution,
                    revision: self.fence.revision.next(),
                    ordinal: u32::try_from(self.refusals.len()).ok(),
                },
                answers: Some(message.id),
                visible_at: Timestamp::default(),
                event: Encoded::new(&failed),
            });
        }
        self.dropped(message, DropReason::Running);
    }

    fn ordinary(&mut self, message: &Message) -> Result<(), Stalled> {
        if let Some(reason) = self.useless(message) {
            self.dropped(message, reason);
            return Ok(());
        }
        if let Some(answers) = message.answers
            && (self.ledger.open(answers).is_none() || !self.closes(answers))
            && !planted::is_on(Bug::DuplicateCompletion)
            && !planted::is_on(Bug::StaleExecution)
        {
            self.dropped(message, DropReason::NotOpen);
            return Ok(());
        }
        self.accept(message)
    }

    /// Whether nothing in this turn has answered that before.
    fn closes(&mut self, answers: MessageId) -> bool {
        let alone = self.came.messages.len() + self.came.completions.len() == 1;
        alone || self.closed.insert(answers)
    }

    pub(super) fn accept(&mut self, message: &Message) -> Result<(), Stalled> {
        let event = message.event.event()?;
        check_class(message, &event)?;
        if let Some(EventType::ExecutionRewound(_)) = &event.event_type {
            // It is in the history since the rewind; some workers could not read it among the new events.
            self.woken = true;
            self.dropped(message, DropReason::Obeyed);
            return Ok(());
        }
        if let Some(EventType::TimerFired(fired)) = &event.event_type
            && let Some(fire_at) = &fired.fire_at
        {
            // A timer never fires early, not even by a clock that stepped back between two hosts.
            let fire_at = time::to_millis_ceil(fire_at).unwrap_or_default();
            self.now = self.now.max(Timestamp(fire_at));
        }
        let index = u32::try_from(self.events.len()).unwrap_or(u32::MAX);
        self.fates.push((message.id, Fate::Event(index)));
        self.events.push(event);
        self.origins.push(NewEvent { encoded: message.event.clone(), source: Some(message.id) });
        Ok(())
    }

    fn precede_with_time(&mut self) {
        self.begin_with(event::orchestrator_started(self.now.0));
        // Every fate counts from the first event of the batch, which is now the OrchestratorStarted.
        for (_, fate) in &mut self.fates {
            if let Fate::Event(index) = fate {
                *index += 1;
            }
        }
    }

    /// Puts an event of the turn's own before all others.
    pub(super) fn begin_with(&mut self, event: HistoryEvent) {
        self.origins.insert(0, NewEvent { encoded: Encoded::new(&event), source: None });
        self.events.insert(0, event);
    }

    /// The plan, to which the caller adds the completions.
    pub(super) fn into_plan(self, step: Step) -> Plan {
        let Self { fence, before, record, events, origins, fates, refusals, now, .. } = self;
        let events = Arc::new(events);
        Plan { fence, before, record, completions: Vec::new(), now, events, origins, fates, refusals, step }
    }

    pub(super) fn dropped(&mut self, message: &Message, reason: DropReason) {
        self.fates.push((message.id, Fate::Dropped(reason)));
    }
}

/// The class is what stores act on, the event what workers see: they must tell the same story.
fn check_class(message: &Message, event: &HistoryEvent) -> Result<(), Stalled> {
    let fits = matches!(
        (&message.class, &event.event_type),
        (Class::Start(_) | Class::Rewind(_), Some(EventType::ExecutionStarted(_)))
            | (Class::Control(Control::Suspend), Some(EventType::ExecutionSuspended(_)))
            | (Class::Control(Control::Resume), Some(EventType::ExecutionResumed(_)))
            | (Class::Control(Control::Terminate), Some(EventType::ExecutionTerminated(_)))
            | (Class::Ordinary, Some(_))
    );
    if fits {
        return Ok(());
    }
    let kind = event::kind_name(event);
    let text = format!("message {} of class {:?} carries a {kind} event", message.id, message.class);
    Err(Stalled::new(TroubleKind::Undecodable, text))
}
