//! A history as a stream of its events.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, StreamExt};
use futures::{Stream, TryStreamExt};

use dauer_core::{ExecutionId, InstanceId};
use dauer_hub::ClientError;
use dauer_proto::HistoryEvent;

use super::Error;

/// The events of one run, in order, read a part at a time. What is committed to the run while it is read comes too. An error
/// is the last item.
///
/// ```
/// # use dauer::{Orchestration, OrchestrationContext, Result};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
/// use dauer::EventType;
/// const HELLO: Orchestration<u32, u32> = Orchestration::new("hello");
/// # let hub = dauer::open("memory:")?;
/// # let hello = |_: OrchestrationContext, n: u32| async move { Ok(n) };
/// # tokio::spawn(hub.worker().orchestration(HELLO, hello).build()?.run(std::future::pending()));
///
/// let hello = hub.client().start(HELLO, &7).await?;
/// hello.output().await?;
/// let mut history = hello.history().await?;
/// let mut names = Vec::new();
/// while let Some(event) = history.next().await {
///     if let Some(EventType::ExecutionStarted(started)) = event?.event_type {
///         names.push(started.name);
///     }
/// }
/// assert_eq!(names, ["hello"]);
/// # Ok(())
/// # }
/// ```
pub struct HistoryStream {
    instance: InstanceId,
    execution: ExecutionId,
    events: BoxStream<'static, Result<HistoryEvent, Error>>,
}

impl HistoryStream {
    pub(super) fn new(
        instance: InstanceId,
        execution: ExecutionId,
        events: BoxStream<'static, Result<HistoryEvent, ClientError>>,
    ) -> Self {
        Self { instance, execution, events: events.map_err(Error::Client).boxed() }
    }

    /// Whose history it is.
    #[must_use]
    pub fn instance(&self) -> &InstanceId {
        &self.instance
    }

    /// Which run's: another one has another history.
    #[must_use]
    pub fn execution(&self) -> ExecutionId {
        self.execution
    }

    /// The next event; `None` at the end.
    ///
    /// # Errors
    /// [`ClientError::MovedOn`] when another run took the place of this one, whose history is gone then;
    /// [`ClientError::History`] when the history cannot be read, or why the store cannot tell.
    pub async fn next(&mut self) -> Option<Result<HistoryEvent, Error>> {
        self.events.next().await
    }
}

impl Stream for HistoryStream {
    type Item = Result<HistoryEvent, Error>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.events.poll_next_unpin(cx)
    }
}
