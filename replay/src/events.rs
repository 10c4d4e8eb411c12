//! Events from outside: who gets which.
//!
//! Per name, first come first served on both sides: an event goes to the future that has waited longest, and a future
//! gets the event that has waited longest. An event belongs to a future from the moment it arrives; when that future
//! is dropped unread, the event goes to the next one, or back to its place among those that nobody waited for.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use dauer_proto::{EventRaisedEvent, EventType, HistoryEvent};
use futures::future::FusedFuture;
use serde::de::DeserializeOwned;

use crate::error::CallError;
use crate::guard::{Awaited, Place};
use crate::names::Event;
use crate::state::{Shared, Wait};
use crate::timeout::Timeout;

/// Event names are equal whatever their case, in all SDKs (behaviour 33).
fn fold(name: &str) -> String {
    name.to_lowercase()
}

/// An event that arrived, kept as it came because continue-as-new hands it on.
#[derive(Debug)]
struct Raised {
    arrival: u64,
    event: HistoryEvent,
}

/// Invariant: for no name are there both unread events and waiting futures.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    arrivals: u64,
    tickets: u64,
    unread: BTreeMap<String, VecDeque<Raised>>,
    /// By name and ticket: the lowest ticket waits longest.
    waiting: BTreeMap<String, BTreeMap<u64, Wait>>,
    /// By ticket: given to a future that has not looked yet.
    given: BTreeMap<u64, Raised>,
}

impl Mailbox {
    pub(crate) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    pub(crate) fn first_place(&self) -> Option<Place> {
        self.waiting.values().next()?.values().next().map(|wait| wait.place)
    }

    /// Every event that is waited for, and where; by name, longest first.
    pub(crate) fn awaited(&self) -> impl Iterator<Item = (Awaited, Place)> {
        let named =
            self.waiting.iter().flat_map(|(name, queue)| queue.values().map(move |wait| (name, wait)));
        named.map(|(name, wait)| (Awaited::Event(name.clone()), wait.place))
    }

    #[cfg(test)]
    pub(crate) fn size(&self) -> usize {
        self.unread.len() + self.waiting.len() + self.given.len()
    }

    /// Takes in an event. The one to be woken is returned.
    fn raise(&mut self, name: &str, event: HistoryEvent) -> Option<Wait> {
        let raised = Raised { arrival: self.arrivals, event };
        self.arrivals += 1;
        self.hand_on(fold(name), raised)
    }

    fn hand_on(&mut self, name: String, raised: Raised) -> Option<Wait> {
        if let Some(queue) = self.waiting.get_mut(&name)
            && let Some((ticket, wait)) = queue.pop_first()
        {
            if queue.is_empty() {
                self.waiting.remove(&name);
            }
            self.given.insert(ticket, raised);
            return Some(wait);
        }
        let unread = self.unread.entry(name).or_default();
        let position = unread.partition_point(|other| other.arrival < raised.arrival);
        unread.insert(position, raised);
        None
    }

    fn take_unread(&mut self, name: &str) -> Option<Raised> {
        let queue = self.unread.get_mut(name)?;
        let raised = queue.pop_front();
        if queue.is_empty() {
            self.unread.remove(name);
        }
        raised
    }

    /// Stops waiting. Returned are the wait, to be dropped, and the next in line, to be woken.
    fn leave(&mut self, name: &str, ticket: u64) -> (Option<Wait>, Option<Wait>) {
        if let Some(raised) = self.given.remove(&ticket) {
            return (None, self.hand_on(name.to_owned(), raised));
        }
        let Some(queue) = self.waiting.get_mut(name) else { return (None, None) };
        let wait = queue.remove(&ticket);
        if queue.is_empty() {
            self.waiting.remove(name);
        }
        (wait, None)
    }

    /// All that nobody read, in the order of arrival.
    pub(crate) fn carry_over(&self) -> Vec<HistoryEvent> {
        let mut rest: Vec<&Raised> = self.unread.values().flatten().chain(self.given.values()).collect();
        rest.sort_by_key(|raised| raised.arrival);
        rest.into_iter().map(|raised| raised.event.clone()).collect()
    }
}

/// Delivers an event.
pub(crate) fn raise(shared: &Shared, raised: &EventRaisedEvent, event: &HistoryEvent) {
    let wait = shared.lock().mailbox.raise(&raised.name, event.clone());
    if let Some(wait) = wait {
        wait.waker.wake();
    }
}

/// The next event of a name. It waits in line from its first poll on; events that came before are given first.
#[must_use = "waiting for an event does nothing until it is awaited"]
pub struct NextEvent<T> {
    shared: Arc<Shared>,
    name: String,
    place: Place,
    phase: Phase,
    data: PhantomData<fn() -> T>,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Lazy,
    InLine(u64),
    Done,
}

impl<T> NextEvent<T> {
    pub(crate) fn new(shared: &Arc<Shared>, event: Event<T>, place: Place) -> Self {
        let shared = Arc::clone(shared);
        Self { shared, name: fold(event.name()), place, phase: Phase::Lazy, data: PhantomData }
    }

    /// Waits no longer than this, from the first poll on. An event that comes later goes to whoever waits then.
    #[track_caller]
    pub fn timeout(self, after: Duration) -> Timeout<Self> {
        let shared = Arc::clone(&self.shared);
        Timeout::new(self, after, &shared, Location::caller())
    }

    fn poll_raised(&mut self, cx: &Context<'_>) -> Poll<HistoryEvent> {
        // Declared before the lock, so that wakers are dropped after it.
        let wait = Wait { waker: cx.waker().clone(), place: self.place };
        let _replaced;
        let mut state = self.shared.lock_inside(self.place);
        let mailbox = &mut state.mailbox;
        let raised = match self.phase {
            Phase::Done => None,
            Phase::InLine(ticket) => mailbox.given.remove(&ticket),
            Phase::Lazy => mailbox.take_unread(&self.name),
        };
        if let Some(raised) = raised {
            self.phase = Phase::Done;
            state.last = Some(self.place);
            drop(state);
            return Poll::Ready(raised.event);
        }
        let ticket = match self.phase {
            Phase::Done => {
                drop(state);
                panic!("{}: a durable future was polled after it was ready", self.place)
            }
            Phase::InLine(ticket) => ticket,
            Phase::Lazy => {
                mailbox.tickets += 1;
                mailbox.tickets
            }
        };
        self.phase = Phase::InLine(ticket);
        _replaced = mailbox.waiting.entry(self.name.clone()).or_default().insert(ticket, wait);
        Poll::Pending
    }
}

impl<T: DeserializeOwned> Future for NextEvent<T> {
    type Output = Result<T, CallError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_raised(cx).map(|event| {
            let text = match event.event_type {
                Some(EventType::EventRaised(raised)) => raised.input,
                _ => None,
            };
            self.shared.payloads.decode(text.as_deref()).map_err(|source| CallError::Undecodable {
                what: format!("the data of event '{}' ({})", self.name, self.place),
                expected: std::any::type_name::<T>(),
                source,
            })
        })
    }
}

impl<T: DeserializeOwned> FusedFuture for NextEvent<T> {
    fn is_terminated(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }
}

impl<T> Drop for NextEvent<T> {
    fn drop(&mut self) {
        if let Phase::InLine(ticket) = self.phase {
            let (_dropped, next) = self.shared.lock().mailbox.leave(&self.name, ticket);
            if let Some(next) = next {
                next.waker.wake();
            }
        }
    }
}

impl<T> fmt::Debug for NextEvent<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = format_args!("{}", self.place);
        f.debug_struct("NextEvent").field("name", &self.name).field("at", &place).finish()
    }
}
