//! Those who listen to hints.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::channel::mpsc;

use dauer_store::{Changes, Hint, HubName, Kind};

/// How many hints wait for a subscriber that does not read: beyond, they are lost, which costs time and no work.
const HINTS_WAITING_MAX: usize = 1_024;

/// By hub.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<BTreeMap<HubName, Vec<mpsc::Sender<Hint>>>>);

impl Listeners {
    /// A panic while the lock was held leaves a list of senders, each of which is whole.
    fn all(&self) -> MutexGuard<'_, BTreeMap<HubName, Vec<mpsc::Sender<Hint>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn subscribe(&self, hub: &HubName) -> Changes {
        let (sender, receiver) = mpsc::channel(HINTS_WAITING_MAX);
        self.all().entry(hub.clone()).or_default().push(sender);
        Box::pin(receiver)
    }

    /// Whether anybody listens; forgets those who no longer do.
    pub(crate) fn any(&self) -> bool {
        let mut all = self.all();
        all.retain(|_, listeners| {
            listeners.retain(|listener| !listener.is_closed());
            !listeners.is_empty()
        });
        !all.is_empty()
    }

    pub(crate) fn send(&self, hub: &HubName, hint: &Hint) {
        if let Some(listeners) = self.all().get_mut(hub) {
            for listener in listeners {
                // A full channel loses the hint: that is what a hint is.
                let _ = listener.try_send(hint.clone());
            }
        }
    }

    /// Another process or handle has changed the file. What, is not known: everything may be ready.
    pub(crate) fn send_to_all(&self) {
        for listeners in self.all().values_mut() {
            for listener in listeners {
                for kind in [Kind::Orchestration, Kind::Entity, Kind::Activity] {
                    let _ = listener.try_send(Hint::Ready(kind));
                }
                let _ = listener.try_send(Hint::Elsewhere);
            }
        }
    }

    /// The store is closed: the streams end.
    pub(crate) fn end(&self) {
        self.all().clear();
    }
}
