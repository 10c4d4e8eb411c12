//! The activities of a worker: each a task of its own, which also brings its answer.

use std::sync::Arc;

use dauer_core::cancel::Cancellation;
use dauer_hub::ActivityDone;
use dauer_proto::{ActivityRequest, ActivityResponse};

use super::answers::Answers;
use crate::local::LocalExecutor;

/// The protocol does not tell how often an activity was begun before.
const ATTEMPT: u32 = 1;

/// Runs an activity and brings its answer.
pub(super) async fn run(
    executor: Arc<LocalExecutor>,
    (request, token): (ActivityRequest, String),
    cancellation: Cancellation,
    answers: Answers,
) {
    let instance_id = request.orchestration_instance.as_ref().map(|instance| instance.instance_id.clone());
    let response = ActivityResponse {
        instance_id: instance_id.unwrap_or_default(),
        task_id: request.task_id,
        completion_token: token,
        ..ActivityResponse::default()
    };
    match executor.run_request(&request, ATTEMPT, &cancellation).await {
        ActivityDone::Completed(result) => answers.activity(ActivityResponse { result, ..response }).await,
        ActivityDone::Failed(details) => {
            answers.activity(ActivityResponse { failure_details: Some(details), ..response }).await;
        }
        ActivityDone::GivenUp | ActivityDone::Returned { .. } | ActivityDone::Crashed(_) => {
            answers.abandon_activity(response.completion_token).await;
        }
    }
}
