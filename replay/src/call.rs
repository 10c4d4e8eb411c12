//! The futures of tasks: activities, children and timers.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use dauer_core::InstanceId;
use dauer_proto::ActionType;
use dauer_proto::event::ScheduledKind;
use futures::future::FusedFuture;
use serde::de::DeserializeOwned;

use crate::error::CallError;
use crate::guard::{Decision, Place, TurnError};
use crate::payload;
use crate::state::{Outcome, Shared};

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
    Done,
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

    fn action(&mut self) -> Option<&mut ActionType> {
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

    fn schedule(&mut self) {
        self.phase = match std::mem::replace(&mut self.phase, Phase::Stopped) {
            Phase::Lazy(action) => Phase::Scheduled(self.shared.decide(*action, Some(self.kind), self.place)),
            Phase::Broken(fault) => {
                self.shared.lock_inside(self.place).fail(*fault);
                Phase::Stopped
            }
            other => other,
        };
    }

    fn poll(&mut self, cx: &Context<'_>) -> Poll<Outcome> {
        self.schedule();
        match self.phase {
            Phase::Scheduled(id) => {
                let outcome = self.shared.poll_answer(id, cx.waker(), self.place);
                if outcome.is_ready() {
                    self.phase = Phase::Done;
                }
                outcome
            }
            Phase::Done => panic!("{}: a durable future was polled after it was ready", self.place),
            Phase::Lazy(_) | Phase::Broken(_) | Phase::Stopped => Poll::Pending,
        }
    }

    fn poll_decoded<O: DeserializeOwned>(&mut self, cx: &Context<'_>) -> Poll<Result<O, CallError>> {
        let id = self.id();
        self.poll(cx).map(|outcome| match outcome {
            Err(failure) => Err(CallError::Failed(failure.into())),
            Ok(text) => payload::decode(text.as_deref()).map_err(|source| CallError::Undecodable {
                what: format!("the result of task #{} ({})", id.unwrap_or_default(), self.place),
                expected: std::any::type_name::<O>(),
                source,
            }),
        })
    }

    fn id(&self) -> Option<i32> {
        match self.phase {
            Phase::Scheduled(id) => Some(id),
            _ => None,
        }
    }

    fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
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
            Phase::Done => out.field("done", &true),
        };
        out.finish()
    }
}

/// An activity to be run. Lazy like every Rust future: the first poll schedules it, and polls give ids in their order.
#[must_use = "a call does nothing until it is awaited; use .start() to schedule it now"]
#[derive(Debug)]
pub struct Call<O> {
    task: Task,
    output: PhantomData<fn() -> O>,
}

impl<O> Call<O> {
    pub(crate) fn new(task: Task) -> Self {
        Self { task, output: PhantomData }
    }

    /// Adds a tag that the worker of the activity sees.
    pub fn tag(mut self, key: &str, value: &str) -> Self {
        self.task.tag(key, value);
        self
    }

    /// Schedules it now, to be awaited later or never.
    pub fn start(mut self) -> Started<O> {
        self.task.schedule();
        Started { task: self.task, output: PhantomData }
    }
}

/// A child orchestration to be run. Lazy, like [`Call`].
#[must_use = "a call does nothing until it is awaited; use .start() to schedule it now"]
#[derive(Debug)]
pub struct ChildCall<O> {
    task: Task,
    output: PhantomData<fn() -> O>,
}

impl<O> ChildCall<O> {
    pub(crate) fn new(task: Task) -> Self {
        Self { task, output: PhantomData }
    }

    /// Adds a tag to the child.
    pub fn tag(mut self, key: &str, value: &str) -> Self {
        self.task.tag(key, value);
        self
    }

    /// Chooses the child's instance id. Without it the hub makes one.
    pub fn instance(mut self, id: &InstanceId) -> Self {
        if let Some(ActionType::CreateSubOrchestration(child)) = self.task.action() {
            child.instance_id = id.as_str().to_owned();
        }
        self
    }

    /// Schedules it now, to be awaited later or never.
    pub fn start(mut self) -> Started<O> {
        self.task.schedule();
        Started { task: self.task, output: PhantomData }
    }
}

/// A call that is scheduled. Dropping it stops waiting; the call goes on, and its result is ignored.
#[derive(Debug)]
pub struct Started<O> {
    task: Task,
    output: PhantomData<fn() -> O>,
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
        self.task.poll_decoded(cx)
    }
}

impl<O: DeserializeOwned> FusedFuture for Call<O> {
    fn is_terminated(&self) -> bool {
        self.task.is_done()
    }
}

impl<O: DeserializeOwned> Future for ChildCall<O> {
    type Output = Result<O, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.task.poll_decoded(cx)
    }
}

impl<O: DeserializeOwned> FusedFuture for ChildCall<O> {
    fn is_terminated(&self) -> bool {
        self.task.is_done()
    }
}

impl<O: DeserializeOwned> Future for Started<O> {
    type Output = Result<O, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.task.poll_decoded(cx)
    }
}

impl<O: DeserializeOwned> FusedFuture for Started<O> {
    fn is_terminated(&self) -> bool {
        self.task.is_done()
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
