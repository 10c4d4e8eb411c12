//! Hints for those who listen to a hub.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use dauer_store::{Changes, Hint};
use futures::Stream;

/// How many hints wait for a listener that does not read. Beyond it they are lost, and [`Hint::Elsewhere`] takes their place.
/// More than a few large batches make, so that a busy client seldom has to look at everything.
const HINTS_WAITING_MAX: usize = 16_384;

/// Who listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listener {
    /// A host: of instances it hears only that they have ended, because their tasks may run here.
    Host,
    /// A client: every hint.
    Client,
}

/// The listeners of one hub.
#[derive(Default)]
pub struct Listeners(Mutex<Vec<(Listener, Weak<Queue>)>>);

#[derive(Default)]
struct Queue(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    hints: VecDeque<Hint>,
    waker: Option<Waker>,
    ended: bool,
}

struct Hints(Arc<Queue>);

/// A panic while a lock was held leaves lists whose entries are whole.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Queue {
    /// Changes what waits, and wakes the listener outside the lock.
    fn change(&self, change: impl FnOnce(&mut Waiting)) {
        let mut waiting = unpoisoned(&self.0);
        change(&mut waiting);
        let waker = waiting.waker.take();
        drop(waiting);
        waker.into_iter().for_each(Waker::wake);
    }
}

impl Waiting {
    fn push(&mut self, hint: &Hint) {
        if self.hints.len() >= HINTS_WAITING_MAX {
            self.hints.clear();
            self.hints.push_back(Hint::Elsewhere);
        }
        self.hints.push_back(hint.clone());
    }
}

impl Listeners {
    /// A stream of the hints from now on.
    #[must_use]
    pub fn listen(&self, listener: Listener) -> Changes {
        let queue = Arc::new(Queue::default());
        let mut all = unpoisoned(&self.0);
        all.retain(|(_, queue)| queue.strong_count() > 0);
        all.push((listener, Arc::downgrade(&queue)));
        Box::pin(Hints(queue))
    }

    /// Whether there are any; forgets those that are gone.
    pub fn any(&self) -> bool {
        let mut all = unpoisoned(&self.0);
        all.retain(|(_, queue)| queue.strong_count() > 0);
        !all.is_empty()
    }

    fn living(&self) -> Vec<(Listener, Arc<Queue>)> {
        let all = unpoisoned(&self.0);
        all.iter().filter_map(|(listener, queue)| Some((*listener, queue.upgrade()?))).collect()
    }

    /// Sends hints to all listeners that they are for.
    pub fn send(&self, hints: &[Hint]) {
        if hints.is_empty() {
            return;
        }
        for (listener, queue) in self.living() {
            let is_for = |hint: &&Hint| match hint {
                Hint::Status(_, status) => listener == Listener::Client || status.is_ended(),
                Hint::Ended(..) | Hint::SessionEnded(_) | Hint::Elsewhere => true,
            };
            let mut hints = hints.iter().filter(is_for).peekable();
            if hints.peek().is_some() {
                queue.change(|waiting| hints.for_each(|hint| waiting.push(hint)));
            }
        }
    }

    /// Ends all streams: the store is closed.
    pub fn end(&self) {
        let all = std::mem::take(&mut *unpoisoned(&self.0));
        for queue in all.into_iter().filter_map(|(_, queue)| queue.upgrade()) {
            queue.change(|waiting| waiting.ended = true);
        }
    }
}

impl Stream for Hints {
    type Item = Hint;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Hint>> {
        let mut waiting = unpoisoned(&self.0.0);
        match waiting.hints.pop_front() {
            Some(hint) => Poll::Ready(Some(hint)),
            None if waiting.ended => Poll::Ready(None),
            None => {
                waiting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dauer_store::{InstanceId, SessionId, Status};
    use futures::{FutureExt, StreamExt};

    fn heard(changes: &mut Changes) -> Vec<Hint> {
        std::iter::from_fn(|| changes.next().now_or_never().flatten()).collect()
    }

    fn status() -> Hint {
        Hint::Status(InstanceId::new("order").unwrap(), Status::Running)
    }

    #[test]
    fn lost_hints_are_told_as_elsewhere() {
        let listeners = Listeners::default();
        let mut changes = listeners.listen(Listener::Client);
        let many: Vec<Hint> = (0..=HINTS_WAITING_MAX).map(|_| status()).collect();
        listeners.send(&many[..HINTS_WAITING_MAX]);
        assert_eq!(heard(&mut changes).len(), HINTS_WAITING_MAX);
        listeners.send(&many);
        assert_eq!(heard(&mut changes), [Hint::Elsewhere, status()]);
    }

    #[test]
    fn host_gets_ends_of_sessions_and_instances_alone() {
        let listeners = Listeners::default();
        let mut host = listeners.listen(Listener::Host);
        let ended = Hint::Status(InstanceId::new("order").unwrap(), Status::Terminated);
        listeners.send(&[status(), ended.clone(), Hint::SessionEnded(SessionId(1))]);
        assert_eq!(heard(&mut host), [ended, Hint::SessionEnded(SessionId(1))]);
        listeners.end();
        assert_eq!(host.next().now_or_never(), Some(None), "the store is closed");
    }
}
