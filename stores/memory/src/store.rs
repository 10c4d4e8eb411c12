//! The store: any number of hubs, each behind a lock, with one clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::Waker;
use std::time::Duration;

use async_trait::async_trait;

use dauer_store::{
    Cause, Clock, HostId, HubName, Kind, Manage, Refused, SessionId, Store, StoreLimits, Timestamp,
};
use dauer_store_kit::calls::Desks;
use dauer_store_kit::hints::Listeners;
use dauer_store_kit::judge::default_limits;
use dauer_store_kit::partition::{News, Partition};

use crate::hub::MemoryHub;

/// A store in memory. Clones are the same handle on the same store.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
    /// The sessions of this handle.
    desks: Arc<Desks>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    time: Mutex<Time>,
    limits: Mutex<StoreLimits>,
    rooms: Mutex<BTreeMap<HubName, Arc<Room>>>,
    handles: Mutex<Vec<Weak<Desks>>>,
    #[cfg(feature = "planted")]
    defect: Mutex<Option<dauer_store_kit::planted::Defect>>,
}

/// The store's time never goes backwards.
struct Time {
    skew: Duration,
    latest: Timestamp,
}

/// One hub.
pub(crate) struct Room {
    name: HubName,
    partition: Mutex<Partition>,
    pub(crate) listeners: Listeners,
}

impl Room {
    pub(crate) fn name(&self) -> &HubName {
        &self.name
    }
}

/// A panic while a lock was held can only come from a mistake of the kit. The state is the last one that an operation finished
/// or began, and tests want to look at it.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryStore {
    /// An empty store that judges all times by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let time = Time { skew: Duration::ZERO, latest: clock.now() };
        let desks = Arc::new(Desks::new(Arc::clone(&clock)));
        let shared = Shared {
            clock,
            time: Mutex::new(time),
            limits: Mutex::new(default_limits()),
            rooms: Mutex::default(),
            handles: Mutex::new(vec![Arc::downgrade(&desks)]),
            #[cfg(feature = "planted")]
            defect: Mutex::default(),
        };
        Self { shared: Arc::new(shared), desks }
    }

    /// Another handle on the same store. It has sessions of its own, and learns of the writes of this one by a look.
    #[must_use]
    pub fn handle(&self) -> Self {
        let handle = self.deaf_handle();
        let mut handles = unpoisoned(&self.shared.handles);
        handles.retain(|handle| handle.strong_count() > 0);
        handles.push(Arc::downgrade(&handle.desks));
        drop(handles);
        handle
    }

    /// The same, but writes of other handles do not wake its sessions, as if every notification were lost on the way to another
    /// machine: they learn of those writes when a call of `next` ends.
    #[must_use]
    pub fn deaf_handle(&self) -> Self {
        let desks = Arc::new(Desks::new(Arc::clone(&self.shared.clock)));
        Self { shared: Arc::clone(&self.shared), desks }
    }

    /// Opens a hub. It exists once something was put into it: an instance, a message or a session.
    #[must_use]
    pub fn hub(&self, name: HubName) -> Arc<MemoryHub> {
        Arc::new(MemoryHub::new(self.clone(), self.room(name)))
    }

    /// From now on these are the limits.
    pub fn set_limits(&self, limits: StoreLimits) {
        let rooms: Vec<Arc<Room>> = unpoisoned(&self.shared.rooms).values().cloned().collect();
        for room in rooms {
            unpoisoned(&room.partition).set_limits(limits.clone());
        }
        *unpoisoned(&self.shared.limits) = limits;
    }

    /// The store's clock is `ahead` of the clock it was given. It never goes back: after a smaller skew it stands still until
    /// the given clock has caught up.
    pub fn skew(&self, ahead: Duration) {
        unpoisoned(&self.shared.time).skew = ahead;
    }

    /// The leases of a host's sessions, in all hubs, are over now.
    pub fn expire_sessions(&self, host: &HostId) {
        let rooms: Vec<Arc<Room>> = unpoisoned(&self.shared.rooms).values().cloned().collect();
        rooms.iter().for_each(|room| self.with(room, |partition| partition.expire_sessions_of(host)));
    }

    /// The store's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let read = self.shared.clock.now();
        let mut time = unpoisoned(&self.shared.time);
        time.latest = time.latest.max(read.after(time.skew));
        time.latest
    }

    /// A store that makes this mistake, and no other.
    #[cfg(feature = "planted")]
    #[must_use]
    pub fn with_defect(self, defect: dauer_store_kit::planted::Defect) -> Self {
        *unpoisoned(&self.shared.defect) = Some(defect);
        self
    }

    pub(crate) fn desks(&self) -> &Desks {
        &self.desks
    }

    pub(crate) fn limits(&self) -> StoreLimits {
        unpoisoned(&self.shared.limits).clone()
    }

    fn room(&self, name: HubName) -> Arc<Room> {
        let limits = self.limits();
        let mut rooms = unpoisoned(&self.shared.rooms);
        let room = rooms.entry(name.clone()).or_insert_with(|| {
            let (partition, listeners) = (Mutex::new(Partition::new(limits)), Listeners::default());
            Arc::new(Room { name, partition, listeners })
        });
        Arc::clone(room)
    }

    /// Runs one operation on a hub. What it makes ready goes to sessions with credit in the same moment. Those who wait are
    /// woken when the lock is released.
    pub(crate) fn with<T>(&self, room: &Room, operation: impl FnOnce(&mut Partition) -> T) -> T {
        #[cfg(feature = "planted")]
        let _planted = dauer_store_kit::planted::plant(*unpoisoned(&self.shared.defect));
        let mut partition = unpoisoned(&room.partition);
        partition.enter(self.now());
        let answer = operation(&mut partition);
        let (served, wakers) = self.spend(room, &mut partition);
        let news = partition.take_news();
        drop(partition);
        wakers.into_iter().for_each(Waker::wake);
        self.tell(room, news, &served);
        answer
    }

    /// Gives what an operation has made ready to the sessions with credit.
    fn spend(&self, room: &Room, partition: &mut Partition) -> (Vec<SessionId>, Vec<Waker>) {
        let ready: Vec<Kind> = partition.ready().to_vec();
        if ready.is_empty() {
            return Default::default();
        }
        let (mut served, mut wakers) = (Vec::new(), Vec::new());
        for (hub, session, mut offer) in self.desks.offers() {
            if hub == room.name {
                partition.serve(session, &mut offer, &ready);
                // Within the lock: the next write must not spend the same credit.
                wakers.extend(self.desks.book(session, offer.into_won()));
                served.push(session);
            }
        }
        (served, wakers)
    }

    /// Tells those who wait what has changed.
    fn tell(&self, room: &Room, news: News, served: &[SessionId]) {
        let hub = &room.name;
        let concerns_work = !news.ready.is_empty() || !news.mail.is_empty() || news.due.is_some();
        for kind in news.ready {
            self.desks.unseen(hub, kind, served);
        }
        for (session, instance) in news.mail {
            self.desks.mail(session, instance);
        }
        news.due.into_iter().for_each(|after| self.desks.due(hub, after));
        if concerns_work {
            self.tell_other_handles(hub);
        }
        room.listeners.send(&news.hints);
    }

    /// Another handle learns that something has changed, and not what.
    fn tell_other_handles(&self, hub: &HubName) {
        let handles = unpoisoned(&self.shared.handles);
        let is_other = |desks: &&Weak<Desks>| !std::ptr::eq(desks.as_ptr(), &raw const *self.desks);
        let others: Vec<Arc<Desks>> = handles.iter().filter(is_other).filter_map(Weak::upgrade).collect();
        drop(handles);
        others.into_iter().for_each(|desks| desks.unseen_all(Some(std::slice::from_ref(hub))));
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn hub(&self, name: HubName) -> Arc<dyn Manage> {
        Self::hub(self, name)
    }

    async fn hubs(&self) -> Result<Vec<HubName>, Refused> {
        let rooms: Vec<Arc<Room>> = unpoisoned(&self.shared.rooms).values().cloned().collect();
        let existing = rooms.iter().filter(|room| unpoisoned(&room.partition).exists());
        Ok(existing.map(|room| room.name.clone()).collect())
    }

    async fn has_hub(&self, name: &HubName) -> Result<bool, Refused> {
        let room = unpoisoned(&self.shared.rooms).get(name).cloned();
        Ok(room.is_some_and(|room| unpoisoned(&room.partition).exists()))
    }

    async fn delete_hub(&self, name: &HubName) -> Result<(), Refused> {
        let room = unpoisoned(&self.shared.rooms).get(name).cloned();
        let Some(room) = room else { return Ok(()) };
        let mut partition = unpoisoned(&room.partition);
        partition.enter(self.now());
        if let Some(host) = partition.living_host() {
            let reason = format!("the host '{}' works in this hub; stop it first", host.as_str());
            return Err(Refused::NotExecuted(Cause::new(reason)));
        }
        *partition = Partition::new(self.limits());
        Ok(())
    }

    async fn close(&self) {}
}
