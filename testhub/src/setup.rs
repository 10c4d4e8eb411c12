//! How a test is set up: the answers of activities, the plans of the test, the order of things.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dauer_core::{InstanceId, Timestamp};
use dauer_replay::{
    Activity, ActivityHandler, Error, Event, Handler, Orchestration, PayloadCodec, Payloads, Registry,
};
use serde::{Serialize, de::DeserializeOwned};

use crate::activity::{self, Code};
use crate::agenda::Order;
use crate::error::TestError;
use crate::hub::TestHub;
use crate::script::Script;
use crate::world::Trace;

/// When a test begins unless it says otherwise: 2000-01-01T00:00:00Z, a date that is easily seen to be none of today's.
const START: Timestamp = Timestamp(946_684_800_000);

/// Turns of one run, over all its instances: more than any test of a bounded orchestration takes, and with all of them
/// replayed from the start still a matter of seconds.
const TURNS_MAX: usize = 2_000;

/// Something the test does to an instance.
pub(crate) enum Plan {
    Raise { name: &'static str, data: String },
    Suspend,
    Resume,
    Terminate { output: String },
}

/// A plan, when it is due, and for whom: for the instance that the test runs, unless it says so.
pub(crate) struct Planned {
    pub(crate) at: Duration,
    pub(crate) to: Option<InstanceId>,
    pub(crate) what: Plan,
}

/// How a test is set up: the same for all its runs.
pub(crate) struct Setup<'a> {
    pub(crate) registry: Registry,
    pub(crate) activities: BTreeMap<&'static str, Code<'a>>,
    pub(crate) durations: BTreeMap<&'static str, Duration>,
    /// In the order of their times.
    pub(crate) plans: Vec<Planned>,
    pub(crate) order: Order,
    pub(crate) start: Timestamp,
    pub(crate) turns_max: usize,
}

impl<'a> TestHub<'a> {
    /// A hub without activities.
    ///
    /// ```
    /// # use dauer_testhub::TestHub;
    /// let hub = TestHub::new();
    /// ```
    pub fn new() -> Self {
        let setup = Setup {
            registry: Registry::new(),
            activities: BTreeMap::new(),
            durations: BTreeMap::new(),
            plans: Vec::new(),
            order: Order::default(),
            start: START,
            turns_max: TURNS_MAX,
        };
        Self { setup, mistake: None, trace: Trace::default() }
    }

    /// Answers the calls of an activity. The closure may borrow from the test. A later answer to the same activity takes the
    /// place of an earlier one.
    ///
    /// ```
    /// # use dauer_replay::Activity;
    /// # use dauer_testhub::TestHub;
    /// const PRICE: Activity<u32, u32> = Activity::new("price");
    /// let hub = TestHub::new().activity(PRICE, |item| Ok(item * 10));
    /// ```
    pub fn activity<I, O>(mut self, name: Activity<I, O>, answer: impl Fn(I) -> Result<O, Error> + 'a) -> Self
    where
        I: DeserializeOwned,
        O: Serialize,
    {
        self.setup.activities.insert(name.name(), activity::closure(answer));
        self
    }

    /// Answers the calls of an activity one by one, as written.
    ///
    /// ```
    /// # use dauer_replay::{Activity, Failure};
    /// # use dauer_testhub::{Script, TestHub};
    /// const PRICE: Activity<u32, u32> = Activity::new("price");
    /// let down = Failure::new("Down", "no answer");
    /// let hub = TestHub::new().script(PRICE, Script::new().fail(down).times(2).ok(10));
    /// ```
    pub fn script<I, O: Serialize>(mut self, name: Activity<I, O>, script: Script<O>) -> Self {
        match activity::scripted(script) {
            Ok(code) => drop(self.setup.activities.insert(name.name(), code)),
            Err(source) => self.unencodable(format!("the script of activity '{}'", name.name()), source),
        }
        self
    }

    /// Runs the real code of an activity, which must not wait: there is nobody here to wait for.
    ///
    /// ```
    /// # use dauer_replay::{Activity, ActivityContext, Result};
    /// # use dauer_testhub::TestHub;
    /// const PRICE: Activity<u32, u32> = Activity::new("price");
    ///
    /// async fn price(_: ActivityContext, item: u32) -> Result<u32> {
    ///     Ok(item * 10)
    /// }
    ///
    /// let hub = TestHub::new().activity_code(PRICE, price);
    /// ```
    pub fn activity_code<I: 'static, O: 'static>(
        mut self,
        name: Activity<I, O>,
        handler: impl ActivityHandler<I, O>,
    ) -> Self {
        self.setup.activities.insert(name.name(), activity::real(name, handler));
        self
    }

    /// Lets an activity take so long, in virtual time, before its answer is there.
    ///
    /// ```
    /// # use dauer_replay::Activity;
    /// # use dauer_testhub::TestHub;
    /// # use std::time::Duration;
    /// const PRICE: Activity<u32, u32> = Activity::new("price");
    /// let slow = TestHub::new().activity(PRICE, |_| Ok(10)).takes(PRICE, Duration::from_secs(60));
    /// ```
    pub fn takes<I, O>(mut self, name: Activity<I, O>, duration: Duration) -> Self {
        self.setup.durations.insert(name.name(), duration);
        self
    }

    /// Adds the code of an orchestration that the tested one calls or starts.
    ///
    /// ```
    /// # use dauer_replay::{Orchestration, OrchestrationContext, Result};
    /// # use dauer_testhub::TestHub;
    /// const SHIP: Orchestration<u32, u32> = Orchestration::new("ship");
    ///
    /// async fn ship(_: OrchestrationContext, order: u32) -> Result<u32> {
    ///     Ok(order)
    /// }
    ///
    /// let hub = TestHub::new().orchestration(SHIP, ship);
    /// ```
    pub fn orchestration<I: 'static, O: 'static, S: 'static>(
        mut self,
        orchestration: Orchestration<I, O>,
        handler: impl Handler<I, O, S>,
    ) -> Self {
        if let Err(error) = self.setup.registry.orchestration(orchestration, handler) {
            self.mistake.get_or_insert(error.into());
        }
        self
    }

    /// Raises an event so long after the start.
    ///
    /// ```
    /// # use dauer_replay::Event;
    /// # use dauer_testhub::TestHub;
    /// # use std::time::Duration;
    /// const APPROVED: Event<bool> = Event::new("approved");
    /// let hub = TestHub::new().raise_at(Duration::from_secs(60), APPROVED, &true);
    /// ```
    pub fn raise_at<T: Serialize>(self, at: Duration, event: Event<T>, data: &T) -> Self {
        self.raise(at, None, event, data)
    }

    /// Raises an event for another instance: a child with a chosen id, or one that was started and not waited for.
    ///
    /// ```
    /// # use dauer_replay::Event;
    /// # use dauer_testhub::TestHub;
    /// # use std::time::Duration;
    /// const APPROVED: Event<bool> = Event::new("approved");
    /// let child = dauer_core::InstanceId::new("shipping-7").unwrap();
    /// let hub = TestHub::new().raise_to_at(&child, Duration::from_secs(60), APPROVED, &true);
    /// ```
    pub fn raise_to_at<T: Serialize>(self, to: &InstanceId, at: Duration, event: Event<T>, data: &T) -> Self {
        self.raise(at, Some(to.clone()), event, data)
    }

    fn raise<T: Serialize>(
        mut self,
        at: Duration,
        to: Option<InstanceId>,
        event: Event<T>,
        data: &T,
    ) -> Self {
        match serde_json::to_string(data) {
            Ok(data) => self.plan(at, to, Plan::Raise { name: event.name(), data }),
            Err(source) => {
                self.unencodable(format!("the data of event '{}'", event.name()), source);
                self
            }
        }
    }

    /// Suspends the orchestration so long after the start.
    ///
    /// ```
    /// # use dauer_testhub::TestHub;
    /// # use std::time::Duration;
    /// let hub = TestHub::new().suspend_at(Duration::from_secs(10)).resume_at(Duration::from_secs(20));
    /// ```
    pub fn suspend_at(self, at: Duration) -> Self {
        self.plan(at, None, Plan::Suspend)
    }

    /// Resumes the orchestration so long after the start.
    ///
    /// ```
    /// # use dauer_testhub::TestHub;
    /// # use std::time::Duration;
    /// let hub = TestHub::new().suspend_at(Duration::from_secs(10)).resume_at(Duration::from_secs(20));
    /// ```
    pub fn resume_at(self, at: Duration) -> Self {
        self.plan(at, None, Plan::Resume)
    }

    /// Terminates the orchestration, and its children, so long after the start.
    ///
    /// ```
    /// # use dauer_testhub::TestHub;
    /// # use std::time::Duration;
    /// let hub = TestHub::new().terminate_at(Duration::from_secs(10), &"enough");
    /// ```
    pub fn terminate_at<T: Serialize>(mut self, at: Duration, output: &T) -> Self {
        match serde_json::to_string(output) {
            Ok(output) => self.plan(at, None, Plan::Terminate { output }),
            Err(source) => {
                self.unencodable("the output of the termination".to_owned(), source);
                self
            }
        }
    }

    fn plan(mut self, at: Duration, to: Option<InstanceId>, what: Plan) -> Self {
        // Behind those of the same time: they happen in the order they were given.
        let index = self.setup.plans.partition_point(|planned| planned.at <= at);
        self.setup.plans.insert(index, Planned { at, to, what });
        self
    }

    /// The latest thing that can happen happens first: of several calls the last is answered first.
    ///
    /// ```
    /// # use dauer_testhub::TestHub;
    /// let hub = TestHub::new().complete_in_reverse();
    /// ```
    pub fn complete_in_reverse(mut self) -> Self {
        self.setup.order = Order::Reverse;
        self
    }

    /// What can happen in any order happens in one that the seed chooses. The same seed chooses the same.
    ///
    /// ```
    /// # use dauer_testhub::TestHub;
    /// for seed in 0..100 {
    ///     let hub = TestHub::new().shuffle(seed);
    ///     // run, and assert what must hold in any order
    ///     # let _ = hub;
    /// }
    /// ```
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.setup.order = Order::Shuffled(seed);
        self
    }

    /// Reads and writes payloads through that codec, as the hub does that the code will run in. What a test gives and sees
    /// stays as it is; the history that it exports is what that hub would store.
    ///
    /// ```
    /// # use dauer_replay::{CodecError, PayloadCodec};
    /// # use dauer_testhub::TestHub;
    /// struct Reversed;
    ///
    /// impl PayloadCodec for Reversed {
    ///     fn encode(&self, json: &str) -> Result<String, CodecError> {
    ///         Ok(json.chars().rev().collect())
    ///     }
    ///
    ///     fn decode(&self, stored: &str) -> Result<String, CodecError> {
    ///         Ok(stored.chars().rev().collect())
    ///     }
    /// }
    ///
    /// let hub = TestHub::new().codec(Reversed);
    /// ```
    pub fn codec(mut self, codec: impl PayloadCodec) -> Self {
        let payloads = Payloads::through(Arc::new(codec));
        self.setup.registry = std::mem::take(&mut self.setup.registry).with_payloads(payloads);
        self
    }

    /// Begins at this time instead of 2000-01-01T00:00:00Z, for code that asks for the date.
    ///
    /// ```
    /// # use dauer_testhub::TestHub;
    /// # use dauer_core::Timestamp;
    /// let leap_day = TestHub::new().starting_at(Timestamp(951_782_400_000));
    /// ```
    pub fn starting_at(mut self, start: Timestamp) -> Self {
        self.setup.start = start;
        self
    }

    /// How many turns a run may take, over all its instances, before it counts as endless: 2,000 unless it is said here.
    ///
    /// ```
    /// # use dauer_testhub::TestHub;
    /// let patient = TestHub::new().turns_max(10_000);
    /// ```
    pub fn turns_max(mut self, turns: usize) -> Self {
        self.setup.turns_max = turns;
        self
    }

    fn unencodable(&mut self, what: String, source: serde_json::Error) {
        let source = source.into();
        self.mistake.get_or_insert(TestError::Unencodable { what, source });
    }
}
