//! The model of the contract: what has happened so far, as calls that can be played again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dauer_faults::{Act, Call, Fate, Faulty, Op, Plan, wrap_hub};
use dauer_sqlite::ManualClock;
use dauer_store::{HubName, Store, Timestamp};

use super::request::{Part, Request, Side};
use crate::support::{everything, options};

/// A call that happened.
#[derive(Debug, Clone)]
pub(crate) struct Happened {
    pub(crate) at: Timestamp,
    /// With one element at most.
    pub(crate) request: Request,
    /// Whether the caller never got the answer.
    pub(crate) answer_lost: bool,
}

/// Loses the answer of the next call, when told to. The recall before a claim is not that call.
#[derive(Default)]
struct LoseOne(AtomicBool);

impl Plan for LoseOne {
    fn fate(&self, call: &Call) -> Fate {
        let may_lose = call.op() != Op::Recall && Act::LoseAnswer.impossible(call.op()).is_none();
        let loses = may_lose && self.0.swap(false, Ordering::SeqCst);
        if loses { Fate::of(Act::LoseAnswer) } else { Fate::PASS }
    }
}

/// The model after all that happened.
pub(crate) struct Model {
    side: Side,
    clock: Arc<ManualClock>,
    lose: Arc<LoseOne>,
    pub(crate) happened: Vec<Happened>,
}

impl Model {
    /// Nothing has happened.
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp(0)));
        let lose = Arc::<LoseOne>::default();
        let store = dauer_model::Model::new(clock.clone()).with_limits(options(&clock).limits);
        let hub = wrap_hub(store.hub(HubName::default()), Arc::new(Faulty::new(lose.clone())));
        Self { side: Side::new(hub), clock, lose, happened: Vec::new() }
    }

    /// Plays all of this on a new store.
    pub(crate) async fn play(happened: Vec<Happened>) -> Self {
        let mut model = Self::new();
        for each in happened {
            model.happen(each).await;
        }
        model
    }

    /// It happens; what the caller would be told.
    pub(crate) async fn happen(&mut self, happened: Happened) -> Vec<Part> {
        self.clock.set(happened.at);
        self.lose.0.store(happened.answer_lost, Ordering::SeqCst);
        let reply = self.side.ask(&happened.request).await;
        self.happened.push(happened);
        reply.parts
    }

    /// All it holds at that time, as text, in order.
    pub(crate) async fn dump(&self, at: Timestamp) -> Vec<String> {
        self.clock.set(at);
        sorted(&self.side).await
    }
}

/// All that a store holds, as text, in order.
pub(crate) async fn sorted(side: &Side) -> Vec<String> {
    let items = everything(&*side.hub).await;
    let mut told: Vec<String> = items.iter().map(|item| format!("{item:?}")).collect();
    told.sort();
    told
}
