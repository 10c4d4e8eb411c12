//! Faults that a test plans: the next call of an operation meets one.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::channel::oneshot;
use futures::future::BoxFuture;

use dauer_conformance::{Fault, FaultPlan};
use dauer_faults::{Act, Fate, Faulty, Op, Plan, Struck};

struct Planned {
    op: Op,
    act: Act,
    struck: oneshot::Sender<()>,
}

/// The faults of a test. All stores, hubs and sessions behind [`Faults::interceptor`] share them.
#[derive(Default)]
pub(crate) struct Faults {
    planned: Mutex<VecDeque<Planned>>,
    /// Those whose calls have begun.
    striking: Mutex<Vec<(Op, oneshot::Sender<()>)>>,
}

/// A panic while a lock was held is a failed test; others go on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Faults {
    pub(crate) fn interceptor(self: &Arc<Self>) -> Arc<Faulty> {
        Arc::new(Faulty::new(self.clone()))
    }

    /// The next call of that operation meets that fault. The answer is ready once it has.
    pub(crate) fn plan(&self, op: Op, act: Act) -> BoxFuture<'static, ()> {
        let (struck, has_struck) = oneshot::channel();
        lock(&self.planned).push_back(Planned { op, act, struck });
        has_struck.map(|_| ()).boxed()
    }

    /// The same as the conformance suite asks for it.
    pub(crate) fn plan_for(&self, FaultPlan { call, fault }: FaultPlan) -> BoxFuture<'static, ()> {
        use dauer_conformance::Call;
        let op = match call {
            Call::Create => Op::Create,
            Call::Send => Op::Send,
            Call::Amend => Op::Amend,
            Call::Next => Op::Next,
            Call::CommitTurns => Op::CommitTurns,
            Call::CompleteActivities => Op::CompleteActivities,
            other => panic!("the fixture does not know {other:?}"),
        };
        let act = match fault {
            Fault::NotExecuted => Act::Refuse,
            Fault::UnknownNotDone => Act::LoseRequest,
            Fault::UnknownDone => Act::LoseAnswer,
            Fault::AnswerWithheld => Act::Withhold,
            other => panic!("the fixture does not know {other:?}"),
        };
        self.plan(op, act)
    }
}

impl Plan for Faults {
    fn fate(&self, call: &dauer_faults::Call) -> Fate {
        let mut planned = lock(&self.planned);
        let found = planned.iter().position(|planned| planned.op == call.op());
        let Some(Planned { op, act, struck }) = found.and_then(|at| planned.remove(at)) else {
            return Fate::PASS;
        };
        lock(&self.striking).push((op, struck));
        Fate::of(act)
    }

    fn struck(&self, struck: Struck) {
        let mut striking = lock(&self.striking);
        if let Some(at) = striking.iter().position(|(op, _)| *op == struck.op) {
            // A test that no longer waits does not need it.
            let _ = striking.remove(at).1.send(());
        }
    }
}
