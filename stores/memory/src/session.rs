//! One session of a memory store, for a host.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt as _;

use dauer_store::{
    Cause, Changes, Checkpoint, ClaimedTurn, Committed, Completion, Delivered, Fence, Hint, Kind, Lost, Mail,
    Queues, Refused, Release, SessionId, Slice, TaskLease, WaitingMail, Want, Work,
};

use crate::fault::Call;
use crate::shell::Shell;

/// One session in one hub of a [`crate::MemoryStore`].
pub struct MemorySession {
    shell: Shell,
    id: SessionId,
}

impl MemorySession {
    pub(crate) fn new(shell: Shell, id: SessionId) -> Self {
        Self { shell, id }
    }
}

// A claim wins items first and hands them out in the moment it answers. What is won and not handed out (a lost
// answer, a dropped future) is given to the session's next claim. The same holds for what a renewal reports as lost.
#[async_trait]
impl Work for MemorySession {
    fn session(&self) -> SessionId {
        self.id
    }

    async fn claim_turns(&self, want: Want) -> Result<Vec<ClaimedTurn>, Refused> {
        let won = self.shell.call(Call::ClaimTurns, |state| state.win_turns(self.id, &want)).await??;
        Ok(self.shell.now(|state| state.hand_out_turns(self.id, won)))
    }

    async fn await_turns(&self, want: Want) -> Result<Vec<ClaimedTurn>, Refused> {
        let mut changes = self.shell.store.subscribe(&self.shell.hub);
        while let Some(hint) = changes.next().await {
            if !matches!(hint, Hint::Ready(Kind::Orchestration | Kind::Entity)) {
                continue;
            }
            let won =
                self.shell.call(Call::ClaimTurns, |state| state.win_new_turns(self.id, &want)).await??;
            let turns = self.shell.now(|state| state.hand_out_awaited(self.id, won));
            if !turns.is_empty() {
                return Ok(turns);
            }
        }
        Err(Refused::NotExecuted(Cause::new("the hub is gone")))
    }

    async fn waiting_mail(&self) -> Result<WaitingMail, Refused> {
        self.shell.call(Call::WaitingMail, |state| state.waiting_mail(self.id)).await?
    }

    async fn mail(&self, fences: Vec<Fence>) -> Vec<Result<Mail, Refused>> {
        self.shell.batch(Call::Mail, fences, |state, fence| state.mail(self.id, &fence)).await
    }

    async fn load_history(&self, fence: &Fence, from: u32, max_bytes: usize) -> Result<Slice, Refused> {
        self.shell
            .call(Call::LoadHistory, |state| state.load_history(self.id, fence, from, max_bytes))
            .await?
    }

    async fn commit_turns(&self, batch: Vec<Arc<Checkpoint>>) -> Vec<Result<Committed, Refused>> {
        self.shell
            .batch(Call::CommitTurns, batch, |state, checkpoint| {
                state.commit(self.id, Arc::unwrap_or_clone(checkpoint))
            })
            .await
    }

    async fn claim_activities(&self, want: Want) -> Result<Vec<TaskLease>, Refused> {
        let won = self.shell.call(Call::ClaimActivities, |state| state.win_tasks(self.id, &want)).await??;
        Ok(self.shell.now(|state| state.hand_out_tasks(self.id, won)))
    }

    async fn complete_activities(&self, batch: Vec<Completion>) -> Vec<Result<Delivered, Refused>> {
        let complete = |state: &mut crate::state::State, completion| state.complete(self.id, completion);
        self.shell.batch(Call::CompleteActivities, batch, complete).await
    }

    async fn renew(&self) -> Result<Vec<Lost>, Refused> {
        self.shell.call(Call::Renew, |state| state.renew(self.id)).await??;
        Ok(self.shell.now(|state| state.report_lost(self.id)))
    }

    async fn release(&self, items: Vec<Release>) -> Vec<Result<(), Refused>> {
        self.shell.batch(Call::Release, items, |state, item| state.release(self.id, item)).await
    }

    async fn next_due(&self, queues: &Queues) -> Result<Option<Duration>, Refused> {
        self.shell.call(Call::NextDue, |state| state.next_due(self.id, queues)).await?
    }

    async fn detach(&self) -> Result<(), Refused> {
        self.shell.call(Call::Detach, |state| state.detach(self.id)).await?
    }

    fn changes(&self) -> Changes {
        self.shell.store.subscribe(&self.shell.hub)
    }
}
