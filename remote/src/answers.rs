//! What workers answer.
//!
//! None of these calls fails: an answer that comes too late, twice or for nothing is dropped (behaviour 8), and one that
//! makes no sense is the trouble of the instance. They return when the answer is durable, or nothing will ever come of it.

use futures::channel::oneshot;

use dauer_core::InstanceId;
use dauer_core::turn::{Answer, Stalled};
use dauer_core::workitem::{self, Assembled, Work};
use dauer_hub::ActivityDone;
use dauer_proto::{ActionType, ActivityResponse, OrchestratorAction, OrchestratorResponse};

use crate::flight::Event;
use crate::workers::Workers;

impl Workers {
    /// The answer to a turn, or a part of it.
    pub async fn complete_turn(&self, response: OrchestratorResponse) {
        let Ok(instance) = InstanceId::new(response.instance_id.as_str()) else { return self.drop_answer() };
        let Some((token, assembled)) = self.assemble(instance, response) else { return self.drop_answer() };
        match assembled {
            Ok(Assembled::Waiting) => {}
            Ok(Assembled::HistoryWanted) => {
                if let Some(dispatched) = self.state().take(&token) {
                    // A flight that has ended needs nothing any more.
                    let _ = dispatched.tell.unbounded_send(Event::HistoryWanted);
                }
            }
            Ok(Assembled::Whole(answer)) => self.end_turn(&token, Ok(answer)).await,
            Err(stalled) => self.end_turn(&token, Err(stalled)).await,
        }
    }

    fn assemble(
        &self,
        instance: InstanceId,
        response: OrchestratorResponse,
    ) -> Option<(String, Result<Assembled, Stalled>)> {
        let mut state = self.state();
        let token = &response.completion_token;
        if state.debts.pay(&instance, token, self.env().steady()) {
            // The next turn of the instance may wait for this.
            state.tell_of_room();
            return None;
        }
        let token = state.tokens.resolve(&response.completion_token, &Work::Turn(instance))?;
        let dispatched = state.tokens.get_mut(&token)?;
        if response.completion_token.is_empty() && is_behind(&response, dispatched.last_action) {
            return None;
        }
        let assembled = dispatched.assembly.add(response, &self.options().limits);
        Some((token, assembled))
    }

    async fn end_turn(&self, token: &str, answer: Result<Answer, Stalled>) {
        let Some(dispatched) = self.state().take(token) else { return self.drop_answer() };
        let (receipt, settled) = oneshot::channel::<()>();
        if dispatched.tell.unbounded_send(Event::Turn(answer, Box::new(receipt))).is_err() {
            return self.drop_answer();
        }
        self.count(&self.counts.turns);
        // It is dropped when it is settled, never sent.
        let _ = settled.await;
    }

    /// The answer to an activity.
    pub async fn complete_activity(&self, response: ActivityResponse) {
        let Ok(instance) = InstanceId::new(response.instance_id.as_str()) else { return self.drop_answer() };
        let work = Work::Task(instance, response.task_id);
        let dispatched = {
            let mut state = self.state();
            let token = state.tokens.resolve(&response.completion_token, &work);
            token.and_then(|token| state.take(&token))
        };
        let Some(dispatched) = dispatched else { return self.drop_answer() };
        let done = ActivityDone::from(workitem::activity_outcome(response));
        let (receipt, settled) = oneshot::channel::<()>();
        if dispatched.tell.unbounded_send(Event::Activity(done, Box::new(receipt))).is_err() {
            return self.drop_answer();
        }
        self.count(&self.counts.activities);
        let _ = settled.await;
    }

    /// A worker does not want what it was given under this token: it is given back, and handed out again after a while.
    pub fn abandon(&self, token: &str) {
        let taken = {
            let mut state = self.state();
            if state.debts.cancel(token) {
                // The next turn of the instance may wait for this.
                state.tell_of_room();
            }
            state.take(token)
        };
        let Some(dispatched) = taken else { return self.drop_answer() };
        self.count(&self.counts.abandoned);
        let _ = dispatched.tell.unbounded_send(Event::Abandoned(dispatched.stream));
    }

    fn drop_answer(&self) {
        self.count(&self.counts.stale);
    }
}

/// Whether an answer without a token asks for what the run has asked for before: then it is to an earlier turn. Workers that
/// send no token number their actions on and on.
fn is_behind(response: &OrchestratorResponse, last_action: i32) -> bool {
    let asks = |action: &&OrchestratorAction| {
        !matches!(action.orchestrator_action_type, Some(ActionType::CompleteOrchestration(_)))
    };
    response.actions.iter().filter(asks).any(|action| action.id <= last_action)
}
