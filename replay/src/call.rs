//! The futures of tasks: activities, children and timers.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use dauer_core::{InstanceId, Timestamp};
use dauer_proto::event::ScheduledKind;
use dauer_proto::{ActionType, CreateTimerAction, time};
use futures::future::FusedFuture;
use serde::de::DeserializeOwned;

use crate::error::CallError;
use crate::guard::{Decision, Place, TurnError};
use crate::retry::{Attempts, RetryPolicy};
use crate::state::{Outcome, Shared};
use crate::timeout::Timeout;

/// A task before, while and after it is scheduled.
pub(crate) struct Task {
    shared: Arc<Shared>,
    kind: ScheduledKind,
    place: Place,
    phase: Phase,
}

enum Phase {
    /// Nothing has happened yet: the id is taken when the task is scheduled.
    Lazy(Box<ActionType>),
    /// It cannot be scheduled, which stops the turn when someone tries.
    Broken(Box<TurnError>),
    /// The turn is being stopped.
    Stopped,
    Scheduled(i32),
    Done(i32),
}

impl Task {
    pub(crate) fn new(
        shared: &Arc<Shared>,
        kind: ScheduledKind,
        action: Result<ActionType, TurnError>,
        place: Place,
    ) -> Self {
        let phase = match action {
            Ok(action) => Phase::Lazy(Box::new(action)),
            Err(fault) => Phase::Broken(Box::new(fault)),
        };
        Self { shared: Arc::clone(shared), kind, place, phase }
    }

    /// A timer.
    pub(crate) fn timer_at(shared: &Arc<Shared>, at: Timestamp, place: Place) -> Self {
        // Times that the protocol cannot express are never: the hub's limit for timers says so.
        let fire_at = time::from_millis(at.0.clamp(time::MILLIS_MIN, time::MILLIS_MAX));
        let action = ActionType::CreateTimer(CreateTimerAction { fire_at: Some(fire_at) });
        Self::new(shared, ScheduledKind::Timer, Ok(action), place)
    }

    /// A timer, asked for at the same place.
    pub(crate) fn timer(&self, at: Timestamp) -> Self {
        Self::timer_at(&self.shared, at, self.place)
    }

    /// One more of what the action says, asked for at the same place.
    pub(crate) fn another(&self, action: ActionType) -> Self {
        let kind = match action {
            ActionType::CreateSubOrchestration(_) => ScheduledKind::Child,
            _ => ScheduledKind::Task,
        };
        Self::new(&self.shared, kind, Ok(action), self.place)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.shared.lock().now
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn place(&self) -> Place {
        self.place
    }

    /// What will be asked for, as long as it has not been.
    pub(crate) fn action(&mut self) -> Option<&mut ActionType> {
        match &mut self.phase {
            Phase::Lazy(action) => Some(action),
            _ => None,
        }
    }

    fn tag(&mut self, key: &str, value: &str) {
        let tags = match self.action() {
            Some(ActionType::ScheduleTask(task)) => &mut task.tags,
            Some(ActionType::CreateSubOrchestration(child)) => &mut child.tags,
            _ => return,
        };
        tags.insert(key.to_owned(), value.to_owned());
    }

    pub(crate) fn schedule(&mut self) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Stopped) {
            Phase::Lazy(action) => Phase::Scheduled(self.shared.decide(*action, Some(self.kind), self.place)),
            Phase::Broken(fault) => {
                self.shared.lock_inside(self.place).fail(*fault);
                Phase::Stopped
            }
            other => other,
        };
    }

    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<Outcome> {
        self.schedule();
        match self.phase {
            Phase::Scheduled(id) => {
                let outcome = self.shared.poll_answer(id, cx.waker(), self.place);
                if outcome.is_ready() {
                    self.phase = Phase::Done(id);
                }
                outcome
            }
            Phase::Done(_) => panic!("{}: a durable future was polled after it was ready", self.place),
            Phase::Lazy(_) | Phase::Broken(_) | Phase::Stopped => Poll::Pending,
        }
    }

    pub(crate) fn id(&self) -> Option<i32> {
        match self.phase {
            Phase::Scheduled(id) | Phase::Done(id) => Some(id),
            _ => None,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done(_))
    }
}

impl Drop for Task {
    /// Stops waiting. What was scheduled goes on, and its result is ignored: the protocol has no way to call it back.
    fn drop(&mut self) {
        if let Phase::Scheduled(id) = self.phase {
            self.shared.forget(id);
        }
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Task");
        out.field("at", &format_args!("{}", self.place));
        match &self.phase {
            Phase::Lazy(action) => out.field("lazy", &Decision::made(action)),
            Phase::Broken(fault) => out.field("broken", fault),
            Phase::Stopped => out.field("stopped", &true),
            Phase::Scheduled(id) => out.field("scheduled", id),
            Phase::Done(id) => out.field("done", id),
        };
        out.finish()
    }
}

/// An activity to be run. Lazy like every Rust future: the first poll schedules it, and polls give ids in their order.
#[must_use = "a call does nothing until it is awaited; use .start() to schedule it now"]
#[derive(Debug)]
pub struct Call<O> {
    attempts: Attempts,
    output: PhantomData<fn() -> O>,
}

impl<O> Call<O> {
    pub(crate) fn new(task: Task) -> Self {
        Self { attempts: Attempts::new(task), output: PhantomData }
    }

    /// Adds a tag that the worker of the activity sees.
    pub fn tag(mut self, key: &str, value: &str) -> Self {
        self.attempts.first().tag(key, value);
        self
    }

    /// Tries again when it fails, as the policy says. Each attempt is an activity of its own, with its own task id.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.attempts.retry(policy);
        self
    }

    /// Waits no longer than this, over all attempts.
    #[track_caller]
    pub fn timeout(self, after: Duration) -> Timeout<Self> {
        let shared = self.attempts.shared();
        Timeout::new(self, after, &shared, Location::caller())
    }

    /// Schedules it now, to be awaited later or never.
    pub fn start(mut self) -> Started<O> {
        self.attempts.schedule();
        Started { attempts: self.attempts, output: PhantomData }
    }
}

/// A child orchestration to be run. Lazy, like [`Call`].
#[must_use = "a call does nothing until it is awaited; use .start() to schedule it now"]
#[derive(Debug)]
pub struct ChildCall<O> {
    attempts: Attempts,
    output: PhantomData<fn() -> O>,
}

impl<O> ChildCall<O> {
    pub(crate) fn new(task: Task) -> Self {
        Self { attempts: Attempts::new(task), output: PhantomData }
    }

    /// Adds a tag to the child.
    pub fn tag(mut self, key: &str, value: &str) -> Self {
        self.attempts.first().tag(key, value);
        self
    }

    /// Chooses the child's instance id. Without it the hub makes one, another for every attempt.
    pub fn instance(mut self, id: &InstanceId) -> Self {
        if let Some(ActionType::CreateSubOrchestration(child)) = self.attempts.first().action() {
            child.instance_id = id.as_str().to_owned();
        }
        self
    }

    /// Tries again when it fails, as the policy says. A child with a chosen id is run again under that id.
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.attempts.retry(policy);
        self
    }

    /// Waits no longer than this, over all attempts. The child goes on.
    #[track_caller]
    pub fn timeout(self, after: Duration) -> Timeout<Self> {
        let shared = self.attempts.shared();
        Timeout::new(self, after, &shared, Location::caller())
    }

    /// Schedules it now, to be awaited later or never.
    pub fn start(mut self) -> Started<O> {
        self.attempts.schedule();
        Started { attempts: self.attempts, output: PhantomData }
    }
}

/// A call that is scheduled. Dropping it stops waiting; the call goes on, and its result is ignored.
#[derive(Debug)]
pub struct Started<O> {
    attempts: Attempts,
    output: PhantomData<fn() -> O>,
}

impl<O> Started<O> {
    /// Waits no longer than this, from the first poll on.
    #[track_caller]
    pub fn timeout(self, after: Duration) -> Timeout<Self> {
        let shared = self.attempts.shared();
        Timeout::new(self, after, &shared, Location::caller())
    }
}

/// A timer. Its time is fixed when it is made; it is set when it is first polled.
#[must_use = "a timer does nothing until it is awaited"]
#[derive(Debug)]
pub struct Sleep {
    task: Task,
}

impl Sleep {
    pub(crate) fn new(task: Task) -> Self {
        Self { task }
    }
}

impl<O: DeserializeOwned> Future for Call<O> {
    type Output = Result<O, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.attempts.poll_decoded(cx)
    }
}

impl<O: DeserializeOwned> FusedFuture for Call<O> {
    fn is_terminated(&self) -> bool {
        self.attempts.is_done()
    }
}

impl<O: DeserializeOwned> Future for ChildCall<O> {
    type Output = Result<O, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.attempts.poll_decoded(cx)
    }
}

impl<O: DeserializeOwned> FusedFuture for ChildCall<O> {
    fn is_terminated(&self) -> bool {
        self.attempts.is_done()
    }
}

impl<O: DeserializeOwned> Future for Started<O> {
    type Output = Result<O, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.attempts.poll_decoded(cx)
    }
}

impl<O: DeserializeOwned> FusedFuture for Started<O> {
    fn is_terminated(&self) -> bool {
        self.attempts.is_done()
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        // A timer has no result, and nothing in the protocol says that one failed.
        self.task.poll(cx).map(|_fired| ())
    }
}

impl FusedFuture for Sleep {
    fn is_terminated(&self) -> bool {
        self.task.is_done()
    }
}
