//! What an orchestration is given to act with.

use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

use dauer_core::ids::check_name;
use dauer_core::{ExecutionId, InstanceId, Timestamp};
use dauer_proto::event::ScheduledKind;
use dauer_proto::{
    ActionType, CreateSubOrchestrationAction, OrchestrationInstance, ScheduleTaskAction, SendEventAction,
};
use serde::Serialize;
use uuid::Uuid;

use crate::call::{Call, ChildCall, Sleep, Task};
use crate::events::NextEvent;
use crate::guard::{Place, TurnError};
use crate::names::{Activity, Event, Orchestration};
use crate::payload::Payloads;
use crate::state::Shared;

/// The namespace of the ids that [`OrchestrationContext::uuid`] makes. Part of the behaviour that histories rely on:
/// it must never change.
const UUID_NAMESPACE: Uuid = Uuid::from_u128(0x6f0d_1c5e_93b7_4f0a_8a2d_5be1_7c94_d3e6);

/// All that an orchestration may do, and all it may know.
///
/// Everything it tells comes from the history and is the same in every replay. Cheap to clone. Only for the
/// orchestration's own code: using it on another thread or in a spawned task stops the turn.
#[derive(Debug, Clone)]
pub struct OrchestrationContext {
    shared: Arc<Shared>,
}

impl OrchestrationContext {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(crate) fn payloads(&self) -> &Payloads {
        &self.shared.payloads
    }

    /// Runs an activity.
    #[track_caller]
    pub fn call<I: Serialize, O>(&self, activity: Activity<I, O>, input: &I) -> Call<O> {
        let place = Location::caller();
        let action = self.encode_for(place, "activity", activity.name(), input).map(|input| {
            let name = activity.name().to_owned();
            ActionType::ScheduleTask(ScheduleTaskAction { name, input: Some(input), ..Default::default() })
        });
        Call::new(Task::new(&self.shared, ScheduledKind::Task, action, place))
    }

    /// Runs a child orchestration. Without a version it gets this orchestration's own, if that has one.
    #[track_caller]
    pub fn call_orchestration<I: Serialize, O>(
        &self,
        orchestration: Orchestration<I, O>,
        input: &I,
    ) -> ChildCall<O> {
        let place = Location::caller();
        let action = self.encode_for(place, "orchestration", orchestration.name(), input).map(|input| {
            ActionType::CreateSubOrchestration(CreateSubOrchestrationAction {
                name: orchestration.name().to_owned(),
                version: orchestration.version_name().map(str::to_owned),
                input: Some(input),
                ..Default::default()
            })
        });
        ChildCall::new(Task::new(&self.shared, ScheduledKind::Child, action, place))
    }

    /// Waits so long, counted from now and not from the first poll.
    #[track_caller]
    pub fn sleep(&self, duration: Duration) -> Sleep {
        self.timer(self.now().after(duration), Location::caller())
    }

    /// Waits until a time. One that has passed fires at once.
    #[track_caller]
    pub fn sleep_until(&self, at: Timestamp) -> Sleep {
        self.timer(at, Location::caller())
    }

    fn timer(&self, at: Timestamp, place: Place) -> Sleep {
        Sleep::new(Task::timer_at(&self.shared, at, place))
    }

    /// Waits for the next event of that name. Events that came before anyone waited are kept, and given in order.
    #[track_caller]
    pub fn event<T>(&self, event: Event<T>) -> NextEvent<T> {
        NextEvent::new(&self.shared, event, Location::caller())
    }

    /// Starts an orchestration that goes its own way: nobody waits for it, and its end is not noticed. Terminating this
    /// orchestration together with its children ends it too, as long as this one runs.
    ///
    /// An instance of that id that runs already is left as it is.
    #[track_caller]
    pub fn start<I: Serialize, O>(&self, orchestration: Orchestration<I, O>, id: &InstanceId, input: &I) {
        drop(self.call_orchestration(orchestration, input).instance(id).start());
    }

    /// Sends an event to another instance. It is dropped if there is none, or if it has ended.
    #[track_caller]
    pub fn send_event<T: Serialize>(&self, to: &InstanceId, event: Event<T>, data: &T) {
        let place = Location::caller();
        match self.encode_for(place, "event", event.name(), data) {
            Err(fault) => self.shared.lock_inside(place).fail(fault),
            Ok(data) => {
                let target =
                    OrchestrationInstance { instance_id: to.as_str().to_owned(), execution_id: None };
                let name = event.name().to_owned();
                let send = SendEventAction { instance: Some(target), name, data: Some(data) };
                self.shared.decide(ActionType::SendEvent(send), None, place);
            }
        }
    }

    /// Sets the status that clients see, until the next call.
    #[track_caller]
    pub fn set_status<T: Serialize + ?Sized>(&self, status: &T) {
        let place = Location::caller();
        let encoded = self.payloads().encode(status);
        let mut state = self.shared.lock_inside(place);
        match encoded {
            Ok(text) => state.status = Some(text),
            Err(source) => {
                state.fail(TurnError::Unencodable { what: format!("{place}: the status"), source });
            }
        }
    }

    /// If this run ends by continuing as new, the next one runs in that version of the code; without this it keeps its
    /// own. An empty version changes nothing: there is no way back to none.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use dauer_replay::{OrchestrationContext, Result};
    ///
    /// async fn monitor(ctx: OrchestrationContext, round: u32) -> Result<ControlFlow<(), u32>> {
    ///     ctx.continue_in_version("2"); // from the next round on the new code watches
    ///     Ok(ControlFlow::Continue(round + 1))
    /// }
    /// ```
    #[track_caller]
    pub fn continue_in_version(&self, version: &str) {
        let place = Location::caller();
        let checked = match version {
            "" => Ok(()),
            version => check_name("orchestration version", version),
        };
        let mut state = self.shared.lock_inside(place);
        match checked {
            Ok(()) => state.next_version = Some(version.to_owned()),
            Err(source) => state.fail(TurnError::Name { location: place, source }),
        }
    }

    /// The time of the turn. It stands still while the code runs, and is the same in every replay.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.shared.lock().now
    }

    /// A new id, the same in every replay: made from the instance, the execution and how many were made before.
    #[track_caller]
    #[must_use]
    pub fn uuid(&self) -> Uuid {
        let mut state = self.shared.lock_inside(Location::caller());
        let counter = state.uuids;
        state.uuids += 1;
        drop(state);
        // An instance id has no control characters, so the parts cannot run into each other.
        let name = format!("{}\n{}\n{counter}", self.instance(), self.execution());
        Uuid::new_v5(&UUID_NAMESPACE, name.as_bytes())
    }

    /// Whether this has happened before. For logs and metrics only: a decision made on it breaks the replay.
    #[must_use]
    pub fn is_replaying(&self) -> bool {
        self.shared.lock().replaying
    }

    /// Which instance this is.
    #[must_use]
    pub fn instance(&self) -> &InstanceId {
        &self.shared.identity.instance
    }

    /// Which execution of the instance this is.
    #[must_use]
    pub fn execution(&self) -> ExecutionId {
        self.shared.identity.execution
    }

    /// The name it was started by.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.shared.identity.name
    }

    /// The version it was started with, if any.
    #[must_use]
    pub fn version(&self) -> Option<&str> {
        self.shared.identity.version.as_deref()
    }

    /// The input as text, if name and input are fit to be stored.
    fn encode_for<T: Serialize>(
        &self,
        place: Place,
        kind: &'static str,
        name: &str,
        input: &T,
    ) -> Result<String, TurnError> {
        check_name(kind, name).map_err(|source| TurnError::Name { location: place, source })?;
        self.payloads().encode(input).map_err(|source| {
            let what = format!("{place}: the input of {kind} '{name}'");
            TurnError::Unencodable { what, source }
        })
    }
}
