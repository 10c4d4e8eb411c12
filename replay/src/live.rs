//! The loop: events in, actions out.
//!
//! Between two polls exactly one completion is delivered, in the order of the history. The code therefore sees the
//! same sequence whether the events come one per turn, many at once, or all again in a replay.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use dauer_core::limits::POLLS_PER_EVENT_MAX;
use dauer_proto::{
    ActionType, CompleteOrchestrationAction, EventType, HistoryEvent, OrchestrationStatus,
    OrchestratorAction, action, event,
};

use crate::context::OrchestrationContext;
use crate::events;
use crate::guard::{TurnError, Waiting, time_of};
use crate::handler::{End, OrchestrationFuture, Program};
use crate::payload::Payloads;
use crate::registry::{Registry, UnknownOrchestration};
use crate::start;
use crate::state::{Outcome, Shared};

/// What a turn comes to.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Answer {
    /// What the code asks for, in the order of ids; a completion comes last.
    pub actions: Vec<OrchestratorAction>,
    /// The custom status as it is now: the server overwrites it with every answer. A termination, which runs no code,
    /// does not know it and has none.
    pub custom_status: Option<String>,
}

/// One live orchestration: its code, in the middle of running, between two turns.
///
/// It may move between threads. Inside a tokio task, run it under `tokio::task::unconstrained`: tokio's budget
/// otherwise makes channels inside the orchestration pend and wake themselves until the limit of polls.
///
/// After an error it is poisoned: the code may have gone half a step further than the history. Drop it and start again
/// from the history; another turn gives [`TurnError::Poisoned`].
pub struct Live {
    phase: Phase,
}

enum Phase {
    Active(Box<Run>),
    /// Terminated from outside: there is nothing left to run, and nothing was learned of it.
    Terminated,
    Poisoned,
}

struct Run {
    shared: Arc<Shared>,
    waker: Waker,
    code: Code,
    /// While suspended, what would be delivered is held back, and the code does not run.
    suspended: bool,
    held: VecDeque<HistoryEvent>,
}

enum Code {
    NotBegun(Program),
    Running(OrchestrationFuture),
    /// It has ended, and the end is not yet answered.
    Ended(End),
    Answered,
}

impl Live {
    /// Replays the past, delivers the new events, and answers.
    ///
    /// `past` is the whole history of the execution, `new` what has arrived since. With nothing new it is a pure
    /// replay, whose actions are what the history does not have.
    ///
    /// # Errors
    /// [`TurnError`] when the code is not registered, does not fit the history, or does something that cannot be
    /// replayed.
    pub fn start(
        registry: &Registry,
        past: &[HistoryEvent],
        new: &[HistoryEvent],
    ) -> Result<(Self, Answer), TurnError> {
        let find = |name: &str, version: Option<&str>| registry.find_orchestration(name, version).cloned();
        Self::start_found(find, registry.payloads(), past, new)
    }

    /// Like [`Live::start`] with code that is at hand, whatever name the history has, and payloads as JSON.
    ///
    /// # Errors
    /// As [`Live::start`].
    pub fn start_program(
        program: &Program,
        past: &[HistoryEvent],
        new: &[HistoryEvent],
    ) -> Result<(Self, Answer), TurnError> {
        Self::start_found(|_, _| Ok(program.clone()), &Payloads::default(), past, new)
    }

    fn start_found(
        find: impl FnOnce(&str, Option<&str>) -> Result<Program, UnknownOrchestration>,
        payloads: &Payloads,
        past: &[HistoryEvent],
        new: &[HistoryEvent],
    ) -> Result<(Self, Answer), TurnError> {
        if let Some(request) = start::termination(new).or_else(|| start::termination(past)) {
            let actions = vec![start::terminated(start::next_id(past), request)];
            return Ok((Self { phase: Phase::Terminated }, Answer { actions, custom_status: None }));
        }
        let identity = start::identity(start::find(past, new)?)?;
        let program = find(&identity.name, identity.version.as_deref())?;
        let mut run = Run::new(Shared::new(identity, payloads.clone()), program);
        run.feed(past)?;
        if !new.is_empty() {
            run.shared.lock().replaying = false;
        }
        run.feed(new)?;
        let answer = run.answer();
        Ok((Self { phase: Phase::Active(Box::new(run)) }, answer))
    }

    /// Delivers what has arrived since the last turn, and answers. Nothing is replayed: the cost does not depend on
    /// how long the history is.
    ///
    /// # Errors
    /// As [`Live::start`], and [`TurnError::Poisoned`] after an earlier error.
    pub fn turn(&mut self, new: &[HistoryEvent]) -> Result<Answer, TurnError> {
        let run = match &mut self.phase {
            Phase::Active(run) => run,
            Phase::Terminated => return Ok(Answer::default()),
            Phase::Poisoned => return Err(TurnError::Poisoned),
        };
        if let Some(request) = start::termination(new)
            && !matches!(run.code, Code::Answered)
        {
            let actions = vec![start::terminated(run.shared.lock().next_id(), request)];
            self.phase = Phase::Terminated;
            return Ok(Answer { actions, custom_status: None });
        }
        run.shared.lock().replaying = false;
        match run.feed(new) {
            Ok(()) => Ok(run.answer()),
            Err(error) => {
                self.phase = Phase::Poisoned;
                Err(error)
            }
        }
    }

    /// Whether the execution has ended: further turns have nothing to say.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        match &self.phase {
            Phase::Active(run) => run.is_finished(),
            Phase::Terminated => true,
            Phase::Poisoned => false,
        }
    }

    /// What the code waits for between two turns; nothing once it has ended.
    #[must_use]
    pub fn awaits(&self) -> Vec<Waiting> {
        match &self.phase {
            Phase::Active(run) => run.shared.lock().awaited(),
            Phase::Terminated | Phase::Poisoned => Vec::new(),
        }
    }
}

impl Run {
    fn new(shared: Arc<Shared>, program: Program) -> Self {
        let waker = shared.signal.waker();
        Self { shared, waker, code: Code::NotBegun(program), suspended: false, held: VecDeque::new() }
    }

    fn is_finished(&self) -> bool {
        matches!(self.code, Code::Ended(_) | Code::Answered)
    }

    fn feed(&mut self, events: &[HistoryEvent]) -> Result<(), TurnError> {
        // Something may have happened since the last turn that must not.
        self.check()?;
        events.iter().try_for_each(|event| self.accept(event))
    }

    fn accept(&mut self, event: &HistoryEvent) -> Result<(), TurnError> {
        let Some(kind) = &event.event_type else { return Ok(()) };
        match kind {
            EventType::OrchestratorStarted(_) => self.shared.lock().now = time_of(event)?,
            EventType::ExecutionSuspended(_) => self.suspended = !self.is_finished(),
            EventType::ExecutionResumed(_) => {
                self.suspended = false;
                while let Some(event) = self.held.pop_front() {
                    self.deliver(&event)?;
                }
            }
            record if start::is_record(record) => {
                let finished = self.is_finished();
                self.shared.lock().confirm(event.event_id, record, finished)?;
            }
            _ if !is_delivered(event) => {}
            _ if self.suspended => self.held.push_back(event.clone()),
            _ => self.deliver(event)?,
        }
        Ok(())
    }

    /// Gives one event to the code and lets it run until it waits again.
    fn deliver(&mut self, event: &HistoryEvent) -> Result<(), TurnError> {
        let Some(kind) = &event.event_type else { return Ok(()) };
        let _running = self.shared.signal.enter();
        if let EventType::ExecutionStarted(started) = kind {
            self.begin(started.input.as_deref())?;
        } else {
            // Under guard, too: the waker that is woken may be of the user's own making.
            let given = catch_unwind(AssertUnwindSafe(|| hand_over(&self.shared, kind, event)));
            given.map_err(|panic| self.panicked(panic))?;
        }
        self.run_until_blocked()
    }

    fn begin(&mut self, input: Option<&str>) -> Result<(), TurnError> {
        // A second start is a repetition.
        let Code::NotBegun(program) = &self.code else { return Ok(()) };
        let context = OrchestrationContext::new(Arc::clone(&self.shared));
        let begun = catch_unwind(AssertUnwindSafe(|| program.begin(context, input)));
        let future = begun
            .map_err(|panic| self.panicked(panic))?
            .map_err(|source| TurnError::Undecodable { name: self.shared.identity.name.clone(), source })?;
        self.code = Code::Running(future);
        self.shared.signal.request_poll();
        Ok(())
    }

    fn run_until_blocked(&mut self) -> Result<(), TurnError> {
        let mut polls = 0;
        while let Code::Running(future) = &mut self.code
            && self.shared.signal.take_woken()
        {
            if polls == POLLS_PER_EVENT_MAX {
                let (instance, after) = self.whereabouts();
                return Err(TurnError::PollLimit { instance, after });
            }
            polls += 1;
            let mut context = Context::from_waker(&self.waker);
            let polled = catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)));
            match polled.map_err(|panic| self.panicked(panic))? {
                Poll::Pending => {}
                Poll::Ready(End::Unencodable { what, source }) => {
                    let what = format!("{what} of orchestration '{}'", self.shared.identity.name);
                    return Err(TurnError::Unencodable { what, source });
                }
                Poll::Ready(end) => self.stop(Code::Ended(end))?,
            }
            self.check()?;
        }
        if matches!(self.code, Code::Running(_)) && !self.shared.lock().waits() {
            let (instance, after) = self.whereabouts();
            return Err(TurnError::NotDurable { instance, after });
        }
        Ok(())
    }

    /// What the futures and the waker have to report. Once the end is answered, nothing can change it.
    fn check(&self) -> Result<(), TurnError> {
        if matches!(self.code, Code::Answered) {
            return Ok(());
        }
        if let Some(fault) = self.shared.lock().take_fault() {
            return Err(fault);
        }
        if self.shared.signal.was_foreign() {
            let (instance, after) = self.whereabouts();
            return Err(TurnError::ForeignWake { instance, after });
        }
        Ok(())
    }

    fn answer(&mut self) -> Answer {
        let was_answered = matches!(self.code, Code::Answered);
        let end = match &mut self.code {
            Code::Ended(_) => std::mem::replace(&mut self.code, Code::Answered),
            _ => Code::Answered,
        };
        let mut state = self.shared.lock();
        let mut actions = state.take_actions();
        if was_answered {
            // Nothing of the code is left; only a context that was leaked can have asked for something.
            actions.clear();
        }
        if let Code::Ended(end) = end {
            let completion = match end {
                End::Continued(_) => {
                    let new_version = state.next_version.take();
                    let carried = completion(end, state.mailbox.carry_over());
                    CompleteOrchestrationAction { new_version, ..carried }
                }
                _ => completion(end, Vec::new()),
            };
            actions.push(action::new(state.next_id(), ActionType::CompleteOrchestration(completion)));
        }
        Answer { actions, custom_status: state.status.clone() }
    }

    fn whereabouts(&self) -> (dauer_core::InstanceId, Option<crate::guard::Place>) {
        (self.shared.identity.instance.clone(), self.shared.lock().last)
    }

    fn panicked(&self, panic: Box<dyn Any + Send>) -> TurnError {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).map(str::to_owned);
        let message = text.unwrap_or_else(|| {
            // Something of the user's own, whose drop may panic again: better to leak it.
            std::mem::forget(panic);
            "(the panic carries no message)".to_owned()
        });
        let (instance, after) = self.whereabouts();
        TurnError::Panic { instance, after, message }
    }

    /// Drops the code. What it still holds may panic, too.
    fn stop(&mut self, next: Code) -> Result<(), TurnError> {
        let code = std::mem::replace(&mut self.code, next);
        catch_unwind(AssertUnwindSafe(|| drop(code))).map_err(|panic| self.panicked(panic))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Dropping futures wakes others; here that is nobody's business any more. A panic ends here: whoever drops a
        // live orchestration has no part in it.
        let _running = self.shared.signal.enter();
        let _panic = self.stop(Code::Answered);
    }
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Live");
        match &self.phase {
            Phase::Active(run) => {
                out.field("identity", &run.shared.identity).field("finished", &run.is_finished())
            }
            Phase::Terminated => out.field("terminated", &true),
            Phase::Poisoned => out.field("poisoned", &true),
        };
        out.finish_non_exhaustive()
    }
}

/// Whether the event is given to the code, rather than to the loop.
fn is_delivered(event: &HistoryEvent) -> bool {
    let Some(kind) = &event.event_type else { return false };
    matches!(kind, EventType::ExecutionStarted(_) | EventType::EventRaised(_))
        || event::answer(event).is_some()
}

fn hand_over(shared: &Shared, kind: &EventType, event: &HistoryEvent) {
    if let EventType::EventRaised(raised) = kind {
        events::raise(shared, raised, event);
    } else if let Some((answer, outcome)) = event::answer(event).zip(outcome(kind)) {
        shared.answer(answer, outcome);
    }
}

fn outcome(kind: &EventType) -> Option<Outcome> {
    Some(match kind {
        EventType::TaskCompleted(completed) => Ok(completed.result.clone()),
        EventType::SubOrchestrationInstanceCompleted(completed) => Ok(completed.result.clone()),
        EventType::TimerFired(_) => Ok(None),
        // Details are always there (behaviour 27); without them it is still a failure.
        EventType::TaskFailed(failed) => Err(failed.failure_details.clone().unwrap_or_default()),
        EventType::SubOrchestrationInstanceFailed(failed) => {
            Err(failed.failure_details.clone().unwrap_or_default())
        }
        _ => return None,
    })
}

fn completion(end: End, carryover_events: Vec<HistoryEvent>) -> CompleteOrchestrationAction {
    let (status, result, failure) = match end {
        End::Completed(output) => (OrchestrationStatus::Completed, Some(output), None),
        End::Continued(input) => (OrchestrationStatus::ContinuedAsNew, Some(input), None),
        End::Failed(failure) => (OrchestrationStatus::Failed, None, Some(*failure)),
        // Never kept as an end; see `run_until_blocked`.
        End::Unencodable { .. } => (OrchestrationStatus::Failed, None, None),
    };
    CompleteOrchestrationAction {
        orchestration_status: status.into(),
        result,
        failure_details: failure,
        carryover_events,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
