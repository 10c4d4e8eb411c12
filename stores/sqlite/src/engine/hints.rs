//! Those who listen to hints.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::channel::mpsc;

use dauer_store::{Changes, Hint, HubName, Kind};

use crate::state::Group;

/// How many hints wait for a subscriber that does not read: beyond, they are lost, which costs time and no work. More
/// than a few groups of commits make, so that a busy client does not fall back to polling.
const HINTS_WAITING_MAX: usize = 16_384;

/// Who listens: a host wants to know of work, a client of everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ear {
    Host,
    Client,
}

type Listener = (Ear, mpsc::Sender<Hint>);

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
        self.all().entry(hub.clone()).or_default().push((ear, sender));
        Box::pin(receiver)
    }

    /// Whether anybody listens; forgets those who no longer do.
    pub(crate) fn any(&self) -> bool {
        let mut all = self.all();
        all.retain(|_, listeners| {
            listeners.retain(|(_, listener)| !listener.is_closed());
            !listeners.is_empty()
        });
        !all.is_empty()
    }

    /// Sends the hints of a transaction that happened.
    pub(crate) fn send(&self, group: &mut Group) {
        let mut all = self.all();
        let ready = std::mem::take(&mut group.ready).into_iter().map(|(hub, kind)| (hub, Hint::Ready(kind)));
        for (hub, hint) in ready.chain(group.hints.drain(..)) {
            for (ear, listener) in all.get_mut(&hub).into_iter().flatten() {
                if *ear == Ear::Client || !matches!(hint, Hint::Status(..) | Hint::Ended(..)) {
                    // A full channel loses the hint: that is what a hint is.
                    let _ = listener.try_send(hint.clone());
                }
            }
        }
    }

    /// Another process or handle has changed the file. What, is not known: everything may be ready.
    pub(crate) fn send_to_all(&self) {
        for (_, listener) in self.all().values_mut().flatten() {
            for kind in [Kind::Orchestration, Kind::Entity, Kind::Activity] {
                let _ = listener.try_send(Hint::Ready(kind));
            }
            let _ = listener.try_send(Hint::Elsewhere);
        }
    }

    /// The store is closed: the streams end.
    pub(crate) fn end(&self) {
        self.all().clear();
    }
}
