//! The hubs that are in use. Each is made by the first call that names it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tonic::Status;

use dauer::{HostOptions, Store};
use dauer_core::HubName;
use futures::future::join_all;

use crate::hub::Hub;
use crate::options::Limits;
use crate::status;

/// All hubs of the server that are in use.
pub(crate) struct Hubs {
    store: watch::Receiver<Option<Store>>,
    opening_wait: Duration,
    most: usize,
    host: HostOptions,
    workers: dauer_remote::Options,
    slots: Mutex<Slots>,
    /// A host has failed, or a hub has gone whose host had.
    failures: Arc<Notify>,
}

#[derive(Default)]
struct Slots {
    hubs: BTreeMap<HubName, Slot>,
    stopping: bool,
}

enum Slot {
    Used(Arc<Hub>),
    /// It is being deleted: a call that brought it back meanwhile would see half of it.
    Deleting,
}

impl Slots {
    /// Whether one more can be used. Callers choose names freely: those that nobody uses any more make room.
    fn has_room(&mut self, most: usize) -> bool {
        if self.hubs.len() >= most {
            self.hubs.retain(|_, slot| !slot.is_idle());
        }
        self.hubs.len() < most
    }
}

impl Slot {
    /// Whether nobody has it in hands, and nobody will before it is asked for again: calls and streams hold their hub.
    fn is_idle(&self) -> bool {
        match self {
            Self::Used(hub) => Arc::strong_count(hub) == 1 && hub.is_idle(),
            Self::Deleting => false,
        }
    }
}

impl Hubs {
    /// None yet. The store may come later.
    pub(crate) fn new(
        store: watch::Receiver<Option<Store>>,
        limits: &Limits,
        host: HostOptions,
        workers: dauer_remote::Options,
    ) -> Self {
        Self {
            store,
            opening_wait: limits.opening_wait,
            most: limits.hubs,
            host,
            workers,
            slots: Mutex::default(),
            failures: Arc::default(),
        }
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store, once it is open.
    pub(crate) async fn store(&self) -> Result<Store, Status> {
        if let Some(store) = &*self.store.borrow() {
            return Ok(store.clone());
        }
        let mut store = self.store.clone();
        let opened = tokio::time::timeout(self.opening_wait, store.wait_for(Option::is_some)).await;
        match opened {
            Ok(Ok(store)) => store.clone().ok_or_else(status::stopping),
            // It will never be opened.
            Ok(Err(_)) => Err(status::stopping()),
            Err(_) => Err(Status::unavailable("the store is still being opened; try again")),
        }
    }

    /// Whether the store is open.
    pub(crate) fn is_open(&self) -> bool {
        self.store.borrow().is_some()
    }

    /// Whether the server is ending.
    pub(crate) fn is_stopping(&self) -> bool {
        self.slots().stopping
    }

    /// The hub of that name.
    pub(crate) async fn get(&self, name: &HubName) -> Result<Arc<Hub>, Status> {
        let store = self.store().await?;
        let mut slots = self.slots();
        match slots.hubs.get(name) {
            Some(Slot::Used(hub)) => return Ok(Arc::clone(hub)),
            Some(Slot::Deleting) => {
                return Err(Status::unavailable(format!(
                    "the task hub '{name}' is being deleted; try again"
                )));
            }
            None => {}
        }
        if !slots.has_room(self.most) {
            return Err(Status::resource_exhausted(format!(
                "{} task hubs are in use, as many as are allowed; try again later",
                self.most
            )));
        }
        let manage = Arc::clone(store.hub(name.clone()).manage());
        let failures = Arc::clone(&self.failures);
        let hub = Hub::new(name.clone(), manage, self.host.clone(), self.workers.clone(), failures);
        let hub = Arc::new(hub);
        slots.hubs.insert(name.clone(), Slot::Used(Arc::clone(&hub)));
        Ok(hub)
    }

    /// A host claims work in that hub from now on, unless the server is ending.
    pub(crate) fn ensure_host(&self, hub: &Arc<Hub>) -> Result<(), Status> {
        // Under the lock: no host is begun after those that there are were told to stop.
        let slots = self.slots();
        if slots.stopping {
            return Err(status::stopping());
        }
        hub.ensure_host()
    }

    /// All that are in use.
    pub(crate) fn all(&self) -> Vec<Arc<Hub>> {
        let used = |slot: &Slot| match slot {
            Slot::Used(hub) => Some(Arc::clone(hub)),
            Slot::Deleting => None,
        };
        self.slots().hubs.values().filter_map(used).collect()
    }

    /// Why no work is done in some hub that is in use.
    pub(crate) fn failure(&self) -> Option<String> {
        let failed = |hub: &Arc<Hub>| Some(format!("the task hub '{}': {}", hub.name, hub.failure()?));
        self.all().iter().find_map(failed)
    }

    /// Ready once [`Hubs::failure`] may say something else.
    pub(crate) async fn failures_changed(&self) {
        self.failures.notified().await;
    }

    /// Deletes a hub and all that is in it. Its workers are sent away, and may come back.
    pub(crate) async fn delete(&self, name: &HubName) -> Result<(), Status> {
        let store = self.store().await?;
        let used = match self.slots().hubs.insert(name.clone(), Slot::Deleting) {
            Some(Slot::Deleting) => return Err(Status::unavailable("the task hub is being deleted already")),
            Some(Slot::Used(hub)) => Some(hub),
            None => None,
        };
        // Put back whatever happens, a caller that goes away included.
        let _restored = Restored { hubs: self, name };
        if let Some(hub) = used {
            // Nobody is to finish what is about to be deleted.
            hub.workers.close();
            hub.stop_host().await;
        }
        let deleted = store.delete_hub(name).await;
        deleted.map_err(|refused| match status::refusal(&refused) {
            refused if refused.code() == tonic::Code::Unavailable => {
                Status::failed_precondition(refused.message().to_owned())
            }
            other => other,
        })
    }

    /// Claims nothing any more and finishes what is in flight, then ends all streams.
    pub(crate) async fn drain(&self) {
        self.slots().stopping = true;
        let hubs = self.all();
        join_all(hubs.iter().map(|hub| hub.stop_host())).await;
        for hub in hubs {
            hub.workers.close();
        }
    }
}

struct Restored<'h> {
    hubs: &'h Hubs,
    name: &'h HubName,
}

impl Drop for Restored<'_> {
    fn drop(&mut self) {
        self.hubs.slots().hubs.remove(self.name);
        self.hubs.failures.notify_one();
    }
}
