//! Bringing answers back to the server, until it has them.

use std::future::Future;
use std::sync::Arc;

use prost::Message;
use tonic::{Code, Request, Response, Status};

use dauer_proto::wire::{AbandonActivityTaskRequest, AbandonOrchestrationTaskRequest};
use dauer_proto::{
    ActivityResponse, OrchestrationStatus, OrchestratorAction, OrchestratorResponse, TaskFailureDetails,
    action, failure,
};
use dauer_rpc::{Answer, AnswersClient};

use super::courier::Courier;
use super::executing::Executing;
use super::failures::is_lost;
use super::wire::{Service, Wire, rpc};

/// How often the answer to a turn is brought again when the server is away: with the delays between, a quarter of a minute.
/// After that another worker has the turn. The answer to an activity is brought until a server has it: every server of the hub
/// takes it while the task is open.
const TURN_ATTEMPTS: u32 = 10;

/// An answer larger than this goes in parts: what servers read of one message is 4 MiB at least (behaviours 10 and 29).
const PART_BYTES: usize = 3_900_000;

/// An answer larger than this goes by itself: one that the server does not take would take others with it.
const COURIER_BYTES_MAX: usize = 256 * 1024;

/// The id of an action that no code asked for (behaviour 23).
const NO_ACTION_ID: i32 = -1;

/// Brings answers to the server, on the worker's connection.
#[derive(Clone)]
pub(super) struct Answers {
    pub(super) wire: Arc<Wire>,
    pub(super) service: Service,
    pub(super) courier: Courier,
}

impl Answers {
    /// Tells the server what this worker executes, before it opens a stream: the server hands none of it to others. A server
    /// that does not know the call is told nothing.
    pub(super) async fn resume(&self, worker: String, executing: &Executing) -> Result<(), Status> {
        let activities = executing.all();
        if activities.is_empty() {
            return Ok(());
        }
        let told = dauer_rpc::Executing { worker, activities };
        let mut service = AnswersClient::new(self.wire.channel());
        match service.resume(self.wire.request(told)).await {
            Err(status) if status.code() != Code::Unimplemented => Err(status),
            _ => Ok(()),
        }
    }

    /// The answer to a turn.
    pub(super) async fn turn(self, response: OrchestratorResponse) {
        let response = match response.encoded_len() <= COURIER_BYTES_MAX {
            false => response,
            true => match self.courier.bring(Answer::Turn(response)).await {
                Err(Answer::Turn(response)) => response,
                _ => return,
            },
        };
        let (instance_id, completion_token) =
            (response.instance_id.clone(), response.completion_token.clone());
        for part in parts(response) {
            match self.bring(part, rpc!(complete_orchestrator_task)).await {
                Ok(()) => {}
                Err(status) if is_too_large(&status) => {
                    tracing::warn!(
                        instance = instance_id,
                        "the answer to a turn is larger than the server reads: it fails"
                    );
                    let failed = OrchestratorResponse {
                        actions: vec![failed(too_large("the answer to the turn", &status))],
                        instance_id,
                        completion_token,
                        ..OrchestratorResponse::default()
                    };
                    return self.last(self.bring(failed, rpc!(complete_orchestrator_task)).await);
                }
                Err(status) => {
                    self.last(Err(status));
                    return self.abandon_turn(completion_token).await;
                }
            }
        }
    }

    /// The answer to an activity.
    pub(super) async fn activity(self, response: ActivityResponse) {
        let response = match response.encoded_len() <= COURIER_BYTES_MAX {
            false => response,
            true => match self.courier.bring(Answer::Activity(response)).await {
                Err(Answer::Activity(response)) => response,
                _ => return,
            },
        };
        let bare = bare_of(&response);
        match self.bring_until(u32::MAX, response, rpc!(complete_activity_task)).await {
            Ok(()) => {}
            Err(status) if is_too_large(&status) => {
                let failure_details = Some(too_large("the result of the activity", &status));
                let failed = ActivityResponse { failure_details, ..bare };
                self.last(self.bring_until(u32::MAX, failed, rpc!(complete_activity_task)).await);
            }
            Err(status) => {
                self.last(Err(status));
                self.abandon_activity(bare.completion_token).await;
            }
        }
    }

    /// A turn that cannot be run here.
    pub(super) async fn abandon_turn(self, completion_token: String) {
        let request = AbandonOrchestrationTaskRequest { completion_token };
        self.last(self.bring(request, rpc!(abandon_task_orchestrator_work_item)).await);
    }

    /// An activity that is not run here.
    pub(super) async fn abandon_activity(self, completion_token: String) {
        let request = AbandonActivityTaskRequest { completion_token };
        self.last(self.bring(request, rpc!(abandon_task_activity_work_item)).await);
    }

    /// An entity, which no code of this SDK is yet.
    pub(super) async fn abandon_entity(self, completion_token: String) {
        let request = dauer_proto::wire::AbandonEntityTaskRequest { completion_token };
        self.last(self.bring(request, rpc!(abandon_task_entity_work_item)).await);
    }

    /// Brings an answer, for a while when the server is away.
    async fn bring<M: Clone, R, F: Future<Output = Result<Response<R>, Status>>>(
        &self,
        message: M,
        send: impl Fn(Service, Request<M>) -> F,
    ) -> Result<(), Status> {
        self.bring_until(TURN_ATTEMPTS, message, send).await
    }

    /// Brings an answer, at most that often again while the server is away. It is known by its token, so that twice is once.
    async fn bring_until<M: Clone, R, F: Future<Output = Result<Response<R>, Status>>>(
        &self,
        most: u32,
        message: M,
        send: impl Fn(Service, Request<M>) -> F,
    ) -> Result<(), Status> {
        let mut attempts: u32 = 0;
        loop {
            match send(self.service.clone(), self.wire.request(message.clone())).await {
                Ok(_) => return Ok(()),
                Err(status) if is_lost(&status) && attempts < most => attempts += 1,
                Err(status) => return Err(status),
            }
            self.wire.pause(attempts).await;
        }
    }

    /// Says that an answer did not arrive. Nothing is lost by it: what it answers is done again.
    fn last(&self, brought: Result<(), Status>) {
        if let Err(status) = brought {
            let (address, code, message) = (self.wire.address(), status.code(), status.message());
            tracing::warn!(
                address,
                ?code,
                message,
                "the server did not take an answer; what it answers is done again"
            );
        }
    }
}

/// An answer without its content.
fn bare_of(response: &ActivityResponse) -> ActivityResponse {
    ActivityResponse {
        instance_id: response.instance_id.clone(),
        task_id: response.task_id,
        completion_token: response.completion_token.clone(),
        ..ActivityResponse::default()
    }
}

fn is_too_large(status: &Status) -> bool {
    matches!(status.code(), Code::ResourceExhausted | Code::OutOfRange)
}

fn too_large(what: &str, status: &Status) -> TaskFailureDetails {
    let text = format!(
        "{what} is larger than the server reads; keep large data elsewhere and pass its address ({})",
        status.message()
    );
    failure::failure("AnswerTooLarge", text).non_retriable()
}

fn failed(details: TaskFailureDetails) -> OrchestratorAction {
    action::complete(NO_ACTION_ID, OrchestrationStatus::Failed, None, Some(details))
}

/// An answer in as many parts as it needs: one, unless it is large.
#[allow(deprecated, reason = "the fields are how large answers are sent, by other SDKs too (behaviour 29)")]
fn parts(response: OrchestratorResponse) -> Vec<OrchestratorResponse> {
    if response.encoded_len() <= PART_BYTES {
        return vec![response];
    }
    let OrchestratorResponse { actions, .. } = response;
    let mut groups: Vec<Vec<OrchestratorAction>> = Vec::new();
    let mut bytes = 0;
    for action in actions {
        let length = action.encoded_len();
        match groups.last_mut() {
            Some(group) if bytes + length <= PART_BYTES => {
                bytes += length;
                group.push(action);
            }
            _ => {
                bytes = length;
                groups.push(vec![action]);
            }
        }
    }
    let last = groups.len().saturating_sub(1);
    let part = |(index, actions): (usize, Vec<OrchestratorAction>)| OrchestratorResponse {
        instance_id: response.instance_id.clone(),
        actions,
        custom_status: response.custom_status.clone(),
        completion_token: response.completion_token.clone(),
        is_partial: index < last,
        chunk_index: i32::try_from(index).ok(),
        ..OrchestratorResponse::default()
    };
    groups.into_iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(sizes: &[usize]) -> OrchestratorResponse {
        let actions = sizes
            .iter()
            .zip(0..)
            .map(|(size, id)| action::schedule_task(id, "step", Some("x".repeat(*size))));
        OrchestratorResponse {
            instance_id: "order-7".into(),
            actions: actions.collect(),
            custom_status: Some("busy".into()),
            completion_token: "token".into(),
            ..OrchestratorResponse::default()
        }
    }

    /// Behaviour 29: the server puts the parts together by index, and the last says that it is.
    #[test]
    #[allow(deprecated, reason = "the fields are what is tested")]
    fn a_large_answer_goes_in_parts_that_lose_nothing() {
        let small = response(&[10, 10]);
        assert_eq!(parts(small.clone()), [small]);
        let million = 1_000_000;
        let large = response(&[3 * million, million, million, 5 * million, 1]);
        let sent = parts(large.clone());
        let ids: Vec<Vec<i32>> =
            sent.iter().map(|part| part.actions.iter().map(|action| action.id).collect()).collect();
        assert_eq!(ids, [vec![0], vec![1, 2], vec![3], vec![4]]);
        let marks: Vec<_> = sent.iter().map(|part| (part.is_partial, part.chunk_index)).collect();
        assert_eq!(marks, [(true, Some(0)), (true, Some(1)), (true, Some(2)), (false, Some(3))]);
        assert!(sent.iter().all(|part| part.completion_token == "token" && part.instance_id == "order-7"));
        assert!(sent.iter().all(|part| part.custom_status.as_deref() == Some("busy")));
        let joined: Vec<_> = sent.into_iter().flat_map(|part| part.actions).collect();
        assert_eq!(joined, large.actions);
    }
}
