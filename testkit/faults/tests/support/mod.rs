//! A memory store with one hub and a session, and a plan that a test writes.
#![allow(dead_code)] // Each test file uses its own part.
#![allow(clippy::unwrap_used)] // A test that cannot be set up has failed.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use dauer_core::model::Over;
use dauer_core::send::{self, Caller, StartRequest};
use dauer_faults::{Call, Fate, Faulty, HintFate, Op, Plan, Struck, wrap_store};
use dauer_memory::{ManualClock, MemoryStore};
use dauer_store::{
    Amount, Create, Credit, Env, ExecutionId, Hint, Host, HostId, HubName, InstanceId, Manage, Reuse,
    SessionId, Steady, Store, Timestamp, Work,
};
use futures::executor::block_on;
use futures::future::BoxFuture;

/// Gives the calls of one operation, and hints, the fates of lists; nothing happens to all others.
#[derive(Default)]
pub(crate) struct Script {
    pub(crate) fates: Mutex<VecDeque<(Op, Fate)>>,
    pub(crate) hints: Mutex<VecDeque<HintFate>>,
    pub(crate) struck: Mutex<Vec<Struck>>,
}

impl Script {
    /// The next call of that operation has that fate.
    pub(crate) fn then(&self, op: Op, fate: Fate) {
        self.fates.lock().unwrap().push_back((op, fate));
    }

    pub(crate) fn struck(&self) -> Vec<Struck> {
        std::mem::take(&mut self.struck.lock().unwrap())
    }
}

impl Plan for Script {
    fn fate(&self, call: &Call) -> Fate {
        let mut fates = self.fates.lock().unwrap();
        match fates.front() {
            Some((op, fate)) if *op == call.op() => {
                let fate = *fate;
                fates.pop_front();
                fate
            }
            _ => Fate::PASS,
        }
    }

    fn hint(&self, _hint: &Hint) -> HintFate {
        self.hints.lock().unwrap().pop_front().unwrap_or_default()
    }

    fn struck(&self, struck: Struck) {
        self.struck.lock().unwrap().push(struck);
    }
}

/// A store behind faults, with a hub and a session. `raw` is the same hub without faults.
pub(crate) struct World {
    pub(crate) plan: Arc<Script>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) hub: Arc<dyn Manage>,
    pub(crate) raw: Arc<dyn Manage>,
    pub(crate) session: Arc<dyn Work>,
}

pub(crate) fn id(name: &str) -> InstanceId {
    InstanceId::new(name).unwrap()
}

pub(crate) fn host(session: u128) -> Host {
    Host {
        id: HostId::new("host").unwrap(),
        session: SessionId(session),
        lease: Duration::from_secs(60),
        runs_code: true,
    }
}

pub(crate) fn create(name: &str) -> Create {
    let caller = Caller { request: 1, repeatable: true, now: Timestamp(1_000) };
    let request = StartRequest::new(id(name), "code");
    Create::new(send::start(request, ExecutionId(1), caller, Over::Refuse).unwrap(), Reuse::default())
}

/// Room for any number of turns and tasks.
pub(crate) fn credit(number: u64, count: usize) -> Credit {
    let room = Amount::items(count);
    Credit { number, turns: room, tasks: room, ..Credit::default() }
}

/// Time passes at once, and what is spawned waits until the test runs it.
#[derive(Default)]
pub(crate) struct Later(Mutex<Vec<BoxFuture<'static, ()>>>);

impl Later {
    pub(crate) fn run(&self) {
        let spawned = std::mem::take(&mut *self.0.lock().unwrap());
        spawned.into_iter().for_each(block_on);
    }
}

impl Env for Later {
    fn now(&self) -> Timestamp {
        Timestamp(1_000)
    }

    fn steady(&self) -> Steady {
        Steady(0)
    }

    fn sleep_until(&self, _at: Steady) -> BoxFuture<'static, ()> {
        Box::pin(std::future::ready(()))
    }

    fn spawn(&self, work: BoxFuture<'static, ()>) {
        self.0.lock().unwrap().push(work);
    }

    fn random(&self) -> u64 {
        0
    }
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(|faulty| faulty)
    }

    /// With an environment that the test moves on.
    pub(crate) fn later() -> (Self, Arc<Later>) {
        let later = Arc::<Later>::default();
        let env = Arc::clone(&later) as Arc<dyn Env>;
        (Self::with(|faulty| faulty.with_env(env)), later)
    }

    fn with(env: impl FnOnce(Faulty) -> Faulty) -> Self {
        let memory = MemoryStore::new(Arc::new(ManualClock::new(Timestamp(1_000))));
        let plan = Arc::<Script>::default();
        let faulty = Arc::new(env(Faulty::new(Arc::clone(&plan) as Arc<dyn Plan>)));
        let store = wrap_store(Arc::new(memory.clone()), faulty);
        let hub = store.hub(HubName::default());
        let session = block_on(hub.attach(host(1))).unwrap();
        Self { plan, store, hub, raw: memory.hub(HubName::default()), session }
    }

    /// Starts an instance without faults.
    pub(crate) fn start(&self, name: &str) {
        block_on(self.raw.create(vec![create(name)])).remove(0).unwrap();
    }

    pub(crate) fn exists(&self, name: &str) -> bool {
        block_on(self.raw.get(vec![id(name)])).unwrap().remove(0).is_some()
    }
}
