//! The store: any number of hubs behind one lock, with one clock and one plan of faults.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures::channel::mpsc;

use dauer_store::{
    Cause, Changes, Env, Fence, Hint, HostId, HubName, InstanceId, Manage, Record, Refused, Store,
    StoreLimits, Timestamp,
};
use dauer_store_kit::judge::default_limits;

use crate::defect::{Defect, Defects};
use crate::fault::{FaultPlan, HintFault, NoFaults};
use crate::hub::MemoryHub;
use crate::state::{Moment, State};
use dauer_store::Clock;

/// How many hints wait for a subscriber that does not read: beyond, they are lost, which costs time and no work.
const HINTS_WAITING_MAX: usize = 1_024;

/// A store in memory. Clones are the same store.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    world: Mutex<World>,
}

/// Everything behind the lock.
struct World {
    hubs: BTreeMap<HubName, Room>,
    skew: Duration,
    /// The latest time ever read: a store's time never goes backwards.
    latest: Timestamp,
    /// The first time ever read; only a defect looks at it.
    first: Timestamp,
    limits: StoreLimits,
    defects: Defects,
    faults: Arc<dyn FaultPlan>,
    env: Option<Arc<dyn Env>>,
}

/// Shared rather than cloned: every clone of a sender would add a place to the bounded channel.
type Listener = Arc<Mutex<mpsc::Sender<Hint>>>;

/// One hub: its state, and those who listen to its hints.
struct Room {
    state: State,
    listeners: Vec<Listener>,
    held_back: Vec<Hint>,
}

impl MemoryStore {
    /// An empty store that judges all times by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let now = clock.now();
        let world = World {
            hubs: BTreeMap::new(),
            skew: Duration::ZERO,
            latest: now,
            first: now,
            limits: default_limits(),
            defects: Defects::default(),
            faults: Arc::new(NoFaults),
            env: None,
        };
        Self { shared: Arc::new(Shared { clock, world: Mutex::new(world) }) }
    }

    /// Opens a hub. It exists once something was put into it: an instance, a message or a session.
    #[must_use]
    pub fn hub(&self, name: HubName) -> Arc<MemoryHub> {
        Arc::new(MemoryHub::new(self.clone(), name))
    }

    /// From now on this plan decides what goes wrong.
    pub fn set_faults(&self, plan: Arc<dyn FaultPlan>) {
        self.world().faults = plan;
    }

    /// From now on nothing goes wrong.
    pub fn clear_faults(&self) {
        self.set_faults(Arc::new(NoFaults));
    }

    /// Delays sleep here. Without one, a delay of any length gives way to other tasks once.
    pub fn set_env(&self, env: Arc<dyn Env>) {
        self.world().env = Some(env);
    }

    /// From now on these are the limits.
    pub fn set_limits(&self, limits: StoreLimits) {
        let mut world = self.world();
        for room in world.hubs.values_mut() {
            room.state.limits = limits.clone();
        }
        world.limits = limits;
    }

    /// The store's clock is so far ahead of the clock it was given. It never goes back: after a smaller skew it
    /// stands still until the given clock has caught up.
    pub fn skew(&self, ahead: Duration) {
        self.world().skew = ahead;
    }

    /// The leases of a host's sessions, in all hubs, are over now.
    pub fn expire_sessions(&self, host: &HostId) {
        let mut world = self.world();
        let now = self.read_clock(&mut world).now;
        for room in world.hubs.values_mut() {
            room.state.expire_sessions_of(host, now);
        }
    }

    /// The store's time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        let mut world = self.world();
        self.read_clock(&mut world).now
    }

    /// A store that makes this mistake, and no other. Call it before anything else.
    #[cfg(feature = "defects")]
    #[must_use]
    pub fn with_defect(self, defect: Defect) -> Self {
        self.world().defects = Defects::only(defect);
        self
    }

    /// Runs one operation on a hub's state and sends the hints it caused.
    pub(crate) fn with_state<T>(&self, hub: &HubName, operation: impl FnOnce(&mut State) -> T) -> T {
        let mut world = self.world();
        let moment = self.read_clock(&mut world);
        let plan = Arc::clone(&world.faults);
        let room = world.room(hub);
        room.state.enter(moment);
        let answer = operation(&mut room.state);
        let hints = std::mem::take(&mut room.state.hints);
        if hints.is_empty() || room.listeners.is_empty() {
            return answer;
        }
        let hints = room.disturb(hints, plan.as_ref());
        room.listeners.retain(|listener| !unpoisoned(listener).is_closed());
        let listeners = room.listeners.clone();
        drop(world);
        // Sending wakes the listener's task, which must not find the lock taken.
        for listener in listeners {
            let mut listener = unpoisoned(&listener);
            for hint in &hints {
                // A full channel loses the hint: that is what a hint is.
                let _ = listener.try_send(hint.clone());
            }
        }
        answer
    }

    /// What a store that mixes up its hubs finds.
    pub(crate) fn get_anywhere(&self, id: &InstanceId) -> Option<(Fence, Record)> {
        self.world().hubs.values().find_map(|room| room.state.get(id))
    }

    pub(crate) fn faults(&self) -> Arc<dyn FaultPlan> {
        Arc::clone(&self.world().faults)
    }

    pub(crate) fn env(&self) -> Option<Arc<dyn Env>> {
        self.world().env.clone()
    }

    pub(crate) fn defects(&self) -> Defects {
        self.world().defects
    }

    pub(crate) fn limits(&self) -> StoreLimits {
        self.world().limits.clone()
    }

    pub(crate) fn subscribe(&self, hub: &HubName) -> Changes {
        let (sender, receiver) = mpsc::channel(HINTS_WAITING_MAX);
        self.world().room(hub).listeners.push(Arc::new(Mutex::new(sender)));
        Box::pin(receiver)
    }

    fn read_clock(&self, world: &mut World) -> Moment {
        let read = self.shared.clock.now().after(world.skew);
        world.latest = world.latest.max(read);
        Moment { now: world.latest, first: world.first, defects: world.defects }
    }

    /// A panic while the lock was held can only come from a defect of this crate; the state is still the last one
    /// that an operation finished or began, and tests want to look at it.
    fn world(&self) -> MutexGuard<'_, World> {
        unpoisoned(&self.shared.world)
    }
}

#[async_trait]
impl Store for MemoryStore {
    fn hub(&self, name: HubName) -> Arc<dyn Manage> {
        Self::hub(self, name)
    }

    async fn hubs(&self) -> Result<Vec<HubName>, Refused> {
        let world = self.world();
        let opened = world.defects.broken(Defect::HubsListOpened);
        let existing = world.hubs.iter().filter(|(_, room)| opened || room.state.exists());
        Ok(existing.map(|(name, _)| name.clone()).collect())
    }

    async fn has_hub(&self, name: &HubName) -> Result<bool, Refused> {
        Ok(self.world().hubs.get(name).is_some_and(|room| room.state.exists()))
    }

    async fn delete_hub(&self, name: &HubName) -> Result<(), Refused> {
        let mut world = self.world();
        let now = self.read_clock(&mut world).now;
        let living = world.hubs.get(name).and_then(|room| room.state.living_host(now));
        if let Some(host) = living.filter(|_| !world.defects.broken(Defect::DeleteHubIgnoresSessions)) {
            let reason = format!("the host '{}' works in this hub; stop it first", host.as_str());
            return Err(Refused::NotExecuted(Cause::new(reason)));
        }
        world.hubs.remove(name);
        Ok(())
    }

    async fn close(&self) {}
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    fn room(&mut self, hub: &HubName) -> &mut Room {
        let limits = &self.limits;
        self.hubs.entry(hub.clone()).or_insert_with(|| Room {
            state: State::new(limits.clone()),
            listeners: Vec::new(),
            held_back: Vec::new(),
        })
    }
}

impl Room {
    /// Loses, doubles and swaps hints as the plan says.
    fn disturb(&mut self, hints: Vec<Hint>, plan: &dyn FaultPlan) -> Vec<Hint> {
        let mut sent = Vec::with_capacity(hints.len());
        for hint in hints {
            match plan.hint(&hint) {
                HintFault::Drop => continue,
                HintFault::Reorder => {
                    self.held_back.push(hint);
                    continue;
                }
                HintFault::Duplicate => sent.push(hint.clone()),
                HintFault::None => {}
            }
            sent.push(hint);
            sent.append(&mut self.held_back);
        }
        sent
    }
}
