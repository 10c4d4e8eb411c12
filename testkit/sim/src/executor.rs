//! The executor: one thread, virtual time, and a random order that comes from the seed.
//!
//! Every task belongs to an [`Owner`]: a host, or the world outside. All tasks of an owner can be dropped at once,
//! which is a crash, or left lying for a while, which is a process that was stopped. Time stands still while anything
//! can run, and then jumps to the next sleeper.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Wake, Waker};

use dauer_memory::{Clock, ManualClock};
use dauer_store::Timestamp;
use futures::future::BoxFuture;

use crate::random::Random;
use crate::trace::Trace;
use crate::unpoisoned;

/// When every simulation begins. Far from 0, so that a host whose clock is behind still has a time.
pub const BEGINNING: Timestamp = Timestamp(1_000_000_000_000);

/// Hazards are counted in so many polls.
const HAZARD_OF: u64 = 100_000;

/// Who a task belongs to and dies with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner(pub u32);

impl Owner {
    /// Clients, supervisors and whatever else never crashes.
    pub const OUTSIDE: Self = Self(0);
}

/// What one step did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A task was polled.
    Polled,
    /// Nothing could run, so time went on.
    Slept,
    /// Nothing can run, and nobody sleeps: nothing will ever happen again.
    Stuck,
}

/// The executor. Clones are the same one.
#[derive(Clone)]
pub struct Executor {
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<ManualClock>,
    trace: Arc<Trace>,
    state: Mutex<State>,
}

struct State {
    random: Random,
    tasks: BTreeMap<u64, Task>,
    /// Woken tasks; which one is next is up to the seed.
    ready: Vec<u64>,
    /// Woken tasks of owners that were stopped.
    parked: Vec<u64>,
    sleepers: BTreeMap<(Timestamp, u64), Waker>,
    alive: BTreeSet<Owner>,
    stopped: BTreeSet<Owner>,
    /// Owners that die as soon as the task that runs now gives way.
    doomed: Vec<Owner>,
    next_id: u64,
    polls: u64,
    polls_at_this_time: u64,
    /// How often an owner dies instead of being polled, in a hundred thousand polls.
    hazard: u32,
    hazards: u64,
}

struct Task {
    owner: Owner,
    /// Gone while the task is polled.
    future: Option<BoxFuture<'static, ()>>,
    waker: Waker,
    woken: bool,
}

struct Bell {
    shared: Arc<Shared>,
    task: u64,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.shared.lock().wake(self.task);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        unpoisoned(&self.state)
    }
}

impl State {
    fn wake(&mut self, id: u64) {
        let Some(task) = self.tasks.get_mut(&id) else { return };
        if !task.woken {
            task.woken = true;
            let stopped = self.stopped.contains(&task.owner);
            if stopped { self.parked.push(id) } else { self.ready.push(id) }
        }
    }

    fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }
}

impl Executor {
    /// An executor with nothing to do. `clock` is moved by it alone.
    #[must_use]
    pub fn new(clock: Arc<ManualClock>, trace: Arc<Trace>, random: Random) -> Self {
        let state = State {
            random,
            tasks: BTreeMap::new(),
            ready: Vec::new(),
            parked: Vec::new(),
            sleepers: BTreeMap::new(),
            alive: BTreeSet::from([Owner::OUTSIDE]),
            stopped: BTreeSet::new(),
            doomed: Vec::new(),
            next_id: 0,
            polls: 0,
            polls_at_this_time: 0,
            hazard: 0,
            hazards: 0,
        };
        Self { shared: Arc::new(Shared { clock, trace, state: Mutex::new(state) }) }
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// What happened so far.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.shared.trace
    }

    /// How many polls there were.
    #[must_use]
    pub fn polls(&self) -> u64 {
        self.shared.lock().polls
    }

    /// How many polls there were since time last went on: many mean that something spins.
    #[must_use]
    pub fn polls_at_this_time(&self) -> u64 {
        self.shared.lock().polls_at_this_time
    }

    /// From now on that many of a hundred thousand polls kill the owner instead, at whatever its tasks wait for.
    pub fn set_hazard(&self, of_hundred_thousand: u32) {
        self.shared.lock().hazard = of_hundred_thousand;
    }

    /// How many owners died that way.
    #[must_use]
    pub fn hazards(&self) -> u64 {
        self.shared.lock().hazards
    }

    /// Lets an owner have tasks.
    pub fn admit(&self, owner: Owner) {
        self.shared.lock().alive.insert(owner);
    }

    /// Whether the owner has not been killed.
    #[must_use]
    pub fn is_alive(&self, owner: Owner) -> bool {
        self.shared.lock().alive.contains(&owner)
    }

    /// Whether the owner has any task.
    #[must_use]
    pub fn is_busy(&self, owner: Owner) -> bool {
        self.shared.lock().tasks.values().any(|task| task.owner == owner)
    }

    /// Adds a task. What a dead owner spawns is dropped: it never existed.
    pub fn spawn(&self, owner: Owner, future: BoxFuture<'static, ()>) {
        let mut state = self.shared.lock();
        if !state.alive.contains(&owner) {
            drop(state);
            return drop(future);
        }
        let id = state.next_id();
        let waker = Waker::from(Arc::new(Bell { shared: Arc::clone(&self.shared), task: id }));
        state.tasks.insert(id, Task { owner, future: Some(future), waker, woken: false });
        state.wake(id);
    }

    /// A crash: all tasks of the owner are gone, wherever they were.
    pub fn kill(&self, owner: Owner) {
        let mut state = self.shared.lock();
        state.alive.remove(&owner);
        state.stopped.remove(&owner);
        let ids: Vec<u64> =
            state.tasks.iter().filter(|(_, task)| task.owner == owner).map(|(id, _)| *id).collect();
        let dead: Vec<Task> = ids.iter().filter_map(|id| state.tasks.remove(id)).collect();
        state.ready.retain(|id| !ids.contains(id));
        state.parked.retain(|id| !ids.contains(id));
        // Dropping them wakes others and may lock again.
        drop(state);
        drop(dead);
    }

    /// A crash as soon as the task that runs now gives way: for a task that kills its own host.
    pub fn doom(&self, owner: Owner) {
        self.shared.lock().doomed.push(owner);
    }

    /// The owner's tasks do not run until [`Executor::resume`]: the process was stopped, or its machine paused.
    pub fn stop(&self, owner: Owner) {
        let mut state = self.shared.lock();
        state.stopped.insert(owner);
        let (ready, tasks) = (std::mem::take(&mut state.ready), &state.tasks);
        let (parked, ready) =
            ready.into_iter().partition(|id| tasks.get(id).is_some_and(|task| task.owner == owner));
        state.ready = ready;
        let mut parked: Vec<u64> = parked;
        state.parked.append(&mut parked);
    }

    /// The owner's tasks run again, with all that woke them meanwhile.
    pub fn resume(&self, owner: Owner) {
        let mut state = self.shared.lock();
        state.stopped.remove(&owner);
        let (parked, tasks) = (std::mem::take(&mut state.parked), &state.tasks);
        let (ready, parked): (Vec<u64>, Vec<u64>) =
            parked.into_iter().partition(|id| tasks.get(id).is_some_and(|task| task.owner == owner));
        state.parked = parked;
        state.ready.extend(ready);
    }

    /// Ready at that time.
    pub fn sleep_until(&self, at: Timestamp) -> BoxFuture<'static, ()> {
        Box::pin(Sleep { shared: Arc::clone(&self.shared), at, key: None })
    }

    /// Polls one task, or lets time go on when there is none.
    pub fn step(&self) -> Progress {
        let mut state = self.shared.lock();
        if state.ready.is_empty() {
            drop(state);
            return self.sleep();
        }
        let length = state.ready.len();
        let chosen = state.random.index(length);
        let id = state.ready.swap_remove(chosen);
        state.polls += 1;
        state.polls_at_this_time += 1;
        let Some(task) = state.tasks.get_mut(&id) else { return Progress::Polled };
        task.woken = false;
        let (owner, waker, future) = (task.owner, task.waker.clone(), task.future.take());
        let hazard = if owner == Owner::OUTSIDE { 0 } else { state.hazard };
        let dies = hazard > 0 && state.random.below(HAZARD_OF) < u64::from(hazard);
        state.hazards += u64::from(dies);
        drop(state);
        if dies {
            self.shared
                .trace
                .note(self.now(), &[8, u64::from(owner.0)], || format!("{} dies where it waits", owner.0));
            self.kill(owner);
            return Progress::Polled;
        }
        self.shared
            .trace
            .note(self.now(), &[1, id, u64::from(owner.0)], || format!("poll task {id} of {}", owner.0));
        let Some(mut future) = future else { return Progress::Polled };
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        self.put_back(id, polled.is_pending().then_some(future));
        Progress::Polled
    }

    fn put_back(&self, id: u64, future: Option<BoxFuture<'static, ()>>) {
        let mut state = self.shared.lock();
        // Both are dropped after the lock is: what they hold may lock again.
        let (mut over, mut ended) = (None, None);
        match (future, state.tasks.get_mut(&id)) {
            (Some(future), Some(task)) => task.future = Some(future),
            // Its owner was killed while it ran.
            (future, None) => over = future,
            (None, Some(_)) => ended = state.tasks.remove(&id),
        }
        let doomed = std::mem::take(&mut state.doomed);
        drop(state);
        drop((over.take(), ended.take()));
        for owner in doomed {
            self.kill(owner);
        }
    }

    fn sleep(&self) -> Progress {
        let mut state = self.shared.lock();
        let Some((&(at, _), _)) = state.sleepers.first_key_value() else { return Progress::Stuck };
        let now = self.now().max(at);
        self.shared.clock.set(now);
        state.polls_at_this_time = 0;
        let later = state.sleepers.split_off(&(Timestamp(now.0.saturating_add(1)), 0));
        let due = std::mem::replace(&mut state.sleepers, later);
        drop(state);
        due.into_values().for_each(Waker::wake);
        Progress::Slept
    }

    /// Drops everything, so that nothing keeps anything else alive.
    pub fn shut_down(&self) {
        let mut state = self.shared.lock();
        state.alive.clear();
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        drop(tasks);
        let mut state = self.shared.lock();
        state.ready.clear();
        let sleepers = std::mem::take(&mut state.sleepers);
        drop(state);
        drop(sleepers);
    }
}

struct Sleep {
    shared: Arc<Shared>,
    at: Timestamp,
    key: Option<(Timestamp, u64)>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.shared.clock.now() >= self.at {
            return Poll::Ready(());
        }
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let at = self.at;
        let key = *self.key.get_or_insert_with(|| (at, state.next_id()));
        let replaced = state.sleepers.insert(key, context.waker().clone());
        drop(state);
        drop(replaced);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let mut state = self.shared.lock();
            let waker = state.sleepers.remove(&key);
            drop(state);
            drop(waker);
        }
    }
}

/// Lets others run first.
pub async fn give_way() {
    let mut waited = false;
    std::future::poll_fn(|context| {
        if waited {
            return Poll::Ready(());
        }
        waited = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests;
