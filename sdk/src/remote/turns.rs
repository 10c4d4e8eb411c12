//! The turns of a worker: events in, actions out.

use std::sync::Arc;

use futures::FutureExt;

use dauer_proto::{HistoryEvent, OrchestratorRequest, OrchestratorResponse};
use dauer_replay::{Live, TurnError};

use super::live::{Cache, Kept};
use crate::local::{LocalExecutor, is_termination};

/// Runs turns, and keeps what the next ones go on from.
pub(super) struct Turns {
    executor: Arc<LocalExecutor>,
    cache: Cache,
}

impl Turns {
    pub(super) fn new(executor: Arc<LocalExecutor>, kept_max: usize) -> Self {
        let kept_max = if executor.replays_always() { 0 } else { kept_max };
        Self { executor, cache: Cache::new(kept_max) }
    }

    /// Runs one turn. Nothing in here waits.
    pub(super) fn run(
        &mut self,
        request: OrchestratorRequest,
        token: String,
    ) -> Result<OrchestratorResponse, TurnError> {
        // Without a budget: tokio's would make a channel inside the orchestration pend although it is ready.
        let taken = tokio::task::unconstrained(async { self.take(request, token) }).now_or_never();
        taken.unwrap_or(Err(TurnError::Poisoned))
    }

    fn take(
        &mut self,
        request: OrchestratorRequest,
        token: String,
    ) -> Result<OrchestratorResponse, TurnError> {
        let OrchestratorRequest { instance_id, execution_id, past_events: past, new_events: new, .. } =
            request;
        let execution = execution_id.unwrap_or_default();
        let (live, answer, before) = match self.cache.take(&instance_id, &execution, &past) {
            Some(mut kept) => {
                let answer = kept.live.turn(&new)?;
                (kept.live, answer, Some(kept.status))
            }
            None => {
                let (live, answer) = Live::start(self.executor.registry(), &past, &new)?;
                (live, answer, None)
            }
        };
        let dauer_replay::Answer { actions, custom_status, .. } = answer;
        // A termination runs no code and knows no status: the last one stays.
        let custom_status = match custom_status {
            None if is_termination(&actions) => before.unwrap_or_else(|| self.status_of(&past)),
            known => known,
        };
        if !live.is_finished() {
            let turn = (execution, past.len(), new);
            self.cache.put(instance_id.clone(), Kept::new(live, turn, &actions, custom_status.clone()));
        }
        let completion_token = token;
        Ok(OrchestratorResponse {
            instance_id,
            actions,
            custom_status,
            completion_token,
            ..Default::default()
        })
    }

    /// The custom status that the code has reported so far, as far as it can be replayed.
    fn status_of(&self, past: &[HistoryEvent]) -> Option<String> {
        let replayed = Live::start(self.executor.registry(), past, &[]);
        replayed.ok().and_then(|(_, answer)| answer.custom_status)
    }
}
