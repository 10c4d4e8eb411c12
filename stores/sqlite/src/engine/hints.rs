//! Those who listen to hints.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::channel::mpsc;

use dauer_store::{Changes, Hint, HubName, Kind};

use crate::state::Group;

/// How many hints wait for a subscriber that does not read: beyond, they are lost, and it is told so once it reads again.
/// More than a few groups of commits make, so that a busy client seldom has to look at everything.
const HINTS_WAITING_MAX: usize = 16_384;

/// Who listens: a host wants to know of work, a client of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ear {
    Host,
    Client,
}

struct Listener {
    ear: Ear,
    sender: mpsc::Sender<Hint>,
    /// A hint was lost, and it has not been told.
    missed: bool,
}

impl Listener {
    fn send(&mut self, hint: Hint) {
        self.remind();
        // A full channel loses the hint: that is what a hint is.
        self.missed |= self.sender.try_send(hint).is_err();
    }

    /// Tells one that has missed something that anything may have changed.
    fn remind(&mut self) {
        if self.missed {
            self.missed = self.sender.try_send(Hint::Elsewhere).is_err();
        }
    }
}

/// By hub.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<BTreeMap<HubName, Vec<Listener>>>);

impl Listeners {
    /// A panic while the lock was held leaves a list of senders, each of which is whole.
    fn all(&self) -> MutexGuard<'_, BTreeMap<HubName, Vec<Listener>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn subscribe(&self, hub: &HubName, ear: Ear) -> Changes {
        let (sender, receiver) = mpsc::channel(HINTS_WAITING_MAX);
        self.all().entry(hub.clone()).or_default().push(Listener { ear, sender, missed: false });
        Box::pin(receiver)
    }

    /// Whether anybody listens; forgets those who no longer do.
    pub(crate) fn any(&self) -> bool {
        let mut all = self.all();
        all.retain(|_, listeners| {
            listeners.retain(|listener| !listener.sender.is_closed());
            !listeners.is_empty()
        });
        !all.is_empty()
    }

    /// Sends the hints of a transaction that happened.
    pub(crate) fn send(&self, group: &mut Group) {
        let mut all = self.all();
        let ready = std::mem::take(&mut group.ready).into_iter().map(|(hub, kind)| (hub, Hint::Ready(kind)));
        let due = std::mem::take(&mut group.due).into_iter();
        let due = due.map(|(hub, kind, after)| (hub, Hint::Due(kind, after)));
        let mail =
            std::mem::take(&mut group.mail).into_iter().map(|(hub, instance)| (hub, Hint::Mail(instance)));
        for (hub, hint) in ready.chain(due).chain(mail).chain(group.hints.drain(..)) {
            for listener in all.get_mut(&hub).into_iter().flatten() {
                let is_for = match hint {
                    Hint::Status(..) | Hint::Ended(..) => listener.ear == Ear::Client,
                    Hint::Mail(_) => listener.ear == Ear::Host,
                    _ => true,
                };
                if is_for {
                    listener.send(hint.clone());
                }
            }
        }
    }

    /// Another process or handle has changed these hubs, or any when none are named. What it changed is not known: everything
    /// in them may be ready.
    pub(crate) fn send_elsewhere(&self, hubs: Option<&[HubName]>) {
        let mut all = self.all();
        let concerned = all.iter_mut().filter(|(hub, _)| hubs.is_none_or(|hubs| hubs.contains(hub)));
        for listener in concerned.flat_map(|(_, listeners)| listeners) {
            for kind in [Kind::Orchestration, Kind::Entity, Kind::Activity] {
                listener.send(Hint::Ready(kind));
            }
            listener.send(Hint::Elsewhere);
        }
    }

    /// Tells those who have missed something, as far as they read again.
    pub(crate) fn remind(&self) {
        self.all().values_mut().flatten().for_each(Listener::remind);
    }

    /// The store is closed: the streams end.
    pub(crate) fn end(&self) {
        self.all().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{FutureExt, StreamExt};

    #[test]
    fn one_that_has_missed_a_hint_is_told_once_it_reads_again() {
        let listeners = Listeners::default();
        let mut changes = listeners.subscribe(&HubName::default(), Ear::Client);
        let mut heard = || changes.next().now_or_never().flatten();
        // One more than fits: a channel has a place for each sender besides.
        for _ in 0..HINTS_WAITING_MAX + 2 {
            let mut all = listeners.all();
            all.values_mut().flatten().for_each(|listener| listener.send(Hint::Ready(Kind::Activity)));
        }
        listeners.remind();
        let waiting = std::iter::from_fn(&mut heard).collect::<Vec<_>>();
        assert!(waiting.iter().all(|hint| *hint == Hint::Ready(Kind::Activity)), "it does not read yet");
        listeners.remind();
        assert_eq!(heard(), Some(Hint::Elsewhere));
        listeners.remind();
        assert_eq!(heard(), None, "told once");
    }
}
