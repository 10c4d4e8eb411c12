//! The executor of this process: orchestrations are replayed or continued in place, activities are awaited.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;

use dauer_core::cancel::{CancelReason, Cancellation};
use dauer_core::model::{Filter, Queues, TroubleKind, VersionRule};
use dauer_core::turn::{self, Stalled};
use dauer_hub::{
    ActivityDone, ActivityEnd, ActivityWork, Attempt, Executor, Past, TurnDone, TurnWork, Unfinished,
    with_causes,
};
use dauer_proto::{ActionType, OrchestrationStatus, OrchestratorAction, TaskFailureDetails, failure};
use dauer_replay::{ActivityCall, ActivityContext, ActivityError, Live, Registry, TurnError};

/// Runs the code of a [`Registry`] in this process.
#[doc = include_str!("docs/executors.md")]
pub struct LocalExecutor {
    registry: Arc<Registry>,
    /// What that code can run: asked for with every claim.
    queues: Queues,
    replay_always: bool,
}

impl LocalExecutor {
    /// An executor of that code.
    #[must_use]
    pub fn new(registry: Registry) -> Self {
        Self { queues: queues(&registry), registry: Arc::new(registry), replay_always: false }
    }

    /// Replays every turn from its history instead of keeping the future alive: slower, and what tests want.
    #[must_use]
    pub fn replay_always(self) -> Self {
        Self { replay_always: true, ..self }
    }

    /// The code that it runs.
    #[cfg(feature = "grpc")]
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Whether nothing is kept between turns.
    #[cfg(feature = "grpc")]
    pub(crate) fn replays_always(&self) -> bool {
        self.replay_always
    }

    /// One turn: events in, actions out. Nothing in here waits.
    fn take(&self, work: TurnWork) -> Result<TurnDone, TurnError> {
        let TurnWork { past, new, record, .. } = work;
        let (live, answer, past) = match past {
            Past::Live(live) => {
                // What this executor handed out is what it gets back.
                let mut live = live.downcast::<Live>().map_err(|_| TurnError::Poisoned)?;
                let answer = live.turn(&new)?;
                (live, answer, Vec::new())
            }
            Past::History(past) => {
                let (live, answer) = Live::start(&self.registry, &past, &new)?;
                (Box::new(live), answer, past)
            }
        };
        let dauer_replay::Answer { actions, custom_status, .. } = answer;
        // A termination runs no code and knows no status: the last one stays.
        let custom_status = match custom_status {
            None if is_termination(&actions) => {
                record.details.custom_status().map(|status| status.as_str().to_owned())
            }
            known => known,
        };
        let answer = turn::Answer { actions, custom_status, trace: None };
        if self.replay_always {
            return Ok(TurnDone { answer, live: None, past, receipt: None, build: None });
        }
        Ok(TurnDone { answer, live: Some(live), past: Vec::new(), receipt: None, build: None })
    }
}

fn queues(registry: &Registry) -> Queues {
    let mut versions = BTreeMap::<Arc<str>, Vec<Arc<str>>>::new();
    for program in registry.orchestrations() {
        let version = program.version().unwrap_or_default().into();
        versions.entry(program.name().into()).or_default().push(version);
    }
    let orchestrations = versions.into_iter().map(|(name, all)| (name, VersionRule::Listed(all)));
    let activities = registry.activities().map(|program| (program.name().into(), VersionRule::Any));
    Queues {
        orchestrations: orchestrations.collect(),
        entities: Filter::none(),
        activities: activities.collect(),
    }
}

#[async_trait]
impl Executor for LocalExecutor {
    fn queues(&self) -> Queues {
        self.queues.clone()
    }

    /// All versions of the names it has: one that is not registered is shown as trouble instead of waiting unseen.
    fn explains(&self) -> Option<Queues> {
        let names = self.registry.orchestrations().map(|program| (program.name().into(), VersionRule::Any));
        Some(Queues { orchestrations: names.collect(), ..self.queues() })
    }

    fn fuses(&self) -> bool {
        true
    }

    fn turn_at_once(&self, work: TurnWork) -> Attempt {
        // Without a budget: tokio's would make a channel inside the orchestration pend although it is ready.
        let taken = tokio::task::unconstrained(async { self.take(work) }).now_or_never();
        // Nothing in there waits.
        Attempt::Done(taken.unwrap_or(Err(TurnError::Poisoned)).map_err(stalled))
    }

    async fn turn(&self, work: TurnWork) -> Result<TurnDone, Unfinished> {
        match self.turn_at_once(work) {
            Attempt::Done(done) => Ok(done?),
            Attempt::Later(_) => Err(stalled(TurnError::Poisoned).into()),
        }
    }

    async fn activity(&self, work: ActivityWork) -> ActivityEnd {
        let ActivityWork { lease, cancellation, .. } = work;
        let called = match dauer_core::workitem::activity_call(&lease.task) {
            Ok(called) => called,
            Err(error) => {
                let details = failure::failure("Undecodable", error.to_string()).non_retriable();
                return ActivityDone::Failed(details).into();
            }
        };
        let attempt = lease.tried().saturating_add(1);
        let call = ActivityCall {
            instance: lease.task.instance,
            execution: lease.task.execution,
            task_id: lease.task.event_id,
            name: called.name,
            attempt,
            tags: called.tags,
        };
        self.run_call(call.context(cancellation.clone()), called.input.as_deref(), &cancellation).await.into()
    }
}

/// What came of the code of an activity.
enum Ran {
    Ended(Result<String, ActivityError>),
    /// It ended with the reason for which it was cancelled, and another host may do better.
    GivenUp,
}

impl LocalExecutor {
    /// Runs an activity that a server asks for, for the `attempt`-th time, from 1.
    #[cfg(feature = "grpc")]
    pub(crate) async fn run_request(
        &self,
        request: &dauer_proto::ActivityRequest,
        attempt: u32,
        cancellation: &Cancellation,
    ) -> ActivityDone {
        match ActivityContext::new(request, attempt) {
            Ok(context) => {
                let context = context.cancelled_by(cancellation.clone());
                self.run_call(context, request.input.as_deref(), cancellation).await
            }
            Err(error) => ActivityDone::Failed(failure::failure("Undecodable", error.to_string())),
        }
    }

    async fn run_call(
        &self,
        context: ActivityContext,
        input: Option<&str>,
        cancellation: &Cancellation,
    ) -> ActivityDone {
        match self.run_activity(context, input, cancellation).await {
            Ok(Ran::Ended(result)) => result.map(Some).map_err(TaskFailureDetails::from).into(),
            Ok(Ran::GivenUp) => ActivityDone::GivenUp,
            Err(details) => ActivityDone::Failed(details),
        }
    }

    /// Runs the code; an error says why that was not possible.
    async fn run_activity(
        &self,
        context: ActivityContext,
        input: Option<&str>,
        cancellation: &Cancellation,
    ) -> Result<Ran, TaskFailureDetails> {
        let program = self.registry.find_activity(context.name());
        let program = program.map_err(|error| failure::failure("UnknownActivity", error.to_string()))?;
        let context = context.payloads(self.registry.payloads().clone());
        let run = async { program.begin(context, input).await };
        match AssertUnwindSafe(run).catch_unwind().await {
            Ok(Err(ActivityError::Failed(error))) if gives_up(&error, cancellation) => Ok(Ran::GivenUp),
            Ok(result) => Ok(Ran::Ended(result)),
            Err(panic) => {
                let text = panic.downcast_ref::<&str>().copied();
                let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
                let text = text.unwrap_or("the panic carries no message");
                Err(failure::failure("Panic", format!("the activity '{}' panicked: {text}", program.name())))
            }
        }
    }
}

/// Whether an activity that ended with this error is to be run by another host. Not when the run that called is over:
/// then it would be run for nothing, again and again.
fn gives_up(error: &dauer_replay::Error, cancellation: &Cancellation) -> bool {
    let elsewhere = matches!(cancellation.reason(), Some(CancelReason::Draining | CancelReason::LeaseLost));
    elsewhere && error.downcast_ref::<CancelReason>().is_some()
}

pub(crate) fn is_termination(actions: &[OrchestratorAction]) -> bool {
    actions.iter().any(|action| match &action.orchestrator_action_type {
        Some(ActionType::CompleteOrchestration(completion)) => {
            completion.orchestration_status() == OrchestrationStatus::Terminated
        }
        _ => false,
    })
}

fn stalled(error: TurnError) -> Stalled {
    let kind = match error {
        TurnError::Mismatch { .. } | TurnError::LeftOver { .. } => TroubleKind::Mismatch,
        TurnError::Panic { .. } => TroubleKind::Panic,
        TurnError::Unknown(_) => TroubleKind::UnknownName,
        TurnError::NotDurable { .. } | TurnError::ForeignWake { .. } | TurnError::PollLimit { .. } => {
            TroubleKind::NotDurable
        }
        _ => TroubleKind::Undecodable,
    };
    Stalled::new(kind, with_causes(&error))
}
