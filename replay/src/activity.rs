//! Activities as code: ordinary async functions, which may do anything. Nothing here runs them; a worker does.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

use dauer_core::cancel::{CancelReason, Cancellation, Cancelled};
use dauer_core::ids::InvalidName;
use dauer_core::{ExecutionId, InstanceId};
use dauer_proto::{ActivityRequest, Invalid, Problem, TaskFailureDetails};
use serde::{Serialize, de::DeserializeOwned};

use crate::error::{Error, Result};
use crate::names::Activity;
use crate::payload::{PayloadError, Payloads};

/// Which call of an activity this is, and whether anyone still wants its result. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ActivityContext {
    call: Arc<ActivityCall>,
    cancellation: Cancellation,
    payloads: Payloads,
}

/// Which call of an activity it is.
#[derive(Debug)]
pub struct ActivityCall {
    /// The orchestration that called.
    pub instance: InstanceId,
    /// Which execution of it.
    pub execution: ExecutionId,
    /// Which task of that execution.
    pub task_id: i32,
    /// The name it was called by.
    pub name: String,
    /// How often it has been tried, this time included.
    pub attempt: u32,
    /// The tags of the call.
    pub tags: BTreeMap<String, String>,
}

impl ActivityCall {
    /// Its context, without a request: it is carried out where it was claimed, until that signal is given.
    #[must_use]
    pub fn context(self, cancellation: Cancellation) -> ActivityContext {
        ActivityContext { call: Arc::new(self), cancellation, payloads: Payloads::default() }
    }
}

/// A request that does not say which call it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidRequest {
    /// A field is missing or makes no sense.
    #[error("the activity request makes no sense")]
    Field(#[from] Invalid),
    /// The instance id breaks a rule.
    #[error("the activity request names no instance")]
    Instance(#[from] InvalidName),
}

impl ActivityContext {
    /// The context of a request that is carried out for the `attempt`-th time, counted from 1.
    ///
    /// # Errors
    /// When the request does not say for which execution of which instance it is.
    pub fn new(request: &ActivityRequest, attempt: u32) -> Result<Self, InvalidRequest> {
        let missing = |field: &str| Invalid::new(field, Problem::Missing);
        let caller = request.orchestration_instance.as_ref();
        let caller = caller.ok_or_else(|| missing("orchestrationInstance"))?;
        let field = "orchestrationInstance.executionId";
        let execution = caller.execution_id.as_deref().ok_or_else(|| missing(field))?;
        let execution =
            ExecutionId::parse(execution).ok_or_else(|| Invalid::new(field, Problem::NotAnExecutionId))?;
        let call = ActivityCall {
            instance: InstanceId::new(caller.instance_id.as_str())?,
            execution,
            task_id: request.task_id,
            name: request.name.clone(),
            attempt,
            tags: request.tags.clone(),
        };
        Ok(call.context(Cancellation::new()))
    }

    /// The same call, cancelled by that signal. Without one it never is.
    #[must_use]
    pub fn cancelled_by(self, cancellation: Cancellation) -> Self {
        Self { cancellation, ..self }
    }

    /// The same call, whose input and output are read and written so.
    #[must_use]
    pub fn payloads(self, payloads: Payloads) -> Self {
        Self { payloads, ..self }
    }

    /// The orchestration that called.
    #[must_use]
    pub fn instance(&self) -> &InstanceId {
        &self.call.instance
    }

    /// Which execution of the orchestration called.
    #[must_use]
    pub fn execution(&self) -> ExecutionId {
        self.call.execution
    }

    /// Which task of the execution this is. With [`instance`](Self::instance) and [`execution`](Self::execution) it
    /// names the call, and is the same in every attempt: the key to do something once.
    #[must_use]
    pub fn task_id(&self) -> i32 {
        self.call.task_id
    }

    /// The name it was called by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.call.name
    }

    /// How often it has been tried, this time included. Activities run at least once.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.call.attempt
    }

    /// The tags of the call.
    #[must_use]
    pub fn tags(&self) -> &BTreeMap<String, String> {
        &self.call.tags
    }

    /// Ready when nobody wants the result any more: the host is stopping, it has lost the activity to another one, or the
    /// run that called has ended. The host learns of the last two within half a lease at most.
    ///
    /// Nothing is stopped by it: an activity that takes long races its work against this, or looks at
    /// [`is_cancelled`](Self::is_cancelled) between two steps, and ends early. To end with the reason gives the activity
    /// back while the host is stopping: another host runs it again, and it has not failed. After any other reason what it
    /// answers is dropped.
    ///
    /// ```
    /// use dauer_replay::{ActivityContext, Result};
    /// use futures::future::{Either, select};
    /// # async fn transfer(_: u32) -> u64 { 1 }
    ///
    /// async fn copy(ctx: ActivityContext, file: u32) -> Result<u64> {
    ///     let work = std::pin::pin!(transfer(file));
    ///     match select(work, ctx.cancelled()).await {
    ///         Either::Left((bytes, _)) => Ok(bytes),
    ///         Either::Right((reason, _)) => Err(reason.into()),
    ///     }
    /// }
    /// ```
    pub fn cancelled(&self) -> Cancelled {
        self.cancellation.cancelled()
    }

    /// Why nobody wants the result any more, if that is so.
    #[must_use]
    pub fn cancel_reason(&self) -> Option<CancelReason> {
        self.cancellation.reason()
    }

    /// Whether nobody wants the result any more. For work that cannot wait beside something else.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel_reason().is_some()
    }
}

/// Why an activity gave no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ActivityError {
    /// The input is not what the code takes.
    #[error("the input cannot be read; make the types of the name agree on both sides")]
    Undecodable(#[source] PayloadError),
    /// The output cannot be written as JSON.
    #[error("the output cannot be written as JSON; change its type or its Serialize")]
    Unencodable(#[source] PayloadError),
    /// The code failed.
    #[error("the activity failed: {0}")]
    Failed(Error),
}

impl From<ActivityError> for TaskFailureDetails {
    /// What the orchestration sees. An input that cannot be read and an output that cannot be written stay so.
    fn from(error: ActivityError) -> Self {
        match error {
            ActivityError::Failed(error) => error.into(),
            other => {
                let kind = match other {
                    ActivityError::Undecodable(_) => "Undecodable",
                    _ => "Unencodable",
                };
                let details = Self::from(Error::from(other));
                Self { error_type: kind.to_owned(), ..details }.non_retriable()
            }
        }
    }
}

/// The running code of an activity: its output as JSON, or why there is none.
pub type ActivityFuture = Pin<Box<dyn Future<Output = Result<String, ActivityError>> + Send>>;

/// An activity from `I` to `O`: any `async fn(ActivityContext, I) -> Result<O>`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an activity from `{I}` to `{O}`",
    label = "expected `async fn(ActivityContext, {I}) -> Result<{O}>`",
    note = "its future must be `Send`: hold no `Rc`, `RefCell` borrow or lock guard across an `.await`"
)]
pub trait ActivityHandler<I, O>: Send + Sync + 'static {
    /// Reads the input and makes the future.
    #[doc(hidden)]
    fn begin(&self, context: ActivityContext, input: Option<&str>) -> ActivityFuture;
}

impl<F, Fut, I, O> ActivityHandler<I, O> for F
where
    F: Fn(ActivityContext, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    I: DeserializeOwned,
    O: Serialize,
{
    fn begin(&self, context: ActivityContext, input: Option<&str>) -> ActivityFuture {
        let payloads = context.payloads.clone();
        let running = match payloads.decode(input) {
            Ok(input) => self(context, input),
            Err(source) => return Box::pin(async { Err(ActivityError::Undecodable(source)) }),
        };
        Box::pin(async move {
            let output = running.await.map_err(ActivityError::Failed)?;
            payloads.encode(&output).map_err(ActivityError::Unencodable)
        })
    }
}

trait Code: Send + Sync {
    fn begin(&self, context: ActivityContext, input: Option<&str>) -> ActivityFuture;
}

struct Typed<H, I, O> {
    handler: H,
    types: PhantomData<fn(I, O)>,
}

impl<H: ActivityHandler<I, O>, I, O> Code for Typed<H, I, O> {
    fn begin(&self, context: ActivityContext, input: Option<&str>) -> ActivityFuture {
        self.handler.begin(context, input)
    }
}

/// An activity's code without its types: what a registry holds and a worker runs.
#[derive(Clone)]
pub struct ActivityProgram {
    name: &'static str,
    code: Arc<dyn Code>,
}

impl ActivityProgram {
    /// The code of an activity, with the name it goes by.
    pub fn new<I: 'static, O: 'static>(
        activity: Activity<I, O>,
        handler: impl ActivityHandler<I, O>,
    ) -> Self {
        Self { name: activity.name(), code: Arc::new(Typed { handler, types: PhantomData }) }
    }

    /// The name it goes by.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The code, ready to run on the given input. A panic is the worker's to catch.
    #[must_use]
    pub fn begin(&self, context: ActivityContext, input: Option<&str>) -> ActivityFuture {
        self.code.begin(context, input)
    }
}

impl fmt::Debug for ActivityProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ActivityProgram").field("name", &self.name).finish_non_exhaustive()
    }
}
