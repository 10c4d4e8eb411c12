//! Not waiting longer than so long.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::FusedFuture;

use crate::call::{Sleep, Task};
use crate::error::CallError;
use crate::guard::Place;
use crate::state::Shared;

/// A call or a wait that ends with [`CallError::TimedOut`] when it takes too long.
///
/// The time counts from the first poll. Whatever came first in the history wins: when both the answer and the time are there,
/// that is the answer. What was called goes on after the time-out, and its result is ignored.
#[must_use = "a call does nothing until it is awaited"]
#[derive(Debug)]
pub struct Timeout<F> {
    /// `None` once it is over: who has given up does not wait any more.
    waited: Option<F>,
    timer: Option<Sleep>,
    after: Duration,
    shared: Arc<Shared>,
    place: Place,
}

impl<F> Timeout<F> {
    pub(crate) fn new(waited: F, after: Duration, shared: &Arc<Shared>, place: Place) -> Self {
        Self { waited: Some(waited), timer: None, after, shared: Arc::clone(shared), place }
    }
}

impl<T, F: Future<Output = Result<T, CallError>> + Unpin> Future for Timeout<F> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let Some(waited) = &mut this.waited else {
            panic!("{}: a durable future was polled after it was ready", this.place)
        };
        // First the call, so that its id comes before the timer's and its answer before the time.
        let mut outcome = Pin::new(waited).poll(cx);
        if outcome.is_pending() {
            let timer = this.timer.get_or_insert_with(|| {
                let at = this.shared.lock().now.after(this.after);
                Sleep::new(Task::timer_at(&this.shared, at, this.place))
            });
            outcome = Pin::new(timer).poll(cx).map(|()| Err(CallError::TimedOut { after: this.after }));
        }
        if outcome.is_ready() {
            this.waited = None;
            this.timer = None;
        }
        outcome
    }
}

impl<T, F: Future<Output = Result<T, CallError>> + Unpin> FusedFuture for Timeout<F> {
    fn is_terminated(&self) -> bool {
        self.waited.is_none()
    }
}
