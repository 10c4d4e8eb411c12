//! What a context, its futures and the loop share.
//!
//! The lock is never held while foreign code runs: values are encoded before and decoded after, and wakers are cloned
//! before, woken and dropped after. A waker belongs to whichever combinator polled, and dropping one may drop futures
//! of ours, which lock again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use dauer_core::{ExecutionId, InstanceId, Timestamp};
use dauer_proto::event::{Answer, ScheduledKind};
use dauer_proto::{ActionType, EventType, OrchestratorAction, TaskFailureDetails, action};

use crate::events::Mailbox;
use crate::guard::{Awaited, Decision, Halt, Place, TurnError, Waiting, agrees};
use crate::payload::Payloads;
use crate::signal::Signal;

/// What came back for a task: a result, or the failure.
pub(crate) type Outcome = Result<Option<String>, TaskFailureDetails>;

/// Who is running; fixed for one execution.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) instance: InstanceId,
    pub(crate) execution: ExecutionId,
}

/// Someone who waits, and where.
#[derive(Debug)]
pub(crate) struct Wait {
    pub(crate) waker: Waker,
    pub(crate) place: Place,
}

#[derive(Debug)]
struct Decided {
    action: ActionType,
    place: Place,
}

/// A task whose future still exists. Those nobody holds any more are not here, so their answers are ignored.
#[derive(Debug)]
struct Open {
    kind: ScheduledKind,
    outcome: Option<Outcome>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) now: Timestamp,
    pub(crate) replaying: bool,
    pub(crate) status: Option<String>,
    pub(crate) uuids: u64,
    /// The version of the next run, if this one continues as new.
    pub(crate) next_version: Option<String>,
    pub(crate) mailbox: Mailbox,
    /// The last place where the code took a durable step.
    pub(crate) last: Option<Place>,
    next_id: i32,
    /// Asked for, and not seen in the history so far. What is left when the history ends is new: also where the
    /// history has gaps, because a rewind takes failed calls out of it, for them to be asked for again.
    /// Boxed: most turns ask for one thing, and the map makes room for eleven.
    decided: BTreeMap<i32, Box<Decided>>,
    open: BTreeMap<i32, Open>,
    waiting: BTreeMap<i32, Wait>,
    fault: Option<TurnError>,
}

impl State {
    /// Whether anything that the history can bring is waited for. Costs nothing: empty maps are removed.
    pub(crate) fn waits(&self) -> bool {
        !self.waiting.is_empty() || self.mailbox.is_waited_for()
    }

    /// Everything that is waited for: tasks in the order of their ids, then events.
    pub(crate) fn awaited(&self) -> Vec<Waiting> {
        let tasks = self.waiting.iter().map(|(id, wait)| (Awaited::Task(*id), wait.place));
        let all = tasks.chain(self.mailbox.awaited());
        all.map(|(what, location)| Waiting { what, location }).collect()
    }

    pub(crate) fn next_id(&self) -> i32 {
        self.next_id
    }

    /// Keeps the first fault: what follows is a consequence.
    pub(crate) fn fail(&mut self, fault: TurnError) {
        self.fault.get_or_insert(fault);
    }

    pub(crate) fn take_fault(&mut self) -> Option<TurnError> {
        self.fault.take()
    }

    /// The actions that the history does not have, in the order they were asked for.
    pub(crate) fn take_actions(&mut self) -> Vec<OrchestratorAction> {
        let decided = std::mem::take(&mut self.decided);
        decided.into_iter().map(|(id, decided)| action::new(id, decided.action)).collect()
    }

    /// How many tasks, waits and unread events are kept.
    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.decided.len() + self.open.len() + self.waiting.len() + self.mailbox.size()
    }

    fn blocked_at(&self) -> Option<Place> {
        self.waiting.values().next().map(|wait| wait.place).or_else(|| self.mailbox.first_place())
    }

    /// Compares what the history recorded with what the code asked for. The record of a task stands behind the events
    /// that led to it, so at this point the code must have asked.
    pub(crate) fn confirm(&mut self, id: i32, event: &EventType, finished: bool) -> Result<(), TurnError> {
        let Some(decided) = self.decided.remove(&id) else {
            let state = match self.blocked_at() {
                _ if finished => Halt::Finished,
                Some(place) => Halt::Blocked(place),
                None => Halt::NotBegun,
            };
            return Err(TurnError::LeftOver { state, id, expected: Decision::recorded(event) });
        };
        if agrees(&decided.action, event) {
            return Ok(());
        }
        let (found, expected) = (Decision::made(&decided.action), Decision::recorded(event));
        Err(TurnError::Mismatch { location: decided.place, id, found, expected })
    }
}

/// One execution, as its context, its futures and its loop see it.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) identity: Identity,
    pub(crate) payloads: Payloads,
    pub(crate) signal: Arc<Signal>,
    state: Mutex<State>,
}

impl Shared {
    pub(crate) fn new(identity: Identity, payloads: Payloads) -> Arc<Self> {
        let state = State { replaying: true, ..State::default() };
        Arc::new(Self { identity, payloads, signal: Signal::new(), state: Mutex::new(state) })
    }

    /// A poisoned lock is taken as it is: no foreign code runs under it, so nothing is ever left half done.
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`Shared::lock`], for what only the orchestration's own code may do, in its own time.
    pub(crate) fn lock_inside(&self, place: Place) -> MutexGuard<'_, State> {
        let mut state = self.lock();
        if !self.signal.is_running_here() {
            state.fail(TurnError::ForeignUse { location: place });
        }
        state
    }

    /// Takes the next id for something the code asks for. A task with a kind stays open until it is answered.
    pub(crate) fn decide(&self, action: ActionType, kind: Option<ScheduledKind>, place: Place) -> i32 {
        let mut state = self.lock_inside(place);
        let id = state.next_id;
        state.next_id = id.saturating_add(1);
        state.last = Some(place);
        state.decided.insert(id, Box::new(Decided { action, place }));
        if let Some(kind) = kind {
            state.open.insert(id, Open { kind, outcome: None });
        }
        id
    }

    /// The answer to a task, or a promise to wake.
    pub(crate) fn poll_answer(&self, id: i32, waker: &Waker, place: Place) -> Poll<Outcome> {
        let wait = Wait { waker: waker.clone(), place };
        let _replaced;
        let mut state = self.lock_inside(place);
        if let Some(outcome) = state.open.get_mut(&id).and_then(|open| open.outcome.take()) {
            state.open.remove(&id);
            state.last = Some(place);
            drop(state);
            return Poll::Ready(outcome);
        }
        _replaced = state.waiting.insert(id, wait);
        Poll::Pending
    }

    /// Nobody wants the answer any more.
    pub(crate) fn forget(&self, id: i32) {
        let _dropped;
        let mut state = self.lock();
        let open = state.open.remove(&id);
        _dropped = (state.waiting.remove(&id), open);
    }

    /// Delivers the answer to a task. Unknown, repeated and abandoned ones are ignored.
    pub(crate) fn answer(&self, answer: Answer, outcome: Outcome) {
        let mut state = self.lock();
        let Some(open) = state.open.get_mut(&answer.id) else { return };
        if open.kind != answer.kind || open.outcome.is_some() {
            return;
        }
        open.outcome = Some(outcome);
        let wait = state.waiting.remove(&answer.id);
        drop(state);
        if let Some(wait) = wait {
            wait.waker.wake();
        }
    }
}
