//! The store: hubs by name behind one lock, and the calls that wait for a change.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Poll, Waker};

use async_trait::async_trait;
use dauer_core::limits;
use dauer_store::{
    Cause, Changes, Clock, Hint, HubName, Manage, Refused, SessionId, Store, StoreLimits, Timestamp,
};
use futures::future::{Either, pending, select};
use futures::stream;

use crate::fault::{Call, Fault, Plans, Struck, unpoisoned};
use crate::hub::ModelHub;
#[cfg(feature = "mistakes")]
use crate::mistake::Mistake;
use crate::mistake::{Mistake as M, Wrong};
use crate::session::Desk;
use crate::state::{Moment, State};

/// A store that keeps the rules in the simplest way. Clones are the same store.
#[derive(Clone)]
pub struct Model(Arc<Shared>);

struct Shared {
    clock: Arc<dyn Clock>,
    plans: Plans,
    world: Mutex<World>,
    bell: Mutex<Bell>,
}

struct World {
    hubs: BTreeMap<HubName, Room>,
    /// The latest time that was read, and the first one.
    latest: Timestamp,
    first: Timestamp,
    limits: StoreLimits,
    wrong: Wrong,
    /// Commits lose a part; only a mistake sets it.
    torn: bool,
}

/// A hub with the open sessions that may have credit.
struct Room {
    state: State,
    desks: Vec<(SessionId, Weak<Mutex<Desk>>)>,
}

/// Counts the changes, and wakes what waits for the next one.
#[derive(Default)]
struct Bell {
    rung: u64,
    waiting: Vec<Waker>,
}

impl Model {
    /// An empty store that judges all times by `clock`.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let now = clock.now();
        let (wrong, limits) = (Wrong::default(), default_limits());
        let world = World { hubs: BTreeMap::new(), latest: now, first: now, limits, wrong, torn: false };
        let (plans, bell) = (Plans::default(), Mutex::default());
        Self(Arc::new(Shared { clock, plans, world: Mutex::new(world), bell }))
    }

    /// The same store with these limits. Call it before anything else.
    #[must_use]
    pub fn with_limits(self, limits: StoreLimits) -> Self {
        unpoisoned(&self.0.world).limits = limits;
        self
    }

    /// A store that makes this mistake. Call it before anything else.
    #[cfg(feature = "mistakes")]
    #[must_use]
    pub fn with_mistake(self, mistake: Mistake) -> Self {
        unpoisoned(&self.0.world).wrong = Wrong::only(mistake);
        self
    }

    /// The next call of that kind meets the fault. The answer is ready once it has.
    pub fn plan(&self, call: Call, fault: Fault) -> Struck {
        self.0.plans.add(call, fault)
    }

    /// Runs an operation on a hub, and spends the credit of its sessions on what has become ready.
    pub(crate) fn write<T>(&self, hub: &HubName, operation: impl FnOnce(&mut State) -> T) -> T {
        let answer = self.with_room(hub, |room| {
            let answer = operation(&mut room.state);
            room.spend();
            answer
        });
        self.ring();
        answer
    }

    /// Runs an operation on a hub that makes nothing ready.
    pub(crate) fn read<T>(&self, hub: &HubName, operation: impl FnOnce(&mut State) -> T) -> T {
        self.with_room(hub, |room| operation(&mut room.state))
    }

    fn with_room<T>(&self, hub: &HubName, operation: impl FnOnce(&mut Room) -> T) -> T {
        let mut world = unpoisoned(&self.0.world);
        world.latest = world.latest.max(self.0.clock.now());
        let moment = Moment { now: world.latest, first: world.first, wrong: world.wrong, torn: world.torn };
        let limits = world.limits.clone();
        let room = world.hubs.entry(hub.clone());
        let room = room.or_insert_with(|| Room { state: State::new(limits), desks: Vec::new() });
        room.state.enter(moment);
        operation(room)
    }

    /// Makes a call as a fault allows. `Err` is the fault.
    pub(crate) async fn call<T>(
        &self,
        call: Call,
        mut operation: impl FnMut() -> T + Send,
    ) -> Result<T, Refused> {
        let Some(planned) = self.0.plans.take(call) else { return Ok(operation()) };
        let cause = || Cause::new(format!("a fault of {call:?}"));
        let wrong = unpoisoned(&self.0.world).wrong;
        match planned.fault {
            Fault::NotExecuted => {
                if wrong.makes(M::NotExecutedExecutes) {
                    operation();
                }
                Err(Refused::NotExecuted(cause()))
            }
            Fault::UnknownNotDone => {
                if wrong.makes(M::TornCheckpoint) && call == Call::CommitTurns {
                    unpoisoned(&self.0.world).torn = true;
                    operation();
                    unpoisoned(&self.0.world).torn = false;
                }
                Err(Refused::Unknown(cause()))
            }
            Fault::UnknownDone => {
                operation();
                Err(Refused::Unknown(cause()))
            }
            Fault::AnswerWithheld => {
                operation();
                drop(planned);
                pending().await
            }
        }
    }

    /// How often something has changed.
    pub(crate) fn rung(&self) -> u64 {
        unpoisoned(&self.0.bell).rung
    }

    /// Something has changed: every call that waits looks again.
    pub(crate) fn ring(&self) {
        let mut bell = unpoisoned(&self.0.bell);
        bell.rung += 1;
        let waiting = std::mem::take(&mut bell.waiting);
        drop(bell);
        waiting.into_iter().for_each(Waker::wake);
    }

    /// Ready when something has changed since `rung`, or `sleep` has ended.
    pub(crate) async fn changed(&self, rung: u64, sleep: impl Future<Output = ()> + Unpin) {
        let change = poll_fn(|context| self.poll_change(rung, context.waker()));
        match select(change, sleep).await {
            Either::Left(_) | Either::Right(_) => {}
        }
    }

    fn poll_change(&self, rung: u64, waker: &Waker) -> Poll<()> {
        let mut bell = unpoisoned(&self.0.bell);
        if bell.rung != rung {
            return Poll::Ready(());
        }
        bell.waiting.push(waker.clone());
        Poll::Pending
    }

    /// One hint after any number of changes.
    pub(crate) fn changes(&self) -> Changes {
        let begin = (self.clone(), self.rung());
        Box::pin(stream::unfold(begin, |(model, rung)| async move {
            poll_fn(|context| model.poll_change(rung, context.waker())).await;
            let rung = model.rung();
            Some((Hint::Elsewhere, (model, rung)))
        }))
    }

    pub(crate) fn limits(&self) -> StoreLimits {
        unpoisoned(&self.0.world).limits.clone()
    }

    /// A session has opened.
    pub(crate) fn open(&self, hub: &HubName, session: SessionId, desk: &Arc<Mutex<Desk>>) {
        self.with_room(hub, |room| room.desks.push((session, Arc::downgrade(desk))));
    }

    /// The state of any other hub, for a store that mixes them up.
    pub(crate) fn elsewhere<T>(&self, find: impl Fn(&State) -> Option<T>) -> Option<T> {
        let world = unpoisoned(&self.0.world);
        let mixes = world.wrong.makes(M::HubsShareInstances);
        world.hubs.values().filter(|_| mixes).find_map(|room| find(&room.state))
    }
}

impl Room {
    fn desks_with_credit(&self) -> usize {
        let desks = self.desks.iter().filter_map(|(_, desk)| desk.upgrade());
        desks.filter(|desk| unpoisoned(desk).turn_room(self.state.wrong()).is_some()).count()
    }

    /// Every session with credit wins what is ready, unless it may not claim.
    fn spend(&mut self) {
        if self.state.makes(M::CreditWaitsForCalls) {
            return;
        }
        self.desks.retain(|(_, desk)| desk.strong_count() > 0);
        let twice = self.state.makes(M::WriteWinsForEach);
        let before = (twice && self.desks_with_credit() > 1).then(|| self.state.clone());
        for (session, desk) in &self.desks {
            let Some(desk) = desk.upgrade() else { continue };
            if self.state.may_claim(*session).is_ok() {
                match before.clone() {
                    Some(mut copy) => copy.win(*session, &mut unpoisoned(&desk)),
                    None => self.state.win(*session, &mut unpoisoned(&desk)),
                }
            }
        }
    }
}

#[async_trait]
impl Store for Model {
    fn hub(&self, name: HubName) -> Arc<dyn Manage> {
        // A hub that was only opened is empty, so that it does not exist.
        self.read(&name, |_| ());
        Arc::new(ModelHub::new(self.clone(), name))
    }

    async fn hubs(&self) -> Result<Vec<HubName>, Refused> {
        let world = unpoisoned(&self.0.world);
        let opened = world.wrong.makes(M::HubsListOpened);
        let existing = world.hubs.iter().filter(|(_, room)| opened || room.state.exists());
        Ok(existing.map(|(name, _)| name.clone()).collect())
    }

    async fn has_hub(&self, name: &HubName) -> Result<bool, Refused> {
        Ok(unpoisoned(&self.0.world).hubs.get(name).is_some_and(|room| room.state.exists()))
    }

    async fn delete_hub(&self, name: &HubName) -> Result<(), Refused> {
        self.read(name, |state| match state.living_host() {
            Some(host) if !state.makes(M::DeleteHubIgnoresSessions) => {
                let reason = format!("the host '{}' works in this hub; stop it first", host.as_str());
                Err(Refused::NotExecuted(Cause::new(reason)))
            }
            _ => Ok(()),
        })?;
        unpoisoned(&self.0.world).hubs.remove(name);
        self.ring();
        Ok(())
    }

    async fn close(&self) {}
}

/// As large as core makes anything, and room beside it.
fn default_limits() -> StoreLimits {
    StoreLimits {
        message_bytes: limits::PAYLOAD_BYTES_MAX as u64 + 1024 * 1024,
        checkpoint_bytes: limits::HISTORY_BYTES_MAX,
        checkpoint_items: 2 * limits::ACTIONS_PER_TURN_MAX as u64,
        delay: limits::TIMER_MAX,
        removed_starts: limits::REMOVED_STARTS_MAX as u64,
        mail_bytes: limits::MAIL_BYTES_MAX,
    }
}
