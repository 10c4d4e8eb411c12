//! The activities of a test: closures, scripts, or the real code.

use std::time::Duration;

use dauer_core::InstanceId;
use dauer_core::model::Task;
use dauer_core::workitem::activity_request;
use dauer_proto::{ActivityRequest, TaskFailureDetails};
use dauer_replay::{
    Activity, ActivityContext, ActivityError, ActivityHandler, ActivityProgram, Error, Payloads,
};
use futures::FutureExt;
use serde::{Serialize, de::DeserializeOwned};

use crate::error::TestError;
use crate::script::{Script, Written};

/// What came of a call.
pub(crate) type Outcome = Result<Option<String>, TaskFailureDetails>;

/// One call that the orchestration has made and that is not answered.
pub(crate) struct Outstanding {
    pub(crate) task: Task,
    pub(crate) request: ActivityRequest,
    /// Which call of this activity it is in the whole run, from 0.
    pub(crate) nth: usize,
    /// Which call of any activity it is in the whole run, from 0.
    pub(crate) ordinal: usize,
    /// How often it was carried out.
    pub(crate) attempts: u32,
}

impl Outstanding {
    pub(crate) fn new(task: Task, nth: usize, ordinal: usize) -> Result<Self, TestError> {
        let request = activity_request(&task)?;
        Ok(Self { task, request, nth, ordinal, attempts: 0 })
    }
}

/// An activity that was carried out, or would have been had no failure been injected.
///
/// ```
/// use dauer_replay::{Activity, Orchestration, OrchestrationContext, Result};
/// use dauer_testhub::TestHub;
///
/// const PRICE: Activity<u32, u32> = Activity::new("price");
/// const SHOP: Orchestration<u32, u32> = Orchestration::new("shop");
///
/// async fn shop(ctx: OrchestrationContext, item: u32) -> Result<u32> {
///     Ok(ctx.call(PRICE, &item).await?)
/// }
///
/// let mut hub = TestHub::new().activity(PRICE, |item| Ok(item * 10));
/// assert_eq!(hub.run(SHOP, shop, 7).unwrap(), 70);
/// let call = &hub.calls()[0];
/// assert_eq!((call.name.as_str(), &call.input, call.failed), ("price", &serde_json::json!(7), false));
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Called {
    /// The activity.
    pub name: String,
    /// Its input; `null` when it has none.
    pub input: serde_json::Value,
    /// The instance that called it.
    pub instance: InstanceId,
    /// When, counted from the start of the test.
    pub at: Duration,
    /// How often this very call was carried out, this time included: more than 1 only after a crash.
    pub attempt: u32,
    /// Whether it failed.
    pub failed: bool,
}

/// The code of an activity without its types. `'a` is what it borrows from the test.
pub(crate) type Code<'a> = Box<dyn Fn(&Outstanding, &Payloads) -> Result<Outcome, TestError> + 'a>;

pub(crate) fn closure<'a, I, O>(answer: impl Fn(I) -> Result<O, Error> + 'a) -> Code<'a>
where
    I: DeserializeOwned,
    O: Serialize,
{
    Box::new(move |call, payloads| {
        let input = payloads.decode(call.request.input.as_deref()).map_err(ActivityError::Undecodable);
        let output = input.and_then(|input| answer(input).map_err(ActivityError::Failed));
        let text = output.and_then(|it| payloads.encode(&it).map_err(ActivityError::Unencodable));
        Ok(text.map(Some).map_err(TaskFailureDetails::from))
    })
}

pub(crate) fn scripted<'a, O: Serialize>(script: Script<O>) -> Result<Code<'a>, serde_json::Error> {
    let written = Written::new(script)?;
    Ok(Box::new(move |call, payloads| match written.answer(call.nth) {
        Some(Ok(json)) => {
            let text = payloads.encode_json(json).map_err(ActivityError::Unencodable);
            Ok(text.map(Some).map_err(TaskFailureDetails::from))
        }
        Some(Err(details)) => Ok(Err(details)),
        None => Err(TestError::ScriptOver {
            name: call.request.name.clone(),
            answers: written.len(),
            call: call.nth + 1,
        }),
    }))
}

pub(crate) fn real<'a, I, O>(name: Activity<I, O>, handler: impl ActivityHandler<I, O>) -> Code<'a>
where
    I: 'static,
    O: 'static,
{
    let program = ActivityProgram::new(name, handler);
    Box::new(move |call, payloads| {
        let context = ActivityContext::new(&call.request, call.attempts)?.payloads(payloads.clone());
        match program.begin(context, call.request.input.as_deref()).now_or_never() {
            Some(output) => Ok(output.map(Some).map_err(TaskFailureDetails::from)),
            None => Err(TestError::ActivityWaits { name: call.request.name.clone() }),
        }
    })
}
