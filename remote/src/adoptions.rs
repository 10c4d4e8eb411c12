//! Tasks that the session is to hold because a worker executes or has answered them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::channel::oneshot;
use futures::future::FutureExt;
use futures::stream::Stream;

use dauer_hub::{Adopted, Adoption};

use crate::workers::Workers;

/// The adoptions of one session. When it is dropped, the session is over.
pub(crate) struct Adoptions {
    pub(crate) workers: Arc<Workers>,
}

impl Stream for Adoptions {
    type Item = Adoption;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Adoption>> {
        let Some(task) = self.workers.state().custody.next_wanted(context.waker()) else {
            return Poll::Pending;
        };
        let (outcome, told) = oneshot::channel();
        let (workers, wanted) = (Arc::clone(&self.workers), task.clone());
        let settles = async move {
            match told.await {
                Ok(Adopted::Held) => {}
                Ok(Adopted::Over) => workers.answers_dropped(wanted.task),
                // The session has ended: the next one is asked.
                Err(_) => workers.state().custody.want_again(&wanted),
            }
        };
        self.workers.env().spawn(settles.boxed());
        Poll::Ready(Some(Adoption { task, outcome }))
    }
}

impl Drop for Adoptions {
    fn drop(&mut self) {
        self.workers.state().session_ends();
    }
}
