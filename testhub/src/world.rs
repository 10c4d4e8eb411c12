//! One run: a hub of a few lines, whose turns are core's.
//!
//! Nothing here decides what a message or an action is worth: `core::turn` does, as in every hub. What is here is a
//! store's part (deliver, apply, keep time) and the order in which things happen.

use std::collections::BTreeMap;
use std::panic::Location;

use dauer_core::limits::TurnLimits;
use dauer_core::model::{Class, Message, Record, Status, TaskFence};
use dauer_core::send::{self, Caller};
use dauer_core::turn::{self, Stalled};
use dauer_core::{Epoch, InstanceId, Timestamp};
use dauer_proto::{ActionType, EventType, HistoryEvent, OrchestrationStatus, TaskFailureDetails};
use dauer_replay::{Answer, Awaited, Failure, Live, Registry, TurnError};

use crate::activity::{Called, Outcome, Outstanding};
use crate::agenda::{Agenda, Work};
use crate::error::{Blocked, BlockedOn, TestError};
use crate::instance::Instance;
use crate::readable;
use crate::setup::{Plan, Planned, Setup};

/// What goes wrong in a run, on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    Nothing,
    /// The call of that number, counted from 0, fails.
    Call(usize),
    /// The host dies after that checkpoint, counted from 1.
    Crash(usize),
    /// The host dies after every checkpoint.
    Crashes,
}

/// A run, while it lasts and afterwards.
pub(crate) struct World<'s, 'a> {
    setup: &'s Setup<'a>,
    registry: &'s Registry,
    fault: Fault,
    agenda: Agenda,
    planned: usize,
    requests: u128,
    turns: usize,
    /// How often each activity was called.
    called: BTreeMap<String, usize>,
    trace: Trace,
}

/// What remains of a run.
#[derive(Default)]
pub(crate) struct Trace {
    pub(crate) now: Timestamp,
    pub(crate) instances: BTreeMap<InstanceId, Instance>,
    pub(crate) calls: Vec<Called>,
    /// The activity of each call, in the order they were made.
    pub(crate) scheduled: Vec<String>,
    pub(crate) checkpoints: usize,
}

impl<'s, 'a> World<'s, 'a> {
    pub(crate) fn new(setup: &'s Setup<'a>, registry: &'s Registry, fault: Fault) -> Self {
        let mut agenda = Agenda::new(setup.order);
        for plan in &setup.plans {
            agenda.later(setup.start.after(plan.at), Work::Planned);
        }
        let trace = Trace { now: setup.start, ..Trace::default() };
        let called = BTreeMap::new();
        Self { setup, registry, fault, agenda, planned: 0, requests: 0, turns: 0, called, trace }
    }

    /// Runs until the instance has ended and nothing more can happen at that moment.
    pub(crate) fn run(&mut self, start: Message) -> Result<(), TestError> {
        let main = start.to.clone();
        self.route(start);
        loop {
            if let Some(work) = self.agenda.pick() {
                self.carry_out(work, &main)?;
            } else if self.trace.instances.get(&main).is_none_or(|it| it.record.status.is_ended()) {
                return Ok(());
            } else if let Some(moment) = self.agenda.advance() {
                self.trace.now = self.trace.now.max(moment);
            } else {
                return Err(TestError::Stuck { waits: self.waits() });
            }
        }
    }

    pub(crate) fn into_trace(self) -> Trace {
        self.trace
    }

    /// A caller with a request id of its own.
    pub(crate) fn caller(&mut self) -> Caller {
        self.requests += 1;
        Caller { request: self.requests, repeatable: true, now: self.trace.now }
    }

    fn carry_out(&mut self, work: Work, main: &InstanceId) -> Result<(), TestError> {
        match work {
            Work::Turn(id) => self.turn(&id)?,
            Work::Task(call) => self.answer(call)?,
            Work::Answer(call, outcome) => {
                let message = self.answered(&call, outcome);
                self.route(message);
            }
            Work::Timer(message) => self.route(message),
            Work::Planned => {
                let setup = self.setup;
                if let Some(plan) = setup.plans.get(self.planned) {
                    self.planned += 1;
                    let message = self.planned_message(plan, main)?;
                    self.route(message);
                }
            }
        }
        Ok(())
    }

    fn planned_message(&mut self, plan: &Planned, main: &InstanceId) -> Result<Message, TestError> {
        let caller = self.caller();
        let to = plan.to.as_ref().unwrap_or(main).clone();
        Ok(match &plan.what {
            Plan::Raise { name, data } => {
                let data = self.stored(data, || format!("the data of event '{name}'"))?;
                send::raise(to, name, Some(data), caller)?
            }
            Plan::Suspend => send::suspend(to, None, caller)?,
            Plan::Resume => send::resume(to, None, caller)?,
            Plan::Terminate { output } => {
                let output = self.stored(output, || "the output of the termination".to_owned())?;
                send::terminate(to, Some(output), true, caller)?
            }
        })
    }

    /// The payload as it is stored, of JSON that the test has written.
    fn stored(&self, json: &str, what: impl FnOnce() -> String) -> Result<String, TestError> {
        let stored = self.registry.payloads().encode_json(json.to_owned());
        stored.map_err(|source| TestError::Unencodable { what: what(), source })
    }

    /// Delivers a message as a store does: a start creates what is absent, all else to nobody is dropped.
    fn route(&mut self, message: Message) {
        let now = self.trace.now;
        if let Class::Start(opening) = &message.class {
            let create = || Instance::created(message.to.clone(), opening.record(message.id), now);
            self.trace.instances.entry(message.to.clone()).or_insert_with(create);
        }
        if message.visible_at > now {
            return self.agenda.later(message.visible_at, Work::Timer(message));
        }
        let Some(instance) = self.trace.instances.get_mut(&message.to) else { return };
        instance.deliver(message, now);
        if instance.is_ready(now) {
            self.agenda.turn(&instance.id);
        }
    }

    fn turn(&mut self, id: &InstanceId) -> Result<(), TestError> {
        let Some(instance) =
            self.trace.instances.get(id).filter(|instance| instance.is_ready(self.trace.now))
        else {
            return Ok(());
        };
        self.turns += 1;
        if self.turns > self.setup.turns_max {
            return Err(TestError::Endless {
                name: instance.record.queue.name.to_string(),
                instance: id.clone(),
                turns: self.setup.turns_max,
                time: self.trace.now.since(self.setup.start),
            });
        }
        let refused = |source: Stalled| TestError::Refused { instance: id.clone(), source };
        let plan = turn::begin(instance.input(self.trace.now), &instance.ledger).map_err(refused)?;
        let ledger = instance.ledger.clone();
        let finished = if plan.is_run() {
            let past = if plan.is_fresh() { &[] } else { instance.history.as_slice() };
            let answer = self.replayed(id, past, &plan.new_events())?;
            let answer = with_status(answer, plan.record());
            turn::finish(plan, ledger, answer, &TurnLimits::default())
        } else {
            turn::settle(plan, ledger)
        };
        self.commit(id, finished.map_err(refused)?)
    }

    /// Runs the code from its history, twice: what differs did not come from the history.
    fn replayed(
        &self,
        id: &InstanceId,
        past: &[HistoryEvent],
        new: &[HistoryEvent],
    ) -> Result<Answer, TestError> {
        let run = || match Live::start(self.registry, past, new) {
            Ok((_, answer)) => Ok(answer),
            Err(TurnError::Unknown(source)) => {
                Err(TestError::NoOrchestration { instance: id.clone(), source })
            }
            Err(source) => Err(TestError::Turn { instance: id.clone(), source: Box::new(source) }),
        };
        let (first, second) = (run()?, run()?);
        if first == second {
            return Ok(first);
        }
        // A codec need not give the same text twice.
        let read = |answer| readable::answer(answer, self.registry.payloads());
        let (one, other) = (read(first.clone()), read(second));
        if one == other {
            return Ok(first);
        }
        let (first, second) = crate::text::difference(&one, &other);
        Err(TestError::NotDeterministic { instance: id.clone(), first, second })
    }

    fn commit(&mut self, id: &InstanceId, finished: turn::Finished) -> Result<(), TestError> {
        let now = self.trace.now;
        let turn::Finished { checkpoint, .. } = &finished;
        let (tasks, timers) = (checkpoint.tasks.clone(), checkpoint.timers.clone());
        let messages = checkpoint.messages.clone();
        let Some(instance) = self.trace.instances.get_mut(id) else { return Ok(()) };
        if let Some(over) = instance.apply(finished, now) {
            self.agenda.forget_timers(id, over);
            if instance.record.status == Status::Terminated {
                self.agenda.withdraw(id, over);
            }
        }
        if instance.is_ready(now) {
            self.agenda.turn(id);
        }
        for task in tasks {
            let name = task.queue.name.to_string();
            let nth = self.called.entry(name.clone()).or_default();
            let call = Outstanding::new(task, *nth, self.trace.scheduled.len())?;
            *nth += 1;
            self.trace.scheduled.push(name);
            self.agenda.now(Work::Task(Box::new(call)));
        }
        for timer in timers {
            match timer.visible_at {
                at if at > now => self.agenda.later(at, Work::Timer(timer)),
                _ => self.agenda.now(Work::Timer(timer)),
            }
        }
        messages.into_iter().for_each(|message| self.route(message));
        self.trace.checkpoints += 1;
        if self.fault == Fault::Crashes || self.fault == Fault::Crash(self.trace.checkpoints) {
            self.crash()?;
        }
        Ok(())
    }

    /// Carries an activity out, and has its answer delivered when its time has passed.
    fn answer(&mut self, mut call: Box<Outstanding>) -> Result<(), TestError> {
        let outcome = self.execute(&mut call)?;
        match self.setup.durations.get(call.request.name.as_str()) {
            Some(taken) if !taken.is_zero() => {
                let at = self.trace.now.after(*taken);
                self.agenda.later(at, Work::Answer(call, outcome));
            }
            _ => {
                let message = self.answered(&call, outcome);
                self.route(message);
            }
        }
        Ok(())
    }

    fn answered(&self, call: &Outstanding, outcome: Outcome) -> Message {
        let (task, instance) = (call.task.id, call.task.instance.clone());
        let fence = TaskFence { task, instance, epoch: Epoch::default() };
        send::task_answer(fence, &call.task, outcome, self.trace.now).answer
    }

    fn execute(&mut self, call: &mut Outstanding) -> Result<Outcome, TestError> {
        let setup = self.setup;
        let name = call.request.name.as_str();
        let Some(code) = setup.activities.get(name) else {
            let (name, instance) = (name.to_owned(), call.task.instance.clone());
            let location = self.place_of(&instance, call.task.event_id);
            return Err(TestError::NoActivity { name, instance, location });
        };
        call.attempts += 1;
        let outcome = if self.fault == Fault::Call(call.ordinal) {
            Err(injected_failure(name))
        } else {
            code(call, self.registry.payloads())?
        };
        self.trace.calls.push(Called {
            name: call.request.name.clone(),
            input: self.registry.payloads().decode(call.request.input.as_deref()).unwrap_or_default(),
            instance: call.task.instance.clone(),
            at: self.trace.now.since(self.setup.start),
            attempt: call.attempts,
            failed: outcome.is_err(),
        });
        Ok(outcome)
    }

    /// The host dies: whatever it was carrying out has happened, nobody knows what came of it, and it happens again.
    fn crash(&mut self) -> Result<(), TestError> {
        let mut agenda = std::mem::replace(&mut self.agenda, Agenda::new(self.setup.order));
        let again = agenda.outstanding().try_for_each(|work| match work {
            Work::Task(call) => self.execute(call).map(drop),
            Work::Answer(call, outcome) => {
                *outcome = self.execute(call)?;
                Ok(())
            }
            _ => Ok(()),
        });
        self.agenda = agenda;
        again
    }

    /// What everyone waits for when nothing can happen any more; what the test can bring about comes first.
    fn waits(&self) -> Vec<Blocked> {
        let living = self.trace.instances.values().filter(|instance| !instance.record.status.is_ended());
        let mut waits: Vec<_> = living.flat_map(|instance| self.waits_of(instance)).collect();
        waits.sort_by(|one, other| one.what.cmp(&other.what));
        waits
    }

    fn waits_of(&self, instance: &Instance) -> Vec<Blocked> {
        let id = instance.id.clone();
        if instance.record.status == Status::Suspended {
            return vec![Blocked { instance: id, what: BlockedOn::Resume, location: None }];
        }
        let Ok((live, _)) = Live::start(self.registry, &instance.history, &[]) else { return Vec::new() };
        let wait = |waiting: dauer_replay::Waiting| {
            let what = match waiting.what {
                Awaited::Event(name) => BlockedOn::Event(name),
                Awaited::Task(id) => {
                    child(&instance.history, id).map_or(BlockedOn::Task(id), BlockedOn::Child)
                }
                _ => return None,
            };
            Some(Blocked { instance: id.clone(), what, location: Some(waiting.location) })
        };
        live.awaits().into_iter().filter_map(wait).collect()
    }

    /// Where the code of an instance waits for a task.
    fn place_of(&self, instance: &InstanceId, task: i32) -> Option<&'static Location<'static>> {
        let history = &self.trace.instances.get(instance)?.history;
        let (live, _) = Live::start(self.registry, history, &[]).ok()?;
        let waiting = live.awaits().into_iter().find(|waiting| waiting.what == Awaited::Task(task));
        waiting.map(|waiting| waiting.location)
    }
}

/// The name of the child that was started under that id.
fn child(history: &[HistoryEvent], id: i32) -> Option<String> {
    history.iter().find_map(|event| match &event.event_type {
        Some(EventType::SubOrchestrationInstanceCreated(child)) if event.event_id == id => {
            Some(child.name.clone())
        }
        _ => None,
    })
}

/// A failure that no retry cures: a call that is retried counts as failed only then.
fn injected_failure(name: &str) -> TaskFailureDetails {
    let failure = Failure::new("Injected", format!("the test lets this call of '{name}' fail"));
    TaskFailureDetails::from(failure).non_retriable()
}

/// A termination runs no code and knows no status: the last one stays, as in every worker.
fn with_status(answer: Answer, record: &Record) -> turn::Answer {
    let terminated = answer.actions.iter().any(|action| match &action.orchestrator_action_type {
        Some(ActionType::CompleteOrchestration(end)) => {
            end.orchestration_status() == OrchestrationStatus::Terminated
        }
        _ => false,
    });
    let last = record.details.custom_status().filter(|_| terminated);
    let custom_status = answer.custom_status.or_else(|| last.map(|status| status.as_str().to_owned()));
    turn::Answer { actions: answer.actions, custom_status, trace: None }
}
