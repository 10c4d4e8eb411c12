//! The fixture of the memory store.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;

use dauer_conformance::{Call, Fault, FaultPlan, Fixture};
use dauer_memory::{ManualClock, MemoryStore};
use dauer_store::{Store, StoreLimits, Timestamp, Work};

/// A memory store whose clock the rule moves and whose calls the rule breaks.
pub(crate) struct MemoryFixture {
    clock: Arc<ManualClock>,
    store: MemoryStore,
    plans: Arc<Plans>,
}

impl MemoryFixture {
    /// A store, changed before anything is done with it.
    pub(crate) fn with(change: impl FnOnce(MemoryStore) -> MemoryStore) -> Self {
        // Any moment will do, as long as it is not zero: a store must not confuse "no time" with the epoch.
        let clock = Arc::new(ManualClock::new(Timestamp(1_700_000_000_000)));
        let store = change(MemoryStore::new(clock.clone()));
        // Small, so that the rules about limits are quick. What the limits are is the store's own affair.
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
        store.set_faults(plans.clone());
        Self { clock, store, plans }
    }
}

#[async_trait]
impl Fixture for MemoryFixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
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
        // Runners of this store poll until the rule ends, so that nobody has to be woken.
        Box::pin(poll_fn(
            move |_| if struck.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending },
        ))
    }
}

struct Planned {
    call: dauer_memory::Call,
    fault: dauer_memory::Fault,
    struck: Arc<AtomicBool>,
}

impl Planned {
    fn new(FaultPlan { call, fault }: FaultPlan) -> Self {
        use dauer_memory::{Call as Called, Fault as Broken};
        let call = match call {
            Call::Create => Called::Create,
            Call::Send => Called::Send,
            Call::Amend => Called::Amend,
            Call::ClaimTurns => Called::ClaimTurns,
            Call::CommitTurns => Called::CommitTurns,
            Call::ClaimActivities => Called::ClaimActivities,
            Call::CompleteActivities => Called::CompleteActivities,
            other => panic!("the memory fixture does not know {other:?}"),
        };
        let fault = match fault {
            Fault::NotExecuted => Broken::FailBefore,
            Fault::UnknownNotDone => Broken::LoseRequest,
            Fault::UnknownDone => Broken::ExecuteAndFail,
            Fault::AnswerWithheld => Broken::DelayAfter(Duration::from_secs(1)),
            other => panic!("the memory fixture does not know {other:?}"),
        };
        Self { call, fault, struck: Arc::default() }
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

impl dauer_memory::FaultPlan for Plans {
    fn next(&self, call: dauer_memory::Call) -> dauer_memory::Fault {
        let mut plans = self.planned();
        let found =
            plans.iter().position(|planned| planned.call == call).and_then(|index| plans.remove(index));
        let Some(planned) = found else { return dauer_memory::Fault::None };
        planned.struck.store(true, Ordering::SeqCst);
        planned.fault
    }
}
