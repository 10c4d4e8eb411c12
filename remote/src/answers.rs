//! What workers answer.
//!
//! An answer that comes too late, twice or for nothing is dropped (behaviour 8), and one that makes no sense is the trouble of
//! the instance. The calls return when the answer is durable, or nothing will ever come of it.

use std::sync::Arc;

use futures::channel::oneshot;

use dauer_core::planted::{self, Bug};
use dauer_core::turn::{Answer, Stalled};
use dauer_core::workitem::{self, Assembled, Work};
use dauer_core::{InstanceId, MessageId};
use dauer_hub::ActivityDone;
use dauer_proto::{ActionType, ActivityResponse, OrchestratorAction, OrchestratorResponse};

use dauer_store::{TaskFence, TaskName};

use crate::flight::Event;
use crate::seal::{Seal, Sealed};
use crate::workers::Workers;

/// What became of the answer to an activity.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Brought {
    /// It is durable, or has no effect: the worker may forget it.
    Taken,
    /// It may not be durable: the worker brings it again, to any server of the hub.
    NotTaken,
    /// It names no token and matches nothing here: [`Workers::complete_unnamed`] takes it.
    Unnamed(ActivityResponse),
}

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
        let work = Work::Turn(instance);
        let any = || state.tokens.resolve("", &work).filter(|_| planted::is_on(Bug::OldAnswerTaken));
        let token = state.tokens.resolve(&response.completion_token, &work).or_else(any)?;
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

    /// The answer to an activity: of this process, or of an earlier server of the hub.
    pub async fn complete_activity(&self, response: ActivityResponse) -> Brought {
        let Ok(instance) = InstanceId::new(response.instance_id.as_str()) else { return self.dropped() };
        let token = response.completion_token.clone();
        if Seal::is_form(&token) {
            let Some(seal) = self.seal().await else { return Brought::NotTaken };
            let Some(Sealed { task, .. }) = seal.open(&instance, &token) else { return self.dropped() };
            return self.answer(TaskName { instance, task }, &token, response).await;
        }
        let work = Work::Task(instance, response.task_id);
        let taken = {
            let mut state = self.state();
            let token = state.tokens.resolve(&token, &work);
            token.and_then(|token| Some((token.clone(), state.task_of(&token)?)))
        };
        match taken {
            Some((token, TaskFence { instance, task, .. })) => {
                self.answer(TaskName { instance, task }, &token, response).await
            }
            None if token.is_empty() => Brought::Unnamed(response),
            None => self.dropped(),
        }
    }

    /// The answer of a worker that names no token, which matched nothing that this process has handed out. `open` are the open
    /// tasks of its instance.
    pub async fn complete_unnamed(&self, response: ActivityResponse, open: &[MessageId]) -> Brought {
        let Ok(instance) = InstanceId::new(response.instance_id.as_str()) else { return self.dropped() };
        let Some(seal) = self.seal().await else { return Brought::NotTaken };
        let is_right = |task: &&MessageId| seal.number(&instance, **task) == response.task_id;
        match open.iter().find(is_right) {
            Some(task) => self.answer(TaskName { instance, task: *task }, "", response).await,
            None => self.dropped(),
        }
    }

    /// Brings the answer to the flight of the task, or has the session adopt the task. An answer that a session may not have
    /// stored before it ended goes to the next one.
    async fn answer(&self, task: TaskName, token: &str, response: ActivityResponse) -> Brought {
        let done = ActivityDone::from(workitem::activity_outcome(response));
        self.count(&self.counts.activities);
        let _storing = Storing::begin(self, task.task);
        loop {
            let (settled, outcome) = oneshot::channel::<()>();
            let sessions_ended = {
                let mut state = self.state();
                if state.closed {
                    return Brought::NotTaken;
                }
                state.answer(&task, token, done.clone(), settled);
                state.sessions_ended
            };
            if planted::is_on(Bug::TakenTooSoon) {
                return Brought::Taken;
            }
            let outcome = outcome.await;
            let is_settled = outcome.is_ok() || self.state().sessions_ended == sessions_ended;
            if is_settled && !self.is_closed() {
                return Brought::Taken;
            }
        }
    }

    /// A worker that comes again after it has lost its stream says which tasks it executes, by their tokens. Returns those
    /// tokens that no server of the hub has issued. The worker connects next, under the same name.
    pub async fn resume(&self, worker: &Arc<str>, tasks: Vec<(InstanceId, String)>) -> Vec<String> {
        if planted::is_on(Bug::ResumeIgnored) {
            return Vec::new();
        }
        let Some(seal) = self.seal().await else { return Vec::new() };
        let until = self.env().steady().after(self.options().reconnect_grace);
        let (mut known, mut unknown) = (Vec::new(), Vec::new());
        for (instance, token) in tasks {
            match seal.open(&instance, &token) {
                Some(sealed) => known.push((token, instance, sealed)),
                None => unknown.push(token),
            }
        }
        self.state().resume(worker, known, until);
        unknown
    }

    /// What reads tokens, when the key of the hub is known; `None` if the workers were closed before.
    async fn seal(&self) -> Option<Arc<Seal>> {
        loop {
            let known = {
                let mut state = self.state();
                if state.closed {
                    return None;
                }
                match state.seal() {
                    Ok(seal) => return Some(seal),
                    Err(known) => known,
                }
            };
            // It is dropped when the workers are closed.
            let _ = known.await;
        }
    }

    /// A worker does not want what it was given under this token: it is given back, and handed out again after a while.
    pub fn abandon(&self, token: &str) {
        let taken = {
            let mut state = self.state();
            if state.debts.cancel(token) {
                // The next turn of the instance may wait for this.
                state.tell_of_room();
            }
            // No flight may have it yet.
            state.custody.forget(&[token.to_owned()]);
            state.take(token)
        };
        let Some(dispatched) = taken else { return self.drop_answer() };
        self.count(&self.counts.abandoned);
        let _ = dispatched.tell.unbounded_send(Event::Abandoned(dispatched.stream));
    }

    /// The task is over: its answers have no effect.
    pub(crate) fn answers_dropped(&self, task: MessageId) {
        let count = {
            let mut state = self.state();
            let executed = state.custody.executed(task);
            let count = state.custody.over(task);
            // The worker has brought its answer to another server.
            executed.into_iter().for_each(|token| _ = state.take(&token));
            count
        };
        (0..count).for_each(|_| self.drop_answer());
    }

    fn drop_answer(&self) {
        self.count(&self.counts.stale);
    }

    fn dropped(&self) -> Brought {
        self.drop_answer();
        Brought::Taken
    }
}

/// An answer to a task is on its way to the store: a worker that names the task meanwhile, because it does not know that yet,
/// executes nothing.
struct Storing<'w> {
    workers: &'w Workers,
    task: MessageId,
}

impl<'w> Storing<'w> {
    fn begin(workers: &'w Workers, task: MessageId) -> Self {
        workers.state().custody.stores(task);
        Self { workers, task }
    }
}

impl Drop for Storing<'_> {
    fn drop(&mut self) {
        self.workers.state().custody.has_stored(self.task);
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
