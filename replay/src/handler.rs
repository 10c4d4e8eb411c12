//! Orchestrations as code: plain async functions, and the same without their types.

use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::pin::Pin;
use std::sync::Arc;

use dauer_proto::TaskFailureDetails;
use serde::{Serialize, de::DeserializeOwned};

use crate::context::OrchestrationContext;
use crate::error::{Error, Result};
use crate::names::Orchestration;
use crate::payload::{PayloadError, Payloads};

/// The two forms an orchestration can have. Never written by users: rustc finds out which one a function has.
pub mod shape {
    /// Runs once: `async fn(OrchestrationContext, I) -> Result<O>`.
    #[derive(Debug)]
    pub enum Once {}
    /// May continue as new: `async fn(OrchestrationContext, I) -> Result<ControlFlow<O, I>>`.
    #[derive(Debug)]
    pub enum Looping {}
}

/// How an execution ends.
#[derive(Debug)]
pub enum End {
    /// With an output.
    Completed(String),
    /// With a failure.
    Failed(Box<TaskFailureDetails>),
    /// By continuing as new, with the next input.
    Continued(String),
    /// With a value that cannot be written: not an end at all.
    Unencodable {
        /// Which value.
        what: &'static str,
        /// Why.
        source: PayloadError,
    },
}

/// The running code of an orchestration.
pub(crate) type OrchestrationFuture = Pin<Box<dyn Future<Output = End> + Send>>;

/// An orchestration from `I` to `O`: any `async fn` of one of two forms.
///
/// - `async fn(OrchestrationContext, I) -> Result<O>`
/// - `async fn(OrchestrationContext, I) -> Result<ControlFlow<O, I>>`, where `Continue(input)` starts a new execution
///   with that input and an empty history, and `Break(output)` ends.
///
/// Its future must be `Send`, so that a live orchestration can go on on any thread:
///
/// ```compile_fail,E0277
/// # use dauer_replay::{Orchestration, OrchestrationContext, Program, Result};
/// async fn holds_rc(ctx: OrchestrationContext, n: u32) -> Result<u32> {
///     let shared = std::rc::Rc::new(n);
///     ctx.sleep(std::time::Duration::from_secs(1)).await;
///     Ok(*shared)
/// }
/// Program::new(Orchestration::<u32, u32>::new("holds_rc"), holds_rc);
/// ```
///
/// `Continue` carries the orchestration's own input:
///
/// ```compile_fail,E0277
/// # use dauer_replay::{Orchestration, OrchestrationContext, Program, Result};
/// # use std::ops::ControlFlow;
/// async fn wrong(_: OrchestrationContext, n: u32) -> Result<ControlFlow<u32, String>> {
///     Ok(ControlFlow::Continue(n.to_string()))
/// }
/// Program::new(Orchestration::<u32, u32>::new("wrong"), wrong);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an orchestration from `{I}` to `{O}`",
    label = "expected `async fn(OrchestrationContext, {I}) -> Result<{O}>`",
    note = "or `-> Result<ControlFlow<{O}, {I}>>` when it continues as new",
    note = "`{I}` must implement `serde::Deserialize` and `{O}` `serde::Serialize`; one that continues as new writes its `{I}` too",
    note = "its future must be `Send`: hold no `Rc`, `RefCell` borrow or lock guard across an `.await`"
)]
pub trait Handler<I, O, Shape>: Send + Sync + 'static {
    /// Reads the input and makes the future. Nothing of the function's body runs yet.
    #[doc(hidden)]
    fn begin(
        &self,
        context: OrchestrationContext,
        input: Option<&str>,
    ) -> Result<OrchestrationFuture, PayloadError>;
}

impl<F, Fut, I, O> Handler<I, O, shape::Once> for F
where
    F: Fn(OrchestrationContext, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O>> + Send + 'static,
    I: DeserializeOwned,
    O: Serialize,
{
    fn begin(
        &self,
        context: OrchestrationContext,
        input: Option<&str>,
    ) -> Result<OrchestrationFuture, PayloadError> {
        let payloads = context.payloads().clone();
        let running = self(context, payloads.decode(input)?);
        Ok(Box::pin(async move {
            match running.await {
                Ok(output) => completed(&payloads, &output),
                Err(error) => failed(error),
            }
        }))
    }
}

impl<F, Fut, I, O> Handler<I, O, shape::Looping> for F
where
    F: Fn(OrchestrationContext, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<ControlFlow<O, I>>> + Send + 'static,
    I: DeserializeOwned + Serialize,
    O: Serialize,
{
    fn begin(
        &self,
        context: OrchestrationContext,
        input: Option<&str>,
    ) -> Result<OrchestrationFuture, PayloadError> {
        let payloads = context.payloads().clone();
        let running = self(context, payloads.decode(input)?);
        Ok(Box::pin(async move {
            match running.await {
                Ok(ControlFlow::Break(output)) => completed(&payloads, &output),
                Ok(ControlFlow::Continue(input)) => match payloads.encode(&input) {
                    Ok(text) => End::Continued(text),
                    Err(source) => End::Unencodable { what: "the next input", source },
                },
                Err(error) => failed(error),
            }
        }))
    }
}

fn completed<O: Serialize>(payloads: &Payloads, output: &O) -> End {
    match payloads.encode(output) {
        Ok(text) => End::Completed(text),
        Err(source) => End::Unencodable { what: "the output", source },
    }
}

fn failed(error: Error) -> End {
    End::Failed(Box::new(error.into()))
}

trait Code: Send + Sync {
    fn begin(
        &self,
        context: OrchestrationContext,
        input: Option<&str>,
    ) -> Result<OrchestrationFuture, PayloadError>;
}

struct Typed<H, I, O, S> {
    handler: H,
    types: PhantomData<fn(I, O, S)>,
}

impl<H: Handler<I, O, S>, I, O, S> Code for Typed<H, I, O, S> {
    fn begin(
        &self,
        context: OrchestrationContext,
        input: Option<&str>,
    ) -> Result<OrchestrationFuture, PayloadError> {
        self.handler.begin(context, input)
    }
}

/// An orchestration's code without its types: what a registry holds and a [`Live`](crate::Live) runs.
#[derive(Clone)]
pub struct Program {
    name: &'static str,
    version: Option<&'static str>,
    code: Arc<dyn Code>,
}

impl Program {
    /// The code of an orchestration, with the name and version it goes by.
    pub fn new<I: 'static, O: 'static, S: 'static>(
        orchestration: Orchestration<I, O>,
        handler: impl Handler<I, O, S>,
    ) -> Self {
        let code = Arc::new(Typed { handler, types: PhantomData });
        Self { name: orchestration.name(), version: orchestration.version_name(), code }
    }

    /// The name it goes by.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The version it goes by.
    #[must_use]
    pub fn version(&self) -> Option<&'static str> {
        self.version
    }

    pub(crate) fn begin(
        &self,
        context: OrchestrationContext,
        input: Option<&str>,
    ) -> Result<OrchestrationFuture, PayloadError> {
        self.code.begin(context, input)
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Program");
        out.field("name", &self.name).field("version", &self.version).finish_non_exhaustive()
    }
}
