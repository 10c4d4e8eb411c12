//! The hubs that are in use. Each is made by the first call that names it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tonic::Status;

use dauer::{HostOptions, Store};
use dauer_core::HubName;
use futures::future::join_all;

use crate::hub::Hub;
use crate::options::{IDLE_LOOKS, Limits};
use crate::status;

/// All hubs of the server that are in use.
pub(crate) struct Hubs {
    store: watch::Receiver<Option<Store>>,
    opening_wait: Duration,
    most: usize,
    idle_max: Duration,
    host: HostOptions,
    workers: dauer_remote::Options,
    /// Since when workers reach this server.
    listens_since: Instant,
    slots: Mutex<Slots>,
    /// A host has failed, or a hub has gone whose host had.
    failures: Arc<Notify>,
}

#[derive(Default)]
struct Slots {
    hubs: BTreeMap<HubName, Slot>,
    /// Hubs that were let go and whose hosts still drain. The same names may be in use again, with new hosts.
    leaving: Vec<Arc<Hub>>,
    stopping: bool,
}

enum Slot {
    /// In use, or last seen in use at that time.
    Used(Arc<Hub>, Instant),
    /// It is being deleted: a call that brought it back meanwhile would see half of it.
    Deleting,
}

impl Slots {
    /// Takes out the hubs that have been idle since `before` or longer. Every reference to a hub is cloned from its slot, under
    /// the lock: a hub that only its slot refers to cannot get a call or stream any more once it is out. The next call makes
    /// a new hub, whose host is another session beside the one that drains.
    fn let_go(&mut self, before: Instant) -> Vec<Arc<Hub>> {
        let mut gone = Vec::new();
        self.hubs.retain(|_, slot| match slot {
            Slot::Used(hub, used) if Arc::strong_count(hub) > 1 || !hub.is_idle() => {
                *used = Instant::now();
                true
            }
            Slot::Used(hub, used) if *used <= before => {
                gone.push(Arc::clone(hub));
                false
            }
            Slot::Used(..) | Slot::Deleting => true,
        });
        self.leaving.extend(gone.iter().cloned());
        gone
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
            idle_max: limits.hub_idle,
            host,
            workers,
            listens_since: Instant::now(),
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

    /// The hub of that name. Nothing is written to the store.
    pub(crate) async fn get(self: &Arc<Self>, name: &HubName) -> Result<Arc<Hub>, Status> {
        let store = self.store().await?;
        let mut slots = self.slots();
        match slots.hubs.get_mut(name) {
            Some(Slot::Used(hub, used)) => {
                *used = Instant::now();
                return Ok(Arc::clone(hub));
            }
            Some(Slot::Deleting) => {
                return Err(Status::unavailable(format!(
                    "the task hub '{name}' is being deleted; try again"
                )));
            }
            None => {}
        }
        if slots.hubs.len() >= self.most {
            // Callers choose names freely: hubs that are idle make room at once.
            self.stop(slots.let_go(Instant::now()));
        }
        if slots.hubs.len() >= self.most {
            return Err(Status::resource_exhausted(format!(
                "{} task hubs are in use, as many as are allowed; try again later",
                self.most
            )));
        }
        let manage = Arc::clone(store.hub(name.clone()).manage());
        let failures = Arc::clone(&self.failures);
        let listened_for = self.listens_since.elapsed();
        let workers = dauer_remote::Options { listened_for, ..self.workers.clone() };
        let hub = Hub::new(name.clone(), manage, self.host.clone(), workers, failures);
        let hub = Arc::new(hub);
        slots.hubs.insert(name.clone(), Slot::Used(Arc::clone(&hub), Instant::now()));
        Ok(hub)
    }

    /// The hub of that name, if the store has it: for messages, which would otherwise bring it into being.
    pub(crate) async fn existing(self: &Arc<Self>, name: &HubName) -> Result<Arc<Hub>, Status> {
        let (store, hub) = (self.store().await?, self.get(name).await?);
        match hub.exists(&store).await {
            Ok(true) => Ok(hub),
            Ok(false) => Err(status::no_hub(name)),
            Err(refused) => Err(status::refusal(&refused)),
        }
    }

    /// Lets hubs go that have been idle for the time that the settings allow, for ever.
    pub(crate) async fn let_idle_go(self: &Arc<Self>) {
        loop {
            tokio::time::sleep(self.idle_max / IDLE_LOOKS).await;
            if let Some(before) = Instant::now().checked_sub(self.idle_max) {
                let gone = self.slots().let_go(before);
                self.stop(gone);
            }
        }
    }

    /// Stops the hosts of hubs that were let go, beside the caller.
    fn stop(self: &Arc<Self>, gone: Vec<Arc<Hub>>) {
        for hub in gone {
            let hubs = Arc::clone(self);
            tokio::spawn(async move {
                hub.stop_host().await;
                tracing::info!(hub = %hub.name, "the task hub was idle and is let go");
                hubs.slots().leaving.retain(|leaving| !Arc::ptr_eq(leaving, &hub));
                // It may have been the one whose host had failed.
                hubs.failures.notify_one();
            });
        }
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
            Slot::Used(hub, _) => Some(Arc::clone(hub)),
            Slot::Deleting => None,
        };
        self.slots().hubs.values().filter_map(used).collect()
    }

    /// Why no work is done in some hub that is in use. Not which: everyone may ask whether the server is ready. The log has
    /// the name.
    pub(crate) fn failure(&self) -> Option<String> {
        let reason = self.all().iter().find_map(|hub| hub.failure())?;
        Some(format!("no work can be claimed in a task hub, which the log names: {reason}"))
    }

    /// Ready once [`Hubs::failure`] may say something else.
    pub(crate) async fn failures_changed(&self) {
        self.failures.notified().await;
    }

    /// Deletes a hub and all that is in it. Its workers are sent away, and may come back.
    pub(crate) async fn delete(&self, name: &HubName) -> Result<(), Status> {
        let store = self.store().await?;
        let used = {
            let mut slots = self.slots();
            let used = match slots.hubs.insert(name.clone(), Slot::Deleting) {
                Some(Slot::Deleting) => {
                    return Err(Status::unavailable("the task hub is being deleted already"));
                }
                Some(Slot::Used(hub, _)) => Some(hub),
                None => None,
            };
            // A host that still drains keeps the hub from being deleted, too.
            let leaving = slots.leaving.iter().filter(|hub| hub.name == *name).cloned();
            used.into_iter().chain(leaving).collect::<Vec<_>>()
        };
        // Put back whatever happens, a caller that goes away included.
        let _restored = Restored { hubs: self, name };
        for hub in used {
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
        let leaving = {
            let mut slots = self.slots();
            slots.stopping = true;
            slots.leaving.clone()
        };
        let hubs: Vec<_> = self.all().into_iter().chain(leaving).collect();
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
