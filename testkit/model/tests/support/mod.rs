//! The fixture of the model.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;

use dauer_conformance::{Call, Fault, FaultPlan, Fixture};
use dauer_model::{Call as Called, Fault as Broken, Model};
use dauer_store::{ManualClock, Store, StoreLimits, Timestamp, Work};

/// A model whose clock the rule moves and whose calls the rule breaks.
pub(crate) struct ModelFixture {
    clock: Arc<ManualClock>,
    model: Model,
}

impl ModelFixture {
    /// A model, changed before anything is done with it.
    pub(crate) fn with(change: impl FnOnce(Model) -> Model) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp(1_700_000_000_000)));
        // Small, so that the rules about limits are quick.
        let limits = StoreLimits {
            message_bytes: 10_000,
            checkpoint_bytes: 100_000,
            checkpoint_items: 100,
            delay: Duration::from_secs(100 * 24 * 60 * 60),
            removed_starts: 8,
            mail_bytes: 1_000,
        };
        Self { model: change(Model::new(clock.clone()).with_limits(limits)), clock }
    }
}

#[async_trait]
impl Fixture for ModelFixture {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.model.clone())
    }

    async fn kill(&self, session: Arc<dyn Work>) {
        drop(session);
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    async fn fault(&self, plan: FaultPlan) -> BoxFuture<'static, ()> {
        let call = match plan.call {
            Call::Create => Called::Create,
            Call::Send => Called::Send,
            Call::Amend => Called::Amend,
            Call::Next => Called::Next,
            Call::CommitTurns => Called::CommitTurns,
            Call::CompleteActivities => Called::CompleteActivities,
            other => panic!("the fixture of the model does not know {other:?}"),
        };
        let fault = match plan.fault {
            Fault::NotExecuted => Broken::NotExecuted,
            Fault::UnknownNotDone => Broken::UnknownNotDone,
            Fault::UnknownDone => Broken::UnknownDone,
            Fault::AnswerWithheld => Broken::AnswerWithheld,
            other => panic!("the fixture of the model does not know {other:?}"),
        };
        self.model.plan(call, fault)
    }
}
