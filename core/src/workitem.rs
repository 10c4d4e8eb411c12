//! What a worker is sent, and how its answer is put together.
//!
//! A dispatch is known by its token. Tokens are opaque and new for every dispatch, so that the answer to an earlier
//! one is recognised and dropped; some SDKs send none back and are known by what they answer (behaviour 21). Large
//! answers come in chunks and are put together before anything is carried out (behaviour 29).

use std::collections::BTreeMap;

use dauer_proto::wire::OrchestratorEntityParameters;
use dauer_proto::{
    ActivityRequest, ActivityResponse, Duration, EventType, HistoryEvent, OrchestrationInstance,
    OrchestrationTraceContext, OrchestratorAction, OrchestratorRequest, OrchestratorResponse,
    TaskFailureDetails, TaskScheduledEvent, event,
};

use crate::ids::{InstanceId, MessageId};
use crate::limits::TurnLimits;
use crate::model::{BlobError, Encoded, Record, Task, TroubleKind};
use crate::turn::{Answer, Plan, Stalled};

/// How a worker gets the committed history.
#[derive(Debug, Clone, PartialEq)]
pub enum Past {
    /// With the work item.
    Sent(Vec<HistoryEvent>),
    /// It fetches it as a stream: only for workers that said they can (behaviour 10).
    Streamed,
}

/// Whether workers get to see an event of a history. Not the note that a run was rewound: the history is what it would be
/// had nothing failed, and some SDKs fail on kinds that they do not know (behaviours 18 and 54).
#[must_use]
pub fn is_for_workers(event: &HistoryEvent) -> bool {
    !matches!(event.event_type, Some(EventType::ExecutionRewound(_)))
}

/// The work item of a turn: for a plan that [`Plan::is_run`].
///
/// `past` is the committed history of the run; it is empty when the plan is fresh.
///
/// # Errors
/// [`BlobError`] when the stored trace context cannot be read.
pub fn orchestrator_request(plan: &Plan, past: Past) -> Result<OrchestratorRequest, BlobError> {
    turn_request(plan.instance(), plan.record(), (past, plan.new_events().to_vec()))
}

/// As [`orchestrator_request`], of what a plan has handed on.
///
/// # Errors
/// [`BlobError`] when the stored trace context cannot be read.
pub fn turn_request(
    instance: &InstanceId,
    record: &Record,
    (past, new_events): (Past, Vec<HistoryEvent>),
) -> Result<OrchestratorRequest, BlobError> {
    let trace = record.details.trace().map(Encoded::decode::<OrchestrationTraceContext>).transpose()?;
    let (past_events, streamed) = match past {
        Past::Sent(events) => (events, false),
        Past::Streamed => (Vec::new(), true),
    };
    Ok(OrchestratorRequest {
        instance_id: instance.to_string(),
        execution_id: Some(record.execution.to_string()),
        past_events,
        new_events,
        // .NET refuses entities without it; zero says that messages arrive in order (behaviour 15).
        entity_parameters: Some(OrchestratorEntityParameters {
            entity_message_reorder_window: Some(Duration::default()),
        }),
        requires_history_streaming: streamed,
        orchestration_trace_context: trace,
        ..OrchestratorRequest::default()
    })
}

/// What the orchestration called: all that a worker in this process needs besides what the task says.
///
/// # Errors
/// [`BlobError`] when the task's event cannot be read or is no TaskScheduled.
pub fn activity_call(task: &Task) -> Result<TaskScheduledEvent, BlobError> {
    let event = task.event.event()?;
    let kind = event::kind_name(&event);
    match event.event_type {
        Some(EventType::TaskScheduled(scheduled)) => Ok(scheduled),
        _ => Err(BlobError::Content(format!("task {} carries a {kind} event", task.id))),
    }
}

/// The work item of a task.
///
/// # Errors
/// [`BlobError`] when the task's event cannot be read or is no TaskScheduled.
pub fn activity_request(task: &Task) -> Result<ActivityRequest, BlobError> {
    let TaskScheduledEvent { name, version, input, parent_trace_context, tags } = activity_call(task)?;
    let orchestration_instance = Some(OrchestrationInstance {
        instance_id: task.instance.to_string(),
        execution_id: Some(task.execution.to_string()),
    });
    let task_id = task.event_id;
    Ok(ActivityRequest { name, version, input, orchestration_instance, task_id, parent_trace_context, tags })
}

/// What a worker says became of a task, for [`crate::send::task_answer`].
///
/// # Errors
/// The failure, if it failed.
pub fn activity_outcome(response: ActivityResponse) -> Result<Option<String>, TaskFailureDetails> {
    match response.failure_details {
        Some(details) => Err(details),
        None => Ok(response.result),
    }
}

/// What a dispatch is about; enough to find it when a worker sends no token back.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    /// A turn of an instance.
    Turn(InstanceId),
    /// A task of an instance, by the event id of its schedule.
    Task(InstanceId, i32),
    /// A task of an instance, by its id, where the event id is not known: another process had handed it out.
    Named(InstanceId, MessageId),
}

/// The dispatches that have not been answered, by their tokens.
#[derive(Debug)]
pub struct Tokens<T> {
    seed: u128,
    issued: u64,
    dispatched: BTreeMap<String, (Work, T)>,
    newest: BTreeMap<Work, String>,
}

impl<T> Tokens<T> {
    /// An empty table. `seed` is random, so that a token of an earlier process means nothing to this one.
    #[must_use]
    pub fn new(seed: u128) -> Self {
        Self { seed, issued: 0, dispatched: BTreeMap::new(), newest: BTreeMap::new() }
    }

    /// Notes a dispatch and gives it a token that no other has.
    pub fn issue(&mut self, work: Work, item: T) -> String {
        let token = format!("{:032x}{:016x}", self.seed, self.issued);
        self.issued += 1;
        self.newest.insert(work.clone(), token.clone());
        self.dispatched.insert(token.clone(), (work, item));
        token
    }

    /// Notes a dispatch under a token that was made elsewhere.
    pub fn put(&mut self, token: String, work: Work, item: T) {
        self.newest.insert(work.clone(), token.clone());
        self.dispatched.insert(token, (work, item));
    }

    /// The tokens of the dispatches of which this is true.
    pub fn tokens_of(&self, of: impl Fn(&T) -> bool) -> Vec<String> {
        self.dispatched.iter().filter(|(_, (_, item))| of(item)).map(|(token, _)| token.clone()).collect()
    }

    /// The token that an answer belongs to: the one it names, or without one the newest dispatch of the same work.
    /// `None` when that is stale; such an answer is dropped without an error (behaviour 8).
    #[must_use]
    pub fn resolve(&self, token: &str, work: &Work) -> Option<String> {
        if token.is_empty() {
            return self.newest.get(work).cloned();
        }
        self.dispatched.get(token).filter(|(known, _)| known == work).map(|_| token.to_owned())
    }

    /// What a token was issued for.
    #[must_use]
    pub fn work(&self, token: &str) -> Option<&Work> {
        self.dispatched.get(token).map(|(work, _)| work)
    }

    /// The newest unanswered dispatch of that work, with its token.
    #[must_use]
    pub fn newest(&self, work: &Work) -> Option<(&str, &T)> {
        let token = self.newest.get(work)?;
        self.dispatched.get(token).map(|(_, item)| (token.as_str(), item))
    }

    /// What was dispatched under a token.
    #[must_use]
    pub fn get_mut(&mut self, token: &str) -> Option<&mut T> {
        self.dispatched.get_mut(token).map(|(_, item)| item)
    }

    /// Takes a dispatch out of the table: by its answer, or because it was abandoned. The second time there is none.
    pub fn take(&mut self, token: &str) -> Option<T> {
        let (work, item) = self.dispatched.remove(token)?;
        if self.newest.get(&work).is_some_and(|newest| newest == token) {
            self.newest.remove(&work);
        }
        Some(item)
    }

    /// Takes out every dispatch of which this is true, oldest first: those of a stream that is gone.
    pub fn withdraw(&mut self, of: impl Fn(&T) -> bool) -> Vec<T> {
        let gone = self.dispatched.iter().filter(|(_, (_, item))| of(item)).map(|(token, _)| token.clone());
        let gone: Vec<_> = gone.collect();
        gone.iter().filter_map(|token| self.take(token)).collect()
    }

    /// Every dispatch that is unanswered.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.dispatched.values().map(|(_, item)| item)
    }

    /// Every dispatch that is unanswered, to change it.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.dispatched.values_mut().map(|(_, item)| item)
    }

    /// How many dispatches are unanswered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.dispatched.len()
    }

    /// Whether everything is answered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.dispatched.is_empty()
    }
}

/// Where an answer stands after one more piece of it.
#[derive(Debug, Clone)]
pub enum Assembled {
    /// Chunks are missing.
    Waiting,
    /// The answer is complete.
    Whole(Answer),
    /// The worker ran nothing: send the turn again with its whole history.
    HistoryWanted,
}

/// The answer to one dispatched turn, put together from its chunks.
#[derive(Debug, Default)]
pub struct Assembly {
    chunks: BTreeMap<usize, Chunk>,
    last: Option<usize>,
    actions: usize,
}

#[derive(Debug)]
struct Chunk {
    actions: Vec<OrchestratorAction>,
    custom_status: Option<String>,
    trace: Option<OrchestrationTraceContext>,
}

impl Assembly {
    /// Adds one response. Chunks may come twice, as after a lost acknowledgement, and in any order.
    ///
    /// # Errors
    /// [`Stalled`] when the chunks do not fit together or hold too many actions.
    #[allow(deprecated, reason = "the SDKs that split answers still use the fields")]
    pub fn add(&mut self, response: OrchestratorResponse, limits: &TurnLimits) -> Result<Assembled, Stalled> {
        if response.requires_history {
            *self = Self::default();
            return Ok(Assembled::HistoryWanted);
        }
        let index = match response.chunk_index {
            // An answer in one piece, or the chunk after those that are there.
            None => self.chunks.last_key_value().map_or(0, |(index, _)| index + 1),
            Some(index) => {
                usize::try_from(index).map_err(|_| invalid(format!("its chunk index is {index}")))?
            }
        };
        if self.chunks.contains_key(&index) {
            return Ok(Assembled::Waiting);
        }
        self.check_place(index, response.is_partial, limits)?;
        self.actions += response.actions.len();
        if self.actions > limits.actions_per_turn {
            return Err(too_many(self.actions, limits));
        }
        if !response.is_partial {
            self.last = Some(index);
        }
        let OrchestratorResponse { actions, custom_status, orchestration_trace_context: trace, .. } =
            response;
        self.chunks.insert(index, Chunk { actions, custom_status, trace });
        let complete = self.last.is_some_and(|last| self.chunks.len() == last + 1);
        Ok(if complete { Assembled::Whole(std::mem::take(self).join()) } else { Assembled::Waiting })
    }

    fn check_place(&self, index: usize, partial: bool, limits: &TurnLimits) -> Result<(), Stalled> {
        if index > limits.actions_per_turn {
            return Err(too_many(index, limits));
        }
        let highest = self.chunks.last_key_value().map_or(0, |(highest, _)| *highest);
        match self.last {
            Some(last) if !partial => {
                Err(invalid(format!("chunks {last} and {index} both claim to be the last")))
            }
            Some(last) if index > last => Err(invalid(format!("chunk {index} comes after the last, {last}"))),
            None if !partial && highest > index => {
                Err(invalid(format!("chunk {index} claims to be the last, but there is a chunk {highest}")))
            }
            _ => Ok(()),
        }
    }

    fn join(self) -> Answer {
        let mut answer = Answer::default();
        for (_, chunk) in self.chunks {
            answer.actions.extend(chunk.actions);
            // What belongs to the whole answer may be on each chunk or on one: the last that has it counts.
            answer.custom_status = chunk.custom_status.or(answer.custom_status);
            answer.trace = chunk.trace.or(answer.trace);
        }
        answer
    }
}

fn invalid(what: String) -> Stalled {
    Stalled::new(TroubleKind::InvalidAnswer, format!("the worker's answer does not fit together: {what}"))
}

fn too_many(found: usize, limits: &TurnLimits) -> Stalled {
    Stalled::too_large("actions of one turn", found as u64, limits.actions_per_turn as u64)
}
