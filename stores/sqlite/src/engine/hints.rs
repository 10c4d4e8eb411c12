//! Those who listen to hints, by hub.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dauer_store::{Changes, Hint, HubName};
use dauer_store_kit::hints::{self, Listener};

use crate::state::Group;

/// The listeners of a handle.
#[derive(Default)]
pub(crate) struct Listeners(Mutex<BTreeMap<HubName, hints::Listeners>>);

impl Listeners {
    /// A panic while the lock was held leaves lists that are whole.
    fn all(&self) -> MutexGuard<'_, BTreeMap<HubName, hints::Listeners>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn subscribe(&self, hub: &HubName, listener: Listener) -> Changes {
        self.all().entry(hub.clone()).or_default().listen(listener)
    }

    /// Whether there are any; forgets those that are gone.
    pub(crate) fn any(&self) -> bool {
        let mut all = self.all();
        all.retain(|_, listeners| listeners.any());
        !all.is_empty()
    }

    /// Sends the hints of a transaction that happened.
    pub(crate) fn send(&self, group: &mut Group) {
        let all = self.all();
        for (hub, hints) in &mut group.hints {
            if let Some(listeners) = all.get(hub) {
                listeners.send(hints);
            }
            hints.clear();
        }
    }

    /// Another process or handle has changed these hubs, or any when none are named. What it changed is not known.
    pub(crate) fn send_elsewhere(&self, hubs: Option<&[HubName]>) {
        let all = self.all();
        let concerned = all.iter().filter(|(hub, _)| hubs.is_none_or(|hubs| hubs.contains(hub)));
        concerned.for_each(|(_, listeners)| listeners.send(&[Hint::Elsewhere]));
    }

    /// The store is closed: the streams end.
    pub(crate) fn end(&self) {
        self.all().values().for_each(hints::Listeners::end);
    }
}
