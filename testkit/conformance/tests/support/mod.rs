//! The fixture of the memory store.

#![allow(clippy::expect_used)] // A test fails by panicking.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;

use dauer_conformance::{Call, Fault, FaultPlan, Fixture, Hub};
use dauer_faults::{Act, Fate, Faulty, Op, Plan, wrap_store};
use dauer_memory::{ManualClock, MemoryStore};
use dauer_store::{Host, Store, StoreLimits, Timestamp, Work};

/// A memory store whose clock the rule moves and whose calls the rule breaks.
pub(crate) struct MemoryFixture {
    clock: Arc<ManualClock>,
    /// Handles on one store.
    handles: Vec<Arc<dyn Store>>,
    sessions: AtomicUsize,
    plans: Arc<Plans>,
}

impl MemoryFixture {
    /// A store with that many handles, changed before anything is done with it.
    pub(crate) fn with(handles: usize, change: impl FnOnce(MemoryStore) -> MemoryStore) -> Self {
        // Any moment will do, as long as it is not zero: a store must not confuse "no time" with the epoch.
        let clock = Arc::new(ManualClock::new(Timestamp(1_700_000_000_000)));
        let store = change(MemoryStore::new(clock.clone()));
        // Small, so that the rules about limits are quick. The limits are the store's own affair.
        let delay = Duration::from_secs(100 * 24 * 60 * 60);
        let limits = StoreLimits {
            message_bytes: 10_000,
            checkpoint_bytes: 100_000,
            checkpoint_items: 100,
            delay,
            removed_starts: 8,
            mail_bytes: 1_000,
        };
        store.set_limits(limits);
        let plans = Arc::new(Plans::default());
        let wrap = |store| wrap_store(Arc::new(store), Arc::new(Faulty::new(plans.clone())));
        let others = (1..handles).map(|_| wrap(store.handle())).collect::<Vec<_>>();
        let handles = [wrap(store)].into_iter().chain(others).collect();
        Self { clock, handles, sessions: AtomicUsize::new(0), plans }
    }
}

#[async_trait]
impl Fixture for MemoryFixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.handles[0])
    }

    /// Sessions take turns between the handles.
    async fn session(&self, hub: &Hub, host: Host) -> Arc<dyn Work> {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        let handle = &self.handles[(number + 1) % self.handles.len()];
        handle.hub(hub.name.clone()).attach(host).await.expect("a new session is not refused")
    }

    async fn kill(&self, session: Arc<dyn Work>) {
        drop(session);
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn fault(&self, plan: FaultPlan) -> BoxFuture<'static, ()> {
        let planned = Planned::new(plan);
        let struck = planned.struck.clone();
        self.plans.planned().push_back(planned);
        // Runners of this store poll until the rule ends: no task has to be woken.
        Box::pin(poll_fn(
            move |_| if struck.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending },
        ))
    }
}

struct Planned {
    op: Op,
    act: Act,
    struck: Arc<AtomicBool>,
}

impl Planned {
    fn new(FaultPlan { call, fault }: FaultPlan) -> Self {
        let op = match call {
            Call::Create => Op::Create,
            Call::Send => Op::Send,
            Call::Amend => Op::Amend,
            Call::Next => Op::Next,
            Call::CommitTurns => Op::CommitTurns,
            Call::CompleteActivities => Op::CompleteActivities,
            other => panic!("the memory fixture does not know {other:?}"),
        };
        let act = match fault {
            Fault::NotExecuted => Act::Refuse,
            Fault::UnknownNotDone => Act::LoseRequest,
            Fault::UnknownDone => Act::LoseAnswer,
            Fault::AnswerWithheld => Act::Withhold,
            other => panic!("the memory fixture does not know {other:?}"),
        };
        Self { op, act, struck: Arc::default() }
    }
}

/// The faults that are planned and have not struck.
#[derive(Default)]
struct Plans(Mutex<VecDeque<Planned>>);

impl Plans {
    /// A panic while the lock was held is a failed test; others go on.
    fn planned(&self) -> MutexGuard<'_, VecDeque<Planned>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Plan for Plans {
    fn fate(&self, call: &dauer_faults::Call) -> Fate {
        let mut plans = self.planned();
        let found = plans.iter().position(|planned| planned.op == call.op());
        let Some(planned) = found.and_then(|index| plans.remove(index)) else { return Fate::PASS };
        planned.struck.store(true, Ordering::SeqCst);
        Fate::of(planned.act)
    }
}
