//! The same test over and over, each time with another thing going wrong.

use std::collections::BTreeSet;
use std::fmt;

use dauer_proto::TaskFailureDetails;
use dauer_replay::{Activity, Handler, Orchestration};
use serde::{Serialize, de::DeserializeOwned};

use crate::activity::Called;
use crate::error::TestError;
use crate::hub::{Ended, Subject, TestHub, typed};
use crate::readable;
use crate::world::Fault;

/// What a run was disturbed by.
///
/// ```
/// use dauer_testhub::Injected;
///
/// let failure = Injected::Failure { call: 2, name: "pay".to_owned() };
/// assert_eq!(failure.to_string(), "when call 2 ('pay') fails");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Injected {
    /// Nothing: the first run of all.
    Nothing,
    /// A call failed.
    Failure {
        /// Which one, counted from 1.
        call: usize,
        /// The activity that was called.
        name: String,
    },
    /// The host died after a checkpoint.
    Crash {
        /// Which one, counted from 1.
        checkpoint: usize,
    },
    /// The host died after every checkpoint.
    CrashAlways,
}

impl fmt::Display for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("when nothing goes wrong"),
            Self::Failure { call, name } => write!(f, "when call {call} ('{name}') fails"),
            Self::Crash { checkpoint } => write!(f, "when the host dies after checkpoint {checkpoint}"),
            Self::CrashAlways => f.write_str("when the host dies after every checkpoint"),
        }
    }
}

/// One run of many, for the test to look at.
///
/// ```
/// use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
/// use dauer_testhub::{Injected, TestHub};
///
/// const PAY: Activity<u32, u32> = Activity::new("pay");
/// const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
///
/// async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
///     Ok(ctx.call(PAY, &item).await?)
/// }
///
/// let mut hub = TestHub::new().activity(PAY, |amount| Ok(amount));
/// hub.fail_every_call(SHOP, shop, 7, |case| match &case.injected {
///     Injected::Nothing => assert!(case.result.is_ok()),
///     injected => assert!(case.result.is_err(), "{injected}"),
/// })
/// .unwrap();
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub struct Case<O> {
    /// What went wrong in it.
    pub injected: Injected,
    /// How it ended: with an output, or with [`TestError::Failed`] or [`TestError::Terminated`].
    pub result: Result<O, TestError>,
    /// The activities that were carried out, in order. One whose failure was injected is here, as failed.
    pub calls: Vec<Called>,
}

impl<O> Case<O> {
    /// How often an activity succeeded: in a saga, what a compensation has to make up for.
    ///
    /// ```
    /// # use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
    /// # use dauer_testhub::TestHub;
    /// # const PAY: Activity<u32, u32> = Activity::new("pay");
    /// # const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
    /// # async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> { Ok(ctx.call(PAY, &item).await?) }
    /// let mut hub = TestHub::new().activity(PAY, |amount| Ok(amount));
    /// hub.fail_every_call(SHOP, shop, 7, |case| {
    ///     assert_eq!(case.succeeded(PAY), usize::from(case.result.is_ok()));
    /// })
    /// .unwrap();
    /// ```
    #[must_use]
    pub fn succeeded<I, P>(&self, activity: Activity<I, P>) -> usize {
        self.calls.iter().filter(|call| call.name == activity.name() && !call.failed).count()
    }
}

impl TestHub<'_> {
    /// Runs the orchestration once undisturbed, and then once for each call of an activity that was made in that run, with
    /// this call failing. Every run is given to `check`, and so are their ends: it says what must hold whatever fails. The
    /// answer is how many runs there were.
    ///
    /// The failing activity is not carried out. Its failure is one that no retry cures. What the closures of activities
    /// change outside of the hub stays changed from run to run; `check` can put it back.
    ///
    /// ```
    /// use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
    /// use dauer_testhub::TestHub;
    ///
    /// const CHARGE: Activity<u32, ()> = Activity::new("charge");
    /// const SHIP: Activity<u32, ()> = Activity::new("ship");
    /// const REFUND: Activity<u32, ()> = Activity::new("refund");
    /// const ORDER: Orchestration<u32, ()> = Orchestration::new("order");
    ///
    /// async fn order(ctx: OrchestrationContext, id: u32) -> Result<()> {
    ///     ctx.call(CHARGE, &id).await?;
    ///     if let Err(error) = ctx.call(SHIP, &id).await {
    ///         ctx.call(REFUND, &id).await?;
    ///         return Err(error.into());
    ///     }
    ///     Ok(())
    /// }
    ///
    /// let mut hub = TestHub::new().activity(CHARGE, |_| Ok(())).activity(SHIP, |_| Ok(())).activity(REFUND, |_| Ok(()));
    /// let runs = hub.fail_every_call(ORDER, order, 7, |case| {
    ///     let paid = case.succeeded(CHARGE) - case.succeeded(REFUND);
    ///     assert_eq!(paid, usize::from(case.result.is_ok()), "paid for what was not shipped, {}", case.injected);
    /// });
    /// assert_eq!(runs.unwrap(), 3); // undisturbed, without charge, without ship
    /// ```
    ///
    /// # Errors
    /// [`TestError::Case`] when a run gives no outcome: it gets stuck, is not deterministic, or calls an activity that the
    /// test has no answer for.
    pub fn fail_every_call<I, O, S>(
        &mut self,
        orchestration: Orchestration<I, O>,
        handler: impl Handler<I, O, S>,
        input: I,
        mut check: impl FnMut(&Case<O>),
    ) -> Result<usize, TestError>
    where
        I: Serialize + 'static,
        O: DeserializeOwned + 'static,
        S: 'static,
    {
        let subject = self.subject(orchestration, handler, &input)?;
        self.case(&subject, Fault::Nothing, Injected::Nothing, &mut check)?;
        let calls = self.trace.scheduled.clone();
        for (index, name) in calls.iter().enumerate() {
            let injected = Injected::Failure { call: index + 1, name: name.clone() };
            self.case(&subject, Fault::Call(index), injected, &mut check)?;
        }
        Ok(calls.len() + 1)
    }

    /// Runs the orchestration once undisturbed, then once for each of its checkpoints, with the host dying after it, and once
    /// with the host dying after all of them. When it dies, every activity that is not answered has been carried out, and
    /// is carried out again: activities run at least once. All runs must end alike. Every one is given to `check`, which
    /// says what must hold outside, too. The answer is how many runs there were.
    ///
    /// What the closures of activities change outside of the hub stays changed from run to run; `check` can put it back.
    ///
    /// ```
    /// use std::cell::RefCell;
    /// use std::collections::BTreeSet;
    /// use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
    /// use dauer_testhub::TestHub;
    ///
    /// const CHARGE: Activity<(String, u32), ()> = Activity::new("charge");
    /// const ORDER: Orchestration<u32, ()> = Orchestration::new("order");
    ///
    /// async fn order(ctx: OrchestrationContext, amount: u32) -> Result<()> {
    ///     let key = ctx.uuid().to_string(); // the same in every replay, so that a repetition is seen to be one
    ///     Ok(ctx.call(CHARGE, &(key, amount)).await?)
    /// }
    ///
    /// let bank = RefCell::new(BTreeSet::new());
    /// let mut hub = TestHub::new().activity(CHARGE, |charge| {
    ///     bank.borrow_mut().insert(charge);
    ///     Ok(())
    /// });
    /// let runs = hub.crash_after_every_checkpoint(ORDER, order, 7, |case| {
    ///     assert_eq!(bank.take().len(), 1, "charged twice, {}", case.injected);
    /// });
    /// assert_eq!(runs.unwrap(), 4); // undisturbed, after the first turn, after the second, after both
    /// ```
    ///
    /// # Errors
    /// [`TestError::CrashMattered`] when a run ends otherwise, [`TestError::Case`] when one gives no outcome.
    pub fn crash_after_every_checkpoint<I, O, S>(
        &mut self,
        orchestration: Orchestration<I, O>,
        handler: impl Handler<I, O, S>,
        input: I,
        mut check: impl FnMut(&Case<O>),
    ) -> Result<usize, TestError>
    where
        I: Serialize + 'static,
        O: DeserializeOwned + 'static,
        S: 'static,
    {
        let subject = self.subject(orchestration, handler, &input)?;
        let undisturbed = self.case(&subject, Fault::Nothing, Injected::Nothing, &mut check)?;
        let checkpoints = self.trace.checkpoints;
        let single = (1..=checkpoints).map(|it| (Fault::Crash(it), Injected::Crash { checkpoint: it }));
        for (fault, injected) in single.chain([(Fault::Crashes, Injected::CrashAlways)]) {
            let ended = self.case(&subject, fault, injected.clone(), &mut check)?;
            if ended != undisturbed {
                let again = self.calls().iter().filter(|call| call.attempt > 1);
                let repeated: BTreeSet<_> = again.map(|call| call.name.clone()).collect();
                return Err(TestError::CrashMattered {
                    injected,
                    expected: in_words(&undisturbed),
                    found: in_words(&ended),
                    repeated: repeated.into_iter().collect(),
                });
            }
        }
        Ok(checkpoints + 2)
    }

    fn case<O: DeserializeOwned>(
        &mut self,
        subject: &Subject,
        fault: Fault,
        injected: Injected,
        check: &mut impl FnMut(&Case<O>),
    ) -> Result<Ended, TestError> {
        let within = |source| TestError::Case { injected: injected.clone(), source: Box::new(source) };
        let ended = self.go(subject, fault).map_err(within)?;
        let result = match typed(ended.clone(), subject.registry.payloads()) {
            Err(error @ TestError::Output(_)) => return Err(within(error)),
            result => result,
        };
        check(&Case { injected, result, calls: self.calls().to_vec() });
        Ok(readable::ended(ended, subject.registry.payloads()))
    }
}

/// An end, for whoever reads the test's output.
fn in_words(ended: &Ended) -> String {
    let or_nothing = |output: &Option<String>| output.clone().unwrap_or_else(|| "nothing".to_owned());
    match ended {
        Ended::Completed(output) => format!("the output {}", or_nothing(output)),
        Ended::Terminated(output) => format!("a termination by {}", or_nothing(output)),
        Ended::Failed(TaskFailureDetails { error_type, error_message, .. }) => {
            format!("the failure {error_type}: {error_message}")
        }
    }
}
