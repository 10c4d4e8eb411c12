//! The test hub as tests see it: what can be run, and what can be asked of a run.

use std::time::Duration;

use dauer_core::model::{Over, Status};
use dauer_core::send::{self, StartRequest};
use dauer_core::{ExecutionId, InstanceId};
use dauer_proto::{HistoryEvent, TaskFailureDetails};
use dauer_replay::{Activity, Failure, Handler, Orchestration, Payloads, Registry};
use serde::{Serialize, de::DeserializeOwned};

use crate::activity::Called;
use crate::error::TestError;
use crate::instance::Instance;
use crate::setup::Setup;
use crate::world::{Fault, Trace, World};

/// The id of the instance that a test runs.
const INSTANCE: &str = "test";

/// A hub for unit tests: no runtime, no storage, no waiting.
///
/// Time is virtual: when nothing can be done, the clock jumps to the next timer, event or answer. Every turn is replayed
/// from the beginning of its history, twice, so that each test is also a test that the code is deterministic. Turns are
/// those of every hub: retries, children, continue-as-new and all else behave as they do in production.
///
/// What the test plans for a moment happens before the timers and answers of that moment. A run is over when the
/// orchestration has ended and nothing else is left to do at that time.
///
/// ```
/// use std::time::Duration;
/// use dauer_replay::{Activity, CallError, Event, Failure, Orchestration, OrchestrationContext, Result, RetryPolicy};
/// use dauer_testhub::{Script, TestHub};
///
/// const PRICE: Activity<u32, u32> = Activity::new("price");
/// const APPROVED: Event<bool> = Event::new("approved");
/// const CHECKOUT: Orchestration<u32, Option<u32>> = Orchestration::new("checkout");
/// const HOUR: Duration = Duration::from_secs(3_600);
///
/// async fn checkout(ctx: OrchestrationContext, item: u32) -> Result<Option<u32>> {
///     let retry = RetryPolicy::exponential(5, Duration::from_secs(1));
///     let price = ctx.call(PRICE, &item).retry(retry).await?;
///     match ctx.event(APPROVED).timeout(24 * HOUR).await {
///         Ok(true) => Ok(Some(price)),
///         Ok(false) | Err(CallError::TimedOut { .. }) => Ok(None),
///         Err(error) => Err(error.into()),
///     }
/// }
///
/// let hub = || {
///     let down = Failure::new("Down", "no answer");
///     TestHub::new().script(PRICE, Script::new().fail(down).times(2).ok(10))
/// };
///
/// // In time.
/// let mut approved = hub().raise_at(2 * HOUR, APPROVED, &true);
/// assert_eq!(approved.run(CHECKOUT, checkout, 7).unwrap(), Some(10));
/// assert_eq!(approved.now(), 2 * HOUR);
/// assert_eq!(approved.inputs(PRICE).unwrap(), [7, 7, 7]);
///
/// // Too late: after a day, and the 1 and 2 seconds between the attempts.
/// let mut forgotten = hub();
/// assert_eq!(forgotten.run(CHECKOUT, checkout, 7).unwrap(), None);
/// assert_eq!(forgotten.now(), 24 * HOUR + Duration::from_secs(3));
/// ```
#[must_use = "a test hub does nothing until something is run in it"]
pub struct TestHub<'a> {
    pub(crate) setup: Setup<'a>,
    /// What is wrong with the setup.
    pub(crate) mistake: Option<TestError>,
    pub(crate) trace: Trace,
}

impl Default for TestHub<'_> {
    fn default() -> Self {
        Self::new()
    }
}

/// What a run is a run of.
pub(crate) struct Subject {
    pub(crate) registry: Registry,
    pub(crate) request: StartRequest,
}

/// How a run ended, without types.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Ended {
    Completed(Option<String>),
    Failed(TaskFailureDetails),
    Terminated(Option<String>),
}

impl TestHub<'_> {
    /// Runs an orchestration from its start to its end. The hub may run several, one after the other: each begins anew.
    ///
    /// ```
    /// # use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
    /// # use dauer_testhub::TestHub;
    /// # const PRICE: Activity<u32, u32> = Activity::new("price");
    /// # const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
    /// # async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    /// #     ctx.set_status("pricing");
    /// #     Ok(ctx.call(PRICE, &item).await?)
    /// # }
    /// let mut hub = TestHub::new().activity(PRICE, |item| Ok(item * 10));
    /// assert_eq!(hub.run(SHOP, shop, 7).unwrap(), 70);
    /// ```
    ///
    /// # Errors
    /// [`TestError`] when it does not end with an output of its type.
    pub fn run<I, O, S>(
        &mut self,
        orchestration: Orchestration<I, O>,
        handler: impl Handler<I, O, S>,
        input: I,
    ) -> Result<O, TestError>
    where
        I: Serialize + 'static,
        O: DeserializeOwned + 'static,
        S: 'static,
    {
        let subject = self.subject(orchestration, handler, &input)?;
        let ended = self.go(&subject, Fault::Nothing)?;
        typed(ended, subject.registry.payloads())
    }

    pub(crate) fn subject<I: Serialize + 'static, O: 'static, S: 'static>(
        &mut self,
        orchestration: Orchestration<I, O>,
        handler: impl Handler<I, O, S>,
        input: &I,
    ) -> Result<Subject, TestError> {
        if let Some(mistake) = self.mistake.take() {
            return Err(mistake);
        }
        let mut registry = self.setup.registry.clone();
        registry.orchestration(orchestration, handler)?;
        let input = self.setup.registry.payloads().encode(input);
        let input =
            input.map_err(|source| TestError::Unencodable { what: "the input".to_owned(), source })?;
        let version = orchestration.version_name().map(str::to_owned);
        let id = InstanceId::new(INSTANCE).map_err(|error| TestError::Internal(error.into()))?;
        let request =
            StartRequest { version, input: Some(input), ..StartRequest::new(id, orchestration.name()) };
        Ok(Subject { registry, request })
    }

    /// One run, with that fault.
    pub(crate) fn go(&mut self, subject: &Subject, fault: Fault) -> Result<Ended, TestError> {
        let mut world = World::new(&self.setup, &subject.registry, fault);
        let caller = world.caller();
        // One instance of one hub: its number is as good as chance, and the same in every run of a test.
        let execution = ExecutionId(caller.request);
        let start = send::start(subject.request.clone(), execution, caller, Over::Refuse)?;
        let result = world.run(start);
        // Also after an error: what was called until then tells what went wrong.
        self.trace = world.into_trace();
        result?;
        ended(self.main().ok_or_else(|| TestError::Internal("the instance is gone".into()))?)
    }

    pub(crate) fn main(&self) -> Option<&Instance> {
        self.trace.instances.values().find(|instance| instance.id.as_str() == INSTANCE)
    }

    /// How much virtual time the last run has taken.
    ///
    /// ```
    /// # use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
    /// # use dauer_testhub::TestHub;
    /// # const PRICE: Activity<u32, u32> = Activity::new("price");
    /// # const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
    /// # async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    /// #     ctx.set_status("pricing");
    /// #     Ok(ctx.call(PRICE, &item).await?)
    /// # }
    /// let mut hub = TestHub::new().activity(PRICE, |item| Ok(item * 10));
    /// assert_eq!(hub.run(SHOP, shop, 7).unwrap(), 70);
    /// assert_eq!(hub.now(), std::time::Duration::ZERO); // nothing had to be waited for
    /// ```
    #[must_use]
    pub fn now(&self) -> Duration {
        self.trace.now.since(self.setup.start)
    }

    /// The activities that the last run carried out, in order.
    ///
    /// ```
    /// # use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
    /// # use dauer_testhub::TestHub;
    /// # const PRICE: Activity<u32, u32> = Activity::new("price");
    /// # const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
    /// # async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    /// #     ctx.set_status("pricing");
    /// #     Ok(ctx.call(PRICE, &item).await?)
    /// # }
    /// let mut hub = TestHub::new().activity(PRICE, |item| Ok(item * 10));
    /// assert_eq!(hub.run(SHOP, shop, 7).unwrap(), 70);
    /// assert_eq!(hub.calls()[0].name, "price");
    /// ```
    #[must_use]
    pub fn calls(&self) -> &[Called] {
        &self.trace.calls
    }

    /// The inputs with which the last run carried out an activity, in order.
    ///
    /// ```
    /// # use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
    /// # use dauer_testhub::TestHub;
    /// # const PRICE: Activity<u32, u32> = Activity::new("price");
    /// # const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
    /// # async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    /// #     ctx.set_status("pricing");
    /// #     Ok(ctx.call(PRICE, &item).await?)
    /// # }
    /// let mut hub = TestHub::new().activity(PRICE, |item| Ok(item * 10));
    /// assert_eq!(hub.run(SHOP, shop, 7).unwrap(), 70);
    /// assert_eq!(hub.inputs(PRICE).unwrap(), [7]);
    /// ```
    ///
    /// # Errors
    /// When an input is not what the name promises.
    pub fn inputs<I: DeserializeOwned, O>(
        &self,
        activity: Activity<I, O>,
    ) -> Result<Vec<I>, serde_json::Error> {
        let calls = self.calls().iter().filter(|call| call.name == activity.name());
        calls.map(|call| serde_json::from_value(call.input.clone())).collect()
    }

    /// The history of the tested orchestration after the last run: that of its last execution, if it continued as new.
    ///
    /// ```
    /// # use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
    /// # use dauer_testhub::TestHub;
    /// # const PRICE: Activity<u32, u32> = Activity::new("price");
    /// # const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
    /// # async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    /// #     ctx.set_status("pricing");
    /// #     Ok(ctx.call(PRICE, &item).await?)
    /// # }
    /// let mut hub = TestHub::new().activity(PRICE, |item| Ok(item * 10));
    /// assert_eq!(hub.run(SHOP, shop, 7).unwrap(), 70);
    /// assert_eq!(hub.history().len(), 6); // turn, start, call; turn, answer, end
    /// ```
    #[must_use]
    pub fn history(&self) -> &[HistoryEvent] {
        self.main().map_or(&[], |instance| &instance.history)
    }

    /// The history of another instance, if there is one of that id.
    ///
    /// ```
    /// # use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
    /// # use dauer_testhub::TestHub;
    /// # const PRICE: Activity<u32, u32> = Activity::new("price");
    /// # const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
    /// # async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    /// #     ctx.set_status("pricing");
    /// #     Ok(ctx.call(PRICE, &item).await?)
    /// # }
    /// let mut hub = TestHub::new().activity(PRICE, |item| Ok(item * 10));
    /// assert_eq!(hub.run(SHOP, shop, 7).unwrap(), 70);
    /// let id = dauer_core::InstanceId::new("test").unwrap();
    /// assert_eq!(hub.history_of(&id), Some(hub.history()));
    /// ```
    #[must_use]
    pub fn history_of(&self, id: &InstanceId) -> Option<&[HistoryEvent]> {
        self.trace.instances.get(id).map(|instance| instance.history.as_slice())
    }

    /// All instances of the last run, and where they stand.
    ///
    /// ```
    /// # use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
    /// # use dauer_testhub::TestHub;
    /// # const PRICE: Activity<u32, u32> = Activity::new("price");
    /// # const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
    /// # async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    /// #     ctx.set_status("pricing");
    /// #     Ok(ctx.call(PRICE, &item).await?)
    /// # }
    /// let mut hub = TestHub::new().activity(PRICE, |item| Ok(item * 10));
    /// assert_eq!(hub.run(SHOP, shop, 7).unwrap(), 70);
    /// assert_eq!(hub.instances().count(), 1); // no children
    /// ```
    pub fn instances(&self) -> impl Iterator<Item = (&InstanceId, Status)> {
        self.trace.instances.values().map(|instance| (&instance.id, instance.record.status))
    }

    /// What the tested orchestration last said of itself, as JSON.
    ///
    /// ```
    /// # use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
    /// # use dauer_testhub::TestHub;
    /// # const PRICE: Activity<u32, u32> = Activity::new("price");
    /// # const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
    /// # async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
    /// #     ctx.set_status("pricing");
    /// #     Ok(ctx.call(PRICE, &item).await?)
    /// # }
    /// let mut hub = TestHub::new().activity(PRICE, |item| Ok(item * 10));
    /// assert_eq!(hub.run(SHOP, shop, 7).unwrap(), 70);
    /// assert_eq!(hub.custom_status(), Some("\"pricing\""));
    /// ```
    #[must_use]
    pub fn custom_status(&self) -> Option<&str> {
        self.main()?.record.details.custom_status().map(|status| status.as_str())
    }
}

/// How an instance ended.
fn ended(instance: &Instance) -> Result<Ended, TestError> {
    let output = instance.record.details.output().map(|output| output.as_str().to_owned());
    match (instance.record.status, instance.record.details.failure()) {
        (Status::Completed, _) => Ok(Ended::Completed(output)),
        (Status::Failed, Some(failure)) => Ok(Ended::Failed(failure.decode()?)),
        (Status::Failed, None) => Ok(Ended::Failed(TaskFailureDetails::default())),
        _ => Ok(Ended::Terminated(output)),
    }
}

/// The same with types.
pub(crate) fn typed<O: DeserializeOwned>(ended: Ended, payloads: &Payloads) -> Result<O, TestError> {
    match ended {
        Ended::Completed(output) => payloads.decode(output.as_deref()).map_err(TestError::Output),
        Ended::Failed(details) => Err(TestError::Failed(Failure::from(details))),
        Ended::Terminated(output) => Err(TestError::Terminated { output }),
    }
}
