//! What the hub sees: turns and activities become items, and what comes back becomes answers.

use async_trait::async_trait;
use futures::channel::mpsc::channel;
use futures::stream::{BoxStream, StreamExt};
use prost::Message;

use std::time::Duration;

use dauer_core::HubKey;
use dauer_core::model::{BlobError, Queues, TroubleKind};
use dauer_core::planted::{self, Bug};
use dauer_core::turn::{Answer, Stalled};
use dauer_core::workitem::{self, Work};
use dauer_hub::{
    ActivityDone, ActivityEnd, ActivityWork, Adoption, Capacity, Executor, Past, TurnDone, TurnWork,
    Unfinished,
};
use dauer_proto::{
    ActionType, EventType, HistoryEvent, OrchestrationStatus, OrchestratorRequest, TaskFailureDetails,
    WorkItem, WorkItemRequest, action, failure,
};

use dauer_store::{Steady, TaskLease};

use crate::adoptions::Adoptions;
use crate::flight::{End, Flight, Load};
use crate::seal::Seal;
use crate::state::Size;
use crate::workers::Workers;

/// What an item has besides its request: the token, and the tags and lengths around.
const ITEM_OVERHEAD_BYTES: usize = 128;

/// The id of an action that no code asked for (behaviour 23).
const NO_ACTION_ID: i32 = -1;

#[async_trait]
impl Executor for Workers {
    fn queues(&self) -> Queues {
        self.state().queues()
    }

    fn runs_code(&self) -> bool {
        false
    }

    fn capacity(&self) -> Capacity {
        self.state().capacity()
    }

    fn changes(&self) -> BoxStream<'static, ()> {
        // One that waits to be heard is enough.
        let (tell, changes) = channel(0);
        self.state().listen(tell);
        changes.boxed()
    }

    fn keyed(&self, key: HubKey) {
        self.state().keyed(Seal::new(key));
    }

    fn adoptions(&self) -> BoxStream<'static, Adoption> {
        match self.shared() {
            Some(workers) => Adoptions { workers }.boxed(),
            None => futures::stream::empty().boxed(),
        }
    }

    fn left_behind(&self) -> usize {
        self.state().custody.out()
    }

    async fn turn(&self, work: TurnWork) -> Result<TurnDone, Unfinished> {
        let TurnWork { instance, record, past, new, holding } = work;
        let Past::History(past) = past else { return Err(not_live().into()) };
        let past_bytes: usize = past.iter().map(Message::encoded_len).sum();
        let sent = (workitem::Past::Sent(past), new.to_vec());
        // The hub need not copy what it has put into the answer's history.
        drop(new);
        let request = workitem::turn_request(&instance, &record, sent).map_err(undecodable)?;
        let whole = request.encoded_len() + ITEM_OVERHEAD_BYTES;
        let size = Size { whole, bare: whole.saturating_sub(past_bytes) };
        let item = |streamed: bool| turn_item(&request, streamed);
        let last_action = last_action(&request.past_events);
        let load = Load {
            work: Work::Turn(instance),
            task: None,
            queue: &record.queue,
            size,
            last_action,
            item: &item,
            holding: holding.as_ref(),
            deaths: record.deaths,
            rests_until: None,
            cancellation: None,
        };
        let (answer, receipt, build) = match Flight::new(self, &load).fly(&load).await {
            End::Turn(Ok(answer), receipt, build) => (without_entities(answer), Some(receipt), build),
            End::Turn(Err(stalled), _, build) => return Err(stalled.of_build(build).into()),
            End::TooLarge(max) => (fail(too_large("the turn", whole, max)), None, None),
            End::Abandoned(build) => return Err(abandoned().of_build(build).into()),
            End::Rests => return Err(Unfinished::Returned { delay: self.suspect_delay() }),
            End::Poison(deaths) => return Err(Unfinished::Poison(deaths)),
            End::Nobody | End::Activity(..) => {
                return Err(Unfinished::Returned { delay: Duration::ZERO });
            }
        };
        Ok(TurnDone { answer, live: None, past: request.past_events, receipt, build })
    }

    async fn activity(&self, work: ActivityWork) -> ActivityEnd {
        let ActivityWork { lease, cancellation, holding } = &work;
        let task = &lease.task;
        let request = match workitem::activity_request(task) {
            Ok(request) => request,
            Err(error) => {
                // An answer that waits for the session has no effect.
                self.answers_dropped(task.id);
                let details = failure::failure("Undecodable", error.to_string()).non_retriable();
                return ActivityDone::Failed(details).into();
            }
        };
        let bytes = request.encoded_len() + ITEM_OVERHEAD_BYTES;
        let item = |_: bool| WorkItem {
            request: Some(WorkItemRequest::ActivityRequest(request.clone())),
            ..WorkItem::default()
        };
        let load = Load {
            work: Work::Task(task.instance.clone(), task.event_id),
            task: Some(&lease.fence),
            queue: &task.queue,
            size: Size { whole: bytes, bare: bytes },
            last_action: NO_ACTION_ID,
            item: &item,
            holding: holding.as_ref(),
            deaths: lease.deaths,
            rests_until: self.rests_until(lease),
            cancellation: Some(cancellation),
        };
        match Flight::new(self, &load).fly(&load).await {
            End::Activity(done, receipt) => ActivityEnd { done, receipt: Some(receipt) },
            End::TooLarge(max) => ActivityDone::Failed(too_large("the activity's input", bytes, max)).into(),
            End::Abandoned(_) => ActivityDone::Returned { delay: self.options().abandon_delay }.into(),
            End::Rests => ActivityDone::Returned { delay: self.suspect_delay() }.into(),
            End::Poison(deaths) => ActivityDone::Crashed(deaths).into(),
            End::Nobody | End::Turn(..) => ActivityDone::GivenUp.into(),
        }
    }
}

impl Workers {
    /// Until when a task rests that another server held: its worker may still execute it, and answer here.
    fn rests_until(&self, lease: &TaskLease) -> Option<Steady> {
        let mark = lease.mark.filter(|_| !planted::is_on(Bug::RestartGraceIgnored))?;
        let rest = mark.after(self.options().restart_grace).since(lease.now);
        Some(self.env().steady().after(rest).max(self.listens_long_from()))
    }

    /// How long a suspect rests that no worker may run now.
    fn suspect_delay(&self) -> Duration {
        let least = self.options().suspect_delay;
        let millis = u64::try_from(least.as_millis()).unwrap_or(u64::MAX - 1);
        least + Duration::from_millis(self.env().random() % (millis + 1))
    }
}

fn turn_item(request: &OrchestratorRequest, streamed: bool) -> WorkItem {
    let past = request.past_events.iter().filter(|event| workitem::is_for_workers(event));
    let past_events = if streamed { Vec::new() } else { past.cloned().collect() };
    let request = OrchestratorRequest {
        instance_id: request.instance_id.clone(),
        execution_id: request.execution_id.clone(),
        past_events,
        new_events: request
            .new_events
            .iter()
            .filter(|event| workitem::is_for_workers(event))
            .cloned()
            .collect(),
        entity_parameters: request.entity_parameters,
        requires_history_streaming: streamed,
        properties: request.properties.clone(),
        orchestration_trace_context: request.orchestration_trace_context.clone(),
    };
    WorkItem { request: Some(WorkItemRequest::OrchestratorRequest(request)), ..WorkItem::default() }
}

/// The highest id of an action that a history has.
fn last_action(past: &[HistoryEvent]) -> i32 {
    let actions = past.iter().filter(|event| {
        matches!(
            event.event_type,
            Some(
                EventType::TaskScheduled(_)
                    | EventType::TimerCreated(_)
                    | EventType::SubOrchestrationInstanceCreated(_)
                    | EventType::EventSent(_)
            )
        )
    });
    actions.map(|event| event.event_id).max().unwrap_or(NO_ACTION_ID)
}

/// A run that cannot go on in any worker that is there. Trying again would change nothing, and whoever waits for it learns
/// why.
fn fail(details: TaskFailureDetails) -> Answer {
    let failed = action::complete(NO_ACTION_ID, OrchestrationStatus::Failed, None, Some(details));
    Answer { actions: vec![failed], ..Answer::default() }
}

/// Until there are entities, whoever calls one would wait for ever.
fn without_entities(answer: Answer) -> Answer {
    let kinds = answer.actions.iter().map(|action| &action.orchestrator_action_type);
    if kinds.flatten().any(|kind| matches!(kind, ActionType::SendEntityMessage(_))) {
        let text = "this version of dauer has no entities yet; orchestrations and activities are all there";
        return fail(failure::failure("EntitiesNotSupported", text).non_retriable());
    }
    answer
}

fn too_large(what: &str, bytes: usize, max: usize) -> TaskFailureDetails {
    let text = format!(
        "{what} needs a work item of {bytes} bytes, and no connected worker can read more than {max}; keep large data \
         elsewhere and pass its address, or continue as new more often"
    );
    failure::failure("WorkItemTooLarge", text).non_retriable()
}

fn abandoned() -> Stalled {
    let text = "the worker gave the turn back; SDKs do that with versions that they are set not to accept";
    Stalled::new(TroubleKind::UnknownName, text)
}

fn not_live() -> Stalled {
    Stalled::new(TroubleKind::InvalidAnswer, "a remote worker has no live future; audit the store")
}

fn undecodable(error: BlobError) -> Stalled {
    Stalled::new(TroubleKind::Undecodable, error.to_string())
}
